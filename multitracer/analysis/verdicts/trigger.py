"""What made the sender send again, as its own packets show it.

Rules of the file
-----------------
- Silence: nothing had arrived that could have caused it, and the segment before was no retransmission of the
  same moment. Then a timer did: the retransmission timer, or a tail loss probe. Up to a quarter of the
  shortest round trip after an ACK it may be RACK's (RFC 8985, 6.2), if the retransmission timer is not due.
- A probe repeats the newest segment, once, by a sender with SACK that is in no recovery. If that is also the
  oldest one, a probe is told from a timeout by the time waited, against RFC 6298 over the samples (Linux's
  bounds), unless this sender showed elsewhere whether it probes.
- After a timeout, what is resent on ACKs is slow start, until everything sent before it is acknowledged.
- Else three duplicate ACKs, a SACK above, or a recovery that these began make it fast. A recovery without
  SACK resends a segment once (RFC 6582): what it resends once more when the timer is due, the timer resent.
- The newest segment sent again with nothing between, though nothing asked for it, was refused by the host:
  neither a timer nor duplicate ACKs nor a recovery, or sooner after the last copy than any answer can come.
- A SYN is only ever resent by its timer; a SYN-ACK also for another SYN.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.kind import Kind
from multitracer.analysis.series.rto import LINUX, timeouts_ns
from multitracer.analysis.verdicts.dsack import peers_send_sack
from multitracer.analysis.verdicts.words import Cause, Evidence
from multitracer.tables import NA
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.analysis.verdicts.copies import Copies
    from multitracer.tables import Array

_DUP_THRESH = 3  # RFC 5681, section 3.2: the third duplicate ACK triggers a fast retransmit
_DUE = 0.8
"""Of the timeout by RFC 6298: a kernel's own may be as much shorter."""
_LATE_NS = 10 * NS_PER_MS
"""A busy host may answer an ACK so late."""
_AT_ONCE_NS = NS_PER_MS
"""It usually does within some microseconds."""
_ROUND_TRIP_PART = 4
"""A quarter of the round trip: before the timer is due, an answer to an ACK may be so late. Not measured."""
_TIMEOUTS = 3
"""A shorter silence was ended by the first timeout; a longer one may hold several. Not measured."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """What was known to the sender when it sent each retransmission."""

    silent: Array
    """Nothing had arrived, or was sent again, shortly before."""
    duplicates: Array
    """Duplicate ACKs since the last ACK of something new."""
    sacked: Array
    """A SACK had reported something above."""
    newest: Array
    """It ends with the highest unit sent."""
    una: Array
    """The highest unit acknowledged before."""
    highest: Array
    """The highest unit sent before."""
    waited_ns: Array
    """Since the last ACK of something new, or the last transmission of this range, whichever was later."""
    rto_ns: Array
    """The timeout by RFC 6298 over the samples until then."""
    directly: Array
    """Nothing was sent between it and the copy before."""
    too_soon: Array
    """Sooner after the copy before than any answer."""
    overdue: Array
    """It is the oldest, was resent before, the timer is due, and the receiver sends no SACK."""
    is_complete: bool = True
    """Whether it is all that the sender knew; of a capture made elsewhere some of it is missing."""


def trigger_of(copies: Copies) -> Trigger:
    """Return what the sender's packets show before each retransmission."""
    segments, row = copies.segments, copies.row
    time_ns = segments["time_ns"]
    before, una = copies.before(row), copies.reached_before(row)
    advance_ns = time_ns[np.minimum(np.searchsorted(copies.reached, una), row)]
    copied = copies.earlier < copies.nowhere
    earlier_ns = np.where(copied, copies.of_rows("time_ns", copies.earlier), advance_ns)
    newest = copies.end >= copies.highest[before]
    waited_ns, rto_ns = time_ns[row] - np.maximum(advance_ns, earlier_ns), timeout_ns(copies)
    duplicates = duplicates_until(copies, before, una)
    once_more = _is_once_more(copies, una)
    due = waited_ns > _DUE * rto_ns
    return Trigger(
        _silent(copies, waited_ns, due, once_more),
        duplicates,
        segments["flight_bytes"][row] > segments["flight_sack_bytes"][row],
        newest,
        una,
        np.where(row > copies.first, copies.highest[before], copies.zero),
        waited_ns,
        rto_ns,
        copies.sent[np.maximum(np.searchsorted(copies.sent, row) - 1, 0)] == copies.earlier,
        copied & (copies.min_rtt_ns != NA) & (time_ns[row] - earlier_ns < copies.min_rtt_ns),
        once_more & due & ~peers_send_sack(copies)[copies.talk],
    )


