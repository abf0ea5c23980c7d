"""Packets arrived in another order than they were sent, and TCP took some of them for lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis import SegmentKind
from multitracer.analysis.group import has
from multitracer.analysis.two_points import PacketOutcome
from multitracer.analysis.verdicts import Necessity, RetransmissionCause
from multitracer.captured import CaptureMark
from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.limits.gaps import ROUND
from multitracer.schemas.tcp import Vantage
from multitracer.tables import NA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.analysis.overtaken import Overtaken
    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.tables import Array

KIND = "reordering"
HELP = "Look for two paths or links in parallel; RACK (RFC 8985) at the sender bears reordering."
_MIN = 3
"""Minimum number of late packets: one or two have no effect."""
_FARTHEST = 1000
"""Maximum number of packets counted as having overtaken one packet."""


class _Late(NamedTuple):
    row: Array
    """Rows of `sender` of packets that were overtaken."""
    extent: int
    """Maximum number of packets that overtook one packet; NA if unknown."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding, if packets arrived in another order than they were sent."""
    seen = diagnosis.limited.seen
    if diagnosis.transfer.vantage is Vantage.NEAR_RECEIVER and (seen is None or seen.overtaken is None):
        return
    verdicts = diagnosis.transfer.verdicts
    fast = (verdicts["cause"] == RetransmissionCause.FAST) & (verdicts["necessity"] == Necessity.SPURIOUS)
    needless = verdicts["row"][fast]  # asked for by duplicate ACKs or SACKs, of what arrived all the same
    late = _late(diagnosis, needless) if seen is None or seen.overtaken is None else _arrived(diagnosis, seen.overtaken)
    if len(late.row) < _MIN:
        return
    table = diagnosis.transfer.sender
    began_ns, ended_ns = (int(table["time_ns"][late.row[i]]) for i in (0, -1))
    far = f", by up to {late.extent} others" if late.extent != NA else ""
    payload = int(table["payload_bytes"][needless].sum())
    repairs = (
        f"TCP sent {payload:,} bytes again needlessly because of it"
        if len(needless)
        else "TCP sent nothing again because of it"
    )
    share = len(late.row) / len(diagnosis.transfer.data)
    sentence = f"{len(late.row):,} packets ({100 * share:.2f} %) were overtaken on the way{far}; {repairs}."
    numbers = {"reordered_packets": len(late.row), "reordered_share": share, "needless_repairs": len(needless)}
    numbers |= {} if late.extent == NA else {"extent_packets": late.extent}
    evidence = rows("sender", late.row)
    yield Finding(KIND, began_ns, ended_ns, 0.0, payload, evidence, sentence, numbers=numbers)


def _arrived(diagnosis: Diagnosis, late: Overtaken) -> _Late:
    """Return the packets that the receiver's own capture shows as overtaken."""
    ahead = np.searchsorted(diagnosis.transfer.data, late.row) - np.searchsorted(diagnosis.transfer.data, late.before)
    return _Late(late.row, int(ahead.max(initial=NA)))


def _late(diagnosis: Diagnosis, needless: Array) -> _Late:
    pairs = diagnosis.transfer.data_pairs
    if pairs is None:
        return _Late(_by_reports(diagnosis, needless), NA)

    # of what was sent again as it is, without IP identification (IPv6) or timestamps to distinguish the
    # copies, nobody knows which arrived
    table, rows = diagnosis.transfer.sender, np.maximum(pairs.sent, 0)
    is_certain = (table["ip_id"][rows] > 0) | has(table["marks"][rows], CaptureMark.HAS_TIMESTAMPS)
    if not is_certain.all():
        _, which, copies = np.unique(table["seq_bytes"][rows], return_inverse=True, return_counts=True)
        is_certain |= copies[which] <= 1
    both = np.flatnonzero((pairs.table["outcome"] == PacketOutcome.MATCHED) & (pairs.sent != NA) & is_certain)
    sent, arrived = pairs.sent[both], pairs.arrived[both]
    order = np.argsort(sent, kind="stable")
    sent, arrived = sent[order], arrived[order]
    overtaken = np.flatnonzero(arrived < np.maximum.accumulate(arrived))
    near = ((at, arrived[max(at - _FARTHEST, 0) : at]) for at in overtaken)
    ahead = [int(np.count_nonzero(before > arrived[at])) for at, before in near]
    return _Late(sent[overtaken], max(ahead, default=NA))


def _by_reports(diagnosis: Diagnosis, needless: Array) -> Array:
    """Return the rows of segments that a SACK block had skipped and that were acknowledged later.

    They were overtaken, not lost. Segments that were sent again needlessly (`needless`) because of such SACKs
    are included. A hole that was open for longer than a round trip was repaired by a retransmission that the
    capture lacks. Without SACK there are none, because a sender may send more again than was requested.
    """
    transfer = diagnosis.transfer
    if not len(transfer.sacks):
        return np.empty(0, dtype=np.int64)
    sacks, table = transfer.sacks, transfer.sender
    if (table["kind"][transfer.acks] & np.uint32(SegmentKind.ACK_OF_UNSEEN)).any():
        return np.empty(0, dtype=np.int64)  # the capture lost packets: a repair may be among them
    mine = (table["reverse"][sacks["row"]] != transfer.reverse) & ~sacks["dsack"]
    row = sacks["row"][mine]
    behind = sacks["left_bytes"][mine] > table["ack_bytes"][row]
    edge, first = np.unique(table["ack_bytes"][row[behind]], return_index=True)
    acked, time_ns = np.maximum.accumulate(table["ack_bytes"][transfer.acks]), table["time_ns"]
    open_ns, filled = time_ns[row[behind][first]], np.searchsorted(acked, edge, side="right")
    closed_ns = np.append(time_ns[transfer.acks], np.iinfo(np.int64).max)[filled]
    seen = diagnosis.limited.seen
    longest_ns = np.inf if seen is None or not seen.floor_ns else ROUND * seen.floor_ns
    edge = edge[(filled < len(acked)) & (closed_ns - open_ns < longest_ns)]  # else it was sent again, unseen
    again = transfer.verdicts["row"]
    begins, ends = np.sort(table["seq_bytes"][again]), np.sort(table["end_bytes"][again])
    resent = np.searchsorted(begins, edge, side="right") > np.searchsorted(ends, edge, side="right")
    begin, first = np.unique(table["seq_bytes"][transfer.data], return_index=True)
    late = transfer.data[first[np.isin(begin, edge[~resent])]]
    return np.union1d(late, needless)
