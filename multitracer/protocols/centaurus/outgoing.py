"""The table of a peer's outgoing objects: small, in order of time stamps, searched from its start."""

from __future__ import annotations

from dataclasses import dataclass, field

from multitracer.protocols.centaurus.bitmap import Bitmap, slots_of
from multitracer.protocols.centaurus.config import SEGMENT_BYTES

_FRUITLESS_LIMIT = 2
"""One may be chance, two mean a path that passes no long packets. RFC 8899, 5.1.2 takes 3."""


@dataclass(slots=True)
class OutgoingObject:
    """A message on its way to a peer."""

    handle: int
    kind: int
    stamp_ns: int
    data: bytes
    expires_ns: int
    segment_bytes: int = 0
    """Set when it is first offered; kept, so that a bitmap of an earlier session still fits."""
    bitmap: Bitmap = field(default_factory=lambda: Bitmap(0))
    """What need not be sent: as the last PROCEED said, and what was sent since."""
    sessions: int = 0
    segments_sent: int = 0
    fruitless: int = 0
    """Sessions after which the peer held nothing of it."""

    @property
    def slots(self) -> int:
        """Number of segments into which it is cut."""
        return slots_of(len(self.data), self.segment_bytes)

    def segment(self, slot: int) -> bytes:
        """Return the data of a slot."""
        return self.data[slot * self.segment_bytes : (slot + 1) * self.segment_bytes]

    def offered(self, segment_bytes: int) -> None:
        """Note that a session begins to send it, in segments of this size unless it already has a size."""
        self.sessions += 1
        if self.is_cut_too_long:
            self.segment_bytes = SEGMENT_BYTES
        self.segment_bytes = self.segment_bytes or segment_bytes
        self.bitmap = Bitmap(self.slots)

    @property
    def is_cut_too_long(self) -> bool:
        """Whether its segments are too long for the path, in spite of the negotiation: none ever arrived."""
        return self.segment_bytes > SEGMENT_BYTES and self.fruitless >= _FRUITLESS_LIMIT

    def proceed(self, held: Bitmap, *, sent_early: Bitmap | None, resumed: bool) -> None:
        """Handle a PROCEED: its bitmap replaces ours; early segments of this session stay marked as sent."""
        if resumed:
            self.fruitless = 0 if held.count else self.fruitless + 1
        self.bitmap = held | sent_early if sent_early is not None else held


class OutgoingTable:
    """The outgoing objects of one peer, oldest stamp first."""

    __slots__ = ("_objects", "_stamps")

    def __init__(self) -> None:
        self._objects: list[OutgoingObject] = []
        self._stamps: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def add(self, handle: int, kind: int, data: bytes, now_ns: int, lifetime_ns: int) -> OutgoingObject:
        """Add a message; its stamp is the time, or one more than the last stamp of its class."""
        stamp_ns = max(now_ns, self._stamps.get(kind, -1) + 1)
        self._stamps[kind] = stamp_ns
        added = OutgoingObject(handle, kind, stamp_ns, data, now_ns + lifetime_ns)
        self._objects.append(added)
        return added

    def has_class(self, kind: int) -> bool:
        """Return whether a message of this class was ever added."""
        return kind in self._stamps

    @property
    def classes(self) -> int:
        """Number of classes that were ever used."""
        return len(self._stamps)

    def first(self, now_ns: int) -> OutgoingObject | None:
        """Return the object to offer next."""
        return next((each for each in self._objects if each.expires_ns > now_ns), None)

    def remove(self, gone: OutgoingObject) -> None:
        """Forget an object that was delivered or rejected."""
        self._objects = [each for each in self._objects if each is not gone]

    def take_expired(self, now_ns: int, *, but: OutgoingObject | None) -> list[OutgoingObject]:
        """Remove and return the objects whose lifetime is over, except one that is being sent."""
        expired = [each for each in self._objects if each.expires_ns <= now_ns and each is not but]
        if expired:
            self._objects = [each for each in self._objects if each.expires_ns > now_ns or each is but]
        return expired

    def expiries_ns(self) -> list[int]:
        """Return when each object expires."""
        return [each.expires_ns for each in self._objects]
