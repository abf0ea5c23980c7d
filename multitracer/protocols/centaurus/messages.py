"""Encoding and decoding of Level II messages, their bitmaps, and an endpoint's configuration.

A message is two letters, then fields in network byte order.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, Any, NamedTuple

from multitracer.errors import LocalProtocolError
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

# The configuration of an endpoint: timers, limits, key, and allowed extensions.


SEGMENT_BYTES = 512
"""Segment size without the extension: with all headers below the 576 bytes that every IPv4 host accepts."""
MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES = 64, 1400
"""Bounds of the segment size (docs/centauruscomm.md).

The maximum fits the 1,500 of Ethernet with IPv6 and UDP."""
MAX_SLOTS = 4096
"""Maximum number of segments of a message: the bitmap of a PROCEED, 512 bytes, then fits a datagram."""


class Extension(IntFlag):
    """Extensions, one bit each as in the packet; a session uses an extension if both ends offer it."""

    NONE = 0
    EARLY_START = 1
    """The first segments are sent with OBJ, before PROCEED."""
    SEVERAL = 2
    """Several messages are possible in one session, which lasts until neither end has a message to send."""
    PATH_MTU = 4
    """Segments may be as long as the path MTU and the receiver allow."""

    @property
    def names(self) -> list[str]:
        """Names of the set extensions, such as early-start, as in a manifest."""
        return [str(each.name).lower().replace("_", "-") for each in self]


@dataclass(frozen=True, slots=True)
class CentaurusConfig:
    """Options of an endpoint; the limits bound the memory that peers can use."""

    watchdog_ns: int = 10 * NS_PER_S
    """Time without a valid packet or a SENT after which a session ends."""
    cap_ns: int = 300 * NS_PER_S
    """Maximum age of a session, even if it is active: 256 KiB at 9.6 kb/s take 220 s."""
    lifetime_ns: int = 600 * NS_PER_S
    """Default time for which an outgoing object is offered; `send` can change it."""
    max_lifetime_ns: int = 3600 * NS_PER_S
    """Maximum time for which a partly received object, or the record of a received one, is stored."""

    accepts: frozenset[int] | None = None
    """Classes of objects that are accepted; None accepts every class."""
    extensions: Extension = Extension.NONE
    early_segments: int = 16
    """Number of segments that may be sent before PROCEED, with early start: 8192 bytes."""
    segment_bytes: int = MAX_SEGMENT_BYTES
    """Segment size with the extension PATH_MTU: the path MTU minus 53 bytes (77 with a key) of headers."""
    key: bytes | None = None
    """Pre-shared key: every packet carries an HMAC, and packets without one are dropped."""

    max_message_bytes: int = 256 << 10
    max_peers: int = 1024
    max_peers_per_host: int = 64
    """Maximum number of peers with one IP address."""
    max_half_open: int = 4096
    """Maximum number of half-open sessions (address not proven); a new one then ends the oldest."""
    max_half_open_per_network: int = 64
    """Maximum number of them from one network (/24 of IPv4, /48 of IPv6); a new one then ends its oldest."""
    max_half_open_per_address: int = 2
    """Maximum number of them from one address and port; a new one then ends its oldest."""
    max_classes: int = 32
    """Maximum number of object classes of one peer."""
    max_partials: int = 4
    """Maximum number of partly received objects of one peer; a new one then replaces the oldest."""
    max_partial_bytes: int = 64 << 20
    """Maximum bytes of all partial objects together; above it, offers are not answered."""
    max_outgoing: int = 64
    """Maximum number of objects that wait for one peer."""
    max_outgoing_bytes: int = 64 << 20
    """Maximum bytes of all outgoing objects together."""

    probe_ns: int = NS_PER_S
    """Serial line: longest time without an octet from the slave whose turn it is; then the master polls again."""
    visit_ns: int = 200 * NS_PER_MS
    """Serial line: time between two sessions of the master if it has nothing to send."""

    def __post_init__(self) -> None:
        if not 0 < self.watchdog_ns <= self.cap_ns:
            raise LocalProtocolError('"watchdog_ns" must be above 0 and at most "cap_ns"; check both values')
        if not MIN_SEGMENT_BYTES <= self.segment_bytes <= MAX_SEGMENT_BYTES:
            limits = f"{MIN_SEGMENT_BYTES} to {MAX_SEGMENT_BYTES}"
            raise LocalProtocolError(f'"segment_bytes" must be {limits}, but is {self.segment_bytes}')
        if self.max_message_bytes > MAX_SLOTS * SEGMENT_BYTES:
            raise LocalProtocolError(f'"max_message_bytes" must be at most {MAX_SLOTS * SEGMENT_BYTES}')
        if self.key is not None and len(self.key) < 16:
            raise LocalProtocolError('"key" must have at least 16 bytes; choose a longer key')


# The bitmap of a message's segments: slot `n` is bit `n % 8`, lowest first, of octet `n // 8`.


class Bitmap:
    """A set of segment numbers of one message, with one bit for each segment.

    Examples
    --------
    >>> held = Bitmap(10)
    >>> held.set(0), held.set(9), bytes(held).hex(), held.missing(0)
    (None, None, '0102', 1)
    """

    __slots__ = ("_bits", "slots")

    def __init__(self, slots: int, bits: int = 0) -> None:
        self.slots = slots
        self._bits = bits

    @classmethod
    def full(cls, slots: int) -> Bitmap:
        """Return a bitmap in which all bits are set, for a message of `slots` segments."""
        return cls(slots, (1 << slots) - 1)

    @classmethod
    def parse(cls, octets: bytes, slots: int) -> Bitmap | None:
        """Return the bitmap in `octets`; None if its length is wrong or an unused bit is set."""
        bits = int.from_bytes(octets, "little")
        if len(octets) != octets_of(slots) or bits >> slots:
            return None
        return cls(slots, bits)

    def __bytes__(self) -> bytes:
        return self._bits.to_bytes(octets_of(self.slots), "little")

    def __contains__(self, slot: int) -> bool:
        return bool(self._bits >> slot & 1)

    def __or__(self, other: Bitmap) -> Bitmap:
        return Bitmap(self.slots, self._bits | other._bits)

    def set(self, slot: int) -> None:
        """Set the bit of a slot."""
        self._bits |= 1 << slot

    def missing(self, first: int) -> int | None:
        """Return the lowest segment number from `first` on whose bit is not set; None if all are set."""
        rest = ~self._bits >> first
        slot = first + (rest & -rest).bit_length() - 1
        return slot if slot < self.slots else None

    @property
    def is_full(self) -> bool:
        """Whether all bits are set."""
        return self._bits == (1 << self.slots) - 1

    @property
    def count(self) -> int:
        """Number of bits that are set."""
        return self._bits.bit_count()


def octets_of(slots: int) -> int:
    """Return the size in octets of a bitmap for `slots` segments."""
    return (slots + 7) // 8


def slots_of(size_bytes: int, segment_bytes: int) -> int:
    """Return the number of segments of a message; 0 for an empty one."""
    return -(-size_bytes // segment_bytes)


NO_TOKEN = 0  # reserved: a token is never 0


class RejectReason(IntEnum):
    """Reasons for rejecting an object."""

    CLASS = 1
    """The class is not accepted."""
    NEWER = 2
    """The receiver has a newer version."""
    SIZE = 3
    """The object is too large, or its segments are too small."""


class Offer(NamedTuple):
    """Capabilities of an end: the supported extensions, and the longest segment that it accepts, bytes."""

    extensions: int
    segment_bytes: int

    def marked(self, bit: int) -> Offer:
        """Return the offer with one more extension bit set."""
        return self._replace(extensions=self.extensions | bit)


class Poll(NamedTuple):
    """Message from master to slave: it asks the slave to offer an object."""

    offer: Offer


class Obj(NamedTuple):
    """Message: an offer of an object."""

    kind: int
    """Class of the object."""
    stamp_ns: int
    size_bytes: int
    lifetime_ms: int
    """Remaining lifetime in ms."""
    segment_bytes: int
    token: int
    """A nonce that the receiver issued in an earlier session; 0 if there is none."""
    offer: Offer
    padding: int = 0
    """Number of zero octets at the end, so that the answer is not longer."""


class Rej(NamedTuple):
    """Message: the offered object is rejected."""

    kind: int
    stamp_ns: int
    reason: int


class Proceed(NamedTuple):
    """Message: a request for the segments whose bits are 0."""

    kind: int
    stamp_ns: int
    nonce: int
    round: int
    """Number of the answer, modulo 256: 0 for that to OBJ, then one more for each answer to DONE."""
    offer: Offer
    bitmap: bytes


class Pk(NamedTuple):
    """Message: one segment of an object."""

    slot: int
    nonce: int
    data: bytes


class ObjectDone(NamedTuple):
    """Message: all segments were sent."""

    nonce: int
    round: int


class ObjectAck(NamedTuple):
    """Message: all segments were received."""

    kind: int
    stamp_ns: int


class Nope(NamedTuple):
    """Message: the end has nothing to offer in its turn."""

    turn: int
    """Number of turns of this session before this one, modulo 256."""
    offer: Offer


Message = Poll | Obj | Rej | Proceed | Pk | ObjectDone | ObjectAck | Nope

_POLL = struct.Struct("!2sBH")
_OBJ = struct.Struct("!2sHQIIHIBH")
_REJ = struct.Struct("!2sHQB")
_PROCEED = struct.Struct("!2sHQIBBH")
_PK = struct.Struct("!2sHI")
_DONE = struct.Struct("!2sIB")
_ACK = struct.Struct("!2sHQ")
_NOPE = struct.Struct("!2sBBH")

PK_OVERHEAD = _PK.size
_MAX_PADDING = 256
"""Maximum number of zero octets that pad a first packet (docs/centauruscomm.md)."""


def encode(message: Message) -> bytes:
    """Return a message as octets."""
    match message:
        case Pk(slot, nonce, data):
            return _PK.pack(b"PK", slot, nonce) + data
        case Obj(kind, stamp_ns, size, lifetime, segment, token, offer, padding):
            head = _OBJ.pack(b"OB", kind, stamp_ns, size, lifetime, segment, token, *offer)
            return head + bytes(padding)
        case Proceed(kind, stamp_ns, nonce, number, offer, bitmap):
            return _PROCEED.pack(b"PR", kind, stamp_ns, nonce, number, *offer) + bitmap
        case ObjectDone(nonce, number):
            return _DONE.pack(b"DN", nonce, number)
        case ObjectAck(kind, stamp_ns):
            return _ACK.pack(b"AK", kind, stamp_ns)
        case Rej(kind, stamp_ns, reason):
            return _REJ.pack(b"RJ", kind, stamp_ns, reason)
        case Poll(offer):
            return _POLL.pack(b"PL", *offer)
        case Nope(turn, offer):
            return _NOPE.pack(b"NO", turn, *offer)


def decode(octets: bytes) -> Message | None:
    """Return the message in these octets; None if they are not a valid message."""
    layout = _LAYOUTS.get(octets[:2])
    if layout is None:
        return None
    fields, variable, build = layout
    if len(octets) < fields.size or (not variable and len(octets) > fields.size):
        return None
    return build(fields.unpack_from(octets), octets[fields.size :])


def padding_for(slots: int, *, proceed_overhead: int, obj_overhead: int) -> int:
    """Return the padding of an OBJ in octets, so that its PROCEED is not longer (up to 2,120 segments)."""
    longest = proceed_overhead + _PROCEED.size + octets_of(slots)
    return min(max(0, longest - obj_overhead - _OBJ.size), _MAX_PADDING)


def _obj(fields: tuple[int, ...], rest: bytes) -> Obj | None:
    _, kind, stamp_ns, size, lifetime, segment, token, extensions, longest = fields
    if len(rest) > _MAX_PADDING or any(rest) or not MIN_SEGMENT_BYTES <= segment <= MAX_SEGMENT_BYTES:
        return None
    if slots_of(size, segment) > MAX_SLOTS:
        return None
    return Obj(kind, stamp_ns, size, lifetime, segment, token, Offer(extensions, longest), len(rest))


def _proceed(fields: tuple[int, ...], rest: bytes) -> Proceed | None:
    _, kind, stamp_ns, nonce, number, extensions, longest = fields
    if len(rest) > octets_of(MAX_SLOTS):
        return None
    return Proceed(kind, stamp_ns, nonce, number, Offer(extensions, longest), rest)


def _pk(fields: tuple[int, ...], rest: bytes) -> Pk | None:
    return Pk(fields[1], fields[2], rest) if 0 < len(rest) <= MAX_SEGMENT_BYTES else None


_LAYOUTS: dict[bytes, tuple[struct.Struct, bool, Callable[[tuple[Any, ...], bytes], Message | None]]] = {
    b"PL": (_POLL, False, lambda f, _: Poll(Offer(*f[1:]))),
    b"OB": (_OBJ, True, _obj),
    b"RJ": (_REJ, False, lambda f, _: Rej(*f[1:])),
    b"PR": (_PROCEED, True, _proceed),
    b"PK": (_PK, True, _pk),
    b"DN": (_DONE, False, lambda f, _: ObjectDone(*f[1:])),
    b"AK": (_ACK, False, lambda f, _: ObjectAck(*f[1:])),
    b"NO": (_NOPE, False, lambda f, _: Nope(f[1], Offer(*f[2:]))),
}
