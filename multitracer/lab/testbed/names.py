"""Names that identify the maker: of namespaces by their name, of processes by an environment variable.

A maker is a process number and when that process started, because numbers are used again.
"""

from __future__ import annotations

import os
import re
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from multitracer.lab.channel.gsm.link import Side

VARIABLE = "MULTITRACER_TESTBED"
"""In the environment of every process of a run, with its maker as the value."""
_MAKER = re.compile(r"(\d+)-(\d+)")
_NAMESPACE = re.compile(r"mt(\d+)-(\d+)-testbed-(?:mobile|fixed)")
_START_TIME_FIELD = 19  # of /proc/PID/stat behind the name, from 0: starttime in clock ticks
_NETWORK = int(IPv4Address("10.0.0.0"))
_PID_BITS = 22
"""Linux has at most 2^22 processes; with two hosts each, in networks of four, they fill 10.0.0.0/8."""


class Maker(NamedTuple):
    """A process that makes namespaces and child processes."""

    pid: int
    start_time: int

    @classmethod
    def myself(cls) -> Maker:
        """Return this process."""
        started = start_time(os.getpid())
        assert started is not None
        return cls(os.getpid(), started)

    @classmethod
    def of_namespace(cls, name: str) -> Maker | None:
        """Return the maker of a namespace; None if it is not a testbed's."""
        return cls._matched(_NAMESPACE.fullmatch(name))

    @classmethod
    def of_word(cls, word: str) -> Maker | None:
        """Return the maker in the value of the environment variable."""
        return cls._matched(_MAKER.fullmatch(word))

    @classmethod
    def _matched(cls, match: re.Match[str] | None) -> Maker | None:
        return cls(int(match[1]), int(match[2])) if match else None

    def __str__(self) -> str:
        return f"{self.pid}-{self.start_time}"

    @property
    def lives(self) -> bool:
        """Whether the process still runs."""
        return start_time(self.pid) == self.start_time

    def namespace(self, side: Side) -> str:
        """Return the name of the namespace of one host."""
        return f"mt{self}-testbed-{side}"

    def address(self, side: Side) -> str:
        """Return a host's address, unique among the runs on a machine: kernel tracing records all of them."""
        number = self.pid % (1 << _PID_BITS)
        return str(IPv4Address(_NETWORK + 4 * number + (1 if side == "mobile" else 2)))


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if it does not exist or is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[_START_TIME_FIELD])
