"""A server's side of one TCP connection, over any TCP: replies, receipts, and the record of both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.errors import RemoteProtocolError
from multitracer.measure.exchange import GOODBYE, REQUEST, Words, recorded_values
from multitracer.measure.server import Records, Served, receipt_for, reply_to
from multitracer.measure.stream import MessageReader, grown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Dialogue:
    """One client's transactions on one connection.

    Parameters
    ----------
    name : str
        The client's address.
    records : Records
        Where transactions are recorded.
    clock : callable
        Returns the time, ns since 1970.
    info : callable
        Returns TCP's variables, by the names of `struct tcp_info`.
    """

    def __init__(
        self, name: str, *, records: Records, clock: Callable[[], int], info: Callable[[], Mapping[str, int]]
    ) -> None:
        self._name = name
        self._records = records
        self._clock = clock
        self._info = info
        self._reader = MessageReader()
        self._served: Served | None = None
        self._before: Mapping[str, int] = {}
        self.unsent = b""
        """What is to be sent; whoever sends takes it away."""
        self.has_asked = False
        """Whether a request ever came: until then the client is a stranger."""

    def hear(self, octets: bytes) -> None:
        """Take the octets that arrived.

        Raises
        ------
        RemoteProtocolError
            If the client does not keep to the exchange.
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
                raise RemoteProtocolError("a request before the last reply was taken")
            self.has_asked = True
            self._before = self._info()
            self._served = Served(words.run, words.number)
            self.unsent += reply_to(words)
            self._served.replied_ns = self._clock()
        elif words.letters == GOODBYE and (served := self._served) is not None:
            if (served.run, served.number) != (words.run, words.number):
                raise RemoteProtocolError("a good-bye to another transaction")
            self._records.add(self._name, served, recorded_values(words.body))
            self.unsent += receipt_for(words, served)
            self._served = None
        else:
            raise RemoteProtocolError("a message out of turn")
