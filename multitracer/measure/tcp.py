"""The client over any TCP, and the server over the kernel's."""

from __future__ import annotations

import errno
import json
import select
import socket
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from multitracer.endpoints import host_port
from multitracer.errors import RemoteProtocolError
from multitracer.measure.endpoint import SteadyClock, bound_address, bound_socket
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
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from multitracer.measure.exchange import TransportConnection
    from multitracer.measure.outcome import ContextOf
    from multitracer.measure.plan import Transaction
    from multitracer.measure.server import ServerDialogue

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
    context_of : callable, optional
        Returns radio and place during a transaction.
    """

    def __init__(
        self,
        dial: Callable[[float], TransportConnection],
        *,
        run: int,
        timeout_s: float,
        clock: Callable[[], int] | None = None,
        context_of: ContextOf | None = None,
    ) -> None:
        self._context_of = context_of
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
            outcome.surround(self._context_of, self._clock())
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
        outcome.surround(self._context_of, self._clock())
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
#
# Who is disconnected. A client makes progress when octets arrive from it, or its TCP acknowledges octets of ours.
# Slow links, full queues and slow readers make progress all the time; a program that sends nothing, or never
# reads, makes none. Only an outage does so on an honest path, therefore a client that has done a transaction, or
# to which the kernel repeats data in vain, has ten minutes. When the server is full, who made no progress for ten
# seconds gives way to a new client, and so does, at an address with more connections than the new client's, who
# has not done a transaction yet.


_MAX_CONNECTIONS = 256
_MAX_PER_HOST = 64
_IDLE_NS = 50 * NS_PER_S
"""Time without progress after which a client is disconnected: with `_LOOK_NS` within a minute."""
_OUTAGE_NS = 600 * NS_PER_S
"""The same where it may be an outage (not measured: longer ones are rare, and clients give up after 120 s)."""
_YIELD_NS = 10 * NS_PER_S
"""Time without progress after which a client gives way to another one if the server is full (not measured)."""
_MIN_BYTES_PER_S = 64
"""Minimum rate of a message after its first `_IDLE_NS`: a tenth of the slowest link here (CDPD, shared by ten)."""
_LOOK_NS = 5 * NS_PER_S
"""Time between two looks at the progress of all clients; one costs 3 ms with 256 clients."""
_RETRY_NS = NS_PER_S
"""Time after which the server tries again to accept, if the system had no descriptor for it."""
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_BACKLOG = 64


class _Connection:
    """One client."""

    def __init__(self, accepted: socket.socket, host: str, dialogue: ServerDialogue, now_ns: int) -> None:
        self.socket = accepted
        self.host = host
        self.dialogue = dialogue
        self.progress_ns = now_ns
        """Time of the last progress."""
        self._acked_bytes = tcp_info(accepted).get("bytes_acked", 0)
        self._began_ns: int | None = None
        """Time at which the message that is not complete yet began to arrive."""
        self._begun_bytes = 0

    @property
    def standing(self) -> tuple[bool, bool, int]:
        """What decides who is closed first: the smallest."""
        return self.dialogue.completed > 0, self.dialogue.has_asked, self.progress_ns

    def hear(self, octets: bytes, now_ns: int) -> None:
        """Process octets that arrived."""
        self.progress_ns = now_ns
        messages = self.dialogue.messages
        self.dialogue.hear(octets)
        if self.dialogue.messages > messages:
            self._began_ns, self._begun_bytes = None, 0
        else:
            self._began_ns = self._began_ns or now_ns
            self._begun_bytes += len(octets)

    def is_stuck(self, now_ns: int) -> bool:
        """Look at what the client's TCP acknowledged; return whether the client must be disconnected."""
        info = tcp_info(self.socket)
        if (acked_bytes := info.get("bytes_acked", 0)) != self._acked_bytes:
            self._acked_bytes, self.progress_ns = acked_bytes, now_ns
        if self._began_ns is not None:
            slowest_ns = self._begun_bytes * NS_PER_S // _MIN_BYTES_PER_S
            if now_ns - self._began_ns > _IDLE_NS + slowest_ns:
                return True
        may_be_outage = self.dialogue.completed > 0 or info.get("retransmits", 0) > 0
        return now_ns - self.progress_ns > (_OUTAGE_NS if may_be_outage else _IDLE_NS)


def _standing(connection: _Connection) -> tuple[bool, bool, int]:
    return connection.standing


