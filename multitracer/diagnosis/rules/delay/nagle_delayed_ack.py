"""A small segment waited for the ACK of a small segment, and the receiver delayed that ACK.

Nagle's algorithm (RFC 9293, section 3.7.4) holds back less than a segment while data are outstanding; a
delayed ACK (RFC 9293, section 3.8.6.3) waits for more data. Each waits for the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis import SegmentKind
from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.limits.gaps import has_nodelay
from multitracer.schemas.tcp import Vantage
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

KIND = "nagle-delayed-ack"
HELP = "TCP_NODELAY, or one write for what belongs together (a buffer, writev, TCP_CORK)."
_AT_ONCE_NS = 2 * NS_PER_MS
"""Maximum time between the ACK and the segment that it releases, in ns."""
_DELAY_NS = (20 * NS_PER_MS, 550 * NS_PER_MS)
"""Minimum and maximum of a delayed ACK beyond the round trip, in ns: from half of Linux's 40 ms to the 500 ms
of RFC 9293."""
_MIN = 5  # waits: fewer cost nobody much, and have no quartiles. Not measured
_EVEN = 0.5
"""Maximum interquartile range of the delays, as part of the median: a timer causes them, not a queue."""
_MSS = 536  # RFC 9293, section 3.7.1: without the option
_FULL = 0.9  # part of a full segment below which one is small: options take some of it. Not measured


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding, for small segments that waited for delayed ACKs (Nagle's algorithm)."""
    transfer, table = diagnosis.transfer, diagnosis.transfer.sender
    again = (table["kind"][transfer.data] & np.uint32(SegmentKind.RETRANSMISSION)) != 0
    data = transfer.data[~again]
    is_seen = transfer.vantage is not Vantage.NEAR_RECEIVER and len(transfer.acks)
    if not is_seen or len(transfer.data) < _MIN or len(data) < 2:
        return

    # the small segments that left with the ACK of a small one, and how long that was delayed
    payload, time_ns = table["payload_bytes"], table["time_ns"]
    number, directions = transfer.at_sender.connection, transfer.at_sender.capture.analysis.directions
    announced = directions["mss_bytes"][2 * (number - 1) : 2 * number]
    announced = announced[announced > 0]  # the smaller one holds for both
    full = int(announced.min()) if len(announced) else max(int(transfer.payload_bytes.max()), _MSS)
    small = payload[data] < _FULL * full
    pair = np.flatnonzero(small[:-1] & small[1:])
    first, then = data[pair], data[pair + 1]
    at = np.searchsorted(transfer.acks, then) - 1
    ack = transfer.acks[np.maximum(at, 0)]
    chosen = (at >= 0) & (ack > first) & (table["flight_bytes"][first] == payload[first])
    chosen &= (payload[ack] == 0) & (table["ack_bytes"][ack] == table["end_bytes"][first])
    chosen &= time_ns[then] - time_ns[ack] <= _AT_ONCE_NS
    rtt = table["rtt_ns"][transfer.sent]
    waits_ns = time_ns[ack] - time_ns[first] - int(rtt[rtt > 0].min(initial=np.iinfo(np.int64).max))
    chosen &= (waits_ns >= _DELAY_NS[0]) & (waits_ns <= _DELAY_NS[1])
    held, waits_ns = then[chosen], waits_ns[chosen]
    seen = diagnosis.limited.seen
    if len(held) < _MIN or (seen is not None and has_nodelay(seen)):
        return
    low, middle, high = np.quantile(waits_ns, (0.25, 0.5, 0.75))
    if high - low > _EVEN * middle:
        return
    began_ns, ended_ns = (int(table["time_ns"][held[i]]) for i in (0, -1))
    cost_s = float(waits_ns.sum()) * transfer.speed / NS_PER_S
    delay_s = middle * transfer.speed / NS_PER_S
    sentence = (
        f"{len(held):,} times a small segment waited for the ACK of a small one, which the receiver delayed "
        f"by {delay_s:.3f} s: Nagle's algorithm and delayed ACKs waited for each other."
    )
    numbers = {"waits": len(held), "delayed_ack_s": delay_s}
    evidence = rows("sender", held)
    yield Finding(KIND, began_ns, ended_ns, cost_s, None, evidence, sentence, numbers=numbers)
