"""Efficiency, RTT and radio of transactions or transfers, in bands of one picture (paper 000, figures 2 and 4).

Each quantity has a band of its own, with the values at its edges on the axis, so that the picture shows what happened
at the same time. A dashed line is the zero level of a band: 0, or what a modem states without a signal. A dotted line
is the ideal efficiency. A dropped transaction is a diamond in the band of the RTT, which it has not; a transfer of TCP
has a bar from its smallest to its largest RTT sample. A quantity without a value has no band, and is named below the
title.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.transports import PROTOCOLS
from multitracer.errors import InputError
from multitracer.figures.environment import ZERO_LEVEL_DBM, dropped_marks
from multitracer.figures.palette import LOOKS
from multitracer.figures.rtt_size import on_cell
from multitracer.figures.sheet import Sheet, SheetPanel
from multitracer.figures.stack import plain
from multitracer.tables import NA
from multitracer.units import NS_PER_S
from multitracer.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import plotly.graph_objects as go

    from multitracer.figures.palette import Props, ThemeName
    from multitracer.tables import Array, Row, Table

_MOST = 2_000
"""Maximum number of transactions that are drawn in a panel; these are the first ones."""
_MOST_PANELS = 12
_BAND_PX = 84
"""Height in pixels of a band whose `share` is 1: name and both edge values fit beside it."""
_FILLED = 0.8
"""Share of a band's height that its curve uses."""
_LOWEST_RSRP_DBM = -140.0
"""Lowest value of RSRP that a phone reports (TS 36.133, 9.1.4)."""
_MOST_SIZES = 6


class _Quantity(NamedTuple):
    """What is drawn of a column of EFFICIENCY, and how."""

    column: str
    name: str
    role: str
    unit: str
    share: float = 1.0
    level: float | None = None
    """Value at the dashed line, which is the lower edge; None: the band begins with the lowest value."""
    high_edge: float = -np.inf
    """Value that the upper edge has at the lowest."""
    is_named: bool = True
    """Whether the text below the title says that it was not recorded: what today's modems report instead is not."""


_RTT = _Quantity("rtt_s", "RTT", "transaction_rtt", " s", 1.8, 0.0)
_EFFICIENCY = _Quantity("efficiency", "Efficiency", "transaction_efficiency", "", high_edge=1.0)
_SENT = _EFFICIENCY._replace(column="efficiency_sent", name="Efficiency (sent)")
_RADIO = (
    _Quantity("rssi_dbm", "RSSI", "radio_rssi", " dBm", level=ZERO_LEVEL_DBM),
    _Quantity("rsrp_dbm", "RSRP", "radio_rsrp", " dBm", level=_LOWEST_RSRP_DBM, is_named=False),
    _Quantity("sinr_db", "SINR", "radio_sinr", " dB", is_named=False),
    _Quantity("bler_percent", "BLER", "radio_bler", " %", level=0.0),
    _Quantity("cell_busy_percent", "Cell busy", "radio_busy", " %", level=0.0),
)
_HIGHEST_LOW = 0.9
"""Highest value of the lower edge of the efficiency: a band of 0.999 to 1 would show nothing but noise."""


def efficiency_figure(
    sessions: Sequence[tuple[str, Table]], size_bytes: int | None = None, *, theme: ThemeName = "light"
) -> go.Figure:
    """Return the figure of the efficiency of each transaction, or else each transfer, of some sessions.

    Parameters
    ----------
    sessions : sequence of (str, Table)
        Name and EFFICIENCY of each session. Each protocol of a session has a panel; at most twelve are drawn.
    size_bytes : int, optional
        Draw only transactions of this size; by default all.
    theme : "light" or "dark"

    Raises
    ------
    InputError
        If there is neither a transaction nor a transfer, or none of that size.
    """
    return efficiency_sheet(sessions, size_bytes, theme=theme).figure()


