"""How a process that holds large tables gets its memory: so that what it frees goes back to the system."""

from __future__ import annotations

import ctypes
import os
import sys

# options of mallopt(3)
_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
_OWN_MAPPING_BYTES = 1 << 20
"""From here on memory is mapped alone, and unmapped when it is freed. By default glibc raises this to what
was freed last, up to 32 MB, and keeps twice as much. Not before a capture was read: to map and unmap its
blocks takes twice the system's time."""


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
