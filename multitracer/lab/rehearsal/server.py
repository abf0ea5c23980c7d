"""The server of a simulated drive: it sends data to a client and stalls at the planted times."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from typing import TYPE_CHECKING

from collectors._options import parser, run
from collectors._stop import Stop
from multitracer.lab.rehearsal._terminal import say_back
from multitracer.lab.rehearsal.journey import Journey
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

ADDRESS = "10.77.0.1"
PORT = 5001
_CHUNK = (b"The quick brown fox jumps over the lazy dog. 0123456789\n" * 52)[:2896]
"""Data of one write, two full segments: 1500 bytes minus 52 of IP and TCP with timestamps, twice."""
_UNSENT_BYTES = 1_500
"""Maximum unsent bytes in the kernel, so that a stall reaches the link within half a second."""
_NOTSENT_LOWAT = 25
"""TCP_NOTSENT_LOWAT of linux/tcp.h; Python's socket module has it since 3.12."""
_CONGESTION_CONTROL = b"cubic"
_TICK_NS = 20 * NS_PER_MS


class RehearsalServer:
    """A server for one client at a time; it closes the connection when the client closes its direction."""

    def __init__(
        self, listening: socket.socket, stop: Stop, journey: Journey, began_ns: int, *, answers: bool = False
    ) -> None:
        self._answers = answers
        self._listening = listening
        self._stop = stop
        self._journey = journey
        self._began_ns = began_ns

    def run(self) -> None:
        """Serve until stopped."""
        while self._stop.wait(time.monotonic_ns() + NS_PER_S, readable=[self._listening.fileno()]):
            with contextlib.suppress(BlockingIOError):
                client, _ = self._listening.accept()
                with client, contextlib.suppress(ConnectionError, TimeoutError):
                    self._serve(client)

    def _serve(self, client: socket.socket) -> None:
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, _NOTSENT_LOWAT, _UNSENT_BYTES)
        if self._answers:
            self._answer(client)
            return
        while self._stop.wait(time.monotonic_ns() + _TICK_NS, readable=[client.fileno()]):
            with contextlib.suppress(BlockingIOError):
                if not client.recv(len(_CHUNK)):
                    return
            self._send(client)

    def _answer(self, client: socket.socket) -> None:
        """Send one write of data for each request."""
        while self._stop.wait(time.monotonic_ns() + NS_PER_S, readable=[client.fileno()]):
            with contextlib.suppress(BlockingIOError):
                if not client.recv(len(_CHUNK)):
                    return
                client.send(_CHUNK)

    def _send(self, client: socket.socket) -> None:
        event = self._journey.event((time.monotonic_ns() - self._began_ns) / NS_PER_S)
        if event is not None and event.kind == "stall":
            return
        while select.select([], [client], [], 0)[1]:
            try:
                client.send(_CHUNK)
            except BlockingIOError:
                return


def main(argv: Sequence[str]) -> None:
    """Run the server until stopped."""
    options = parser(__doc__, traffic=False)
    options.add_argument("--seed", type=int, required=True, help="random seed of the drive")
    options.add_argument("--requests", action="store_true", help="answer requests, instead of sending all the time")
    options.add_argument("--began", type=int, required=True, help="start of the drive, CLOCK_MONOTONIC in ns")
    chosen = options.parse_args(argv)
    with (
        Stop(duration_ns=chosen.duration, outlive_parent=chosen.outlive_parent, tags=chosen.tags) as stop,
        socket.create_server((ADDRESS, PORT)) as listening,
    ):
        listening.setblocking(False)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _CONGESTION_CONTROL)
        say_back(listening=PORT)
        RehearsalServer(listening, stop, Journey(chosen.seed), chosen.began, answers=chosen.requests).run()


if __name__ == "__main__":
    run(main)
