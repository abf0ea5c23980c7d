"""Panels of series stacked over one time axis, as the plain dict that plotly calls a figure.

A plain dict costs a tenth of `plotly.graph_objects.Figure`, whose validation a report does not need; `figure`
makes the validated object. Every panel has its own value axis; all share the time axis, so they zoom
together. A panel without a point states why.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.figures.palette import LOOKS, THEMES, ThemeName, template
from multitracer.figures.series import BREAK, seconds_since
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from multitracer.figures.palette import Props
    from multitracer.figures.series import Series
    from multitracer.recording.capture import Capture
    from multitracer.tables import Array

BOUND_NOTE = "bound"
"""Name of a note that is valid only for the whole time; a report writes its own for each view."""

TIME_TITLE = "seconds from the start of the capture"
"""Title of the time axis for a link at real speed."""

_GAP, _GAPS = 0.055, 0.28
"""Free share of the height between two panels, and between all: of ten, half the figure would be free."""
_MOST_SHADES = 500
_SHADE_OPACITY = 0.16
_READING_PX = 3
_LOW_SHARE = 0.6
"""Share of the height below which a panel has few labels."""
_LINE_LETTERS = 100
"""Letters of a line in a figure that is 1000 pixels wide."""
_ROOM = 0.05
"""Free share of a value axis above and below what is drawn."""


class SharedAxis(NamedTuple):
    """The axis that all panels share: its title, its unit, and the format of a place on it (d3)."""

    title: str = TIME_TITLE
    unit: str = "s"
    form: str = ".6f"

    @property
    def hover(self) -> str:
        """The place in a hover text."""
        return f"%{{x:{self.form}}} {self.unit}"


TIME_AXIS = SharedAxis()


def axis_origin_ns(capture: Capture) -> int:
    """Return the time of a capture's first packet, which figures and sentences call 0; 0 without a packet."""
    return capture.tables.first_ns or 0


@dataclass(frozen=True, slots=True)
class Unit:
    """How a panel's whole numbers become an axis: `scale` times the base unit, then SI prefixes."""

    scale: float
    suffix: str
    hover: str
    """d3 format of a value in the hover text."""


BYTES = Unit(1, "B", ",d")
SECONDS = Unit(1 / NS_PER_S, "s", ".4~s")
BIT_RATE = Unit(1, "bit/s", ".4~s")
DBM = Unit(1e-3, "dBm", ".1f")
DECIBEL = Unit(1e-3, "dB", ".1f")
PERCENT = Unit(1e-3, "%", ".3~f")
METRES = Unit(1e-3, "m", ".4~s")
METRES_PER_S = Unit(1e-3, "m/s", ".3~f")
PLAIN = Unit(1e-3, "", ".3~f")


@dataclass(frozen=True, slots=True)
class Panel:
    """One value axis and what is drawn against it.

    Parameters
    ----------
    key : str
        Its name in code, for example "sequence".
    title : str
        Written above it.
    unit : Unit
        Unit of the values of its series.
    share : float
        Height, relative to the other panels.
    series : list of Series
        Empty ones are left out of the figure.
    empty : str
        The sentence to show when no series has a point: why, and what would help.
    from_zero : bool
        Whether the value axis always shows 0.
    shades : bool
        Whether its series are 1 while a state lasts, else 0, without a scale: each such interval of a rare
        series shades the background of all panels in its colour.
    """

    key: str
    title: str
    unit: Unit
    share: float
    series: list[Series] = field(default_factory=list)
    empty: str = "No data."
    from_zero: bool = True
    shades: bool = False

    @property
    def drawn(self) -> list[Series]:
        """The series that have points."""
        return [s for s in self.series if len(s)]


