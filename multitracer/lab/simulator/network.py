"""One modelled network in virtual time: an event loop, a link, the hosts at its ends, clocks, and observers.

Everything that runs in it (the traffic of a scenario, a measurement) starts from here; the network only
carries packets and advances time. It is determined by scenario, seed and the calls that are made.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.links import link_of
from multitracer.lab.channel.shared.packet_link import FIXED, HostName, host_address
from multitracer.lab.simulator.host import SimulatedHost
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[], None]
    from collections.abc import Callable, Sequence

    from multitracer.lab.channel.gsm import OnAir
    from multitracer.lab.channel.shared.packet_link import RadioReading
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.simulator.host import SimulatedSocket
    from multitracer.lab.tcp.packet import TcpPacket
    from multitracer.protocols.link_events import LinkEvent

# Virtual time: one queue of events, run in order of time and, at one time, of scheduling.


class EventLoop:
    """Calls functions at their virtual times; `now_ns` goes from event to event, and no clock is read."""

    def __init__(self) -> None:
        self.now_ns = 0
        """Time since the start of the run, ns."""
        self._events: list[tuple[int, bool, int, Call]] = []
        self._scheduled = 0

    @property
    def next_ns(self) -> int | None:
        """Time of the next event in ns; None if no event is scheduled."""
        return self._events[0][0] if self._events else None

    def at(self, time_ns: int, call: Call, *, first: bool = False) -> None:
        """Schedule `call` for `time_ns`, which must not be in the past.

        With `first`, it runs before the other calls of that time.
        """
        if time_ns < self.now_ns:
            raise LocalProtocolError(
                f"event loop: an event cannot be scheduled at {time_ns} ns, "
                f"because the simulated time is already {self.now_ns} ns"
            )
        heapq.heappush(self._events, (time_ns, not first, self._scheduled, call))
        self._scheduled += 1

    def run(self, *, until_ns: int, stop: Callable[[], bool]) -> None:
        """Run events up to `until_ns`, or until `stop` returns true; `stop` is called before each event."""
        while self._events and self._events[0][0] <= until_ns and not stop():
            self.now_ns, _, _, call = heapq.heappop(self._events)
            call()


# The clocks of the two hosts, made from virtual time.


EPOCH_NS = 946_684_800 * NS_PER_S
"""Start of every run in virtual time: 2000-01-01T00:00:00Z.

It is a constant, so that the same seed writes the same bytes."""


@dataclass(frozen=True, slots=True)
class SimulatedClock:
    """CLOCK_MONOTONIC and CLOCK_REALTIME of one host.

    Parameters
    ----------
    booted_ns : int
        CLOCK_MONOTONIC at the start of the run.
    offset_ns : int
        Error of CLOCK_REALTIME at the start; positive if it is ahead.
    skew_ppm : float
        Skew of both clocks; positive if they run fast.
    """

    booted_ns: int
    offset_ns: int = 0
    skew_ppm: float = 0.0

    def _elapsed_ns(self, now_ns: int) -> int:
        return now_ns + round(now_ns * self.skew_ppm / 1e6)

    def monotonic_ns(self, now_ns: int) -> int:
        """Return CLOCK_MONOTONIC in ns at a time of the run."""
        return self.booted_ns + (self._elapsed_ns(now_ns) if self.skew_ppm else now_ns)

    def realtime_ns(self, now_ns: int) -> int:
        """Return CLOCK_REALTIME in ns at a time of the run."""
        elapsed_ns = self._elapsed_ns(now_ns) if self.skew_ppm else now_ns
        return EPOCH_NS + self.offset_ns + elapsed_ns

    def reading(self, now_ns: int) -> dict[str, int]:
        """Return the fields of a clock log: CLOCK_REALTIME, with CLOCK_MONOTONIC before and after."""
        monotonic_ns = self.monotonic_ns(now_ns)
        return {
            "monotonic_before_ns": monotonic_ns,
            "realtime_ns": self.realtime_ns(now_ns),
            "monotonic_after_ns": monotonic_ns,
        }


# Who watches a run in virtual time; times are those of the link, ns since the run began.


class NetworkObserver:
    """Base class of observers: a method is called for each event; here no method does anything."""

    def packet(self, host: HostName, packet: TcpPacket | None, data: bytes, *, now_ns: int, outgoing: bool) -> None:
        """Process a packet at a host's interface; `packet` is None if it holds no TCP segment."""

    def state(self, host: HostName, socket: SimulatedSocket, *, now_ns: int) -> None:
        """Process a possible change of a socket's variables."""

    def link_events(self, host: HostName, events: list[LinkEvent]) -> None:
        """Process events of one end of the link, in order."""

    def on_air(self, frame: OnAir) -> None:
        """Process a frame on the radio channel, and whether it was lost."""

    def reading(self, host: HostName, reading: RadioReading, *, now_ns: int) -> None:
        """Process the radio values that a modem reports, once per second if the run requests it."""


