"""A relay between client and server that a test can slow down or close: what it waits for surely happens."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

_POLL_S = 0.002
_LARGEST = 1 << 16


class Relay:
    """Passes TCP bytes or UDP datagrams on to a server, each piece after `delay_s` and only while `is_open`.

    Parameters
    ----------
    protocol : str
        `tcp`, or `centauruscomm`, which is carried by UDP.
    server : str
        HOST:PORT to pass them to.
    delay_s : float
        How long each piece is held.
    """

    def __init__(self, protocol: str, server: str, *, delay_s: float = 0.0) -> None:
        host, port = server.split(":")
        self._server, self._delay_s = (host, int(port)), delay_s
        self._kind = socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM
        self._ended = threading.Event()
        self._sockets: list[socket.socket] = []
        self.is_open: Callable[[], bool] = lambda: True

    def __enter__(self) -> Self:
        listening = self._socket()
        listening.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{listening.getsockname()[1]}"
        if self._kind == socket.SOCK_STREAM:
            listening.listen()
        self._start(self._accept if self._kind == socket.SOCK_STREAM else self._datagrams, listening)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _socket(self) -> socket.socket:
        self._sockets.append(socket.socket(socket.AF_INET, self._kind))
        return self._sockets[-1]

    def _upstream(self) -> socket.socket:
        upstream = self._socket()
        upstream.connect(self._server)
        return upstream

    def _start(self, body: Callable[..., None], *arguments: object) -> None:
        def run() -> None:
            with contextlib.suppress(OSError):  # the sockets of a relay that ends are closed
                body(*arguments)

        threading.Thread(target=run, daemon=True).start()

    def _hold(self) -> None:
        time.sleep(self._delay_s)
        while not self.is_open() and not self._ended.is_set():
            time.sleep(_POLL_S)

    def _accept(self, listening: socket.socket) -> None:
        while True:
            client, _ = listening.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets.append(client)
            upstream = self._upstream()
            upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._start(self._copy, client, upstream)
            self._start(self._copy, upstream, client)

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        while piece := source.recv(_LARGEST):
            self._hold()
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)

    def _datagrams(self, listening: socket.socket) -> None:
        """Pass datagrams on, those of each client from a port of its own."""
        clients: dict[object, socket.socket] = {}
        while True:
            piece, client = listening.recvfrom(_LARGEST)
            if client not in clients:
                clients[client] = self._upstream()
                self._start(self._answers, clients[client], listening, client)
            self._hold()
            clients[client].send(piece)

    def _answers(self, upstream: socket.socket, listening: socket.socket, client: object) -> None:
        while piece := upstream.recv(_LARGEST):
            self._hold()
            listening.sendto(piece, client)  # type: ignore[arg-type]
