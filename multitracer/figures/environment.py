"""The radio and the route as panels, for transactions of one size and for a drive.

`overlay` is the figure of paper 000 (figures 2 and 4): all curves of the radio conditions during the
transactions in one picture. Each curve is scaled and shifted into its own band, so that the picture shows
simultaneous changes but not their size. `panels` shows the same curves on axes with units that zoom together.
`radio_context_panels` shows the `RadioContext` of a recording: power, quality, share of lost blocks, rates,
speed and distance; `cell_strip` the serving cell.

Invariants: a line connects two readings only if no reading is missing between them; a value is that of the log, in the
unit of the panel; a missing value has no point. The dashed line is the level that a modem reports without a signal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.mobility.cells import cell_name
from multitracer.analysis.transports import dropped, efficiency, is_sent_efficiency, why_absent
from multitracer.errors import InputError
from multitracer.figures.palette import LOOKS
from multitracer.figures.rtt_size import on_cell
from multitracer.figures.series import BREAK, Series
from multitracer.figures.sheet import Sheet, SheetPanel, axis_name
from multitracer.figures.stack import BIT_RATE, DBM, DECIBEL, METRES, METRES_PER_S, PERCENT, PLAIN, Panel, Unit, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import plotly.graph_objects as go

    from multitracer.analysis.mobility.cells import CellVisits
    from multitracer.analysis.transports import Transport
    from multitracer.figures.palette import Props, ThemeName
    from multitracer.recording.radio_context import RadioContext
    from multitracer.tables import Array, Mask, Table

ZERO_LEVEL_DBM = -113.0
"""Level that a CDPD modem reports without a signal (paper 000, section IV.B)."""
_MOST = 2_000
"""Maximum number of transactions that are drawn for a transport; these are the first ones."""
_MOST_TRANSPORTS = 8
_HALF = 0.5
_OVERLAY_PX, _RTT_PX, _OTHER_PX = 560, 190, 95
_BAND = 0.82
"""Share of a band's height that its curve may use."""
_STRONG_DBM = -51.0
"""Highest level that +CSQ can report (TS 27.007, section 8.5); upper limit of the RSSI band."""


@dataclass(frozen=True, slots=True)
class _Curve:
    """One quantity with a value for each transaction, and the band of the picture for it."""

    name: str
    role: str
    unit: str
    value: Array
    share: float
    """Relative height of the band of this curve."""
    minimum: float | None = None
    """Lower end of the band or axis of this curve; None: the minimum of the values."""
    empty: str = ""
    """Why there is no value at all."""

    @property
    def known(self) -> Array:
        return self.value[np.isfinite(self.value)]

    @property
    def ends(self) -> tuple[float, float]:
        """Return the values at the lower and the upper edge of the curve's band, in the unit of the curve."""
        low = float(self.known.min()) if self.minimum is None else self.minimum
        high = float(self.known.max())
        if self.role == "radio_rssi":
            return low, max(high, _STRONG_DBM)
        if self.role == "transaction_efficiency":
            return min(low, 0.9), max(high, 1.0)
        return (low, high) if high > low else (low, low + max(abs(low), 1.0))

    def words(self) -> str:
        """Return the name and the range of the curve as text."""
        if not len(self.known):
            return f"{self.name}: {self.empty}"
        low, high = float(self.known.min()), float(self.known.max())
        return f"{self.name} {low:.3g} to {high:.3g}{self.unit}".replace(" ", "\xa0")


def rtt_range_s(transport: Transport, size_bytes: int) -> float:
    """Return maximum minus minimum RTT, in s, of the finished transactions of a size.

    The result is NaN without any transaction.
    """
    rtts = transport.rtt_s(transport.at(size_bytes))
    done = rtts[np.isfinite(rtts)]
    return float(done.max() - done.min()) if len(done) else float("nan")


def default_size(transport: Transport) -> int:
    """Return the largest message size at which less than half of the transactions were dropped."""
    lost = {size: float(np.mean(dropped(transport.at(size)))) for size in transport.sizes}
    return max(
        (size for size in transport.sizes if lost[size] < _HALF), default=min(transport.sizes, key=lost.__getitem__)
    )


