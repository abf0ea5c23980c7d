"""The figure of clock relations: for each relation, the residuals of its evidence from the fitted line.

For two captures, a packet from the first to the second is above 0 by its delay, and a packet in the other
direction below 0. No point may cross 0 by more than the error, which is drawn as a band around 0; the two
envelopes connect the points nearest to 0. Simultaneous readings lie around 0. A vertical line marks a clock
step: there is a separate fitted line before and after the step.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.model.estimate import EventDirection
from multitracer.clock.model.skew_posterior import lower_hull
from multitracer.errors import InputError
from multitracer.figures.palette import THEMES
from multitracer.figures.series import Series, thin
from multitracer.figures.stack import SECONDS, Panel, figure, plain
from multitracer.units import NS_PER_S
from multitracer.words import clock_offset, time_error

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from multitracer.clock.model.estimate import Estimate
    from multitracer.clock.model.relation import Clock, Relation
    from multitracer.clock.session_clock import Clocks
    from multitracer.figures.palette import ThemeName

_MOST_PANELS = 8
_PANEL_PX = 340
_LESSER = 0.5
"""Height of a panel of readings, relative to that of packets."""
_TOP_PX = 62
"""Space above the first panel in pixels, for the buttons and a title of two lines."""
_BEFORE_THE_OFFSET = re.compile(r": (?=[+-][\d,.]+ s\b)")
_CLOSE = 4
"""Range of the initial view, as a multiple of the distance of the envelopes and the error bound from 0."""
_BOUND_BARS = 200
_BOUND, _BOUND_NAME = "clock_bound", "± 95 %"
_BAND_OPACITY = 0.3
_WORDS: dict[int, tuple[str, str, str]] = {
    EventDirection.FORWARD: ("there", "clock_out", "packets on their way there: offset and delay"),
    EventDirection.BACKWARD: ("back", "clock_back", "packets on their way back: offset less delay"),
    EventDirection.TOGETHER: ("both at once", "clock_together", "instants that both clocks stamped"),
}


def alignment_figure(clocks: Clocks, *, theme: ThemeName = "light") -> go.Figure:
    """Return the figure of all clock relations that have evidence.

    Parameters
    ----------
    clocks : Clocks
        Made with `evidence=True`.
    theme : "light" or "dark"

    Raises
    ------
    InputError
        If no relation has evidence.
    """
    shown = [r for r in clocks.graph.relations if any(e.points is not None for e in r.estimates)]
    shown = sorted(shown, key=lambda r: r.source.host == r.target.host)[:_MOST_PANELS]
    if not shown:
        raise InputError("there is no clock relation to draw; give a recording with at least two related clocks")
    panels = [_panel(number, relation) for number, relation in enumerate(shown)]
    height_px = 154 + round(_PANEL_PX * sum(panel.share for panel in panels))
    drawn = figure(panels, origin_ns=0, theme=theme, height_px=height_px)
    drawn.update_xaxes(title_text="seconds from the first evidence of each relation, by its first clock")
    for axis, (relation, panel) in enumerate(zip(shown, panels, strict=True), 1):
        _mark_steps(drawn, relation, axis, theme)
        _look_closely(drawn, panel, axis)
        names = f"{_short(relation.source)} to {_short(relation.target)}"
        drawn.update_traces({"legendgrouptitle.text": plain(names)}, {"legendgroup": panel.key})
    drawn.for_each_trace(_as_band, {"name": _BOUND_NAME})
    drawn.for_each_annotation(_in_two_lines)
    drawn.update_layout(margin_t=_TOP_PX)
    return drawn


def _in_two_lines(words: go.layout.Annotation) -> None:
    """Break a panel's title after the names of the clocks, because it is too long for one line on a phone."""
    names, *rest = _BEFORE_THE_OFFSET.split(words.text.removesuffix("</b>"), maxsplit=1)
    if rest:
        words.update(text=f'{names}</b><br><span style="font-size:11px">{rest[0]}</span>', align="left")


def _as_band(trace: go.Scatter) -> None:
    """Change the style of a trace so that its vertical bars form a shaded band."""
    times, low, high = trace.x[0::3], trace.y[0::3], trace.y[1::3]
    trace.update(
        x=np.concatenate([times, times[::-1]]),
        y=np.concatenate([low, high[::-1]]),
        fill="toself",
        line={"width": 0.5},
        opacity=_BAND_OPACITY,
        hoverinfo="skip",
        hovertemplate=None,
    )


def _look_closely(drawn: go.Figure, panel: Panel, axis: int) -> None:
    """Limit the panel's value axis to the range near the envelopes.

    Delays of full queues are up to 1000 times larger, and would hide the rest.
    """
    ends = [int(np.abs(s.value).max()) for s in panel.drawn if "envelope" in s.role or s.role == _BOUND]
    farthest = max(int(np.abs(series.value).max()) for series in panel.drawn)
    reach = _CLOSE * max(ends, default=0)
    if any("envelope" in series.role for series in panel.drawn) and farthest > reach > 0:
        drawn.layout["yaxis" if axis == 1 else f"yaxis{axis}"].range = [-reach / NS_PER_S, reach / NS_PER_S]


