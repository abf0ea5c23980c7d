"""Losses behind the queue: the link spent its time on a packet that did not arrive, so no queue dropped it.

A queue that is full, a managed one (RED, PIE, CoDel) and a policer before the link drop a packet that the
link has not served, and the next one waits for less. What a radio loses was served: the next one waits as
long as if it had come through (D. V. Lindley, The theory of queues with a single server, 1952). Packets of
others look like it, at a queue that they filled. So this is asked only of losses at a queue that is not
full, where few of ours waited for others, also around the losses: by Chernoff's bound, chance shows so many
with a probability of one in a thousand at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.bottleneck.empty_queue import place_among, repaired_losses
from multitracer.diagnosis.bottleneck.service_times import arrival_gaps
from multitracer.diagnosis.bottleneck.work_of_others import own_time_ns, waits_beyond_ours
from multitracer.diagnosis.chance import chance
from multitracer.diagnosis.limits.spans import Spans
from multitracer.diagnosis.packets.losses import Losses

if TYPE_CHECKING:
    from multitracer.diagnosis.bottleneck.work_of_others import Waits
    from multitracer.diagnosis.case import Case
    from multitracer.diagnosis.packets.packet_delays import PacketDelays
    from multitracer.tables import Array

_LARGE, _GRAIN = 0.5, 0.25
"""Of the link's time for a segment: what the lost ones must add to the next wait, and how near it must be."""
_NOT_FULL = 0.8
"""Part of the longest wait up to which a queue was not full: packets of others drop ours where it is full."""
_MOST_BEYOND = 0.05
"""Part of our packets that waited for others, or less than ours explain: 0.02 at most in 33 known recordings
whose losses this finds; with 0.2 none of 266 without random losses is wrong, 39 shared links among them."""
_LEAST_AROUND = 10  # packets around the losses that came through; fewer show nothing. Not measured
_BY_CHANCE, _IMPROBABLE = 0.1, 0.001001
"""Part of the runs that seem served though they were not (1 of 828 such): three of three are improbable."""
_LONGEST = 0.99  # quantile of the waits that is the longest: single ones are noise. Not measured


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


def lost_behind_queue(case: Case) -> Losses | None:
    """Return the losses that the link had served; None if chance explains them, or only one end was captured.

    Returns
    -------
    Losses or None
        Of whole runs; `place` are indexes in `case.segments`.
    """
    delays, gaps = (None, None) if case.is_link_logged else (case.delays, case.once(arrival_gaps))
    if delays is None or gaps is None or not delays.is_one_way or len(delays.changes):
        return None
    own_ns = case.once(own_time_ns)
    waits, lost = waits_beyond_ours(delays, own_ns), repaired_losses(case)
    if not _is_ours_alone(waits) or not len(lost):
        return None
    runs = _runs(case, delays, lost)
    if not len(runs.first):
        return None
    longest_ns = float(np.quantile(delays.queue_ns, _LONGEST))
    is_told, is_served = _served(case, delays, own_ns, lost, runs)
    is_told &= delays.queue_ns[runs.before] <= _NOT_FULL * longest_ns
    is_served &= is_told
    around = _beyond_around(case, delays, waits, lost, runs)
    if around is None or chance(is_served.sum(), is_told.sum(), max(_BY_CHANCE, around)) > _IMPROBABLE:
        return None
    chosen = runs.each[np.repeat(is_served, runs.many)]
    waited_ns = delays.queue_ns[runs.before[is_served]]
    return Losses(lost[chosen], waited_ns, place_among(delays, waited_ns), longest_ns)


def _is_ours_alone(waits: Waits) -> bool:
    beyond = waits.beyond[waits.known]
    return bool(len(beyond) and np.mean(np.abs(beyond) >= _LARGE) <= _MOST_BEYOND)


def _runs(case: Case, delays: PacketDelays, lost: Array) -> _Runs:
    """Return the rows of full segments that have a full one that came through right before and after them."""
    first = np.flatnonzero(np.append(True, np.diff(lost) > 1))
    last = np.append(first[1:], len(lost))
    before = np.searchsorted(delays.place, lost[first]) - 1
    after = np.minimum(before + 1, len(delays.place) - 1)
    full = case.segments.payload_bytes[lost] >= int(case.segments.payload_bytes[delays.place].min())
    is_full = np.logical_and.reduceat(full, first)
    known = (before >= 0) & (delays.place[before] == lost[first] - 1) & is_full
    known &= delays.place[after] == lost[last - 1] + 1
    return _Runs(first[known], last[known], before[known], after[known])


def _served(case: Case, delays: PacketDelays, own_ns: float, lost: Array, runs: _Runs) -> tuple[Array, Array]:
    """Return whether each run would show in the next wait if it was served, and whether it does."""
    left_ns, waited_ns = delays.time_ns[runs.after], delays.queue_ns[runs.after]
    begun_ns = delays.queue_ns[runs.before] - (left_ns - delays.time_ns[runs.before])
    dropped_ns = np.maximum(0, begun_ns + own_ns)
    each, many = runs.each, runs.many
    gone_ns = np.repeat(left_ns, many) - case.carried.sent_ns[lost[each]]
    from_each_ns = own_ns * (np.repeat(runs.last, many) - each) - gone_ns  # where the link was idle
    served_ns = np.maximum(dropped_ns, begun_ns + own_ns * (many + 1))
    served_ns = np.maximum(served_ns, np.maximum.reduceat(from_each_ns, np.cumsum(many) - many))
    is_told = served_ns - dropped_ns >= _LARGE * own_ns
    return is_told, is_told & (np.abs(waited_ns - served_ns) <= _GRAIN * own_ns)


def _beyond_around(case: Case, delays: PacketDelays, waits: Waits, lost: Array, runs: _Runs) -> float | None:
    """Return the part that waited for others within a round trip of the losses; None of too few."""
    sent_ns, width_ns = case.carried.sent_ns, case.carried.round_trip_ns
    around = Spans.of(sent_ns[lost[runs.first]] - width_ns, sent_ns[lost[runs.last - 1]] + width_ns)
    near = around.holds(delays.time_ns[1:]) & waits.known
    if np.count_nonzero(near) < _LEAST_AROUND:
        return None
    return float(np.mean(np.abs(waits.beyond[near]) >= _LARGE))
