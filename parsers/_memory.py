"""How much memory reading may take, and how the memory of blocks that are read one after the other is used again."""

from __future__ import annotations

import mmap
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

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


# --- the limit ---

_SHARE = 0.8
"""Share of the free memory that a command may use by default; the rest is for what others start. Not measured."""
_CGROUP = Path("/sys/fs/cgroup")
_given_bytes: list[int] = []
"""The limits that hold, the innermost last."""


@contextmanager
def limit_memory(given_bytes: int | None) -> Iterator[None]:
    """During the `with` block, make an allocation fail (`MemoryError`) that exceeds a limit.

    So the kernel does not end the process, or another one, without a word.

    Parameters
    ----------
    given_bytes : int, optional
        Memory for data of the process, in bytes; by default four fifths of what is free, beside what it has.
    """
    data_bytes, free_bytes = _data_bytes(), free_memory_bytes()
    try:
        import resource  # noqa: PLC0415  # Windows has none
    except ModuleNotFoundError:
        data_bytes = None
    if data_bytes is None or free_bytes is None:  # the system does not say, or cannot limit
        yield
        return
    limit = given_bytes or data_bytes + int(_SHARE * free_bytes)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    lowest = min([limit, *(each for each in (soft, hard) if each != resource.RLIM_INFINITY)])
    resource.setrlimit(resource.RLIMIT_DATA, (lowest, hard))
    _given_bytes.append(lowest)
    try:
        yield
    finally:
        _given_bytes.pop()
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def usable_memory_bytes() -> int | None:
    """Return the memory that reading may use: the limit that holds, else four fifths of what is free; None: unknown."""
    if _given_bytes:
        return _given_bytes[-1]
    free_bytes = free_memory_bytes()
    return None if free_bytes is None else int(_SHARE * free_bytes)


def free_memory_bytes() -> int | None:
    """Return the memory that can be used without swapping, in bytes: of the machine, and of the control group."""
    free = None
    with suppress(OSError, ValueError, IndexError):
        text = Path("/proc/meminfo").read_text("ascii")
        free = int(text.partition("MemAvailable:")[2].split(None, 1)[0]) << 10
    with suppress(OSError, ValueError):  # without a limit the file is absent, or says "max"
        most = int((_CGROUP / "memory.max").read_text("ascii"))
        used = int((_CGROUP / "memory.current").read_text("ascii"))
        free = max(most - used, 0) if free is None else min(free, max(most - used, 0))
    return free


def _data_bytes() -> int | None:
    """Return what RLIMIT_DATA counts of this process, in bytes."""
    with suppress(OSError, IndexError, ValueError):
        return int(Path("/proc/self/statm").read_text("ascii").split()[5]) * mmap.PAGESIZE
    return None
