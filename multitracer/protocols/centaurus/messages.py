"""The messages of Level II as octets: two letters, then fields in network byte order.

Paper 000 names the messages and gives PK its two letters and its slot number; the other layouts are ours
(docs/centauruscomm.md). Octets that follow no layout decode to None: a peer is not worth an exception.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from multitracer.protocols.centaurus.bitmap import octets_of, slots_of
from multitracer.protocols.centaurus.config import MAX_SEGMENT_BYTES, MAX_SLOTS, MIN_SEGMENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

NO_TOKEN = 0  # reserved: a token is never 0


class Reason(IntEnum):
    """Why an object is rejected."""

    CLASS = 1
    """The class is not accepted."""
    NEWER = 2
    """A newer copy is held."""
    SIZE = 3
    """It is too large, or cut too finely."""


class Offer(NamedTuple):
    """What an end can do: the extensions it may use and the longest segment it accepts, in bytes."""

    extensions: int
    segment_bytes: int

    def marked(self, bit: int) -> Offer:
        """Return the offer with one more bit set."""
        return self._replace(extensions=self.extensions | bit)


class Poll(NamedTuple):
    """From master to slave: a request to offer an object."""

    offer: Offer


class Obj(NamedTuple):
    """An offer of an object."""

    kind: int
    """The object's class."""
    stamp_ns: int
    size_bytes: int
    lifetime_ms: int
    """Time until it expires."""
    segment_bytes: int
    token: int
    """A nonce that the receiver gave out in an earlier session; 0 if there is none."""
    offer: Offer
    padding: int = 0
    """Zero octets at the end, so that the answer is no more than three times as long."""


class Rej(NamedTuple):
    """The object is not wanted."""

    kind: int
    stamp_ns: int
    reason: int


class Proceed(NamedTuple):
    """The object is wanted: the segments whose bits are 0."""

    kind: int
    stamp_ns: int
    nonce: int
    round: int
    """0 for the answer to OBJ, one more for each answer to DONE, modulo 256."""
    offer: Offer
    bitmap: bytes


class Pk(NamedTuple):
    """One segment."""

    slot: int
    nonce: int
    data: bytes


class Done(NamedTuple):
    """Every segment was sent."""

    nonce: int
    round: int


class Ack(NamedTuple):
    """Every segment was received."""

    kind: int
    stamp_ns: int


class Nope(NamedTuple):
    """Nothing to send."""

    turn: int
    """Turns of this session before this one, modulo 256."""
    offer: Offer


Message = Poll | Obj | Rej | Proceed | Pk | Done | Ack | Nope

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
"""Octets of 0 that make a first packet as long as its answer (docs/centauruscomm.md)."""


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
        case Done(nonce, number):
            return _DONE.pack(b"DN", nonce, number)
        case Ack(kind, stamp_ns):
            return _ACK.pack(b"AK", kind, stamp_ns)
        case Rej(kind, stamp_ns, reason):
            return _REJ.pack(b"RJ", kind, stamp_ns, reason)
        case Poll(offer):
            return _POLL.pack(b"PL", *offer)
        case Nope(turn, offer):
            return _NOPE.pack(b"NO", turn, *offer)


def decode(octets: bytes) -> Message | None:
    """Return the message in these octets; None if they match no layout."""
    layout = _LAYOUTS.get(octets[:2])
    if layout is None:
        return None
    fields, variable, build = layout
    if len(octets) < fields.size or (not variable and len(octets) > fields.size):
        return None
    return build(fields.unpack_from(octets), octets[fields.size :])


def padding_for(slots: int, *, proceed_overhead: int, obj_overhead: int) -> int:
    """Return how many octets an OBJ is padded by, so that its PROCEED is at most three times as long."""
    longest = proceed_overhead + _PROCEED.size + octets_of(slots)
    return max(0, -(-longest // 3) - obj_overhead - _OBJ.size)


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
    b"DN": (_DONE, False, lambda f, _: Done(*f[1:])),
    b"AK": (_ACK, False, lambda f, _: Ack(*f[1:])),
    b"NO": (_NOPE, False, lambda f, _: Nope(f[1], Offer(*f[2:]))),
}
