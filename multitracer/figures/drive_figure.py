"""Figures of a drive: radio and route over time or distance, for a recording without packets; and around handovers.

Over distance, a point is drawn at the position of the vehicle at the time of the point (`Route.at`). Points
with an unknown position are not drawn: lines are interrupted there, and the axis title gives their number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.errors import InputError
from multitracer.figures.environment import radio_context_panels
from multitracer.figures.palette import LOOKS
from multitracer.figures.series import BREAK, thin
from multitracer.figures.sheet import SheetPanel, sheet
from multitracer.figures.stack import SharedAxis, figure, plain
from multitracer.figures.stacked import WHOLE, StackedView, chosen_panels
from multitracer.figures.time_sequence import cut
from multitracer.words import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    import plotly.graph_objects as go

    from multitracer.analysis.mobility.route import Route
    from multitracer.figures.palette import Props, ThemeName
    from multitracer.figures.series import Series
    from multitracer.figures.stack import Panel
    from multitracer.recording.radio_context import RadioContext
    from multitracer.tables import Array, Table, Times

TIME_TITLE = "seconds from the first reading"
_PANEL_PX = 190
"""Height in pixels of a panel whose `share` is 1."""
_MIN_PX = 320
_EPOCHS_PX, _COUNT_PX = 340, 90
_BAND_OPACITY = 0.22


def drive_panels(radio_context: RadioContext, view: StackedView = WHOLE) -> list[Panel]:
    """Return the panels of radio and route with all points of a view.

    Raises
    ------
    InputError
        If the recording has no data to draw, or no series has a requested label.
    """
    panels = radio_context_panels(radio_context)
    if not panels:
        name = radio_context.recording.name
        what = radio_context.placeless or "no reading of radio or position to draw"
        raise InputError(f"{name}: this recording contains no packet, and {what}")
    return cut(chosen_panels(panels, view.labels), view.from_ns, view.to_ns)


def drive_figure(
    radio_context: RadioContext,
    view: StackedView = WHOLE,
    *,
    panels: list[Panel] | None = None,
    distance: bool = False,
    theme: ThemeName = "light",
) -> go.Figure:
    """Return the figure of radio and route; its axis begins at the first reading or at the route's begin.

    Parameters
    ----------
    radio_context : RadioContext
    view : StackedView
    panels : list of Panel, optional
        Panels of this view, if the caller already has them; the function thins them in place.
    distance : bool
        Draw over the distance along the route instead of time.
    theme : "light" or "dark"

    Raises
    ------
    InputError
        If `drive_panels` raises it, or if there is no route for a figure over distance.
    """
    origin_ns = radio_context.first_ns or 0
    if panels is None:
        panels = drive_panels(radio_context, view)
    if distance:
        return figure_over_distance(over_distance(panels, radio_context.route), theme=theme)
    for panel in panels:
        panel.series[:] = [thin(series) for series in panel.series]
    drawn = figure(panels, origin_ns=origin_ns, theme=theme, height_px=_height_px(panels))
    return drawn.update_xaxes(title_text=TIME_TITLE)


def figure_over_distance(shown: OverDistance, *, theme: ThemeName = "light") -> go.Figure:
    """Return the figure of panels over the distance along the route."""
    for panel in shown.panels:
        panel.series[:] = [thin(series) for series in panel.series]
    height_px = _height_px(shown.panels)
    return figure(shown.panels, origin_ns=0, theme=theme, height_px=height_px, x_axis=shown.axis)


def _height_px(panels: list[Panel]) -> int:
    return max(_MIN_PX, round(_PANEL_PX * sum(panel.share for panel in panels)))


_TICKS_PER_M = 1_000_000
"""Ticks of the distance axis in a metre: 10^9 ticks are a kilometre, as 10^9 ns are a second."""
LEVEL = "zero_level"
"""Role of the constant series at the level without a signal; it contains no measurements."""
WITHOUT_DISTANCE = frozenset({"sequence", "phase", "travelled"})
"""Keys of the panels that have no meaning over distance: bytes and phases of a transfer, and the distance itself."""


@dataclass(frozen=True)
class OverDistance:
    """Panels whose horizontal axis is the distance along the route.

    Attributes
    ----------
    panels : list of Panel
        Panels whose times are distances from the begin of the route, in micrometres.
    points, unplaced : int
        Number of points in total, and of points whose position is not known.
    """

    panels: list[Panel]
    points: int
    unplaced: int

    @property
    def axis(self) -> SharedAxis:
        """The axis of distance; its title gives the number of points that are not drawn."""
        share = f"{self.unplaced:,} of {count(self.points, 'point')}"
        missing = f" ({share} not drawn: their place is not known)" if self.unplaced else ""
        return SharedAxis(f"kilometres along the route{missing}", "km", ".3f")


def over_distance(
    panels: Sequence[Panel], route: Route | None, *, speed: float = 1, origin_ns: int = 0
) -> OverDistance:
    """Return the panels over distance, without panels that have no meaning over distance.

    Parameters
    ----------
    panels : sequence of Panel
    route : Route or None
    speed, origin_ns : float, int
        Conversion of the panels' link time: `speed` link seconds pass in a recorded second; both times are
        equal at `origin_ns`.

    Raises
    ------
    InputError
        If there is no route, or no panel has a point on it.
    """
    if route is None or not route.length_m > 0:
        raise InputError("distance axis: the recording holds no route; draw over time, or add a log of GPS")
    chunks = _Chunks(route, speed, origin_ns)
    kept = [panel for panel in panels if panel.key not in WITHOUT_DISTANCE]
    points = unplaced = 0
    for i, panel in enumerate(kept):
        if not panel.shades:
            read = [series for series in panel.series if series.role != LEVEL]
            known = [chunks.known(series.time_ns[series.is_drawn]) for series in read]
            points += sum(len(each) for each in known)
            unplaced += sum(int((~each).sum()) for each in known)
        place = chunks.strip if panel.shades else chunks.placed
        kept[i] = replace(panel, series=[each for s in panel.series if len(each := place(s))])
    kept = [panel for panel in kept if any(series.role != LEVEL for series in panel.series)]
    if not any(not panel.shades for panel in kept):
        raise InputError("distance axis: of no point of these series the place is known; draw over time")
    return OverDistance(kept, points, unplaced)


class _Chunks:
    """The parts of a route between its gaps; within a part the position is known at all times."""

    def __init__(self, route: Route, speed: float, origin_ns: int) -> None:
        time_ns = route.table["time_ns"]
        first = np.append(0, np.flatnonzero(route.table["gap"] != ""))
        first = np.unique(first)
        self._begin = time_ns[first]
        self._end = time_ns[np.append(first[1:], len(time_ns)) - 1]
        self._route, self._speed, self._origin_ns = route, speed, origin_ns

    def _recorded(self, time_ns: Times) -> Times:
        if self._speed == 1:
            return time_ns
        return np.rint(self._origin_ns + (time_ns - self._origin_ns) / self._speed).astype(np.int64)

    def _chunk(self, recorded: Times) -> Array:
        return np.asarray(np.searchsorted(self._begin, recorded, side="right") - 1)

    def known(self, time_ns: Times) -> Array:
        """Return a mask of the times at which the position is known: bool, shape of `time_ns`."""
        recorded = self._recorded(time_ns)
        chunk = self._chunk(recorded)
        return np.asarray((chunk >= 0) & (recorded <= self._end[chunk]))

    def _ticks(self, recorded: Times) -> Array:
        """Return the distance from the start of the route at times within its parts, in micrometres."""
        metres = np.maximum.accumulate(self._route.at(recorded).distance_m)
        return np.asarray(np.rint(metres * _TICKS_PER_M).astype(np.int64))

    def placed(self, series: Series) -> Series:
        """Return the series over distance; its line is interrupted where the position is not known."""
        if series.role == LEVEL:
            ends = np.rint(self._route.table["distance_m"][[0, -1]] * _TICKS_PER_M).astype(np.int64)
            return replace(series, time_ns=ends, value=series.value[[0, -1]])
        index = np.flatnonzero(self.known(series.time_ns))
        recorded = self._recorded(series.time_ns[index])
        chunk = self._chunk(recorded)
        kept = replace(series.take(index), time_ns=self._ticks(recorded))
        if LOOKS[series.role].mark not in ("line", "step") or len(index) < 2:
            return kept
        breaks = np.flatnonzero((np.diff(index) > 1) | (np.diff(chunk) > 0)) + 1
        complete = kept.take(np.insert(np.arange(len(kept)), breaks, breaks - 1))
        value = complete.value.copy()
        value[breaks + np.arange(len(breaks))] = BREAK
        return replace(complete, value=value)

    def strip(self, series: Series) -> Series:
        """Return a series of intervals as intervals of distance.

        Parts without a known position are cut off.
        """
        begin, end = self._recorded(series.time_ns[::2]), self._recorded(series.time_ns[1::2])
        first = np.searchsorted(self._end, begin, side="left")
        last = np.searchsorted(self._begin, end, side="right")
        times = np.maximum(last - first, 0)
        pair = np.repeat(np.arange(len(begin)), times)
        chunk = np.arange(len(pair)) - np.repeat(np.cumsum(times) - times, times) + first[pair]
        both = np.column_stack([np.maximum(begin[pair], self._begin[chunk]), np.minimum(end[pair], self._end[chunk])])
        value = np.tile([1, 0], len(both)).astype(np.int64)
        return replace(series, time_ns=self._ticks(both.ravel()), value=value)


# A quantity around handovers: mean and median by time since the handover.


def epochs_figure(epochs: Table, *, title: str, unit: str, theme: ThemeName = "light") -> go.Figure:
    """Return the figure: the quantity in the upper panel, the number of handovers in each bin in the lower.

    Parameters
    ----------
    epochs : Table
        EPOCHS.
    title, unit : str
        Name and unit of the quantity.
    theme : "light" or "dark"
    """
    facts = epochs.provenance
    left = sum(facts["left_out"].values())
    more = f"{facts['handovers']} handovers; shaded: 95 % of the mean (bootstrap over handovers)"
    more += f"; {left} left out, their time is not known to {facts['certain_s']:g} s" if left else ""
    known = np.isfinite(epochs["mean"]).any()
    x = {"title": {"text": "seconds since the handover", "standoff": 6}, "zeroline": True}
    y = {"title": {"text": unit}, "tickformat": "~s", "rangemode": "tozero"}
    empty = "" if known else "No handover has a value of this quantity near it."
    cells = [
        SheetPanel(f"{plain(title)} around handovers", _EPOCHS_PX, {}, y, empty, shapes=[_instant()], more=more),
        SheetPanel("Handovers with a value", _COUNT_PX, x, {"rangemode": "tozero", "nticks": 3}, own_x=True),
    ]
    traces = [*(_lines(epochs, theme) if known else []), _counts(epochs, theme)]
    return sheet(cells, traces, theme=theme)


def _instant() -> Props:
    return {"type": "line", "x0": 0, "x1": 0, "xref": "x", "yref": "y domain", "y0": 0, "y1": 1,
            "line": {"width": 1, "dash": "dot"}}  # fmt: skip


def _lines(epochs: Table, theme: ThemeName) -> list[Props]:
    middle = (epochs["begin_s"] + epochs["end_s"]) / 2
    mean, median = LOOKS["goodput"].colour(theme), LOOKS["rto"].colour(theme)
    band = np.isfinite(epochs["mean_low"]) & np.isfinite(epochs["mean_high"])
    common = {"type": "scatter", "mode": "lines", "xaxis": "x", "yaxis": "y"}
    edge = common | {"line": {"width": 0}, "showlegend": False, "hoverinfo": "skip"}
    return [
        edge | {"x": middle[band], "y": epochs["mean_low"][band]},
        edge | {"x": middle[band], "y": epochs["mean_high"][band], "fill": "tonexty",
                "fillcolor": _faint(mean)},
        common | {"name": "mean", "x": middle, "y": epochs["mean"], "line": {"color": mean, "width": 2}},
        common | {"name": "median", "x": middle, "y": epochs["median"],
                  "line": {"color": median, "width": 1.5, "dash": "dash"}},
    ]  # fmt: skip


def _faint(colour: str) -> str:
    """Return a colour as rgba text with low opacity."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{_BAND_OPACITY})"


def _counts(epochs: Table, theme: ThemeName) -> Props:
    middle = (epochs["begin_s"] + epochs["end_s"]) / 2
    colour = LOOKS["throughput"].colour(theme)
    return {"type": "bar", "name": "handovers", "x": middle, "y": epochs["n"], "xaxis": "x2", "yaxis": "y2",
            "marker": {"color": colour}, "showlegend": False}  # fmt: skip
