"""Losses that no full queue explains, from the delays of the packets around them; and the cost of losses.

Losses at an empty queue (needs both captures): the packets before and after them had little delay. A managed
queue (CoDel, PIE, RED) drops packets before it is full, but never a packet with (nearly) nothing ahead of it,
and only one packet at a time. So a single loss at a half-full queue proves nothing. It is random if it is one
of several in a row, or if other losses show that this queue drops only when it is full.

Losses after the queue: the link spent its time on a packet that did not arrive, so no queue dropped it. A full queue, a
managed queue and a policer before the link drop packets that the link has not served, so the next packet waits less. A
radio loses packets that were served: the next packet waits as long as if the lost one had arrived (D. V. Lindley, The
theory of queues with a single server, 1952). Cross traffic that filled the queue looks the same. So this test is used
only for losses at a queue that is not full, if few packets waited for cross traffic, also around the losses. By
Chernoff's bound, chance then has a probability of at most one in a thousand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import span_minimum
from multitracer.analysis.verdicts import Necessity
from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.limits.names import Limit
from multitracer.diagnosis.limits.spans import Spans
from multitracer.diagnosis.limits.windows import chance
from multitracer.diagnosis.packets.losses import Losses
from multitracer.diagnosis.packets.packet_delays import (
    HEADERS_BYTES,
    data_delays,
    may_be_full,
    most_ahead,
    packets_ahead,
)
from multitracer.diagnosis.service_times import busy_chunks
from multitracer.diagnosis.work_of_others import waits_beyond_ours
from multitracer.units import NS_PER_MS, NS_PER_S
from multitracer.words import count, percent

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.packets.packet_delays import PacketDelays
    from multitracer.diagnosis.work_of_others import Waits
    from multitracer.tables import Array

_EMPTY_NS = 1.7 * NS_PER_MS
"""Maximum delay, in ns, that is noise of clocks and hosts, as for chance losses."""
_AHEAD = 1.25
"""Number of segments ahead on a slow link that counts as empty: a managed queue never drops its only packet
(RFC 8289, section 4)."""
_DEEPER = 3.0
"""The longest delay of the path must be at least this many times the delay of an empty queue: otherwise a
queue that seems empty may be a full short one. The next constants give two exceptions."""
_FLIGHT = 10
"""Exception for a less deep queue: less than this many segments were in flight, and a queue holds an initial
window (RFC 6928)."""
_QUEUE_NS, _QUEUE_SERVICES = 3 * NS_PER_MS, 1.5  # a shorter delay is no queue, as in `limits.link`
_LATE_ALONE = (
    0.1  # of packets with none of ours ahead: where so many are late, the delay varies by itself. Not measured
)
_NO_QUEUE_SHARE = 0.2
"""Minimum share of the runs of losses without a queue around them: 0.2 to 1 in 24 recordings with random losses on
paths whose delay varies, at most 0.05 in 33 with full, managed and shared queues."""
_LONGEST = 0.99  # quantile of the waits that is the longest: single ones are noise. Not measured
_AHEAD_OF_MOST, _APART_NS = 1 / 3, 1.7 * NS_PER_MS
"""Exception for a less deep queue of a steady link: other packets had three times as many segments ahead, and
waited longer by at least `_APART_NS`; on a fast link all delays are short. No managed queue drops then:
CoDel's target is 5 ms (RFC 8289, section 4.3), half of PIE's is 7.5 ms (RFC 8033, section 4.1)."""
_MIN_RUNS = 3  # fewer losses may all be chance. Not measured
_MIN_ROWS, _MIN_PACKETS = 2, 5
"""Minimum number of runs of losses if at least `_MIN_PACKETS` packets were lost with nearly nothing ahead,
and a deeper queue was seen. Not measured."""
_MIN_RUNS_OF_FEW = 5
"""Minimum number of runs of losses if no deeper queue was seen."""
_MIN_RUN = 2
"""Minimum number of losses in a row that no managed queue explains, because it drops one packet at a time."""
_HALF = 0.7
"""Several losses in a row are random if their delay is at most this part of the delay of a delivered packet
shortly before or after."""
_SOON = 2
"""Range of "shortly before or after", in longest round trips: a queue that was full then would have dropped
that packet, too."""
_JITTER_NS = 10 * NS_PER_MS
"""Minimum difference between the delay of the losses and that of the delivered packet, in ns: the delay of a
radio varies by some milliseconds."""
_BELOW_RANK = 0.85
"""Maximum rank of the delay among all delays: at a full queue of Wi-Fi it is 0.9 or more."""
_FULL, _FAR = 0.93, 0.5
"""A queue was full from `_FULL` of the longest delay on, and far from full below `_FAR` of it."""
_CHANCE_RANK, _QUARTILE = 0.75, 0.25
"""Maximum rank among all delays, at the quantile `_QUARTILE` of the losses, as for chance losses."""
_ALIKE = 0.1
"""Minimum interquartile range of the delays at random losses, as part of the median: it was 0.003 after the
path had become longer."""
_MOSTLY, _NOT_FULL = 0.5, 0.85
"""If at least `_MOSTLY` of the runs of losses were at a full queue, the queue drops only when it is full, and
is not a managed one. Below `_NOT_FULL` of the longest delay it was not full, and did not cause a loss."""
_STEADY, _MIN_CHUNKS, _AROUND = 1.25, 8, 5
"""Maximum ratio of the link's times for a segment (medians of `_AROUND` chunks) in a transfer with at least
`_MIN_CHUNKS` chunks: otherwise a full queue has different delays. It is far below what `_HALF` and `_FAR`
allow."""
_DECAYS_NS = 2 * NS_PER_S
"""Time in which a managed queue forgets that it was long, in ns: the probability of PIE falls by 2 % each 15 ms (RFC
8033, section 4.2), to a fourteenth in this time."""
_MIN_SHARE = 0.02
"""Minimum share of runs that no queue explains among all runs of losses that were sent again."""


def lost_at_empty_queue(diagnosis: Diagnosis) -> Losses | None:
    """Return the losses at which the queue was (nearly) empty, so that no full queue caused them.

    It is None if they are too few, or without captures at both endpoints.
    """
    delays, segments, lost = diagnosis.delays, diagnosis.segments, diagnosis.lost
    if diagnosis.is_link_logged or delays is None or not delays.is_one_way or len(lost) < _MIN_RUNS:
        return None
    min_bytes = int(segments.payload_bytes[delays.place].min())
    if 2 * np.count_nonzero(segments.payload_bytes[lost] >= min_bytes) < len(lost):
        delays = data_delays(diagnosis.transfer, segments, of_any_size=True)  # it is small ones that were lost
    lost = repaired_losses(diagnosis)
    if delays is None or len(lost) < _MIN_RUNS:
        return None
    run, first, last = _runs_of(lost)
    many, waited = np.bincount(run), _waited_around(delays, first, last)

    # how long the link takes for a full segment, by its fastest trains
    rate, full_bytes = diagnosis.carried.train_rate, diagnosis.full_bytes + HEADERS_BYTES
    service_ns = full_bytes / rate * NS_PER_S / diagnosis.transfer.speed if rate else 0.0
    one_ns = _AHEAD * service_ns
    limit_ns = max(_EMPTY_NS, one_ns)
    longest_ns = float(np.quantile(delays.queue_ns, _LONGEST))
    is_deep = longest_ns >= _DEEPER * limit_ns
    is_steady = not len(delays.changes) and _is_steady(diagnosis)
    few = _unless_longest(delays, waited, limit_ns, one_ns)
    if not is_deep:
        fewer = is_steady & (longest_ns - waited >= _APART_NS) & _has_fewer_ahead(diagnosis, delays, first)
        few &= _is_small_flight(diagnosis, first) | fewer
    longer_ns = longest_ns if is_steady else _longer_ns(diagnosis, delays, first)
    far = (waited <= _HALF * longer_ns) & (longer_ns - waited >= _JITTER_NS)
    place = np.searchsorted(delays.ordered_ns, waited) / len(delays.queue_ns)  # among all waits, 0 to 1
    far &= (place <= _BELOW_RANK) & (many >= _MIN_RUN)
    few |= _unless_alike(waited, far)
    if is_steady and np.count_nonzero(waited >= _FULL * longest_ns) >= _MIN_RUNS:
        few |= _below_full(diagnosis, delays, (first, last), waited, place)
    full = may_be_full(delays, first, diagnosis.carried.sent_ns[first])
    half_ns = diagnosis.carried.round_trip_ns // 2
    around_ns = _waits_without_queue(delays, diagnosis.carried.sent_ns[first], half_ns, ~full, service_ns)
    few, waited = (few | np.isfinite(around_ns)) & ~full, np.minimum(waited, around_ns)
    minimum = _MIN_RUNS_OF_FEW
    if is_deep:
        minimum = _MIN_ROWS if many[few & (waited <= limit_ns)].sum() >= _MIN_PACKETS else _MIN_RUNS
    if few.sum() < max(minimum, _MIN_SHARE * len(few)):
        return None
    if _follows_overload(delays, diagnosis.carried.sent_ns[first[few]], waited[few], longest_ns):
        return None
    return Losses(lost[few[run]], waited[few], place[few], longest_ns)


def _runs_of(lost: Array) -> tuple[Array, Array, Array]:
    """Return for each lost segment the number of its run, and of each run the first and the last segment."""
    run = np.cumsum(np.append(0, np.diff(lost) > 1))
    begin, end = np.searchsorted(run, [np.arange(run[-1] + 1), np.arange(1, run[-1] + 2)])
    return run, lost[begin], lost[end - 1]


def _waited_around(delays: PacketDelays, first: Array, last: Array) -> Array:
    """Return the longer delay of the packets before and after each run of losses, in ns; infinite if one is missing."""
    before, after = np.searchsorted(delays.place, first) - 1, np.searchsorted(delays.place, last)
    known = (before >= 0) & (after < len(delays.place))
    queue_ns = delays.queue_ns.astype(np.float64)
    longer = np.maximum(queue_ns[np.maximum(before, 0)], queue_ns[np.minimum(after, len(queue_ns) - 1)])
    return np.where(known, longer, np.inf)


def _follows_overload(delays: PacketDelays, sent_ns: Array, waited: Array, longest_ns: float) -> bool:
    """Return whether losses at a short queue are those of a managed queue that had been long just before.

    PIE drops with a probability that grows while its queue is long and shrinks for a second or two afterwards, also
    when the queue is empty again (RFC 8033, section 4.2). Chance loses as many of the packets that waited as little
    later.

    Parameters
    ----------
    delays : PacketDelays
        One-way delays, in order of sending.
    sent_ns, waited : ndarray, ns, shape (n,)
        When the first segment of each run of losses was sent, and the delay around it; at least one.
    longest_ns : float
    """
    deep_ns = np.sort(delays.time_ns[delays.queue_ns >= max(_FAR * longest_ns, _JITTER_NS)])
    if not len(deep_ns):
        return False

    def is_soon(times_ns: Array) -> Array:
        last = np.searchsorted(deep_ns, times_ns, side="right") - 1
        return np.asarray((last >= 0) & (times_ns - deep_ns[np.maximum(last, 0)] <= _DECAYS_NS))

    alike = is_soon(delays.time_ns[delays.queue_ns <= waited.max()])
    soon = int(np.count_nonzero(is_soon(sent_ns)))
    return len(alike) > 0 and chance(soon, len(sent_ns), float(alike.mean())) <= _IMPROBABLE


def _waits_without_queue(delays: PacketDelays, sent_ns: Array, half_ns: int, chosen: Array, service_ns: float) -> Array:
    """Return the shortest wait of a packet sent within half a round trip (`half_ns`) of each chosen segment: ns.

    It is infinite where that shows a queue: a queue delays all of these packets, but a radio that lets packets out
    together, or a grant, only some. If this holds for few of the segments, if no wait is long, or if few packets are
    late with none of ours ahead of them, all are infinite.
    """
    limit_ns = max(_QUEUE_NS, _QUEUE_SERVICES * service_ns)
    alone = delays.queue_ns[delays.ahead == 0]
    if not len(alone) or float((alone > limit_ns).mean()) < _LATE_ALONE:
        return np.full(len(sent_ns), np.inf)
    first = np.searchsorted(delays.time_ns, sent_ns - half_ns)
    last = np.searchsorted(delays.time_ns, sent_ns + half_ns, side="right")
    begin = np.minimum(first, len(delays.time_ns) - 1)
    shortest_ns = span_minimum(delays.queue_ns, begin, np.maximum(last, begin + 1))
    is_empty = chosen & (last > first) & (shortest_ns <= limit_ns)
    is_deep = float(np.quantile(delays.queue_ns, _LONGEST)) >= _DEEPER * limit_ns
    is_told = is_deep and float(is_empty.mean()) >= _NO_QUEUE_SHARE
    return np.where(is_empty & is_told, shortest_ns, np.inf)


def _unless_longest(delays: PacketDelays, waited: Array, limit_ns: float, one_ns: float) -> Array:
    """Return which delays are at most `limit_ns`; none of them if most delays are near the limit.

    In that case the queue is short, and a full one has no longer delay. If most packets waited for at most
    one segment (`one_ns`), no queue was full, however few waited longer.
    """
    few = np.asarray(waited <= limit_ns)
    within = delays.ordered_ns[: np.searchsorted(delays.ordered_ns, limit_ns, side="right")]
    place = np.searchsorted(within, waited[few]) / max(len(within), 1)
    if not few.any() or np.quantile(waited[few], _QUARTILE) <= one_ns:
        return few
    return few & (np.quantile(place, _QUARTILE) <= _CHANCE_RANK)


def _below_full(
    diagnosis: Diagnosis, delays: PacketDelays, runs: tuple[Array, Array], waited: Array, place: Array
) -> Array:
    """Return which runs of consecutive losses occurred while the queue was not full: bool.

    Their delays are far below the longest. Or, if most losses were at a full queue, no packet can have waited
    long when the run began: a queue drains by no more than the time that passes, so the next delivered packet
    gives an upper bound. All are False if the delays are similar, as at another full queue.

    Parameters
    ----------
    diagnosis, delays
    runs : (ndarray, ndarray) of int64, shape (n,)
        First and last index of each run in `diagnosis.segments`.
    waited, place : ndarray of float64, shape (n,)
        The delay in ns, and its rank among all delays, 0 to 1.
    """
    longest_ns = float(np.quantile(delays.queue_ns, _LONGEST))
    far = (waited <= _FAR * longest_ns) & (longest_ns - waited >= _JITTER_NS)
    few = _unless_alike(waited, far & (place <= _CHANCE_RANK))
    if np.mean(waited >= _FULL * longest_ns) < _MOSTLY:
        return few
    first, last = runs
    after = np.searchsorted(delays.place, last)
    at = np.minimum(after, len(delays.place) - 1)
    gone_ns = delays.time_ns[at] - diagnosis.carried.sent_ns[first]
    most_ns = np.where(after < len(delays.place), delays.queue_ns[at] + gone_ns, np.inf)
    return few | _unless_alike(waited, most_ns <= _NOT_FULL * longest_ns)


def _unless_alike(waited: Array, chosen: Array) -> Array:
    """Return the chosen runs of losses; none if their delays are as similar as those at a full queue."""
    if np.count_nonzero(chosen) < _MIN_RUNS:
        return np.asarray(chosen)
    low, middle, high = np.quantile(waited[chosen], (0.25, 0.5, 0.75))
    return np.asarray(chosen & (high - low >= _ALIKE * middle))


def _is_steady(diagnosis: Diagnosis) -> bool:
    """Return whether the link's time for a segment was constant, so that a full queue has one delay."""
    gaps = diagnosis.arrival_gaps
    chunks = None if gaps is None else busy_chunks(diagnosis.limited, gaps)
    if chunks is None or len(chunks.service_ns) < _MIN_CHUNKS:
        return False
    middle = np.median(np.lib.stride_tricks.sliding_window_view(chunks.service_ns, _AROUND), axis=1)
    return bool(middle.max() <= _STEADY * middle.min())


