"""Server code for all transports: answers requests, measures the time of good-byes, writes the log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from multitracer.errors import InputError, RemoteProtocolError
from multitracer.measure.exchange import (
    GOODBYE,
    RECEIPT,
    REPLY,
    REQUEST,
    MessageReader,
    Receipt,
    Words,
    encode,
    encode_receipt,
    filled,
    grown,
    recorded_values,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

RECORDS = "transactions.jsonl"
_MAX_BYTES = 1 << 30
"""Maximum size of the log in bytes, so that clients cannot fill the disk."""


@dataclass(slots=True)
class Served:
    """A transaction that a server has begun and not finished."""

    run: int
    number: int
    request_payload_bytes: int | None = None
    replied_ns: int = 0
    """Time at which the reply was handed to the transport."""
    goodbye_ns: int | None = None
    """Time at which the first byte of the good-bye arrived."""
    retransmitted: int | None = None
    sent_bytes: int | None = None

    def receipt(self) -> Receipt:
        """Return the receipt for the client."""
        rtt_ns = None if self.goodbye_ns is None else max(0, self.goodbye_ns - self.replied_ns)
        return Receipt(rtt_ns, self.retransmitted, self.sent_bytes, self.request_payload_bytes)


class MeasureServer(Protocol):
    """A server of one transport."""

    records: TransactionLog

    def work(self, wait_s: float) -> None:
        """Do one small step; if there is nothing to do, wait for at most the given time."""

    def close(self) -> None:
        """Close all that is open."""


class TransactionLog:
    """The server's own log of transactions, one JSON line each; without a folder it only counts."""

    def __init__(self, folder: Path | None, clock: Callable[[], int]) -> None:
        self.count = 0
        self.not_recorded = 0
        """Number of transactions that were not written because the log was full."""
        self._clock = clock
        self._path = folder / RECORDS if folder is not None else None
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(
                    f"{folder}: cannot create this folder ({error.strerror}); name another folder"
                ) from error

    def add(self, client: str, served: Served, values: dict[str, object]) -> None:
        """Write a transaction whose good-bye has arrived."""
        self.count += 1
        if self._path is None:
            return
        receipt = served.receipt()
        line = {
            "time_ns": self._clock(),
            "client": client,
            "run": f"{served.run:016x}",
            "transaction": served.number,
            **receipt._asdict(),
            "recorded": values,
        }
        with self._path.open("a", encoding="utf-8") as stream:
            if stream.tell() < _MAX_BYTES:
                stream.write(json.dumps(line) + "\n")
            else:
                self.not_recorded += 1


def reply_to(request: Words) -> bytes:
    """Return the reply to a request."""
    return filled(request._replace(letters=REPLY), request.reply_bytes)


def receipt_for(goodbye: Words, served: Served) -> bytes:
    """Return the receipt of a transaction."""
    return encode(goodbye._replace(letters=RECEIPT, body=encode_receipt(served.receipt())))


# A server's side of one TCP connection, over any TCP: replies, receipts, and the record of both.


class Dialogue:
    """One client's transactions on one connection.

    Parameters
    ----------
    name : str
        The client's address.
    records : TransactionLog
        Where transactions are recorded.
    clock : callable
        Returns the time, ns since 1970.
    info : callable
        Returns TCP's variables, by the names of `struct tcp_info`.
    """

    def __init__(
        self, name: str, *, records: TransactionLog, clock: Callable[[], int], info: Callable[[], Mapping[str, int]]
    ) -> None:
        self._name = name
        self._records = records
        self._clock = clock
        self._info = info
        self._reader = MessageReader()
        self._served: Served | None = None
        self._before: Mapping[str, int] = {}
        self.unsent = b""
        """Octets to send; the sender removes what it has sent."""
        self.has_asked = False
        """Whether this client has sent a request; until then it may be closed first."""

    def hear(self, octets: bytes) -> None:
        """Process octets that arrived from the client.

        Raises
        ------
        RemoteProtocolError
            If the client violates the exchange.
        """
        served = self._served
        if served is not None and served.replied_ns and served.goodbye_ns is None:
            served.goodbye_ns = self._clock()
            after = self._info()
            served.retransmitted = grown(self._before, after, "total_retrans")
            served.sent_bytes = grown(self._before, after, "bytes_sent")
        for words in self._reader.feed(octets):
            self._follow(words)

    def _follow(self, words: Words) -> None:
        if words.letters == REQUEST:
            if self.unsent:  # one reply at a time bounds what a client can make us keep
                raise RemoteProtocolError("a request arrived before the last reply was sent completely")
            self.has_asked = True
            self._before = self._info()
            self._served = Served(words.run, words.number)
            self.unsent += reply_to(words)
            self._served.replied_ns = self._clock()
        elif words.letters == GOODBYE and (served := self._served) is not None:
            if (served.run, served.number) != (words.run, words.number):
                raise RemoteProtocolError("the message is a good-bye for another transaction")
            self._records.add(self._name, served, recorded_values(words.body))
            self.unsent += receipt_for(words, served)
            self._served = None
        else:
            raise RemoteProtocolError("the message is unexpected in this state of the protocol")
