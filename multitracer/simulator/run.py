"""One run in virtual time: two hosts, the link between them, traffic, and observers.

Everything happens on one event loop. A run is determined by its scenario and its seed alone.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Protocol

from multitracer.channel.gsm.config import LinkConfig
from multitracer.channel.gsm.link import GsmLink
from multitracer.channel.links import link_of
from multitracer.channel.shared.hosts import FAR, SIDES, HostName, Side, host_address
from multitracer.protocols.tcp import Endpoint
from multitracer.scenario.session_folder import FIRST_MOBILE_PORT, FIRST_PORT
from multitracer.scenario.summary import LinkMeter, Summary, TransferMeter
from multitracer.simulator.application import BulkSender, Reader
from multitracer.simulator.host import Host
from multitracer.simulator.loop import EventLoop
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from multitracer.channel.gsm.link import OnAir
    from multitracer.channel.shared.packet_link import PacketLink
    from multitracer.protocols.link_events import LinkEvent
    from multitracer.protocols.tcp import Packet
    from multitracer.scenario.model import Scenario, Traffic
    from multitracer.simulator.application import Application
    from multitracer.simulator.host import Socket

ADDRESSES: dict[Side, bytes] = {side: host_address(side) for side in SIDES}
_PATIENCE_NS = 10 * NS_PER_S
"""How long a run goes on after its call was dropped."""


class Observer(Protocol):
    """Observes a run; each method is called when its event happens, with times since the start of the run."""

    def packet(self, side: Side, packet: Packet, data: bytes, *, now_ns: int, outgoing: bool) -> None:
        """Note a packet at a host's interface."""

    def state(self, side: Side, socket: Socket, *, now_ns: int) -> None:
        """Note that a socket's variables may have changed."""

    def link_event(self, side: Side, event: LinkEvent) -> None:
        """Note an event of one end of the link."""

    def on_air(self, frame: OnAir) -> None:
        """Note whether a frame was lost."""


