"""Memory allocation of a process with large tables."""

from __future__ import annotations

import ctypes
import os
import sys

# options of mallopt(3)
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_OWN_MAPPING_BYTES = 1 << 20
"""Size from which a block of memory is mapped separately, and unmapped when it is freed. By default glibc
raises this to the size freed last, up to 32 MB, and retains twice as much. Not set before a capture was read:
mapping and unmapping its blocks takes twice the system time."""
_LARGEST_MAPPING_BYTES = 32 << 20
"""The highest threshold that glibc takes (DEFAULT_MMAP_THRESHOLD_MAX, mallopt(3))."""
_NEVER = (1 << 31) - 1  # the most that fits in an int


def keep_memory() -> None:
    """Let all threads reuse freed memory; call it before they allocate any.

    A diagnosis makes hundreds of columns of some megabytes, one after the other: by default each is mapped
    again, and the kernel has to clear its pages.
    """
    _set(_ARENA_MAX, 1)
    _set(_MMAP_THRESHOLD, _LARGEST_MAPPING_BYTES)
    _set(_TRIM_THRESHOLD, _NEVER)


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
