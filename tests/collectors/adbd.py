"""A phone for tests: the device's side of the ADB protocol over TCP, and a shell with Android's tools as scripts.

`adb connect` of Debian's adb finds it as it finds a phone. Shell commands run in a real `sh` of this machine whose
PATH begins with the scripts of a folder (`dumpsys`, `logcat`, `getprop`, …). Source: packages/modules/adb,
protocol.txt, SERVICES.TXT and shell_protocol.h.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
import subprocess
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_CNXN, _AUTH, _OPEN, _OKAY, _CLSE, _WRTE = (int.from_bytes(name, "little") for name in
                                            (b"CNXN", b"AUTH", b"OPEN", b"OKAY", b"CLSE", b"WRTE"))  # fmt: skip
_HEADER = struct.Struct("<6I")
_VERSION, _MOST = 0x01000000, 1 << 18
_TOKEN = 1
_STDIN, _STDOUT, _STDERR, _EXIT, _CLOSE_STDIN = range(5)


class Phone:
    """A phone that listens on a port of loopback.

    Parameters
    ----------
    tools : Path
        Folder with the scripts that its shell finds first.
    is_allowed : bool
        Whether its owner has allowed USB debugging.
    """

    def __init__(self, tools: Path, *, is_allowed: bool = True) -> None:
        self.tools = tools
        self.is_allowed = is_allowed
        self.port = 0
        self.numbers = itertools.count(1)
        """Numbers of streams, of all links."""
        self._listener: socket.socket | None = None
        self._links: list[_Link] = []

    @property
    def serial(self) -> str:
        """The name by which adb knows it."""
        return f"127.0.0.1:{self.port}"

    def plug(self) -> None:
        """Listen, on the same port as before."""
        listener = socket.create_server(("127.0.0.1", self.port))
        self._listener, self.port = listener, listener.getsockname()[1]
        threading.Thread(target=self._serve, args=(listener,), daemon=True).start()

    def unplug(self) -> None:
        """End all connections, and listen no more."""
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        for link in self._links:
            link.close()
        self._links = []

    def freeze(self) -> None:
        """Answer nothing more on the connections that there are."""
        for link in self._links:
            link.is_frozen = True

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            link = _Link(self, connection)
            self._links.append(link)
            threading.Thread(target=link.run, daemon=True).start()


class _Link:
    """One connection of an adb server."""

    def __init__(self, phone: Phone, connection: socket.socket) -> None:
        self.phone = phone
        self.is_frozen = False
        self._connection = connection
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # an answer is two short packets
        self._lock = threading.Lock()
        self._streams: dict[int, _Stream | _Tunnel] = {}
        self._listeners: list[socket.socket] = []

    def run(self) -> None:
        with self._connection, suppress(OSError, struct.error):
            while True:
                self._take(*self._read())

    def close(self) -> None:
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        for stream in [*self._streams.values()]:
            stream.close()
        for listener in self._listeners:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def send(self, command: int, first: int, second: int, data: bytes = b"") -> None:
        if self.is_frozen:
            return
        header = _HEADER.pack(command, first, second, len(data), sum(data) & 0xFFFFFFFF, command ^ 0xFFFFFFFF)
        with self._lock, suppress(OSError):
            self._connection.sendall(header + data)

    def _read(self) -> tuple[int, int, int, bytes]:
        command, first, second, length, _, _ = _HEADER.unpack(self._exactly(_HEADER.size))
        return command, first, second, self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            chunk = self._connection.recv(count - len(data))
            if not chunk:
                raise OSError("the server has gone")
            data += chunk
        return data

    def _take(self, command: int, first: int, second: int, data: bytes) -> None:
        if command in (_CNXN, _AUTH):
            if self.phone.is_allowed:
                self.send(_CNXN, _VERSION, _MOST, b"device::ro.product.model=Fake;features=shell_v2,cmd")
            elif command == _CNXN or first != 3:  # its public key is shown to the owner, who does nothing
                self.send(_AUTH, _TOKEN, 0, os.urandom(20))
        elif command == _OPEN:
            self._open(first, data.rstrip(b"\0").decode())
        elif command == _OKAY and second in self._streams:
            self._streams[second].accepted(first)
        elif command == _WRTE and second in self._streams:
            self._streams[second].write(data)
            self.send(_OKAY, second, first)
        elif command == _CLSE and second in self._streams:
            self._streams.pop(second).close()

    def _open(self, remote: int, service: str) -> None:
        kind, _, line = service.partition(":")
        local = next(self.phone.numbers)
        if kind == "reverse":
            self._reverse(line, local, remote)
            return
        if not kind.startswith(("shell", "exec")):
            self.send(_CLSE, 0, remote)
            return
        self._streams[local] = stream = _Stream(self, local, remote, line or "sh", is_framed="v2" in kind)
        self.send(_OKAY, local, remote)
        stream.start()

    def _reverse(self, line: str, local: int, remote: int) -> None:
        """Listen on a port of the phone's own, and carry its connections to a port of the computer."""
        self.send(_OKAY, local, remote)
        answer = b"OKAY"
        if line.startswith("forward:tcp:0;"):
            listener = socket.create_server(("127.0.0.1", 0))
            self._listeners.append(listener)
            port = str(listener.getsockname()[1]).encode()
            answer += b"%04x" % len(port) + port
            threading.Thread(target=self._carry, args=(listener, line.partition(";")[2]), daemon=True).start()
        self.send(_WRTE, local, remote, answer)
        self.send(_CLSE, local, remote)

    def _carry(self, listener: socket.socket, target: str) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                local = next(self.phone.numbers)
                self._streams[local] = _Tunnel(self, local, connection)
                self.send(_OPEN, local, 0, target.encode() + b"\0")


