"""The wire format of QUIC, versions 1 and 2: long headers, the TLS handshake inside, frames (RFC 9000, 9369).

All input is hostile: whatever is cut or impossible ends what is read of it, and nothing raises.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from multitracer.protocols.quic_protection import VERSION_1, VERSION_2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Window = tuple[int, int, int, int]

MOST_CID_BYTES = 20
"""Longest connection id (RFC 9000, 17.2)."""
MOST_CRYPTO_BYTES = 1 << 17
"""Bytes of a handshake that are kept: TLS messages of clients have some 2 kB, certificates up to 20 kB."""


class Space(IntEnum):
    """The kind of a packet, by its packet number space; RETRY and NEGOTIATION have no number."""

    INITIAL = 0
    HANDSHAKE = 1
    ZERO_RTT = 2
    ONE_RTT = 3
    RETRY = 4
    NEGOTIATION = 5
    UNKNOWN_VERSION = 6

    @property
    def label(self) -> str:
        """The word in tables."""
        return _LABELS[self]


_LABELS = {
    Space.INITIAL: "initial", Space.HANDSHAKE: "handshake", Space.ZERO_RTT: "0-rtt", Space.ONE_RTT: "1-rtt",
    Space.RETRY: "retry", Space.NEGOTIATION: "version-negotiation", Space.UNKNOWN_VERSION: "unknown-version",
}  # fmt: skip
_TYPES_1 = (Space.INITIAL, Space.ZERO_RTT, Space.HANDSHAKE, Space.RETRY)
_TYPES_2 = (Space.RETRY, Space.INITIAL, Space.ZERO_RTT, Space.HANDSHAKE)  # RFC 9369, 3.2


class LongHeader(NamedTuple):
    """A long header and the place of what is behind it."""

    space: Space
    version: int
    destination: bytes
    source: bytes
    number_at: int
    """Offset of the packet number, which is protected; of a packet without one, of its content."""
    end: int
    """Offset behind the packet, also where the capture cut it."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length and the offset behind it (RFC 9000, 16); IndexError if it is cut."""
    first = data[at]
    size = 1 << (first >> 6)
    if size == 1:
        return first, at + 1
    end = at + size
    if end > len(data):
        raise IndexError(at)
    return int.from_bytes(data[at:end], "big") & ((1 << (8 * size - 2)) - 1), end


def long_headers(data: bytes, length: int) -> Iterator[LongHeader]:
    """Yield the long headers of a datagram, of which `data` was captured and `length` bytes were sent.

    A short header behind them is not among them: it begins at the `end` of the last one.
    """
    at = 0
    while at < len(data) and data[at] & 0x80:
        try:
            header = _long_header(data, at, length)
        except IndexError:
            return
        if header is None:
            return
        yield header
        at = header.end


def _long_header(data: bytes, at: int, length: int) -> LongHeader | None:
    version = int.from_bytes(data[at + 1 : at + 5], "big")
    destination, place = _cid(data, at + 5)
    source, place = _cid(data, place)
    if version == 0:
        return LongHeader(Space.NEGOTIATION, 0, destination, source, place, length)
    if version not in (VERSION_1, VERSION_2):
        return LongHeader(Space.UNKNOWN_VERSION, version, destination, source, place, length)
    if max(len(destination), len(source)) > MOST_CID_BYTES:
        return None
    space = (_TYPES_1 if version == VERSION_1 else _TYPES_2)[data[at] >> 4 & 3]
    if space is Space.RETRY:
        return LongHeader(space, version, destination, source, place, length)
    if space is Space.INITIAL:
        token, place = varint(data, place)
        place += token
    size, place = varint(data, place)
    return (
        None
        if place + size > length or size < 4
        else LongHeader(space, version, destination, source, place, place + size)
    )


def _cid(data: bytes, at: int) -> tuple[bytes, int]:
    end = at + 1 + data[at]
    if end > len(data):
        raise IndexError(at)
    return data[at + 1 : end], end


def unwrapped(truncated: int, size: int, largest: int) -> int:
    """Return a packet number from its last `size` bytes and the largest number before (RFC 9000, A.3)."""
    window, expected = 1 << (8 * size), largest + 1
    candidate = (expected & ~(window - 1)) | truncated
    if candidate <= expected - window // 2 and candidate < (1 << 62) - window:
        return candidate + window
    if candidate > expected + window // 2 and candidate >= window:
        return candidate - window
    return candidate


# --- TLS inside CRYPTO frames ---


