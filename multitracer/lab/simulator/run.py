"""One run of a scenario's traffic in virtual time: the modelled network, the flows, the meters, and the end.

A run is determined by its scenario and its seed alone.

A recorded run is written as a session folder: the files of a real run, and the truth.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, TextIO

from multitracer import __version__
from multitracer.lab.channel.gsm import GsmLink
from multitracer.lab.channel.shared.packet_link import FIXED, host_address
from multitracer.lab.scenario.model import TCP_TRANSPORTS, WTCP, WTCP_PACKET_BYTES
from multitracer.lab.scenario.radio import check_up
from multitracer.lab.scenario.session_folder import (
    CAPTURE,
    FIRST_PORT,
    FRAMES_HEADER,
    PILOT_HEADER,
    PILOT_LOG,
    RLPDUMP,
    SEGMENTS_HEADER,
    TCP_STATE,
    SegmentTruth,
    frame_line,
    has_pilot,
    log_files,
    make_folders,
    new_manifest,
    pilot_line,
    rlp_facts,
    snap_bytes,
    write_radio,
    write_summary,
)
from multitracer.lab.scenario.summary import ArrivedOverTime, Meters, TcpCounts
from multitracer.lab.simulator.host import DONE, BulkSender, StreamReader
from multitracer.lab.simulator.host_logs import HostLogWriter
from multitracer.lab.simulator.network import EPOCH_NS, NetworkObserver, VirtualNetwork, host_clock
from multitracer.lab.tcp.packet import Endpoint
from multitracer.manifest import CollectorRun, write_manifest
from multitracer.protocols.link_events import PacketDropped
from multitracer.protocols.wtcp.connection import WtcpConnection
from multitracer.protocols.wtcp.state import WtcpConfig, WtcpState
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from multitracer.lab.channel.gsm import OnAir
    from multitracer.lab.channel.shared.packet_link import HostName, PacketLink, RadioReading
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.scenario.summary import Summary
    from multitracer.lab.simulator.host import Datagram, SimulatedHost, SimulatedSocket
    from multitracer.lab.tcp.packet import TcpPacket
    from multitracer.manifest import Manifest
    from multitracer.protocols.link_events import LinkEvent


_COLLECTORS = {"tcpdump": CAPTURE, "tcp_info": TCP_STATE, "rlpdump": RLPDUMP}
"""Log file in a host's folder, by collector."""


