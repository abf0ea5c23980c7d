"""Virtual time for a measurement: a link, two hosts, and whoever waits; it jumps from event to event.

Times are those of the link, ns since it came into being; the hosts' clocks are made from them. A run is
determined by its scenario, its seed and what the client does.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Protocol

from multitracer.channel.links import link_of
from multitracer.channel.shared.hosts import SIDES, one_of_two
from multitracer.protocols.tcp import State
from multitracer.simulator.loop import EventLoop
from multitracer.simulator.record import host_clock
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from multitracer.channel.shared.packet_link import RadioReading, Side
    from multitracer.protocols.link_events import LinkEvent
    from multitracer.protocols.tcp import Packet
    from multitracer.scenario.model import Scenario
    from multitracer.simulator.clock import HostClock
    from multitracer.simulator.host import Host, Socket


SERVER_PORT = 5100
"""Where the server listens, on the fixed host."""


class Watcher(Protocol):
    """Who writes down what happens; times are those of the link."""

    def reading(self, reading: RadioReading, *, now_ns: int) -> None:
        """Take what the modem says, each second."""

    def packet(self, side: Side, data: bytes, *, now_ns: int) -> None:
        """Take a packet that passes a host's interface, either way."""

    def state(self, side: Side, socket: Socket, *, now_ns: int) -> None:
        """Take notice that a TCP socket's variables may have changed."""

    def link_event(self, side: Side, event: LinkEvent) -> None:
        """Take an event of one end of the link."""


class RigWorld:
    """The link, its two ends, and the time; also the `World` of hosts with a TCP of their own.

    Parameters
    ----------
    scenario : Scenario
        The link, and what befalls it.
    seed : int
        Of all chance.
    watchers : sequence of Watcher
        Who writes it down.
    """

    def __init__(self, scenario: Scenario, *, seed: int, watchers: Sequence[Watcher] = ()) -> None:
        self.link = link_of(scenario.link, seed=seed, script=scenario.events)
        self.clocks: dict[Side, HostClock] = {side: host_clock(scenario, side) for side in SIDES}
        self._loop = EventLoop()
        self._luck = Random(f"{seed} hosts")  # noqa: S311  # a run is to be repeated
        self._watchers = watchers
        self._receivers: dict[Side, Callable[[bytes], None]] = {}
        self._each_second()

    def clock(self, side: Side) -> Callable[[], int]:
        """Return a host's clock: a function that returns ns since 1970."""
        clock = self.clocks[side]
        return lambda: clock.realtime_ns(self._loop.now_ns)

    def random_bytes(self, count: int) -> bytes:
        """Return octets that the seed determines."""
        return self._luck.randbytes(count)

    def attach(self, side: Side, receive: Callable[[bytes], None]) -> None:
        """Give what comes out of the link at a side to `receive`."""
        self._receivers[side] = receive

    def wait(self, until_ns: int, done: Callable[[], bool]) -> bool:
        """Let time pass until something is done, at the longest until `until_ns`; return whether it is."""
        while not done():
            due_ns = self._next_ns()
            if due_ns is None or due_ns > until_ns:
                self._pass(max(until_ns, self.now_ns))
                return done()
            self._pass(due_ns)
        return True

    def put(self, side: Side, data: bytes) -> bool:
        """Give a packet to the link; False if the interface refused it."""
        for watcher in self._watchers:
            watcher.packet(side, data, now_ns=self.now_ns)
        return self.link.send(side, data, now_ns=self.now_ns)

    def _next_ns(self) -> int | None:
        times = self._loop.next_ns, self.link.next_ns
        return min((time for time in times if time is not None), default=None)

    def _pass(self, now_ns: int) -> None:
        """Let everything up to `now_ns` happen, of which nothing is due before."""
        self._loop.now_ns = now_ns
        for host, packet in self.link.advance(now_ns):
            side = one_of_two(host)
            for watcher in self._watchers:
                watcher.packet(side, packet, now_ns=now_ns)
            self._receivers[side](packet)
        self._loop.run(until_ns=now_ns, stop=_never)

    def _each_second(self) -> None:
        """Read the radio as a modem collector does, and collect the link's events."""
        reading = self.link.reading(self.now_ns)
        for watcher in self._watchers:
            watcher.reading(reading, now_ns=self.now_ns)
        self.drain()
        self._loop.at(self.now_ns + NS_PER_S, self._each_second)

    def drain(self) -> None:
        """Hand the link's events to the watchers."""
        for side in SIDES:
            for event in self.link.events(side):
                for watcher in self._watchers:
                    watcher.link_event(side, event)

    # --- what hosts with a TCP of their own live in ---

    @property
    def now_ns(self) -> int:
        """Time of the link."""
        return self._loop.now_ns

    def at(self, time_ns: int, call: Callable[[], None]) -> None:
        """Call something later."""
        self._loop.at(time_ns, call)

    def initial_sequence_number(self) -> int:
        """Return the next random number of 32 bits."""
        return self._luck.getrandbits(32)

    def transmit(self, host: Host, data: bytes) -> bool:
        """Offer a host's packet to the link."""
        return self.put(host.name, data)

    def saw_packet(self, host: Host, packet: Packet, data: bytes, *, outgoing: bool) -> None:
        """Do nothing: packets are seen at the link."""

    def saw_state(self, host: Host, socket: Socket) -> None:
        """Tell the watchers of a socket, and forget it when it is closed."""
        for watcher in self._watchers:
            watcher.state(host.name, socket, now_ns=self.now_ns)
        if socket.connection.state is State.CLOSED:
            host.forget(socket)


def _never() -> bool:
    return False