class _Tunnel:
    """A connection of a program of the phone to a port of the computer."""

    def __init__(self, link: _Link, local: int, connection: socket.socket) -> None:
        self._link, self._local, self._remote = link, local, 0
        self._connection = connection
        self._may_send = threading.Event()

    def accepted(self, remote: int) -> None:
        if not self._remote:
            self._remote = remote
            threading.Thread(target=self._forward, daemon=True).start()
        self._may_send.set()

    def write(self, data: bytes) -> None:
        with suppress(OSError):
            self._connection.sendall(data)

    def close(self) -> None:
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _forward(self) -> None:
        with suppress(OSError):
            while chunk := self._connection.recv(1 << 15):
                self._may_send.wait()
                self._may_send.clear()
                self._link.send(_WRTE, self._local, self._remote, chunk)
        self._link.send(_CLSE, self._local, self._remote)


class _Stream:
    """A shell command."""

    def __init__(self, link: _Link, local: int, remote: int, line: str, *, is_framed: bool) -> None:
        self._link, self._ids, self._is_framed = link, (local, remote), is_framed
        self.may_send = threading.Event()
        self.may_send.set()
        self._is_open = True
        self._input = b""
        path = f"{link.phone.tools}:{os.environ['PATH']}"
        self._child = subprocess.Popen(
            ["sh", "-c", line], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={"PATH": path}, process_group=0,
        )  # fmt: skip
        self._forwarder = threading.Thread(target=self._forward, daemon=True)

    def start(self) -> None:
        self._forwarder.start()

    def accepted(self, _: int) -> None:
        self.may_send.set()

    def write(self, data: bytes) -> None:
        """Pass what adb's standard input had to the shell."""
        assert self._child.stdin is not None
        if not self._is_framed:
            plain = data
        else:
            self._input += data
            plain = b""
            while len(self._input) >= 5:
                kind, length = struct.unpack("<BI", self._input[:5])
                if len(self._input) < 5 + length:
                    break
                if kind == _STDIN:
                    plain += self._input[5 : 5 + length]
                elif kind == _CLOSE_STDIN:
                    self._child.stdin.close()
                self._input = self._input[5 + length :]
        with suppress(OSError, ValueError):
            self._child.stdin.write(plain)
            self._child.stdin.flush()

    def close(self) -> None:
        self._is_open = False
        self.may_send.set()
        with suppress(ProcessLookupError):
            os.killpg(self._child.pid, 9)
        self._child.wait()
        self._forwarder.join()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _forward(self) -> None:
        assert self._child.stdout is not None
        while chunk := os.read(self._child.stdout.fileno(), 1 << 15):
            self._send(_STDOUT, chunk)
        if self._is_framed:
            self._send(_EXIT, bytes([self._child.wait() & 0xFF]))
        self._link.send(_CLSE, *self._ids)

    def _send(self, kind: int, data: bytes) -> None:
        self.may_send.wait()
        if not self._is_open:
            return
        self.may_send.clear()
        framed = struct.pack("<BI", kind, len(data)) + data if self._is_framed else data
        self._link.send(_WRTE, *self._ids, framed)
