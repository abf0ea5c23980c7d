"""What the radio was like while the transactions of one size ran (paper 000, figures 2 and 4).

`overlay` is the paper's way: all in one picture, each curve scaled and shifted into a band of its own, which
shows what moves together and hides how much. `panels` is ours: the same on real axes that zoom in step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from multitracer.analysis.transactions import dropped, efficiency, is_sent_efficiency
from multitracer.errors import InputError
from multitracer.figures.palette import LOOKS
from multitracer.figures.rtt_size import on_cell
from multitracer.figures.sheet import Cell, sheet
from multitracer.figures.stack import plain

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from multitracer.analysis.transactions import Arm
    from multitracer.figures.palette import ThemeName
    from multitracer.tables import Array, Table

ZERO_LEVEL_DBM = -113.0
"""What a CDPD modem says where there is no signal (paper 000, section IV.B)."""
_MOST = 20_000
"""Transactions that are drawn; of more, the first."""
_OVERLAY_PX, _RTT_PX, _OTHER_PX = 560, 190, 95
_BAND = 0.82
"""Of a band's height that its curve may use."""
_STRONG_DBM = -51.0
"""The strongest that +CSQ can say (TS 27.007 8.5): where the RSSI's band ends at its top."""


@dataclass(frozen=True, slots=True)
class _Curve:
    """One measured quantity of each transaction."""

    name: str
    role: str
    unit: str
    value: Array
    share: float
    """Height of its band."""
    least: float | None = None
    """What its band or axis begins at, if that is given."""
    empty: str = "not recorded: no modem was asked"

    @property
    def known(self) -> Array:
        return self.value[np.isfinite(self.value)]

    @property
    def ends(self) -> tuple[float, float]:
        """From which to which value its band reaches."""
        low = float(self.known.min()) if self.least is None else self.least
        high = float(self.known.max())
        if self.role == "radio_rssi":
            return low, max(high, _STRONG_DBM)
        if self.role == "transaction_efficiency":
            return min(low, 0.9), max(high, 1.0)
        return (low, high) if high > low else (low, low + max(abs(low), 1.0))

    def words(self) -> str:
        """Return its name and its range."""
        if not len(self.known):
            return f"{self.name}: {self.empty}"
        low, high = float(self.known.min()), float(self.known.max())
        return f"{self.name} {low:.3g} to {high:.3g}{self.unit}".replace(" ", "\xa0")


def rtt_range_s(arm: Arm, size_bytes: int) -> float:
    """Return the greatest less the least RTT of the finished transactions of a size; NaN for none."""
    rtts = arm.rtt_s(arm.at(size_bytes))
    done = rtts[np.isfinite(rtts)]
    return float(done.max() - done.min()) if len(done) else float("nan")


def default_size(arm: Arm) -> int:
    """Return the size whose environment is worth a look: the largest of which any transaction finished."""
    worth = [size for size in arm.sizes if np.isfinite(arm.rtt_s(arm.at(size))).any()]
    return worth[-1] if worth else arm.sizes[-1]


def overlay(arm: Arm, size_bytes: int | None = None, *, theme: ThemeName = "light") -> go.Figure:
    """Return the environment overlay of one size of an arm, its transactions side by side.

    Parameters
    ----------
    arm : Arm
    size_bytes : int, optional
        By default that of `default_size`.
    theme : "light" or "dark"

    Raises
    ------
    InputError
        If the arm has no transaction of that size.
    """
    size, table = _chosen(arm, size_bytes)
    number = np.arange(1, len(table) + 1)
    curves = _curves(arm, table)
    traces: list[dict[str, Any]] = []
    ticks: list[tuple[float, str]] = []
    shapes, top = [], sum(curve.share for curve in curves)
    for curve in curves:
        base, top = top - curve.share, top - curve.share
        words = curve.name.replace(" (", "<br>(")
        ticks.append((base + 0.5 * _BAND * curve.share, words))
        if curve.role == "radio_rssi":
            shapes.append(_zero_level(base, theme))
        if len(curve.known):
            low, high = curve.ends
            shifted = base + _BAND * curve.share * (curve.value - low) / (high - low)
            traces.append(_trace(curve, number, shifted, theme))
            if curve.role == "transaction_rtt":
                traces += _diamonds(table, number, base + _BAND * curve.share * 1.1, theme)
    x_axis = _x_axis("transaction", len(table))
    y_axis = {"tickvals": [at for at, _ in ticks], "ticktext": [words for _, words in ticks], "ticks": ""}
    y_axis |= {"showgrid": False, "range": [-0.06, sum(curve.share for curve in curves) + 0.06]}
    cell = Cell(_said(curves), _OVERLAY_PX, x_axis, y_axis, _why_empty(table), shapes=shapes)
    return sheet([cell], [t | on_cell(1) for t in traces], theme=theme, heading=_heading(arm, size, table))


