"""Serial cables made of pseudo-terminals: what is written at one end is read at the other."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import tty
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Cable:
    """Two serial ports joined by a wire that may do something to the octets."""

    def __init__(self, wire: Callable[[bytes], bytes] = lambda octets: octets) -> None:
        self._wire = wire
        pairs = [os.openpty() for _ in range(2)]
        self._inner = [inner for inner, _ in pairs]
        self._outer = [outer for _, outer in pairs]  # kept open, so that no reader sees a hang-up
        for outer in self._outer:
            tty.setraw(outer)
        for inner in self._inner:
            os.set_blocking(inner, False)
        self.near, self.far = (os.ttyname(outer) for outer in self._outer)

    def carry(self, wait_s: float = 0.0) -> None:
        """Move what waits at either end."""
        readable, _, _ = select.select(self._inner, [], [], wait_s)
        for number in readable:
            with contextlib.suppress(BlockingIOError):
                octets = self._wire(os.read(number, 4096))
                os.write(self._inner[1 - self._inner.index(number)], octets)

    def close(self) -> None:
        for number in (*self._inner, *self._outer):
            os.close(number)


@contextlib.contextmanager
def cables(count: int, wire: Callable[[bytes], bytes] = lambda octets: octets) -> Iterator[list[Cable]]:
    """Lay cables; they are removed whatever happens."""
    made = [Cable(wire) for _ in range(count)]
    try:
        yield made
    finally:
        for each in made:
            each.close()


@contextlib.contextmanager
def live_cable() -> Iterator[Cable]:
    """Lay a cable that carries by itself, for two programs."""
    with cables(1) as (cable,):
        over = threading.Event()

        def carry() -> None:
            while not over.is_set():
                cable.carry(0.05)

        carrier = threading.Thread(target=carry)
        carrier.start()
        try:
            yield cable
        finally:
            over.set()
            carrier.join()
