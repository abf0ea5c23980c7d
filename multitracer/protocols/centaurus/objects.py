"""The objects of an endpoint: outgoing ones, received ones, and the state that all sessions share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from multitracer.protocols.centaurus.events import Address, Counters, Event
from multitracer.protocols.centaurus.messages import (
    NO_TOKEN,
    SEGMENT_BYTES,
    Bitmap,
    CentaurusConfig,
    Extension,
    Obj,
    Offer,
    RejectReason,
    slots_of,
)
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable

# The table of a peer's outgoing objects: small, in order of time stamps, searched from its start.


_FRUITLESS_LIMIT = 2
"""Number of fruitless sessions after which the path is assumed to drop long packets (RFC 8899, 5.1.2: 3)."""


@dataclass(slots=True)
class OutgoingObject:
    """A message that is being sent to a peer, in one or more sessions."""

    handle: int
    kind: int
    stamp_ns: int
    data: bytes
    expires_ns: int
    segment_bytes: int = 0
    """Segment size, set at the first offer.

    It does not change, so that a bitmap of an earlier session remains valid."""
    bitmap: Bitmap = field(default_factory=lambda: Bitmap(0))
    """Segments that need not be sent: those in the last PROCEED, and those sent since it."""
    sessions: int = 0
    segments_sent: int = 0
    fruitless: int = 0
    """Number of sessions after which the peer still had no segment of the object."""

    @property
    def slots(self) -> int:
        """Number of segments of the object."""
        return slots_of(len(self.data), self.segment_bytes)

    def segment(self, slot: int) -> bytes:
        """Return the data of segment number `slot`."""
        return self.data[slot * self.segment_bytes : (slot + 1) * self.segment_bytes]

    def offered(self, segment_bytes: int) -> None:
        """Record that a session begins to send the object.

        The segment size of the first session, in bytes, is used in all sessions, unless it proves
        too long for the path.
        """
        self.sessions += 1
        if self.is_cut_too_long:
            self.segment_bytes = SEGMENT_BYTES
        self.segment_bytes = self.segment_bytes or segment_bytes
        self.bitmap = Bitmap(self.slots)

    @property
    def is_cut_too_long(self) -> bool:
        """Whether the segments are probably too long for the path: none has arrived in several sessions."""
        return self.segment_bytes > SEGMENT_BYTES and self.fruitless >= _FRUITLESS_LIMIT

    def proceed(self, held: Bitmap, *, sent_early: Bitmap | None, resumed: bool) -> None:
        """Process a PROCEED: its bitmap of received segments replaces ours.

        Segments in `sent_early` were sent early in this session and remain marked. `resumed` is
        true if an earlier session has sent the object, too.
        """
        if resumed:
            self.fruitless = 0 if held.count else self.fruitless + 1
        self.bitmap = held | sent_early if sent_early is not None else held


class OutgoingTable:
    """The outgoing objects of one peer, in ascending order of time stamps."""

    __slots__ = ("_objects", "_stamps")

    def __init__(self) -> None:
        self._objects: list[OutgoingObject] = []
        self._stamps: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def add(self, handle: int, kind: int, data: bytes, now_ns: int, lifetime_ns: int) -> OutgoingObject:
        """Add a message and return its entry.

        Its time stamp is `now_ns`, or one more than the last time stamp of its class if that is later.
        """
        stamp_ns = max(now_ns, self._stamps.get(kind, -1) + 1)
        self._stamps[kind] = stamp_ns
        added = OutgoingObject(handle, kind, stamp_ns, data, now_ns + lifetime_ns)
        self._objects.append(added)
        return added

    @property
    def classes(self) -> int:
        """Number of classes that were ever used."""
        return len(self._stamps)

    def first(self, now_ns: int) -> OutgoingObject | None:
        """Return the object to offer next; None if there is none."""
        return next((each for each in self._objects if each.expires_ns > now_ns), None)

    def remove(self, gone: OutgoingObject) -> None:
        """Remove an object, because it was delivered or rejected."""
        self._objects = [each for each in self._objects if each is not gone]

    def take_expired(self, now_ns: int, *, but: OutgoingObject | None) -> list[OutgoingObject]:
        """Remove and return all objects whose lifetime has expired, except `but`, which is being sent now."""
        expired = [each for each in self._objects if each.expires_ns <= now_ns and each is not but]
        if expired:
            self._objects = [each for each in self._objects if each.expires_ns > now_ns or each is but]
        return expired

    def expiries_ns(self) -> list[int]:
        """Return the expiry time of each object."""
        return [each.expires_ns for each in self._objects]


# What one end received from a peer: the object acceptance table, and the objects received in part.
#
# Both are keyed by class within a peer. A class holds at most one part, because a newer stamp supersedes an
# older one; the stamps of completed objects only grow (ours), so no message is indicated twice.


_BYTES_PER_SEGMENT = 100
"""Memory in bytes that Python needs for a stored segment, in addition to its data."""


@dataclass(slots=True)
class Partial:
    """An object of which some segments have arrived; it survives the end of its session."""

    kind: int
    stamp_ns: int
    size_bytes: int
    segment_bytes: int
    expires_ns: int
    began_ns: int
    bitmap: Bitmap = field(init=False)
    segments: dict[int, bytes] = field(default_factory=dict)
    payload_bytes: int = 0
    """Payload bytes that arrived for it, duplicates included."""
    memory_bytes: int = 0

    def __post_init__(self) -> None:
        self.bitmap = Bitmap(slots_of(self.size_bytes, self.segment_bytes))

    def is_of(self, obj: Obj) -> bool:
        """Return whether an offer is for this object, divided into the same segments."""
        ours = self.kind, self.stamp_ns, self.size_bytes, self.segment_bytes
        return ours == (obj.kind, obj.stamp_ns, obj.size_bytes, obj.segment_bytes)

    def fits(self, slot: int, data: bytes) -> bool:
        """Return whether number and length of a segment fit this object."""
        begin = slot * self.segment_bytes
        return slot < self.bitmap.slots and len(data) == min(self.segment_bytes, self.size_bytes - begin)

    def store(self, slot: int, data: bytes) -> int:
        """Store a segment; return its use of memory in bytes, 0 for a duplicate."""
        self.payload_bytes += len(data)
        if slot in self.bitmap:
            return 0
        self.segments[slot] = data
        self.bitmap.set(slot)
        taken = len(data) + _BYTES_PER_SEGMENT
        self.memory_bytes += taken
        return taken

    def joined(self) -> bytes:
        """Return the complete message."""
        return b"".join(self.segments[slot] for slot in range(self.bitmap.slots))


@dataclass(slots=True)
class Accepted:
    """The newest completely received object of a class."""

    stamp_ns: int
    keep_until_ns: int
    """Time until which the sender may ask again for a lost acknowledgment."""


class Acceptance:
    """The received objects of one peer: the newest complete one of each class, and the partial ones."""

    __slots__ = ("accepted", "partials")

    def __init__(self) -> None:
        self.accepted: dict[int, Accepted] = {}
        self.partials: dict[int, Partial] = {}

    def has(self, obj: Obj) -> bool:
        """Return whether the offered object has been received completely before."""
        held = self.accepted.get(obj.kind)
        return held is not None and held.stamp_ns == obj.stamp_ns

    def refuses(self, obj: Obj, *, accepts: frozenset[int] | None, max_classes: int) -> RejectReason | None:
        """Return the reason for which an offered object is rejected; None if it is accepted.

        `accepts` are the allowed classes, None for all; `max_classes` limits how many classes a
        peer may use.
        """
        if accepts is not None and obj.kind not in accepts:
            return RejectReason.CLASS
        known = obj.kind in self.accepted or obj.kind in self.partials
        if not known and len({*self.accepted, *self.partials}) >= max_classes:
            return RejectReason.CLASS
        held, part = self.accepted.get(obj.kind), self.partials.get(obj.kind)
        if (held and held.stamp_ns > obj.stamp_ns) or (part and part.stamp_ns > obj.stamp_ns):
            return RejectReason.NEWER
        return None

    def complete(self, part: Partial, keep_until_ns: int) -> None:
        """Record that an object was completely received."""
        self.accepted[part.kind] = Accepted(part.stamp_ns, keep_until_ns)
        self.partials.pop(part.kind, None)

    def keep_until_ns(self) -> int:
        """Return the time until which this state is needed."""
        times = [held.keep_until_ns for held in self.accepted.values()]
        return max([*times, *(part.expires_ns for part in self.partials.values())], default=0)


# The state of one peer, and the state that all sessions of an endpoint share.


_NONCES = 4
"""Number of nonces of a peer that still prove its address; each session that fails early uses up one."""


class Peer:
    """One peer across its sessions: objects to it, objects from it, and its capabilities."""

    __slots__ = ("acceptance", "address", "issued", "nonces", "offer", "outgoing", "token")

    def __init__(self, address: Address) -> None:
        self.address = address
        self.outgoing = OutgoingTable()
        self.acceptance = Acceptance()
        self.offer = Offer(0, SEGMENT_BYTES)
        """Capabilities of the peer, as last received."""
        self.token = NO_TOKEN
        """The last nonce from the peer, which proves to the peer that we receive at our address."""
        self.nonces: dict[int, bool] = {}
        """Nonces that the peer echoed, and whether early segments may still use them."""
        self.issued: dict[int, None] = {}
        """Nonces that were sent to the peer; as a token one proves its address, too, if all that echoed it was lost."""

    def proved(self, nonce: int) -> None:
        """Record that the peer has returned a nonce, which shows that it receives at its address."""
        self.nonces.pop(nonce, None)
        self.nonces[nonce] = True
        while len(self.nonces) > _NONCES:
            del self.nonces[next(iter(self.nonces))]

    def issue(self, nonce: int) -> None:
        """Record that a nonce is sent to the peer."""
        self.issued[nonce] = None
        while len(self.issued) > _NONCES:
            del self.issued[next(iter(self.issued))]

    def is_token(self, nonce: int) -> bool:
        """Return whether a token shows that the peer receives at its address."""
        return nonce in self.nonces or nonce in self.issued

    def keep_until_ns(self) -> int:
        """Return the time until which the peer is stored, so that no object is delivered twice."""
        return self.acceptance.keep_until_ns()

    def use_up(self, nonce: int) -> bool:
        """Return whether early segments may carry this nonce as a token, and mark it as used."""
        usable = self.nonces.get(nonce, False)
        if usable:
            self.nonces[nonce] = False
        return usable


@dataclass(slots=True)
class EndpointState:
    """The state that all sessions of an endpoint share."""

    config: CentaurusConfig
    random_bytes: Callable[[int], bytes]
    events: list[Event] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)
    partial_bytes: int = 0
    """Memory of all partial objects, in bytes."""
    outgoing_bytes: int = 0

    def nonce(self) -> int:
        """Return a random number that is not `NO_TOKEN`."""
        return int.from_bytes(self.random_bytes(4), "big") or 1

    @property
    def offer(self) -> Offer:
        """Capabilities of this end."""
        longest = self.config.segment_bytes if self.config.extensions & Extension.PATH_MTU else SEGMENT_BYTES
        return Offer(self.config.extensions, longest)

    def agreed(self, peer: Peer) -> Extension:
        """Return the extensions that both ends support."""
        return self.config.extensions & Extension(peer.offer.extensions & 7)

    def part_for(self, peer: Peer, obj: Obj, now_ns: int) -> Partial:
        """Return the stored part of an offered object; without one, a new empty part.

        A new part replaces the part of an older object of the same class.
        """
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
        """Return the time in ns until which the state of an object is stored.

        Until then a session that began in the object's lifetime may refer to it.
        """
        lifetime_ns = min(obj.lifetime_ms * NS_PER_MS, self.config.max_lifetime_ns)
        return now_ns + lifetime_ns + self.config.cap_ns

    def forget(self, peer: Peer, part: Partial) -> None:
        """Delete a partial object."""
        del peer.acceptance.partials[part.kind]
        self.partial_bytes -= part.memory_bytes
        self.counters.forgotten_partials += 1
