"""The client over TCP, that of the kernel or another one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from multitracer.errors import RemoteProtocolError
from multitracer.measure.clock import SteadyClock
from multitracer.measure.exchange import (
    GOODBYE,
    RECEIPT,
    REPLY,
    REQUEST,
    Words,
    decode_receipt,
    encode,
    filled,
    is_whole,
)
from multitracer.measure.outcome import REACH_S, Outcome, UnreachableError
from multitracer.measure.stream import MessageReader, grown
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.measure.plan import Transaction
    from multitracer.measure.stream import Connected

_CHUNK_BYTES = 65_536


class TcpClient:
    """Does transactions over one connection, or one connection each.

    Parameters
    ----------
    dial : callable
        Connects to the server within so many seconds, or raises an OSError.
    run : int
        A number that tells this run's messages from those of others.
    timeout_s : float
        When a transaction is dropped.
    clock : callable, optional
        Returns the time, ns since 1970.
    """

    def __init__(
        self,
        dial: Callable[[float], Connected],
        *,
        run: int,
        timeout_s: float,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._dial = dial
        self._run = run
        self._timeout_s = timeout_s
        self._clock = clock or SteadyClock()
        self._connection: Connected | None = None
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

    def transact(self, transaction: Transaction) -> Outcome:
        """Do one transaction."""
        if transaction.connection == "per-session":
            self.close()
        outcome = Outcome(self._clock())
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

    def _connected(self, outcome: Outcome) -> Connected:
        if self._connection is None:
            self._reader = MessageReader()
            begin_ns = self._clock()
            self._connection = self._dial(self._timeout_s)
            outcome.connect_ns = self._clock() - begin_ns
        return self._connection

    def _words(self, transaction: Transaction, letters: bytes, body: bytes = b"") -> Words:
        timeout_ms = round(self._timeout_s * 1000)
        return Words(letters, self._run, transaction.number, transaction.reply_bytes, timeout_ms, body)

    def _request(self, connection: Connected, transaction: Transaction, outcome: Outcome) -> None:
        request = filled(self._words(transaction, REQUEST), transaction.request_bytes)
        before = connection.info()
        outcome.start_ns = self._clock()
        self._send(connection, request, outcome.start_ns)
        reply = self._await(connection, REPLY, transaction, outcome.start_ns)
        outcome.rtt_ns = self._clock() - outcome.start_ns
        if not is_whole(reply):
            raise RemoteProtocolError("not the requested reply")
        after = connection.info()
        outcome.retransmitted_client = grown(before, after, "total_retrans")
        outcome.bytes_up = grown(before, after, "bytes_sent")

    def _say_goodbye(self, connection: Connected, transaction: Transaction, outcome: Outcome) -> None:
        values = json.dumps(outcome.recorded()).encode()
        begin_ns = self._clock()
        self._send(connection, encode(self._words(transaction, GOODBYE, values)), begin_ns)
        outcome.follow(decode_receipt(self._await(connection, RECEIPT, transaction, begin_ns).body))

    def _send(self, connection: Connected, octets: bytes, begin_ns: int) -> None:
        connection.settimeout(self._left_s(begin_ns))
        connection.sendall(octets)

    def _await(self, connection: Connected, letters: bytes, transaction: Transaction, begin_ns: int) -> Words:
        """Return this transaction's message of the given kind."""
        while True:
            connection.settimeout(self._left_s(begin_ns))
            octets = connection.recv(_CHUNK_BYTES)
            if not octets:
                raise RemoteProtocolError("closed by the server")
            for words in self._reader.feed(octets):
                if (words.letters, words.run, words.number) == (letters, self._run, transaction.number):
                    return words

    def _left_s(self, begin_ns: int) -> float:
        left_s = self._timeout_s - (self._clock() - begin_ns) / NS_PER_S
        if left_s <= 0:
            raise TimeoutError
        return left_s