class SessionRecorder(NetworkObserver):
    """Observer that writes a session folder; created before the run, closed by `end`.

    Parameters
    ----------
    folder : Path
        The folder; it must be absent or empty.
    scenario : Scenario
        The scenario of the run.
    seed : int
        The seed of the run.

    Raises
    ------
    InputError
        If the folder is not empty or cannot be made.
    """

    def __init__(self, folder: Path, scenario: Scenario, *, seed: int) -> None:
        self._folder = folder
        self._files = ExitStack()
        self._truth = SegmentTruth(scenario)
        self._clock_due_ns = 0
        make_folders(folder, scenario)
        self._manifest = _manifest(scenario, seed)
        write_manifest(folder, self._manifest)
        with ExitStack() as opening:
            self._hosts = {host: self._logs_of(host, scenario, opening) for host in scenario.hosts}
            self._clocks = self._text("clocks.jsonl", opening)
            mobiles = scenario.hosts[:-1] if has_pilot(scenario) else ()
            self._pilots = {host: self._text(f"{host}/{PILOT_LOG}", opening) for host in mobiles}
            self._frames = self._text("truth/frames.csv", opening)
            self._segments = self._text("truth/segments.csv", opening)
            self._files = opening.pop_all()
        for pilot in self._pilots.values():
            pilot.write(PILOT_HEADER)
        self._frames.write(FRAMES_HEADER)
        self._segments.write(SEGMENTS_HEADER)

    def _logs_of(self, host: HostName, scenario: Scenario, files: ExitStack) -> HostLogWriter:
        def opened(name: str) -> BinaryIO:
            return files.enter_context((self._folder / host / name).open("xb"))

        facts = rlp_facts(scenario, speed=1)
        clock, snap = host_clock(scenario, host), snap_bytes(scenario)
        logs = HostLogWriter(host, clock, opened=opened, snap_bytes=snap, facts=facts)
        logs.open_link_log()
        files.callback(logs.write)
        return logs

    def _text(self, name: str, files: ExitStack) -> TextIO:
        return files.enter_context((self._folder / name).open("x", encoding="utf-8", newline="\n"))

    # --- what it observes ---

    def packet(self, host: HostName, packet: TcpPacket | None, data: bytes, *, now_ns: int, outgoing: bool) -> None:
        """Write a packet into the host's capture."""
        if now_ns >= self._clock_due_ns:
            self._read_clocks(now_ns)
        self._hosts[host].packet(data, now_ns)
        if outgoing:
            self._truth.left(host, packet, data, now_ns=now_ns)
        else:
            self._segments.writelines(self._truth.arrived(host, packet, data, now_ns=now_ns))

    def state(self, host: HostName, socket: SimulatedSocket, *, now_ns: int) -> None:
        """Write a socket's variables into the host's log."""
        self._hosts[host].state(socket, now_ns)

    def reading(self, host: HostName, reading: RadioReading, *, now_ns: int) -> None:
        """Write the Ec/Io of the pilot that a mobile's modem reports."""
        self._pilots[host].write(pilot_line(reading, time_ns=self._hosts[host].clock.realtime_ns(now_ns)))

    def link_events(self, host: HostName, events: list[LinkEvent]) -> None:
        """Write events into the log of the host's end of the link."""
        self._hosts[host].link_events(events)
        for event in events:
            if type(event) is PacketDropped:
                self._segments.writelines(self._truth.noted(host, event))

    def on_air(self, frame: OnAir) -> None:
        """Write whether a frame was lost."""
        self._frames.write(frame_line(frame))

    def _read_clocks(self, now_ns: int) -> None:
        self._clock_due_ns = now_ns + NS_PER_S
        for name, host in self._hosts.items():
            self._clocks.write(json.dumps({"host": name, **host.clock.reading(now_ns)}) + "\n")

    # --- the end ---

    def end(self, summary: Summary, link: PacketLink, *, now_ns: int) -> None:
        """Write the summary and the error trace of the radio, close every log, and complete the manifest."""
        self._segments.writelines(self._truth.rest())
        self._read_clocks(now_ns)
        for host in self._hosts.values():
            host.end(now_ns)
        self.close()
        write_summary(self._folder, summary)
        write_radio(self._folder, link, now_ns=now_ns)
        for run in self._manifest.collectors:
            run.ended_ns, run.outcome = EPOCH_NS + now_ns, "ended"
        self._manifest.files = list(log_files(self._folder))
        write_manifest(self._folder, self._manifest)

    def close(self) -> None:
        """Close every log, even if the run failed."""
        self._files.close()


def _manifest(scenario: Scenario, seed: int) -> Manifest:
    manifest = new_manifest(scenario, seed=seed, created_ns=EPOCH_NS, virtual=True, speed=1)
    for host in scenario.hosts:
        address = ".".join(map(str, host_address(host)))
        manifest.hosts[host].add({"kernel": "virtual", "addresses": [address]})
        manifest.collectors += [
            CollectorRun(name, host, ["multitracer.simulator", log], __version__, EPOCH_NS)
            for name, log in _COLLECTORS.items()
        ]
    return manifest


def record_virtual(
    scenario: Scenario, folder: Path, *, seed: int | None = None, observers: Sequence[NetworkObserver] = ()
) -> Summary:
    """Run a scenario in virtual time and write a session folder.

    Parameters
    ----------
    scenario : Scenario
        The scenario to run.
    folder : Path
        The folder; it must be absent or empty.
    seed : int, optional
        Random seed; by default that of the scenario.
    observers : sequence of NetworkObserver
        Further observers of the run.

    Returns
    -------
    Summary
        The content of `summary.json`.

    Raises
    ------
    InputError
        If the folder is not empty or cannot be made, or the scenario has no traffic, or its link is not up
        before the end.
    LocalProtocolError
        If the scenario's link is impossible; nothing is written then.
    """
    scenario.check_traffic()
    used = scenario.seed if seed is None else seed
    check_up(scenario, seed=used)  # before any folder
    recorder = SessionRecorder(folder, scenario, seed=used)
    try:
        run = VirtualRun(scenario, seed=used, observers=[recorder, *observers])
        summary = run.run()
        recorder.end(summary, run.network.link, now_ns=run.network.now_ns)
    finally:
        recorder.close()
    return summary


# What the flows of all transports share: a traffic of a scenario, its two hosts, and when it gives up.


