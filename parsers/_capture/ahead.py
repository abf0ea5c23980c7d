"""Reads a file ahead: while one block of it is decoded, another thread already reads and finds the next."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from parsers._packets.records import Records

_ALONE = 2
"""Blocks without a thread: most captures have no more, and start as quickly as without it."""


def ahead(blocks: Iterable[Records]) -> Generator[Records]:
    """Yield blocks in their order, each while the next one is being read.

    Close it before the file: only then does the thread read no more. It is not for pipes, whose next block
    may not come for a long time.

    Raises
    ------
    MultiTracerError
        As `blocks` does, after all blocks before.
    """
    remaining = iter(blocks)
    yield from islice(remaining, _ALONE)
    block = next(remaining, None)
    if block is None:
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, "reads ahead") as thread:
        while block is not None:
            following = thread.submit(next, remaining, None)
            yield block
            block = following.result()