def repaired_losses(diagnosis: Diagnosis) -> Array:
    """Return the indexes in `diagnosis.segments` of the lost segments that were sent again: int64.

    A segment that was not sent again is left out, because the capture may have missed it. So is a segment
    larger than all later ones that arrived, because it was lost due to its size.
    """
    lost, segments, verdicts = diagnosis.lost, diagnosis.segments, diagnosis.transfer.verdicts
    needed = verdicts["earlier_row"][verdicts["necessity"] != Necessity.SPURIOUS]
    arrived = np.where(segments.closes, segments.payload_bytes, 0)
    largest_later = np.maximum.accumulate(arrived[::-1])[::-1]
    is_too_large = segments.payload_bytes[lost] > largest_later[lost]
    return np.asarray(lost[np.isin(segments.row[lost], needed) & ~is_too_large])


def _longer_ns(diagnosis: Diagnosis, delays: PacketDelays, place: Array) -> Array:
    """Return the longest delay of delivered packets shortly before or after each index, in ns."""
    width_ns = _SOON * int(diagnosis.transfer.rtt_ns.max(initial=0))
    sent_ns = diagnosis.transfer.sender["time_ns"][diagnosis.segments.row[place]]
    first, last = (np.searchsorted(delays.time_ns, sent_ns + width) for width in (-width_ns, width_ns))
    first = np.minimum(first, len(delays.time_ns) - 1)
    return np.asarray(-span_minimum(-delays.queue_ns, first, np.maximum(last, first + 1)))