def panels(arm: Arm, size_bytes: int | None = None, *, theme: ThemeName = "light") -> go.Figure:
    """Return RTT, efficiency, RSSI, BLER and cell busy of one size on real axes over one time axis.

    Parameters and errors are those of `overlay`.
    """
    size, table = _chosen(arm, size_bytes)
    began_s = arm.begin_s(table)
    curves = _curves(arm, table)
    cells, traces = [], []
    for number, curve in enumerate(curves, 1):
        last = number == len(curves)
        height = _RTT_PX if number == 1 else _OTHER_PX
        x_axis = (_x_axis("began, s after the first", None) if last else {}) | _matching(number)
        empty = "" if len(curve.known) else f"{curve.name} was {curve.empty}."
        shapes = [_zero_level(ZERO_LEVEL_DBM, theme)] if curve.role == "radio_rssi" and not empty else []
        cells.append(
            Cell(_panel_title(curve), height, x_axis, _y_axis(curve), empty, shapes=shapes, own_x=last)
        )
        if not empty:
            traces.append(_trace(curve, began_s, curve.value, theme) | on_cell(number))
        if number == 1:
            place = 1.1 * float(curve.known.max()) if len(curve.known) else 0.5
            traces += [t | on_cell(1) for t in _diamonds(table, began_s, place, theme)]
    return sheet(cells, traces, theme=theme, heading=_heading(arm, size, table))


def _chosen(arm: Arm, size_bytes: int | None) -> tuple[int, Table]:
    size = default_size(arm) if size_bytes is None else size_bytes
    if size not in arm.sizes:
        there = ", ".join(map(str, arm.sizes))
        raise InputError(f"{arm.name}: no transaction of {size} bytes; there are {there}")
    return size, arm.at(size).take(np.arange(min(_MOST, int(np.sum(arm.table["size_bytes"] == size)))))


def _curves(arm: Arm, table: Table) -> list[_Curve]:
    rtt = arm.rtt_s(table)
    share = "Efficiency (sent)" if is_sent_efficiency(table) else "Efficiency"
    return [
        _Curve("RTT", "transaction_rtt", " s", np.where(np.isfinite(rtt), rtt, np.nan), 2.2, 0.0),
        _Curve(share, "transaction_efficiency", "", efficiency(table), 1.0, empty="not known"),
        _Curve("RSSI", "radio_rssi", " dBm", table["rssi_dbm"], 1.0, ZERO_LEVEL_DBM),
        _Curve("BLER", "radio_bler", " %", table["bler_percent"], 1.0, 0.0),
        _Curve("Cell busy", "radio_busy", " %", table["cell_busy_percent"], 1.0, 0.0),
    ]


def _said(curves: list[_Curve]) -> str:
    return f"Scaled and shifted: {'; '.join(curve.words() for curve in curves)}"


def _heading(arm: Arm, size: int, table: Table) -> str:
    lost = int(dropped(table).sum())
    span = rtt_range_s(arm, size)
    said = f"RTT range {span:.3g} s" if np.isfinite(span) else "no RTT"
    return f"{arm.name}, {arm.vary} of {size} bytes: {said}, {lost} of {len(table)} dropped (◇)"


def _why_empty(table: Table) -> str:
    return "All transactions of this size were dropped." if dropped(table).all() else ""


def _x_axis(title: str, count: int | None) -> dict[str, Any]:
    ends = {} if count is None else {"range": [0.5 - 0.01 * count, count + 0.5 + 0.01 * count]}
    return {"title": {"text": title, "standoff": 6}} | ends


def _matching(number: int) -> dict[str, str]:
    return {} if number == 1 else {"matches": "x"}


def _panel_title(curve: _Curve) -> str:
    unit = f", {curve.unit.strip()}" if curve.unit else ""
    level = f" (dashed: zero level, {ZERO_LEVEL_DBM:.0f})" if curve.role == "radio_rssi" else ""
    return f"{curve.name}{unit}{level if len(curve.known) else ''}"


def _y_axis(curve: _Curve) -> dict[str, Any]:
    if not len(curve.known):
        return {"showticklabels": False, "range": [0, 1]}
    low, high = curve.ends
    room = 0.06 * (high - low)
    top = high + (0.2 * (high - low) if curve.role == "transaction_rtt" else room)
    return {"range": [low - room, top], "nticks": 5}


def _zero_level(y: float, theme: ThemeName) -> dict[str, Any]:
    line = {"color": LOOKS["radio_rssi"].colour(theme), "width": 1.2, "dash": "dash"}
    return {"type": "line", "y0": y, "y1": y, "line": line, "name": "zero level"}


def _trace(curve: _Curve, x: Array, y: Array, theme: ThemeName) -> dict[str, Any]:
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
        "hovertemplate": f"<b>{plain(curve.name)}</b> %{{customdata:.4~g}}{curve.unit}<br>at %{{x}}"
        "<extra></extra>",
    }


def _diamonds(table: Table, x: Array, y: float, theme: ThemeName) -> list[dict[str, Any]]:
    """Return the dropped transactions, above the RTT of all others."""
    lost = dropped(table)
    if not lost.any():
        return []
    look = LOOKS["transaction_dropped"]
    colour = look.colour(theme)
    marker = {"color": colour, "size": look.size_px, "symbol": look.symbol, "line": {"width": 1.5}}
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "dropped",
            "showlegend": False,
            "x": x[lost],
            "y": np.full(int(lost.sum()), y),
            "marker": marker,
            "customdata": [plain(str(why)) for why in table["why"][lost]],
            "hovertemplate": "<b>dropped</b> %{customdata}<br>%{x}<extra></extra>",
        }
    ]
