"""The state of one peer, and the state that all sessions of an endpoint share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from multitracer.protocols.centaurus.acceptance import Acceptance, Partial
from multitracer.protocols.centaurus.config import SEGMENT_BYTES, CentaurusConfig, Extension
from multitracer.protocols.centaurus.events import Address, Counters, Event
from multitracer.protocols.centaurus.messages import NO_TOKEN, Obj, Offer
from multitracer.protocols.centaurus.outgoing import OutgoingTable
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable

_NONCES = 4
"""Nonces of a peer that still prove its address; one is used up in each session that fails early."""


class Peer:
    """One peer across its sessions: objects to it, objects from it, and what it can do."""

    __slots__ = ("acceptance", "address", "nonces", "offer", "outgoing", "token")

    def __init__(self, address: Address) -> None:
        self.address = address
        self.outgoing = OutgoingTable()
        self.acceptance = Acceptance()
        self.offer = Offer(0, SEGMENT_BYTES)
        """What it is capable of, as last heard."""
        self.token = NO_TOKEN
        """The last nonce that it gave out: proof that we live at our address."""
        self.nonces: dict[int, bool] = {}
        """Nonces that it echoed, and whether early segments may still use them."""

    def proved(self, nonce: int) -> None:
        """Note that the peer echoed a nonce: it receives at its address."""
        self.nonces.pop(nonce, None)
        self.nonces[nonce] = True
        while len(self.nonces) > _NONCES:
            del self.nonces[next(iter(self.nonces))]

    def keep_until_ns(self) -> int:
        """Return until when to remember it: objects of its last sessions must not be delivered twice."""
        return self.acceptance.keep_until_ns()

    def use_up(self, nonce: int) -> bool:
        """Return whether early segments may carry this nonce: each nonce allows this once."""
        usable = self.nonces.get(nonce, False)
        if usable:
            self.nonces[nonce] = False
        return usable


@dataclass(slots=True)
class Shared:
    """The state that all sessions of an endpoint share."""

    config: CentaurusConfig
    random_bytes: Callable[[int], bytes]
    events: list[Event] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)
    partial_bytes: int = 0
    """Memory of all partial objects."""
    outgoing_bytes: int = 0

    def nonce(self) -> int:
        """Return a number that cannot be guessed, and is not `NO_TOKEN`."""
        return int.from_bytes(self.random_bytes(4), "big") or 1

    @property
    def offer(self) -> Offer:
        """What this end can do."""
        longest = self.config.segment_bytes if self.config.extensions & Extension.PATH_MTU else SEGMENT_BYTES
        return Offer(self.config.extensions, longest)

    def agreed(self, peer: Peer) -> Extension:
        """Return the extensions that both ends may use."""
        return self.config.extensions & Extension(peer.offer.extensions & 7)

    def part_for(self, peer: Peer, obj: Obj, now_ns: int) -> Partial:
        """Return the received part of an offered object; a new one replaces an older one of its class."""
        held = peer.acceptance.partials.get(obj.kind)
        if held is not None and held.is_of(obj):
            return held
        if held is not None:
            self.forget(peer, held)
        while len(peer.acceptance.partials) >= self.config.max_partials:
            self.forget(peer, min(peer.acceptance.partials.values(), key=lambda part: part.expires_ns))
        until_ns = self.keep_until_ns(obj, now_ns)
        part = Partial(obj.kind, obj.stamp_ns, obj.size_bytes, obj.segment_bytes, until_ns, now_ns)
        peer.acceptance.partials[obj.kind] = part
        return part

    def keep_until_ns(self, obj: Obj, now_ns: int) -> int:
        """Return until when its sender may refer to an object: in any session that began in its lifetime."""
        lifetime_ns = min(obj.lifetime_ms * NS_PER_MS, self.config.max_lifetime_ns)
        return now_ns + lifetime_ns + self.config.cap_ns

    def forget(self, peer: Peer, part: Partial) -> None:
        """Delete a partial object."""
        del peer.acceptance.partials[part.kind]
        self.partial_bytes -= part.memory_bytes
        self.counters.forgotten_partials += 1