def _has_fewer_ahead(diagnosis: Diagnosis, delays: PacketDelays, place: Array) -> Array:
    """Return which segments had few segments ahead in the queue: at most a third of `most_ahead`."""
    ahead = packets_ahead(delays, place, diagnosis.carried.sent_ns[place])
    return np.asarray(ahead <= _AHEAD_OF_MOST * most_ahead(delays))


def _is_small_flight(diagnosis: Diagnosis, place: Array) -> Array:
    flight = diagnosis.transfer.sender["flight_bytes"][diagnosis.segments.row[place]]
    return np.asarray(flight < _FLIGHT * diagnosis.full_bytes)


_LARGE, _GRAIN = 0.5, 0.25
"""The lost packets must increase the next delay by at least `_LARGE`, and the measured increase may differ by
at most `_GRAIN`, both as parts of the time that the link needs for a segment."""
_NOT_FULL_BEHIND = 0.8
"""Maximum part of the longest delay at which a queue was not full: cross traffic makes a full queue drop packets."""
_MOST_BEYOND = 0.05
"""Maximum share of packets that waited for cross traffic, or less than the own packets explain: at most 0.02
in 33 known recordings with such losses. Even with 0.2, none of 266 recordings without random losses is wrong,
39 shared links among them."""
_MIN_AROUND = 10  # packets around the losses that came through; fewer show nothing. Not measured
_BY_CHANCE, _IMPROBABLE = 0.1, 0.001001
"""Share of runs that seem served although they were not (1 of 828 such runs), and maximum probability that
chance explains all. Three of three runs are enough."""


