"""Packet protection of QUIC: keys from secrets, header masks and payloads of many packets at a time.

RFC 9001 (version 1) and RFC 9369 (version 2). The payload of AES-GCM is AES in counter mode: a packet that a capture
cut is read by it without its tag. Only a whole packet proves a key. What encrypts is the package `cryptography`
(the extra `quic`); it is imported when a packet is first opened. Keys have no text: they are in no `repr`.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
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
