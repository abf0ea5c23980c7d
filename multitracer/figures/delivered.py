"""Delivered packets and rate of each flow, of one or several recordings (paper 001, figures 3 to 6).

If there is one recording, or one flow in each recording, each flow has its own colour and dash. Otherwise the
position of a flow in its recording determines the colour, and the recording determines the dash.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.deliveries import rate_curve
from multitracer.errors import InputError
from multitracer.figures.palette import TRANSPORTS
from multitracer.figures.sheet import SheetPanel, axis_name, sheet
from multitracer.figures.stack import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import plotly.graph_objects as go

    from multitracer.figures.palette import Props, SeriesStyle, ThemeName
    from multitracer.recording.deliveries import FlowCurve
    from multitracer.tables import Array

_HEIGHT_PX = 400
_MOST_POINTS = 2000
"""Maximum points of a curve: two for each pixel of a wide screen."""
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_WINDOWS = 50
"""The default window is the displayed time divided by this number, rounded up to a round number of seconds."""
_ROUND = tuple(digit * 10.0**power for power in range(7) for digit in (1, 2, 5))


class _Axes(NamedTuple):
    """Texts of a panel, and the shape of the lines between its points."""

    title: str
    unit: str
    shape: str
    empty: str


def delivered_figure(
    sessions: Sequence[Sequence[FlowCurve]], *, empty: str = "", theme: ThemeName = "light"
) -> go.Figure:
    """Return the figure of the packets delivered by each flow over time; the hover text has the bytes.

    Parameters
    ----------
    sessions : sequence of sequence of FlowCurve
        Curves of each recording.
    empty : str
        Why there is no curve, if there is none.
    theme : "light" or "dark"
    """
    return _drawn(sessions, [(_Axes("Delivered packets", "packets", "hv", empty), _steps)], theme)


def rates_figure(
    sessions: Sequence[Sequence[FlowCurve]],
    *,
    window_s: float | None = None,
    empty: str = "",
    theme: ThemeName = "light",
) -> go.Figure:
    """Return the rate of each flow over a moving window that ends at each time.

    If acknowledgments of WTCP command a rate, a second panel has this sending rate, in packets per second.

    Parameters
    ----------
    sessions : sequence of sequence of FlowCurve
        Curves of each recording.
    window_s : float, optional
        Length of the window in link seconds, > 0; by default `default_window_s`.
    empty : str
        Why there is no curve, if there is none.
    theme : "light" or "dark"

    Raises
    ------
    InputError
        If the window is not above 0.
    """
    window_s = default_window_s(sessions) if window_s is None else window_s
    if not 0 < window_s < math.inf:
        raise InputError(f'"window_s" must be a number of seconds above 0, but is {window_s}')

    def points(curve: FlowCurve) -> Props:
        x, y = rate_curve(curve.time_s, curve.new_bytes, window_s, curve.until_s)
        return {"x": x, "y": y, "hovertemplate": "%{y:,.0f} bit/s at %{x:.1f} s"}

    title = f"Delivered payload in the last {window_s:g} s, as a rate"
    panels = [(_Axes(title, "bit/s", "linear", empty), points)]
    if any(len(curve.commanded_s) for flows in sessions for curve in flows):
        commanded = _Axes("Sending rate that the receiver's acknowledgments command", "packets/s", "hv", "")
        panels.append((commanded, _commanded))
    return _drawn(sessions, panels, theme)


def _commanded(curve: FlowCurve) -> Props:
    x, y = curve.commanded_s, curve.commanded_packets_per_s
    steps = np.flatnonzero(np.append(True, np.diff(y) != 0)[: len(y)])
    rows = steps[_thinned(len(steps))]
    ends = ([max(curve.until_s, x[-1])], y[-1:]) if len(y) else ([], [])
    return {
        "x": np.concatenate([x[rows], ends[0]]),
        "y": np.concatenate([y[rows], ends[1]]),
        "hovertemplate": "%{y:.2f} packets/s from %{x:.1f} s on",
    }


def default_window_s(sessions: Sequence[Sequence[FlowCurve]]) -> float:
    """Return the default window of `rates_figure` in s: a round number, at least 1/50 of the time."""
    until_s = max((curve.until_s for flows in sessions for curve in flows), default=0.0)
    return next((number for number in _ROUND if number >= until_s / _WINDOWS), _ROUND[-1])


def _drawn(
    sessions: Sequence[Sequence[FlowCurve]],
    panels: Sequence[tuple[_Axes, Callable[[FlowCurve], Props]]],
    theme: ThemeName,
) -> go.Figure:
    names = _names(sessions)
    traces = []
    for at, (axes, points) in enumerate(panels, 1):
        for number, flows in enumerate(sessions):
            for place, curve in enumerate(flows):
                look, dash = _style(sessions, number, place)
                name = plain(names[number][place])
                line = {"color": look.colour(theme), "width": look.size_px, "dash": dash, "shape": axes.shape}
                trace = {"type": "scatter", "mode": "lines", "name": name, "line": line, "legendgroup": name}
                drawn = points(curve)
                hover = f"<b>{name}</b><br>{drawn.pop('hovertemplate')}<extra></extra>"
                own = {"xaxis": axis_name("x", at), "yaxis": axis_name("y", at), "showlegend": at == 1}
                traces.append(trace | drawn | own | {"hovertemplate": hover})
    empty = "" if traces else panels[0][0].empty or "No flow was recorded."
    return sheet([_panel(axes, empty) for axes, _ in panels], traces, theme=theme)


def _panel(axes: _Axes, empty: str) -> SheetPanel:
    x_axis: Props = {"title": {"text": "s since the first packet", "standoff": 4}, "rangemode": "tozero"}
    y_axis: Props = {"title": {"text": axes.unit}, "rangemode": "tozero"}
    return SheetPanel(axes.title, _HEIGHT_PX, x_axis, y_axis, empty)


def _style(sessions: Sequence[Sequence[FlowCurve]], number: int, place: int) -> tuple[SeriesStyle, str]:
    """Return the style of a flow, and its dash; the flow has index `place` in recording `number`."""
    if max(map(len, sessions)) == 1:
        return TRANSPORTS[number % len(TRANSPORTS)], _DASHES[number % len(_DASHES)]
    again = place if len(sessions) == 1 else number
    return TRANSPORTS[place % len(TRANSPORTS)], _DASHES[again % len(_DASHES)]


def _names(sessions: Sequence[Sequence[FlowCurve]]) -> list[list[str]]:
    """Return the legend name of each flow; equal names get the name of the recording appended."""
    short = [[f"{curve.transport}, {curve.flow}" for curve in flows] for flows in sessions]
    often = Counter(name for names in short for name in names)
    if max(often.values(), default=0) < 2:
        return short
    return [
        [f"{curve.session}: {name}" for curve, name in zip(flows, names, strict=True)]
        for flows, names in zip(sessions, short, strict=True)
    ]


def _steps(curve: FlowCurve) -> Props:
    """Return the trace of a flow: total packets and bytes, from the first delivery to the recording's end."""
    count = len(curve.time_s)
    rows = _thinned(count)
    total = np.cumsum(curve.new_bytes)
    return {
        "x": _from_first_to_last(curve.time_s[rows], curve),
        "y": np.concatenate([[0], rows + 1, [count]]),
        "customdata": np.concatenate([[0], total[rows], total[-1:] if count else [0]]),
        "hovertemplate": "%{y:,} packets, %{customdata:,} bytes after %{x:.1f} s",
    }


def _thinned(count: int) -> Array:
    """Return the indices of at most `_MOST_POINTS` of `count` points, with the first and the last."""
    return np.unique(np.linspace(0, max(count - 1, 0), min(count, _MOST_POINTS)).astype(np.int64))


def _from_first_to_last(time_s: Array, curve: FlowCurve) -> Array:
    """Return the times of a curve in s, with the first time twice and the end of the recording added."""
    first_s = curve.time_s[0] if len(curve.time_s) else curve.until_s
    return np.concatenate([[first_s], time_s, [max(curve.until_s, first_s)]])
