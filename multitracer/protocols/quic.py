"""QUIC, versions 1 and 2: packet protection, long headers, the TLS handshake inside, frames (RFC 9000, 9001, 9369).

All input is hostile: whatever is cut or impossible ends what is read of it, and nothing raises. The payload of AES-GCM
is AES in counter mode: a packet that a capture cut is read by it without its tag. Only a whole packet proves a key.
What encrypts is the package `cryptography` (the extra `quic`); it is imported when a packet is first opened. Keys have
no text: they are in no `repr`.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Window = tuple[int, int, int, int]
    from numpy.typing import NDArray

    from multitracer.tables import Numbers

    Bytes = NDArray[np.uint8]


VERSION_1, VERSION_2 = 1, 0x6B3343CF  # RFC 9000, 15; RFC 9369, 3.1
SAMPLE_BYTES, TAG_BYTES, IV_BYTES, MASK_BYTES = 16, 16, 12, 5  # RFC 9001, 5.3 and 5.4
_BLOCK = 16  # bytes of a block of AES (FIPS 197)
_SALTS = {
    VERSION_1: bytes.fromhex("38762cf7f55934b34d179ae6a4c80cadccbb7f0a"),  # RFC 9001, 5.2
    VERSION_2: bytes.fromhex("0dede3def700a6db819381be6e269dcbf9bd2ed9"),  # RFC 9369, 3.3.1
}
_PREFIXES = {VERSION_1: "quic", VERSION_2: "quicv2"}
_MOST_BLOCKS = 1 << 18
"""Blocks of keystream that are made at a time: 4 MiB."""


class Suite(NamedTuple):
    """A cipher suite of TLS 1.3 that QUIC uses (RFC 8446, B.4)."""

    name: str
    key_bytes: int
    hash_name: str
    is_chacha: bool = False


AES_128 = Suite("TLS_AES_128_GCM_SHA256", 16, "sha256")  # RFC 8446, B.4
SUITES = {
    0x1301: AES_128,
    0x1302: Suite("TLS_AES_256_GCM_SHA384", 32, "sha384"),
    0x1303: Suite("TLS_CHACHA20_POLY1305_SHA256", 32, "sha256", is_chacha=True),
}


@cache
def can_open() -> bool:
    """Return whether the package that decrypts is installed."""
    return find_spec("cryptography") is not None


@dataclass(frozen=True, slots=True)
class PacketKeys:
    """The keys of one direction of a packet number space, until its next key update."""

    suite: Suite
    version: int
    secret: bytes = field(repr=False)
    key: bytes = field(repr=False)
    iv: bytes = field(repr=False)
    hp: bytes = field(repr=False)
    """Key of the header protection, which a key update does not change (RFC 9001, 6)."""

    @classmethod
    def of(cls, secret: bytes, suite: Suite, version: int, hp: bytes | None = None) -> PacketKeys:
        """Return the keys that a secret of TLS gives (RFC 9001, 5.1)."""
        prefix = _PREFIXES[version]
        key = expanded(secret, f"{prefix} key", suite.key_bytes, suite.hash_name)
        iv = expanded(secret, f"{prefix} iv", IV_BYTES, suite.hash_name)
        if hp is None:
            hp = expanded(secret, f"{prefix} hp", suite.key_bytes, suite.hash_name)
        return cls(suite, version, secret, key, iv, hp)

    def updated(self) -> PacketKeys:
        """Return the keys behind the next key update (RFC 9001, 6.1)."""
        name = self.suite.hash_name
        secret = expanded(self.secret, f"{_PREFIXES[self.version]} ku", len(self.secret), name)
        return PacketKeys.of(secret, self.suite, self.version, self.hp)

    def masks(self, samples: Bytes) -> Bytes:
        """Return the masks of header protection (RFC 9001, 5.4): uint8, shape (n, 5), for samples (n, 16)."""
        if self.suite.is_chacha:
            streams = [_chacha(self.hp, sample.tobytes(), MASK_BYTES) for sample in samples]
            return np.frombuffer(b"".join(streams), np.uint8).reshape(-1, MASK_BYTES)
        return _ecb(self.hp, samples)[:, :MASK_BYTES]

    def keystream(self, numbers: Numbers, length: int) -> Bytes:
        """Return the begin of the keystream of packets with these numbers: uint8, shape (n, length)."""
        nonces = _nonces(self.iv, numbers)
        if self.suite.is_chacha:  # RFC 8439, 2.8: block 0 is the key of the tag
            first = (1).to_bytes(4, "little")
            streams = [_chacha(self.key, first + nonce.tobytes(), length) for nonce in nonces]
            return np.frombuffer(b"".join(streams), np.uint8).reshape(-1, length)
        blocks = -(-length // _BLOCK)
        counters = np.zeros((len(nonces), blocks, _BLOCK), np.uint8)
        counters[:, :, :IV_BYTES] = nonces[:, None, :]
        place = np.arange(2, 2 + blocks, dtype=">u4")  # NIST SP 800-38D, 7.1: 1 is the counter of the tag
        counters[:, :, IV_BYTES:] = place.view(np.uint8).reshape(1, blocks, 4)
        return _ecb(self.key, counters.reshape(-1, _BLOCK)).reshape(len(nonces), -1)[:, :length]

    def opened(self, number: int, header: bytes, sealed: bytes) -> bytes | None:
        """Return the payload of a whole packet; None if its tag does not prove it."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415  # an extra

        nonce = (int.from_bytes(self.iv, "big") ^ number).to_bytes(IV_BYTES, "big")
        try:
            return bytes(_aead(self.suite.is_chacha, self.key).decrypt(nonce, sealed, header))
        except InvalidTag:
            return None


