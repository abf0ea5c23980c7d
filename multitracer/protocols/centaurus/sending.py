"""Sending one object in one session: OBJ, PROCEED, PK (one or more), DONE, ACK.

The sender's bitmap says what need not be sent. A PROCEED replaces it; SENT sets the bit of the segment that
left. With early start, segments leave between OBJ and PROCEED under the nonce of an earlier session (the
token); if that PROCEED says that they are taken, their bits stay, since it left before they arrived.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from multitracer.protocols.centaurus.bitmap import Bitmap
from multitracer.protocols.centaurus.config import SEGMENT_BYTES, Extension
from multitracer.protocols.centaurus.messages import NO_TOKEN, Done, Message, Obj, Pk, Proceed, padding_for
from multitracer.protocols.centaurus.packet import overhead_bytes
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.protocols.centaurus.outgoing import OutgoingObject
    from multitracer.protocols.centaurus.peer import Peer, Shared

EARLY = 0x80
"""Bit of the extensions in OBJ: early segments follow; in the PROCEED that answers it: they are taken."""


class Phase(Enum):
    """The phase of an object's transmission."""

    OFFER = auto()
    WAIT_PROCEED = auto()
    """OBJ was sent; with early start, segments leave meanwhile."""
    SEND = auto()
    WAIT_ANSWER = auto()
    """DONE was sent."""


class Sending:
    """The sender of one object in one session.

    Parameters
    ----------
    early_token : int
        The token that early segments may carry, `NO_TOKEN` for none. It must be of an earlier session: within
        this one, the segments of an object that was sent before carry its nonce, and may be late.
    """

    def __init__(self, outgoing: OutgoingObject, peer: Peer, shared: Shared, *, early_token: int) -> None:
        self.object = outgoing
        self.phase = Phase.OFFER
        self._peer = peer
        self._shared = shared
        agreed = shared.agreed(peer)
        longest = min(shared.config.segment_bytes, peer.offer.segment_bytes)
        outgoing.offered(
            longest if agreed & Extension.PATH_MTU and longest >= SEGMENT_BYTES else SEGMENT_BYTES
        )
        # only the first time: later, the peer may hold segments that its PROCEED would tell of
        self._starts_early = (
            bool(agreed & Extension.EARLY_START) and early_token != NO_TOKEN and outgoing.sessions == 1
        )
        self._early = Bitmap(outgoing.slots)
        self._nonce = early_token
        self._round = 0
        self._proceeded = False
        self._unsent: int | None = None

    @property
    def has_output(self) -> bool:
        """Whether `outgoing` would return a message; after a PK it waits for SENT."""
        if self._unsent is not None or self.phase is Phase.WAIT_ANSWER:
            return False
        return self.phase is not Phase.WAIT_PROCEED or self._may_go_early

    @property
    def _may_go_early(self) -> bool:
        if not self._starts_early:
            return False
        return self._early.is_full or self._early.count < self._shared.config.early_segments

    def outgoing(self, now_ns: int) -> Message:
        """Return the next message."""
        if self.phase is Phase.OFFER:
            self.phase = Phase.WAIT_PROCEED
            return self._obj(now_ns)
        slot = self.object.bitmap.missing(0)
        if slot is None:
            self.phase = Phase.WAIT_ANSWER
            return Done(self._nonce, self._round)
        self._unsent = slot
        self.object.segments_sent += 1
        return Pk(slot, self._nonce, self.object.segment(slot))

    def _obj(self, now_ns: int) -> Obj:
        each = self.object
        overhead = overhead_bytes(self._shared.config.key)
        padding = padding_for(each.slots, proceed_overhead=overhead, obj_overhead=overhead)
        lifetime_ms = max(1, -(-(each.expires_ns - now_ns) // NS_PER_MS))
        return Obj(
            each.kind,
            each.stamp_ns,
            len(each.data),
            min(lifetime_ms, 0xFFFFFFFF),
            each.segment_bytes,
            self._peer.token,
            self._shared.offer.marked(EARLY if self._starts_early else 0),
            padding,
        )

    def sent(self) -> None:
        """Handle SENT: the segment has left; its bit means sent, not received."""
        if self._unsent is None:
            return
        self.object.bitmap.set(self._unsent)
        if not self._proceeded:
            self._early.set(self._unsent)
        self._unsent = None

    def concerns(self, kind: int, stamp_ns: int) -> bool:
        """Return whether an answer is about this object."""
        return (kind, stamp_ns) == (self.object.kind, self.object.stamp_ns)

    @property
    def is_accepted(self) -> bool:
        """Whether the peer said PROCEED."""
        return self._proceeded

    def proceed(self, message: Proceed) -> bool:
        """Handle a PROCEED; return whether it answers our last control message."""
        held = Bitmap.parse(message.bitmap, self.object.slots)
        if (
            held is None
            or not self.concerns(message.kind, message.stamp_ns)
            or not self._awaits(message.round)
        ):
            return False
        answers = self.phase is Phase.WAIT_PROCEED or message.round > 0
        taken = not self._proceeded and bool(message.offer.extensions & EARLY)
        resumed = not self._proceeded and self.object.sessions > 1
        self._peer.token, self._peer.offer = message.nonce, message.offer
        self._nonce, self._proceeded = message.nonce, True
        if not answers and taken:
            return False  # all left early, DONE too: its answer follows
        early = self._early if taken and message.round == 0 else None
        self.object.proceed(held, sent_early=early, resumed=resumed)
        self._round = message.round
        self.phase = Phase.SEND
        return answers

    def _awaits(self, number: int) -> bool:
        if not self._proceeded and number == 0:
            return self.phase in (Phase.WAIT_PROCEED, Phase.WAIT_ANSWER)
        return self.phase is Phase.WAIT_ANSWER and number == (self._round + 1) % 256
