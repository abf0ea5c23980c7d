"""What two threads ask for at once is measured once, also from Python 3.12 on."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from multitracer.diagnosis.once import kept


class _Slow:
    """Counts how often its only fact is measured."""

    def __init__(self) -> None:
        self.measured = 0

    @kept
    def fact(self) -> int:
        self.measured += 1
        time.sleep(0.05)  # so that the other thread asks meanwhile
        return 42


def test_the_second_of_two_threads_waits() -> None:
    slow, both = _Slow(), Barrier(2)

    def ask() -> int:
        both.wait()
        return slow.fact

    with ThreadPoolExecutor(2) as threads:
        facts = [each.result() for each in [threads.submit(ask), threads.submit(ask)]]
    assert facts == [42, 42]
    assert slow.measured == 1
