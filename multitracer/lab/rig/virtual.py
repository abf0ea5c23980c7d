"""A measurement in virtual time: faster than real time, determined by plan, scenario and seed.

`carry_out` of `measure`, its clients and servers, and both protocols run as over a real link, but
waiting advances virtual time (`VirtualNetwork` of `simulator`). An interrupted run is repeated from its start
without writing again what is already written, so that the link behaves the same in the remaining part.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from contextlib import ExitStack
from dataclasses import asdict, replace
from ipaddress import IPv4Address
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING

import parsers
from multitracer import __version__
from multitracer.errors import InputError, RemoteProtocolError
from multitracer.lab.channel.links import link_of
from multitracer.lab.channel.shared.packet_link import FIXED, host_address
from multitracer.lab.rig.radio_join import FILE, join_radio
from multitracer.lab.rig.radios import check_carried, profile_name
from multitracer.lab.rig.watchers import RigRecorder
from multitracer.lab.scenario.session_folder import SERVER_PORT, keep_scenario, log_files, write_radio
from multitracer.lab.simulator.host import Application
from multitracer.lab.simulator.host_logs import tcp_info_fields
from multitracer.lab.simulator.network import EPOCH_NS, VirtualNetwork
from multitracer.lab.tcp.packet import Endpoint
from multitracer.lab.tcp.state import ConnectionState
from multitracer.manifest import CollectorRun, Host, Manifest, Role, Variables, read_manifest, write_manifest
from multitracer.measure.centaurus import CentaurusClient, CentaurusServer
from multitracer.measure.exchange import GOODBYE, HELLO, RECEIPT, REPLY, REQUEST
from multitracer.measure.outcome import UnreachableError
from multitracer.measure.run import carry_out
from multitracer.measure.server import Dialogue, TransactionLog
from multitracer.measure.tcp import TcpClient
from multitracer.measure.transports import TransportOptions, of_transport
from multitracer.measure.wtcp import WtcpClientStream, WtcpService
from multitracer.protocols.centaurus.level1_udp import UdpWorker
from multitracer.protocols.centaurus.messages import MAX_SEGMENT_BYTES, MIN_SEGMENT_BYTES
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from multitracer.lab.channel.shared.packet_link import HostName
    from multitracer.lab.scenario.model import ProgramSetting, Scenario
    from multitracer.lab.simulator.host import Datagram, SimulatedHost
    from multitracer.lab.tcp.connection import Connection
    from multitracer.measure.outcome import Client, TransactionOutcome
    from multitracer.measure.plan import MeasurementPlan, ProtocolName, Transaction
    from multitracer.measure.run import MeasureJournal, Progress
    from multitracer.protocols.centaurus.events import Address, Event
    from multitracer.protocols.centaurus.worker import Outgoing
    from multitracer.protocols.wtcp.state import WtcpConfig
    from multitracer.protocols.wtcp.worker import WtcpOutgoing


# TCP in virtual time under the client and the server of `measure`: connections that wait as sockets do.


_ERRORS = {"refused": errno.ECONNREFUSED, "timed out": errno.ETIMEDOUT}
"""Error number that a socket raises, by the reason that our TCP gives; the default is that of a reset."""


class VirtualConnection(Application):
    """The client's endpoint of a connection; its methods advance virtual time.

    Parameters
    ----------
    network : VirtualNetwork
        The modelled network with its time.
    host : SimulatedHost
        Host of the client.
    """

    def __init__(self, network: VirtualNetwork, host: SimulatedHost) -> None:
        self._network = network
        self._host = host
        self._timeout_ns = 0
        self._unsent = b""
        self._received = bytearray()
        self._is_closed = False
        self._socket = host.connect(Endpoint(network.hosts[FIXED].address, SERVER_PORT), self)

    @classmethod
    def dial(cls, network: VirtualNetwork, host: SimulatedHost, timeout_s: float) -> VirtualConnection:
        """Return a new connection to the server; raise OSError with the reason if it cannot be set up."""
        made = cls(network, host)
        made.settimeout(timeout_s)
        tcp = made._socket.connection
        try:
            made._wait(lambda: tcp.state is not ConnectionState.SYN_SENT)
        except OSError:
            made.close()
            raise
        return made

    # --- as of a socket ---

    def settimeout(self, seconds: float, /) -> None:
        """Set how long `sendall` and `recv` wait before they raise TimeoutError."""
        self._timeout_ns = round(seconds * NS_PER_S)

    def sendall(self, octets: bytes, /) -> None:
        """Wait until TCP has accepted all octets."""
        self._unsent = octets
        if self._socket.connection.state is not ConnectionState.CLOSED:  # else `_wait` says why
            self._host.pump(self._socket)
        self._wait(lambda: not self._unsent)

    def recv(self, most: int, /) -> bytes:
        """Return 1 to `most` received octets; empty at the end of the stream."""
        self._wait(lambda: bool(self._received) or self._socket.connection.at_end)
        octets = bytes(self._received[:most])
        del self._received[:most]
        return octets

    def close(self) -> None:
        """Close the connection.

        Written data are still delivered, and data that arrive later are answered with RST.
        """
        tcp = self._socket.connection
        self._is_closed = True
        if tcp.state is ConnectionState.CLOSED:
            return
        if self._received or tcp.state is ConnectionState.SYN_SENT:
            tcp.abort()
        else:
            tcp.close()
        self._host.pump(self._socket)

    def info(self) -> Mapping[str, int]:
        """Return TCP's variables by their names in `struct tcp_info`."""
        return tcp_info_fields(self._socket.connection)

    def _wait(self, done: Callable[[], bool]) -> None:
        tcp, until_ns = self._socket.connection, self._network.now_ns + self._timeout_ns
        if not self._network.wait(until_ns, lambda: done() or tcp.error is not None):
            raise TimeoutError
        if tcp.error is not None and not done():
            number = _ERRORS.get(tcp.error, errno.ECONNRESET)
            raise OSError(number, os.strerror(number))

    # --- as of an application ---

    def advance(self, connection: Connection, now_ns: int) -> None:
        """Pass written data to TCP and take received data from TCP, as far as possible now."""
        del now_ns
        arrived = connection.read()
        if self._is_closed:
            if arrived:
                connection.abort()
            return
        self._received += arrived
        if self._unsent and connection.state in _WRITABLE:
            self._unsent = self._unsent[connection.write(self._unsent) :]


