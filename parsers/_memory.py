"""How the memory of blocks that are read one after the other is used again."""

from __future__ import annotations

from functools import cache

_THRESHOLD_BYTES = 31 << 20
"""Just below the largest that glibc adapts to."""


@cache
def let_malloc_keep_memory() -> None:
    """Make glibc reuse the temporary arrays of each block instead of returning them to the kernel, once.

    When a mapped chunk is freed, glibc raises its thresholds for mapping and trimming to the size of the
    chunk (mallopt(3), M_MMAP_THRESHOLD). So one large chunk is mapped and freed, without being written, which
    costs nothing. Without it a third of the time goes into page faults.
    """
    bytes(_THRESHOLD_BYTES)
