"""One host's program: does a list of operations on each connection and keeps a journal of its calls.

`python -m tests.causes.app client|server|origin|proxy PLAN JOURNAL`; a proxy passes what comes from a client on
to the plan's `origin`, and back. An operation is a list, its name first:

- `send BYTES [CHUNK]`: calls send() with CHUNK bytes at a time (64 kB),
- `recv BYTES [CHUNK [PAUSE_S]]`: reads that many, and sleeps after each read; `drain` reads to the end,
- `wait SECONDS WHY [SPREAD]`: sleeps, longer and shorter by up to that share; WHY is `think` (it owes an
  answer), `pace` (its own rhythm) or `idle`,
- `repeat N OPERATIONS`, `acked` (until nothing is unacknowledged), `close`, `reset`.

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
import termios
import threading
import time
from pathlib import Path
from typing import Any

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

    def note(self, name: str, begin_ns: int, count: int) -> None:
        """Enter a call that began at `begin_ns` and is over now."""
        self.calls.append((name, begin_ns, time.time_ns(), count))

    def run(self, operations: list[Operation]) -> None:
        """Do the operations; whatever ends the connection early is entered."""
        try:
            self.ports = (self.sock.getsockname()[1], self.sock.getpeername()[1])
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
            begin_ns = self._sends_since_ns = time.time_ns()
            try:
                sent = self.sock.send(_TEXT[: min(count, chunk, len(_TEXT))])
            finally:
                self._sends_since_ns = 0
            self.note("send", begin_ns, sent)
            count -= sent

    def do_recv(self, count: int, chunk: int = _CHUNK, pause_s: float = 0.0) -> None:
        while count > 0:
            begin_ns = time.time_ns()
            got = len(self.sock.recv(min(count, chunk)))
            self.note("recv", begin_ns, got)
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
        calls = list(self.calls)
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
            work, given = (self._pass_on, connection) if self._role == "proxy" else (connection.run, planned["server"])
            threading.Thread(target=work, args=(given,), daemon=True).start()
        while True:
            signal.pause()

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
            connection.run(planned["client"])

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
