"""What a flow brought its receiver for the first time, from the packets that one capture shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import distinct, first_painters
from multitracer.protocols.wtcp.packet import WtcpPacketType
from multitracer.tables import NOT_A_TIME, Table
from multitracer.units import BITS_PER_BYTE, NS_PER_S
from multitracer.wtcp import DELIVERIES

if TYPE_CHECKING:
    from multitracer.tables import Array, Mask, Numbers, Times

_POINTS = 400
"""Of a curve of rates: two pixels each on a wide screen."""


def wtcp_deliveries(packets: Table, flow: int) -> tuple[Table, int]:
    """Return DELIVERIES of one direction of a WTCP connection, and how many packets brought nothing new.

    Parameters
    ----------
    packets : Table
        WTCP_PACKETS.
    flow : int
        2 x number of the connection from 0, + 1 for what its responder sent.
    """
    rows = np.flatnonzero(wtcp_data(packets, flow))
    begin, length = packets["place"][rows], packets["payload_bytes"][rows]
    new = _new(begin, begin + length)
    brought = new > 0
    table = Table(DELIVERIES, {"time_ns": packets["time_ns"][rows[brought]], "new_bytes": new[brought]})
    return table, int(np.count_nonzero(~brought))


def wtcp_data(packets: Table, flow: int) -> Mask:
    """Return which packets carry payload of a flow: bool, shape (n_packets,)."""
    mask: Mask = (packets["flow"] == flow) & (packets["kind"] == WtcpPacketType.DATA.value)
    return mask & (packets["payload_bytes"] > 0)


def _new(begin: Numbers, end: Numbers) -> Numbers:
    """Return how many units of each range none before it held; no range is empty."""
    edges = distinct(np.concatenate([begin, end]))
    left, right = np.searchsorted(edges, begin), np.searchsorted(edges, end)
    first = first_painters(left, right, max(len(edges) - 1, 0))
    sums = np.bincount(first, np.diff(edges), minlength=len(begin) + 1)
    return np.rint(sums[: len(begin)]).astype(np.int64)


def acknowledged_bytes(packets: Table, flow: int) -> int | None:
    """Return how much of a flow's payload its receiver has acknowledged in order; None without an ACK.

    Parameters are those of `wtcp_deliveries`. Never more than was sent.
    """
    sent = wtcp_data(packets, flow)
    acks = (packets["flow"] == flow ^ 1) & (packets["kind"] == WtcpPacketType.ACK.value)
    if not acks.any() or not sent.any():
        return None
    highest = int((packets["place"][sent] + packets["payload_bytes"][sent]).max())
    return min(int(packets["place"][acks].max()), highest)


def tcp_deliveries(segments: Table, *, reverse: bool) -> Table:
    """Return DELIVERIES of one direction of a TCP connection.

    Parameters
    ----------
    segments : Table
        TCP_SEGMENTS.
    reverse : bool
        Whose data: False the initiator's, True the responder's.
    """
    rows = (segments["reverse"] == reverse) & (segments["new_bytes"] > 0)
    return Table(DELIVERIES, {name: segments[name][rows].astype(np.int64) for name in DELIVERIES.names})


def mean_rate_bps(table: Table, begin_ns: int, *, speed: float = 1.0) -> float | None:
    """Return the payload of DELIVERIES in bit/s from a time to its last packet; None if no time passed.

    `speed` is link seconds in a recorded second.
    """
    timed = table["time_ns"][table["time_ns"] != NOT_A_TIME]
    if begin_ns == NOT_A_TIME or not len(timed) or int(timed.max()) <= begin_ns:
        return None
    seconds = (int(timed.max()) - begin_ns) * speed / NS_PER_S
    return int(table["new_bytes"].sum()) * BITS_PER_BYTE / seconds


def rate_curve(time_s: Array, new_bytes: Numbers, window_s: float, until_s: float) -> tuple[Array, Array]:
    """Return points of a moving rate: what arrived in the window that ends there.

    Parameters
    ----------
    time_s : ndarray of float64, shape (n,)
        When packets arrived, ascending.
    new_bytes : ndarray of int64, shape (n,)
    window_s : float
        Length of the window, > 0.
    until_s : float
        End of the curve, the begin is the first packet; not before that.

    Returns
    -------
    (ndarray, ndarray) of float64, shape (m,)
        Seconds, and bit/s. Until a whole window has passed, what arrived is divided by a whole one.
    """
    if not len(time_s):
        return np.empty(0), np.empty(0)
    at_s = np.linspace(time_s[0], max(until_s, time_s[0]), _POINTS)
    total = np.append(0, np.cumsum(new_bytes))
    now, before = (np.searchsorted(time_s, at, side="right") for at in (at_s, at_s - window_s))
    return at_s, (total[now] - total[before]) * BITS_PER_BYTE / window_s


def in_time_order(table: Table) -> tuple[Times, Numbers]:
    """Return times and new bytes of DELIVERIES in order of time, without packets that carry none."""
    timed = np.flatnonzero(table["time_ns"] != NOT_A_TIME)
    order = timed[np.argsort(table["time_ns"][timed], kind="stable")]
    return table["time_ns"][order], table["new_bytes"][order]