_WRITABLE = {ConnectionState.ESTABLISHED, ConnectionState.CLOSE_WAIT}


class _Served(Application):
    """The server's application on one connection."""

    def __init__(self, dialogue: Callable[[Connection], Dialogue]) -> None:
        self._make = dialogue
        self._dialogue: Dialogue | None = None

    def advance(self, connection: Connection, now_ns: int) -> None:
        """Process received octets and answer; close when the client does."""
        del now_ns
        dialogue = self._dialogue = self._dialogue or self._make(connection)
        if arrived := connection.read():
            try:
                dialogue.hear(arrived)
            except RemoteProtocolError:
                connection.abort()
                return
        if dialogue.unsent and connection.state in _WRITABLE:
            dialogue.unsent = dialogue.unsent[connection.write(dialogue.unsent) :]
        if connection.at_end and not connection.sender.stream.closed:
            connection.close()


class VirtualTcp:
    """TCP between a mobile that measures and the fixed host that listens; closed sockets are removed.

    Parameters
    ----------
    network : VirtualNetwork
        The modelled network with its hosts.
    mobile : str
        Name of the host that measures.
    """

    def __init__(self, network: VirtualNetwork, mobile: HostName) -> None:
        self._network = network
        self._clock = network.clock(FIXED)
        self._records = TransactionLog(None, self._clock)
        self._mobile, server = network.hosts[mobile], network.hosts[FIXED]
        self._mobile.keeps_closed = server.keeps_closed = False
        server.listen(SERVER_PORT, lambda: _Served(self._dialogue))

    def dial(self, timeout_s: float) -> VirtualConnection:
        """Return a new connection from the mobile to the server; raise OSError if it cannot be set up."""
        return VirtualConnection.dial(self._network, self._mobile, timeout_s)

    def _dialogue(self, connection: Connection) -> Dialogue:
        name = f"{self._mobile.name}:{connection.remote.port}"
        return Dialogue(name, records=self._records, clock=self._clock, info=lambda: tcp_info_fields(connection))