class SimulatedFlow(ABC):
    """Base of the flows: one traffic entry of the scenario. The mobile connects; the fixed host listens.

    Parameters
    ----------
    number : int
        Number of the traffic in the scenario, from 0.
    scenario : Scenario
    network : VirtualNetwork
    meters : Meters
        The meters of the run.
    """

    def __init__(self, number: int, scenario: Scenario, network: VirtualNetwork, meters: Meters) -> None:
        self._number = number
        self._traffic = scenario.traffic[number]
        self._network = network
        self._meters = meters
        self._mobile = network.hosts[scenario.mobile_of(self._traffic)]
        self._fixed = network.hosts[FIXED]
        self._port = FIRST_PORT + number
        """Port at which the fixed host listens."""

    @abstractmethod
    def begin(self) -> None:
        """Open the connection from the mobile."""

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """Whether the flow has begun and has nothing left to do."""

    def _endpoints(self) -> tuple[Endpoint, Endpoint]:
        """Return the endpoints of the flow, of the mobile and of the fixed host, with the next free port."""
        mobile = Endpoint(self._mobile.address, self._mobile.free_port)
        return mobile, Endpoint(self._fixed.address, self._port)

    def _application(self, *, at_mobile: bool) -> BulkSender | StreamReader:
        """Return the application of the mobile or of the fixed host: it sends or receives the data."""
        if at_mobile == (self._traffic.direction == "up"):
            return BulkSender(size_bytes=self._traffic.bytes, bytes_per_s=self._traffic.writes_bytes_per_s)
        return StreamReader(bytes_per_s=self._traffic.reads_bytes_per_s)

    def _give_up_later(self, give_up: Callable[[], None]) -> None:
        """Schedule `give_up` for the time at which the user cancels, if the scenario sets such a time."""
        if self._traffic.aborts_after_s:
            self._network.at(self._network.now_ns + int(self._traffic.aborts_after_s * NS_PER_S), give_up)


# A traffic of a scenario over TCP: the mobile connects, one end writes, the other reads.


class TcpFlow(SimulatedFlow):
    """One traffic entry of the scenario over TCP."""

    def __init__(self, number: int, scenario: Scenario, network: VirtualNetwork, meters: Meters) -> None:
        super().__init__(number, scenario, network, meters)
        self._of_transport = TCP_TRANSPORTS[self._traffic.transport]
        self._socket: SimulatedSocket | None = None
        served = partial(self._application, at_mobile=False)
        self._fixed.listen(self._port, served, self._of_transport(self._fixed.profile))

    def begin(self) -> None:
        """Open the connection from the mobile."""
        mobile, fixed = self._endpoints()
        self._meters.begin(self._number, mobile, fixed)
        running = self._application(at_mobile=True)
        profile = self._of_transport(self._mobile.profile)
        self._socket = self._mobile.connect(fixed, running, profile)
        self._give_up_later(partial(self._mobile.abort, self._socket))

    @property
    def is_done(self) -> bool:
        """Whether the flow has begun, and the mobile's endpoint has nothing left to do."""
        return self._socket is not None and self._socket.connection.state in DONE  # asked at every event


# A traffic of a scenario over WTCP in UDP: the mobile connects, one end writes, the other reads.


class SimulatedWtcp:
    """Adapter of a WTCP connection to `TransportStream`."""

    def __init__(self, connection: WtcpConnection) -> None:
        self._connection = connection
        self.close, self.read, self.write = connection.close, connection.read, connection.write

    @property
    def is_established(self) -> bool:
        """Whether the handshake is complete."""
        return self._connection.state is WtcpState.ESTABLISHED

    @property
    def free_bytes(self) -> int:
        """Free bytes of the send buffer; 0 before the handshake and after the end."""
        is_over = self._connection.state in _CLOSED or self._connection.error is not None
        return 0 if is_over else self._connection.free_bytes

    @property
    def readable_bytes(self) -> int:
        """Number of bytes in order that wait to be read."""
        return self._connection.readable_bytes

    @property
    def at_end(self) -> bool:
        """Whether the application has read everything, up to the end of the stream."""
        return self._connection.at_end


_CLOSED = {WtcpState.CLOSED, WtcpState.LISTEN}


