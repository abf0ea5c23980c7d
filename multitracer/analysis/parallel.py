"""Work on long columns, two pieces at a time: NumPy lets go of the interpreter while it computes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    T = TypeVar("T")

_FEWEST_ROWS = 1 << 17
"""Below, a column is done before a second thread has begun. Not measured."""


def in_parallel(jobs: Sequence[Callable[[], T]], *, rows: int) -> list[T]:
    """Return what the jobs give, in their order; those on many rows are done two at a time."""
    if rows < _FEWEST_ROWS:
        return [job() for job in jobs]
    with ThreadPoolExecutor(2) as threads:
        return [each.result() for each in [threads.submit(job) for job in jobs]]
