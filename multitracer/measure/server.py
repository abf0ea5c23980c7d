"""Server code for all transports: answers requests, measures the time of good-byes, writes the log."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass
from os.path import samestat
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

_OPEN_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
"""A log that is a pipe without a reader is an error; without O_NONBLOCK it would stop the server."""


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
    warnings: list[str]
    """Sentences for the user; who shows them removes them."""

    def work(self, wait_s: float) -> None:
        """Do one small step; if there is nothing to do, wait for at most the given time."""

    def close(self) -> None:
        """Close all that is open."""


class TransactionLog:
    """The server's own log of transactions, one JSON line each; without a folder it only counts.

    A log that cannot be written ends no service: its records are counted in `not_recorded`, the first reason is a
    warning, and each later record is tried again.

    Parameters
    ----------
    folder : Path or None
        The folder of the log; it is made if it does not exist.
    clock : callable
        Returns the time, ns since 1970.
    warn : callable, optional
        Takes a sentence for the user.

    Raises
    ------
    InputError
        If the folder cannot be made.
    """

    def __init__(
        self, folder: Path | None, clock: Callable[[], int], *, warn: Callable[[str], None] | None = None
    ) -> None:
        self.count = 0
        self.not_recorded = 0
        """Number of transactions that were not written, because the log was full or the system refused to write it."""
        self.reason = ""
        """Why the first of them was not written; empty if all were."""
        self._clock = clock
        self._warn = warn
        self._file: int | None = None
        """Descriptor of the log: it stays open, so that the last free one cannot go to a client."""
        self.path = folder / RECORDS if folder is not None else None
        if folder is None:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot create this folder ({error.strerror}); name another folder") from error
        try:
            self._open()
        except OSError as error:
            self._fail(error)

    def add(self, client: str, served: Served, values: dict[str, object]) -> None:
        """Write a transaction whose good-bye has arrived."""
        self.count += 1
        if self.path is None:
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
        try:
            self._append(json.dumps(line, allow_nan=False).encode() + b"\n")
        except OSError as error:
            self.not_recorded += 1
            self._fail(error)

    def close(self) -> None:
        """Close the log once the disk has all of it; a failure of the disk is noted in `reason`."""
        if self._file is None:
            return
        try:
            os.fsync(self._file)
        except OSError as error:
            if error.errno != errno.EINVAL:  # what is no file on a disk needs none
                self.reason = self.reason or f"the disk may not have all of them: {error.strerror}"
        self._release()

    def _append(self, line: bytes) -> None:
        """Write a line, or nothing of it."""
        file = self._open()
        before = os.fstat(file).st_size
        if before >= _MAX_BYTES:
            raise OSError(errno.EFBIG, f"its maximum size is {_MAX_BYTES >> 20} MiB")
        if (written := os.write(file, line)) < len(line):
            if written:
                os.ftruncate(file, before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _open(self) -> int:
        """Return the descriptor of the log; open another one if the file was moved or deleted."""
        assert self.path is not None
        if self._file is not None and not (self.path.exists() and samestat(self.path.stat(), os.fstat(self._file))):
            self._release()
        if self._file is None:
            self._file = os.open(self.path, _OPEN_FLAGS, 0o666)
        return self._file

    def _release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _fail(self, error: OSError) -> None:
        if self.reason:
            return
        self.reason = error.strerror or str(error)
        if self._warn is not None:
            self._warn(
                f"{self.path}: cannot write the records of transactions ({self.reason}); the server goes on without "
                "them and tries again at each transaction"
            )


def reply_to(request: Words) -> bytes:
    """Return the reply to a request."""
    return filled(request._replace(letters=REPLY), request.reply_bytes)


def receipt_for(goodbye: Words, served: Served) -> bytes:
    """Return the receipt of a transaction."""
    return encode(goodbye._replace(letters=RECEIPT, body=encode_receipt(served.receipt())))


# A server's side of one TCP connection, over any TCP: replies, receipts, and the record of both.


class ServerDialogue(Protocol):
    """What a server of connections asks of its side of one connection."""

    unsent: bytes
    """Octets to send; the sender removes what it has sent."""
    has_asked: bool
    """Whether this client has sent a request; until then it may be closed first."""
    messages: int
    """Number of complete messages that arrived."""
    completed: int
    """Number of transactions whose good-bye arrived."""

    def hear(self, octets: bytes) -> None:
        """Process octets that arrived; raise RemoteProtocolError if the client violates the exchange."""


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
        self.messages = 0
        """Number of complete messages that arrived."""
        self.completed = 0
        """Number of transactions whose good-bye arrived."""

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
        self.messages += 1
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
            self.completed += 1
            self._served = None
        else:
            raise RemoteProtocolError("the message is unexpected in this state of the protocol")
