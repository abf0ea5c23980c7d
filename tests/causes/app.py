"""One host's program: does a list of operations on each connection and keeps a journal of its calls.

`python -m tests.causes.app client|server|origin|proxy PLAN JOURNAL`; a proxy passes what comes from a client on
to the plan's `origin`, and back. An operation is a list, its name first:

- `send BYTES [CHUNK]`: calls send() with CHUNK bytes at a time (64 kB),
- `recv BYTES [CHUNK [PAUSE_S]]`: reads that many, and sleeps after each read; `drain` reads to the end,
- `wait SECONDS WHY [SPREAD]`: sleeps, longer and shorter by up to that share; WHY is `think` (it owes an
  answer), `pace` (its own rhythm) or `idle`,
- `file BYTES BLOCK BYTES_PER_S [SPREAD]`: reads blocks of a file from a disk that gives one after the other at
  that rate, and sends each before it reads the next,
- `at_once [OPERATIONS, ...]`: does several lists at the same time, whose sends take turns by their chunks,
- `repeat N OPERATIONS`, `acked` (until nothing is unacknowledged), `close`, `reset`.

With a plan's `tls` all of it is inside TLS, and the journal's bytes are those of the records.

A connection that is planned with `after_s` is opened so long after the program began, at the earliest; with
`congestion_control` both ends have that one.
Sends stop when the plan's `most_s` is over. The journal has, for each connection, `calls`: name, begin and
end (CLOCK_REALTIME, ns) and bytes; and the kernel's `tcp_info` before it was closed, in base64.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import random
import signal
import socket
import struct
import sys
import tempfile
import termios
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.causes.tls import CERTIFICATE, Records

_TEXT = b"The quick brown fox jumps over the lazy dog. 0123456789\n" * 1200
_CHUNK = 65_536
_CLOSING_S = 5.0
_TCP_INFO_BYTES = 512

Operation = list[Any]
Document = dict[str, Any]


class EndedError(Exception):
    """The peer has no more to say, or the time is over."""


class Connection:
    """One connection: its socket, its calls."""

    def __init__(self, sock: socket.socket, *, deadline: float) -> None:
        self.sock = sock
        self.calls: list[tuple[str, int, int, int]] = []
        self.info = ""
        self.ports = (0, 0)
        self._deadline = deadline
        self._random = random.Random(0)
        self._sends_since_ns = 0
        self._tls: Records | None = None
        self._turn = threading.Lock()

    def note(self, name: str, begin_ns: int, count: int) -> None:
        """Enter a call that began at `begin_ns` and is over now."""
        self.calls.append((name, begin_ns, time.time_ns(), count))

    def run(self, operations: list[Operation], *, certificate: str = "", server: bool = False) -> None:
        """Do the operations; whatever ends the connection early is entered."""
        try:
            self.ports = (self.sock.getsockname()[1], self.sock.getpeername()[1])
            if certificate:
                self._tls = Records(certificate, server=server, send=self._send_all, receive=self._receive)
                self._tls.greet()
            for name, *arguments in operations:
                getattr(self, f"do_{name}")(*arguments)
        except EndedError:
            self.do_close()
        except OSError as error:
            self.note(f"error {error.strerror or type(error).__name__}", time.time_ns(), error.errno or 0)
            self._finish()

    def do_send(self, count: int, chunk: int = _CHUNK) -> None:
        while count > 0:
            if time.monotonic() > self._deadline:
                raise EndedError
            part = _TEXT[: min(count, chunk, len(_TEXT))]
            with self._turn:
                count -= self._put(part)

    def _put(self, part: bytes) -> int:
        """Hand on some of it; return how much."""
        if self._tls is None:
            return self._send(part)
        self._tls.write(part)
        return len(part)

    def _send(self, part: bytes) -> int:
        begin_ns = self._sends_since_ns = time.time_ns()
        try:
            sent = self.sock.send(part)
        finally:
            self._sends_since_ns = 0
        self.note("send", begin_ns, sent)
        return sent

    def _send_all(self, part: bytes) -> None:
        while part:
            part = part[self._send(part) :]

    def _receive(self, most: int = _CHUNK) -> bytes:
        begin_ns = time.time_ns()
        got = self.sock.recv(most)
        self.note("recv", begin_ns, len(got))
        return got

    def do_recv(self, count: int, chunk: int = _CHUNK, pause_s: float = 0.0) -> None:
        read = self._receive if self._tls is None else self._tls.read
        while count > 0:
            got = len(read(min(count, chunk)))
            if not got:
                raise EndedError
            count -= got
            if pause_s:
                self.do_wait(pause_s, "pace")

    def do_drain(self, chunk: int = _CHUNK, pause_s: float = 0.0) -> None:
        try:
            self.do_recv(1 << 62, chunk, pause_s)
        except EndedError:
            return

    def do_wait(self, seconds: float, why: str, spread: float = 0.0) -> None:
        begin_ns = time.time_ns()
        time.sleep(seconds * (1 + spread * self._random.uniform(-1, 1)))
        self.note(why, begin_ns, 0)

    def do_file(self, count: int, block: int, bytes_per_s: float, spread: float = 0.0) -> None:
        with tempfile.TemporaryFile() as file:
            file.write((_TEXT * (count // len(_TEXT) + 1))[:count])
            file.seek(0)
            while part := file.read(block):
                self.do_wait(len(part) / bytes_per_s, "disk", spread)
                self.do_send(len(part))

    def do_at_once(self, lists: list[list[Operation]]) -> None:
        with ThreadPoolExecutor(len(lists)) as pool:
            for done in [pool.submit(self.do_repeat, 1, operations) for operations in lists]:
                done.result()

    def do_repeat(self, times: int, operations: list[Operation]) -> None:
        for _ in range(times):
            if time.monotonic() > self._deadline:
                raise EndedError
            for name, *arguments in operations:
                getattr(self, f"do_{name}")(*arguments)

    def do_acked(self) -> None:
        while struct.unpack("i", fcntl.ioctl(self.sock, termios.TIOCOUTQ, b"\0" * 4))[0]:
            time.sleep(0.01)

    def do_close(self) -> None:
        if self._tls is not None:
            self._tls.close()
            self._tls = None  # what comes yet is of no interest
        self.note("shutdown", time.time_ns(), 0)
        self.sock.shutdown(socket.SHUT_WR)
        self.sock.settimeout(_CLOSING_S)
        self.do_drain()
        self._finish()

    def do_reset(self) -> None:
        self.note("reset", time.time_ns(), 0)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._finish()

    def _finish(self) -> None:
        if self.sock.fileno() >= 0:
            info = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
            self.info = base64.b64encode(info).decode()
            self.sock.close()

    def document(self) -> Document:
        """Return what the journal says of it."""
        local, peer = self.ports
        calls = sorted(self.calls, key=lambda call: call[2])
        if self._sends_since_ns:  # how much of it the socket took is not known yet
            calls.append(("send", self._sends_since_ns, time.time_ns(), 0))
        return {"local_port": local, "peer_port": peer, "calls": calls, "tcp_info": self.info}


class Host:
    """A program: its plan, its connections, its journal."""

    def __init__(self, role: str, plan: Document, journal: Path) -> None:
        self._role = role
        self._plan = plan
        self._journal = journal
        self._connections: list[Connection] = []
        self._begin = time.monotonic()
        self._deadline = self._begin + plan["most_s"]
        self._certificate = str(journal.with_name(CERTIFICATE)) if plan.get("tls") else ""
        self._family = socket.AF_INET6 if ":" in plan["address"] else socket.AF_INET

    def _adjust(self, sock: socket.socket, planned: Document) -> None:
        options = self._plan["client" if self._role == "client" else "server"] | {
            k: v for k, v in planned.items() if k == "congestion_control"
        }
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, options["congestion_control"].encode())
        for name, key in (("rcvbuf", socket.SO_RCVBUF), ("sndbuf", socket.SO_SNDBUF)):
            if options.get(name):
                sock.setsockopt(socket.SOL_SOCKET, key, options[name])
        if options.get("nodelay"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _add(self, sock: socket.socket) -> Connection:
        connection = Connection(sock, deadline=self._deadline)
        self._connections.append(connection)
        return connection

    def serve(self) -> None:
        """Take each connection's operations in the order in which they come, until SIGTERM."""
        signal.signal(signal.SIGTERM, lambda *_: self._end())
        if not self._plan["listens"]:
            print("ready", flush=True)
            signal.pause()
        server = socket.socket(self._family)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._adjust(server, {})
        server.bind(("", self._plan["port"]))
        server.listen(64)
        print("ready", flush=True)
        for planned in self._plan["connections"]:
            sock, _ = server.accept()
            self._adjust(sock, planned)
            connection = self._add(sock)
            threading.Thread(target=self._attend, args=(connection, planned), daemon=True).start()
        while True:
            signal.pause()

    def _attend(self, connection: Connection, planned: Document) -> None:
        if self._role == "proxy":
            self._pass_on(connection)
        else:
            connection.run(planned["server"], certificate=self._certificate, server=True)

    def _pass_on(self, connection: Connection) -> None:
        """Pass on what comes from the client, and what the server behind answers."""
        upstream = socket.create_connection((self._plan["origin"], self._plan["port"]))
        back = threading.Thread(target=self._pass_back, args=(connection, upstream), daemon=True)
        connection.ports = (connection.sock.getsockname()[1], connection.sock.getpeername()[1])
        back.start()
        while got := connection.sock.recv(_CHUNK):
            upstream.sendall(got)
        upstream.shutdown(socket.SHUT_WR)
        back.join()

    def _pass_back(self, connection: Connection, upstream: socket.socket) -> None:
        while got := upstream.recv(_CHUNK):
            connection.do_send(len(got))
        connection.note("shutdown", time.time_ns(), 0)
        connection.sock.shutdown(socket.SHUT_WR)

    def _end(self) -> None:
        self.write()
        os._exit(0)

    def connect(self) -> None:
        """Open the connections: as many at a time as there are lanes, each lane's one after the other."""
        lanes = self._plan["lanes"]
        threads = [threading.Thread(target=self._lane, args=(i, lanes), daemon=True) for i in range(lanes)]
        end = time.monotonic() + self._plan["patience_s"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        self.write()
        os._exit(0)

    def _lane(self, first: int, lanes: int) -> None:
        for planned in self._plan["connections"][first::lanes]:
            if time.monotonic() > self._deadline:
                return
            time.sleep(max(0.0, self._begin + planned.get("after_s", 0.0) - time.monotonic()))
            sock = socket.socket(self._family)
            self._adjust(sock, planned)
            connection = self._add(sock)
            begin_ns = time.time_ns()
            try:
                sock.connect((self._plan["address"], self._plan["port"]))
            except OSError as error:
                connection.note(f"error {error.strerror}", begin_ns, error.errno or 0)
                continue
            connection.note("connect", begin_ns, 0)
            connection.run(planned["client"], certificate=self._certificate)

    def write(self) -> None:
        """Write the journal."""
        documents = [connection.document() for connection in self._connections]
        self._journal.write_text(json.dumps({"role": self._role, "connections": documents}))


def main() -> None:
    """Run as client, or as what serves it."""
    role, plan, journal = sys.argv[1:]
    host = Host(role, json.loads(Path(plan).read_text()), Path(journal))
    host.connect() if role == "client" else host.serve()


if __name__ == "__main__":
    main()
