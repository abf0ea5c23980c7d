"""Which TCP connections of a capture are subflows of one MPTCP connection (RFC 8684).

The tables say which connections use MPTCP. Keys and tokens are read again from the packets that open these, because few
captures hold any. A subflow that joins names a token; it belongs to the connection whose keys give this token. If that
connection opened before the capture, all subflows with the token are those of one connection.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import parsers
from multitracer.captured import IpProtocol
from multitracer.protocols.mptcp import MultipathJoin, option_of, token_of
from multitracer.recording.inputs import STANDARD_INPUT, UNREADABLE
from multitracer.recording.read_again import MOST_BYTES
from parsers._ip_packets import addresses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.protocols.mptcp import MultipathCapable
    from multitracer.recording.capture import Capture
    from multitracer.tables import Document
    from parsers import IpPacket

_VERSIONS = (0, 1)


class MultipathConnection(NamedTuple):
    """Subflows that belong together."""

    token: int
    """A token of the connection: that of its responder's key, or the one that subflows name."""
    version: int | None
    """Version of MPTCP, 0 or 1; None if the first subflow was not captured."""
    subflows: tuple[int, ...]
    """Numbers of their TCP connections in the recording, ascending."""


def multipath_connections(capture: Capture) -> list[MultipathConnection]:
    """Return the MPTCP connections of a capture with two subflows or more, by their first subflow.

    Packets of standard input, and of large files, cannot be read again: their subflows are not related.
    """
    directions = capture.analysis.directions
    uses = (directions["mptcp"][0::2] | directions["mptcp"][1::2]).nonzero()[0]
    if len(uses) < 2:
        return []
    number_of = {}
    for place in uses.tolist():
        ends = capture.analysis.ends(place + 1)
        number_of[frozenset(((ends.src, ends.sport), (ends.dst, ends.dport)))] = capture.offset + place + 1
    names: dict[tuple[int, int | None], set[int]] = {}  # tokens, and connections with each
    for pair, option in _options(capture):
        number = number_of.get(pair)
        if number is None:
            continue
        if isinstance(option, MultipathJoin):
            known = next(((option.token, v) for v in _VERSIONS if (option.token, v) in names), (option.token, None))
            names.setdefault(known, set()).add(number)
            continue
        for key in option.keys:
            token = token_of(key, option.version)
            names.setdefault((token, option.version), names.pop((token, None), set())).add(number)
    return _joined(names)


def _joined(names: dict[tuple[int, int | None], set[int]]) -> list[MultipathConnection]:
    """Return the connections with two subflows or more; tokens of both hosts may name the same subflow."""
    group_of: dict[int, _Group] = {}
    for token, numbers in names.items():
        parts = {id(group): group for number in numbers if (group := group_of.get(number)) is not None}
        groups = sorted(parts.values(), key=lambda each: -len(each.subflows))
        group = groups[0] if groups else _Group(token, len(numbers))
        for other in groups[1:]:
            group.take(other)
        group.take(_Group(token, len(numbers), numbers))
        group_of |= dict.fromkeys(numbers.union(*(other.subflows for other in groups[1:])), group)
    several = {id(group): group for group in group_of.values() if len(group.subflows) > 1}.values()
    chosen = [MultipathConnection(*group.token, tuple(sorted(group.subflows))) for group in several]
    return sorted(chosen, key=lambda each: each.subflows)


@dataclass
class _Group:
    """Connections that some tokens name together."""

    token: tuple[int, int | None]
    """The token that names most of them, and its version."""
    named: int
    subflows: set[int] = field(default_factory=set)

    def take(self, other: _Group) -> None:
        """Add the connections of another group."""
        if other.named > self.named:
            self.token, self.named = other.token, other.named
        self.subflows |= other.subflows


def multipath_documents(capture: Capture) -> list[Document]:
    """Return the MPTCP connections as `analyze --json` writes them."""
    return [
        {
            "token": each.token,
            "version": each.version,
            "connections": list(each.subflows),
            "subflows": [
                {"connection": number, "initiator": ends.source, "responder": ends.destination}
                for number in each.subflows
                for ends in [capture.analysis.ends(number - capture.offset)]
            ],
        }
        for each in multipath_connections(capture)
    ]


def _options(capture: Capture) -> Iterator[tuple[frozenset[tuple[str, int]], MultipathCapable | MultipathJoin]]:
    """Yield the endpoints, and the option, of each packet that opens a subflow."""
    for file in capture.tables.files:
        if file.path == STANDARD_INPUT or file.bytes > MOST_BYTES:
            continue
        try:
            for packet in parsers.read_multipath_openings(file.path):
                if (segment := _segment(packet)) is None or (option := option_of(segment)) is None:
                    continue
                yield _endpoints(packet, segment), option
        except UNREADABLE:
            continue


def _segment(packet: IpPacket) -> bytes | None:
    """Return a packet from its TCP header on; None of one without."""
    data = packet.data
    at = 4 * (data[0] & 0x0F) if packet.version == 4 else 40
    protocol = data[9] if packet.version == 4 else data[6]
    return data[at:] if protocol == IpProtocol.TCP and len(data) >= at + 20 else None


def _endpoints(packet: IpPacket, segment: bytes) -> frozenset[tuple[str, int]]:
    from ipaddress import ip_address  # noqa: PLC0415  # few captures hold such packets

    ports = (int.from_bytes(segment[i : i + 2], "big") for i in (0, 2))
    return frozenset((str(ip_address(host)), port) for host, port in zip(addresses(packet), ports, strict=True))
