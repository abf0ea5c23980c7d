"""Work on long columns, two pieces at a time: NumPy lets go of the interpreter while it computes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    T = TypeVar("T")

FEWEST_ROWS = 1 << 17
"""Below, a column is done before a second thread has begun. Not measured."""


def begin(job: Callable[[], object]) -> None:
    """Begin a job on a second core; who asks for what it finds waits for it, or does it if it failed."""
    thread = ThreadPoolExecutor(1)
    thread.submit(job)
    thread.shutdown(wait=False)


@contextmanager
def meanwhile(rows: int, job: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """Do a job on many rows beside what is done in the context, which gets what returns its answer.

    On few rows the job is done when its answer is asked for.
    """
    if rows < FEWEST_ROWS:
        yield job
        return
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(job).result


def in_parallel(jobs: Sequence[Callable[[], T]], *, rows: int) -> list[T]:
    """Return what the jobs give, in their order; those on many rows are done two at a time."""
    if rows < FEWEST_ROWS:
        return [job() for job in jobs]
    with ThreadPoolExecutor(2) as threads:
        return [each.result() for each in [threads.submit(job) for job in jobs]]
