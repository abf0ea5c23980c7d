"""A relay between client and server that a test can slow down or close: what it waits for surely happens."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_POLL_S = 0.002
_AWAKE_S = 0.05
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
        self._threads: list[threading.Thread] = []
        self.is_open: Callable[[], bool] = lambda: True

    def __enter__(self) -> Self:
        listening = self._kept(socket.socket(socket.AF_INET, self._kind))
        listening.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{listening.getsockname()[1]}"
        if self._kind == socket.SOCK_STREAM:
            listening.listen()
        self._start(self._accept if self._kind == socket.SOCK_STREAM else self._datagrams, listening)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:  # one may begin another until it sees the end
            thread.join()
        for each in self._sockets:
            each.close()

    def _kept(self, new: socket.socket) -> socket.socket:
        """Return a socket that ends with the relay, and wakes up now and then to see whether that is now."""
        new.settimeout(_AWAKE_S)
        if new.type == socket.SOCK_STREAM:
            new.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sockets.append(new)
        return new

    def _upstream(self) -> socket.socket:
        upstream = socket.socket(socket.AF_INET, self._kind)
        upstream.connect(self._server)
        return self._kept(upstream)

    def _start(self, body: Callable[..., None], *arguments: object) -> None:
        def run() -> None:
            with contextlib.suppress(OSError):  # an end of a connection that was reset
                body(*arguments)

        self._threads.append(threading.Thread(target=run))
        self._threads[-1].start()

    def _each(self, receive: Callable[[], Any]) -> Iterator[Any]:
        """Yield what is received until the relay ends."""
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                yield receive()

    def _hold(self) -> None:
        self._ended.wait(self._delay_s)
        while not self.is_open() and not self._ended.wait(_POLL_S):
            pass

    def _accept(self, listening: socket.socket) -> None:
        for client, _ in self._each(listening.accept):
            pair = self._kept(client), self._upstream()
            self._start(self._copy, *pair)
            self._start(self._copy, *reversed(pair))

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        for chunk in self._each(lambda: source.recv(_LARGEST)):
            if not chunk:
                sink.shutdown(socket.SHUT_WR)
                return
            self._hold()
            sink.sendall(chunk)

    def _datagrams(self, listening: socket.socket) -> None:
        """Pass datagrams on, those of each client from a port of its own."""
        clients: dict[object, socket.socket] = {}
        for chunk, client in self._each(lambda: listening.recvfrom(_LARGEST)):
            if client not in clients:
                clients[client] = self._upstream()
                self._start(self._answers, clients[client], listening, client)
            self._hold()
            clients[client].send(chunk)

    def _answers(self, upstream: socket.socket, listening: socket.socket, client: Any) -> None:
        for chunk in self._each(lambda: upstream.recv(_LARGEST)):
            self._hold()
            listening.sendto(chunk, client)