def overlay(transports: Sequence[Transport], size_bytes: int | None = None, *, theme: ThemeName = "light") -> go.Figure:
    """Return the overlay figure for one message size: a panel for each transport, over its transactions.

    Parameters
    ----------
    transports : sequence of Transport
        At most eight are drawn.
    size_bytes : int, optional
        Message size; by default `default_size` of each transport.
    theme : "light" or "dark"

    Raises
    ------
    InputError
        If no transport has a transaction of that size.
    """
    return overlay_sheet(transports, size_bytes, theme=theme).figure()


def overlay_sheet(
    transports: Sequence[Transport], size_bytes: int | None = None, *, theme: ThemeName = "light"
) -> Sheet:
    """Return the sheet that `overlay` draws; parameters and errors are those of `overlay`."""
    cells: list[SheetPanel] = []
    traces: list[Props] = []
    for number, (transport, size) in enumerate(_chosen(transports, size_bytes), 1):
        made, drawn = _overlaid(transport, size, theme)
        cells.append(made)
        traces += [trace | on_cell(number) for trace in drawn]
    return Sheet(cells, traces, theme)


def _overlaid(transport: Transport, size: int, theme: ThemeName) -> tuple[SheetPanel, list[Props]]:
    """Return the panel of one transport and its traces: each curve is in its own band."""
    table = _first(transport.at(size))
    number = np.arange(1, len(table) + 1)
    curves = _curves(transport, table)
    height = sum(curve.share for curve in curves)
    traces: list[Props] = []
    ticks: dict[str, float] = {}
    shapes, base = [], height
    for curve in curves:
        base -= curve.share
        ticks[curve.name.replace(" (", "<br>(")] = base + 0.5 * _BAND * curve.share
        if curve.role == "radio_rssi":
            shapes.append(_zero_level(base, theme))
        if len(curve.known):
            low, high = curve.ends
            shifted = base + _BAND * curve.share * (curve.value - low) / (high - low)
            traces.append(_trace(curve, number, shifted, theme))
        if curve.role == "transaction_rtt":
            traces += _diamonds(table, number, base + _BAND * curve.share * 1.1, theme)
    y_axis = {"tickvals": list(ticks.values()), "ticktext": list(ticks), "ticks": "", "showgrid": False}
    y_axis["range"] = [-0.06, height + 0.06]
    title, explanation = (
        _heading(transport, size),
        f"Scaled and shifted: {'; '.join(curve.words() for curve in curves)}",
    )
    x_axis = _x_axis("transaction", len(table))
    return SheetPanel(title, _OVERLAY_PX, x_axis, y_axis, shapes=shapes, more=explanation), traces


def panels(transports: Sequence[Transport], size_bytes: int | None = None, *, theme: ThemeName = "light") -> go.Figure:
    """Return the figure of RTT, efficiency, RSSI, BLER and cell busy for one message size over time.

    Parameters and errors are those of `overlay`; each transport has its own time axis.
    """
    return panels_sheet(transports, size_bytes, theme=theme).figure()


def panels_sheet(
    transports: Sequence[Transport], size_bytes: int | None = None, *, theme: ThemeName = "light"
) -> Sheet:
    """Return the sheet that `panels` draws; parameters and errors are those of `overlay`."""
    cells: list[SheetPanel] = []
    traces: list[Props] = []
    for transport, size in _chosen(transports, size_bytes):
        before = len(cells)
        for place, (cell, drawn) in enumerate(_stacked(transport, size, theme), 1):
            linked = {"matches": axis_name("x", before + 1)} if place > 1 else {}
            cells.append(replace(cell, x=cell.x | linked))
            traces += [trace | on_cell(before + place) for trace in drawn]
    return Sheet(cells, traces, theme)


