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
from multitracer.analysis.verdicts.stamps import since, stamped_rows, tick_ns
from multitracer.analysis.verdicts.trigger import Trigger, duplicates_until, timeout_ns
from multitracer.capture import Flag, Mark
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.analysis.verdicts.copies import Copies
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
    time_ns, far_ns = segments["time_ns"], _far_round_trip_ns(copies)
    known = _heard(copies, row, far_ns)
    before, una = np.maximum(known - 1, 0), _acknowledged(copies, known)
    earlier_ns = np.where(copies.earlier < copies.nowhere, copies.of_rows("time_ns", copies.earlier), 0)
    advance_ns = time_ns[np.minimum(np.searchsorted(copies.reached, una), row)] + far_ns
    waited_ns = time_ns[row] - np.maximum(advance_ns, earlier_ns)
    highest = np.where(row > 0, copies.highest[np.maximum(row - 1, 0)], 0)
    nothing = np.zeros(len(copies), dtype=bool)
    # what it sends although it is acknowledged it sends because it has heard less than it could have
    heard = (known > 0) & (copies.begin >= una)
    return Trigger(
        _silent(copies, una, far_ns),
        np.where(heard, duplicates_until(copies, before, una), 0),
        heard & (copies.sacked_up_to[before] > una),
        copies.end >= highest,
        una,
        highest,
        waited_ns,
        timeout_ns(copies, beyond_ns=far_ns),
        nothing,
        nothing,
        is_complete=False,
    )


def _acknowledged(copies: Copies, known: Array) -> Array:
    """Return the highest unit acknowledged by the rows before each of `known`."""
    return np.where(known > 0, copies.reached[np.maximum(known - 1, 0)], 0)


def _heard(copies: Copies, row: Array, far_ns: int) -> Array:
    """Return from which row on nothing can have reached the sender before it sent what is at `row`.

    What passed later than the way to the sender and back before; and what is newer than the timestamp that
    it echoes. A SYN without ACK has heard nothing.
    """
    segments = copies.segments
    forward_ns = np.maximum.accumulate(segments["time_ns"])
    heard = np.minimum(np.searchsorted(forward_ns, forward_ns[row] - far_ns, side="right"), row)
    acks = has(segments["flags"], Flag.ACK)
    stamped = has(segments["marks"], Mark.HAS_TIMESTAMPS) & acks
    back = stamped_rows(copies, sender=False)
    if len(back):
        origin = segments["tsval"][back[0]]
        stamps = np.maximum.accumulate(since(segments["tsval"][back], origin))
        newer = np.searchsorted(stamps, since(segments["tsecr"][row], origin), side="right")
        told = np.append(back, copies.nowhere)[newer]
        heard = np.where(stamped[row], np.minimum(heard, told), heard)
    return np.where(acks[row], heard, 0)


def _far_round_trip_ns(copies: Copies) -> int:
    """Return the shortest time from here to the sender and back; 0 if none was measured."""
    segments = copies.segments
    back = segments["reverse"] != copies.reverse
    measured = [segments[name][back] for name in ("rtt_ns", "rtt_timestamp_ns")]
    known = np.concatenate([times[times > 0] for times in measured])
    return int(known.min()) if len(known) else 0


def _silent(copies: Copies, una: Array, far_ns: int) -> Array:
    """Return before which nothing had passed, either way, for longer than the path's round trip.

    Or what the sender's timestamps show: that so long it had sent nothing, and echoes nothing newer. If it
    does echo something newer, of which more is acknowledged, then that was late, and no timer expired.
    """
    segments, row = copies.segments, copies.row
    path_ns = _LONGER * (far_ns + max(copies.min_rtt_ns, 0)) + _LATE_NS
    quiet_ns = segments["time_ns"][row] - segments["time_ns"][np.maximum(row - 1, 0)]
    before, pause_ns, heard = _pause(copies)
    late = heard & (una > _acknowledged(copies, _heard(copies, before, far_ns)))
    silent: Array = ((row > 0) & (quiet_ns > path_ns) & ~late) | (~heard & (pause_ns > path_ns))
    return silent


