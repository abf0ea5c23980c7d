"""The RTT of transactions by message size: median for each transport, and distribution.

The axis of sizes is logarithmic to base 2 (paper 000, figures 1, 3, 5 and 6). The dashed line is the linear
fit of the RTT over size; on this axis it is a curve, as the paper explains. For the median, a dropped
transaction counts as longer than all finished ones. The lower panel shows the share of dropped transactions.

The distribution has a panel for each size with the CDFs of all transports. A curve ends at the share of
finished transactions; if some were dropped, a diamond marks the end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.transports import compare, pairs, size_statistics, straight_line
from multitracer.figures.palette import TRANSPORTS
from multitracer.figures.sheet import Sheet, SheetPanel, axis_name
from multitracer.figures.stack import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    import plotly.graph_objects as go

    from multitracer.analysis.transports import Transport
    from multitracer.figures.palette import Props, SeriesStyle, ThemeName
    from multitracer.tables import Array, Row, Table

_RTT_PX, _DROPPED_PX = 380, 90
_APART = 0.045
"""Distance in octaves between the marks of neighbouring transports, so that their bars do not overlap."""
_CURVE_POINTS = 60
_FADED = 0.75
_MOST_ABOVE = 1.7
"""Maximum ratio of the upper limit of the value axis to the highest curve."""


class _Drawn(NamedTuple):
    """A transport with its statistics and its style."""

    transport: Transport
    table: Table
    look: SeriesStyle
    colour: str
    shift: float
    """Factor on the sizes, so that the marks of different transports do not overlap."""


def rtt_size_figure(transports: Sequence[Transport], *, theme: ThemeName = "light") -> go.Figure:
    """Return the figure of RTT by message size: one panel for each varied message (request or response).

    Parameters
    ----------
    transports : sequence of Transport
    theme : "light" or "dark"
    """
    return rtt_size_sheet(transports, theme=theme).figure()


def rtt_size_sheet(transports: Sequence[Transport], *, theme: ThemeName = "light") -> Sheet:
    """Return the sheet that `rtt_size_figure` draws."""
    drawn = _drawn(transports, theme)
    cells: list[SheetPanel] = []
    traces: list[Props] = []
    for vary, other in dict.fromkeys((transport.vary, transport.other_bytes) for transport in transports):
        group = [each for each in drawn if (each.transport.vary, each.transport.other_bytes) == (vary, other)]
        cells.append(_rtt_cell(group, vary, other))
        number = len(cells)
        for each in group:
            traces += [trace | on_cell(number) for trace in (_line(each), *_expected(each), *_with_setup(each))]
        if any(each.table["dropped"].any() for each in group):
            cells[-1] = _without_labels(cells[-1])
            cells.append(_dropped_cell(group, number))
            traces += [_dropped(each) | on_cell(len(cells)) for each in group]
    if not cells:
        cells = [SheetPanel("Round-trip time", _RTT_PX, empty="No transaction was recorded.")]
    return Sheet(cells, _once_in_legend(traces), theme)


def looks_of(transports: Sequence[Transport]) -> list[SeriesStyle]:
    """Return the style of each transport; transports with equal names have the same style."""
    names = list(dict.fromkeys(transport.name for transport in transports))
    return [TRANSPORTS[names.index(transport.name) % len(TRANSPORTS)] for transport in transports]


def _drawn(transports: Sequence[Transport], theme: ThemeName) -> list[_Drawn]:
    names = list(dict.fromkeys(transport.name for transport in transports))
    middle = (len(names) - 1) / 2
    return [
        _Drawn(
            transport,
            size_statistics(transport),
            look,
            look.colour(theme),
            2.0 ** (_APART * (names.index(transport.name) - middle)),
        )
        for transport, look in zip(transports, looks_of(transports), strict=True)
    ]


def on_cell(number: int) -> dict[str, str]:
    """Return the axis properties that place a trace in the cell `number`."""
    return {"xaxis": axis_name("x", number), "yaxis": axis_name("y", number)}


def _once_in_legend(traces: list[Props]) -> list[Props]:
    """Return the traces; each name is in the legend once, and a click on it hides all traces of that name."""
    seen: set[str] = set()
    for trace in traces:
        trace["legendgroup"] = trace["name"]
        trace["showlegend"] = trace.get("showlegend", True) and trace["name"] not in seen
        seen.add(trace["name"])
    return traces


def _x_axis(group: Sequence[_Drawn], vary: str) -> Props:
    sizes = sorted({size for each in group for size in each.transport.sizes})
    room = 0.25
    return {
        "type": "log",
        "tickvals": sizes,
        "ticktext": [str(size) for size in sizes],
        "range": [np.log10(sizes[0] / 2**room), np.log10(sizes[-1] * 2**room)],
        "title": {"text": f"length of the {vary}, bytes (log2)", "standoff": 6},
    }


def _rtt_cell(group: Sequence[_Drawn], vary: str, other: int) -> SheetPanel:
    fixed = "reply" if vary == "request" else "request"
    title = f"Round-trip time against the length of the {vary} ({fixed}: {other} bytes)"
    highest = _highest(group)
    y_axis = {"title": {"text": "RTT, s", "standoff": 6}, "range": [0, highest]}
    notes = [note for each in group for note in _lost_notes(each)]
    explanation = "Medians, a dropped transaction counts as longer than any; bars hold the middle 90 %."
    if any(np.any(_upper(each.table)[np.isfinite(each.table["median_s"])] > highest) for each in group):
        explanation += " A bar without an upper end extends beyond the figure."
    return SheetPanel(title, _RTT_PX, _x_axis(group, vary), y_axis, notes=notes, more=explanation)


def _without_labels(cell: SheetPanel) -> SheetPanel:
    plain_x = {key: value for key, value in cell.x.items() if key != "title"}
    return replace(cell, x=plain_x, own_x=False)


def _highest(group: Sequence[_Drawn]) -> float:
    """Return the upper limit of the value axis in s; bars far above all curves are cut off."""
    tables = [each.table for each in group]
    curves = [table[name] for table in tables for name in ("median_s", "with_setup_s")]
    bars = [_upper(table)[np.isfinite(table["median_s"])] for table in tables]
    curve, bar = (
        max((float(v) for c in columns for v in c if np.isfinite(v)), default=1.0) for columns in (curves, bars)
    )
    return 1.06 * min(max(curve, bar), _MOST_ABOVE * curve)


def _upper(table: Table) -> Array:
    """Return the upper end of each size's bar in s.

    It is the 95th percentile of the RTT; if this is infinite because of dropped transactions, the maximum.
    """
    return np.where(np.isinf(table["p95_s"]), table["most_s"], table["p95_s"])


def _line(each: _Drawn) -> Props:
    table = each.table
    seen = np.where(np.isfinite(table["median_s"]), table["median_s"], np.nan)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": plain(each.transport.name),
        "x": table["size_bytes"] * each.shift,
        "y": seen,
        "line": {"color": each.colour, "width": each.look.size_px},
        "marker": {"color": each.colour, "size": 8, "symbol": each.look.symbol},
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": _upper(table) - seen,
            "arrayminus": seen - table["p5_s"],
            "color": each.colour,
            "thickness": 1.1,
            "width": 4,
        },
        "customdata": _hover_words(table),
        "hovertemplate": f"<b>{plain(each.transport.name)}</b><br>%{{customdata}}<extra></extra>",
    }


def _hover_words(table: Table) -> list[str]:
    return [
        f"{row['size_bytes']} bytes: no RTT is known"
        if row["median_s"] is None
        else f"{row['size_bytes']} bytes: median {row['median_s']:.3g} s"
        f"<br>95 % sure: {row['median_low_s']:.3g} to {row['median_high_s']:.3g} s"
        f"<br>5 to 95 %: {row['p5_s']:.3g} to {row['p95_s']:.3g} s; mean {row['mean_s'] or np.nan:.3g} s"
        f"<br>{row['dropped']} of {row['count']} dropped"
        for row in table.rows()
    ]


def _expected(each: _Drawn) -> list[Props]:
    line = straight_line(each.table)
    if line is None:
        return []
    sizes = np.geomspace(each.transport.sizes[0], each.transport.sizes[-1], _CURVE_POINTS)
    formula = f"{line.fixed_s:.3g} s + {1000 * line.per_byte_s:.3g} ms a byte"
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": plain(f"{each.transport.name}: straight line"),
            "x": sizes,
            "y": line.at(sizes),
            "line": {"color": each.colour, "width": 1.3, "dash": "dash"},
            "opacity": _FADED,
            "hovertemplate": f"{plain(each.transport.name)}, straight line: {formula}<extra></extra>",
        }
    ]


def _with_setup(each: _Drawn) -> list[Props]:
    seen = np.where(np.isfinite(each.table["with_setup_s"]), each.table["with_setup_s"], np.nan)
    if bool(np.isnan(seen).all()):
        return []
    name = plain(f"{each.transport.name} with connection set-up")
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": name,
            "x": each.table["size_bytes"] * each.shift,
            "y": seen,
            "line": {"color": each.colour, "width": 1.3, "dash": "dot"},
            "marker": {"color": each.colour, "size": 7, "symbol": f"{each.look.symbol}-open"},
            "hovertemplate": f"{name}: %{{y:.3g}} s<extra></extra>",
        }
    ]


def _lost_notes(each: _Drawn) -> list[Props]:
    """Return a note at each size without a median, because at least half of the transactions were dropped."""
    rows = [row for row in each.table.rows() if row["median_s"] == np.inf]
    return [
        {
            "x": float(np.log10(row["size_bytes"] * each.shift)),
            "y": 0,
            "yanchor": "bottom",
            "textangle": -90,
            "text": _lost_words(row),
            "font": {"color": each.colour},
            "name": "dropped",
        }
        for row in rows
    ]


def _lost_words(row: Row) -> str:
    return "all dropped" if row["dropped"] == row["count"] else f"{row['dropped']} of {row['count']} dropped"


def _dropped_cell(group: Sequence[_Drawn], above: int) -> SheetPanel:
    x_axis = _x_axis(group, group[0].transport.vary) | {"matches": axis_name("x", above)}
    highest = max(float(np.max(100 * each.table["dropped"] / each.table["count"])) for each in group)
    y_axis = {"range": [-0.08 * highest, 1.2 * highest], "nticks": 4, "ticksuffix": " %"}
    return SheetPanel("Dropped transactions", _DROPPED_PX, x_axis, y_axis)


def _dropped(each: _Drawn) -> Props:
    table = each.table
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(each.transport.name),
        "showlegend": False,
        "x": table["size_bytes"] * each.shift,
        "y": np.where(table["dropped"] > 0, 100 * table["dropped"] / table["count"], np.nan),
        "marker": {"color": each.colour, "size": 9, "symbol": "diamond-open", "line": {"width": 1.6}},
        "customdata": [f"{_lost_words(row)}{': ' if row['why'] else ''}{plain(row['why'])}" for row in table.rows()],
        "hovertemplate": f"<b>{plain(each.transport.name)}</b><br>%{{customdata}}<extra></extra>",
    }


_PANEL_PX = 170
_MOST_PANELS = 24
_MOST_POINTS = 400
_COLUMNS = 3
_ROOM = 1.15
_TICKS = [digit * 10.0**power for power in range(-6, 6) for digit in (1, 2, 5)]


def cdf_figure(transports: Sequence[Transport], *, theme: ThemeName = "light") -> go.Figure:
    """Return the figure of the RTT distributions, the smallest size first; at most 24 panels.

    Parameters
    ----------
    transports : sequence of Transport
    theme : "light" or "dark"
    """
    return cdf_sheet(transports, theme=theme).figure()


def cdf_sheet(transports: Sequence[Transport], *, theme: ThemeName = "light") -> Sheet:
    """Return the sheet that `cdf_figure` draws."""
    groups = {
        (a.vary, a.other_bytes): [b for b in transports if (b.vary, b.other_bytes) == (a.vary, a.other_bytes)]
        for a in transports
    }
    panels = [
        (vary, size, [transport for transport in group if size in transport.sizes])
        for (vary, _), group in groups.items()
        for size in sorted({size for transport in group for size in transport.sizes})
    ][:_MOST_PANELS]
    if not panels:
        return Sheet([SheetPanel("RTT", _PANEL_PX, empty="No transaction was recorded.")], [], theme)
    looks = {transport.name: look for transport, look in zip(transports, looks_of(transports), strict=True)}
    words = _gaps(transports)
    cells, traces, seen = [], [], set()
    for number, (vary, size, here) in enumerate(panels, 1):
        cells.append(_cell(vary, size, here, words.get((vary, size), ""), number, several=len(groups) > 1))
        for transport in here:
            shown = transport.name not in seen
            seen.add(transport.name)
            traces += _curve(transport, size, looks[transport.name], theme, number, shown=shown)
    cells[0].x["range"] = _reach(transports)
    return Sheet(cells, traces, theme, min(_COLUMNS, len(cells)))


def _gaps(transports: Sequence[Transport]) -> dict[tuple[str, int], str]:
    """Return a text for each varied message and size, which compares two transports.

    The text has the ratio of the medians and the maximum distance of the CDFs.
    """
    gaps = {}
    if len({transport.name for transport in transports}) == 2:
        for first, second in pairs(transports):
            for row in compare(first, second).rows():
                is_known = row["ratio"] is not None and np.isfinite(row["ratio"])
                ratio = f"ratio {row['ratio']:.2f}" if is_known else "no ratio"
                gaps[first.vary, row["size_bytes"]] = f": {ratio}, {abs(row['cdf_gap']):.2f} apart"
    return gaps


def _reach(transports: Sequence[Transport]) -> list[float] | None:
    """Return the limits that all RTT axes share, as decimal logarithms of s.

    None if no transaction finished.
    """
    rtts = [transport.rtt_s(transport.table) for transport in transports]
    done = [value for each in rtts for value in each[np.isfinite(each) & (each > 0)].tolist()]
    return [float(np.log10(min(done) / _ROOM)), float(np.log10(max(done) * _ROOM))] if done else None


def _cell(vary: str, size: int, here: Sequence[Transport], gap: str, number: int, *, several: bool) -> SheetPanel:
    rtts = [transport.rtt_s(transport.at(size)) for transport in here]
    x_axis: Props = {"type": "log", "title": {"text": "RTT, s", "standoff": 4}, "tickvals": _TICKS}
    if number > 1:
        x_axis["matches"] = "x"
    y_axis = {"range": [-0.02, 1.04], "tickvals": [0, 0.5, 1]} | ({"title": {"text": "share"}} if number == 1 else {})
    lost = all(np.isinf(each).all() for each in rtts)
    none = "All transactions were dropped." if lost else "No RTT is known."
    empty = "" if any(np.isfinite(each).any() for each in rtts) else none
    return SheetPanel(f"{size} bytes{f', {vary}' if several else ''}{gap}", _PANEL_PX, x_axis, y_axis, empty)


def _curve(
    transport: Transport, size: int, look: SeriesStyle, theme: ThemeName, number: int, *, shown: bool
) -> list[Props]:
    every = transport.sorted_rtt_s(transport.at(size))
    finished = every[np.isfinite(every)]
    lost = len(every) - len(finished)
    x, share = _thinned(finished, len(every))
    axes = on_cell(number) | {"legendgroup": plain(transport.name)}
    colour = look.colour(theme)
    curve = {
        "type": "scatter",
        "mode": "lines",
        "name": plain(transport.name),
        "showlegend": shown,
        "x": x,
        "y": share,
        "line": {"color": colour, "width": 1.8, "shape": "hv", "dash": look.dash},
        "hovertemplate": f"<b>{plain(transport.name)}</b><br>%{{y:.1%}} within %{{x:.3g}} s<extra></extra>",
    }
    if not lost or not len(finished):
        return [curve | axes]
    end = {
        "type": "scatter",
        "mode": "markers",
        "name": f"{plain(transport.name)}: dropped",
        "showlegend": False,
        "x": x[-1:],
        "y": share[-1:],
        "marker": {"color": colour, "size": 9, "symbol": "diamond-open", "line": {"width": 1.6}},
        "hovertemplate": f"<b>{plain(transport.name)}</b><br>{lost} of {len(every)} dropped<extra></extra>",
    }
    return [curve | axes, end | axes]


def _thinned(finished: Array, count: int) -> tuple[Array, Array]:
    """Return the coordinates (RTT in s, share) of at most 400 corners of a CDF, from share 0 to the last.

    `finished` are the RTTs, `count` is the number of all transactions.
    """
    if not len(finished):
        return finished, finished
    rows = np.unique(np.linspace(0, len(finished) - 1, min(_MOST_POINTS, len(finished))).astype(np.int64))
    return np.append(finished[:1], finished[rows]), np.append(0.0, (rows + 1) / count)