def _stacked(transport: Transport, size: int, theme: ThemeName) -> Iterator[tuple[SheetPanel, list[Props]]]:
    """Yield each panel of one transport, with the list of its traces."""
    table = _first(transport.at(size))
    began_s = transport.begin_s(table)
    curves = _curves(transport, table)
    for curve in curves:
        first, last = curve is curves[0], curve is curves[-1]
        x_axis = _x_axis("began, s after the first", None) if last else {}
        empty = "" if len(curve.known) else f"{curve.name}: {curve.empty}."
        shapes = [_zero_level(ZERO_LEVEL_DBM, theme)] if curve.role == "radio_rssi" and not empty else []
        title = _heading(transport, size) if first else _panel_title(curve)
        height = _RTT_PX if first else _OTHER_PX
        more = _panel_title(curve) if first else ""
        traces = [] if empty else [_trace(curve, began_s, curve.value, theme)]
        if first:
            traces += _diamonds(table, began_s, 1.1 * curve.ends[1] if not empty else 0.5, theme)
        yield (SheetPanel(title, height, x_axis, _y_axis(curve), empty, shapes=shapes, own_x=last, more=more), traces)


def _chosen(transports: Sequence[Transport], size_bytes: int | None) -> list[tuple[Transport, int]]:
    """Return pairs of a transport and a message size.

    They are the transports that have `size_bytes`; without a size, all transports with their default size.
    """
    if size_bytes is None:
        return [(transport, default_size(transport)) for transport in transports[:_MOST_TRANSPORTS]]
    cells = [(transport, size_bytes) for transport in transports if size_bytes in transport.sizes]
    if not cells:
        there = ", ".join(map(str, sorted({size for transport in transports for size in transport.sizes})))
        raise InputError(f"there is no transaction of {size_bytes} bytes; the sizes are {there}")
    return cells[:_MOST_TRANSPORTS]


def _first(table: Table) -> Table:
    return table.take(np.arange(min(len(table), _MOST)))


def _curves(transport: Transport, table: Table) -> list[_Curve]:
    rtt = transport.rtt_s(table)
    share = "Efficiency (sent)" if is_sent_efficiency(table) else "Efficiency"
    return [
        _Curve("RTT", "transaction_rtt", " s", np.where(np.isfinite(rtt), rtt, np.nan), 2.2, 0.0),
        _Curve(share, "transaction_efficiency", "", efficiency(table), 1.0, empty="not known"),
        _Curve("RSSI", "radio_rssi", " dBm", table["rssi_dbm"], 1.0, ZERO_LEVEL_DBM, why_absent([table], "rssi")),
        _Curve("BLER", "radio_bler", " %", table["bler_percent"], 1.0, 0.0, why_absent([table], "bler")),
        _Curve("Cell busy", "radio_busy", " %", table["cell_busy_percent"], 1.0, 0.0, why_absent([table], "cell_busy")),
    ]


def _heading(transport: Transport, size: int) -> str:
    table = transport.at(size)
    span = rtt_range_s(transport, size)
    range_words = f"RTT range {span:.3g} s" if np.isfinite(span) else "no RTT"
    part = f"; the first {_MOST:,} are drawn" if len(table) > _MOST else ""
    lost = f"{int(dropped(table).sum())} of {len(table)} dropped (◇)"
    return f"{transport.name}, {transport.vary} of {size} bytes: {range_words}, {lost}{part}"


def _x_axis(title: str, count: int | None) -> Props:
    ends = {} if count is None else {"range": [0.5 - 0.01 * count, count + 0.5 + 0.01 * count]}
    return {"title": {"text": title, "standoff": 6}} | ends


def _panel_title(curve: _Curve) -> str:
    unit = f", {curve.unit.strip()}" if curve.unit else ""
    level = f" (dashed: zero level, −{-ZERO_LEVEL_DBM:.0f})" if curve.role == "radio_rssi" else ""
    return f"{curve.name}{unit}{level if len(curve.known) else ''}"