def _pause(copies: Copies) -> tuple[Array, Array, Array]:
    """Return the row that the sender had sent before, and how long before by its timestamps; 0 if none tells.

    And whether the retransmission echoes something newer than what it had sent before that.
    """
    segments, row, own = copies.segments, copies.row, stamped_rows(copies, sender=True)
    if len(own) < 2:
        return row, np.zeros(len(row)), np.zeros(len(row), dtype=bool)
    place = np.minimum(np.searchsorted(own, row), len(own) - 1)
    before = own[np.maximum(place - 1, 0)]
    told = (own[place] == row) & (place > 0)
    newer = told & (segments["tsecr"][row] != segments["tsecr"][before])
    ticks = (segments["tsval"][row] - segments["tsval"][before]).view(np.int32).astype(np.int64) - 1
    return before, np.where(told, ticks, 0) * (tick_ns(segments, own) or 0), newer


def passed_before(copies: Copies) -> Array:
    """Return which had been acknowledged, or reported by a SACK, when they passed."""
    before: Array = copies.report < copies.row
    return before


def untold(copies: Copies) -> tuple[Array, Array]:
    """Return of which no ACK seems to have reached the sender before their own; and of which that is open.

    Of those that had been acknowledged when they passed. What the sender echoes next tells. Else when it goes
    on: sooner than an answer to the retransmission lets it, then an earlier ACK came through; as soon as that
    does, then none did; later, either may have been late.
    """
    row, far_ns = copies.row, _far_round_trip_ns(copies)
    path_ns = far_ns + max(copies.min_rtt_ns, 0)
    asked = passed_before(copies) & ~(copies.sacked < np.minimum(row, copies.answer))
    crossed = -copies.after_ns(copies.report) <= _LONGER * far_ns + _LATE_NS
    echoed, skipped = _echoes(copies)
    onward = _goes_on(copies)
    onward_ns = np.where(onward < copies.nowhere, copies.after_ns(onward), np.iinfo(np.int64).max)
    told = crossed | echoed | (onward_ns < SURELY_EARLY * path_ns)
    lost = asked & ~told & (skipped | (onward_ns <= _LONGER * path_ns + _LATE_NS))
    return lost, asked & ~told & ~lost


def _goes_on(copies: Copies) -> Array:
    """Return the first row behind each retransmission by which its sender sends what lies above it."""
    end, sent = copies.segments["end_bytes"][copies.sent], copies.sent
    onward = np.full(len(copies), copies.nowhere)
    place = np.searchsorted(sent, copies.row, side="right").tolist()
    for i, (at, bound) in enumerate(zip(place, copies.end.tolist(), strict=True)):
        above = np.flatnonzero(end[at : at + _BURST] > bound)
        if len(above):
            onward[i] = sent[at + above[0]]
    return onward


def _echoes(copies: Copies) -> tuple[Array, Array]:
    """Return of which the sender echoed an ACK that passed before the copy did; and of which only later ones.

    The first ACK that covers the copy must have a timestamp of its own: a coarse clock says nothing.
    """
    segments, row = copies.segments, copies.row
    stamped = has(segments["marks"], Mark.HAS_TIMESTAMPS) & has(segments["flags"], Flag.ACK)
    own = np.flatnonzero((segments["reverse"] == copies.reverse) & stamped)
    back = np.flatnonzero((segments["reverse"] != copies.reverse) & stamped)
    if not len(own) or not len(back) or not len(copies):
        none = np.zeros(len(copies), dtype=bool)
        return none, none
    origin = segments["tsval"][back[0]]
    echoed = np.maximum.accumulate(since(segments["tsecr"][own], origin))
    stamps = np.append(since(segments["tsval"][back], origin), np.iinfo(np.int64).max)
    report, later = (np.searchsorted(back, rows) for rows in (copies.report, row))
    first, bound = stamps[report], stamps[later]
    usable = (copies.report < row) & (first > np.append(-1, stamps)[report]) & (first < bound)
    at = np.searchsorted(echoed, first)
    usable &= at < len(own)
    said = echoed[np.minimum(at, len(own) - 1)]
    return usable & (said < bound), usable & (said >= bound)