class WtcpMeter:
    """Measures the data that a WTCP connection delivers; times are link times.

    Parameters
    ----------
    receiver : WtcpConnection
        The end that receives the data.
    """

    def __init__(self, receiver: WtcpConnection) -> None:
        self._receiver = receiver
        self.arrived_packets = 0
        self.max_rtt_ns: int | None = None
        """Always None: WTCP packets carry no time from which a round trip could be computed."""
        self.longest_hole_ns: int | None = None
        self.began_ns: int | None = None
        self.latest_ns: int | None = None
        self.over_time = ArrivedOverTime()

    @property
    def arrived_bytes(self) -> int:
        """Payload bytes that arrived, in order or not, each counted once."""
        return self._receiver.counters.arrived_bytes

    @property
    def goodput_bytes_per_s(self) -> float | None:
        """Payload bytes per second from the first packet to the last new payload; None if nothing arrived."""
        if self.began_ns is None or self.latest_ns is None or self.latest_ns <= self.began_ns:
            return None
        return self.arrived_bytes * NS_PER_S / (self.latest_ns - self.began_ns)

    def note(self, now_ns: int) -> None:
        """Update the numbers after a datagram has reached the receiver."""
        packets = self._receiver.counters.arrived_packets
        if packets == self.arrived_packets:
            return
        self.arrived_packets = packets
        if self.latest_ns is not None:
            self.longest_hole_ns = max(self.longest_hole_ns or 0, now_ns - self.latest_ns)
        self.latest_ns = now_ns
        self.over_time.note(now_ns, self.arrived_bytes)


class WtcpEnd:
    """One endpoint of a WTCP connection, on a UDP port of a host.

    Parameters
    ----------
    network : VirtualNetwork
    host : SimulatedHost
    port : int
    running : BulkSender or Reader
        The application.
    remote : Endpoint, optional
        The peer, for the end that connects; the other end answers the peer that it receives from.
    """

    def __init__(
        self,
        network: VirtualNetwork,
        host: SimulatedHost,
        port: int,
        running: BulkSender | StreamReader,
        *,
        remote: Endpoint | None = None,
    ) -> None:
        config = WtcpConfig(packet_bytes=WTCP_PACKET_BYTES)
        self.connection = WtcpConnection(config, initiator=remote is not None, random_bytes=network.random_bytes)
        self.meter: WtcpMeter | None = None
        self._stream = SimulatedWtcp(self.connection)
        self._network = network
        self._host = host
        self._port = port
        self._running = running
        self._remote = remote
        self._alarm_ns: int | None = None
        host.bind(port, self._take)

    @property
    def is_done(self) -> bool:
        """Whether this end has nothing left to do."""
        return self.connection.is_finished

    def _take(self, datagram: Datagram) -> None:
        self._remote = self._remote or Endpoint(datagram.source, datagram.source_port)
        self.connection.receive(datagram.payload, self._network.now_ns)
        if self.meter is not None:
            self.meter.note(self._network.now_ns)
        self.pump()

    def pump(self) -> None:
        """Let application and transport do everything that is possible now, then set the timer."""
        now_ns = self._network.now_ns
        if not self.is_done:
            self._running.use(self._stream, now_ns)
        while self._remote is not None and (octets := self.connection.outgoing(now_ns)) is not None:
            self._host.send_datagram(self._port, self._remote, octets)
        times = self.connection.next_ns, self._running.next_timer_ns()
        due_ns = min((time for time in times if time is not None), default=None)
        if due_ns is not None and self._remote is not None and due_ns != self._alarm_ns:
            self._alarm_ns = max(due_ns, now_ns)
            self._network.at(self._alarm_ns, self._ring)

    def _ring(self) -> None:
        if self._alarm_ns == self._network.now_ns:  # else another alarm was set meanwhile
            self._alarm_ns = None
            self.pump()


