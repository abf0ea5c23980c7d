"""How the memory of blocks that are read one after the other is used again."""

from __future__ import annotations

_THRESHOLD_BYTES = 31 << 20
"""Just below the largest that glibc adapts to."""


def let_malloc_keep_memory() -> None:
    """Make glibc reuse the temporary arrays of each block instead of returning them to the kernel.

    When a mapped chunk is freed, glibc raises the size from which on it maps and trims to that of the chunk
    (mallopt(3), M_MMAP_THRESHOLD). Untouched, it costs nothing; without it a third of the time goes into
    page faults.
    """
    bytes(_THRESHOLD_BYTES)
