"""How a connection was opened and ended, in both directions, whichever endpoint sends the data."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis import SegmentKind
from multitracer.analysis.group import has
from multitracer.captured import Flag
from multitracer.tables import NA
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.diagnosis.packets.dead_times import DeadTime
    from multitracer.recording.transfer import Transfer
    from multitracer.tables import Array, Table


IDLE_S = 3.0
"""Minimum idle time, in s, from which on it may be the reason for a dead connection: servers and NAT devices
end idle connections after 5 s (the default of common web servers) to minutes, some a little earlier."""
_TRIES = 3
"""Number of failed tries from which on no answer is expected any more."""
_SOONEST = 0.8
"""Minimum part of the shortest round trip between a packet and its answer."""

_MOST_RESETS = 100
"""Maximum number of resets that are judged; a device that answers each packet by one sends thousands. Not measured."""


class HandshakeAndResets:
    """The handshake and the resets of a transfer's connection, as rows of `sender`.

    Parameters
    ----------
    transfer : Transfer
    table : Table, optional
        TCP_SEGMENTS of another capture of the connection; rows then refer to this table.

    Attributes
    ----------
    syns, syn_acks : ndarray of int64
        Rows of each SYN of the initiator, and of each SYN-ACK of the responder. If both ends open the connection at
        once (RFC 9293, section 3.5), both send both; none of these is a retransmission.
    resets : ndarray of int64
        Rows of each reset.
    """

    def __init__(self, transfer: Transfer, table: Table | None = None) -> None:
        self.transfer = transfer
        self._table = transfer.sender if table is None else table
        self._flags = self._table["flags"]
        once = (self._table["kind"] & np.uint32(SegmentKind.CAPTURE_DUPLICATE)) == 0
        syn, ack = has(self._flags, Flag.SYN), has(self._flags, Flag.ACK)
        reverse = self._table["reverse"]
        self.syns = np.flatnonzero(syn & ~ack & once & ~reverse)
        self.syn_acks = np.flatnonzero(syn & ack & once & reverse)
        self.resets = np.flatnonzero(has(self._flags, Flag.RST) & once)

    @cached_property
    def resets_when_open(self) -> Array:
        """Rows of the first resets between the handshake, or the first data, and the first FIN: int64."""
        if not len(self.resets):
            return self.resets
        opened = np.concatenate([self.syn_acks[:1], np.flatnonzero(self._table["payload_bytes"] > 0)[:1]])
        ended = np.flatnonzero(has(self._flags, Flag.FIN))[:1]
        chosen = self.resets[self.resets < ended[0]] if len(ended) else self.resets
        return chosen[chosen >= opened.min()][:_MOST_RESETS] if len(opened) else chosen[:0]

    @cached_property
    def resets_in_handshake(self) -> Array:
        """Rows of the responder's resets between the SYN and the SYN-ACK that answers it all the same: int64."""
        if not len(self.resets) or not len(self.syns) or not len(self.syn_acks):
            return self.resets[:0]
        answer = int(self.syn_acks[0])
        before = self.syns[self.syns < answer]
        last_syn = int(before[-1]) if len(before) else answer
        between: Array = self.resets[(self.resets > last_syn) & (self.resets < answer)]
        refused: Array = between[self._table["reverse"][between]]
        return refused[:_MOST_RESETS]

    @property
    def responder(self) -> Array:
        """Rows of the segments that the responder sent."""
        return np.flatnonzero(self._table["reverse"])

    @property
    def is_heard_only(self) -> bool:
        """Whether the initiator sent only SYNs, and at most a reset, so no handshake was completed."""
        mine = self._flags[~self._table["reverse"]]
        return bool(has(mine, Flag.SYN | Flag.RST).all())

    @cached_property
    def answered_syn(self) -> int:
        """Row of the last SYN that the first SYN-ACK can answer; NA without one.

        A SYN-ACK that follows sooner than the shortest round trip answers an earlier SYN. The echoed
        timestamp does not help: a responder that repeats its SYN-ACK echoes the first SYN.
        """
        if not len(self.syn_acks) or not len(self.syns):
            return NA
        answer, rtt = int(self.syn_acks[0]), self._table["rtt_ns"][self._table["payload_bytes"] > 0]
        soonest_ns = _SOONEST * int(rtt[rtt > 0].min()) if (rtt > 0).any() else 0
        times = self._table["time_ns"]
        before = self.syns[times[self.syns] <= times[answer] - soonest_ns]
        return int(before[-1]) if len(before) else NA

    @property
    def needed_syns(self) -> Array:
        """Rows of the SYNs until one was answered, without those sent while its answer was in transit: int64.

        It is empty if no answer was captured.
        """
        return self.syns[self.syns <= self.answered_syn] if len(self.syn_acks) else self.syns[:0]

    @property
    def lost_syn_acks(self) -> int:
        """Number of SYN-ACKs that were sent and must have been lost, in a capture at the responder.

        Each may answer a further SYN, because the initiator sends these until it is answered. Then the one before was
        lost if its ACK would have come before: by the shortest round trip of the responder's data.
        """
        if len(self.syn_acks) < 2:
            return 0
        times, reverse = self._table["time_ns"], self._table["reverse"]
        rtt = self._table["rtt_ns"][reverse & (self._table["payload_bytes"] > 0)]
        rtt = rtt[rtt > 0]
        opened = np.flatnonzero(~reverse & ~has(self._flags, Flag.SYN))
        sent = self.syn_acks[self.syn_acks < opened.min(initial=len(reverse))]
        if not len(rtt) or len(sent) < 2:
            return 0
        return int(np.count_nonzero(np.diff(times[sent]) * _SOONEST > rtt.min()))

    def idle_ns(self, row: int) -> int:
        """Return for how long before a row nothing was outstanding, in ns; keep-alives do not count."""
        kind = np.uint32(SegmentKind.KEEP_ALIVE)
        real = np.flatnonzero((self._table["kind"][:row] & kind) == 0)
        real = real[(self._table["payload_bytes"][real] > 0) | has(self._flags[real], Flag.SYN | Flag.FIN)]
        if not len(real):
            return 0
        covered = self._covered_ns(int(real[-1]), row)
        return 0 if covered is None else int(self._table["time_ns"][row]) - covered

    def _covered_ns(self, last: int, before: int) -> int | None:
        """Return when the last data before a row were acknowledged, in ns; None if not before the row."""
        other = self._table["reverse"] != self._table["reverse"][last]
        covers = other & (self._table["ack_bytes"] >= self._table["end_bytes"][last])
        rows = np.flatnonzero(covers[last:before]) + last
        return int(self._table["time_ns"][rows[0]]) if len(rows) else None