class WtcpFlow(SimulatedFlow):
    """One traffic entry of the scenario over WTCP."""

    def __init__(self, number: int, scenario: Scenario, network: VirtualNetwork, meters: Meters) -> None:
        super().__init__(number, scenario, network, meters)
        self._listening = WtcpEnd(network, self._fixed, self._port, self._application(at_mobile=False))
        self._calling: WtcpEnd | None = None

    def begin(self) -> None:
        """Open the connection from the mobile."""
        local, remote = self._endpoints()
        running = self._application(at_mobile=True)
        calling = self._calling = WtcpEnd(self._network, self._mobile, local.port, running, remote=remote)
        receiver = self._listening if self._traffic.direction == "up" else calling
        receiver.meter = WtcpMeter(receiver.connection)
        receiver.meter.began_ns = self._network.now_ns
        self._meters.begin(self._number, local, remote, receiver.meter)
        calling.connection.open(self._network.now_ns)
        calling.pump()
        self._give_up_later(self._give_up)

    def _give_up(self) -> None:
        assert self._calling is not None
        self._calling.connection.abort()
        self._calling.pump()

    @property
    def is_done(self) -> bool:
        """Whether the flow has begun, and both endpoints have nothing left to do.

        An endpoint that no packet has reached has nothing to do.
        """
        if self._calling is None or not self._calling.is_done:
            return False
        return self._listening.is_done or self._listening.connection.state is WtcpState.LISTEN


_PATIENCE_NS = 10 * NS_PER_S
"""Link time for which a run continues after its call was dropped."""

_FLOWS: Mapping[str, type[SimulatedFlow]] = {**dict.fromkeys(TCP_TRANSPORTS, TcpFlow), WTCP: WtcpFlow}
"""Class that runs a traffic, by transport."""


class _ObservingMeters(Meters, NetworkObserver):
    """Observer that passes packets and events to the meters."""


class VirtualRun:
    """A run of one scenario.

    Parameters
    ----------
    scenario : Scenario
        The scenario to run.
    seed : int, optional
        Random seed; by default that of the scenario.
    observers : sequence of NetworkObserver
        Observers of packets, sockets and link events.

    Raises
    ------
    InputError
        If the scenario has no traffic.
    """

    def __init__(
        self, scenario: Scenario, *, seed: int | None = None, observers: Sequence[NetworkObserver] = ()
    ) -> None:
        scenario.check_traffic()
        self.scenario = scenario
        self.seed = scenario.seed if seed is None else seed
        self.meters = _ObservingMeters(scenario)
        self.network = VirtualNetwork(scenario, seed=self.seed, observers=[self.meters, *observers])
        self.network.moved = self._follow_link
        self._flows = [
            _FLOWS[traffic.transport](number, scenario, self.network, self.meters)
            for number, traffic in enumerate(scenario.traffic)
        ]
        self._has_started = False
        self._dropped_ns: int | None = None

    def run(self) -> Summary:
        """Run to the end; return the summary."""
        if has_pilot(self.scenario):
            self.network.read_radio_each_second(len(self.scenario.hosts) - 1)
        self.network.run(until_ns=int(self.scenario.limit_s * NS_PER_S), stop=self._is_over)
        if isinstance(self.network.link, GsmLink):
            self.network.link.count_idle()
        self.network.drain()
        return self._summary()

    def _follow_link(self) -> None:
        """Start the traffic when the link is up; stop the run after the link has ended permanently."""
        if not self._has_started and self.network.link.is_up:
            self._has_started = True
            for flow, traffic in zip(self._flows, self.scenario.traffic, strict=True):
                start_ns = self.network.now_ns + int(traffic.start_s * NS_PER_S)
                self.network.at(start_ns, flow.begin)
        if self.network.link.is_dropped and self._dropped_ns is None:
            self._dropped_ns = self.network.now_ns

    def _is_over(self) -> bool:
        if self._dropped_ns is not None:
            return self.network.now_ns > self._dropped_ns + _PATIENCE_NS
        for flow in self._flows:  # asked before every event: no generator
            if not flow.is_done:
                return False
        sockets = (socket for host in self.network.hosts.values() for socket in host.sockets)
        return all(socket.is_done for socket in sockets) and self.network.link.is_drained

    def _summary(self) -> Summary:
        traffic, hosts = self.scenario.traffic[0], self.network.hosts
        sender, receiver = hosts[self.scenario.sender_of(traffic)], hosts[self.scenario.receiver_of(traffic)]
        counters = [socket.connection.sender.counters for socket in sender.sockets]
        counts = TcpCounts(
            tcp_retransmissions=sum(c.retransmitted_segments for c in counters),
            tcp_timeouts=sum(c.timeouts for c in counters),
            tcp_fast_retransmits=sum(c.fast_retransmits for c in counters),
            checksum_errors=receiver.checksum_errors,
        )
        link = self.network.link
        ledger = link.balance() if isinstance(link, GsmLink) else None
        return self.meters.summary(counts, ledger=ledger, end_ns=self.network.now_ns)
