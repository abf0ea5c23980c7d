"""The distribution of the RTT, a panel for each size, all transports in it: paired CDFs.

A curve ends at the share that was not dropped; a diamond stands there if that is not all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.transports import compare, pairs
from multitracer.figures.rtt_size import looks_of, on_cell
from multitracer.figures.sheet import Cell, Sheet
from multitracer.figures.stack import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    import plotly.graph_objects as go

    from multitracer.analysis.transports import Arm
    from multitracer.figures.palette import Look, Props, ThemeName
    from multitracer.tables import Array

_PANEL_PX = 170
_MOST_PANELS = 24
_MOST_POINTS = 400
_COLUMNS = 3
_ROOM = 1.15
_TICKS = [digit * 10.0**power for power in range(-6, 6) for digit in (1, 2, 5)]


def cdf_figure(arms: Sequence[Arm], *, theme: ThemeName = "light") -> go.Figure:
    """Return the figure, smallest size first; at most 24 panels.

    Parameters
    ----------
    arms : sequence of Arm
    theme : "light" or "dark"
    """
    return cdf_sheet(arms, theme=theme).figure()


def cdf_sheet(arms: Sequence[Arm], *, theme: ThemeName = "light") -> Sheet:
    """Return what `cdf_figure` draws."""
    groups = {
        (a.vary, a.other_bytes): [b for b in arms if (b.vary, b.other_bytes) == (a.vary, a.other_bytes)]
        for a in arms
    }
    panels = [
        (vary, size, [arm for arm in group if size in arm.sizes])
        for (vary, _), group in groups.items()
        for size in sorted({size for arm in group for size in arm.sizes})
    ][:_MOST_PANELS]
    if not panels:
        return Sheet([Cell("RTT", _PANEL_PX, empty="No transaction was recorded.")], [], theme)
    looks = {arm.name: look for arm, look in zip(arms, looks_of(arms), strict=True)}
    words = _gaps(arms)
    cells, traces, seen = [], [], set()
    for number, (vary, size, here) in enumerate(panels, 1):
        cells.append(_cell(vary, size, here, words.get((vary, size), ""), number, several=len(groups) > 1))
        for arm in here:
            shown = arm.name not in seen
            seen.add(arm.name)
            traces += _curve(arm, size, looks[arm.name], theme, number, shown=shown)
    cells[0].x["range"] = _reach(arms)
    return Sheet(cells, traces, theme, min(_COLUMNS, len(cells)))


def _gaps(arms: Sequence[Arm]) -> dict[tuple[str, int], str]:
    """Return the comparison of two arms at a size: ratio of medians, and the farthest vertical distance."""
    gaps = {}
    if len({arm.name for arm in arms}) == 2:
        for first, second in pairs(arms):
            for row in compare(first, second).rows():
                ratio = f"ratio {row['ratio']:.2f}" if np.isfinite(row["ratio"]) else "no ratio"
                gaps[first.vary, row["size_bytes"]] = f": {ratio}, {abs(row['cdf_gap']):.2f} apart"
    return gaps


def _reach(arms: Sequence[Arm]) -> list[float] | None:
    """Return the decades that all panels show, with a margin; None if no transaction finished."""
    rtts = [arm.rtt_s(arm.table) for arm in arms]
    done = [value for each in rtts for value in each[np.isfinite(each) & (each > 0)].tolist()]
    return [float(np.log10(min(done) / _ROOM)), float(np.log10(max(done) * _ROOM))] if done else None


def _cell(vary: str, size: int, here: Sequence[Arm], gap: str, number: int, *, several: bool) -> Cell:
    rtts = [arm.rtt_s(arm.at(size)) for arm in here]
    x_axis: Props = {
        "type": "log",
        "title": {"text": "RTT, s", "standoff": 4},
        "tickvals": _TICKS,
    }
    if number > 1:
        x_axis["matches"] = "x"
    y_axis = {"range": [-0.02, 1.04], "tickvals": [0, 0.5, 1]} | (
        {"title": {"text": "share"}} if number == 1 else {}
    )
    empty = "" if any(np.isfinite(each).any() for each in rtts) else "All transactions were dropped."
    return Cell(f"{size} bytes{f', {vary}' if several else ''}{gap}", _PANEL_PX, x_axis, y_axis, empty)


def _curve(arm: Arm, size: int, look: Look, theme: ThemeName, number: int, *, shown: bool) -> list[Props]:
    every = np.sort(arm.rtt_s(arm.at(size)))
    finished = every[np.isfinite(every)]
    lost = len(every) - len(finished)
    x, share = _thinned(finished, len(every))
    axes = on_cell(number) | {"legendgroup": plain(arm.name)}
    colour = look.colour(theme)
    curve = {
        "type": "scatter",
        "mode": "lines",
        "name": plain(arm.name),
        "showlegend": shown,
        "x": x,
        "y": share,
        "line": {"color": colour, "width": 1.8, "shape": "hv", "dash": look.dash},
        "hovertemplate": f"<b>{plain(arm.name)}</b><br>%{{y:.1%}} within %{{x:.3g}} s<extra></extra>",
    }
    if not lost or not len(finished):
        return [curve | axes]
    end = {
        "type": "scatter",
        "mode": "markers",
        "name": f"{plain(arm.name)}: dropped",
        "showlegend": False,
        "x": x[-1:],
        "y": share[-1:],
        "marker": {"color": colour, "size": 9, "symbol": "diamond-open", "line": {"width": 1.6}},
        "hovertemplate": f"<b>{plain(arm.name)}</b><br>{lost} of {len(every)} dropped<extra></extra>",
    }
    return [curve | axes, end | axes]


def _thinned(finished: Array, count: int) -> tuple[Array, Array]:
    """Return up to 400 corners of a CDF, the first at share 0 and the last kept."""
    if not len(finished):
        return finished, finished
    rows = np.unique(np.linspace(0, len(finished) - 1, min(_MOST_POINTS, len(finished))).astype(np.int64))
    return np.append(finished[:1], finished[rows]), np.append(0.0, (rows + 1) / count)
