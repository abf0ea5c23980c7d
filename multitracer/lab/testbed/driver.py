"""Runs a link's events at their times, and moves packets between the link and the hosts' devices.

Link time is real time since the start, times the speed. Events (of a data call: its slots) have absolute
deadlines. A late event runs at once, so lateness makes a short burst, but does not change the rate.
"""

from __future__ import annotations

import gc
import os
import select
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from multitracer.lab.channel.gsm import GsmLink
from multitracer.lab.channel.shared.packet_link import SIDES, one_of_two
from multitracer.lab.testbed.privileges import take_real_time_priority
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from multitracer.lab.channel.shared.packet_link import LinkDelivery, PacketLink, Side
    from multitracer.protocols.link_events import LinkEvent

_LARGEST_PACKET = 65_535
_LOOK_EVERY_NS = NS_PER_S // 10
"""Link time after which `is_over` is called even if nothing happened on the link."""


class LinkClock:
    """Converts between link time and the kernel's clocks; link time 0 is when the object is made.

    Parameters
    ----------
    speed : float
        Link seconds per second.
    """

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._start_ns = time.monotonic_ns()
        self._ahead_ns = time.time_ns() - self._start_ns

    def now_ns(self) -> int:
        """Read CLOCK_MONOTONIC and CLOCK_REALTIME; return the link time in ns."""
        now_ns = time.monotonic_ns()
        self._ahead_ns = time.time_ns() - now_ns  # follows steps of CLOCK_REALTIME, as a capture does
        return round((now_ns - self._start_ns) * self._speed)

    def monotonic_ns(self, link_ns: int) -> int:
        """Return CLOCK_MONOTONIC in ns at a link time."""
        return self._start_ns + round(link_ns / self._speed)

    def realtime_ns(self, link_ns: int) -> int:
        """Return CLOCK_REALTIME in ns at a link time, by the clock difference at the last `now_ns`."""
        return self.monotonic_ns(link_ns) + self._ahead_ns


class RunObserver(Protocol):
    """Interface of an observer of a run; its times are link times."""

    def packet(self, side: Side, data: bytes, *, now_ns: int, outgoing: bool) -> None:
        """Record a packet that passes a host's device."""

    def link_event(self, side: Side, event: LinkEvent) -> None:
        """Record an event of one end of the link."""


class Driver:
    """The loop of a run; a packet leaves its device at once and waits in the link's interface queue.

    The host does not learn of drops in that queue.
    """

    def __init__(self, link: PacketLink, clock: LinkClock, tuns: Mapping[Side, int], observer: RunObserver) -> None:
        self._link = link
        self._clock = clock
        self._tuns = tuns
        self._observer = observer
        self._look_ns = 0
        self.latest_ns = 0
        """Maximum lateness of an event, in link time."""

    def run(self, is_over: Callable[[int], bool], *, wake: int) -> None:
        """Run until `is_over`, called with the link time after every event, returns true.

        Parameters
        ----------
        is_over : callable
        wake : int
            Descriptor that becomes readable when the run must be checked at once.
        """
        watched = [wake, *self._watched()]
        sides = {descriptor: side for side, descriptor in self._tuns.items()}
        while True:
            due_ns = self._due_ns()
            wait_ns = self._clock.monotonic_ns(due_ns) - time.monotonic_ns()
            # select, because epoll and asyncio round up to milliseconds
            readable, _, _ = select.select(watched, [], [], max(0, wait_ns) / NS_PER_S)
            now_ns = self._clock.now_ns()
            is_due = now_ns >= due_ns
            if is_due:
                self._catch_up(now_ns)  # first, because a link's time never goes back
            for descriptor in readable:
                if descriptor == wake:
                    watched.remove(wake)
                else:
                    self._take_packets(sides[descriptor], now_ns)
            if is_due and is_over(now_ns):
                return
            self.tell_events()

    def _watched(self) -> list[int]:
        """Return the descriptors of the devices whose packets are read as soon as they arrive."""
        return list(self._tuns.values())

    def _due_ns(self) -> int:
        next_ns = self._link.next_ns
        return self._look_ns if next_ns is None else min(next_ns, self._look_ns)

    def _catch_up(self, now_ns: int) -> None:
        """Run all events of the link that are due."""
        self._look_ns = now_ns + _LOOK_EVERY_NS
        next_ns = self._link.next_ns
        if next_ns is not None:
            self.latest_ns = max(self.latest_ns, now_ns - next_ns)
        for delivery in self._advance(now_ns):
            side = one_of_two(delivery.host)
            self._observer.packet(side, delivery.packet, now_ns=now_ns, outgoing=False)
            with suppress(OSError):  # a damaged packet that is none any more: the kernel refuses it
                os.write(self._tuns[side], delivery.packet)

    def _advance(self, now_ns: int) -> Iterable[LinkDelivery]:
        return self._link.advance(now_ns)

    def _take_packets(self, side: Side, now_ns: int) -> None:
        while self._take_packet(side, now_ns):
            pass

    def _take_packet(self, side: Side, now_ns: int) -> bool:
        try:
            data = os.read(self._tuns[side], _LARGEST_PACKET)
        except BlockingIOError:
            return False
        self._observer.packet(side, data, now_ns=now_ns, outgoing=True)
        self._link.send(side, data, now_ns=now_ns)
        return True

    def tell_events(self) -> None:
        """Pass the new events of both sides of the link to the observer."""
        for side in SIDES:
            for event in self._link.events(side):
                self._observer.link_event(side, event)


class PullingDriver(Driver):
    """The loop for a data call whose hosts must learn of drops: packets wait in the device's queue.

    A packet leaves that queue when the link can accept it.
    """

    def __init__(self, link: GsmLink, clock: LinkClock, tuns: Mapping[Side, int], observer: RunObserver) -> None:
        super().__init__(link, clock, tuns, observer)
        self._call = link

    def _watched(self) -> list[int]:
        return []

    def _advance(self, now_ns: int) -> Iterable[LinkDelivery]:
        while self._call.next_ns <= now_ns:
            self._pull_packets(now_ns)
            yield from self._call.tick(now_ns)

    def _pull_packets(self, now_ns: int) -> None:
        for side, end in self._call.ends.items():
            if end.wants_packet and not len(end.queue):
                self._take_packet(side, now_ns)


def why_dropped(link: PacketLink) -> str:
    """Return why a link has ended permanently: a dropped data call, or the end of a trace."""
    return "the call was dropped" if isinstance(link, GsmLink) else "the link's trace has ended"


@contextmanager
def punctual() -> Iterator[bool]:
    """Reduce the scheduling delay of this thread as far as possible during the `with` block.

    Yields
    ------
    bool
        Whether the thread has a real-time priority.
    """
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    is_real_time = False
    with suppress(PermissionError):
        take_real_time_priority()
        is_real_time = True
    gc.freeze()
    gc.disable()
    try:
        yield is_real_time
    finally:
        gc.enable()
        gc.unfreeze()
        if is_real_time:
            os.sched_setscheduler(0, *before)