def figure(
    panels: list[Panel],
    *,
    origin_ns: int,
    theme: ThemeName = "light",
    height_px: int = 900,
    x_axis: SharedAxis = TIME_AXIS,
) -> go.Figure:
    """Return the panels as a plotly figure with all points of their series; parameters as `plain_figure`."""
    import plotly.graph_objects as go  # noqa: PLC0415  plotly is optional, and slow to import

    return go.Figure(
        plain_figure(panels, origin_ns=origin_ns, theme=theme, height_px=height_px, x_axis=x_axis)
    )


def plain_figure(
    panels: list[Panel],
    *,
    origin_ns: int,
    theme: ThemeName = "light",
    height_px: int = 900,
    x_axis: SharedAxis = TIME_AXIS,
) -> Props:
    """Return the panels as the dict that plotly calls a figure, with all points of their series.

    Parameters
    ----------
    panels : list of Panel
        From top to bottom.
    origin_ns : int
        The time that the axis calls 0.
    theme : "light" or "dark"
    height_px : int
    x_axis : SharedAxis
        The axis that they share.
    """
    traces = [
        style(series, panel, axis, theme=theme, x_axis=x_axis) | points(series, panel.unit, origin_ns)
        for axis, panel in enumerate(panels, 1)
        for series in panel.drawn
    ] + placeholders(panels)
    shared = layout(panels, origin_ns=origin_ns, theme=theme, x_axis=x_axis)
    return {"data": traces, "layout": shared | {"height": height_px}}