# CentaurusComm in virtual time: a `CentaurusEndpoint` whose `work` lets the link's time pass.


_HEADER_BYTES, _SEALED_HEADER_BYTES = 53, 77
"""Header bytes of a packet, as `CentaurusConfig.segment_bytes` counts them."""
SERVER_ADDRESS = (str(IPv4Address(host_address(FIXED))), SERVER_PORT)


class VirtualEndpoint:
    """A CentaurusComm worker on a UDP port of a host.

    Parameters
    ----------
    worker : UdpWorker
        The protocol.
    network : VirtualNetwork
        The link and the time.
    host : SimulatedHost
        Host of the endpoint.
    port : int
        Its UDP port.
    program : ProgramSetting
        Time that the program takes for a datagram, and how many its socket holds.
    arrived : callable, optional
        Called after a datagram was taken.
    """

    def __init__(
        self,
        worker: UdpWorker,
        network: VirtualNetwork,
        host: SimulatedHost,
        port: int,
        program: ProgramSetting,
        arrived: Callable[[], None] | None = None,
    ) -> None:
        self.worker = worker
        self.clock: Callable[[], int] = network.clock(host.name)
        self.refused = False
        self.unsendable = 0
        """Number of datagrams that the interface refused; for the protocol they are lost."""
        self._network = network
        self._host = host
        self._port = port
        self._arrived = arrived
        self._inbox: deque[Datagram] = deque()
        self._program = program
        self._luck = Random(f"{network.seed} {host.name} program")  # noqa: S311  # a run is to be repeated
        self._ready_ns = 0
        self.did_something = False
        """Whether the last step did something, so that another step may follow at once."""
        host.bind(port, self._take)

    def send(self, address: Address, kind: int, data: bytes, *, lifetime_ns: int) -> int:
        """Add an object of type `kind` to those to send to `address`; return its handle."""
        return self.worker.send(address, kind, data, self.clock(), lifetime_ns=lifetime_ns)

    def work(self, wait_s: float = 0.0) -> list[Event]:
        """Do one small step and return its events.

        If nothing is to be done, let at most `wait_s` seconds pass.
        """
        self.worker.on_timer(self.clock())
        packet = self.worker.outgoing(self.clock())
        if packet is not None:
            self._put(packet)
        elif not (events := self.worker.take_events()):
            self._wait(wait_s)
        else:
            self.did_something = True
            return events
        got = self._get()
        events = self.worker.take_events()
        self.did_something = packet is not None or got or bool(events)
        return events

    def close(self) -> None:
        """Do nothing: there is no socket."""

    def _take(self, datagram: Datagram) -> None:
        if 0 < self._program.most_datagrams <= len(self._inbox):
            return
        self._inbox.append(datagram)
        if len(self._inbox) == 1:
            self._begin()
        if self._arrived is not None:
            self._arrived()

    def _begin(self) -> None:
        """Begin with the oldest datagram: it has an effect once the program is through with it."""
        time_ns = len(self._inbox[0].payload) * self._program.octet_ns
        self._ready_ns = self._network.now_ns + round(time_ns * self._luck.uniform(0.5, 1.5))

    @property
    def is_busy(self) -> bool:
        """Whether the program has a datagram in progress."""
        return bool(self._inbox)

    @property
    def _is_ready(self) -> bool:
        return bool(self._inbox) and self._ready_ns <= self._network.now_ns

    def due_ns(self) -> int | None:
        """Return the link time of the worker's next timer or finished datagram; None if there is neither."""
        now_ns, timer_ns = self._network.now_ns, self.worker.next_timer()
        due = [] if timer_ns is None else [now_ns + max(1, timer_ns - self.clock())]
        if self._inbox:
            due.append(max(now_ns + 1, self._ready_ns))
        return min(due, default=None)

    def _put(self, packet: Outgoing) -> None:
        assert isinstance(packet.address, tuple)
        host, port = packet.address
        remote = Endpoint(IPv4Address(host).packed, port)
        self.unsendable += not self._host.send_datagram(self._port, remote, packet.octets)
        self.worker.sent(packet, self.clock())

    def _get(self) -> bool:
        """Process the oldest datagram that has arrived; return False if there is none, or it is in progress."""
        if not self._is_ready:
            return False
        source, port, _, _, payload = self._inbox.popleft()
        if self._inbox:
            self._begin()
        self.worker.receive(payload, (str(IPv4Address(source)), port), self.clock())
        return True

    def _wait(self, wait_s: float) -> None:
        if wait_s <= 0:
            return
        until_ns = self._network.now_ns + round(wait_s * NS_PER_S)
        due_ns = self.due_ns()
        self._network.wait(until_ns if due_ns is None else min(until_ns, due_ns), lambda: self._is_ready)


