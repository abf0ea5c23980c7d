"""Work on long columns in two threads: NumPy releases the interpreter lock while it computes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    T = TypeVar("T")

FEWEST_ROWS = 1 << 17
"""Minimum number of rows for a second thread: shorter columns are done before it starts. Not measured."""


def begin(job: Callable[[], object]) -> None:
    """Start a job in another thread and do not wait for it; the job must cache its result itself.

    Code that needs the result later calls the same cached function: it waits for the job, or computes the
    result if the job failed.
    """
    from concurrent.futures import ThreadPoolExecutor

    thread = ThreadPoolExecutor(1)
    thread.submit(job)
    thread.shutdown(wait=False)


@contextmanager
def meanwhile(rows: int, job: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """Run a job in a thread, in parallel with the body of the `with` statement.

    The context manager yields a function that returns the job's result. With few rows, the job runs when this
    function is called.
    """
    if rows < FEWEST_ROWS:
        yield job
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(job).result


def in_parallel(jobs: Sequence[Callable[[], T]], *, rows: int) -> list[T]:
    """Return the results of the jobs, in their order; with many rows two jobs run at a time."""
    if rows < FEWEST_ROWS:
        return [job() for job in jobs]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as threads:
        return [each.result() for each in [threads.submit(job) for job in jobs]]
