"""The server over the kernel's TCP: many connections in one thread, without blocking calls."""

from __future__ import annotations

import select
import socket
from functools import partial
from typing import TYPE_CHECKING

from multitracer.errors import RemoteProtocolError
from multitracer.measure.clock import SteadyClock
from multitracer.measure.dialogue import Dialogue
from multitracer.measure.endpoint import bound_socket
from multitracer.measure.server import Records
from multitracer.measure.stream import tcp_info
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

_CHUNK_BYTES = 65_536
_MAX_CONNECTIONS = 256
_MAX_PER_HOST = 64
_IDLE_NS = 3600 * NS_PER_S
"""After so long a client that has asked before makes room for another."""
_BACKLOG = 64


class _Connection:
    """One client."""

    def __init__(self, accepted: socket.socket, host: str, dialogue: Dialogue, now_ns: int) -> None:
        self.socket = accepted
        self.host = host
        self.dialogue = dialogue
        self.heard_ns = now_ns


class TcpServer:
    """Answers requests on TCP connections.

    Parameters
    ----------
    bind : (host, port)
        Where to listen.
    folder : Path, optional
        Where transactions are recorded.
    """

    def __init__(self, bind: tuple[str, int], *, folder: Path | None = None) -> None:
        self._clock = SteadyClock()
        self.records = Records(folder, self._clock)
        self._listener = bound_socket(bind, socket.SOCK_STREAM)
        self._listener.listen(_BACKLOG)
        self._listener.setblocking(False)
        self._connections: dict[int, _Connection] = {}

    @property
    def address(self) -> tuple[str, int]:
        """Host and port at which it accepts connections."""
        host, port = self._listener.getsockname()[:2]
        return str(host), int(port)

    def close(self) -> None:
        """Close every connection."""
        for each in self._connections.values():
            each.socket.close()
        self._connections.clear()
        self._listener.close()

    def work(self, wait_s: float) -> None:
        """Accept, read, answer and write whatever is ready."""
        listener = self._listener.fileno()
        writers = [number for number, each in self._connections.items() if each.dialogue.unsent]
        readable, writable, _ = select.select([listener, *self._connections], writers, [], wait_s)
        for number in readable:
            if number == listener:
                self._accept()
            elif (connection := self._connections.get(number)) is not None:
                self._guard(self._read, connection)
        for number in writable:
            if (connection := self._connections.get(number)) is not None:
                self._guard(self._write, connection)

    def _guard(self, step: Callable[[_Connection], None], connection: _Connection) -> None:
        """Do a step for one client; an error of that client ends only its own connection."""
        try:
            step(connection)
        except (OSError, RemoteProtocolError):
            self._drop(connection)

    def _accept(self) -> None:
        try:
            accepted, address = self._listener.accept()
        except OSError:  # gone before it was accepted
            return
        now_ns = self._clock()
        if not self._has_room(address[0], now_ns):
            accepted.close()
            return
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        name, info = f"{address[0]}:{address[1]}", partial(tcp_info, accepted)
        dialogue = Dialogue(name, records=self.records, clock=self._clock, info=info)
        self._connections[accepted.fileno()] = _Connection(accepted, address[0], dialogue, now_ns)

    def _has_room(self, host: str, now_ns: int) -> bool:
        """Return whether another client may be accepted; close an idle connection if necessary."""
        of_host = [each for each in self._connections.values() if each.host == host]
        if len(of_host) >= _MAX_PER_HOST:
            return self._made_room(of_host, now_ns)
        if len(self._connections) >= _MAX_CONNECTIONS:
            return self._made_room(self._connections.values(), now_ns)
        return True

    def _made_room(self, among: Iterable[_Connection], now_ns: int) -> bool:
        """Return whether an idle connection was closed: the longest idle, those that never asked first."""
        first = min(among, key=lambda each: (each.dialogue.has_asked, each.heard_ns))
        if first.dialogue.has_asked and now_ns - first.heard_ns < _IDLE_NS:
            return False
        self._drop(first)
        return True

    def _drop(self, connection: _Connection) -> None:
        del self._connections[connection.socket.fileno()]
        connection.socket.close()

    def _read(self, connection: _Connection) -> None:
        octets = connection.socket.recv(_CHUNK_BYTES)
        if not octets:
            self._drop(connection)
            return
        connection.heard_ns = self._clock()
        connection.dialogue.hear(octets)
        self._write(connection)

    def _write(self, connection: _Connection) -> None:
        dialogue = connection.dialogue
        if not dialogue.unsent or connection.socket.fileno() < 0:
            return
        try:
            dialogue.unsent = dialogue.unsent[connection.socket.send(dialogue.unsent) :]
        except BlockingIOError:
            return