class VirtualUdp:
    """Both endpoints of CentaurusComm; the server runs whenever it has something to do.

    Parameters
    ----------
    network : VirtualNetwork
        The modelled network.
    mobile : str
        Name of the host that measures.
    options : TransportOptions
        Extensions and key.
    program : ProgramSetting
        Of both endpoints.
    mtu_bytes : int
        Longest IP packet that the link carries.
    """

    def __init__(
        self,
        network: VirtualNetwork,
        mobile: HostName,
        options: TransportOptions,
        program: ProgramSetting,
        *,
        mtu_bytes: int,
    ) -> None:
        self._network = network

        def worker(*accepted: bytes) -> UdpWorker:
            room = mtu_bytes - (_HEADER_BYTES if options.key is None else _SEALED_HEADER_BYTES)
            segment_bytes = max(MIN_SEGMENT_BYTES, min(room, MAX_SEGMENT_BYTES))
            config = replace(options.config(*accepted), segment_bytes=segment_bytes)
            return UdpWorker(config, random_bytes=network.random_bytes)

        client, server = network.hosts[mobile], network.hosts[FIXED]
        self.client = VirtualEndpoint(worker(REPLY, RECEIPT), network, client, client.free_port, program)
        self._fixed = VirtualEndpoint(
            worker(REQUEST, GOODBYE, HELLO), network, server, SERVER_PORT, program, self._work
        )
        self._server = CentaurusServer(self._fixed)
        self._alarm_ns: int | None = None

    @property
    def is_busy(self) -> bool:
        """Whether one of both programs has a datagram in progress."""
        return self.client.is_busy or self._fixed.is_busy

    def _work(self) -> None:
        """Let the server process all due timers and datagrams, then schedule its next timer."""
        self._server.work(0.0)
        while self._fixed.did_something:
            self._server.work(0.0)
        due_ns = self._fixed.due_ns()
        if due_ns is not None and due_ns != self._alarm_ns:
            self._alarm_ns = due_ns
            self._network.at(due_ns, self._ring)

    def _ring(self) -> None:
        if self._alarm_ns == self._network.now_ns:
            self._alarm_ns = None
            self._work()


# WTCP in virtual time under the client and the server of `measure`: only way and clock are others.