class CryptoStream:
    """The bytes of CRYPTO frames, in whatever pieces and order they come."""

    def __init__(self) -> None:
        self._parts: dict[int, bytes] = {}
        self._size = 0

    def add(self, offset: int, data: bytes) -> None:
        """Add a piece; beyond a bound nothing is kept."""
        has_room = offset + len(data) <= MOST_CRYPTO_BYTES and self._size + len(data) <= 2 * MOST_CRYPTO_BYTES
        if has_room and len(data) > len(self._parts.get(offset, b"")):
            self._size += len(data)
            self._parts[offset] = data

    def begin(self) -> bytes:
        """Return the bytes from the start on that are there without a gap."""
        parts, at = [], 0
        for offset, data in sorted(self._parts.items()):
            if offset > at:
                break
            if offset + len(data) > at:
                parts.append(data[at - offset :])
                at = offset + len(data)
        return b"".join(parts)


@dataclass(slots=True)
class TlsHello:
    """What a ClientHello or ServerHello says; None where it was not captured."""

    kind: int = 0
    """1: client, 2: server, 0: neither."""
    random: bytes | None = None
    suite: int | None = None
    """Cipher suite that the server chose."""
    sni: str | None = None
    alpn: tuple[str, ...] | None = None
    parameters: dict[int, int] = field(default_factory=dict)
    """Transport parameters that are numbers (RFC 9000, 18.2)."""
    is_complete: bool = False
    has_sni: bool = False


_SNI, _ALPN, _PARAMETERS = 0, 16, 0x39  # RFC 6066, RFC 7301, RFC 9001 8.2
_ENCRYPTED_EXTENSIONS = 8  # RFC 8446, 4


def hello(data: bytes) -> TlsHello:
    """Return what the first message of a handshake says, as far as it is there (RFC 8446, 4.1)."""
    message = TlsHello()
    if len(data) < 4 or data[0] not in (1, 2):
        return message
    message.kind, end = data[0], 4 + int.from_bytes(data[1:4], "big")
    if len(data) >= 38:
        message.random = data[6:38]
    try:
        at = 39 + data[38]
        if message.kind == 1:
            at += 2 + int.from_bytes(_exact(data, at, 2), "big")
            at += 1 + data[at]
        else:
            message.suite = int.from_bytes(_exact(data, at, 2), "big")
            at += 3
        _extensions(data, at, min(end, len(data)), message)
        message.is_complete = len(data) >= end
    except IndexError:
        pass
    return message


def encrypted_extensions(data: bytes) -> TlsHello:
    """Return what a server's EncryptedExtensions say: the protocol it chose, its transport parameters."""
    message = TlsHello()
    if len(data) >= 6 and data[0] == _ENCRYPTED_EXTENSIONS:
        try:
            _extensions(data, 4, min(len(data), 4 + int.from_bytes(data[1:4], "big")), message)
            message.is_complete = True
        except IndexError:
            pass
    return message


