"""Options of Multipath TCP (RFC 8684; version 0: RFC 6824) that say which subflows belong to one connection.

The two hosts exchange a key each when the first subflow opens (MP_CAPABLE). A further subflow names the connection by a
token of the key of the host that it is opened to (MP_JOIN).
"""

from __future__ import annotations

from hashlib import sha1, sha256
from typing import NamedTuple

from multitracer.captured import OptionKind

_CAPABLE, _JOIN = 0, 1
"""Subtypes (RFC 8684, section 3)."""
_KEY_BYTES, _TOKEN_BYTES = 8, 4  # RFC 8684, sections 3.1 and 3.2
_FIXED_BYTES = 20
"""TCP header without options."""


class MultipathCapable(NamedTuple):
    """MP_CAPABLE: the keys in it, of its sender and, if it has both, of its receiver."""

    version: int
    keys: tuple[int, ...]


class MultipathJoin(NamedTuple):
    """MP_JOIN of a SYN: the token of the connection, by the key of the host that receives it."""

    token: int


def token_of(key: int, version: int) -> int:
    """Return the token of a key: the most significant 32 bits of its hash (RFC 8684, section 3.2)."""
    data = key.to_bytes(_KEY_BYTES, "big")
    digest = sha256(data).digest() if version else sha1(data, usedforsecurity=False).digest()
    return int.from_bytes(digest[:_TOKEN_BYTES], "big")


def option_of(segment: bytes) -> MultipathCapable | MultipathJoin | None:
    """Return the MP_CAPABLE, or the MP_JOIN of a SYN, in a TCP segment; None without one.

    Parameters
    ----------
    segment : bytes
        From the TCP header on; options that are cut off are left out.
    """
    if len(segment) < _FIXED_BYTES:
        return None
    end = min((segment[12] >> 4) * 4, len(segment))
    at = _FIXED_BYTES
    while at + 1 < end and segment[at] != OptionKind.END:
        length = 1 if segment[at] == OptionKind.NOP else segment[at + 1]
        if length < 1 or at + length > end:
            return None
        if segment[at] == OptionKind.MPTCP and length > 2:
            return _decoded(segment[at : at + length])
        at += max(length, 1)
    return None


def _decoded(option: bytes) -> MultipathCapable | MultipathJoin | None:
    subtype, length = option[2] >> 4, len(option)
    if subtype == _CAPABLE and length >= 4:
        keys = [option[i : i + _KEY_BYTES] for i in range(4, min(length, 4 + 2 * _KEY_BYTES), _KEY_BYTES)]
        complete = (int.from_bytes(key, "big") for key in keys if len(key) == _KEY_BYTES)
        return MultipathCapable(option[2] & 0x0F, tuple(complete))
    if subtype == _JOIN and length == 12:  # the SYN; its answer has 16 bytes and no token
        return MultipathJoin(int.from_bytes(option[4:8], "big"))
    return None