class VirtualWay:
    """A UDP port of a host that exchanges datagrams with one peer; `take` advances virtual time.

    Parameters
    ----------
    network : VirtualNetwork
        The link and the time.
    host : SimulatedHost
        Host of the port; the next free port is used.
    remote : Endpoint
        The peer.
    """

    def __init__(self, network: VirtualNetwork, host: SimulatedHost, remote: Endpoint) -> None:
        self.clock: Callable[[], int] = network.clock(host.name)
        self._network = network
        self._host = host
        self._remote = remote
        self._port = host.free_port
        self._inbox: deque[Datagram] = deque()
        host.bind(self._port, self._inbox.append)

    def send(self, octets: bytes) -> None:
        """Send a datagram; raise OSError if the interface refuses it."""
        if not self._host.send_datagram(self._port, self._remote, octets):
            raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))

    def take(self, wait_s: float) -> bytes | None:
        """Return the next datagram; None if none arrives within `wait_s` seconds."""
        if not self._inbox:  # a ns at least: who finds nothing to do must not stop the time
            until_ns = self._network.now_ns + max(1, round(wait_s * NS_PER_S))
            self._network.wait(until_ns, lambda: bool(self._inbox))
        return self._inbox.popleft().payload if self._inbox else None

    def close(self) -> None:
        """Release the port."""
        self._host.unbind(self._port)


class VirtualWtcp:
    """WTCP between a mobile that measures and the fixed host that listens.

    Parameters
    ----------
    network : VirtualNetwork
        The modelled network with its hosts.
    mobile : str
        Name of the host that measures.
    config : WtcpConfig
        Configuration of both endpoints.
    """

    def __init__(self, network: VirtualNetwork, mobile: HostName, config: WtcpConfig) -> None:
        self._network = network
        self._config = config
        self._mobile, self._fixed = network.hosts[mobile], network.hosts[FIXED]
        self._clock = network.clock(FIXED)
        self._service = WtcpService(
            config, records=TransactionLog(None, self._clock), clock=self._clock, random_bytes=network.random_bytes
        )
        self._alarm_ns: int | None = None
        self._fixed.bind(SERVER_PORT, self._take)

    def dial(self, timeout_s: float) -> WtcpClientStream:
        """Return a new connection from the mobile to the server.

        Raise OSError with the reason if it fails.
        """
        way = VirtualWay(self._network, self._mobile, Endpoint(self._fixed.address, SERVER_PORT))
        stream = WtcpClientStream(way, self._config, self._network.random_bytes)
        stream.open(timeout_s)
        return stream

    # --- the server ---

    def _take(self, datagram: Datagram) -> None:
        peer = str(IPv4Address(datagram.source)), datagram.source_port
        self._service.receive(datagram.payload, peer)
        self._work()

    def _work(self) -> None:
        """Let the server process all due timers and datagrams, then schedule its next timer."""
        self._service.serve()
        while (packet := self._service.worker.outgoing(self._clock())) is not None:
            self._send(packet)
        next_ns = self._service.worker.next_ns
        if next_ns is None:
            return
        due_ns = self._network.now_ns + max(1, next_ns - self._clock())  # its clock may be a little faster
        if due_ns != self._alarm_ns:
            self._alarm_ns = due_ns
            self._network.at(due_ns, self._ring)

    def _send(self, packet: WtcpOutgoing) -> None:
        """Send a datagram of the server; if the interface refuses it, the datagram is lost."""
        assert isinstance(packet.address, tuple)
        host, port = packet.address
        self._fixed.send_datagram(SERVER_PORT, Endpoint(IPv4Address(host).packed, port), packet.octets)

    def _ring(self) -> None:
        if self._alarm_ns == self._network.now_ns:  # else another alarm was set meanwhile
            self._alarm_ns = None
            self._work()


_LONGEST_SET_UP_NS = 60 * NS_PER_S
_COMMAND = ["multitracer.rig"]
_RUN = 1
"""Number of the run in messages; there is only one run."""


