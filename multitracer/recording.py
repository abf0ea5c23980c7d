"""A session, read and analysed: which connections there are, how they are numbered, how one is found.

Connections are numbered from 1 through all points of the session, in the order of the points.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from multitracer.errors import InputError

if TYPE_CHECKING:
    from multitracer.analysis import Analysis
    from multitracer.capture import Capture
    from multitracer.clock.session_clock import Clocks
    from multitracer.session import Point, Session

_CANDIDATES = 10


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The two ends of a connection, the initiator first."""

    src: str
    sport: int
    dst: str
    dport: int

    @property
    def source(self) -> str:
        """The initiator as HOST:PORT."""
        return host_port(self.src, self.sport)

    @property
    def destination(self) -> str:
        """The responder as HOST:PORT."""
        return host_port(self.dst, self.dport)


def host_port(host: str, port: int) -> str:
    """Return an endpoint as HOST:PORT, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True, slots=True)
class Part:
    """One point's capture with its analysis."""

    point: Point
    analysis: Analysis
    offset: int
    """Connections of the parts before: connection n of this analysis is number offset + n of the session."""

    def __len__(self) -> int:
        return len(self.analysis.connections)

    @property
    def capture(self) -> Capture:
        """What was captured there."""
        return self.analysis.capture

    def unique_bytes(self) -> Any:
        """Return the unique bytes of each connection, both directions together."""
        unique = self.analysis.directions["unique_bytes"]
        return unique[0::2] + unique[1::2]

    def endpoints(self, begin: int, end: int) -> list[Endpoints]:
        """Return the endpoints of connections begin to end (rows from 0, end not included)."""
        directed = self.analysis.connections["forward_flow"][begin:end]
        flows = self.capture.flows.take(directed >> 1)
        a = _hosts(flows["ip_version"], flows["address_a"], flows["port_a"])
        b = _hosts(flows["ip_version"], flows["address_b"], flows["port_b"])
        return [
            Endpoints(*(y + x if backwards else x + y))
            for x, y, backwards in zip(a, b, (directed & 1).tolist(), strict=True)
        ]

    def with_endpoint(self, host: str, port: int) -> list[int]:
        """Return the numbers (in this part) of the connections that have this endpoint, on either side."""
        version, packed = _packed(host)
        wanted = np.frombuffer(packed.ljust(16, b"\0"), dtype="V16")
        flows = self.capture.flows
        ends = [(flows[f"address_{end}"] == wanted) & (flows[f"port_{end}"] == port) for end in "ab"]
        fitting = (ends[0] | ends[1]) & (flows["ip_version"] == version)
        rows = np.flatnonzero(fitting[self.analysis.connections["forward_flow"] >> 1])
        return [int(row) + 1 for row in rows]


def _hosts(version: Any, address: Any, port: Any) -> list[tuple[str, int]]:
    return [
        (host_text(v, a), p)
        for v, a, p in zip(version.tolist(), address.tolist(), port.tolist(), strict=True)
    ]


def _packed(host: str) -> tuple[int, bytes]:
    version, family = (6, socket.AF_INET6) if ":" in host else (4, socket.AF_INET)
    try:
        return version, socket.inet_pton(family, host)
    except OSError as error:
        raise InputError(f"{host!r} is not an IP address; names are not looked up") from error


def host_text(version: int, address: bytes) -> str:
    """Return an address of a table as text."""
    if version == 4:
        return f"{address[0]}.{address[1]}.{address[2]}.{address[3]}"
    return socket.inet_ntop(socket.AF_INET6, address)


@dataclass(frozen=True)
class Recording:
    """A session with the analysis of each of its captures."""

    session: Session
    parts: list[Part]

    @cached_property
    def clocks(self) -> Clocks | None:
        """How its clocks relate (docs/clock.md); None if one capture is all there is to relate."""
        if len(self.parts) < 2:
            return None
        from multitracer.clock.session_clock import clocks_of  # noqa: PLC0415  # a single capture needs none

        captures = [(part.point, part.capture) for part in self.parts]
        return clocks_of(self.session, captures, thorough=False)

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def numbered(self, number: int) -> tuple[Part, int]:
        """Return the part that holds a connection of the session, and its number there.

        Raises
        ------
        InputError
            If there is no such connection.
        """
        for part in self.parts:
            if 0 < number - part.offset <= len(part):
                return part, number - part.offset
        raise InputError(f"no connection {number}; there {'is' if len(self) == 1 else 'are'} {len(self)}")

    def with_endpoint(self, host: str, port: int) -> list[tuple[Part, int]]:
        """Return the connection that has this endpoint, once for each capture that saw it.

        Raises
        ------
        InputError
            If there is none, or several within one capture; the message lists them.
        """
        found = [(part, n) for part in self.parts for n in part.with_endpoint(host, port)]
        if not found:
            raise InputError(f"no connection has the endpoint {host_port(host, port)}; inspect lists them")
        if len({id(part) for part, _ in found}) < len(found):
            raise InputError(
                f"several connections have the endpoint {host_port(host, port)}: {_names(found)}"
            )
        return found

    def largest(self) -> tuple[Part, int]:
        """Return the connection with the most unique bytes.

        Raises
        ------
        InputError
            If there is no connection.
        """
        each = [(part, int(part.unique_bytes().argmax()) + 1) for part in self.parts if len(part)]
        if not each:
            raise InputError(f"{self.session.name}: holds no TCP connection")
        return max(each, key=lambda found: found[0].unique_bytes()[found[1] - 1])


def _names(found: list[tuple[Part, int]]) -> str:
    """Return the connections to choose from, in words."""
    words = []
    for part, n in found[:_CANDIDATES]:
        ends = part.endpoints(n - 1, n)[0]
        words.append(f"{part.offset + n} ({ends.source} -> {ends.destination})")
    more = f" and {len(found) - _CANDIDATES} more" if len(found) > _CANDIDATES else ""
    return f"{', '.join(words)}{more}; choose one by its number"
