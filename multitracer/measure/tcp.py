"""The client over any TCP, and the server over the kernel's."""

from __future__ import annotations

import json
import select
import socket
from functools import partial
from typing import TYPE_CHECKING

from multitracer.errors import RemoteProtocolError
from multitracer.measure.endpoint import SteadyClock, bound_socket
from multitracer.measure.exchange import (
    GOODBYE,
    RECEIPT,
    REPLY,
    REQUEST,
    MessageReader,
    Words,
    decode_receipt,
    encode,
    filled,
    grown,
    is_complete,
    tcp_info,
)
from multitracer.measure.outcome import REACH_S, TransactionOutcome, UnreachableError
from multitracer.measure.server import Dialogue, TransactionLog
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from multitracer.measure.exchange import TransportConnection
    from multitracer.measure.plan import Transaction

# The client over TCP, that of the kernel or another one.


_CHUNK_BYTES = 65_536


class TcpClient:
    """Does transactions over one TCP connection, or over a new connection for each.

    Parameters
    ----------
    dial : callable
        Connects to the server; takes a timeout in seconds; raises OSError if it fails.
    run : int
        Number of the run; messages of other runs are ignored.
    timeout_s : float
        Time after which a transaction is dropped, s.
    clock : callable, optional
        Returns the time, ns since 1970.
    """

    def __init__(
        self,
        dial: Callable[[float], TransportConnection],
        *,
        run: int,
        timeout_s: float,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._dial = dial
        self._run = run
        self._timeout_s = timeout_s
        self._clock = clock or SteadyClock()
        self._connection: TransportConnection | None = None
        self._reader = MessageReader()

    def reach(self) -> None:
        """Return once the server has accepted a connection."""
        try:
            self._dial(min(self._timeout_s, REACH_S)).close()
        except OSError as error:
            raise UnreachableError(error.strerror or str(error) or "timed out") from error

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def transact(self, transaction: Transaction) -> TransactionOutcome:
        """Do one transaction."""
        if transaction.connection == "per-session":
            self.close()
        outcome = TransactionOutcome(self._clock())
        stage = "connect"
        try:
            connection = self._connected(outcome)
            stage = "reply"
            self._request(connection, transaction, outcome)
            stage = "goodbye"
            self._say_goodbye(connection, transaction, outcome)
        except (OSError, RemoteProtocolError) as error:
            self.close()
            late = isinstance(error, TimeoutError)
            return outcome.drop(stage if late else f"{stage}: {error}")
        return outcome

    def _connected(self, outcome: TransactionOutcome) -> TransportConnection:
        if self._connection is None:
            self._reader = MessageReader()
            begin_ns = self._clock()
            self._connection = self._dial(self._timeout_s)
            outcome.connect_ns = self._clock() - begin_ns
        return self._connection

    def _words(self, transaction: Transaction, letters: bytes, body: bytes = b"") -> Words:
        timeout_ms = round(self._timeout_s * 1000)
        return Words(letters, self._run, transaction.number, transaction.reply_bytes, timeout_ms, body)

    def _request(self, connection: TransportConnection, transaction: Transaction, outcome: TransactionOutcome) -> None:
        request = filled(self._words(transaction, REQUEST), transaction.request_bytes)
        before = connection.info()
        outcome.start_ns = self._clock()
        self._send(connection, request, outcome.start_ns)
        reply = self._await(connection, REPLY, transaction, outcome.start_ns)
        outcome.rtt_ns = self._clock() - outcome.start_ns
        if not is_complete(reply):
            raise RemoteProtocolError("the message is not the requested reply")
        after = connection.info()
        outcome.retransmitted_client = grown(before, after, "total_retrans")
        outcome.bytes_up = grown(before, after, "bytes_sent")

    def _say_goodbye(
        self, connection: TransportConnection, transaction: Transaction, outcome: TransactionOutcome
    ) -> None:
        values = json.dumps(outcome.recorded()).encode()
        begin_ns = self._clock()
        self._send(connection, encode(self._words(transaction, GOODBYE, values)), begin_ns)
        outcome.follow(decode_receipt(self._await(connection, RECEIPT, transaction, begin_ns).body))

    def _send(self, connection: TransportConnection, octets: bytes, begin_ns: int) -> None:
        connection.settimeout(self._left_s(begin_ns))
        connection.sendall(octets)

    def _await(self, connection: TransportConnection, letters: bytes, transaction: Transaction, begin_ns: int) -> Words:
        """Return this transaction's message of the given kind."""
        while True:
            connection.settimeout(self._left_s(begin_ns))
            octets = connection.recv(_CHUNK_BYTES)
            if not octets:
                raise RemoteProtocolError("the server closed the connection")
            for words in self._reader.feed(octets):
                if (words.letters, words.run, words.number) == (letters, self._run, transaction.number):
                    return words

    def _left_s(self, begin_ns: int) -> float:
        left_s = self._timeout_s - (self._clock() - begin_ns) / NS_PER_S
        if left_s <= 0:
            raise TimeoutError
        return left_s


# The server over the kernel's TCP: many connections in one thread, without blocking calls.


_MAX_CONNECTIONS = 256
_MAX_PER_HOST = 64
_IDLE_NS = 3600 * NS_PER_S
"""Idle time after which the server may close a client that has sent requests, to accept another."""
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
        self.warnings: list[str] = []
        self.records = TransactionLog(folder, self._clock, warn=self.warnings.append)
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
        self.records.close()

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
        """Close the longest idle connection, first among those without a request.

        Return whether one was closed.
        """
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
