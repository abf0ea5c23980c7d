"""Whether a capture is too large to lie in memory as a whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SHARE = 0.5
"""Of the memory, from which size of the files on a capture is analysed as a stream: an analysis took 0.6 to
1.4 times the size of captures without payload (docs/benchmarks.md)."""
_CGROUP = Path("/sys/fs/cgroup/memory.max")


def memory_bytes() -> int | None:
    """Return how much memory there is for this process; None if the system does not say."""
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None
    try:
        return min(there, int(_CGROUP.read_text("ascii")))
    except (OSError, ValueError):  # no such limit
        return there


def stored_bytes(paths: Iterable[str]) -> int:
    """Return the size of the files among some paths."""
    return sum(Path(path).stat().st_size for path in paths if Path(path).is_file())


def is_too_large(paths: Iterable[str]) -> bool:
    """Return whether files are larger than the share of memory up to which they are analysed as a whole."""
    there = memory_bytes()
    return there is not None and stored_bytes(paths) > SHARE * there