def _panel(number: int, relation: Relation) -> Panel:
    start = relation.estimates[0].first_ns
    parts = [(e, e.first_ns - start) for e in relation.estimates if e.points is not None]
    series = [made for each in _WORDS for made in _evidence(relation, each, start)]
    series.append(_bound(parts))
    share = 1.0 if len(series) > 3 else _LESSER
    return Panel(f"clock{number}", _title(relation), SECONDS, share, series, from_zero=False)


def _short(clock: Clock) -> str:
    """Return the name of a clock; for a file, the last two parts of its path."""
    parts = clock.host.split("/")
    return str(clock) if len(parts) == 1 else "/".join(parts[-2:])


def _title(relation: Relation) -> str:
    first = relation.estimates[0]
    drift = f", {first.skew_ppm:+.2f} ppm" if first.skew_ppm else ""
    return (
        f"{_short(relation.source)} to {_short(relation.target)}: {clock_offset(first.offset_ns)}{drift}, "
        f"± {time_error(first.uncertainty_ns)} ({relation.method})"
    )


def _evidence(relation: Relation, direction: int, start: int) -> list[Series]:
    """Return the series of residuals for one direction; for packets, also their envelope in each interval.

    A residual is the difference between the evidence and the fitted clock relation, in ns.
    """
    label, role, doc = _WORDS[direction]
    times, values, edges = [], [], []
    for estimate in relation.estimates:
        if estimate.points is None:
            continue
        here = estimate.points.direction == direction
        stamps = estimate.points.from_ns[here]
        left = estimate.points.difference_ns[here] - estimate.offset_at(stamps)
        times.append(stamps - start)
        values.append(left.astype(np.int64))
        edges.append(_envelope(times[-1], values[-1], direction))
    if not sum(map(len, times)):
        return []
    drawn = [_sorted(label, role, np.concatenate(times), np.concatenate(values), doc)]
    if direction != EventDirection.TOGETHER:
        corners = [(t, v) for t, v in edges if len(t)]
        name, words = f"envelope {label}", f"convex hull of {label}: the fastest packets"
        times, values = [list(column) for column in zip(*corners, strict=True)]
        drawn.append(_sorted(name, f"{role}_envelope", np.concatenate(times), np.concatenate(values), words))
    return [thin(series) for series in drawn]


def _envelope(time_ns: np.ndarray, value: np.ndarray, direction: int) -> tuple[np.ndarray, np.ndarray]:
    if direction == EventDirection.TOGETHER or not len(time_ns):
        return time_ns[:0], value[:0]
    corners = lower_hull(time_ns.astype(np.float64), direction * value.astype(np.float64))
    return time_ns[corners], value[corners]


def _sorted(label: str, role: str, time_ns: np.ndarray, value: np.ndarray, doc: str) -> Series:
    order = np.argsort(time_ns, kind="stable")
    return Series(label, role, time_ns[order], value[order], doc=doc)


def _bound(parts: list[tuple[Estimate, int]]) -> Series:
    """Return the 95 % confidence interval of the clock relation, as vertical bars around 0."""
    times, values = [], []
    for estimate, first in parts:
        stamps = np.linspace(0, estimate.last_ns - estimate.first_ns, _BOUND_BARS).astype(np.int64)
        times.append(first + stamps)
        values.append(np.rint(estimate.bound_ns(estimate.first_ns + stamps)).astype(np.int64))
    half = np.concatenate(values)
    order = np.argsort(np.concatenate(times), kind="stable")
    stamps = np.concatenate(times)[order]
    doc = "95 % interval of the offset"
    return Series(_BOUND_NAME, _BOUND, stamps, -half[order], until=half[order], doc=doc)


def _mark_steps(drawn: go.Figure, relation: Relation, axis: int, theme: ThemeName) -> None:
    start = relation.estimates[0].first_ns
    steps = relation.steps_ns()
    for earlier, later, step in zip(relation.estimates, relation.estimates[1:], steps, strict=False):
        at_s = ((earlier.last_ns + later.first_ns) // 2 - start) / NS_PER_S
        reference = "y domain" if axis == 1 else f"y{axis} domain"
        line = {"color": THEMES[theme].ink, "width": 1, "dash": "dash"}
        drawn.add_shape(type="line", x0=at_s, x1=at_s, y0=0, y1=1, xref="x", yref=reference, line=line)
        words = f"step {clock_offset(step)}"
        drawn.add_annotation(
            x=at_s, y=1, xref="x", yref=reference, text=words, showarrow=False, xanchor="left", yanchor="top"
        )
