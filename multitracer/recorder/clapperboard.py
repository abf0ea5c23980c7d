"""The clapperboard: one tag at one instant in every log, and in a packet on the network.

Each clap makes a random tag. It is sent as a small UDP packet, so that the captures of both ends hold it, and
told to every collector, which writes it with its own clock. Alignment can then be exact, and check itself.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import time
from typing import TYPE_CHECKING

from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

MAGIC = b"MultiTracer clap "
"""How the payload of a probe begins; the tag follows as 16 hexadecimal digits."""

_FIRST_NS = 3 * NS_PER_S
"""Time before the first clap, for the collectors to begin."""


class Clapperboard:
    """Makes tags, sends them, and keeps a log of its own.

    Parameters
    ----------
    log : Path
        JSON lines, one each clap.
    to : (str, int)
        Where the probes go.
    every_ns : int
        Time between two claps; 0 for none.
    """

    def __init__(self, log: Path, *, to: tuple[str, int], every_ns: int) -> None:
        self._path = log
        self._to = to
        self._every_ns = every_ns
        self._due_ns: int | None = None
        self.claps = 0
        """How often it was clapped."""

    def __enter__(self) -> Self:
        family = socket.AF_INET6 if ":" in self._to[0] else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._log = self._path.open("a", encoding="utf-8")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        with contextlib.suppress(OSError):  # the disk is full: what was written stays
            self._log.close()

    def bring_forward(self, now_ns: int) -> None:
        """Make the next clap due now: the collectors are ready."""
        if self._every_ns:
            self._due_ns = now_ns

    def clap(self, now_ns: int) -> str | None:
        """Clap if it is time; return the tag."""
        if self._every_ns and self._due_ns is None:
            self._due_ns = now_ns + min(_FIRST_NS, self._every_ns)
        if self._due_ns is None or now_ns < self._due_ns:
            return None
        self._due_ns = now_ns + self._every_ns
        self.claps += 1
        tag = secrets.token_hex(8)
        before_ns, realtime_ns = time.monotonic_ns(), time.time_ns()
        error = self._send(tag)
        record = {
            "kind": "clap", "tag": tag, "monotonic_before_ns": before_ns, "realtime_ns": realtime_ns,
            "monotonic_after_ns": time.monotonic_ns(), "to": f"{self._to[0]}:{self._to[1]}", "error": error,
        }  # fmt: skip
        with contextlib.suppress(OSError):
            self._log.write(json.dumps(record) + "\n")
            self._log.flush()
        return tag

    def _send(self, tag: str) -> str | None:
        try:
            self._socket.sendto(MAGIC + tag.encode(), self._to)
        except OSError as error:
            return error.strerror
        return None
