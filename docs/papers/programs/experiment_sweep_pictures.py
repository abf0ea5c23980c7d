"""The pictures of experiments_sweep.md; `python -m docs.papers.programs.experiments draw` draws them."""

from __future__ import annotations

import math
from functools import partial
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from docs.papers.programs import experiment_segments
from docs.papers.programs.experiment_sweep import BUSY, BUSY_PERCENT, CAPS_S, LOSS, LOSS_PERCENT, SIZES, Cell
from docs.papers.programs.experiment_sweep_page import NAMES, is_goodbye, palm, ratio
from multitracer.figures.rtt_size import on_cell
from multitracer.figures.sheet import SheetPanel as Panel
from multitracer.figures.sheet import sheet
from multitracer.report.transactions_page import factor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import plotly.graph_objects as go

    from docs.papers.programs.experiment_segments import Segment

    Props = dict[str, Any]

_PANEL_PX = 150
_MOST = math.log2(8)
"""Colours are full where one transport takes eight times as long as the other; a factor of 5 is near it."""
_COLOURS = [[0.0, "#0072b2"], [0.5, "#ffffff"], [1.0, "#d55e00"]]
"""Blue: TCP is quicker; red: CentaurusComm is; white: both alike (Okabe and Ito)."""
_SMALL_CAP_S, _SHOWN_BUSY = 2, 60
"""The cell whose segments are shown, beside the one with the largest cap."""
_FAILED = "#b5bcc7"
"""Where fewer than half of the transactions of either ended."""


def heat_map(panels: Sequence[tuple[str, list[str], list[str], list[list[float | None]]]]) -> go.Figure:
    """Return a heat map for each panel: its title, columns, rows (lowest first), and ratios by row."""
    cells, traces = [], []
    for number, (title, columns, lines, ratios) in enumerate(panels, 1):
        values = [[None if each is None else math.log2(each) for each in line] for line in ratios]
        notes = [
            {"x": x, "y": y, "text": "fails" if each is None else factor(each), "font": {"size": 10}}
            for y, line in zip(lines, ratios, strict=True)
            for x, each in zip(columns, line, strict=True)
        ]
        axes: Props = {"type": "category", "showgrid": False}
        cells.append(Panel(title, _PANEL_PX, axes, axes | {"automargin": True}, notes=notes))
        traces.append(_map(columns, lines, values) | on_cell(number))
    drawn = sheet(cells, traces, theme="light", columns=3)
    return drawn.update_layout(plot_bgcolor=_FAILED)


def _map(columns: list[str], lines: list[str], values: list[list[float | None]]) -> Props:
    return {
        "type": "heatmap",
        "x": columns,
        "y": lines,
        "z": values,
        "zmin": -_MOST,
        "zmax": _MOST,
        "colorscale": _COLOURS,
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
        "hoverongaps": False,
    }


def by_size(loss: bool, of: Callable[[Iterable[float]], float]) -> go.Figure:
    """Return a map for each size, cap of the Palm's timeout against the cell's load or the loss."""
    across = [f"{each:g} %" for each in (LOSS_PERCENT if loss else BUSY_PERCENT)]
    panels = []
    for size in SIZES:
        ratios = [
            [
                ratio(palm(cap, BUSY, each) if loss else palm(cap, int(each)), size, of)
                for each in (LOSS_PERCENT if loss else BUSY_PERCENT)
            ]
            for cap in CAPS_S
        ]
        what = "loss" if loss else "busy"
        panels.append((f"{size} bytes: cap against {what}", across, [f"{cap} s" for cap in CAPS_S], ratios))
    return heat_map(panels)


def by_transport() -> go.Figure:
    """Return a map for each other transport, size against load and against loss; the request varies."""
    return heat_map([
        _of_transport(NAMES[name], Cell("request", name, 0, BUSY, LOSS), loss=loss)
        for loss in (False, True)
        for name in ("tcp1999", "tcptoday", "ccearly")
    ])  # fmt: skip


def of_replies() -> go.Figure:
    """Return a map for each TCP, size against load; the reply varies, which Linux sends to the Palm."""
    shown = [(f"PalmOS, cap {cap} s", Cell("reply", "palm", cap, BUSY, LOSS)) for cap in (CAPS_S[0], CAPS_S[-1])]
    shown.append((NAMES["tcp1999"], Cell("reply", "tcp1999", 0, BUSY, LOSS)))
    return heat_map([_of_transport(name, cell, loss=False) for name, cell in shown])


