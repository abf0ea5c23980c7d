"""A capture at the receiver, or between: what of a sender's view can be put together from there.

The order of what passes the capture point on the way to the receiver, and on the way back, is that of the
sender and of the receiver. So what proves that a copy arrived holds anywhere. What the sender knew when it
sent has to be found: an ACK that passed cannot have had an effect before it went to the sender and back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.analysis.verdicts.answers import SURELY_EARLY
from multitracer.analysis.verdicts.stamps import Stamped, since, tick_ns
from multitracer.analysis.verdicts.trigger import Trigger, duplicates_until, timeout_ns
from multitracer.captured import Flag, Mark
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.analysis.verdicts.copies import Copies
    from multitracer.analysis.verdicts.talks import Talks
    from multitracer.tables import Array

_LATE_NS = 10 * NS_PER_MS
"""A busy host may answer an ACK so late."""
_BURST = 64
"""Segments behind a retransmission among which the next of new data is looked for; else it is not known."""
_LONGER = 1.5
"""Than the shortest round trip: what takes so long is no answer to what passed before."""


def trigger_away(copies: Copies) -> Trigger:
    """Return what the sender can have known before each retransmission, and where it must have waited."""
    segments, row = copies.segments, copies.row
    time_ns, far_ns = segments["time_ns"], _far_round_trip_ns(copies.talks)
    beyond_ns = far_ns[copies.talk]
    known = _known_at_far_end(copies, row, beyond_ns)
    before, una = copies.before(known), copies.reached_before(known)
    advance_ns = time_ns[np.minimum(np.searchsorted(copies.reached, una), row)] + beyond_ns
    copied = copies.earlier < copies.nowhere
    earlier_ns = np.where(copied, copies.of_rows("time_ns", copies.earlier), advance_ns)
    highest = np.where(row > copies.first, copies.highest[copies.before(row)], copies.zero)
    nothing = np.zeros(len(copies), dtype=bool)
    # what it sends although it is acknowledged it sends because it has heard less than it could have
    unacknowledged = (known > copies.first) & (copies.begin >= una)
    return Trigger(
        _silent(copies, una, beyond_ns),
        np.where(unacknowledged, duplicates_until(copies, before, una), 0),
        unacknowledged & (copies.sacked_up_to[before] > una),
        copies.end >= highest,
        una,
        highest,
        time_ns[row] - np.maximum(advance_ns, earlier_ns),
        timeout_ns(copies, beyond_ns=far_ns),
        nothing,
        nothing,
        nothing,
        is_complete=False,
    )


def _known_at_far_end(copies: Copies, row: Array, far_ns: Array) -> Array:
    """Return the first row that cannot have reached the sender before it sent what is at `row`.

    What passed later than the way to the sender and back before; and what is newer than the timestamp that
    it echoes. A SYN without ACK has heard nothing.
    """
    segments = copies.segments
    forward_ns = np.maximum.accumulate(segments["time_ns"])
    arrived = np.minimum(np.searchsorted(forward_ns, forward_ns[row] - far_ns, side="right"), row)
    acks = has(segments["flags"], Flag.ACK)
    stamped = has(segments["marks"], Mark.HAS_TIMESTAMPS) & acks
    back = Stamped.of(copies.talks, copies.back)
    stamps = np.maximum.accumulate(back.since_first(segments["tsval"][back.rows], back.talk))
    newer = np.searchsorted(stamps, back.since_first(segments["tsecr"][row], copies.talk), side="right")
    by_stamp = np.append(back.rows, len(segments))[newer]
    arrived = np.where(stamped[row], np.minimum(arrived, by_stamp), arrived)
    return np.where(acks[row], np.maximum(arrived, copies.first), copies.first)


def _far_round_trip_ns(talks: Talks) -> Array:
    """Return per talk the shortest time from here to the sender and back; 0 if none was measured."""
    return np.maximum(talks.shortest_ns(("rtt_ns", "rtt_timestamp_ns"), ~talks.own), 0)


def _silent(copies: Copies, una: Array, far_ns: Array) -> Array:
    """Return which follow a silence in both directions that is longer than the path's round trip.

    Or what the sender's timestamps show: that so long it had sent nothing, and echoes nothing newer. If it
    does echo something newer, of which more is acknowledged, then that was late, and no timer expired.
    """
    time_ns, row = copies.segments["time_ns"], copies.row
    path_ns = _LONGER * (far_ns + np.maximum(copies.min_rtt_ns, 0)) + _LATE_NS
    quiet_ns = time_ns[row] - time_ns[copies.before(row)]
    before, pause_ns, is_answered = _pause(copies)
    late = is_answered & (una > copies.reached_before(_known_at_far_end(copies, before, far_ns)))
    silent: Array = ((row > copies.first) & (quiet_ns > path_ns) & ~late) | (
        ~is_answered & (pause_ns > path_ns)
    )
    return silent


def _pause(copies: Copies) -> tuple[Array, Array, Array]:
    """Return the sender's previous row, and how long before by its timestamps; 0 if they do not show it.

    And whether the retransmission echoes something newer than what it had sent before that.
    """
    segments, row, own = copies.segments, copies.row, Stamped.of(copies.talks, copies.talks.own)
    place = np.searchsorted(own.rows, row)
    has_previous = (np.append(own.rows, len(segments))[place] == row) & (place > own.bounds[copies.talk])
    before = np.where(has_previous, np.append(own.rows, 0)[place - 1], row)
    newer = has_previous & (segments["tsecr"][row] != segments["tsecr"][before])
    ticks = since(segments["tsval"][row], segments["tsval"][before]) - 1
    return before, np.where(has_previous, ticks, 0) * np.maximum(tick_ns(own), 0)[copies.talk], newer


def passed_before(copies: Copies) -> Array:
    """Return which had been acknowledged, or reported by a SACK, when they passed.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    before: Array = copies.report < copies.row
    return before


