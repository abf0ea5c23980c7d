"""What one end received from a peer: the object acceptance table, and the objects received in part.

Both are keyed by class within a peer. A class holds at most one part, because a newer stamp supersedes an
older one; the stamps of completed objects only grow (ours), so no message is indicated twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from multitracer.protocols.centaurus.bitmap import Bitmap, slots_of
from multitracer.protocols.centaurus.messages import Obj, Reason

_BYTES_PER_SEGMENT = 100
"""What Python keeps beside the data of a stored segment."""


@dataclass(slots=True)
class Partial:
    """An object that is being received; it is kept when its session ends."""

    kind: int
    stamp_ns: int
    size_bytes: int
    segment_bytes: int
    expires_ns: int
    began_ns: int
    bitmap: Bitmap = field(init=False)
    segments: dict[int, bytes] = field(default_factory=dict)
    payload_bytes: int = 0
    """Payload that arrived for it, duplicates included."""
    memory_bytes: int = 0

    def __post_init__(self) -> None:
        self.bitmap = Bitmap(slots_of(self.size_bytes, self.segment_bytes))

    def is_of(self, obj: Obj) -> bool:
        """Return whether an offer is for this object, cut into the same segments."""
        ours = self.kind, self.stamp_ns, self.size_bytes, self.segment_bytes
        return ours == (obj.kind, obj.stamp_ns, obj.size_bytes, obj.segment_bytes)

    def fits(self, slot: int, data: bytes) -> bool:
        """Return whether a segment belongs to this object."""
        begin = slot * self.segment_bytes
        return slot < self.bitmap.slots and len(data) == min(self.segment_bytes, self.size_bytes - begin)

    def store(self, slot: int, data: bytes) -> int:
        """Keep a segment; return the bytes of memory that it takes, 0 for a duplicate."""
        self.payload_bytes += len(data)
        if slot in self.bitmap:
            return 0
        self.segments[slot] = data
        self.bitmap.set(slot)
        taken = len(data) + _BYTES_PER_SEGMENT
        self.memory_bytes += taken
        return taken

    def joined(self) -> bytes:
        """Return the whole message."""
        return b"".join(self.segments[slot] for slot in range(self.bitmap.slots))


@dataclass(slots=True)
class Accepted:
    """The newest completely received object of a class."""

    stamp_ns: int
    keep_until_ns: int
    """Until then its sender may still ask for an acknowledgment that got lost."""


class Acceptance:
    """The acceptance table and the partial objects of one peer."""

    __slots__ = ("accepted", "partials")

    def __init__(self) -> None:
        self.accepted: dict[int, Accepted] = {}
        self.partials: dict[int, Partial] = {}

    def has(self, obj: Obj) -> bool:
        """Return whether this very object was completely received before."""
        held = self.accepted.get(obj.kind)
        return held is not None and held.stamp_ns == obj.stamp_ns

    def refuses(self, obj: Obj, *, accepts: frozenset[int] | None, max_classes: int) -> Reason | None:
        """Return why an offered object is rejected, None if it is wanted."""
        if accepts is not None and obj.kind not in accepts:
            return Reason.CLASS
        known = obj.kind in self.accepted or obj.kind in self.partials
        if not known and len({*self.accepted, *self.partials}) >= max_classes:
            return Reason.CLASS
        held, part = self.accepted.get(obj.kind), self.partials.get(obj.kind)
        if (held and held.stamp_ns > obj.stamp_ns) or (part and part.stamp_ns > obj.stamp_ns):
            return Reason.NEWER
        return None

    def complete(self, part: Partial, keep_until_ns: int) -> None:
        """Note that an object was completely received."""
        self.accepted[part.kind] = Accepted(part.stamp_ns, keep_until_ns)
        self.partials.pop(part.kind, None)

    def keep_until_ns(self) -> int:
        """Return until when this memory is needed."""
        times = [held.keep_until_ns for held in self.accepted.values()]
        return max([*times, *(part.expires_ns for part in self.partials.values())], default=0)