def _y_axis(curve: _Curve) -> Props:
    if not len(curve.known):
        return {"showticklabels": False, "range": [0, 1]}
    low, high = curve.ends
    room = 0.06 * (high - low)
    top = high + (0.2 * (high - low) if curve.role == "transaction_rtt" else room)
    return {"range": [low - room, top], "nticks": 5}


def _zero_level(y: float, theme: ThemeName) -> Props:
    line = {"color": LOOKS["radio_rssi"].colour(theme), "width": 1.2, "dash": "dash"}
    return {"type": "line", "y0": y, "y1": y, "line": line, "name": "zero level"}


def _trace(curve: _Curve, x: Array, y: Array, theme: ThemeName) -> Props:
    look = LOOKS[curve.role]
    colour = look.colour(theme)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": plain(curve.name),
        "showlegend": False,
        "x": x,
        "y": y,
        "customdata": curve.value,
        "line": {"color": colour, "width": look.size_px},
        "marker": {"color": colour, "size": 4, "symbol": look.symbol},
        "hovertemplate": f"<b>{plain(curve.name)}</b> %{{customdata:.4~g}}{curve.unit}<br>at %{{x}}<extra></extra>",
    }


def _diamonds(table: Table, x: Array, y: float, theme: ThemeName) -> list[Props]:
    """Return a trace with a mark for each dropped transaction; `y` is above the RTT of all finished ones."""
    lost = dropped(table)
    labels = [
        f"{why or 'no reason recorded'}, at {at:.6g}" for why, at in zip(table["why"][lost], x[lost], strict=True)
    ]
    return [dropped_marks(x[lost], np.full(len(labels), y), labels, theme)] if labels else []


def dropped_marks(x: Array, y: Array, labels: Sequence[str], theme: ThemeName) -> Props:
    """Return the trace with a diamond for each dropped transaction, which a label explains where it is pointed at."""
    look = LOOKS["transaction_dropped"]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "dropped",
        "showlegend": False,
        "x": x,
        "y": y,
        "marker": {"color": look.colour(theme), "size": look.size_px, "symbol": look.symbol, "line": {"width": 1.5}},
        "customdata": [plain(label) for label in labels],
        "hovertemplate": "<b>dropped</b> %{customdata}<extra></extra>",
    }


class _Lane(NamedTuple):
    """Description of a panel: key, title, unit, relative height, and the role of each series."""

    key: str
    title: str
    unit: Unit
    share: float
    roles: dict[str, str]
    from_zero: bool = False


_LANES = (
    _Lane(
        "radio_power", "Received power", DBM, 1.0,
        {"Radio_rssi": "radio_rssi", "Radio_rsrp": "radio_rsrp", "Radio_rscp": "radio_rscp"},
    ),
    _Lane(
        "radio_quality", "Signal quality", DECIBEL, 0.8,
        {"Radio_rsrq": "radio_rsrq", "Radio_sinr": "radio_sinr", "Radio_ecio": "radio_ecio"},
    ),
    _Lane(
        "radio_share", "Lost blocks and busy cell", PERCENT, 0.6,
        {"Radio_bler": "radio_bler", "Radio_cell_busy": "radio_busy"}, from_zero=True,
    ),
    _Lane("radio_cqi", "Channel quality indicator", PLAIN, 0.5, {"Radio_cqi": "radio_cqi"}, from_zero=True),
    _Lane(
        "radio_rate", "Rates that the logger saw", BIT_RATE, 0.8,
        {"Radio_rate_down": "rate_down", "Radio_rate_up": "rate_up"}, from_zero=True,
    ),
    _Lane("speed", "Speed", METRES_PER_S, 0.5, {"Gps_speed": "speed"}, from_zero=True),
    _Lane("travelled", "Distance on the route", METRES, 0.5, {"Gps_position": "travelled"}, from_zero=True),
)  # fmt: skip
_ZERO_LEVEL = "zero level"


def radio_context_panels(radio_context: RadioContext) -> list[Panel]:
    """Return the panels of the radio and the route that have data, the serving cell first."""
    lanes = [panel for lane in _LANES if (panel := _panel(lane, radio_context.series)).series]
    strip = cell_strip(radio_context.phones[0].cell_visits) if radio_context.phones else None
    return [*([strip] if strip else []), *lanes]


