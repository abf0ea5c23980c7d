"""The bytes that every transfer sends, in virtual time and by real kernels."""

from __future__ import annotations

from functools import lru_cache

_LINE = b"%07d the quick brown fox jumps over the lazy dog and runs away\n"
_BLOCK_LINES = 1024  # not measured: 64 KB at once, a window
_BLOCK = _LINE * _BLOCK_LINES
_BLOCK_BYTES = _BLOCK_LINES * len(_LINE % 0)


def payload(begin: int, end: int) -> bytes:
    """Return bytes `[begin, end)` of the stream that every transfer sends: numbered lines of text.

    Text, because PPP escapes control characters; numbered, so that each byte's place can be checked.
    """
    first, last = begin // _BLOCK_BYTES, -(-end // _BLOCK_BYTES)
    blocks = _block(first) if last == first + 1 else b"".join(map(_block, range(first, last)))
    return blocks[begin - first * _BLOCK_BYTES : end - first * _BLOCK_BYTES]


@lru_cache(maxsize=32)  # the bytes from where reading is to where writing is: a send buffer of 1 MB is 16
def _block(number: int) -> bytes:
    return _BLOCK % tuple(range(number * _BLOCK_LINES, (number + 1) * _BLOCK_LINES))
