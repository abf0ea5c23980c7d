"""The client and the server over CentaurusComm, on UDP or on serial lines (client: slave, server: master)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from multitracer.endpoints import host_port
from multitracer.errors import LocalProtocolError, RemoteProtocolError
from multitracer.measure.exchange import (
    GOODBYE,
    HELLO,
    LETTERS,
    RECEIPT,
    REPLY,
    REQUEST,
    Words,
    decode,
    decode_receipt,
    encode,
    filled,
    is_complete,
    recorded_values,
)
from multitracer.measure.outcome import REACH_S, TransactionOutcome, UnreachableError
from multitracer.measure.server import Served, TransactionLog, receipt_for, reply_to
from multitracer.protocols.centaurus.events import (
    ClockCompared,
    Expired,
    ObjectDelivered,
    Received,
    Rejected,
    SessionEnded,
)
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.measure.endpoint import CentaurusEndpoint
    from multitracer.measure.outcome import ContextOf
    from multitracer.measure.plan import Transaction
    from multitracer.protocols.centaurus.events import Address, Event

# The client over CentaurusComm, on UDP or on a serial line (where it is the slave).


_WAIT_S = 0.05


def class_of(letters: bytes) -> int:
    """Return the CentaurusComm object class for a type of message."""
    return 1 + LETTERS.index(letters)


class CentaurusClient:
    """Does transactions with one server.

    Parameters
    ----------
    endpoint : CentaurusEndpoint
        The medium.
    address
        Address of the server.
    run, timeout_s, context_of
        As `TcpClient`.
    """

    def __init__(
        self,
        endpoint: CentaurusEndpoint,
        address: Address,
        *,
        run: int,
        timeout_s: float,
        context_of: ContextOf | None = None,
    ) -> None:
        self._context_of = context_of
        self._endpoint = endpoint
        self._address = address
        self._run = run
        self._timeout_s = timeout_s
        self._sent_bytes = 0
        self._delivered = False

    def reach(self) -> None:
        """Wait until the server has acknowledged a hello message."""
        handle = self._send(Words(HELLO, self._run, 0, 0, 0, b""))
        patience_s = min(self._timeout_s, REACH_S)
        deadline_ns = self._endpoint.clock() + round(patience_s * NS_PER_S)
        delivered = False
        while self._endpoint.clock() < deadline_ns:
            for event in self._work():
                delivered |= isinstance(event, ObjectDelivered) and event.handle == handle
                if isinstance(event, Rejected):
                    raise UnreachableError(
                        "the CentaurusComm server at this address is not `multitracer measure serve`"
                    )
            if delivered and self._is_idle():
                return
            if self._endpoint.refused:
                raise UnreachableError("no server listens at this address")
        raise UnreachableError(f"the server did not answer within {patience_s:g} s")

    def close(self) -> None:
        """Close the medium."""
        self._endpoint.close()

    def transact(self, transaction: Transaction) -> TransactionOutcome:
        """Do one transaction."""
        outcome = self._outcome_of(transaction)
        outcome.surround(self._context_of, self._endpoint.clock())
        return outcome

    def _outcome_of(self, transaction: Transaction) -> TransactionOutcome:
        self._sent_bytes = 0
        request = filled(self._words(transaction, REQUEST), transaction.request_bytes)
        outcome = TransactionOutcome(self._endpoint.clock())
        handle = self._send_octets(REQUEST, request)
        reply = self._await(REPLY, handle, transaction, outcome)
        if reply is None:
            return outcome.drop("reply" if self._delivered else "request")
        if not is_complete(decode(reply.data)):
            return outcome.drop("reply: not the requested one")
        outcome.rtt_ns = reply.time_ns - outcome.start_ns
        outcome.reply_payload_bytes = reply.payload_bytes
        outcome.bytes_up = self._sent_bytes
        outcome.surround(self._context_of, reply.time_ns)
        values = json.dumps(outcome.recorded()).encode()
        handle = self._send(self._words(transaction, GOODBYE, values))
        receipt = self._await(RECEIPT, handle, transaction, outcome)
        if receipt is None:
            return outcome.drop("goodbye")
        try:
            outcome.follow(decode_receipt(decode(receipt.data).body))
        except RemoteProtocolError as error:
            return outcome.drop(f"goodbye: {error}")
        return outcome

    def _words(self, transaction: Transaction, letters: bytes, body: bytes = b"") -> Words:
        timeout_ms = round(self._timeout_s * 1000)
        return Words(letters, self._run, transaction.number, transaction.reply_bytes, timeout_ms, body)

    def _send(self, words: Words) -> int:
        return self._send_octets(words.letters, encode(words))

    def _send_octets(self, letters: bytes, octets: bytes) -> int:
        lifetime_ns = round(self._timeout_s * NS_PER_S)
        return self._endpoint.send(self._address, class_of(letters), octets, lifetime_ns=lifetime_ns)

    def _deadline_ns(self) -> int:
        return self._endpoint.clock() + round(self._timeout_s * NS_PER_S)

    def _work(self) -> list[Event]:
        events = self._endpoint.work(_WAIT_S)
        self._sent_bytes += sum(event.sent_bytes for event in events if isinstance(event, SessionEnded))
        return events

    def _await(
        self, letters: bytes, handle: int, transaction: Transaction, outcome: TransactionOutcome
    ) -> Received | None:
        """Wait for the answer to an object, and return it; None after the timeout."""
        self._delivered = False
        answer: Received | None = None
        deadline_ns = self._deadline_ns()
        while self._endpoint.clock() < deadline_ns:
            for event in self._work():
                if isinstance(event, ObjectDelivered) and event.handle == handle:
                    self._delivered = True
                    if letters == REPLY:
                        outcome.retransmitted_client = event.segments_sent - event.segments
                elif isinstance(event, ClockCompared):
                    outcome.compare(event.offset_ns, event.uncertainty_ns)
                elif isinstance(event, Received) and self._is_answer(event, transaction, letters):
                    answer = event
                elif isinstance(event, Expired | Rejected) and event.handle == handle:
                    return None
            if answer is not None and self._is_idle():
                break
        return answer

    def _is_idle(self) -> bool:
        return not self._endpoint.worker.sessions

    def _is_answer(self, event: Received, transaction: Transaction, letters: bytes) -> bool:
        try:
            words = decode(event.data)
        except RemoteProtocolError:
            return False
        return (words.letters, words.run, words.number) == (letters, self._run, transaction.number)


# The server over CentaurusComm, on UDP or on serial lines (where it is the master).


_MAX_CLIENTS = 4096
_LONGEST_MS = 600_000
"""Maximum time in ms for which the server tries to send a reply; it limits the timeout of the client."""


def _name_of(address: Address) -> str:
    """Return HOST:PORT, or line:station for a serial line."""
    return host_port(str(address[0]), address[1]) if isinstance(address, tuple) else str(address)


class _Client:
    """The current transaction of one client, and the counters of the transport at its begin."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.reply = 0
        """The handle of the reply."""