class _Runs(NamedTuple):
    """Runs of losses between two delivered packets."""

    first: Array
    """Index of the first loss of each run in the lost segments."""
    last: Array
    """Index after the last loss of each run in the lost segments."""
    before: Array
    """Index in the delays of the packet before each run."""
    after: Array
    """Index in the delays of the packet after each run."""

    @property
    def many(self) -> Array:
        """Number of losses in each run: int64, shape (n_runs,)."""
        return np.asarray(self.last - self.first)

    @property
    def each(self) -> Array:
        """Indexes in the lost segments of all losses in any run: int64."""
        begin = np.cumsum(self.many) - self.many
        return np.asarray(np.arange(self.many.sum()) + np.repeat(self.first - begin, self.many))


def lost_behind_queue(diagnosis: Diagnosis) -> Losses | None:
    """Return the losses after the queue: the link had already sent the lost packets.

    It is None if chance explains them, or without captures at both endpoints.

    Returns
    -------
    Losses or None
        Of complete runs; `place` are indexes in `diagnosis.segments`.
    """
    delays, gaps = (None, None) if diagnosis.is_link_logged else (diagnosis.delays, diagnosis.arrival_gaps)
    if delays is None or gaps is None or not delays.is_one_way or len(delays.changes):
        return None
    own_ns = diagnosis.own_time_ns
    waits, lost = waits_beyond_ours(delays, own_ns), repaired_losses(diagnosis)
    beyond = waits.beyond[waits.known]
    if not len(beyond) or np.mean(np.abs(beyond) >= _LARGE) > _MOST_BEYOND or not len(lost):
        return None
    runs = _runs(diagnosis, delays, lost)
    if not len(runs.first):
        return None
    longest_ns = float(np.quantile(delays.queue_ns, _LONGEST))
    is_told, is_served = _served(diagnosis, delays, own_ns, lost, runs)
    is_told &= delays.queue_ns[runs.before] <= _NOT_FULL_BEHIND * longest_ns
    is_served &= is_told
    around = _beyond_around(diagnosis, delays, waits, lost, runs)
    if around is None or chance(is_served.sum(), is_told.sum(), max(_BY_CHANCE, around)) > _IMPROBABLE:
        return None
    chosen = runs.each[np.repeat(is_served, runs.many)]
    waited_ns = delays.queue_ns[runs.before[is_served]]
    place = np.searchsorted(delays.ordered_ns, waited_ns) / len(delays.queue_ns)  # among all waits, 0 to 1
    return Losses(lost[chosen], waited_ns, place, longest_ns)


