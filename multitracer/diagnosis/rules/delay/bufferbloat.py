"""A queue on the path holds far more than the path needs, and delays all its traffic (RFC 8033, section 1).

The grade of common tests follows from the added delay. Round trips per minute are those of
draft-ietf-ippm-responsiveness, here for one bulk transfer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import distinct
from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.limits.link import Paths
from multitracer.diagnosis.limits.names import Viewpoint
from multitracer.diagnosis.packets.packet_delays import PacketDelays, ack_delays
from multitracer.units import NS_PER_S
from multitracer.words import about, duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.tables import Array

KIND = "bufferbloat"
HELP = "A shorter queue or an AQM (fq_codel, CAKE, PIE) before the slowest link; BBR at the sender."
_GRADES = ((0.005, "A+"), (0.030, "A"), (0.060, "B"), (0.200, "C"), (0.400, "D"))
"""Added delay in s below which each grade is given, as in common bufferbloat tests (docs/diagnoses.md)."""
_MIN_ADDED_S = 0.060
"""Minimum added delay in s, grade C: less is no fault by the common grades, however short the path."""
_ROUND_TRIPS = 1.5  # at the median ...
_ROUND_TRIPS_FULL = 3.3
"""Minimum added delay of a full queue, in unloaded round trips, as `_ROUND_TRIPS` at the median. A sender needs a queue
of one, and a loss-based sender fills the queue: this is more than any sender needs, including bursts."""
_MUCH_ADDED_S, _ROUND_TRIPS_ALWAYS = 0.200, 2.0
"""From this added delay at the median on, in s (grade D) and in unloaded round trips (more than any sender
needs), the delay of a full queue does not matter."""
_MIN_PACKETS = 10
"""Minimum number of waiting packets at the median: a queue must hold an initial window (RFC 6928), however
slow the link."""
_MIN_SAMPLES = 20  # enough for a median and a quantile. Not measured
_MIN_FLIGHT = 3
"""Minimum number of full segments in flight: the slow answer to a single one shows no queue of this transfer."""
_HELD_SHARE = 0.6  # limits.md, the receiver's window
_HELD_SEGMENTS = 2.5
"""If the advertised window was full in `_HELD_SHARE` of the samples, and an ACK covers this many segments, a
slow reader and not a queue caused the delays."""
_SECONDS_A_MINUTE = 60  # of round trips per minute (RPM)


_WAYS = {"data": " in the direction of the data", "acks": " in the direction of the ACKs", "": ""}


class _Queue(NamedTuple):
    delays: PacketDelays
    queue_ns: Array
    """Those of its delays that show the queue, in ns."""
    unloaded_s: float
    """Minimum round trip, in s."""
    way: str
    error_ns: int = 0
    """Error of the delays in ns, a tick, where they rest on TCP timestamps."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding for each direction whose queue is too long."""
    speed = diagnosis.transfer.speed / NS_PER_S
    for queue in _queues(diagnosis):
        added_s, longest_s = (float(each) * speed for each in np.quantile(queue.queue_ns, (0.5, 0.95)))
        often = added_s >= max(_MIN_ADDED_S, _ROUND_TRIPS * queue.unloaded_s)
        full = longest_s >= _ROUND_TRIPS_FULL * queue.unloaded_s
        always = added_s >= max(_MUCH_ADDED_S, _ROUND_TRIPS_ALWAYS * queue.unloaded_s)
        if not often or not (full or always):
            continue
        stamps = queue.delays.time_ns[[0, -1]]
        if queue.way == "acks":
            stamps = np.clip(stamps, diagnosis.transfer.begin_ns, diagnosis.transfer.end_ns)
        began_ns, ended_ns = (int(stamp) for stamp in stamps)
        a_minute = _SECONDS_A_MINUTE / (queue.unloaded_s + added_s)
        lost = diagnosis.transfer.verdicts["row"]
        hidden = "; losses hide the longest" if not queue.delays.is_one_way and len(lost) else ""
        by_ticks = f"; ± {duration(queue.error_ns)}, a tick of the TCP timestamps" if queue.error_ns else ""
        of_data = "" if diagnosis.limited.view is Viewpoint.RECEIVER else " of a data segment"
        sentence = (
            f"A queue{_WAYS[queue.way]} adds {about(added_s)} at the median (95th percentile "
            f"{about(longest_s)}{hidden}{by_ticks}) to the minimum round trip{of_data}, {about(queue.unloaded_s)}: "
            f"grade {grade(added_s)}, {a_minute:.0f} round trips a minute, for everybody who uses it."
        )
        numbers = {
            "added_delay_s": added_s,
            "added_delay_p95_s": longest_s,
            "unloaded_rtt_s": queue.unloaded_s,
            "round_trips_per_minute": a_minute,
            **({"added_delay_error_s": queue.error_ns * speed} if queue.error_ns else {}),
        }
        table = "receiver" if queue.way == "acks" else "sender"
        worst = queue.delays.row[[int(np.argmin(queue.delays.queue_ns)), int(np.argmax(queue.delays.queue_ns))]]
        yield Finding(KIND, began_ns, ended_ns, 0.0, None, rows(table, worst), sentence, numbers=numbers)


