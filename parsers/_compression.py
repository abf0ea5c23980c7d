"""What a file is packed with, by its first bytes; `_expand.py` unpacks it."""

from __future__ import annotations

from typing import Protocol

_MAGICS = (("gzip", b"\x1f\x8b\x08"), ("zstd", b"\x28\xb5\x2f\xfd"), ("xz", b"\xfd7zXZ\0"), ("bzip2", b"BZh"))
ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
"""Bytes 2 to 4 of a skippable frame; the first is 0x50 to 0x5f."""


class Source(Protocol):
    """A source of bytes."""

    def readinto(self, view: memoryview, /) -> int:
        """Fill some of `view`; return how many bytes, 0 only at the end."""


def compression_of(head: bytes) -> str | None:
    """Return the name of the compression that `head` begins with, or None."""
    if head[1:4] == ZSTD_SKIPPABLE and head[0] & 0xF0 == 0x50:
        return "zstd"
    return next((name for name, magic in _MAGICS if head.startswith(magic)), None)