def initial_keys(destination: bytes, version: int) -> tuple[PacketKeys, PacketKeys]:
    """Return the keys of a client's and a server's Initial packets (RFC 9001, 5.2).

    `destination` is the destination connection id of the first Initial packet, or of the first one behind a Retry.
    """
    secret = hmac.digest(_SALTS[version], destination, "sha256")
    client, server = (expanded(secret, f"{side} in", 32, "sha256") for side in ("client", "server"))
    return PacketKeys.of(client, AES_128, version), PacketKeys.of(server, AES_128, version)


def expanded(secret: bytes, label: str, length: int, hash_name: str) -> bytes:
    """Return HKDF-Expand-Label without context (RFC 8446, 7.1)."""
    name = b"tls13 " + label.encode()
    info = length.to_bytes(2, "big") + bytes([len(name)]) + name + b"\0"
    out, block, size = b"", b"", hashlib.new(hash_name).digest_size
    for number in range(1, -(-length // size) + 1):
        block = hmac.digest(secret, block + info + bytes([number]), hash_name)
        out += block
    return out[:length]


def _nonces(iv: bytes, numbers: Numbers) -> Bytes:
    nonces = np.tile(np.frombuffer(iv, np.uint8), (len(numbers), 1))
    nonces[:, -8:] ^= numbers.astype(">u8").view(np.uint8).reshape(-1, 8)
    return nonces


def _ecb(key: bytes, blocks: Bytes) -> Bytes:
    """Return blocks encrypted one by one: uint8, shape (n, 16); each input differs, so nothing repeats."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415  # an extra

    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305  # a block of counter mode
    parts = [
        np.frombuffer(encryptor.update(blocks[at : at + _MOST_BLOCKS].tobytes()), np.uint8)
        for at in range(0, len(blocks), _MOST_BLOCKS)
    ]
    return np.concatenate([np.empty(0, np.uint8), *parts]).reshape(-1, _BLOCK)


def _chacha(key: bytes, counter_and_nonce: bytes, length: int) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms  # noqa: PLC0415  # an extra

    return bytes(Cipher(algorithms.ChaCha20(key, counter_and_nonce), None).encryptor().update(bytes(length)))


class _Aead:
    """The authenticated encryption of some keys, which are made once."""

    def __init__(self, key: bytes, *, is_chacha: bool) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305  # noqa: PLC0415  # an extra

        self.decrypt = (ChaCha20Poly1305 if is_chacha else AESGCM)(key).decrypt


_kept: list[tuple[bytes, _Aead]] = []


def _aead(is_chacha: bool, key: bytes) -> _Aead:
    """Return the authenticated encryption of a key; of the last few it is kept."""
    for known, aead in _kept:
        if known == key:
            return aead
    aead = _Aead(key, is_chacha=is_chacha)
    _kept.insert(0, (key, aead))
    del _kept[8:]
    return aead


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
