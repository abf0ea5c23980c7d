"""A traffic of a scenario over WTCP in UDP: the mobile connects, one end writes, the other reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.lab.scenario.transports import WTCP_PACKET_BYTES
from multitracer.lab.simulator.flow import Flow
from multitracer.lab.tcp import Endpoint
from multitracer.protocols.wtcp import WtcpConfig, WtcpConnection, WtcpState
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.lab.scenario.meters import Meters
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.simulator.application import BulkSender, Reader
    from multitracer.lab.simulator.datagram import Datagram
    from multitracer.lab.simulator.host import Host
    from multitracer.lab.simulator.world import VirtualWorld


class WtcpStream:
    """WTCP as a `Stream`."""

    def __init__(self, connection: WtcpConnection) -> None:
        self._connection = connection
        self.close, self.read, self.write = connection.close, connection.read, connection.write

    @property
    def is_established(self) -> bool:
        """Whether the connection is made."""
        return self._connection.state is WtcpState.ESTABLISHED

    @property
    def free_bytes(self) -> int:
        """How much of the send buffer is free; 0 before the hand-shake began and after the end."""
        is_over = self._connection.state in _CLOSED or self._connection.error is not None
        return 0 if is_over else self._connection.free_bytes

    @property
    def readable_bytes(self) -> int:
        """How many bytes wait in order."""
        return self._connection.readable_bytes

    @property
    def at_end(self) -> bool:
        """Whether everything was read, the end of the stream included."""
        return self._connection.at_end


_CLOSED = {WtcpState.CLOSED, WtcpState.LISTEN}


class WtcpMeter:
    """What a WTCP connection delivered, told after each datagram that arrived; times are those of the link.

    Parameters
    ----------
    receiver : WtcpConnection
        The end to which the data go.
    """

    def __init__(self, receiver: WtcpConnection) -> None:
        self._receiver = receiver
        self.arrived_packets = 0
        self.max_rtt_ns: int | None = None
        """Not measured: the packets carry no time that another end understands."""
        self.longest_hole_ns: int | None = None
        self.began_ns: int | None = None
        self.latest_ns: int | None = None

    @property
    def arrived_bytes(self) -> int:
        """Payload that arrived, in order or not, each byte once."""
        return self._receiver.counters.arrived_bytes

    @property
    def goodput_bytes_per_s(self) -> float | None:
        """Payload per second from the first packet to the last new one."""
        if self.began_ns is None or self.latest_ns is None or self.latest_ns <= self.began_ns:
            return None
        return self.arrived_bytes * NS_PER_S / (self.latest_ns - self.began_ns)

    def note(self, now_ns: int) -> None:
        """Look at the receiver after a datagram reached it."""
        packets = self._receiver.counters.arrived_packets
        if packets == self.arrived_packets:
            return
        self.arrived_packets = packets
        if self.latest_ns is not None:
            self.longest_hole_ns = max(self.longest_hole_ns or 0, now_ns - self.latest_ns)
        self.latest_ns = now_ns


class WtcpEnd:
    """One end of a WTCP connection, on a UDP port of a host.

    Parameters
    ----------
    world : VirtualWorld
    host : Host
    port : int
    running : BulkSender or Reader
        The application.
    remote : Endpoint, optional
        The peer of the end that connects; the other answers whom it hears.
    """

    def __init__(
        self,
        world: VirtualWorld,
        host: Host,
        port: int,
        running: BulkSender | Reader,
        *,
        remote: Endpoint | None = None,
    ) -> None:
        config = WtcpConfig(packet_bytes=WTCP_PACKET_BYTES)
        self.connection = WtcpConnection(
            config, initiator=remote is not None, random_bytes=world.random_bytes
        )
        self.meter: WtcpMeter | None = None
        self._stream = WtcpStream(self.connection)
        self._world = world
        self._host = host
        self._port = port
        self._running = running
        self._remote = remote
        self._alarm_ns: int | None = None
        host.bind(port, self._take)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do."""
        return self.connection.is_finished

    def _take(self, datagram: Datagram) -> None:
        self._remote = self._remote or Endpoint(datagram.source, datagram.source_port)
        self.connection.receive(datagram.payload, self._world.now_ns)
        if self.meter is not None:
            self.meter.note(self._world.now_ns)
        self.pump()

    def pump(self) -> None:
        """Let application and transport do all that they can do now, then set the alarm."""
        now_ns = self._world.now_ns
        if not self.is_done:
            self._running.use(self._stream, now_ns)
        while self._remote is not None and (octets := self.connection.outgoing(now_ns)) is not None:
            self._host.send_datagram(self._port, self._remote, octets)
        times = self.connection.next_ns, self._running.next_timer_ns()
        due_ns = min((time for time in times if time is not None), default=None)
        if due_ns is not None and self._remote is not None and due_ns != self._alarm_ns:
            self._alarm_ns = max(due_ns, now_ns)
            self._world.at(self._alarm_ns, self._ring)

    def _ring(self) -> None:
        if self._alarm_ns == self._world.now_ns:  # else another alarm was set meanwhile
            self._alarm_ns = None
            self.pump()


class WtcpFlow(Flow):
    """One traffic over WTCP."""

    def __init__(self, number: int, scenario: Scenario, world: VirtualWorld, meters: Meters) -> None:
        super().__init__(number, scenario, world, meters)
        self._listening = WtcpEnd(world, self._fixed, self._port, self._application(at_mobile=False))
        self._calling: WtcpEnd | None = None

    def begin(self) -> None:
        """Connect."""
        local, remote = self._endpoints()
        running = self._application(at_mobile=True)
        calling = self._calling = WtcpEnd(self._world, self._mobile, local.port, running, remote=remote)
        receiver = self._listening if self._traffic.direction == "up" else calling
        receiver.meter = WtcpMeter(receiver.connection)
        receiver.meter.began_ns = self._world.now_ns
        self._meters.begin(self._number, local, remote, receiver.meter)
        calling.connection.open(self._world.now_ns)
        calling.pump()
        self._give_up_later(self._give_up)

    def _give_up(self) -> None:
        assert self._calling is not None
        self._calling.connection.abort()
        self._calling.pump()

    @property
    def is_done(self) -> bool:
        """Whether it began and both ends have nothing left to do; who was never reached has nothing."""
        if self._calling is None or not self._calling.is_done:
            return False
        return self._listening.is_done or self._listening.connection.state is WtcpState.LISTEN