def _runs(diagnosis: Diagnosis, delays: PacketDelays, lost: Array) -> _Runs:
    """Return the runs of consecutive lost full segments directly between two delivered full segments."""
    first = np.flatnonzero(np.append(True, np.diff(lost) > 1))
    last = np.append(first[1:], len(lost))
    before = np.searchsorted(delays.place, lost[first]) - 1
    after = np.minimum(before + 1, len(delays.place) - 1)
    full = diagnosis.segments.payload_bytes[lost] >= int(diagnosis.segments.payload_bytes[delays.place].min())
    is_full = np.logical_and.reduceat(full, first)
    known = (before >= 0) & (delays.place[before] == lost[first] - 1) & is_full
    known &= delays.place[after] == lost[last - 1] + 1
    return _Runs(first[known], last[known], before[known], after[known])


def _served(diagnosis: Diagnosis, delays: PacketDelays, own_ns: float, lost: Array, runs: _Runs) -> tuple[Array, Array]:
    """Return two masks over the runs of losses: those that can be tested, and those that the link had sent.

    A run can be tested if the next packet's delay depends on whether the link spent time on the lost ones.
    """
    left_ns, waited_ns = delays.time_ns[runs.after], delays.queue_ns[runs.after]
    begun_ns = delays.queue_ns[runs.before] - (left_ns - delays.time_ns[runs.before])
    dropped_ns = np.maximum(0, begun_ns + own_ns)
    each, many = runs.each, runs.many
    gone_ns = np.repeat(left_ns, many) - diagnosis.carried.sent_ns[lost[each]]
    from_each_ns = own_ns * (np.repeat(runs.last, many) - each) - gone_ns  # where the link was idle
    served_ns = np.maximum(dropped_ns, begun_ns + own_ns * (many + 1))
    served_ns = np.maximum(served_ns, np.maximum.reduceat(from_each_ns, np.cumsum(many) - many))
    is_told = served_ns - dropped_ns >= _LARGE * own_ns
    return is_told, is_told & (np.abs(waited_ns - served_ns) <= _GRAIN * own_ns)


