"""The data that a flow delivered to its receiver for the first time, computed from one capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import distinct, first_painters
from multitracer.protocols.wtcp.packet import DATA_BYTES, HEAD_BYTES, WtcpPacketType
from multitracer.tables import NOT_A_TIME, Table
from multitracer.units import BITS_PER_BYTE, NS_PER_S
from multitracer.wtcp import DELIVERIES, RATE_COMMANDS

if TYPE_CHECKING:
    from multitracer.tables import Array, Mask, Numbers, Times

_HEADER_BYTES = 20 + 8 + HEAD_BYTES + DATA_BYTES
"""Headers of a packet with data: IPv4, UDP, WTCP."""
_POINTS = 400
"""The maximum number of points of a rate curve: two pixels for each point on a wide screen."""


def wtcp_deliveries(packets: Table, flow: int) -> tuple[Table, int]:
    """Return DELIVERIES of one direction of a WTCP connection, and the number of packets without new data.

    Parameters
    ----------
    packets : Table
        WTCP_PACKETS.
    flow : int
        2 x (number of the connection, from 0), plus 1 for the direction from the responder.
    """
    rows = np.flatnonzero(wtcp_data(packets, flow))
    begin, length = packets["place"][rows], packets["payload_bytes"][rows]
    new = _new(begin, begin + length)
    brought = new > 0
    table = Table(DELIVERIES, {"time_ns": packets["time_ns"][rows[brought]], "new_bytes": new[brought]})
    return table, int(np.count_nonzero(~brought))


def wtcp_data(packets: Table, flow: int) -> Mask:
    """Return which packets carry payload of the flow: bool, shape (n_packets,)."""
    mask: Mask = (packets["flow"] == flow) & (packets["kind"] == WtcpPacketType.DATA.value)
    return mask & (packets["payload_bytes"] > 0)


def rate_commands(packets: Table, flow: int) -> Table:
    """Return RATE_COMMANDS of one direction of a WTCP connection; parameters are those of `wtcp_deliveries`.

    A packet is as long as the longest that carried data: the last one of a transfer is shorter.
    """
    payload = packets["payload_bytes"][wtcp_data(packets, flow)]
    acks = (packets["flow"] == flow ^ 1) & (packets["kind"] == WtcpPacketType.ACK.value)
    if not len(payload) or not acks.any():
        return Table.empty(RATE_COMMANDS)
    packet_bits = (int(payload.max()) + _HEADER_BYTES) * BITS_PER_BYTE
    rate = packets["rate_bps"][acks] / packet_bits
    return Table(RATE_COMMANDS, {"time_ns": packets["time_ns"][acks], "packets_per_s": rate})


def _new(begin: Numbers, end: Numbers) -> Numbers:
    """Return how many bytes (or packets) of each range [begin, end) no earlier range contained."""
    edges = distinct(np.concatenate([begin, end]))
    left, right = np.searchsorted(edges, begin), np.searchsorted(edges, end)
    first = first_painters(left, right, max(len(edges) - 1, 0))
    sums = np.bincount(first, np.diff(edges), minlength=len(begin) + 1)
    return np.rint(sums[: len(begin)]).astype(np.int64)


def acknowledged_bytes(packets: Table, flow: int) -> int | None:
    """Return the number of payload bytes acknowledged in order by the receiver; None without an ACK.

    Parameters are those of `wtcp_deliveries`. The result is never more than the number of bytes sent.
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
        False: the initiator's data; True: the responder's.
    """
    rows = (segments["reverse"] == reverse) & (segments["new_bytes"] > 0)
    return Table(DELIVERIES, {name: segments[name][rows].astype(np.int64) for name in DELIVERIES.names})


def mean_rate_bps(table: Table, begin_ns: int, *, speed: float = 1.0) -> float | None:
    """Return the mean payload rate of DELIVERIES from `begin_ns` to the last packet, bit/s.

    It is None if the last packet is not later than `begin_ns`. `speed` is the number of link seconds in a
    recorded second (1 except for a recording that was slowed down or sped up).
    """
    timed = table["time_ns"][table["time_ns"] != NOT_A_TIME]
    if begin_ns == NOT_A_TIME or not len(timed) or int(timed.max()) <= begin_ns:
        return None
    seconds = (int(timed.max()) - begin_ns) * speed / NS_PER_S
    return int(table["new_bytes"].sum()) * BITS_PER_BYTE / seconds


def rate_curve(time_s: Array, new_bytes: Numbers, window_s: float, until_s: float) -> tuple[Array, Array]:
    """Return a moving rate: each point is the rate in the window that ends at that time.

    Parameters
    ----------
    time_s : ndarray of float64, shape (n,)
        Arrival times of the packets, ascending.
    new_bytes : ndarray of int64, shape (n,)
    window_s : float
        Length of the window, > 0.
    until_s : float
        End of the curve, not before its start. The curve starts at the first packet.

    Returns
    -------
    (ndarray, ndarray) of float64, shape (m,)
        Times in s, and rates in bit/s. Points in the first window are also divided by the full length of the window.
    """
    if not len(time_s):
        return np.empty(0), np.empty(0)
    at_s = np.linspace(time_s[0], max(until_s, time_s[0]), _POINTS)
    total = np.append(0, np.cumsum(new_bytes))
    now, before = (np.searchsorted(time_s, at, side="right") for at in (at_s, at_s - window_s))
    return at_s, (total[now] - total[before]) * BITS_PER_BYTE / window_s


def in_time_order(table: Table) -> tuple[Times, Numbers]:
    """Return times and new bytes of DELIVERIES, sorted by time, without packets that carry no new data."""
    timed = np.flatnonzero(table["time_ns"] != NOT_A_TIME)
    order = timed[np.argsort(table["time_ns"][timed], kind="stable")]
    return table["time_ns"][order], table["new_bytes"][order]
