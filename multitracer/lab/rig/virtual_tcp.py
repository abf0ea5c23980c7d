"""TCP in virtual time under the client and the server of `measure`: connections that wait as sockets do."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from multitracer.errors import RemoteProtocolError
from multitracer.lab.channel.shared.hosts import FIXED
from multitracer.lab.scenario.session_folder import SERVER_PORT
from multitracer.lab.simulator.application import Application
from multitracer.lab.simulator.tcp_state_log import tcp_info_fields
from multitracer.lab.tcp import Endpoint, State
from multitracer.measure.dialogue import Dialogue
from multitracer.measure.server import Records
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from multitracer.lab.channel.shared.hosts import HostName
    from multitracer.lab.simulator.host import Host
    from multitracer.lab.simulator.world import VirtualWorld
    from multitracer.lab.tcp import Connection

_ERRORS = {"refused": errno.ECONNREFUSED, "timed out": errno.ETIMEDOUT}
"""Why our TCP ended a connection -> the error that a socket raises; for anything else that of a reset."""


class VirtualConnection(Application):
    """The client's end of a connection; its methods let virtual time pass.

    Parameters
    ----------
    world : VirtualWorld
        The time.
    host : Host
        The client's.
    """

    def __init__(self, world: VirtualWorld, host: Host) -> None:
        self._world = world
        self._host = host
        self._timeout_ns = 0
        self._unsent = b""
        self._received = bytearray()
        self._is_closed = False
        self._socket = host.connect(Endpoint(world.hosts[FIXED].address, SERVER_PORT), self)

    @classmethod
    def dial(cls, world: VirtualWorld, host: Host, timeout_s: float) -> VirtualConnection:
        """Return a connection to the server; an OSError says why there is none."""
        made = cls(world, host)
        made.settimeout(timeout_s)
        tcp = made._socket.connection
        try:
            made._wait(lambda: tcp.state is not State.SYN_SENT)
        except OSError:
            made.close()
            raise
        return made

    # --- as of a socket ---

    def settimeout(self, seconds: float, /) -> None:
        """Set how long `sendall` and `recv` wait before they raise TimeoutError."""
        self._timeout_ns = round(seconds * NS_PER_S)

    def sendall(self, octets: bytes, /) -> None:
        """Return when TCP has taken all octets."""
        self._unsent = octets
        if self._socket.connection.state is not State.CLOSED:  # else `_wait` says why
            self._host.pump(self._socket)
        self._wait(lambda: not self._unsent)

    def recv(self, most: int, /) -> bytes:
        """Return what arrived, empty at the end."""
        self._wait(lambda: bool(self._received) or self._socket.connection.at_end)
        octets = bytes(self._received[:most])
        del self._received[:most]
        return octets

    def close(self) -> None:
        """Close it; what was sent is still delivered, what comes from now on is answered by a RST."""
        tcp = self._socket.connection
        self._is_closed = True
        if tcp.state is State.CLOSED:
            return
        if self._received or tcp.state is State.SYN_SENT:
            tcp.abort()
        else:
            tcp.close()
        self._host.pump(self._socket)

    def info(self) -> Mapping[str, int]:
        """Return TCP's variables, by the names of `struct tcp_info`."""
        return tcp_info_fields(self._socket.connection)

    def _wait(self, done: Callable[[], bool]) -> None:
        tcp, until_ns = self._socket.connection, self._world.now_ns + self._timeout_ns
        if not self._world.wait(until_ns, lambda: done() or tcp.error is not None):
            raise TimeoutError
        if tcp.error is not None and not done():
            number = _ERRORS.get(tcp.error, errno.ECONNRESET)
            raise OSError(number, os.strerror(number))

    # --- as of an application ---

    def advance(self, connection: Connection, now_ns: int) -> None:
        """Move what can be moved between TCP and the client."""
        del now_ns
        arrived = connection.read()
        if self._is_closed:
            if arrived:
                connection.abort()
            return
        self._received += arrived
        if self._unsent and connection.state in _WRITABLE:
            self._unsent = self._unsent[connection.write(self._unsent) :]


_WRITABLE = {State.ESTABLISHED, State.CLOSE_WAIT}


class _Served(Application):
    """The server's end of a connection."""

    def __init__(self, dialogue: Callable[[Connection], Dialogue]) -> None:
        self._make = dialogue
        self._dialogue: Dialogue | None = None

    def advance(self, connection: Connection, now_ns: int) -> None:
        """Hear what arrived, answer, close when the client does."""
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
    """A mobile that measures, and the fixed host that listens; closed sockets are forgotten.

    Parameters
    ----------
    world : VirtualWorld
        Whose hosts they are.
    mobile : str
        Name of the host that measures.
    """

    def __init__(self, world: VirtualWorld, mobile: HostName) -> None:
        self._world = world
        self._clock = world.clock(FIXED)
        self._records = Records(None, self._clock)
        self._mobile, server = world.hosts[mobile], world.hosts[FIXED]
        self._mobile.keeps_closed = server.keeps_closed = False
        server.listen(SERVER_PORT, lambda: _Served(self._dialogue))

    def dial(self, timeout_s: float) -> VirtualConnection:
        """Return a new connection from the mobile to the server."""
        return VirtualConnection.dial(self._world, self._mobile, timeout_s)

    def _dialogue(self, connection: Connection) -> Dialogue:
        name = f"{self._mobile.name}:{connection.remote.port}"
        return Dialogue(
            name, records=self._records, clock=self._clock, info=lambda: tcp_info_fields(connection)
        )