def unacknowledged_at_sender(copies: Copies) -> tuple[Array, Array]:
    """Return for which copies no earlier ACK seems to have reached the sender, and for which that is open.

    Of those that had been acknowledged when they passed. The timestamp that the sender echoes next decides.
    Without one, the time when it goes on does: sooner than an answer to the retransmission allows, then an
    earlier ACK came through; as soon as it allows, then none did; later, either may have been late.

    Returns
    -------
    lost, open : ndarray of bool, shape (n_copies,)
    """
    row, far_ns = copies.row, _far_round_trip_ns(copies.talks)[copies.talk]
    path_ns = far_ns + np.maximum(copies.min_rtt_ns, 0)
    candidate = passed_before(copies) & ~(copies.sacked < np.minimum(row, copies.answer))
    crossed = -copies.after_ns(copies.report) <= _LONGER * far_ns + _LATE_NS
    echoed, skipped = _echoes(copies)
    onward = _goes_on(copies)
    onward_ns = np.where(onward < copies.nowhere, copies.after_ns(onward), np.iinfo(np.int64).max)
    arrived = crossed | echoed | (onward_ns < SURELY_EARLY * path_ns)
    lost = candidate & ~arrived & (skipped | (onward_ns <= _LONGER * path_ns + _LATE_NS))
    return lost, candidate & ~arrived & ~lost


def _goes_on(copies: Copies) -> Array:
    """Return the first row behind each retransmission by which its sender sends what lies above it."""
    end, sent = copies.segments["end_bytes"][copies.sent], copies.sent
    onward = copies.nowhere.copy()
    place, stop = (np.searchsorted(sent, at).tolist() for at in (copies.row + 1, copies.nowhere))
    for i, (at, last, bound) in enumerate(zip(place, stop, copies.end.tolist(), strict=True)):
        above = np.flatnonzero(end[at : min(at + _BURST, last)] > bound)
        if len(above):
            onward[i] = sent[at + above[0]]
    return onward


def _echoes(copies: Copies) -> tuple[Array, Array]:
    """Return of which the sender echoed an ACK that passed before the copy did; and of which only later ones.

    The first ACK that covers the copy must have a timestamp of its own: a coarse clock says nothing.
    """
    segments, row, talks, talk = copies.segments, copies.row, copies.talks, copies.talk
    acks = has(segments["flags"], Flag.ACK)
    own, back = (Stamped.of(talks, side & acks) for side in (talks.own, copies.back))
    if not len(own.rows) or not len(back.rows):
        none = np.zeros(len(copies), dtype=bool)
        return none, none
    echoed = np.maximum.accumulate(back.since_first(segments["tsecr"][own.rows], own.talk))
    stamps = back.since_first(segments["tsval"][back.rows], back.talk)
    report, later = (np.searchsorted(back.rows, rows) for rows in (copies.report, row))
    first, bound = (np.append(stamps, np.iinfo(np.int64).max)[index] for index in (report, later))
    usable = (copies.report < row) & (first > np.append(-1, stamps)[report]) & (first < bound)
    at = np.searchsorted(echoed, first)
    usable &= at < own.bounds[1:][talk]
    echo = echoed[np.minimum(at, len(echoed) - 1)]
    return usable & (echo < bound), usable & (echo >= bound)
