"""Losses that no full queue explains, by the waits of the packets around them; what losses cost.

At an empty queue (both captures): the packets before and after them did not wait for long. A queue that is
managed (CoDel, PIE, RED) drops before it is full, but never a packet that next to nothing is ahead of, and
one packet at a time. So a single loss at half a queue shows nothing by itself. It does if it is one of
several in a row, or if other losses show that this queue drops only when it is full.

Behind the queue: the link spent its time on a packet that did not arrive, so no queue dropped it. A queue
that is full, a managed one and a policer before the link drop a packet that the link has not served, and
the next one waits for less. What a radio loses was served: the next one waits as long as if it had come
through (D. V. Lindley, The theory of queues with a single server, 1952). Packets of others look like it, at
a queue that they filled. So this is asked only of losses at a queue that is not full, where few of ours
waited for others, also around the losses: by Chernoff's bound, chance shows so many with a probability of
one in a thousand at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import span_minimum
from multitracer.analysis.verdicts import Necessity
from multitracer.diagnosis.chance import chance
from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.limits.names import Limit
from multitracer.diagnosis.limits.spans import Spans
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

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.packets.packet_delays import PacketDelays
    from multitracer.diagnosis.work_of_others import Waits
    from multitracer.tables import Array

_EMPTY_NS = 1.7 * NS_PER_MS
"""Less is noise of clocks and hosts, as for the losses by chance."""
_AHEAD = 1.25
"""Segments ahead of it on a slow link: a managed queue never drops the only one (RFC 8289, section 4)."""
_DEEPER = 3.0
"""Times that delay which the path's queue must have been seen to reach: else it may be full with it ..."""
_FLIGHT = 10
"""... unless less than so many segments were on their way: a queue holds an initial window (RFC 6928)."""
_LONGEST = 0.99  # quantile of the waits that is the longest: single ones are noise. Not measured
_AHEAD_OF_MOST, _APART_NS = 1 / 3, 1.7 * NS_PER_MS
"""... or unless a link that always takes as long for a segment held three times as many of ours, for longer
by more than noise: on a fast link all waits are short. No managed queue drops then: 5 ms are CoDel's target
(RFC 8289, section 4.3), 7.5 ms half of PIE's (RFC 8033, section 4.1)."""
_MIN_RUNS = 3  # fewer losses may all be chance. Not measured
_MIN_ROWS, _MIN_PACKETS = 2, 5
"""... but not so many packets in so few rows, with next to nothing ahead where a deeper queue was seen. Not
measured"""
_MIN_RUNS_OF_FEW = 5
"""Where no queue was ever seen, none is known to be deeper, and more must speak for it."""
_MIN_RUN = 2
"""A managed queue drops one packet at a time, so several in a row fell to a full queue or to chance ..."""
_HALF = 0.7
"""... and to chance if its wait is at most this part of one that came through so soon before or after ..."""
_SOON = 2
"""... in the longest round trips: a queue that was full then would have lost that one, too ..."""
_JITTER_NS = 10 * NS_PER_MS
"""... and by no less: radio delays packets by some milliseconds more or less ..."""
_BELOW_RANK = 0.85
"""... and if its place among all waits is no higher: those at a full queue of Wi-Fi lie at 0.9 and more."""
_FULL, _FAR = 0.93, 0.5
"""Parts of the longest wait from which on a queue was full, and below which it was far from it ..."""
_CHANCE_RANK, _QUARTILE = 0.75, 0.25
"""... if its place among all waits is no higher, as for the losses by chance (at their lower quartile)."""
_ALIKE = 0.1
"""Between the quartiles of such waits, as part of the middle one: 0.003 where the path had become longer."""
_MOSTLY, _NOT_FULL = 0.5, 0.85
"""If so many of the runs of losses were at a full queue, it drops only then: a managed one drops at any wait.
Below this part of the longest wait it was not full, and did not lose what was lost."""
_STEADY, _MIN_CHUNKS, _AROUND = 1.25, 8, 5
"""By so much the link's time for a segment, the median of a few pieces, may vary in a transfer: else a full
queue does not always take as long. Far less than `_HALF` and `_FAR` leave room for."""
_MIN_SHARE = 0.02
"""Of all runs of losses that were repaired."""


