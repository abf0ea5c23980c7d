"""CentaurusComm in virtual time: a `CentaurusEndpoint` whose `work` lets the link's time pass."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from multitracer.lab.channel.shared.hosts import FIXED, host_address
from multitracer.lab.scenario.session_folder import SERVER_PORT
from multitracer.lab.tcp import Endpoint
from multitracer.measure.centaurus_server import CentaurusServer
from multitracer.measure.exchange import GOODBYE, HELLO, RECEIPT, REPLY, REQUEST
from multitracer.protocols.centaurus import UdpWorker
from multitracer.protocols.centaurus.config import MAX_SEGMENT_BYTES, MIN_SEGMENT_BYTES
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.lab.channel.shared.hosts import HostName
    from multitracer.lab.simulator.datagram import Datagram
    from multitracer.lab.simulator.host import Host
    from multitracer.lab.simulator.world import VirtualWorld
    from multitracer.measure.transports import Options
    from multitracer.protocols.centaurus import Address, Event, Outgoing

_HEADER_BYTES, _SEALED_HEADER_BYTES = 53, 77
"""What of a packet is no data of a segment, as `CentaurusConfig.segment_bytes` counts it."""
SERVER_ADDRESS = (str(IPv4Address(host_address(FIXED))), SERVER_PORT)


class VirtualEndpoint:
    """A worker on a UDP port of a host.

    Parameters
    ----------
    worker : UdpWorker
        The protocol.
    world : VirtualWorld
        The link and the time.
    host : Host
        Where it is.
    port : int
        Its UDP port.
    arrived : callable, optional
        Called after a datagram was taken.
    """

    def __init__(
        self,
        worker: UdpWorker,
        world: VirtualWorld,
        host: Host,
        port: int,
        arrived: Callable[[], None] | None = None,
    ) -> None:
        self.worker = worker
        self.clock: Callable[[], int] = world.clock(host.name)
        self.refused = False
        self.unsendable = 0
        """Datagrams that the interface refused; for the protocol they are lost."""
        self._world = world
        self._host = host
        self._port = port
        self._arrived = arrived
        self._inbox: deque[Datagram] = deque()
        self.did_something = False
        """Whether the last step did, so that another may follow at once."""
        host.bind(port, self._take)

    def send(self, address: Address, kind: int, data: bytes, *, lifetime_ns: int) -> int:
        """Put an object into the table of outgoing objects; return its handle."""
        return self.worker.send(address, kind, data, self.clock(), lifetime_ns=lifetime_ns)

    def work(self, wait_s: float = 0.0) -> list[Event]:
        """Take one small step; if there is nothing to do, let at most so much time pass until there is."""
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
        self._inbox.append(datagram)
        if self._arrived is not None:
            self._arrived()

    def due_ns(self) -> int | None:
        """Return when, by the link's time, the worker's next timer is due."""
        timer_ns = self.worker.next_timer()
        if timer_ns is None:
            return None
        return self._world.now_ns + max(1, timer_ns - self.clock())

    def _put(self, packet: Outgoing) -> None:
        assert isinstance(packet.address, tuple)
        host, port = packet.address
        remote = Endpoint(IPv4Address(host).packed, port)
        self.unsendable += not self._host.send_datagram(self._port, remote, packet.octets)
        self.worker.sent(packet, self.clock())

    def _get(self) -> bool:
        """Take what has arrived first; return whether there was anything."""
        if not self._inbox:
            return False
        source, port, _, _, payload = self._inbox.popleft()
        self.worker.receive(payload, (str(IPv4Address(source)), port), self.clock())
        return True

    def _wait(self, wait_s: float) -> None:
        if wait_s <= 0:
            return
        until_ns = self._world.now_ns + round(wait_s * NS_PER_S)
        due_ns = self.due_ns()
        self._world.wait(until_ns if due_ns is None else min(until_ns, due_ns), lambda: bool(self._inbox))


class VirtualUdp:
    """Both ends of CentaurusComm, the server at work whenever it has something to do.

    Parameters
    ----------
    world : VirtualWorld
        What they live in.
    mobile : str
        Name of the host that measures.
    options : Options
        Extensions and key.
    mtu_bytes : int
        Longest IP packet that the link carries.
    """

    def __init__(self, world: VirtualWorld, mobile: HostName, options: Options, *, mtu_bytes: int) -> None:
        self._world = world

        def worker(*accepted: bytes) -> UdpWorker:
            room = mtu_bytes - (_HEADER_BYTES if options.key is None else _SEALED_HEADER_BYTES)
            segment_bytes = max(MIN_SEGMENT_BYTES, min(room, MAX_SEGMENT_BYTES))
            config = replace(options.config(*accepted), segment_bytes=segment_bytes)
            return UdpWorker(config, random_bytes=world.random_bytes)

        client, server = world.hosts[mobile], world.hosts[FIXED]
        self.client = VirtualEndpoint(worker(REPLY, RECEIPT), world, client, client.free_port)
        self._fixed = VirtualEndpoint(worker(REQUEST, GOODBYE, HELLO), world, server, SERVER_PORT, self._work)
        self._server = CentaurusServer(self._fixed)
        self._alarm_ns: int | None = None

    def _work(self) -> None:
        """Let the server do all that it can do now, then set its alarm."""
        self._server.work(0.0)
        while self._fixed.did_something:
            self._server.work(0.0)
        due_ns = self._fixed.due_ns()
        if due_ns is not None and due_ns != self._alarm_ns:
            self._alarm_ns = due_ns
            self._world.at(due_ns, self._ring)

    def _ring(self) -> None:
        if self._alarm_ns == self._world.now_ns:
            self._alarm_ns = None
            self._work()
