"""The bytes that every transfer sends, in virtual time and by real kernels."""

from __future__ import annotations

_LINE = b"%07d the quick brown fox jumps over the lazy dog and runs away\n"


def payload(begin: int, end: int) -> bytes:
    """Return bytes `[begin, end)` of the stream that every transfer sends: numbered lines of text.

    Text, because PPP escapes control characters; numbered, so that each byte's place can be checked.
    """
    length = len(_LINE % 0)
    first, last = begin // length, -(-end // length)
    lines = b"".join(_LINE % number for number in range(first, last))
    return lines[begin - first * length : end - first * length]
