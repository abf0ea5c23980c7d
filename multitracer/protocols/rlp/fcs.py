"""The 24-bit frame check sequence of RLP (3GPP TS 24.022, clause 4.4).

Polynomial 0xBBA1B5 in MSB-first notation, here reflected (0xAD85DD) because the least significant bit of
each octet is sent first; register preset to ones, result complemented, least significant octet first.
"""

from __future__ import annotations

from functools import cache, lru_cache

_REFLECTED = 0xAD85DD  # TS 24.022, 4.4: the generator polynomial of degree 24, bits reversed
_ONES = 0xFFFFFF  # 24 bits: the register's start
RESIDUE = 0xF36E49
"""What `fcs24` yields over a whole frame, FCS included, when the frame is intact."""


def _byte_remainder(octet: int) -> int:
    for _ in range(8):
        octet = (octet >> 1) ^ _REFLECTED if octet & 1 else octet >> 1
    return octet


_STEP = tuple(_byte_remainder(octet) for octet in range(256))  # CRC by octets


@cache
def position_tables(length: int) -> tuple[int, tuple[tuple[int, ...], ...]]:
    """Return the FCS of `length` zero octets and, per position, what each octet value adds to it.

    The code is linear, so an octet's share depends only on its value and its distance from the end. One
    look-up and one exclusive-or per octet is half the work of the usual shift register in Python.
    """
    tables = [_STEP]
    for _ in range(length - 1):
        tables.append(tuple((share >> 8) ^ _STEP[share & 0xFF] for share in tables[-1]))
    register = _ONES
    for _ in range(length):
        register = (register >> 8) ^ _STEP[register & 0xFF]
    return register ^ _ONES, tuple(reversed(tables))


_LENGTHS = frozenset((27, 69, 39, 141, 285))
"""Octets before the FCS of frames of 240 and 576 bits, and of those of studies; others have no tables."""


@lru_cache(maxsize=256)  # of frames on the air: each is sealed, and checked when it arrives
def fcs24(data: bytes) -> int:
    """Return the FCS of `data` (header and information), 24 bits.

    Examples
    --------
    >>> hex(fcs24(bytes.fromhex("f91f") + bytes(25)))  # SABM
    '0xf3b263'
    """
    if len(data) in _LENGTHS:
        fcs, tables = position_tables(len(data))
        for table, octet in zip(tables, data, strict=True):
            fcs ^= table[octet]
        return fcs
    register = _ONES
    for octet in data:
        register = (register >> 8) ^ _STEP[(register ^ octet) & 0xFF]
    return register ^ _ONES