def _panel(lane: _Lane, series: Mapping[str, Table]) -> Panel:
    lines = [
        line_with_gaps(label, role, series[label], scale=lane.unit.scale)
        for label, role in lane.roles.items()
        if label in series
    ]
    if "Radio_rssi" in series and "Radio_rssi" in lane.roles:
        lines.append(_radio_zero_level(lines))
    return Panel(lane.key, lane.title, lane.unit, lane.share, lines, from_zero=lane.from_zero)


def line_with_gaps(label: str, role: str, table: Table, *, scale: float) -> Series:
    """Return SERIES as a line that is interrupted where readings are missing.

    Parameters
    ----------
    table : Table
        SERIES with `gap_ns` in its provenance: readings with a longer distance in time are not connected.
    scale : float
        Factor to the unit of the panel.
    """
    time_ns, value = table["time_ns"], np.rint(table["value"] / scale).astype(np.int64)
    wide = np.flatnonzero(np.diff(time_ns) > table.provenance["gap_ns"])
    time_ns = np.insert(time_ns, wide + 1, time_ns[wide] + 1)
    value = np.insert(value, wide + 1, BREAK)
    words = table.provenance
    return Series(label, role, time_ns, value, doc=f"{words['doc']} ({words['source']})")


def _radio_zero_level(lines: list[Series]) -> Series:
    """Return the constant line at the level without a signal, over the time range of the other lines."""
    ends = np.array([min(s.time_ns[0] for s in lines), max(s.time_ns[-1] for s in lines)], np.int64)
    level = np.full(2, round(ZERO_LEVEL_DBM / DBM.scale), np.int64)
    doc = f"{ZERO_LEVEL_DBM:.0f} dBm: what a modem states for this power or less (TS 27.007, 8.5)"
    return Series(_ZERO_LEVEL, "zero_level", ends, level, doc=doc)


_COLOURS = 6
"""Number of cells with a colour of their own (roles cell_1 to cell_6); all others share a colour."""
_MOST_NAMED = 12
"""Maximum number of cells in the legend: those that served longest."""


def cell_strip(cell_visits: CellVisits) -> Panel | None:
    """Return the strip panel of the serving cell over time; None if the phone reports no cell."""
    if not cell_visits.cells:
        return None
    seconds = np.bincount(cell_visits.table["cell"], weights=cell_visits.table["seconds"], minlength=cell_visits.cells)
    ranked = np.argsort(-seconds, kind="stable")
    names = {int(row["cell"]): cell_name(row) for row in cell_visits.table.rows()}
    of_chunk = cell_visits.table["cell"][cell_visits.stay]
    series = [
        _strip(cell_visits, np.isin(of_chunk, cell), names[int(cell)], f"cell_{rank % _COLOURS + 1}")
        for rank, cell in enumerate(ranked[:_MOST_NAMED])
    ]
    if len(ranked) > _MOST_NAMED:
        others = np.isin(of_chunk, ranked[_MOST_NAMED:])
        series.append(_strip(cell_visits, others, f"{len(ranked) - _MOST_NAMED} other cells", "cell_7"))
    drawn = [each for each in series if len(each)]
    return Panel("cell", "Serving cell", Unit(1, "", ""), 0.22, drawn, shades=True) if drawn else None


def _strip(cell_visits: CellVisits, chosen: Mask, name: str, role: str) -> Series:
    """Return a series that is 1 during the visits that `chosen` selects; adjacent visits are joined."""
    begin, end = cell_visits.begin_ns[chosen], cell_visits.end_ns[chosen]
    apart = begin[1:] > end[:-1]
    first, last = np.append(True, apart)[: len(begin)], np.append(apart, True)[: len(end)]
    times = np.column_stack([begin[first], end[last]]).ravel()
    value = np.tile([1, 0], len(times) // 2).astype(np.int64)
    return Series(name, role, times, value, doc="serving cell, as the phone named it")
