"""Lets the link's slots pass at their time, and carries packets between it and the hosts' devices.

The clock of a run: link time is real time since the start, times the speed. Slots have absolute deadlines.
A late one is made up for at once, so that lateness makes a short burst, but never another rate.
"""

from __future__ import annotations

import gc
import os
import select
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from multitracer.channel.gsm_link import SIDES
from multitracer.testbed.privileges import take_real_time_priority
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from multitracer.channel.gsm_link import GsmLink, Side
    from multitracer.protocols.link_events import LinkEvent

_LARGEST_PACKET = 65_535


class LinkClock:
    """Link time, and what the kernel's clocks read then; begins when it is made.

    Parameters
    ----------
    speed : float
        Link seconds in a second.
    """

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._start_ns = time.monotonic_ns()
        self._ahead_ns = time.time_ns() - self._start_ns

    def now_ns(self) -> int:
        """Read both clocks; return the link time."""
        now_ns = time.monotonic_ns()
        self._ahead_ns = time.time_ns() - now_ns  # follows steps of CLOCK_REALTIME, as a capture does
        return round((now_ns - self._start_ns) * self._speed)

    def monotonic_ns(self, link_ns: int) -> int:
        """Return CLOCK_MONOTONIC at a link time."""
        return self._start_ns + round(link_ns / self._speed)

    def realtime_ns(self, link_ns: int) -> int:
        """Return CLOCK_REALTIME at a link time, as the clocks stood to each other when last read."""
        return self.monotonic_ns(link_ns) + self._ahead_ns


class Observer(Protocol):
    """Who watches a run; times are link times."""

    def packet(self, side: Side, data: bytes, *, now_ns: int, outgoing: bool) -> None:
        """Take a packet that passes a host's device."""

    def link_event(self, side: Side, event: LinkEvent) -> None:
        """Take an event of one end of the link."""


class Driver:
    """The loop.

    Parameters
    ----------
    link : GsmLink
    clock : LinkClock
    tuns : mapping
        The device of each host, not blocking.
    observer : Observer
    pulls : bool
        Whether a packet stays in the device's own queue until the link has room for it. If not, it is taken
        at once and waits in the link's interface queue, where it is dropped without the host's knowledge.
    """

    def __init__(
        self, link: GsmLink, clock: LinkClock, tuns: Mapping[Side, int], observer: Observer, *, pulls: bool
    ) -> None:
        self.link = link
        self._clock = clock
        self._tuns = tuns
        self._observer = observer
        self._pulls = pulls
        self._slot_ns = link.config.slot_ns
        self.latest_slot_ns = 0
        """By how much a slot was late at most, in link time."""

    def run(self, is_over: Callable[[int], bool], *, wake: int) -> None:
        """Go on until `is_over`, asked after every slot with the link time, says so.

        Parameters
        ----------
        is_over : callable
        wake : int
            Descriptor that becomes readable when there is no time to lose.
        """
        watched = [wake] if self._pulls else [wake, *self._tuns.values()]
        sides = {descriptor: side for side, descriptor in self._tuns.items()}
        while True:
            due_ns = (self.link.slot + 1) * self._slot_ns
            wait_ns = self._clock.monotonic_ns(due_ns) - time.monotonic_ns()
            # select, because epoll and asyncio round up to milliseconds
            readable, _, _ = select.select(watched, [], [], max(0, wait_ns) / NS_PER_S)
            now_ns = self._clock.now_ns()
            for descriptor in readable:
                if descriptor == wake:
                    watched.remove(wake)
                else:
                    self._take_packets(sides[descriptor], now_ns)
            if now_ns >= due_ns:
                self._catch_up(now_ns)
                if is_over(now_ns):
                    return
            self._tell_events()

    def _catch_up(self, now_ns: int) -> None:
        """Let all slots pass whose time has come."""
        self.latest_slot_ns = max(self.latest_slot_ns, now_ns - (self.link.slot + 1) * self._slot_ns)
        while (self.link.slot + 1) * self._slot_ns <= now_ns:
            if self._pulls:
                self._pull_packets(now_ns)
            for delivery in self.link.tick(now_ns):
                self._observer.packet(delivery.side, delivery.packet, now_ns=now_ns, outgoing=False)
                with suppress(OSError):  # a damaged packet that is none any more: the kernel refuses it
                    os.write(self._tuns[delivery.side], delivery.packet)

    def _take_packets(self, side: Side, now_ns: int) -> None:
        while self._take_packet(side, now_ns):
            pass

    def _pull_packets(self, now_ns: int) -> None:
        for side in SIDES:
            end = self.link.ends[side]
            if end.wants_packet and not len(end.queue):
                self._take_packet(side, now_ns)

    def _take_packet(self, side: Side, now_ns: int) -> bool:
        try:
            data = os.read(self._tuns[side], _LARGEST_PACKET)
        except BlockingIOError:
            return False
        self._observer.packet(side, data, now_ns=now_ns, outgoing=True)
        self.link.send(side, data, now_ns=now_ns)
        return True

    def _tell_events(self) -> None:
        for side in SIDES:
            for event in self.link.events(side):
                self._observer.link_event(side, event)

    def finish(self) -> None:
        """Tell what is still to be told after the last slot."""
        self.link.count_idle()
        self._tell_events()


@contextmanager
def punctual() -> Iterator[bool]:
    """Make this thread as punctual as may be while the context lasts.

    Yields
    ------
    bool
        Whether it has a real-time priority.
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