def _is_once_more(copies: Copies, una: Array) -> Array:
    """Return which repeat the oldest segment, though it was resent before."""
    resent = np.isin(copies.earlier, copies.row) & (copies.earlier < copies.nowhere)
    once_more: Array = resent & (copies.begin == una)
    return once_more


def _silent(copies: Copies, waited_ns: Array, due: Array, once_more: Array) -> Array:
    """Return which no arrival can have caused.

    Of the oldest segment, sent once more since it was last resent, only an ACK of the same moment can be the
    cause: else the timer expired amid duplicate ACKs.
    """
    time_ns, row = copies.segments["time_ns"], copies.row
    round_trip_ns = np.maximum(copies.min_rtt_ns, 0)
    others = np.flatnonzero(copies.back)
    arrived = np.append(-1, others)[np.searchsorted(others, row)]
    arrived_ns = time_ns[row] - time_ns[arrived]
    resent_ns = np.diff(time_ns[row], prepend=0)
    begins = np.diff(copies.talk, prepend=-1) != 0
    lateness_ns = np.where(due, _LATE_NS, _LATE_NS + round_trip_ns // _ROUND_TRIP_PART)
    lateness_ns[once_more & (waited_ns > round_trip_ns)] = _AT_ONCE_NS
    silent: Array = (arrived < copies.first) | (arrived_ns > lateness_ns)
    silent &= begins | (resent_ns > lateness_ns)
    return silent


def duplicates_until(copies: Copies, before: Array, una: Array) -> Array:
    """Return how many duplicate ACKs had come, up to row `before`, since the ACK number was `una`.

    Parameters
    ----------
    copies : Copies
    before : ndarray of int64, shape (n_copies,)
        Rows of `copies.segments`.
    una : ndarray of int64, shape (n_copies,)
        The unit up to which everything was acknowledged.

    Returns
    -------
    ndarray of int64, shape (n_copies,)
        0 and more.
    """
    segments = copies.segments
    duplicate = copies.back & ((segments["kind"] & np.uint32(Kind.DUPLICATE_ACK)) != 0)
    rows = np.flatnonzero(duplicate & (segments["ack_bytes"] != NA))
    grew = np.minimum(np.searchsorted(copies.reached, una), before)
    since: Array = np.searchsorted(rows, before, side="right") - np.searchsorted(rows, grew)
    return since


def timeout_ns(copies: Copies, *, beyond_ns: Array | int = 0) -> Array:
    """Return the timeout that RFC 6298 gives before each retransmission; one second without a sample.

    Parameters
    ----------
    beyond_ns : int or ndarray of int64, shape (n_talks,)
        How much longer a round trip is to the sender than to where the capture was made.

    Returns
    -------
    ndarray of int64, ns, shape (n_copies,)
        Above 0.
    """
    talks, segments = copies.talks, copies.segments
    stamped = talks.have(np.flatnonzero(talks.own & (segments["rtt_timestamp_ns"] > 0)))
    rtt_ns = segments["rtt_ns"]
    if stamped.any():
        rtt_ns = np.where(talks.per_row(stamped), segments["rtt_timestamp_ns"], rtt_ns)
    rows = np.flatnonzero(talks.own & (rtt_ns > 0))
    rtt_ns = rtt_ns[rows] + np.broadcast_to(beyond_ns, len(talks))[talks.of(rows)]
    answered_ns = segments["time_ns"][rows] + rtt_ns
    order = np.argsort(answered_ns, kind="stable")
    bounds = np.searchsorted(rows, talks.bounds)
    *_, rto_ns = timeouts_ns(rtt_ns[order], bounds, LINUX)
    last = np.searchsorted(answered_ns[order], segments["time_ns"][copies.row], side="right") - 1
    return np.where(last >= bounds[copies.talk], np.append(rto_ns, 0)[last], NS_PER_S)


def causes(copies: Copies, trigger: Trigger) -> tuple[Array, Array]:
    """Return Cause and Evidence of each retransmission by the rules of this file.

    Returns
    -------
    cause : ndarray of uint8, shape (n_copies,)
    evidence : ndarray of uint32, shape (n_copies,)
        Bits of `Evidence`.
    """
    cause = np.zeros(len(copies), dtype=np.uint8)
    sender = _Sender(copies, trigger)
    probes = _probes(copies, trigger)
    begins = np.append(np.flatnonzero(np.diff(copies.talk, prepend=-1)), len(copies)).tolist()
    for begin, end in itertools.pairwise(begins):
        sender.begin(begin, probes=probes[copies.talk[begin]])
        cause[begin:end] = [sender.cause_of(i) for i in range(begin, end)]
    seen = (trigger.duplicates >= _DUP_THRESH) | trigger.sacked
    evidence = np.zeros(len(copies), dtype=np.uint32)
    for shown, bit in ((trigger.silent, Evidence.SILENCE), (seen, Evidence.DUPLICATE_ACKS)):
        evidence[shown] |= np.uint32(bit)
    evidence[cause == Cause.LOCAL_DROP] |= np.uint32(Evidence.UNASKED)
    return cause, evidence


def _probes(copies: Copies, trigger: Trigger) -> list[bool | None]:
    """Return per talk whether its sender was seen to probe; None if it is unknown."""
    oldest = copies.begin <= trigger.una
    probe = trigger.silent & trigger.newest & ~oldest & (trigger.una > copies.zero)
    timeout = trigger.silent & oldest & ~trigger.newest & (trigger.waited_ns < _TIMEOUTS * trigger.rto_ns)
    is_probing: list[bool | None] = [None] * len(copies.talks)
    for shown, meaning in ((copies.talk[timeout], False), (copies.talk[probe], True)):
        for talk in shown.tolist():
            is_probing[talk] = meaning
    for talk in np.flatnonzero(~peers_send_sack(copies)).tolist():
        is_probing[talk] = False
    return is_probing


class _Sender:
    """The state of the sender of a talk, followed from one retransmission to the next."""

    def __init__(self, copies: Copies, trigger: Trigger) -> None:
        self._begin, self._una = copies.begin.tolist(), trigger.una.tolist()
        self._highest, self._waited = trigger.highest.tolist(), trigger.waited_ns.tolist()
        self._rto, self._silent = trigger.rto_ns.tolist(), trigger.silent.tolist()
        self._newest, self._too_soon = trigger.newest.tolist(), trigger.too_soon.tolist()
        self._directly, self._zero = trigger.directly.tolist(), copies.zero.tolist()
        self._seen = ((trigger.duplicates >= _DUP_THRESH) | trigger.sacked).tolist()
        self._overdue = trigger.overdue.tolist()
        self._is_complete = trigger.is_complete

    def begin(self, i: int, *, probes: bool | None) -> None:
        """Forget what was: retransmission `i` is the first of a talk."""
        self._probes = probes
        self._unclear = self._recover = self._zero[i]
        """Below `unclear`, something had been resent for a reason that is not known."""
        self._state = Cause.UNKNOWN
        """What acknowledgments have resent: SLOW_START, FAST, or UNKNOWN for nothing."""
        self._probed_at: int | None = None

    def cause_of(self, i: int) -> Cause:
        """Return the cause of retransmission `i`; ask for all of them in order."""
        una = self._una[i]
        if una >= self._recover:
            self._state = Cause.UNKNOWN
        if una == self._zero[i]:
            return Cause.TIMEOUT if self._silent[i] else Cause.UNKNOWN
        if self._is_refused(i):
            return Cause.LOCAL_DROP
        if self._silent[i] or (self._state is Cause.FAST and self._overdue[i]):
            return self._by_timer(i, una)
        if self._state is Cause.UNKNOWN and self._seen[i] and una >= self._unclear:
            self._enter(Cause.FAST, i)
        if self._state is Cause.UNKNOWN and not self._is_complete:
            self._unclear = self._highest[i]
        return self._state

    def _is_refused(self, i: int) -> bool:
        """Return whether the host must have refused the copy before."""
        has_reason = self._seen[i] or self._state is not Cause.UNKNOWN
        if has_reason or not (self._newest[i] and self._directly[i]):
            return False
        return bool(self._too_soon[i] or not self._silent[i])

    def _by_timer(self, i: int, una: int) -> Cause:
        if self._state is Cause.UNKNOWN and self._is_probe(i, una):
            self._probed_at = una
            return Cause.TAIL_LOSS_PROBE
        self._enter(Cause.SLOW_START, i)
        return Cause.TIMEOUT

    def _is_probe(self, i: int, una: int) -> bool:
        if self._probes is False or not self._newest[i] or una == self._probed_at:
            return False
        if self._begin[i] > una or self._probes:
            return True
        return bool(self._waited[i] < self._rto[i])

    def _enter(self, state: Cause, i: int) -> None:
        self._state = state
        self._recover = self._highest[i]