class FailedOpening(NamedTuple):
    """A connection that was never opened."""

    syns: int
    is_refused: bool
    """Whether a reset answered a SYN; otherwise nothing did."""
    seconds: float
    """Link time from the last SYN before the first reset to this reset; without one, from first to last SYN."""

    @property
    def is_certain(self) -> bool:
        """Whether more than one SYN was sent, or one was refused: the answer to one may come after the capture."""
        return self.is_refused or self.syns > 1

    @property
    def kind(self) -> str:
        """The kind of finding that names it; `unopened` if none does."""
        if self.is_refused:
            return "connection-refused"
        return "syn-unanswered" if self.is_certain else "unopened"


def failed_opening(transfer: Transfer) -> FailedOpening | None:
    """Return how the opening of a connection failed; None if it did not, or no SYN was captured."""
    table = transfer.sender
    if not len(table) or not has(table["flags"], Flag.SYN | Flag.RST).all():
        return None
    opening = HandshakeAndResets(transfer)
    if not len(opening.syns) or len(opening.syn_acks) or not opening.is_heard_only:
        return None
    time_ns, back = table["time_ns"], opening.responder
    resets = back[(back > opening.syns[0]) & (table["ack_bytes"][back] == 1)]
    if len(back) and not len(resets):
        return None
    end = int(resets[0]) if len(resets) else int(opening.syns[-1])
    begin = int(opening.syns[opening.syns < end][-1]) if len(resets) else int(opening.syns[0])
    seconds = int(time_ns[end] - time_ns[begin]) * transfer.speed / NS_PER_S
    return FailedOpening(len(opening.syns), len(resets) > 0, seconds)


def is_forgotten(opening: HandshakeAndResets, dead: DeadTime) -> bool:
    """Return whether the peer no longer knew the connection: after a long idle time nothing was answered.

    The first data after an idle time of `IDLE_S`, and all their retransmissions, must have no answer. After a shorter
    one a path that failed in the meantime looks the same, and no device is known that forgets so soon.
    """
    if dead.answer != NA or dead.failed < _TRIES:
        return False
    return paused_s(opening, first_unanswered(opening.transfer, dead)) >= IDLE_S


def first_unanswered(transfer: Transfer, dead: DeadTime) -> int:
    """Return the row of the first data in a dead time (nothing arrived) that had no answer."""
    table = transfer.sender
    before = transfer.acks[transfer.acks < dead.tries[0]]
    ends = np.maximum.accumulate(table["end_bytes"][transfer.data])
    at = np.searchsorted(ends, table["ack_bytes"][before].max(), side="right")
    return int(transfer.data[at])


def paused_s(opening: HandshakeAndResets, row: int) -> float:
    """Return the seconds of link time before a row in which nothing was outstanding or sent."""
    return opening.idle_ns(row) * opening.transfer.speed / NS_PER_S
