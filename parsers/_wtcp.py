"""The WTCP connections of a capture: datagrams of UDP that belong to a hand-shake of WTCP (docs/wtcp.md).

A connection is a SYN, then the SYN-ACK to it that carries the identity in the SYN; its packets carry the
identity that their receiver chose. No other datagram counts as WTCP, whatever its octets are; so a capture
that began later shows no WTCP connection.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.endpoints import Endpoints, host_text
from multitracer.protocols.wtcp.packet import (
    DATA_BYTES,
    HEAD_BYTES,
    HELLO_BYTES,
    MAX_ACK_BYTES,
    MAX_RANGES,
    NO_IDENTITY,
    Data,
    PacketFlag,
    WtcpAck,
    WtcpOpening,
    WtcpPacketType,
    decode,
)
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.wtcp import WTCP_PACKETS, WtcpCapture
from parsers._ip_packets import addresses, packets_of, read_records, udp_datagram

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from multitracer.captured import SourceFile
    from multitracer.protocols.wtcp.packet import Body, WtcpPacket
    from parsers._ip_packets import IpPacket, UdpDatagram

    Way = tuple[bytes, int, bytes, int]

_MOST_PENDING = 4096
"""Maximum SYNs that wait for an answer; a new one replaces the oldest. They take 1 MB (not measured)."""
_MOST_CONNECTIONS = 65_536
"""A `WtcpWorker` serves 256 at once; some 20 MB of text (not measured)."""
_MOST_IDENTITIES = 8
"""Maximum identities of a responder for one SYN: `WtcpWorker` uses a new one each minute (docs/wtcp.md)."""
_COLUMNS = len(WTCP_PACKETS.columns)


@dataclass(slots=True)
class _Connection:
    """A connection, by the identities that packets to its two ends carry."""

    number: int
    to_initiator: bytes
    to_responder: set[bytes] = field(default_factory=set)


class _Syn(NamedTuple):
    """A SYN that waits for an answer: times and frames of the first and last SYN with this identity."""

    identity: bytes
    first: tuple[int, int]
    last: tuple[int, int]


class _Reader:
    """Takes the datagrams of one capture in order."""

    def __init__(self) -> None:
        self.ends: list[Endpoints] = []
        self.skipped: Counter[str] = Counter()
        self.cells = array("q")
        self._pending: dict[Way, _Syn] = {}
        self._connections: dict[Way, tuple[_Connection, bool]] = {}
        """Connections by direction of a packet; the flag is True for the direction of the responder."""

    def take(self, packet: IpPacket) -> None:
        """Take an IP packet, whatever it is."""
        datagram = udp_datagram(packet)
        if datagram is None or len(datagram.payload) < HEAD_BYTES:
            return
        source, destination = addresses(packet)
        way = (source, datagram.ports[0], destination, datagram.ports[1])
        back = (destination, datagram.ports[1], source, datagram.ports[0])
        if way not in self._connections and back not in self._pending and datagram.payload[0] != _SYN:
            return
        decoded = _decoded(datagram)
        if decoded is None:
            self.skipped["not a WTCP packet, or with a truncated header"] += way in self._connections
        else:
            self._take_wtcp(packet, way, back, decoded, datagram)

    def _take_wtcp(self, packet: IpPacket, way: Way, back: Way, decoded: WtcpPacket, datagram: UdpDatagram) -> None:
        body = decoded.body
        stamp = NOT_A_TIME if packet.time_ns is None else packet.time_ns, packet.frame
        if isinstance(body, WtcpOpening) and body.kind is WtcpPacketType.SYN:
            self._note_syn(way, decoded.identity, body, stamp)
            return
        if isinstance(body, WtcpOpening) and body.kind is WtcpPacketType.SYN_ACK:
            self._note_answer(packet.version, way, back, decoded.identity, body)
        connection, is_responder = self._connections.get(way, (None, False))
        if connection is None:
            return
        known = {connection.to_initiator} if is_responder else connection.to_responder
        if decoded.identity not in known:
            self.skipped["the connection identifier is wrong"] += 1
            return
        self.cells.extend((*stamp, 2 * connection.number + is_responder, *_cells(body, datagram)))

    def _note_syn(self, way: Way, identity: bytes, body: WtcpOpening, stamp: tuple[int, int]) -> None:
        known, _ = self._connections.get(way, (None, False))
        if identity != NO_IDENTITY or (known is not None and known.to_initiator == body.hello.identity):
            return
        before = self._pending.pop(way, None)
        is_again = before is not None and before.identity == body.hello.identity
        first = before.first if before is not None and is_again else stamp
        self._pending[way] = _Syn(body.hello.identity, first, stamp)
        if len(self._pending) > _MOST_PENDING:
            del self._pending[next(iter(self._pending))]

    def _note_answer(self, version: int, way: Way, back: Way, identity: bytes, body: WtcpOpening) -> None:
        syn = self._pending.get(back)
        if syn is not None and syn.identity == identity:
            if len(self.ends) >= _MOST_CONNECTIONS:
                self.skipped[f"packet of a connection after the first {_MOST_CONNECTIONS:,} connections"] += 1
                return
            connection = _Connection(len(self.ends), identity)
            self._connections[back], self._connections[way] = (connection, False), (connection, True)
            source, destination = host_text(version, back[0]), host_text(version, back[2])
            self.ends.append(Endpoints(source, back[1], destination, back[3]))
            del self._pending[back]
            for stamp in dict.fromkeys((syn.first, syn.last)):
                self.cells.extend((*stamp, 2 * connection.number, WtcpPacketType.SYN.value, NA, NA, 0, NA))
        connection_there, is_responder = self._connections.get(way, (None, False))
        if connection_there is None or not is_responder or connection_there.to_initiator != identity:
            return
        if len(connection_there.to_responder) < _MOST_IDENTITIES:
            connection_there.to_responder.add(body.hello.identity)

    def table(self) -> Table:
        """Return the packets so far."""
        cells = np.array(self.cells, np.int64).reshape(-1, _COLUMNS)
        return Table(WTCP_PACKETS, dict(zip(WTCP_PACKETS.names, cells.T.copy(), strict=True)))


_SYN = 0x11
"""First octet of a SYN of version 1."""


def _decoded(datagram: UdpDatagram) -> WtcpPacket | None:
    """Return the packet in a datagram; what the capture cut off is zeros, if its header is there."""
    complete, kind = datagram.length, datagram.payload[0] & 15
    octets = datagram.payload[:complete]
    if len(octets) == complete:
        return decode(octets)
    is_data = kind in (WtcpPacketType.DATA, WtcpPacketType.PROBE)
    hello_bytes = HELLO_BYTES if octets[1] & PacketFlag.HELLO else 0
    header_bytes = HEAD_BYTES + hello_bytes + DATA_BYTES if is_data else MAX_ACK_BYTES - _RANGES_BYTES
    if len(octets) < header_bytes or (not is_data and kind != WtcpPacketType.ACK):
        return None
    return decode(octets.ljust(complete, b"\0"))


_RANGES_BYTES = 8 * MAX_RANGES  # docs/wtcp.md: begin and length of each have 4 octets


def _cells(body: Body, datagram: UdpDatagram) -> tuple[int, int, int, int, int]:
    """Return type, number, place, payload bytes and commanded rate of a packet."""
    kind = datagram.payload[0] & 15
    if isinstance(body, Data):
        return kind, body.number, body.offset, len(body.payload), NA
    if isinstance(body, WtcpAck):
        return kind, body.number, body.cumulative, 0, body.rate_bps
    return kind, NA, NA, 0, NA


def read_wtcp(files: Iterable[SourceFile]) -> WtcpCapture:
    """Return the WTCP connections in the capture files of one point, of those packets that were read before.

    Parameters
    ----------
    files : iterable of SourceFile
        As `read_capture` made them, in order.

    Raises
    ------
    InputError, UnknownFormatError, FormatError
        As `read_capture`.
    """
    reader = _Reader()
    for file in files:
        for packet in _packets_of_file(file):
            reader.take(packet)
    return WtcpCapture(reader.table(), reader.ends, dict(+reader.skipped))


def _packets_of_file(file: SourceFile) -> Iterator[IpPacket]:
    before = 0
    for records in read_records(file.path):
        for packet in packets_of(records, before + 1):
            if packet.frame > file.packets:
                return
            yield packet
        before += len(records)
        if before >= file.packets:
            return
