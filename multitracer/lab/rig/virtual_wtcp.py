"""WTCP in virtual time under the client and the server of `measure`: only way and clock are others."""

from __future__ import annotations

import errno
import os
from collections import deque
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from multitracer.lab.channel.shared.hosts import FIXED
from multitracer.lab.scenario.session_folder import SERVER_PORT
from multitracer.lab.tcp import Endpoint
from multitracer.measure.server import Records
from multitracer.measure.wtcp_server import WtcpService
from multitracer.measure.wtcp_stream import WtcpStream
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.lab.channel.shared.hosts import HostName
    from multitracer.lab.simulator.datagram import Datagram
    from multitracer.lab.simulator.host import Host
    from multitracer.lab.simulator.world import VirtualWorld
    from multitracer.protocols.wtcp import WtcpConfig, WtcpOutgoing


class VirtualWay:
    """A UDP port of a host, from which datagrams go to one peer; `take` lets virtual time pass.

    Parameters
    ----------
    world : VirtualWorld
        The link and the time.
    host : Host
        Where the port is; the next free one.
    remote : Endpoint
        The peer.
    """

    def __init__(self, world: VirtualWorld, host: Host, remote: Endpoint) -> None:
        self.clock: Callable[[], int] = world.clock(host.name)
        self._world = world
        self._host = host
        self._remote = remote
        self._port = host.free_port
        self._inbox: deque[Datagram] = deque()
        host.bind(self._port, self._inbox.append)

    def send(self, octets: bytes) -> None:
        """Send a datagram; an OSError says that the interface refused it."""
        if not self._host.send_datagram(self._port, self._remote, octets):
            raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))

    def take(self, wait_s: float) -> bytes | None:
        """Return the next datagram, None if none arrives in the given time."""
        if not self._inbox:  # a ns at least: who finds nothing to do must not stop the time
            until_ns = self._world.now_ns + max(1, round(wait_s * NS_PER_S))
            self._world.wait(until_ns, lambda: bool(self._inbox))
        return self._inbox.popleft().payload if self._inbox else None

    def close(self) -> None:
        """Let the port go."""
        self._host.unbind(self._port)


class VirtualWtcp:
    """A mobile that measures, and the fixed host that listens.

    Parameters
    ----------
    world : VirtualWorld
        Whose hosts they are.
    mobile : str
        Name of the host that measures.
    config : WtcpConfig
        Of both ends.
    """

    def __init__(self, world: VirtualWorld, mobile: HostName, config: WtcpConfig) -> None:
        self._world = world
        self._config = config
        self._mobile, self._fixed = world.hosts[mobile], world.hosts[FIXED]
        self._clock = world.clock(FIXED)
        self._service = WtcpService(
            config,
            records=Records(None, self._clock),
            clock=self._clock,
            random_bytes=world.random_bytes,
        )
        self._alarm_ns: int | None = None
        self._fixed.bind(SERVER_PORT, self._take)

    def dial(self, timeout_s: float) -> WtcpStream:
        """Return a new connection from the mobile to the server; an OSError says why there is none."""
        way = VirtualWay(self._world, self._mobile, Endpoint(self._fixed.address, SERVER_PORT))
        stream = WtcpStream(way, self._config, self._world.random_bytes)
        stream.open(timeout_s)
        return stream

    # --- the server ---

    def _take(self, datagram: Datagram) -> None:
        peer = str(IPv4Address(datagram.source)), datagram.source_port
        self._service.receive(datagram.payload, peer)
        self._work()

    def _work(self) -> None:
        """Let the server do all that it can do now, then set its alarm."""
        self._service.serve()
        while (packet := self._service.worker.outgoing(self._clock())) is not None:
            self._send(packet)
        next_ns = self._service.worker.next_ns
        if next_ns is None:
            return
        due_ns = self._world.now_ns + max(1, next_ns - self._clock())  # its clock may be a little faster
        if due_ns != self._alarm_ns:
            self._alarm_ns = due_ns
            self._world.at(due_ns, self._ring)

    def _send(self, packet: WtcpOutgoing) -> None:
        """Send a datagram; for the protocol one that the interface refused is lost."""
        assert isinstance(packet.address, tuple)
        host, port = packet.address
        self._fixed.send_datagram(SERVER_PORT, Endpoint(IPv4Address(host).packed, port), packet.octets)

    def _ring(self) -> None:
        if self._alarm_ns == self._world.now_ns:  # else another alarm was set meanwhile
            self._alarm_ns = None
            self._work()
