"""Received power over time, and a transfer over this radio link: the five panels of paper 002."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.figures.palette import LOOKS
from multitracer.figures.sheet import SheetPanel, axis_name, sheet
from multitracer.figures.stack import plain
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from multitracer.figures.palette import Props, ThemeName
    from multitracer.tables import Array, Numbers, Times

WINDOW_NS = 100 * NS_PER_MS
"""Window of the moving average of the throughput (paper 002, section II)."""
_TALL_PX, _PANEL_PX, _EVENTS_PX = 300, 150, 70
_MOST_POINTS = 5_000
"""Maximum points of the power curve, several for each pixel; of more points, the minimum and maximum of each
interval are drawn. Not measured."""


@dataclass(frozen=True, slots=True)
class PowerTransfer:
    """Sent and received data of a transfer.

    All arrays are int64, shape (n,); times are in ns since the start of the channel.

    Parameters
    ----------
    sent_ns, sent_bytes : Times, Numbers
        Sending time of each data segment, and the position of the segment in the stream.
    arrived_ns, arrived_bytes : Times, Numbers
        Arrival times, and the end of the arrived data as a position in the stream.
    window_ns, window_bytes : Times, Numbers
        Times and values of the congestion window; empty if it is not known.
    packet_bytes : int
        Data in a full packet: window and sequence are drawn in such packets, as in paper 002.
    """

    sent_ns: Times
    sent_bytes: Numbers
    arrived_ns: Times
    arrived_bytes: Numbers
    window_ns: Times
    window_bytes: Numbers
    packet_bytes: int


def power_figure(
    name: str,
    time_ns: Times,
    power_dbm: Array,
    *,
    threshold_dbm: float | None = None,
    transfer: PowerTransfer | None = None,
    theme: ThemeName = "light",
) -> go.Figure:
    """Return the figure of a radio link: received power, threshold, and the panels of a transfer.

    Parameters
    ----------
    name : str
        Name of the scenario or file.
    time_ns : (n,) int64
        Times since the start of the channel.
    power_dbm : (n,) float64
    threshold_dbm : float, optional
        Minimum power for reception, drawn as a line.
    transfer : PowerTransfer, optional
        The transfer: the figure then has five panels (power, window, throughput, sequence, transmissions).
    theme : "light" or "dark"
    """
    seconds, drawn_dbm = _thinned(time_ns, power_dbm)
    below = "" if threshold_dbm is None else f"dashed: the threshold, {threshold_dbm:g} dBm"
    axis: Props = {"range": [0, float(time_ns[-1]) / NS_PER_S]}
    lowest = axis | {"title": {"text": "seconds", "standoff": 6}}
    alone = transfer is None
    cell = SheetPanel(
        f"{plain(name)}: received power",
        _TALL_PX if alone else _PANEL_PX,
        lowest if alone else axis,
        {"title": {"text": "dBm"}},
        own_x=alone,
        more=below,
    )
    lines = [_line(1, seconds, drawn_dbm, LOOKS["throughput"].colour(theme))]
    if threshold_dbm is not None:
        ends = seconds[[0, -1]]
        lines.append(_line(1, ends, np.full(2, threshold_dbm), LOOKS["rto"].colour(theme), dash="dash"))
    if transfer is None:
        return sheet([cell], lines, theme=theme)
    cells, more = _panels(transfer, int(time_ns[-1]), axis, lowest, theme)
    return sheet([cell, *cells], [*lines, *more], theme=theme)


def _thinned(time_ns: Times, power_dbm: Array) -> tuple[Array, Array]:
    """Return times in s and power in dBm; if there are too many points, minimum and maximum per interval."""
    per = -(-len(power_dbm) // (_MOST_POINTS // 2))
    if per < 3:
        return time_ns / NS_PER_S, power_dbm
    edges = np.arange(0, len(power_dbm), per)
    low, high = np.minimum.reduceat(power_dbm, edges), np.maximum.reduceat(power_dbm, edges)
    return np.repeat(time_ns[edges] / NS_PER_S, 2), np.column_stack([low, high]).ravel()


def _panels(
    transfer: PowerTransfer, end_ns: int, axis: Props, lowest: Props, theme: ThemeName
) -> tuple[list[SheetPanel], list[Props]]:
    """Return the four panels below the power panel, and the list of all their traces."""
    arrived_s, rate = moving_rate(transfer.arrived_ns, transfer.arrived_bytes, end_ns=end_ns)
    unknown = "" if len(transfer.window_ns) else "No log of the sender's variables was found."
    packets: Props = {"title": {"text": "packets"}}
    of_data = f"packets of {transfer.packet_bytes:,} bytes of data"
    cells = [
        SheetPanel(f"Congestion window, in {of_data}", _PANEL_PX, axis, packets, unknown, own_x=False),
        SheetPanel(
            "Throughput, moving average over 100 ms", _PANEL_PX, axis, {"title": {"text": "byte/s"}}, own_x=False
        ),
        SheetPanel(f"Sequence of what was sent, in {of_data}", _PANEL_PX, axis, packets, own_x=False),
        SheetPanel("Transmissions", _EVENTS_PX, lowest, {"showticklabels": False, "range": [0, 1]}),
    ]
    sent_s = transfer.sent_ns / NS_PER_S
    bars_s = np.repeat(sent_s, 3)
    height = np.tile([0.0, 1.0, np.nan], len(sent_s))
    traces = [
        _line(3, arrived_s, rate, LOOKS["throughput"].colour(theme)),
        _line(4, sent_s, transfer.sent_bytes / transfer.packet_bytes, LOOKS["goodput"].colour(theme))
        | {"mode": "markers", "marker": {"color": LOOKS["goodput"].colour(theme), "size": 3}},
        _line(5, bars_s, height, LOOKS["goodput"].colour(theme)),
    ]
    if not unknown:
        window_s = transfer.window_ns / NS_PER_S
        window = transfer.window_bytes / transfer.packet_bytes
        traces.insert(0, _line(2, window_s, window, LOOKS["rto"].colour(theme), shape="hv"))
    return cells, traces


def moving_rate(arrived_ns: Times, arrived_bytes: Numbers, *, end_ns: int = 0) -> tuple[Array, Array]:
    """Return the rate of new data as a moving average over 100 ms, with ten points in a window.

    Parameters
    ----------
    arrived_ns : (n,) int64
        Ascending.
    arrived_bytes : (n,) int64
        End of the data of each arrival, as a position in the stream.
    end_ns : int
        End of the run: behind the last arrival the rate is 0 until then.

    Returns
    -------
    tuple of (m,) float64
        End of each window in s since time 0, and the rate in byte/s.
    """
    if not len(arrived_ns):
        return np.zeros(0), np.zeros(0)
    reached = np.concatenate([[0], np.maximum.accumulate(arrived_bytes)])
    end_ns = max(end_ns, int(arrived_ns[-1]) + WINDOW_NS - 1)
    ends_ns = np.arange(WINDOW_NS, end_ns + 1, WINDOW_NS // 10)
    until = reached[np.searchsorted(arrived_ns, ends_ns, side="right")]
    before = reached[np.searchsorted(arrived_ns, ends_ns - WINDOW_NS, side="right")]
    return ends_ns / NS_PER_S, (until - before) * (NS_PER_S / WINDOW_NS)


def _line(panel: int, x: Array, y: Array, colour: str, **look: str) -> Props:
    axes = {"xaxis": axis_name("x", panel), "yaxis": axis_name("y", panel)}
    line = {"line": {"color": colour, "width": 1.2} | look}
    return {"type": "scatter", "mode": "lines", "x": x, "y": y, "showlegend": False} | axes | line
