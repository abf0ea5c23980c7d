"""Outages: nothing arrives while data are outstanding, and at least one repetition failed too."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.limits.names import Part, View
from multitracer.diagnosis.limits.spans import Spans
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.observed import Observed
    from multitracer.tables import Array

_ANSWERED = 0.8
"""A try can only have been answered by what came at least this part of the shortest round trip later."""
_TRIES_AT_RECEIVER = 3
"""Silences of so many shortest timeouts hold at least one repetition that failed (they double)."""
_FEWEST_MISSING = 3
"""Packets that a silence must have swallowed, where the sender numbers them (limits.md)."""
_FEWEST_REPEATED = 2
"""Repetitions of what had arrived, a timeout apart: one alone may be a tail-loss probe."""
_SHORTEST_TIMEOUT_NS = 200_000_000  # Linux, TCP_RTO_MIN: 200 ms


class Outages(NamedTuple):
    """Silences in which repetitions failed."""

    spans: Spans
    certain_end: Array
    """Until the last try that failed it is certain; the rest up to the first answered one is possible."""
    part: Array


def outages(seen: Observed) -> Outages:
    """Return the outages of a transfer, in order."""
    holes = _at_receiver(seen) if seen.view is View.RECEIVER else _at_sender(seen)
    rows = [each for each in holes if each[1] > each[0] and each[0] >= seen.opened_ns]
    columns = [np.array([row[i] for row in rows], dtype=np.int64) for i in range(4)]
    return Outages(Spans(columns[0], columns[1]), columns[2], columns[3])


def _at_sender(seen: Observed) -> list[tuple[int, int, int, int]]:
    """Return begin, end, end of what is certain, and part of each silence with a repetition that failed."""
    tries = np.flatnonzero(seen.sends.by_timer)
    if not len(tries):
        return []
    time = seen.sends.time_ns[tries]
    before = seen.last_answer(time)
    first = np.flatnonzero(np.diff(before, prepend=-2))
    last = np.append(first[1:], len(tries))
    begin, end, is_ended = _silences(seen, before[first])
    of = np.repeat(np.arange(len(first)), last - first)
    in_time = np.add.reduceat(time <= end[of] - int(_ANSWERED * seen.floor_ns), first, dtype=np.int64)
    failed = np.where(is_ended, in_time - 1, last - first)
    over = np.where(is_ended & (in_time > 0), time[first + np.maximum(in_time - 1, 0)], end)
    holes = []
    for at in np.flatnonzero(failed > 0).tolist():
        group = tries[first[at] : first[at] + failed[at]]
        part = _part(seen, group, (int(begin[at]), int(end[at])))
        holes.append((int(begin[at]), int(over[at]), int(seen.sends.time_ns[group[-1]]), int(part)))
    return holes


def _silences(seen: Observed, answer: Array) -> tuple[Array, Array, Array]:
    """Return from when each answer was due that did not come, when the next came, and whether one did.

    An outage begins with the last thing heard, or with what was sent first after a pause. `answer` is the
    last before each silence, -1 for none.
    """
    time, sends = seen.answers.time_ns, seen.sends
    there = answer >= 0
    last_ack_ns, acked = np.full(len(answer), seen.begin_ns), np.zeros(len(answer), dtype=np.int64)
    last_ack_ns[there], acked[there] = time[answer[there]], seen.answers.ack[answer[there]]
    first = np.searchsorted(seen.highest, acked, side="right")  # the first that goes beyond
    begin = np.maximum(last_ack_ns, np.append(sends.time_ns, np.iinfo(np.int64).min)[first])
    return begin, np.append(time, seen.end_ns)[answer + 1], answer + 1 < len(time)


def _part(seen: Observed, tries: Array, silence: tuple[int, int]) -> Part:
    """Return what failed, as far as the other capture shows."""
    lost = seen.sends.lost[tries]
    if (lost == 0).any():
        return Part.ACKS
    lost_acks_ns = seen.lost_answers_ns
    if (lost == 1).any() and lost_acks_ns is not None:
        both = ((lost_acks_ns >= silence[0]) & (lost_acks_ns < silence[1])).any()
        return Part.BOTH if both else Part.DATA
    return Part.NONE


def _at_receiver(seen: Observed) -> list[tuple[int, int, int, int]]:
    """Return the silences that ended with the oldest missing data, after longer than one timeout.

    Each begins when the answer to what had arrived was back: until then data waited or were on their way.
    """
    sends = seen.sends
    ends = np.flatnonzero(sends.by_timer)
    least = _TRIES_AT_RECEIVER * max(_SHORTEST_TIMEOUT_NS, seen.floor_ns, seen.trip_ns)
    begin = sends.time_ns[np.maximum(ends - 1, 0)]
    length = sends.time_ns[ends] - begin
    oldest = sends.begin[ends] <= seen.acknowledged(sends.time_ns[ends])
    untold = sends.missing[ends] == NA
    enough = untold | (sends.missing[ends] >= _FEWEST_MISSING)
    long = np.flatnonzero((length > least) & oldest & enough & (ends > 0))
    answered_ns = np.maximum.accumulate(seen.soonest_answer_ns)[np.maximum(ends - 1, 0)]
    lost = [
        (int(answered_ns[i]), int(begin[i] + length[i]), int(answered_ns[i]), int(Part.NONE)) for i in long
    ]
    return sorted([*lost, *_without_acks(seen)])


def _without_acks(seen: Observed) -> list[tuple[int, int, int, int]]:
    """Return the times in which only repetitions of what had arrived came: no ACK reached the sender.

    What left before the first copy had arrived shows no more than that this was late.
    """
    sends = seen.sends
    known = sends.again & ~sends.needed & (sends.end <= seen.acknowledged(sends.time_ns))
    apart = np.diff(sends.time_ns, prepend=sends.time_ns[:1]) > max(_SHORTEST_TIMEOUT_NS, seen.trip_ns)
    tries = np.flatnonzero(known & apart)
    holes = []
    for group in np.split(tries, np.flatnonzero(np.diff(np.searchsorted(seen.fresh, tries))) + 1):
        if len(group) < _FEWEST_REPEATED:
            continue
        after = seen.fresh[np.searchsorted(seen.fresh, group[-1]) :]
        begin = int(sends.time_ns[group[0] - 1]) + seen.floor_ns
        end = int(sends.time_ns[group[-1]]) if len(after) else seen.end_ns
        holes.append((begin, end, int(sends.time_ns[group[-2]]), int(Part.ACKS)))
    return holes
