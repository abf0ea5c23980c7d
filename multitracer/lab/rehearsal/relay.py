"""Moves IP packets between two TUN devices, each way through a model of a link, at absolute deadlines."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections import deque
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_TUNSETIFF = 0x4004_54CA
_IFF_TUN_NO_PI = 0x1001
_LARGEST_PACKET = 65_536
_PATIENCE_NS = 1_000_000_000


class Direction(Protocol):
    """One direction of a link; reads no clock."""

    def accept(self, packet: bytes, *, now_ns: int) -> str | None:
        """Take a packet; return why it is dropped, None if it is not."""

    def next_ns(self) -> int | None:
        """Return when the next packet arrives at the other side."""

    def arrived(self, now_ns: int) -> list[bytes]:
        """Return the packets that have arrived by `now_ns`."""


class Pipe:
    """What the directions of our links share: a queue before the line, and packets on their way."""

    def __init__(self) -> None:
        self._queue: deque[tuple[int, int]] = deque()
        """When each packet leaves the queue, and its length."""
        self._queued_bytes = 0
        self._flying: deque[tuple[int, bytes]] = deque()
        self._free_ns = 0

    def _leave_queue(self, now_ns: int) -> None:
        while self._queue and self._queue[0][0] <= now_ns:
            self._queued_bytes -= self._queue.popleft()[1]

    def _join_queue(self, until_ns: int, length_bytes: int) -> None:
        self._queue.append((until_ns, length_bytes))
        self._queued_bytes += length_bytes

    def next_ns(self) -> int | None:
        """Return when the next packet arrives at the other side."""
        return self._flying[0][0] if self._flying else None

    def arrived(self, now_ns: int) -> list[bytes]:
        """Return the packets that have arrived by `now_ns`."""
        out = []
        while self._flying and self._flying[0][0] <= now_ns:
            out.append(self._flying.popleft()[1])
        return out


def open_tun(name: str) -> int:
    """Make a TUN device and return its file descriptor; the device may move to another namespace."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN_NO_PI))
    return descriptor


class Relay:
    """The loop between two devices.

    Parameters
    ----------
    ways : mapping of int to Direction
        Descriptor of a device -> what its packets pass; of two devices.
    wait : callable
        Waits until an instant of CLOCK_MONOTONIC or for one of the descriptors; false to end.
    on_drop : callable
        Called with descriptor, reason and packet when one is dropped.
    zero_ns : int, optional
        The instant that the directions call 0; default the first packet.
    """

    def __init__(
        self,
        ways: Mapping[int, Direction],
        wait: Callable[[int, list[int]], bool],
        on_drop: Callable[[int, str, bytes], None],
        *,
        zero_ns: int | None = None,
    ) -> None:
        first, second = ways
        self._ways = ways
        self._other = {first: second, second: first}
        self._wait = wait
        self._on_drop = on_drop
        self._zero_ns = zero_ns

    def run(self) -> None:
        """Carry packets until `wait` says that it is over."""
        while self._wait(self._due_ns(), list(self._ways)):
            now_ns = time.monotonic_ns()
            for descriptor in self._ways:
                self._read(descriptor, now_ns)
            self._deliver(now_ns)

    def _due_ns(self) -> int:
        due = [ns for way in self._ways.values() if (ns := way.next_ns()) is not None]
        if not due or self._zero_ns is None:
            return time.monotonic_ns() + _PATIENCE_NS
        return min(due) + self._zero_ns

    def _read(self, descriptor: int, now_ns: int) -> None:
        while True:
            try:
                packet = os.read(descriptor, _LARGEST_PACKET)
            except BlockingIOError:
                return
            if self._zero_ns is None:
                self._zero_ns = now_ns
            reason = self._ways[descriptor].accept(packet, now_ns=now_ns - self._zero_ns)
            if reason is not None:
                self._on_drop(descriptor, reason, packet)

    def _deliver(self, now_ns: int) -> None:
        if self._zero_ns is None:
            return
        for descriptor, way in self._ways.items():
            for packet in way.arrived(now_ns - self._zero_ns):
                os.write(self._other[descriptor], packet)