def run_virtual(  # noqa: PLR0913  # all a run is determined by
    plan: MeasurementPlan,
    folder: Path,
    scenario: Scenario,
    *,
    seed: int | None = None,
    options: TransportOptions | None = None,
    capture: bool = False,
    progress: Progress,
) -> MeasureJournal:
    """Carry out a plan over a modelled link in virtual time; continue it if it was interrupted.

    Parameters
    ----------
    plan : MeasurementPlan
        The plan; its server is replaced by the one on the link.
    folder : Path
        The session folder: new, empty, or that of an earlier run of the same plan and scenario.
    scenario : Scenario
        The link, its scripted events, the TCP of both hosts, and their programs.
    seed : int, optional
        Random seed; by default that of the scenario.
    options : TransportOptions, optional
        Options of CentaurusComm.
    capture : bool
        Also write packets, TCP variables and link events of both hosts.
    progress : callable
        Called after each transaction.

    Returns
    -------
    MeasureJournal
        The outcome of each transaction; already closed.

    Raises
    ------
    InputError
        If the folder belongs to another session, or was made by a version with other results; if no packet
        passes the link; if the transport is unknown, or impossible over this link.
    """
    check_carried(plan.protocol, scenario)
    make_client = of_transport(_CLIENTS, plan.protocol)
    seed = scenario.seed if seed is None else seed
    link_of(scenario.link, seed=seed, script=scenario.events)  # refuses what cannot be, before any folder
    options = options or TransportOptions()
    about = _manifest(folder, scenario, seed=seed, options=options, capture=capture)
    if not scenario.program.nodelay:
        about.variables.more["nodelay"] = False
    played = _undelayed(scenario) if scenario.program.nodelay else scenario
    with ExitStack() as files:

        def connect(_: int) -> Client:
            keep_scenario(folder, scenario)
            recorder = files.enter_context(RigRecorder(folder, scenario, capture=capture))
            network = VirtualNetwork(played, seed=seed, observers=[recorder], link_first=True)
            files.callback(network.drain)
            if capture:
                files.callback(lambda: write_radio(folder, network.link, now_ns=network.now_ns))
            network.read_radio_each_second()
            client = make_client(plan, network, scenario, options)
            network.wait(_LONGEST_SET_UP_NS, lambda: network.link.is_up)
            return _FromTheStart(client, plan, folder, scenario.name)

        journal = carry_out(plan, folder, connect, progress=progress, about=about, lasting=False)
    join_radio(folder)
    _complete(folder)
    return journal


def _undelayed(scenario: Scenario) -> Scenario:
    """Return the scenario with TCP_NODELAY on both hosts.

    The clients and servers of `measure` set this option.
    """
    mobile, fixed = (replace(profile, nagle=False) for profile in (scenario.mobile, scenario.fixed))
    return replace(scenario, mobile=mobile, fixed=fixed)


def _centaurus_client(
    plan: MeasurementPlan, network: VirtualNetwork, scenario: Scenario, options: TransportOptions
) -> Client:
    ends = VirtualUdp(network, scenario.hosts[0], options, scenario.program, mtu_bytes=scenario.mtu_bytes)
    return _SlowPrograms(ends, scenario, timeout_s=plan.timeout_s)


def _tcp_client(
    plan: MeasurementPlan, network: VirtualNetwork, scenario: Scenario, options: TransportOptions
) -> Client:
    del options
    mobile = scenario.hosts[0]
    tcp = VirtualTcp(network, mobile)
    return TcpClient(tcp.dial, run=_RUN, timeout_s=plan.timeout_s, clock=network.clock(mobile))


def _wtcp_client(
    plan: MeasurementPlan, network: VirtualNetwork, scenario: Scenario, options: TransportOptions
) -> Client:
    mobile = scenario.hosts[0]
    wtcp = VirtualWtcp(network, mobile, options.wtcp())
    return TcpClient(wtcp.dial, run=_RUN, timeout_s=plan.timeout_s, clock=network.clock(mobile))


_CLIENTS: Mapping[ProtocolName, Callable[[MeasurementPlan, VirtualNetwork, Scenario, TransportOptions], Client]] = (
    MappingProxyType({"tcp": _tcp_client, "centauruscomm": _centaurus_client, "wtcp": _wtcp_client})
)
"""Function that makes the client and the server, by the transport of a plan."""


