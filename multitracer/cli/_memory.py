"""How a process that holds large tables gets its memory, and what becomes of what it frees."""

from __future__ import annotations

import ctypes
import os
import sys

# options of mallopt(3)
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_OWN_MAPPING_BYTES = 1 << 20
"""From here on memory is mapped alone, and unmapped when it is freed. By default glibc raises this to what
was freed last, up to 32 MB, and keeps twice as much. Not before a capture was read: to map and unmap its
blocks takes twice the system's time."""
_MOST_IN_HEAP_BYTES = 32 << 20
"""As large as glibc takes it, and larger than a column of a million rows."""
_NEVER_BYTES = 1 << 30


def keep_memory() -> None:
    """Have what is freed used again, whatever thread freed it: to touch new pages takes the system's time.

    Before threads take memory.
    """
    _set(_ARENA_MAX, 1)
    _set(_MMAP_THRESHOLD, _MOST_IN_HEAP_BYTES)
    _set(_TRIM_THRESHOLD, _NEVER_BYTES)


def share_memory() -> None:
    """Have all threads take memory from one place: before they do."""
    os.environ.setdefault(
        "ARROW_DEFAULT_MEMORY_POOL", "system"
    )  # of 20 MB that were freed mimalloc keeps most
    _set(_ARENA_MAX, 1)


def return_memory() -> None:
    """Have what is freed from now on, if it is large, go back to the system."""
    _set(_MMAP_THRESHOLD, _OWN_MAPPING_BYTES)


def _set(option: int, value: int) -> None:
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):  # musl has none
        libc.mallopt(option, value)