def lost_at_empty_queue(diagnosis: Diagnosis) -> Losses | None:
    """Return the losses that no queue explains; None if they are too few, or only one end was captured."""
    delays, segments, lost = diagnosis.delays, diagnosis.segments, diagnosis.lost
    if diagnosis.is_link_logged or delays is None or not delays.is_one_way or len(lost) < _MIN_RUNS:
        return None
    min_bytes = int(segments.payload_bytes[delays.place].min())
    if 2 * np.count_nonzero(segments.payload_bytes[lost] >= min_bytes) < len(lost):
        delays = data_delays(
            diagnosis.transfer, segments, of_any_size=True
        )  # it is small ones that were lost
    lost = repaired_losses(diagnosis)
    if delays is None or len(lost) < _MIN_RUNS:
        return None
    run = np.cumsum(np.append(0, np.diff(lost) > 1))
    begin, end = np.searchsorted(run, [np.arange(run[-1] + 1), np.arange(1, run[-1] + 2)])
    first, last, many = lost[begin], lost[end - 1], end - begin

    # the longer delay of the packets before and after each run; endless if one is missing
    before, after = np.searchsorted(delays.place, first) - 1, np.searchsorted(delays.place, last)
    known = (before >= 0) & (after < len(delays.place))
    queue_ns = delays.queue_ns.astype(np.float64)
    longer = np.maximum(queue_ns[np.maximum(before, 0)], queue_ns[np.minimum(after, len(queue_ns) - 1)])
    waited = np.where(known, longer, np.inf)

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
    few &= ~may_be_full(delays, first, diagnosis.carried.sent_ns[first])
    minimum = _MIN_RUNS_OF_FEW
    if is_deep:
        minimum = _MIN_ROWS if many[few & (waited <= limit_ns)].sum() >= _MIN_PACKETS else _MIN_RUNS
    if few.sum() < max(minimum, _MIN_SHARE * len(few)):
        return None
    return Losses(lost[few[run]], waited[few], place[few], longest_ns)


def _unless_longest(delays: PacketDelays, waited: Array, limit_ns: float, one_ns: float) -> Array:
    """Return which waits are within a limit; none if most are among the longest of those: a short queue.

    Where most waited for no more than one segment (`one_ns`) no queue was full, however few waited longer.
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
    """Return which runs of losses were at a queue that was not full, on a link whose full queue is known.

    Their waits are far from the longest. Or, where most losses were at a full queue, no packet could have
    waited long when the run began: a queue drains by no more than the time that passes, so what came next and
    waited less shows how long it was. None if they are alike, as at another full queue.

    Parameters
    ----------
    diagnosis, delays
    runs : (ndarray, ndarray) of int64, shape (n,)
        First and last place of each run in `diagnosis.segments`.
    waited, place : ndarray of float64, shape (n,)
        Its wait, ns, and the place of that among all waits, 0 to 1.
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
    """Return what was chosen; none if so many waits are alike as at another full queue."""
    if np.count_nonzero(chosen) < _MIN_RUNS:
        return np.asarray(chosen)
    low, middle, high = np.quantile(waited[chosen], (0.25, 0.5, 0.75))
    return np.asarray(chosen & (high - low >= _ALIKE * middle))


def _is_steady(diagnosis: Diagnosis) -> bool:
    """Return whether the link took as long for a segment all the time, so that a full queue did, too."""
    gaps = diagnosis.arrival_gaps
    chunks = None if gaps is None else busy_chunks(diagnosis.limited, gaps)
    if chunks is None or len(chunks.service_ns) < _MIN_CHUNKS:
        return False
    middle = np.median(np.lib.stride_tricks.sliding_window_view(chunks.service_ns, _AROUND), axis=1)
    return bool(middle.max() <= _STEADY * middle.min())


def repaired_losses(diagnosis: Diagnosis) -> Array:
    """Return the places in `diagnosis.segments` of what was lost, sent again, and not too large: int64.

    Of what was not sent again nobody knows whether the capture missed it. What was larger than all that
    arrived of what was sent after it was lost for its size.
    """
    lost, segments, verdicts = diagnosis.lost, diagnosis.segments, diagnosis.transfer.verdicts
    needed = verdicts["earlier_row"][verdicts["necessity"] != Necessity.SPURIOUS]
    arrived = np.where(segments.closes, segments.payload_bytes, 0)
    largest_later = np.maximum.accumulate(arrived[::-1])[::-1]
    is_too_large = segments.payload_bytes[lost] > largest_later[lost]
    return np.asarray(lost[np.isin(segments.row[lost], needed) & ~is_too_large])


def _longer_ns(diagnosis: Diagnosis, delays: PacketDelays, place: Array) -> Array:
    """Return the longest wait of what came through soon before or after each place."""
    width_ns = _SOON * int(diagnosis.transfer.rtt_ns.max(initial=0))
    sent_ns = diagnosis.transfer.sender["time_ns"][diagnosis.segments.row[place]]
    first, last = (np.searchsorted(delays.time_ns, sent_ns + width) for width in (-width_ns, width_ns))
    first = np.minimum(first, len(delays.time_ns) - 1)
    return np.asarray(-span_minimum(-delays.queue_ns, first, np.maximum(last, first + 1)))


def _has_fewer_ahead(diagnosis: Diagnosis, delays: PacketDelays, place: Array) -> Array:
    """Return which had far fewer of ours ahead of them than others that came through."""
    ahead = packets_ahead(delays, place, diagnosis.carried.sent_ns[place])
    return np.asarray(ahead <= _AHEAD_OF_MOST * most_ahead(delays))


