"""`python -m multitracer.lab.testbed.traffic PLAN`: the applications of one host, in its namespace.

The program reports that it is ready when it listens or can connect, waits for a line on standard input, then
writes a line of JSON for each connection when that ends. Every received byte is compared with the sent one.
"""

from __future__ import annotations

import fcntl
import json
import socket
import struct
import sys
import termios
import threading
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from multitracer.measure.exchange import payload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.schemas.schema import Document

READY = "ready"
"""Line on standard error when the program listens or can connect."""
_SIOCOUTQ = termios.TIOCOUTQ
_TCP_WINDOW_CLAMP = 10
_CHUNK_BYTES = 65_536
_READ_EVERY_S = 0.1
_LOOK_EVERY_S = 0.1
"""Interval of checks whether all data are acknowledged, in link seconds like other times."""
_MIN_PAUSE_S = 0.002
_ROOM = 4
"""Receive buffer per byte of window: in the kernel a segment of 460 octets occupies a multiple of its size."""
_NEVER_S = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficTransfer:
    """One connection, from the view of one host; its times are link seconds."""

    role: Literal["connect", "accept"]
    sends: bool
    size: int
    port: int
    """Port of the fixed host."""
    local_port: int
    """Port of the mobile."""
    start_s: float
    reads_bytes_per_s: int
    writes_bytes_per_s: int
    aborts_after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficPlan:
    """All connections of one host."""

    speed: float
    local: str
    remote: str
    congestion: str
    window_bytes: int
    send_buffer_bytes: int
    """Send buffer; 0: the kernel's default."""
    transfers: Sequence[TrafficTransfer]

    def text(self) -> str:
        """Return the plan as text for a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> TrafficPlan:
        """Return the plan that `text` contains."""
        document = json.loads(text)
        transfers = tuple(TrafficTransfer(**transfer) for transfer in document.pop("transfers"))
        return cls(**document, transfers=transfers)


class _Run:
    """One transfer in progress."""

    def __init__(self, plan: TrafficPlan, transfer: TrafficTransfer) -> None:
        self.plan = plan
        self.transfer = transfer
        self.moved_bytes = 0
        self.ended = "closed"
        self.took_s = 0.0
        self._deadline_s = _NEVER_S
        self._listener = _socket(plan, transfer) if transfer.role == "accept" else None
        if self._listener is not None:
            self._listener.bind((plan.local, transfer.port))
            self._listener.listen()

    def run(self) -> None:
        """Open the connection, move the bytes, close it, and report."""
        began_s = time.monotonic()
        try:
            with self._open() as sock:
                began_s = time.monotonic()
                self._move(sock)
        except TimeoutError:
            self.ended = "timed out"
        except ConnectionError as error:
            self.ended = error.strerror or str(error)
        self.took_s = (time.monotonic() - began_s) * self.plan.speed

    def report(self) -> Document:
        """Return the result of the transfer, with the time in link seconds."""
        way = "sent" if self.transfer.sends else "received"
        return {"port": self.transfer.port, way: self.moved_bytes, "took_s": self.took_s, "ended": self.ended}

    def _open(self) -> socket.socket:
        if self._listener is not None:
            with self._listener:
                return self._listener.accept()[0]
        self._pause(self.transfer.start_s)
        sock = _socket(self.plan, self.transfer)
        sock.bind((self.plan.local, self.transfer.local_port))
        if self.transfer.aborts_after_s:
            self._deadline_s = time.monotonic() + self.transfer.aborts_after_s / self.plan.speed
        sock.connect((self.plan.remote, self.transfer.port))
        return sock

    def _move(self, sock: socket.socket) -> None:
        try:
            if self.transfer.sends:
                self._send(sock)
            else:
                self._receive(sock)
        except TimeoutError:
            self.ended = "aborted"
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _send(self, sock: socket.socket) -> None:
        """Send all data, and close only when they are acknowledged.

        A socket that is shut down earlier leaves ESTABLISHED, and the kernel's tcp_probe no longer reports it.
        """
        size, rate = self.transfer.size, self.transfer.writes_bytes_per_s
        while self.moved_bytes < size:
            self._patience(sock)
            chunk = payload(self.moved_bytes, min(size, self.moved_bytes + (rate or _CHUNK_BYTES)))
            self.moved_bytes += sock.send(chunk)
            if rate and self.moved_bytes < size:
                self._pause(1)
        while _unacknowledged(sock):
            self._patience(sock)
            self._pause(_LOOK_EVERY_S)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(_CHUNK_BYTES):
            pass

    def _receive(self, sock: socket.socket) -> None:
        rate = self.transfer.reads_bytes_per_s
        most = round(rate * _READ_EVERY_S) if rate else _CHUNK_BYTES
        while True:
            self._patience(sock)
            data = sock.recv(most)
            if not data:
                return
            if data != payload(self.moved_bytes, self.moved_bytes + len(data)):
                raise SystemExit(f"the delivered data differ from the sent data after byte {self.moved_bytes}")
            self.moved_bytes += len(data)
            if rate:
                self._pause(_READ_EVERY_S)

    def _patience(self, sock: socket.socket) -> None:
        """Set the timeout of the next call on the socket to the time that remains until the user cancels."""
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        sock.settimeout(left_s if self.transfer.aborts_after_s else None)

    def _pause(self, link_s: float) -> None:
        if link_s:
            time.sleep(max(link_s / self.plan.speed, _MIN_PAUSE_S))


def _socket(plan: TrafficPlan, transfer: TrafficTransfer) -> socket.socket:
    """Return a socket with the window of the plan; connections that it accepts inherit its options."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    room = 1 if transfer.reads_bytes_per_s else _ROOM
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room * plan.window_bytes)
    sock.setsockopt(socket.IPPROTO_TCP, _TCP_WINDOW_CLAMP, plan.window_bytes)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, plan.congestion.encode())
    if plan.send_buffer_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, plan.send_buffer_bytes // 2)  # it is doubled
    return sock


def _unacknowledged(sock: socket.socket) -> int:
    return int(struct.unpack("i", fcntl.ioctl(sock, _SIOCOUTQ, b"\0" * 4))[0])


def main() -> None:
    """Run the plan of the command line."""
    plan = TrafficPlan.parse(sys.argv[1])
    runs = [_Run(plan, transfer) for transfer in plan.transfers]
    print(READY, file=sys.stderr, flush=True)  # noqa: T201  # the parent reads it
    sys.stdin.readline()
    threads = [threading.Thread(target=run.run, daemon=True) for run in runs]
    for thread in threads:
        thread.start()
    for thread, run in zip(threads, runs, strict=True):
        thread.join()
        print(json.dumps(run.report()), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