def plain(text: str) -> str:
    """Return text that plotly shows as it is: it renders some HTML tags, and a host's name may hold them."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def style(
    series: Series, panel: Panel, axis: int, *, theme: ThemeName, x_axis: SharedAxis = TIME_AXIS
) -> Props:
    """Return a trace without its points: type, axis, look and hover text."""
    look = LOOKS[series.role]
    colour = look.colour(theme)
    trace: Props = {
        "type": "scatter",
        "name": plain(series.label),
        "legendgroup": panel.key,
        "legendgrouptitle": {"text": panel.title},
        "yaxis": "y" if axis == 1 else f"y{axis}",
        "hovertemplate": _hover(series, panel.unit, x_axis),
    }
    if look.mark == "points":
        open_stroke = {"line": {"width": 1.6, "color": colour}} if look.symbol != "circle" else {}
        marker = {"color": colour, "size": look.size_px, "symbol": look.symbol, **open_stroke}
        return trace | {"mode": "markers", "marker": marker}
    line = {"color": colour, "width": look.size_px, "dash": look.dash}
    if look.mark == "step":
        line["shape"] = "hv"
    if panel.shades:
        trace |= {
            "fill": "tozeroy",
            "fillcolor": colour,
            "hovertemplate": f"{x_axis.hover}<extra>%{{fullData.name}}</extra>",
        }
    if series.role.startswith("radio_"):  # a reading between two gaps would be no line
        marker = {"color": colour, "size": _READING_PX, "symbol": "circle"}
        return trace | {"mode": "lines+markers", "line": line, "marker": marker}
    return trace | {"mode": "lines", "line": line}


def placeholders(panels: list[Panel]) -> list[Props]:
    """Return a trace without points for each empty panel; plotly draws no axis that no trace uses."""
    blank = {"type": "scatter", "x": [None], "y": [None], "showlegend": False, "hoverinfo": "skip"}
    return [
        blank | {"yaxis": "y" if axis == 1 else f"y{axis}"}
        for axis, panel in enumerate(panels, 1)
        if not panel.drawn
    ]


def _hover(series: Series, unit: Unit, x_axis: SharedAxis) -> str:
    ends = [f"%{{y:{unit.hover}}}{'' if unit.scale != 1 or unit.suffix == 'bit/s' else ' '}{unit.suffix}"]
    if series.frame is not None:
        ends.append("%{customdata}")
    return f"<b>{plain(series.label)}</b><br>{x_axis.hover}<br>" + "<br>".join(ends) + "<extra></extra>"


def points(series: Series, unit: Unit, origin_ns: int) -> Props:
    """Return the `x`, `y` and `customdata` of a trace: seconds, axis values, and the frame of each point."""
    seconds = seconds_since(series.time_ns, origin_ns)
    value = np.where(series.value == BREAK, np.nan, series.value * unit.scale)
    frames = frame_words(series)
    if series.until is None:
        return {"x": seconds, "y": value} | ({} if frames is None else {"customdata": frames})
    low_high_gap = np.column_stack([value, series.until * unit.scale, np.full(len(series), np.nan)]).ravel()
    bars = {"x": np.repeat(seconds, 3), "y": low_high_gap}
    return bars | ({} if frames is None else {"customdata": np.repeat(frames, 3)})


def frame_words(series: Series) -> Array | None:
    """Return "frame 1234" of each point, with its answer and its file where it has them.

    Returns
    -------
    ndarray of str, shape (n_points,), or None
        None for a series without frames.
    """
    if series.frame is None:
        return None
    words = np.char.add("frame ", series.frame.astype("U"))
    if series.answer is not None:
        words = np.char.add(np.char.add(words, ", answered by "), series.answer.astype("U"))
    if series.file is None or not bool(np.any(series.file)):
        return words
    return np.char.add(np.char.add(words, " of file "), (series.file.astype(int) + 1).astype("U"))


def layout(panels: list[Panel], *, origin_ns: int, theme: ThemeName, x_axis: SharedAxis = TIME_AXIS) -> Props:
    """Return the layout: one shared axis, an axis of values per panel, titles, shades, why one is empty."""
    frame: Props = {
        "template": {"layout": template(theme)},
        "hovermode": "closest",
        "dragmode": "zoom",
        "margin": {"l": 76, "r": 16, "t": 28, "b": 44},
        "legend": {"groupclick": "toggleitem", "tracegroupgap": 14},
        "annotations": [],
        "shapes": [shape for panel in panels if panel.shades for shape in _shades(panel, origin_ns, theme)],
        "xaxis": {
            "anchor": "y" if len(panels) == 1 else f"y{len(panels)}",
            "title": {"text": x_axis.title, "standoff": 8},
            "showspikes": True,
            "spikemode": "across",
            "spikethickness": 1,
            "spikedash": "dot",
            "spikecolor": THEMES[theme].muted,
            "showgrid": True,
        },
    }
    for axis, (panel, domain) in enumerate(zip(panels, _domains(panels), strict=True), 1):
        frame["yaxis" if axis == 1 else f"yaxis{axis}"] = _value_axis(panel, domain)
        frame["annotations"] += _words(panel, axis, theme)
    return frame


def _domains(panels: list[Panel]) -> list[list[float]]:
    gap = min(_GAP, _GAPS / max(len(panels) - 1, 1))
    free = 1 - gap * (len(panels) - 1)
    total = sum(panel.share for panel in panels)
    top, domains = 1.0, []
    for panel in panels:
        bottom = max(0.0, top - free * panel.share / total)
        domains.append([bottom, top])
        top = bottom - gap
    return domains


def _value_axis(panel: Panel, domain: list[float]) -> Props:
    return {
        "domain": domain,
        "anchor": "x",
        "tickformat": "~s",
        "ticksuffix": panel.unit.suffix,
        "range": value_range(panel),
        "nticks": 8 if panel.share > 1 else 5 if panel.share > _LOW_SHARE else 3,
        "showticklabels": bool(panel.drawn),
        **({"visible": False, "range": [0, 1]} if panel.shades else {}),
    }


def _shades(panel: Panel, origin_ns: int, theme: ThemeName) -> list[Props]:
    """Return a rectangle for each interval in which a series of the panel is 1.

    The longest if there are many.
    """
    shapes = []
    for series in (s for s in panel.drawn if s.rare):
        begins = np.flatnonzero(series.value[:-1] == 1)
        seconds = seconds_since(series.time_ns, origin_ns)
        colour = LOOKS[series.role].colour(theme)
        shapes += [
            _shade(begin, end, colour)
            for begin, end in zip(seconds[begins], seconds[begins + 1], strict=True)
        ]
    return sorted(shapes, key=lambda shape: shape["x0"] - shape["x1"])[:_MOST_SHADES]


def _shade(begin_s: float, end_s: float, colour: str) -> Props:
    return {
        "type": "rect",
        "layer": "below",
        "xref": "x",
        "yref": "paper",
        "x0": float(begin_s),
        "x1": float(end_s),
        "y0": 0,
        "y1": 1,
        "fillcolor": colour,
        "opacity": _SHADE_OPACITY,
        "line": {"width": 0},
    }


def value_range(panel: Panel) -> list[float] | None:
    """Return the range that shows a panel's series, and its bounds unless they would squash the rest.

    That is when one reaches more than twice as high, or three times where the axis begins at 0.
    `points/panel.js` does the same for each view.
    """
    ends = [_extremes(series) for series in panel.drawn if not series.bound]
    bounds = [_extremes(series) for series in panel.drawn if series.bound]
    if not ends and not bounds:
        return None
    low, high = min(e[0] for e in ends or bounds), max(e[1] for e in ends or bounds)
    low = min(low, 0) if panel.from_zero else low
    most = high + (2 if panel.from_zero else 1) * (high - low) if high > low else np.inf
    high = max([high, *(bound[1] for bound in bounds if bound[1] <= most)])
    room = max((high - low) * _ROOM, 1)
    bottom = low if panel.from_zero and low == 0 else low - room
    return [float(bottom * panel.unit.scale), float((high + room) * panel.unit.scale)]


def _extremes(series: Series) -> tuple[int, int]:
    value = series.value[series.is_drawn]
    columns = [value] if series.until is None else [value, series.until]
    return min(int(c.min()) for c in columns), max(int(c.max()) for c in columns)


def _words(panel: Panel, axis: int, theme: ThemeName) -> list[Props]:
    """Return the title above a panel and, if the panel is empty, the reason to print in it."""
    reference = "y" if axis == 1 else f"y{axis}"
    base = {"xref": "paper", "yref": f"{reference} domain", "showarrow": False}
    title = base | {
        "x": 0,
        "y": 1,
        "xanchor": "left",
        "yanchor": "bottom",
        "text": f"<b>{plain(panel.title)}</b>",
    }
    if panel.shades and panel.drawn:
        return [title, *([_key(panel, base, theme)] if _fits_in_a_line(panel) else [])]
    if panel.drawn:
        return [title, *_bounds_above(panel, base)]
    muted = {"color": THEMES[theme].muted}
    return [title, base | {"x": 0.5, "y": 0.5, "text": plain(panel.empty), "font": muted, "name": "empty"}]


def _fits_in_a_line(panel: Panel) -> bool:
    """Return whether the names of a panel's series fit below it; otherwise the legend alone has them."""
    return sum(len(series.label) + 3 for series in panel.drawn) <= _LINE_LETTERS


def _key(panel: Panel, base: Props, theme: ThemeName) -> Props:
    """Return the names of what the panel shows, below it, each with its colour."""
    names = [
        f'<span style="color:{LOOKS[series.role].colour(theme)}">■</span> {plain(series.label)}'
        for series in panel.drawn
    ]
    place = {"x": 1, "y": 0, "xanchor": "right", "yanchor": "top", "name": "key"}
    return base | place | {"text": "  ".join(names)}


def _bounds_above(panel: Panel, base: Props) -> list[Props]:
    """Return a note on the bounds that leave the picture at its top."""
    top = (value_range(panel) or [0, 0])[1] / panel.unit.scale
    names = [series.label for series in panel.drawn if series.bound and _extremes(series)[1] > top]
    if not names:
        return []
    place = {"x": 1, "y": 1, "xanchor": "right", "yanchor": "bottom", "name": BOUND_NOTE}
    return [base | place | {"text": plain(f"{', '.join(names)} goes on above")}]