def _of_transport(name: str, cell: Cell, *, loss: bool) -> tuple[str, list[str], list[str], list[list[float | None]]]:
    varied = [
        Cell(cell.vary, cell.transport, cell.cap_s, BUSY if loss else int(each), each if loss else LOSS)
        for each in (LOSS_PERCENT if loss else BUSY_PERCENT)
    ]
    ratios = [[ratio(each, size) for each in varied] for size in SIZES]
    across = [f"{each:g} %" for each in (LOSS_PERCENT if loss else BUSY_PERCENT)]
    title = f"{name}: size against {'loss' if loss else 'busy'}"
    return title, across, [f"{size} B" for size in SIZES], ratios


def one_transaction() -> go.Figure:
    """Return the segments of a transaction of 4096 bytes in a busy cell, at a small and a large cap."""
    panels, traces = [], []
    for number, cap in enumerate((_SMALL_CAP_S, CAPS_S[-1]), 1):
        mine = _typical(cap)
        panels.append(_time_sequence(cap, mine, number))
        traces += [trace | on_cell(number) for trace in _marks(mine, shown=number == 1)]
    return sheet(panels, traces, theme="light")


def _typical(cap: int) -> list[Segment]:
    """Return the segments of the transaction that has the (lower) median of the RTTs of those that ended."""
    cell = (cap, _SHOWN_BUSY, 4096)
    found = [s for s in experiment_segments.segments() if s[:3] == cell and s.rtt_s]
    ended = sorted({(float(s.rtt_s), s.transaction) for s in found})
    chosen = ended[(len(ended) - 1) // 2][1]
    return [s for s in found if s.transaction == chosen and not is_goodbye(s)]


def _time_sequence(cap: int, mine: list[Segment], number: int) -> Panel:
    data = [each for each in mine if each.length]
    again = sum(bool(each.cause) for each in data)
    title = f"cap {cap} s: {mine[0].rtt_s} s, {len(data)} segments, {again} of them sent again"
    x: Props = {"title": {"text": "s since the transaction began", "standoff": 4}, "rangemode": "tozero"}
    if number > 1:
        x["matches"] = "x"
    return Panel(title, 220, x, {"title": {"text": "bytes"}})


def _marks(mine: list[Segment], *, shown: bool) -> list[Props]:
    data = [each for each in mine if each.length]
    first = [each for each in data if not each.cause]
    timer = [each for each in data if each.cause == "timeout"]
    rest = [each for each in data if each.cause and each.cause != "timeout"]
    acks = [each for each in mine if not each.length]
    kinds = (
        ("sent", first, "#0072b2", "circle"),
        ("sent again by the timer", timer, "#d55e00", "x"),
        ("sent again behind it", rest, "#a0629a", "diamond-open"),
    )
    found = [
        _scatter(name, [s.time_s for s in some], [s.begin + s.length for s in some], colour, symbol)
        for name, some, colour, symbol in kinds
    ]
    staircase = _scatter("acknowledged", [s.time_s for s in acks], [s.begin for s in acks], "#566173", "line-ew")
    found.append(staircase | {"mode": "lines", "line": {"shape": "hv", "color": "#566173", "width": 1.3}})
    return [trace | {"showlegend": shown, "legendgroup": trace["name"]} for trace in found]


def _scatter(name: str, x: list[float], y: list[int], colour: str, symbol: str) -> Props:
    marker = {"color": colour, "symbol": symbol, "size": 8}
    return {"type": "scatter", "mode": "markers", "name": name, "x": x, "y": y, "marker": marker}


def figures() -> dict[str, Callable[[], go.Figure]]:
    """Return the pictures of the page by name."""
    return {
        "experiment_sweep_busy_mean": partial(by_size, False, fmean),
        "experiment_sweep_busy_median": partial(by_size, False, median),
        "experiment_sweep_loss_mean": partial(by_size, True, fmean),
        "experiment_sweep_loss_median": partial(by_size, True, median),
        "experiment_sweep_transports": by_transport,
        "experiment_sweep_reply": of_replies,
        "experiment_segments": one_transaction,
    }