def watching(observers: Sequence[NetworkObserver], what: str) -> list[Callable[..., object]]:
    """Return the methods named `what` of those observers that override it.

    Most methods are called for every packet, so calls that do nothing are avoided.
    """
    nothing = getattr(NetworkObserver, what)
    return [getattr(each, what) for each in observers if getattr(type(each), what) is not nothing]


_BOOTED_NS, _FIXED_BOOTED_NS = 1_000 * NS_PER_S, 86_400 * NS_PER_S
"""CLOCK_MONOTONIC of a mobile and of the fixed host at the start: two arbitrary, different numbers."""
_MOST_UNDER_WAY = 4096  # not measured: more than queues hold, 6 MB; those that were lost are in it, too


def host_clock(scenario: Scenario, host: HostName) -> SimulatedClock:
    """Return the clocks of a host; the clock error of the scenario applies to the fixed host."""
    if host != FIXED:
        return SimulatedClock(_BOOTED_NS)
    offset_ns = round(scenario.clock.offset_s * NS_PER_S)
    return SimulatedClock(_FIXED_BOOTED_NS, offset_ns, scenario.clock.skew_ppm)


class VirtualNetwork:
    """The link of a scenario with its hosts, in virtual time.

    Parameters
    ----------
    scenario : Scenario
        The link, its script, and the TCP of the hosts.
    seed : int
        Seed of all random numbers.
    observers : sequence of NetworkObserver
        Observers of packets, sockets and link events.
    link_first : bool
        Order of events at one time: the link's events before those of the hosts, or all in the order in
        which they were scheduled.
    """

    def __init__(
        self, scenario: Scenario, *, seed: int, observers: Sequence[NetworkObserver] = (), link_first: bool = False
    ) -> None:
        self._sees_packet = watching(observers, "packet")
        self._sees_state = watching(observers, "state")
        self._sees_events = watching(observers, "link_events")
        self._sees_frame = watching(observers, "on_air")
        self._sees_reading = watching(observers, "reading")
        self._link_first = link_first
        self._loop = EventLoop()
        self.seed = seed
        self._luck = Random(f"{seed} hosts")  # a run is to be repeated
        self._due_ns: int | None = None
        self._under_way: dict[bytes, TcpPacket] = {}
        """Packets that hosts sent, by their octets: a packet that arrives unchanged is not parsed again."""
        on_air = self._on_air if self._sees_frame else None
        self.link = link_of(scenario.link, seed=seed, script=scenario.events, on_air=on_air)
        self.clocks = {name: host_clock(scenario, name) for name in self.link.hosts}
        self.hosts = {
            name: SimulatedHost(name, address=host_address(name), profile=scenario.profile(name), network=self)
            for name in self.link.hosts
        }
        self._link_aware = [host for host in self.hosts.values() if scenario.profile(host.name).resume_when_up]
        """Hosts that learn when the link comes back."""
        self._was_up = self.link.is_up
        self.moved: Callable[[], None] = _nothing
        """Called whenever the link has advanced and its packets are delivered."""

    def clock(self, host: HostName) -> Callable[[], int]:
        """Return the wall clock of a host: a function that returns ns since 1970."""
        clock = self.clocks[host]
        return lambda: clock.realtime_ns(self._loop.now_ns)

    # --- time ---

    @property
    def now_ns(self) -> int:
        """Link time: ns since the start."""
        return self._loop.now_ns

    def at(self, time_ns: int, call: Callable[[], None]) -> None:
        """Schedule the function `call` for a link time."""
        self._loop.at(time_ns, call)

    def run(self, *, until_ns: int, stop: Callable[[], bool]) -> None:
        """Run events up to `until_ns`, or until `stop` returns true; `stop` is called before each event."""
        if self.link.is_up:
            self.advance()
        else:
            self._wake()
        self._loop.run(until_ns=until_ns, stop=stop)

    def wait(self, until_ns: int, done: Callable[[], bool]) -> bool:
        """Run events until `done` returns true, at most until `until_ns`.

        `done` is called after each time's events.

        Returns
        -------
        bool
            The last result of `done`.
        """
        self._wake()
        while not done():
            due_ns = self._loop.next_ns
            if due_ns is None or due_ns > until_ns:
                self._loop.now_ns = max(until_ns, self.now_ns)
                self.advance()
                return done()
            self._loop.run(until_ns=due_ns, stop=_never)
        return True

    def read_radio_each_second(self, mobiles: int = 1) -> None:
        """Pass the radio values of the first `mobiles` modems to the observers, once per second."""
        self.advance()
        for host in self.link.hosts[:mobiles]:
            reading = self.link.reading(self.now_ns, host=host)
            for see in self._sees_reading:
                see(host, reading, now_ns=self.now_ns)
        self._loop.at(self.now_ns + NS_PER_S, lambda: self.read_radio_each_second(mobiles))

    # --- the hosts' world ---

    def initial_sequence_number(self) -> int:
        """Return the next random number of 32 bits."""
        return self._luck.getrandbits(32)

    def random_bytes(self, count: int) -> bytes:
        """Return random octets that the seed determines."""
        return self._luck.randbytes(count)

    def transmit(self, host: SimulatedHost, data: bytes) -> bool:
        """Offer a host's packet to the link; return False if the interface refuses it."""
        taken = self.link.send(host.name, data, now_ns=self._loop.now_ns)
        self._wake()
        return taken

    def saw_packet(self, host: SimulatedHost, packet: TcpPacket | None, data: bytes, *, outgoing: bool) -> None:
        """Report a packet at a host's interface to the observers."""
        now_ns = self._loop.now_ns
        if outgoing and packet is not None:
            self._under_way[data] = packet
            if len(self._under_way) > _MOST_UNDER_WAY:
                self._under_way.clear()
        for see in self._sees_packet:
            see(host.name, packet, data, now_ns=now_ns, outgoing=outgoing)

    def saw_state(self, host: SimulatedHost, socket: SimulatedSocket) -> None:
        """Report to the observers that a socket's variables may have changed."""
        now_ns = self._loop.now_ns
        for see in self._sees_state:
            see(host.name, socket, now_ns=now_ns)

    # --- the link ---

    def _wake(self) -> None:
        """Schedule `advance` at the time of the link's next event."""
        next_ns = self.link.next_ns
        if next_ns is not None and (self._due_ns is None or next_ns < self._due_ns):
            self._due_ns = next_ns
            self._loop.at(next_ns, self._ring, first=self._link_first)

    def _ring(self) -> None:
        if self._due_ns == self._loop.now_ns:  # else another time was set meanwhile
            self.advance()

    def advance(self) -> None:
        """Run the link's due events, deliver the packets that came out, and report the link's events."""
        self._due_ns = None
        for host, packet in self.link.advance(self._loop.now_ns):
            self.hosts[host].deliver(packet, self._under_way.pop(packet, None))
        if self._link_aware:
            self._notify_link_up()
        self.drain()
        self.moved()
        self._wake()

    def _notify_link_up(self) -> None:
        """Tell hosts that the link is up, if it was not when it last advanced."""
        was_up, self._was_up = self._was_up, self.link.is_up
        if self._was_up and not was_up:
            for host in self._link_aware:
                host.link_came_up()

    def drain(self) -> None:
        """Pass the link's new events to the observers."""
        for host in self.hosts:
            if events := self.link.events(host):
                for see in self._sees_events:
                    see(host, events)

    def _on_air(self, frame: OnAir) -> None:
        for see in self._sees_frame:
            see(frame)


def _never() -> bool:
    return False


def _nothing() -> None:
    return