def _is_small_flight(diagnosis: Diagnosis, place: Array) -> Array:
    flight = diagnosis.transfer.sender["flight_bytes"][diagnosis.segments.row[place]]
    return np.asarray(flight < _FLIGHT * diagnosis.full_bytes)


_LARGE, _GRAIN = 0.5, 0.25
"""Of the link's time for a segment: what the lost ones must add to the next wait, and how near it must be."""
_NOT_FULL_BEHIND = 0.8
"""Part of the longest wait up to which a queue was not full: packets of others drop ours where it is full."""
_MOST_BEYOND = 0.05
"""Part of our packets that waited for others, or less than ours explain: 0.02 at most in 33 known recordings
whose losses this finds; with 0.2 none of 266 without random losses is wrong, 39 shared links among them."""
_MIN_AROUND = 10  # packets around the losses that came through; fewer show nothing. Not measured
_BY_CHANCE, _IMPROBABLE = 0.1, 0.001001
"""Part of the runs that seem served though they were not (1 of 828 such): three of three are improbable."""


class _Runs(NamedTuple):
    """Rows of losses between two packets that came through."""

    first: Array
    """Indexes in what was lost: the first of each ..."""
    last: Array
    """... and one behind its last."""
    before: Array
    """Indexes in the delays of the packets before ..."""
    after: Array
    """... and after them."""

    @property
    def many(self) -> Array:
        """How many were lost in each: int64, shape (n_runs,)."""
        return np.asarray(self.last - self.first)

    @property
    def each(self) -> Array:
        """Indexes in what was lost of all in any run: int64."""
        begin = np.cumsum(self.many) - self.many
        return np.asarray(np.arange(self.many.sum()) + np.repeat(self.first - begin, self.many))


def lost_behind_queue(diagnosis: Diagnosis) -> Losses | None:
    """Return the losses that the link had served; None if chance explains them, or only one end was captured.

    Returns
    -------
    Losses or None
        Of whole runs; `place` are indexes in `diagnosis.segments`.
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
    """Return the rows of full segments that have a full one that came through right before and after them."""
    first = np.flatnonzero(np.append(True, np.diff(lost) > 1))
    last = np.append(first[1:], len(lost))
    before = np.searchsorted(delays.place, lost[first]) - 1
    after = np.minimum(before + 1, len(delays.place) - 1)
    full = diagnosis.segments.payload_bytes[lost] >= int(diagnosis.segments.payload_bytes[delays.place].min())
    is_full = np.logical_and.reduceat(full, first)
    known = (before >= 0) & (delays.place[before] == lost[first] - 1) & is_full
    known &= delays.place[after] == lost[last - 1] + 1
    return _Runs(first[known], last[known], before[known], after[known])


def _served(
    diagnosis: Diagnosis, delays: PacketDelays, own_ns: float, lost: Array, runs: _Runs
) -> tuple[Array, Array]:
    """Return whether each run would show in the next wait if it was served, and whether it does."""
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


def _beyond_around(
    diagnosis: Diagnosis, delays: PacketDelays, waits: Waits, lost: Array, runs: _Runs
) -> float | None:
    """Return the part that waited for others within a round trip of the losses; None of too few."""
    sent_ns, width_ns = diagnosis.carried.sent_ns, diagnosis.carried.round_trip_ns
    around = Spans.of(sent_ns[lost[runs.first]] - width_ns, sent_ns[lost[runs.last - 1]] + width_ns)
    near = around.holds(delays.time_ns[1:]) & waits.known
    if np.count_nonzero(near) < _MIN_AROUND:
        return None
    return float(np.mean(np.abs(waits.beyond[near]) >= _LARGE))


def loss_finding(diagnosis: Diagnosis, kind: str, lost: Losses, sentence: str) -> Finding:
    """Return a finding of all losses of a transfer; the sentence takes their `count` and `share`."""
    sent = diagnosis.segments.row[lost.place]
    began_ns, ended_ns = (int(diagnosis.transfer.sender["time_ns"][sent[i]]) for i in (0, -1))
    count = len(lost.place)
    share = count / len(diagnosis.segments)
    numbers = {"lost_packets": count, "lost_share": share, "queue_before_s": lost.waited_s}
    payload = int(diagnosis.segments.payload_bytes[lost.place].sum())
    cost_s = repair_s(diagnosis, began_ns)
    words = sentence.format(count=count, share=share)
    evidence = rows("sender", np.unique(sent))
    return Finding(kind, began_ns, ended_ns, cost_s, payload, evidence, words, numbers=numbers)


def repair_s(diagnosis: Diagnosis, begin_ns: int) -> float:
    """Return the link time that a transfer waited for repairs from a stamp on, dead times left out."""
    dead = [(each.begin_ns, each.end_ns) for each in diagnosis.dead_times if each.failed]
    in_vain_s = sum(diagnosis.limited_s(Limit.RECOVERY, begin_ns=max(a, begin_ns), end_ns=b) for a, b in dead)
    return diagnosis.limited_s(Limit.RECOVERY, begin_ns=begin_ns) - in_vain_s