def efficiency_sheet(
    sessions: Sequence[tuple[str, Table]], size_bytes: int | None = None, *, theme: ThemeName = "light"
) -> Sheet:
    """Return the sheet that `efficiency_figure` draws; parameters and errors are those of it."""
    groups = list(_groups(sessions, size_bytes))[:_MOST_PANELS]
    if not groups:
        raise InputError(_nothing(sessions, size_bytes))
    cells: list[SheetPanel] = []
    traces: list[Props] = []
    for number, group in enumerate(groups, 1):
        cells.append(_panel(group, theme))
        traces += [trace | on_cell(number) for trace in _traces(group, theme)]
    return Sheet(cells, traces, theme)


def _nothing(sessions: Sequence[tuple[str, Table]], size_bytes: int | None) -> str:
    sizes = sorted({int(size) for _, table in sessions for size in table["size_bytes"] if size != NA})
    if size_bytes is not None and sizes:
        return f"there is no transaction of {size_bytes} bytes; the sizes are {', '.join(map(str, sizes))}"
    names = ", ".join(name for name, _ in sessions)
    if size_bytes is not None:
        return f"{names}: --size chooses transactions, and these sessions contain none; omit --size"
    return f"{names}: no transaction and no TCP connection with data; name a session that contains some"


@dataclass(frozen=True)
class _Group:
    """The rows of one panel: those of one protocol in one session, in order of their begin."""

    name: str
    protocol: str
    table: Table

    @property
    def kind(self) -> str:
        """What a row is."""
        return "transaction" if (self.table["transaction"] != NA).any() else "transfer"

    @property
    def drawn(self) -> Table:
        """The rows that are drawn."""
        return self.table.take(slice(0, _MOST))

    @property
    def lost(self) -> Array:
        """Which rows of `drawn` were dropped: bool, shape (n,)."""
        mask: Array = self.drawn["outcome"] != "ok"
        return mask

    @property
    def quantities(self) -> list[_Quantity]:
        """All quantities that could be drawn, from the top down."""
        is_sent = np.isnan(self.table["efficiency"]).all() and np.isfinite(self.table["efficiency_sent"]).any()
        return [_RTT, _SENT if is_sent else _EFFICIENCY, *_RADIO]

    @property
    def bands(self) -> list[_Band]:
        """The bands of the quantities that have a value, from the top down."""
        chosen = [each for each in self.quantities if np.isfinite(self.table[each.column]).any()]
        chosen = chosen if _RTT in chosen or not self.lost.any() else [_RTT, *chosen]
        top, bands = sum(each.share for each in chosen), []
        for each in chosen:
            top -= each.share
            bands.append(_Band(each, self.drawn, top))
        return bands