class _SlowPrograms(CentaurusClient):
    """A client that knows when the programs, and not the link, are the reason that no answer comes."""

    def __init__(self, ends: VirtualUdp, scenario: Scenario, *, timeout_s: float) -> None:
        super().__init__(ends.client, SERVER_ADDRESS, run=_RUN, timeout_s=timeout_s)
        self._ends, self._scenario = ends, scenario

    def reach(self) -> None:
        """Wait until the server has answered."""
        try:
            super().reach()
        except UnreachableError as error:
            if not self._ends.is_busy:
                raise
            octet_s = self._scenario.program.octet_ns / NS_PER_S
            raise InputError(
                f"{self._scenario.name}: {error}, because a program takes {octet_s:g} s for each octet; "
                'choose a shorter "octet_us" in [program]'
            ) from error


class _FromTheStart:
    """A client that first repeats the transactions of an interrupted run, and checks their results."""

    def __init__(self, client: Client, plan: MeasurementPlan, folder: Path, link: str) -> None:
        self._client = client
        self._link = link
        self._path = folder / FILE
        self._left = plan.transactions()
        self._known = _starts(folder)

    def reach(self) -> None:
        """Wait until the server has answered."""
        try:
            self._client.reach()
        except UnreachableError as error:
            raise InputError(
                f"{self._link}: no packet can pass the link at the start of the run ({error}); choose another seed"
            ) from error

    def close(self) -> None:
        """Close the connection and release its resources."""
        self._client.close()

    def transact(self, transaction: Transaction) -> TransactionOutcome:
        """Run one transaction and return its outcome; the first call repeats all earlier transactions."""
        for each in self._left:
            outcome = self._client.transact(each)
            if each.number == transaction.number:
                return outcome
            if self._known.get(each.number) != (outcome.start_ns, outcome.outcome):
                raise InputError(
                    f"{self._path}: transaction {each.number} now has another result than the "
                    "recorded one, because another version of MultiTracer wrote this folder; name "
                    "another folder"
                )
        raise AssertionError("the transactions must be in the order of the plan")


def _starts(folder: Path) -> dict[int, tuple[int, str]]:
    """Return the start time and the status of each transaction that is already written, by its number."""
    _, tables = parsers.read(str(folder / FILE))
    assert isinstance(tables, dict)
    table = tables["transactions"]
    columns = (table[name].tolist() for name in ("transaction", "start_ns", "outcome"))
    return {number: (start_ns, outcome) for number, start_ns, outcome in zip(*columns, strict=True)}


# --- the manifest ---


def _manifest(folder: Path, scenario: Scenario, *, seed: int, options: TransportOptions, capture: bool) -> Manifest:
    about = Manifest(folder.resolve().name, created_ns=EPOCH_NS, more={"multitracer": __version__})
    about.hosts = {
        scenario.hosts[0]: Host(role=Role.CLIENT, kernel="virtual"),
        FIXED: Host(role=Role.SERVER, kernel="virtual"),
    }
    about.variables = Variables(
        link=scenario.name,
        scenario=scenario.source,
        seed=seed,
        speed=1,
        virtual=True,
        tcp_profile=profile_name(scenario),
        extensions=options.extensions.names,
        more={
            "tcp": {"mobile": asdict(scenario.mobile), "fixed": asdict(scenario.fixed)},
            "sealed": options.key is not None,
            "capture": capture,
        },
    )
    about.collectors = [CollectorRun("modem", scenario.hosts[0], _COMMAND, __version__, EPOCH_NS)]
    if capture:
        names = ("rlpdump", "tcpdump", "tcp_info")
        about.collectors += [
            CollectorRun(n, side, _COMMAND, __version__, EPOCH_NS) for side in about.hosts for n in names
        ]
    return about


def _complete(folder: Path) -> None:
    """Write the size and the checksum of every log into the manifest."""
    manifest = read_manifest(folder)
    assert manifest is not None
    for run in manifest.collectors:
        run.outcome = "ended"
    manifest.files = list(log_files(folder))
    write_manifest(folder, manifest)