def _exact(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise IndexError(at)
    return data[at : at + size]


def _extensions(data: bytes, at: int, end: int, message: TlsHello) -> None:
    _exact(data, at, 2)
    at += 2
    while at < end:
        kind, size = int.from_bytes(_exact(data, at, 2), "big"), int.from_bytes(_exact(data, at + 2, 2), "big")
        body = _exact(data, at + 4, size)
        at += 4 + size
        if kind == _SNI and len(body) >= 5:
            message.sni, message.has_sni = (
                body[5 : 5 + int.from_bytes(body[3:5], "big")].decode("ascii", "replace"),
                True,
            )
        elif kind == _ALPN:
            message.alpn = tuple(_names(body[2:]))
        elif kind == _PARAMETERS:
            message.parameters = dict(_parameters(body))


def _names(body: bytes) -> Iterator[str]:
    at = 0
    while at < len(body):
        yield body[at + 1 : at + 1 + body[at]].decode("ascii", "replace")
        at += 1 + body[at]


class Parameter(IntEnum):
    """Transport parameters that are used (RFC 9000, 18.2)."""

    IDLE_TIMEOUT_MS = 1
    MAX_DATA = 4
    MAX_STREAM_DATA_BIDI_LOCAL = 5
    MAX_STREAM_DATA_BIDI_REMOTE = 6
    MAX_STREAM_DATA_UNI = 7
    ACK_DELAY_EXPONENT = 10
    MAX_ACK_DELAY_MS = 11


def _parameters(body: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(body):
        kind, at = varint(body, at)
        size, at = varint(body, at)
        if kind in Parameter.__members__.values() and size in (1, 2, 4, 8) and at + size <= len(body):
            yield kind, varint(body, at)[0]
        at += size


# --- frames ---


class FrameType(IntEnum):
    """Frames that are looked for (RFC 9000, 19)."""

    PADDING = 0
    PING = 1
    ACK = 2
    ACK_ECN = 3
    RESET_STREAM = 4
    STOP_SENDING = 5
    CRYPTO = 6
    NEW_TOKEN = 7
    STREAM = 8
    MAX_DATA = 0x10
    MAX_STREAM_DATA = 0x11
    MAX_STREAMS = 0x12
    DATA_BLOCKED = 0x14
    STREAM_DATA_BLOCKED = 0x15
    STREAMS_BLOCKED = 0x16
    NEW_CONNECTION_ID = 0x18
    RETIRE_CONNECTION_ID = 0x19
    PATH_CHALLENGE = 0x1A
    PATH_RESPONSE = 0x1B
    CONNECTION_CLOSE = 0x1C
    HANDSHAKE_DONE = 0x1E


_NOT_ELICITING = frozenset({0, 2, 3, 0x1C, 0x1D})
"""Frames that ask for no acknowledgement (RFC 9002, 2)."""
_MOST_RANGES = 4096  # a datagram has room for some hundred. Not measured
_ONE_NUMBER = {
    FrameType.MAX_DATA.value: 1, FrameType.MAX_STREAM_DATA.value: 2, 0x12: 1, 0x13: 1, FrameType.DATA_BLOCKED.value: 1,
    FrameType.STREAM_DATA_BLOCKED.value: 2, 0x16: 1, 0x17: 1, FrameType.RETIRE_CONNECTION_ID.value: 1,
    FrameType.RESET_STREAM.value: 3, FrameType.STOP_SENDING.value: 2,
}  # fmt: skip
"""Frames that are some numbers of variable length, and how many."""
_DATAGRAM, _DATAGRAM_WITH_LENGTH, _ACK_FREQUENCY, _IMMEDIATE_ACK = 0x30, 0x31, 0xAF, 0x1F
"""Frames of RFC 9221, and of draft-ietf-quic-ack-frequency."""


@dataclass(slots=True)
class Frames:
    """The frames of many packets, as columns; each entry begins with the number (row) of its packet."""

    streams: list[tuple[int, int, int, int, bool]] = field(default_factory=list)
    """Row, stream, offset, length, fin."""
    acks: list[tuple[int, int, int]] = field(default_factory=list)
    """Row, largest number, delay as sent (not scaled)."""
    ranges: list[tuple[int, int, int]] = field(default_factory=list)
    """Row, smallest and largest number of a range that is acknowledged."""
    numbers: list[Window] = field(default_factory=list)
    """Row, type, first number, last number: MAX_DATA, MAX_STREAM_DATA, DATA_BLOCKED, RESET_STREAM, …."""
    cids: list[tuple[int, bytes]] = field(default_factory=list)
    closes: list[tuple[int, int, int]] = field(default_factory=list)
    """Row, type, error code."""
    crypto: list[tuple[int, int, bytes]] = field(default_factory=list)
    others: list[tuple[int, int]] = field(default_factory=list)
    """Row, type of a frame without content of interest: PING, HANDSHAKE_DONE, PATH_CHALLENGE, …."""


class PayloadRead(NamedTuple):
    """How much of a packet's payload was read."""

    is_valid: bool
    """Whether all bytes that are there are frames; False: the payload is not what the key opens."""
    is_complete: bool
    """Whether its last frame was captured."""
    is_eliciting: bool


_BAD = PayloadRead(is_valid=False, is_complete=False, is_eliciting=False)


def read_frames(row: int, data: bytes, size: int, into: Frames) -> PayloadRead:
    """Read the frames of a packet into columns.

    Parameters
    ----------
    row : int
    data : bytes
        The captured part of its payload.
    size : int
        Number of bytes of the whole payload.
    into : Frames
    """
    at, have, eliciting = 0, len(data), False
    if not size:
        return _BAD  # RFC 9000, 12.4: a packet has at least one frame
    while at < have:
        kind = data[at]
        if kind == 0:
            rest = data[at:].lstrip(b"\0")
            at = have - len(rest)
            continue
        eliciting = eliciting or kind not in _NOT_ELICITING
        try:
            if 8 <= kind <= 15:
                at = _stream(row, kind, data, at + 1, size, into)
            elif kind in (2, 3):
                at = _ack(row, kind, data, at + 1, into)
            else:
                at = _other(row, data, at, size, into)
        except IndexError:
            at = size + 1 if have < size else -1
        except ValueError:
            at = -1
        if at < 0 or (at > size and have >= size):
            _forget(row, into)
            return _BAD
    return PayloadRead(is_valid=True, is_complete=have >= size and at <= size, is_eliciting=eliciting)


def _forget(row: int, into: Frames) -> None:
    """Remove what was read of a packet whose payload turned out to be no frames."""
    for name in ("streams", "acks", "ranges", "numbers", "cids", "closes", "crypto", "others"):
        column = getattr(into, name)
        while column and column[-1][0] == row:
            column.pop()


def _stream(row: int, kind: int, data: bytes, at: int, size: int, into: Frames) -> int:
    stream, at = varint(data, at)
    offset = 0
    if kind & 4:
        offset, at = varint(data, at)
    length = size - at
    if kind & 2:
        length, at = varint(data, at)
    if at + length > size or length < 0:
        raise ValueError(length)
    into.streams.append((row, stream, offset, length, bool(kind & 1)))
    return at + length


def _ack(row: int, kind: int, data: bytes, at: int, into: Frames) -> int:
    largest, at = varint(data, at)
    delay, at = varint(data, at)
    count, at = varint(data, at)
    first, at = varint(data, at)
    low = largest - first
    if low < 0 or count > _MOST_RANGES:
        raise ValueError(low)
    into.acks.append((row, largest, delay))
    into.ranges.append((row, low, largest))
    for _ in range(count):
        gap, at = varint(data, at)
        length, at = varint(data, at)
        high = low - gap - 2
        low = high - length
        if low < 0:
            raise ValueError(low)
        into.ranges.append((row, low, high))
    if kind == FrameType.ACK_ECN:
        for _ in range(3):
            _, at = varint(data, at)
    return at


def _other(row: int, data: bytes, at: int, size: int, into: Frames) -> int:
    kind, at = varint(data, at)
    if kind in _ONE_NUMBER:
        first, at = varint(data, at)
        last = first
        for _ in range(_ONE_NUMBER[kind] - 1):
            last, at = varint(data, at)
        into.numbers.append((row, kind, first, last))
        return at
    reader = _READERS.get(kind)
    if reader is None:
        raise ValueError(kind)
    return reader(row, kind, data, at, size, into)


def _crypto(row: int, kind: int, data: bytes, at: int, size: int, into: Frames) -> int:
    del kind
    offset, at = varint(data, at)
    length, at = varint(data, at)
    if at + length > size:
        raise ValueError(length)
    into.crypto.append((row, offset, data[at : at + length]))
    return at + length


def _bare(row: int, kind: int, data: bytes, at: int, size: int, into: Frames) -> int:
    del data, size
    into.others.append((row, kind))
    return at


def _eight(row: int, kind: int, data: bytes, at: int, size: int, into: Frames) -> int:
    return _bare(row, kind, data, at, size, into) + 8


def _token(row: int, kind: int, data: bytes, at: int, size: int, into: Frames) -> int:
    length, at = varint(data, at)
    return _bare(row, kind, data, at, size, into) + length


def _new_cid(row: int, kind: int, data: bytes, at: int, size: int, into: Frames) -> int:
    del kind, size
    _, at = varint(data, at)
    _, at = varint(data, at)
    cid, at = _cid(data, at)
    if not 1 <= len(cid) <= MOST_CID_BYTES:
        raise ValueError(len(cid))
    into.cids.append((row, cid))
    return at + 16


def _close(row: int, kind: int, data: bytes, at: int, size: int, into: Frames) -> int:
    del size
    code, at = varint(data, at)
    if kind == FrameType.CONNECTION_CLOSE:
        _, at = varint(data, at)
    into.closes.append((row, kind, code))
    length, at = varint(data, at)
    return at + length


def _datagram(row: int, kind: int, data: bytes, at: int, size: int, into: Frames) -> int:
    into.others.append((row, _DATAGRAM))
    return size if kind == _DATAGRAM else _token(row, kind, data, at, size, Frames())


def _frequency(row: int, kind: int, data: bytes, at: int, size: int, into: Frames) -> int:
    for _ in range(4):
        _, at = varint(data, at)
    return _bare(row, kind, data, at, size, into)


_READERS: dict[int, Callable[[int, int, bytes, int, int, Frames], int]] = {
    FrameType.PING.value: _bare,
    FrameType.CRYPTO.value: _crypto,
    FrameType.NEW_TOKEN.value: _token,
    FrameType.NEW_CONNECTION_ID.value: _new_cid,
    FrameType.PATH_CHALLENGE.value: _eight,
    FrameType.PATH_RESPONSE.value: _eight,
    FrameType.CONNECTION_CLOSE.value: _close,
    0x1D: _close,
    FrameType.HANDSHAKE_DONE.value: _bare,
    _IMMEDIATE_ACK: _bare,
    _DATAGRAM: _datagram,
    _DATAGRAM_WITH_LENGTH: _datagram,
    _ACK_FREQUENCY: _frequency,
}
