"""The server over CentaurusComm, on UDP or on serial lines (where it is the master)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.errors import LocalProtocolError, RemoteProtocolError
from multitracer.measure.centaurus_client import class_of
from multitracer.measure.exchange import GOODBYE, RECEIPT, REPLY, REQUEST, Words, decode, recorded_values
from multitracer.measure.server import Records, Served, receipt_for, reply_to
from multitracer.protocols.centaurus import Delivered, Received, SessionEnded
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.measure.endpoint import CentaurusEndpoint
    from multitracer.protocols.centaurus import Address, Event

_MAX_CLIENTS = 4096
_LONGEST_MS = 600_000
"""How long a reply is tried at most, however patient the client says it is."""


def _name_of(address: Address) -> str:
    """Return host:port, or line:station for a serial line."""
    return ":".join(map(str, address)) if isinstance(address, tuple) else str(address)


class _Client:
    """One client's transaction, and the counts of our transport for it."""

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
        Where transactions are recorded.
    """

    def __init__(self, endpoint: CentaurusEndpoint, *, folder: Path | None = None) -> None:
        self._endpoint = endpoint
        self.records = Records(folder, endpoint.clock)
        self._clients: dict[Address, _Client] = {}

    def close(self) -> None:
        """Close the medium."""
        self._endpoint.close()

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
        elif client is not None and isinstance(event, Delivered) and event.handle == client.reply:
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
            raise RemoteProtocolError("a good-bye to another transaction")
        served.goodbye_ns = event.began_ns
        self.records.add(_name_of(event.peer), served, recorded_values(words.body))
        self._send(event.peer, RECEIPT, receipt_for(words, served), words)
        del self._clients[event.peer]

    def _send(self, address: Address, letters: bytes, octets: bytes, words: Words) -> int:
        lifetime_ns = min(max(1, words.timeout_ms), _LONGEST_MS) * NS_PER_MS
        return self._endpoint.send(address, class_of(letters), octets, lifetime_ns=lifetime_ns)