class TcpServer:
    """Answers requests on TCP connections.

    Parameters
    ----------
    bind : (host, port)
        Where to listen.
    folder : Path, optional
        Where transactions are recorded.
    dialogue : callable, optional
        Makes the server's side of an accepted connection with a client of this name; by default one of transactions.
    """

    def __init__(
        self,
        bind: tuple[str, int],
        *,
        folder: Path | None = None,
        dialogue: Callable[[socket.socket, str], ServerDialogue] | None = None,
    ) -> None:
        self._dialogue = dialogue or self._transactions
        self._clock = SteadyClock()
        self.warnings: list[str] = []
        self.records = TransactionLog(folder, self._clock, warn=self.warnings.append)
        self._listener = bound_socket(bind, socket.SOCK_STREAM)
        self._listener.listen(_BACKLOG)
        self._listener.setblocking(False)
        self._connections: dict[int, _Connection] = {}
        self._look_ns = 0
        """Time of the next look at the progress of all clients."""
        self._accept_ns = 0
        """Time before which no connection is accepted, because the system has no descriptor."""
        self._was_exhausted = False

    @property
    def address(self) -> tuple[str, int]:
        """Host and port at which it accepts connections."""
        return bound_address(self._listener)

    def close(self) -> None:
        """Close every connection and the log."""
        for each in self._connections.values():
            each.socket.close()
        self._connections.clear()
        self._listener.close()
        self.records.close()

    def work(self, wait_s: float) -> None:
        """Accept, read, answer and write whatever is ready."""
        now_ns = self._clock()
        if now_ns >= self._look_ns:
            self._look(now_ns)
        listener = self._listener.fileno()
        readers = list(self._connections)
        if now_ns >= self._accept_ns:
            readers.append(listener)
        else:
            wait_s = min(wait_s, (self._accept_ns - now_ns) / NS_PER_S)
        writers = [number for number, each in self._connections.items() if each.dialogue.unsent]
        readable, writable, _ = select.select(readers, writers, [], wait_s)
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

    def _look(self, now_ns: int) -> None:
        """Disconnect every client that makes no progress."""
        self._look_ns = now_ns + _LOOK_NS
        for each in list(self._connections.values()):
            if each.is_stuck(now_ns):
                self._drop(each)

    def _accept(self) -> None:
        now_ns = self._clock()
        try:
            accepted, address = self._listener.accept()
        except OSError as error:  # else it is gone before it was accepted
            if error.errno in _EXHAUSTED and not self._make_room(list(self._connections.values()), now_ns):
                self._accept_ns = now_ns + _RETRY_NS
                self._warn_exhausted(error)
            return
        if not self._has_room(address[0], now_ns):
            accepted.close()
            return
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        dialogue = self._dialogue(accepted, host_port(*address[:2]))
        self._connections[accepted.fileno()] = _Connection(accepted, address[0], dialogue, now_ns)

    def _transactions(self, accepted: socket.socket, name: str) -> Dialogue:
        return Dialogue(name, records=self.records, clock=self._clock, info=partial(tcp_info, accepted))

    def _warn_exhausted(self, error: OSError) -> None:
        if not self._was_exhausted:
            self._was_exhausted = True
            self.warnings.append(
                f"cannot accept a connection ({error.strerror}); new clients wait until others leave; "
                f"raise the limit of open files (`ulimit -n`) above {_MAX_CONNECTIONS}"
            )

    def _has_room(self, host: str, now_ns: int) -> bool:
        """Return whether another client may be accepted; close a connection if necessary."""
        of_host = [each for each in self._connections.values() if each.host == host]
        if len(of_host) >= _MAX_PER_HOST:
            return self._make_room(of_host, now_ns)
        if len(self._connections) < _MAX_CONNECTIONS:
            return True
        if self._make_room(list(self._connections.values()), now_ns):
            return True
        hosts = Counter(each.host for each in self._connections.values())
        largest, number = hosts.most_common(1)[0]
        first = min((each for each in self._connections.values() if each.host == largest), key=_standing)
        if number <= len(of_host) + 1 or first.dialogue.completed:
            return False
        self._drop(first)
        return True

    def _make_room(self, among: Sequence[_Connection], now_ns: int) -> bool:
        """Close the client with the lowest standing if it makes no progress, or has not asked for anything.

        Return whether one was closed.
        """
        if self._look_ns - now_ns < _LOOK_NS - NS_PER_S:  # what the clients' TCP acknowledged is old
            self._look(now_ns)
            if any(each.socket.fileno() < 0 for each in among):
                return True
        first = min(among, key=_standing, default=None)
        if first is None or (first.dialogue.has_asked and now_ns - first.progress_ns < _YIELD_NS):
            return False
        self._drop(first)
        return True

    def _drop(self, connection: _Connection) -> None:
        del self._connections[connection.socket.fileno()]
        connection.socket.close()
        self._accept_ns = 0

    def _read(self, connection: _Connection) -> None:
        octets = connection.socket.recv(_CHUNK_BYTES)
        if not octets:
            self._drop(connection)
            return
        connection.hear(octets, self._clock())
        self._write(connection)

    def _write(self, connection: _Connection) -> None:
        dialogue = connection.dialogue
        if not dialogue.unsent or connection.socket.fileno() < 0:
            return
        try:
            dialogue.unsent = dialogue.unsent[connection.socket.send(dialogue.unsent) :]
            connection.progress_ns = self._clock()
        except BlockingIOError:
            return
