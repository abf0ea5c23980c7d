"""The server of tests of latency under load: takes a load, sends one, and answers probes.

It is another server than that of transactions, because it lets every client that reaches it fill the path.
"""

from __future__ import annotations

import os
import socket
from functools import partial
from typing import TYPE_CHECKING

from multitracer.errors import RemoteProtocolError
from multitracer.measure.endpoint import SteadyClock
from multitracer.measure.exchange import ECHO, FILL, LOAD, PROBE, MessageReader, Words, encode
from multitracer.measure.tcp import TcpServer
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.measure.server import TransactionLog

_FILL_BYTES = 16_384
"""Body of one part of a load: what may stand before an answer that is due (not measured)."""
_NOT_SENT_BYTES = 16_384
"""Octets that a socket holds beyond what TCP may send: an answer must not wait in the sender's own buffer."""
LONGEST_S = 120
"""Time after which a connection carries no more load."""
_MOST_UNSENT_BYTES = 64 << 10
_NOBODY = 0


def shorten_buffer(connection: socket.socket) -> None:
    """Let the kernel take only little more from a program than TCP may send (draft, section 6.1.1)."""
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _NOT_SENT_BYTES)


def fill() -> bytes:
    """Return one part of a load; its octets are random, so that no compression on the path shortens them."""
    return encode(Words(FILL, _NOBODY, 0, 0, 0, os.urandom(_FILL_BYTES)))


class LoadDialogue:
    """The server's side of one connection of a test.

    Parameters
    ----------
    records : TransactionLog
        Counts the probes that were answered.
    clock : callable
        Returns the time in ns.
    load : bytes
        What is sent again and again if the client asks for a load.
    """

    def __init__(self, *, records: TransactionLog, clock: Callable[[], int], load: bytes) -> None:
        self._records = records
        self._clock = clock
        self._load = load
        self._ends_ns = clock() + LONGEST_S * NS_PER_S
        self._reader = MessageReader()
        self._is_source = False
        self._unsent = b""
        self.has_asked = False
        """Whether this client has sent a message; until then it may be closed first."""
        self.messages = 0
        """Number of complete messages that arrived."""
        self.completed = 0
        """Always 0: a test is no transaction, and gives way to others."""

    @property
    def unsent(self) -> bytes:
        """Octets to send; the sender removes what it has sent."""
        if not self._unsent and self._is_source and self._clock() < self._ends_ns:
            self._unsent = self._load
        return self._unsent

    @unsent.setter
    def unsent(self, octets: bytes) -> None:
        self._unsent = octets

    def hear(self, octets: bytes) -> None:
        """Process octets that arrived from the client.

        Raises
        ------
        RemoteProtocolError
            If the client violates the exchange, or the test lasts too long.
        """
        if self._clock() >= self._ends_ns:
            raise RemoteProtocolError(f"a test may last {LONGEST_S} s")
        for words in self._reader.feed(octets):
            self.messages += 1
            self.has_asked = True
            if words.letters == LOAD:
                self._is_source = True
            elif words.letters == PROBE and len(self._unsent) < _MOST_UNSENT_BYTES:
                self._unsent += encode(words._replace(letters=ECHO, body=b""))
                self._records.count += 1
            elif words.letters != FILL:
                raise RemoteProtocolError("the message is no part of a test of latency, or answers are not read")


class LatencyServer(TcpServer):
    """Serves tests of latency under load.

    Parameters
    ----------
    bind : (host, port)
        Where to listen.
    """

    def __init__(self, bind: tuple[str, int]) -> None:
        super().__init__(bind, dialogue=partial(self._test, SteadyClock(), fill()))

    def _test(self, clock: Callable[[], int], load: bytes, accepted: socket.socket, _: str) -> LoadDialogue:
        shorten_buffer(accepted)
        return LoadDialogue(records=self.records, clock=clock, load=load)