def _queues(diagnosis: Diagnosis) -> Iterator[_Queue]:
    if diagnosis.limited.view is Viewpoint.RECEIVER:
        yield from _at_receiver(diagnosis)
        return
    rtt_ns, data = diagnosis.transfer.rtt_ns, diagnosis.typical_delays
    if data is None or not len(rtt_ns):
        return
    unloaded_s = diagnosis.link_s(0, int(rtt_ns.min()))
    flight = diagnosis.transfer.sender["flight_bytes"][data.row]
    full = diagnosis.full_bytes
    chosen = flight >= _MIN_FLIGHT * full
    if chosen.sum() >= _MIN_SAMPLES and (data.is_one_way or not _is_held(diagnosis, data, full)):
        added_s = float(np.quantile(data.queue_ns[chosen], 0.5)) * (diagnosis.transfer.speed / NS_PER_S)
        waiting = float(np.median(flight[chosen])) / full * added_s / (added_s + unloaded_s)
        if waiting >= _MIN_PACKETS:
            yield _Queue(data, data.queue_ns[chosen], unloaded_s, "data" if data.is_one_way else "")
    acks = ack_delays(diagnosis.transfer)
    if acks is not None and len(acks.row) >= _MIN_SAMPLES:
        yield _Queue(acks, acks.queue_ns, unloaded_s, "acks")


def _at_receiver(diagnosis: Diagnosis) -> Iterator[_Queue]:
    """Yield the queue of a download from the receiver's capture, if the sender's timestamps are fine."""
    seen = diagnosis.limited.seen
    if seen is None or seen.coarse or not seen.floor_ns or diagnosis.limited.link_rate is None:
        return
    full = np.flatnonzero((seen.sends.end - seen.sends.begin)[seen.delays.place] >= seen.mss_bytes)
    if len(full) < _MIN_SAMPLES:
        return
    sampled = seen.delays.where(full)
    service_ns = seen.mss_bytes * NS_PER_S / diagnosis.limited.link_rate.median
    paths = Paths.of(sampled, service_ns)
    queue_ns = sampled.way_ns - paths.floor_ns.min() - paths.above_first(sampled.time_ns)
    if float(np.median(queue_ns)) < _MIN_PACKETS * service_ns:
        return
    nothing = np.empty(0, dtype=np.int64)
    rows, min_ns = seen.sends.row[sampled.place], int(sampled.way_ns.min())
    delays = PacketDelays(rows, rows, sampled.time_ns, queue_ns, min_ns, nothing, nothing, is_one_way=True)
    yield _Queue(delays, queue_ns, diagnosis.link_s(0, seen.floor_ns), "data", seen.stamp_tick_ns)


def _is_held(diagnosis: Diagnosis, delays: PacketDelays, full: int) -> bool:
    """Return whether a slow reader may have delayed the ACKs, so that long round trips prove no queue."""
    table, acks = diagnosis.transfer.sender, diagnosis.transfer.acks
    at = np.searchsorted(acks, delays.row) - 1
    window = np.where(at >= 0, table["window_bytes"][acks[np.maximum(at, 0)]], np.iinfo(np.int64).max)
    filled = np.mean(table["flight_bytes"][delays.row] + full > window)
    covered = np.diff(distinct(table["ack_bytes"][acks]))
    return bool(filled > _HELD_SHARE and len(covered) and np.median(covered) > _HELD_SEGMENTS * full)


def grade(added_s: float) -> str:
    """Return the grade of an added delay: A+, A, B, C, D or F.

    Examples
    --------
    >>> grade(0.004), grade(0.1), grade(1.0)
    ('A+', 'C', 'F')
    """
    return next((name for limit_s, name in _GRADES if added_s < limit_s), "F")