class VirtualRun:
    """A run of one scenario; it is also the `World` of its hosts.

    Parameters
    ----------
    scenario : Scenario
        What happens.
    seed : int, optional
        Another one than the scenario's.
    observers : sequence of Observer
        Who watches.
    """

    def __init__(
        self, scenario: Scenario, *, seed: int | None = None, observers: Sequence[Observer] = ()
    ) -> None:
        self.scenario = scenario
        self.seed = scenario.seed if seed is None else seed
        self._observers = observers
        self._loop = EventLoop()
        self._luck = Random(f"{self.seed} hosts")
        self.link = self._link()
        profiles = {"mobile": scenario.mobile, "fixed": scenario.fixed}
        self.hosts: dict[HostName, Host] = {
            side: Host(side, address=ADDRESSES[side], profile=profiles[side], world=self) for side in SIDES
        }
        self._has_started = False
        self._to_start = len(scenario.traffic)
        self._dropped_ns: int | None = None
        self._due_ns: int | None = None
        self._meet_main_connection()

    def _link(self) -> PacketLink:
        """Return the scenario's link; a data call reports its frames to the observers."""
        config, events = self.scenario.link, self.scenario.events
        if isinstance(config, LinkConfig) and self._observers:
            return GsmLink(config, seed=self.seed, script=events, on_air=self._on_air)
        return link_of(config, seed=self.seed, script=events)

    def _meet_main_connection(self) -> None:
        """Create the meters of the first traffic; its sender is "the data sender"."""
        self._sender = self.scenario.sender
        ends: dict[Side, tuple[bytes, int]] = {
            "mobile": (ADDRESSES["mobile"], FIRST_MOBILE_PORT),
            "fixed": (ADDRESSES["fixed"], FIRST_PORT),
        }
        self.link_meter = LinkMeter(self._sender)
        self.transfer_meter = TransferMeter(ends[self._sender], ends[FAR[self._sender]])

    def run(self) -> Summary:
        """Run to the end; return the summary."""
        self._listen()
        self._advance() if self.link.is_up else self._wake()
        self._loop.run(until_ns=int(self.scenario.limit_s * NS_PER_S), stop=self._is_over)
        if isinstance(self.link, GsmLink):
            self.link.count_idle()
        self._drain_events()
        return self._summary()

    # --- the hosts' world ---

    @property
    def now_ns(self) -> int:
        """Time since the start of the run."""
        return self._loop.now_ns

    def at(self, time_ns: int, call: Callable[[], None]) -> None:
        """Call a function later."""
        self._loop.at(time_ns, call)

    def initial_sequence_number(self) -> int:
        """Return the next random number of 32 bits."""
        return self._luck.getrandbits(32)

    def transmit(self, host: Host, data: bytes) -> bool:
        """Offer a packet to the link."""
        taken = self.link.send(host.name, data, now_ns=self.now_ns)
        self._wake()
        return taken

    def saw_packet(self, host: Host, packet: Packet, data: bytes, *, outgoing: bool) -> None:
        """Report a packet at a host's interface to meters and observers."""
        if host.name == self._sender:
            self.transfer_meter.at_sender(packet, now_ns=self.now_ns)
        elif not outgoing:
            self.transfer_meter.at_receiver(packet, now_ns=self.now_ns)
        for observer in self._observers:
            observer.packet(host.name, packet, data, now_ns=self.now_ns, outgoing=outgoing)

    def saw_state(self, host: Host, socket: Socket) -> None:
        """Report to observers that a socket may have changed."""
        for observer in self._observers:
            observer.state(host.name, socket, now_ns=self.now_ns)

    # --- the link ---

    def _wake(self) -> None:
        """Schedule the link's next event."""
        next_ns = self.link.next_ns
        if next_ns is not None and (self._due_ns is None or next_ns < self._due_ns):
            self._due_ns = next_ns
            self._loop.at(next_ns, self._advance)

    def _advance(self) -> None:
        self._due_ns = None
        for delivery in self.link.advance(self.now_ns):
            self.hosts[delivery.host].deliver(delivery.packet)
        self._drain_events()
        if self.link.is_up and not self._has_started:
            self._has_started = True
            self._start_traffic()
        if self.link.is_dropped and self._dropped_ns is None:
            self._dropped_ns = self.now_ns
        self._wake()

    def _drain_events(self) -> None:
        for side in SIDES:
            for event in self.link.events(side):
                self.link_meter.note(side, event)
                for observer in self._observers:
                    observer.link_event(side, event)

    def _on_air(self, frame: OnAir) -> None:
        for observer in self._observers:
            observer.on_air(frame)

    # --- the traffic ---

    def _listen(self) -> None:
        for number, traffic in enumerate(self.scenario.traffic):
            self.hosts["fixed"].listen(FIRST_PORT + number, partial(_fixed_end, traffic))

    def _start_traffic(self) -> None:
        for number, traffic in enumerate(self.scenario.traffic):
            start_ns = self.now_ns + int(traffic.start_s * NS_PER_S)
            self._loop.at(start_ns, partial(self._connect, number, traffic))

    def _connect(self, number: int, traffic: Traffic) -> None:
        self._to_start -= 1
        remote = Endpoint(ADDRESSES["fixed"], FIRST_PORT + number)
        mobile = self.hosts["mobile"]
        socket = mobile.connect(remote, _mobile_end(traffic))
        if traffic.aborts_after_s:
            give_up_ns = self.now_ns + int(traffic.aborts_after_s * NS_PER_S)
            self._loop.at(give_up_ns, partial(mobile.abort, socket))

    def _is_over(self) -> bool:
        if self._dropped_ns is not None:
            return self.now_ns > self._dropped_ns + _PATIENCE_NS
        if self._to_start:
            return False
        return self.link.is_quiet and all(s.is_done for host in self.hosts.values() for s in host.sockets)

    # --- the end ---

    def _summary(self) -> Summary:
        link, transfer = self.link_meter, self.transfer_meter
        counters = [socket.connection.sender.counters for socket in self.hosts[self._sender].sockets]
        return Summary(
            goodput_bytes_per_s=transfer.goodput_bytes_per_s,
            rlp_slope_bytes_per_s=link.rlp.slope,
            rlp_resets=link.resets,
            rlp_retransmissions=link.retransmissions,
            xoff_gaps_s=[gap / NS_PER_S for gap in link.xoff_gaps_ns],
            tcp_retransmissions=sum(c.retransmitted_segments for c in counters),
            tcp_timeouts=sum(c.timeouts for c in counters),
            tcp_fast_retransmits=sum(c.fast_retransmits for c in counters),
            checksum_errors=self.hosts[FAR[self._sender]].checksum_errors,
            longest_receiver_hole_s=_seconds(transfer.longest_hole_ns),
            max_rtt_s=_seconds(transfer.max_rtt_ns),
            ledger=self.link.balance() if isinstance(self.link, GsmLink) else None,
        )


def _fixed_end(traffic: Traffic) -> Application:
    if traffic.direction == "up":
        return Reader(bytes_per_s=traffic.reads_bytes_per_s)
    return _sender(traffic)


def _mobile_end(traffic: Traffic) -> Application:
    if traffic.direction == "up":
        return _sender(traffic)
    return Reader(bytes_per_s=traffic.reads_bytes_per_s)


def _sender(traffic: Traffic) -> BulkSender:
    return BulkSender(size_bytes=traffic.bytes, bytes_per_s=traffic.writes_bytes_per_s)


def _seconds(duration_ns: int | None) -> float | None:
    return None if duration_ns is None else duration_ns / NS_PER_S