class CentaurusServer:
    """Answers requests that arrive as objects.

    Parameters
    ----------
    endpoint : CentaurusEndpoint
        The medium.
    folder : Path, optional
        Folder of the log of transactions.
    """

    def __init__(self, endpoint: CentaurusEndpoint, *, folder: Path | None = None) -> None:
        self._endpoint = endpoint
        self.warnings: list[str] = []
        self.records = TransactionLog(folder, endpoint.clock, warn=self.warnings.append)
        self._clients: dict[Address, _Client] = {}

    def close(self) -> None:
        """Close the medium and the log."""
        self._endpoint.close()
        self.records.close()

    def work(self, wait_s: float) -> None:
        """Do one small step; if there is nothing to do, wait for at most the given time."""
        for event in self._endpoint.work(wait_s):
            try:
                self._follow(event)
            except (LocalProtocolError, RemoteProtocolError):
                continue  # of this client only: it will find its transaction dropped

    def _follow(self, event: Event) -> None:
        client = self._clients.get(event.peer)
        if isinstance(event, Received):
            words = decode(event.data)
            if words.letters == REQUEST:
                self._answer(event, words)
            elif words.letters == GOODBYE and client is not None:
                self._take_leave(event, words, client.served)
        elif client is not None and isinstance(event, ObjectDelivered) and event.handle == client.reply:
            client.served.retransmitted = event.segments_sent - event.segments
        elif client is not None and isinstance(event, SessionEnded) and client.served.goodbye_ns is None:
            client.served.sent_bytes = (client.served.sent_bytes or 0) + event.sent_bytes

    def _answer(self, event: Received, words: Words) -> None:
        if len(self._clients) >= _MAX_CLIENTS and event.peer not in self._clients:
            del self._clients[next(iter(self._clients))]  # the one that began longest ago
        served = Served(words.run, words.number, event.payload_bytes)
        self._clients.pop(event.peer, None)
        self._clients[event.peer] = client = _Client(served)
        served.replied_ns = self._endpoint.clock()
        client.reply = self._send(event.peer, REPLY, reply_to(words), words)

    def _take_leave(self, event: Received, words: Words, served: Served) -> None:
        if (served.run, served.number) != (words.run, words.number):
            raise RemoteProtocolError("the message is a good-bye for another transaction")
        served.goodbye_ns = event.began_ns
        self.records.add(_name_of(event.peer), served, recorded_values(words.body))
        self._send(event.peer, RECEIPT, receipt_for(words, served), words)
        del self._clients[event.peer]

    def _send(self, address: Address, letters: bytes, octets: bytes, words: Words) -> int:
        lifetime_ns = min(max(1, words.timeout_ms), _LONGEST_MS) * NS_PER_MS
        return self._endpoint.send(address, class_of(letters), octets, lifetime_ns=lifetime_ns)