def _beyond_around(diagnosis: Diagnosis, delays: PacketDelays, waits: Waits, lost: Array, runs: _Runs) -> float | None:
    """Return the share of packets near the losses that waited for cross traffic; None if they are too few.

    Near means within a round trip.
    """
    sent_ns, width_ns = diagnosis.carried.sent_ns, diagnosis.carried.round_trip_ns
    around = Spans.of(sent_ns[lost[runs.first]] - width_ns, sent_ns[lost[runs.last - 1]] + width_ns)
    near = around.holds(delays.time_ns[1:]) & waits.known
    if np.count_nonzero(near) < _MIN_AROUND:
        return None
    return float(np.mean(np.abs(waits.beyond[near]) >= _LARGE))


def loss_finding(diagnosis: Diagnosis, kind: str, lost: Losses, sentence: str) -> Finding:
    """Return one finding for all losses in `lost`.

    `sentence` is a format string with the field `lost`: the number of packets and their share.
    """
    sent = diagnosis.segments.row[lost.place]
    began_ns, ended_ns = (int(diagnosis.transfer.sender["time_ns"][sent[i]]) for i in (0, -1))
    many = len(lost.place)
    share = many / len(diagnosis.segments)
    numbers = {"lost_packets": many, "lost_share": share, "queue_before_s": lost.waited_s}
    payload = int(diagnosis.segments.payload_bytes[lost.place].sum())
    cost_s = repair_s(diagnosis, began_ns)
    words = sentence.format(lost=f"{count(many, 'packet')} ({percent(share)})")
    evidence = rows("sender", np.unique(sent))
    return Finding(kind, began_ns, ended_ns, cost_s, payload, evidence, words, numbers=numbers)


def repair_s(diagnosis: Diagnosis, begin_ns: int) -> float:
    """Return how long recovery limited the transfer from `begin_ns` on, in seconds of link time.

    Intervals in which nothing arrived (dead times) do not count.
    """
    dead = [(each.begin_ns, each.end_ns) for each in diagnosis.dead_times if each.failed]
    in_vain_s = sum(diagnosis.limited_s(Limit.RECOVERY, begin_ns=max(a, begin_ns), end_ns=b) for a, b in dead)
    return diagnosis.limited_s(Limit.RECOVERY, begin_ns=begin_ns) - in_vain_s
