"""Receiving one object in one session: its segments, and the answers to OBJ and DONE.

Nothing is changed on behalf of a peer that has not echoed the nonce of our PROCEED: a spoofed OBJ costs no
memory beyond its session, and supersedes no part of a real object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.protocols.centaurus.bitmap import Bitmap, slots_of
from multitracer.protocols.centaurus.config import Extension
from multitracer.protocols.centaurus.events import Received
from multitracer.protocols.centaurus.messages import NO_TOKEN, Ack, Done, Obj, Pk, Proceed
from multitracer.protocols.centaurus.sending import EARLY

if TYPE_CHECKING:
    from multitracer.protocols.centaurus.peer import Peer, Shared


class Receiving:
    """The receiver of one object in one session."""

    def __init__(self, obj: Obj, peer: Peer, shared: Shared) -> None:
        self.obj = obj
        self._proven = False
        self._peer = peer
        self._shared = shared
        self._known = peer.acceptance.has(obj)
        self._nonce = shared.nonce()
        self._round = 0
        early = Extension.EARLY_START in shared.config.extensions and bool(obj.offer.extensions & EARLY)
        self._early = obj.token if early and peer.use_up(obj.token) else NO_TOKEN

    def proceed(self) -> Proceed:
        """Return the PROCEED of the present round."""
        slots = slots_of(self.obj.size_bytes, self.obj.segment_bytes)
        held = self._peer.acceptance.partials.get(self.obj.kind)
        bitmap = Bitmap.full(slots) if self._known else Bitmap(slots)
        if not self._known and held is not None and held.is_of(self.obj):
            bitmap = held.bitmap
        offer = self._shared.offer.marked(EARLY if self._early else 0)
        return Proceed(self.obj.kind, self.obj.stamp_ns, self._nonce, self._round, offer, bytes(bitmap))

    def is_proof(self, nonce: int) -> bool:
        """Return whether a nonce proves that its sender received one of ours."""
        return nonce != NO_TOKEN and nonce in (self._nonce, self._early)

    def belongs_to(self, peer: Peer) -> None:
        """Act for this peer from now on."""
        self._peer = peer
        self._known = peer.acceptance.has(self.obj)

    def _proves(self, nonce: int) -> bool:
        if not self.is_proof(nonce):
            return False
        if not self._proven:
            self._peer.proved(self._nonce)
            self._peer.offer = self.obj.offer
            self._proven = True
        return True

    def segment(self, message: Pk, now_ns: int) -> bool:
        """Store a segment; return whether it answers our PROCEED."""
        if not self._proves(message.nonce):
            return False
        if not self._known:
            self._store(message, now_ns)
        return message.nonce == self._nonce and self._round == 0  # later, it may answer an earlier PROCEED

    def _store(self, message: Pk, now_ns: int) -> None:
        shared = self._shared
        part = shared.part_for(self._peer, self.obj, now_ns)
        if not part.fits(message.slot, message.data):
            return
        if shared.partial_bytes + len(message.data) > shared.config.max_partial_bytes:
            shared.counters.refused += 1
            return
        taken = part.store(message.slot, message.data)
        shared.partial_bytes += taken
        shared.counters.duplicate_segments += not taken

    def answers(self, message: Done) -> bool:
        """Return whether a DONE answers our PROCEED; one that left early does not."""
        return message.nonce == self._nonce

    def done(self, message: Done, now_ns: int) -> Ack | Proceed | None:
        """Return the answer to a DONE, None if it is late."""
        if message.round != self._round or not self._proves(message.nonce):
            return None
        if not self._known and not self._completed(now_ns):
            self._round = (self._round + 1) % 256
            return self.proceed()
        return Ack(self.obj.kind, self.obj.stamp_ns)

    def _completed(self, now_ns: int) -> bool:
        """Indicate the object if all segments have arrived; return whether they have."""
        part = self._shared.part_for(self._peer, self.obj, now_ns)
        if not part.bitmap.is_full:
            return False
        self._peer.acceptance.complete(part, self._shared.keep_until_ns(self.obj, now_ns))
        self._shared.partial_bytes -= part.memory_bytes
        self._known = True
        facts = part.kind, part.stamp_ns, part.joined(), part.payload_bytes, part.began_ns
        event = Received(now_ns, self._peer.address, *facts)
        self._shared.events.append(event)
        return True
