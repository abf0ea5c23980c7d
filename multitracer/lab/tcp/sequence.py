"""Sequence numbers: 32 bits on the wire, unbounded integers inside.

The cores count the units of one direction of a connection from 0 (the SYN) without wrapping; only the
codec's border knows the initial sequence number and the modulus (RFC 9293, section 3.4).
"""

from __future__ import annotations

MODULUS = 1 << 32  # RFC 9293, 3.4


def unwrap(number: int, *, near: int) -> int:
    """Return the integer congruent to `number` modulo 2^32 that is closest to `near`.

    It may be negative when `near` is small: a number from before the initial one.
    """
    distance = (number - near) % MODULUS
    return near + distance - (MODULUS if distance >= MODULUS // 2 else 0)