@dataclass(frozen=True)
class _Band:
    """A quantity, its values, and where its band begins on the axis of the panel."""

    of: _Quantity
    table: Table
    base: float

    @property
    def value(self) -> Array:
        """Value of each row, in the unit of the quantity: float64, NaN where unknown."""
        values: Array = self.table[self.of.column]
        return values

    @property
    def _known(self) -> Array:
        """The values that the band must hold: those of all rows, and of the samples of transfers."""
        columns = ["rtt_min_s", "rtt_max_s"] if self.of is _RTT else []
        values = np.concatenate([self.value, *(self.table[name] for name in columns)])
        known: Array = values[np.isfinite(values)]
        return known

    @property
    def _is_constant(self) -> bool:
        """Whether there is but one value, and no level beside it."""
        return self.of.level is None and self.of.high_edge < self._known.min() == self._known.max()

    @property
    def edges(self) -> tuple[float, float]:
        """Values at the lower and the upper edge."""
        known = self._known
        if not len(known):
            return 0.0, 1.0
        low = min(float(known.min()), self.of.level if self.of.level is not None else np.inf)
        high = max(float(known.max()), self.of.high_edge)
        low = min(low, _HIGHEST_LOW) if self.of.role == _EFFICIENCY.role else low
        return (low, high) if high > low else (low, low + max(abs(low), 1.0))

    def at(self, value: Array | float) -> Array:
        """Return the place of values on the axis of the panel."""
        low, high = self.edges
        return np.asarray(self.base + _FILLED * self.of.share * (value - low) / (high - low))

    @property
    def has_values(self) -> bool:
        """Whether any row has a value."""
        return bool(np.isfinite(self.value).any())

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield place and text of each label on the axis: the name, and the values at the edges."""
        name = self.of.name.replace(" (", "<br>(")
        yield float(self.base + 0.5 * _FILLED * self.of.share), f"<b>{name}</b>"
        if self.has_values:
            low, high = self.edges
            for value in [low] if self._is_constant else [low, high]:
                yield float(self.at(value)), f"{value:.3g}{self.of.unit}".replace("-", "−")


def _groups(sessions: Sequence[tuple[str, Table]], size_bytes: int | None) -> Iterator[_Group]:
    for name, table in sessions:
        chosen = table if size_bytes is None else table.take(table["size_bytes"] == size_bytes)
        for protocol in dict.fromkeys(chosen["protocol"].tolist()):
            yield _Group(name, protocol, chosen.take(chosen["protocol"] == protocol))


def _panel(group: _Group, theme: ThemeName) -> SheetPanel:
    bands = group.bands
    height = sum(band.of.share for band in bands)
    ticks = [tick for band in bands for tick in band.ticks()]
    shapes = [shape for band in bands for shape in _levels(band, theme)]
    number = len(group.drawn)
    margin = 0.5 + 0.01 * number
    x_axis: Props = {
        "title": {"text": f"{group.kind}, in order of time", "standoff": 6},
        "range": [1 - margin, number + margin],
    }
    x_axis |= {"tickformat": "d"} if number > _FEW else {"dtick": 1}
    y_axis = {"tickvals": [at for at, _ in ticks], "ticktext": [text for _, text in ticks], "ticks": "",
              "showgrid": False, "zeroline": False, "automargin": True, "range": [-0.08, height + 0.06]}  # fmt: skip
    return SheetPanel(_title(group), round(_BAND_PX * height), x_axis, y_axis, shapes=shapes, more=_explanation(group))


_FEW, _MANY = 12, 200
"""Numbers of rows up to which each has a number below it and a large mark, and from which on marks are small."""


def _title(group: _Group) -> str:
    table, lost = group.table, int((group.table["outcome"] != "ok").sum())
    protocol = PROTOCOLS.get(group.protocol, group.protocol)
    return f"{group.name}: {count(len(table), group.kind)} over {protocol}, {_rtt_range(table)}, {lost:,} dropped (◇)"


def _rtt_range(table: Table) -> str:
    """Return the largest less the smallest RTT as text: of transactions, else of the samples of transfers."""
    values = np.concatenate([table[name] for name in ("rtt_s", "rtt_min_s", "rtt_max_s")])
    known = values[np.isfinite(values)]
    return f"RTT range {np.ptp(known):.3g} s" if len(known) else "no RTT"


def _explanation(group: _Group) -> str:
    """Return the text below the title: sizes, how the efficiency is known, and what was not recorded."""
    table = group.table
    sizes = sorted({int(size) for size in table["size_bytes"] if size != NA})
    words = []
    if sizes:
        words.append(
            f"{', '.join(f'{size:,}' for size in sizes[:_MOST_SIZES])}{' …' * (len(sizes) > _MOST_SIZES)} bytes"
        )
    words.append(_mean_efficiency(table))
    if group.kind == "transfer":
        words.append("RTT: median, smallest and largest sample")
    shown = {band.of.name for band in group.bands}
    missing = [each for each in group.quantities if each.is_named and each.name not in shown | {_EFFICIENCY.name}]
    reasons: dict[str, list[str]] = {}
    for each in missing:
        reason = table.provenance.get("absent", {}).get(each.column, "not recorded")
        reasons.setdefault(reason, []).append(each.name.replace("Cell", "cell"))
    words += [f"no {', '.join(names)}: {reason}" for reason, names in reasons.items()]
    words += [f"the first {_MOST:,} are drawn"] if len(table) > _MOST else []
    left_out = table.provenance.get("left_out", 0)
    words += [f"{left_out:,} transfers with fewer bytes are left out"] if left_out else []
    text = "; ".join(words)
    return f"{text[0].upper()}{text[1:]}."


def _mean_efficiency(table: Table) -> str:
    for column, name in (("efficiency", "efficiency"), ("efficiency_sent", "efficiency (sent)")):
        known = np.isfinite(table[column])
        if known.any():
            evidence = ", ".join(dict.fromkeys(table["evidence"][known].tolist()))
            return f"mean {name} {table[column][known].mean():.4g}, {evidence}"
    return f"efficiency unknown: {', '.join(dict.fromkeys(table['evidence'].tolist()))}"


def _levels(band: _Band, theme: ThemeName) -> list[Props]:
    """Return the dashed zero level of a band, or the dotted ideal."""
    colour = LOOKS[band.of.role].colour(theme)
    if band.of.level is not None:
        return [_line(band.at(band.of.level), colour, "dash", "zero level")] if band.has_values else []
    return [_line(band.at(1.0), colour, "dot", "ideal")] if band.of.role == _EFFICIENCY.role else []


def _line(y: Array, colour: str, dash: str, name: str) -> Props:
    line = {"color": colour, "width": 1, "dash": dash}
    return {"type": "line", "y0": float(y), "y1": float(y), "line": line, "name": name, "layer": "below"}


def _traces(group: _Group, theme: ThemeName) -> list[Props]:
    table, lost = group.drawn, group.lost
    x = np.arange(1, len(table) + 1)
    labels = list(_labels(table))
    traces = [_curve(band, x, labels, theme) for band in group.bands if band.has_values]
    if lost.any():
        band = group.bands[0]
        y = np.full(int(lost.sum()), band.base + 0.9 * band.of.share)
        why = [f"{labels[row]}: {_why(table, row)}" for row in np.flatnonzero(lost).tolist()]
        traces.append(dropped_marks(x[lost], y, why, theme))
    return traces


def _why(table: Table, row: int) -> str:
    return str(table["why"][row]) or "no reason recorded"


def _labels(table: Table) -> Iterator[str]:
    """Yield what a reader is told of each row: its number, size, and when it began."""
    first_ns = int(table["begin_ns"].min()) if len(table) else 0
    for row in table.rows():
        began = f"{(row['begin_ns'] - first_ns) / NS_PER_S:.1f} s after the first"
        yield f"{_name(row)}, {began}"


def _name(row: Row) -> str:
    if row["transaction"] is None:
        return f"connection {row['connection']}, {row['needed_bytes']:,} bytes"
    return f"transaction {row['transaction']}" + (
        "" if row["size_bytes"] is None else f" of {row['size_bytes']:,} bytes"
    )


def _curve(band: _Band, x: Array, labels: list[str], theme: ThemeName) -> Props:
    look = LOOKS[band.of.role]
    colour = look.colour(theme)
    name = plain(band.of.name)
    values = [f"{value:.4g}{band.of.unit}, {label}" for value, label in zip(band.value.tolist(), labels, strict=True)]
    trace: Props = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "showlegend": False,
        "x": x,
        "y": band.at(band.value),
        "customdata": [plain(value) for value in values],
        "line": {"color": colour, "width": look.size_px if len(x) <= _MANY else 1},
        "marker": {
            "color": colour,
            "size": 8 if len(x) <= _FEW else 5 if len(x) <= _MANY else 3,
            "symbol": look.symbol,
        },
        "hovertemplate": f"<b>{name}</b> %{{customdata}}<extra></extra>",
    }
    if band.of is _RTT and np.isfinite(band.table["rtt_max_s"]).any():
        y, low, high = (band.at(band.table[column]) for column in ("rtt_s", "rtt_min_s", "rtt_max_s"))
        bars = {"type": "data", "symmetric": False, "array": high - y, "arrayminus": y - low}
        trace["error_y"] = bars | {"color": colour, "thickness": 1.4, "width": 4}
    return trace
