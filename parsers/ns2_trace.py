"""Traces of the packets on wired links that ns-2 writes (`trace-all`, `trace-queue`), as a capture at one interface.

    + 0.1 0 1 tcp 1040 ------- 1 0.0 1.0 2 5

Event (`+` queued, `-` sent, `r` received, `d` dropped), time in s, from and to node, type, bytes, flags, flow, source
and destination as NODE.PORT, number of the packet in its flow, unique number. Source: the ns manual, chapter "Trace
and Monitoring Support"; with `show_tcphdr_` more fields follow, which are not read.

The interface is the one at which the first data packet of TCP is queued: what is queued there, and what is received
from that link. ns-2's one-way TCP numbers packets, not bytes, and its packets have no header; the headers that are made
here have the same meaning, so that all later steps are those of any capture.
"""

from __future__ import annotations

import io
import re
import struct
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from multitracer.captured import CaptureInterface, Flag, SourceFile
from multitracer.errors import FormatError
from multitracer.units import NS_PER_S
from parsers._capture.capture_file import decode_stream
from parsers._format import Format, Match
from parsers._packets.layers import PAD_BYTES, PacketRecords
from parsers._text.lines import LogLines

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from multitracer.capture import CaptureTables
    from parsers._format import Readable

_FIELDS = (
    r"([-+rdhe]) (\d{1,9}(?:\.\d{1,12})?(?:e-\d{1,2})?) (\d{1,8}) (\d{1,8}) (\w{1,20}) (\d{1,9}) [-\w]{1,8} -?\d{1,9} "
    r"(\d{1,8})\.(\d{1,5}) (\d{1,8})\.(\d{1,5}) (-?\d{1,10}) (\d{1,19})(?: [^\n]*)?"
)
_LINE = re.compile(_FIELDS, re.ASCII)
_SNIFFED = re.compile(_FIELDS.encode() + rb"\r?\n")
_RAW_IP = 101
_HEADERS_BYTES = 40
"""IPv4 and TCP: as many bytes of a packet's size are no data in ns-2, too (`tcpip_base_hdr_size_`)."""
_IP = struct.Struct(">BBHHHBBHII")
_TCP = struct.Struct(">HHIIBBHHH")
_UDP = struct.Struct(">HHHH")
_TCP_PROTOCOL, _UDP_PROTOCOL = 6, 17
_SCALE = bytes((1, 3, 3, 14))
"""Option of a SYN: window scale 14, so that the window below is larger than any of ns-2, whose TCP advertises none."""
_WINDOW = 0xFFFF
_STRIDE = 48
"""Bytes for each packet of a block: the headers with that option, and space behind them."""
_BLOCK_PACKETS = 8192
_LARGEST_BYTES = 0xFFFF
_NETWORK = 10 << 24
"""10.0.0.0/8: node 3 is 10.0.0.3."""
_MOST_NODES = 1 << 24
_HEAD_LINES = 1000
"""Lines in which the first data packet is looked for; without one, the first packet of TCP counts."""
_MOST_FLOWS = 65_536
_NOT_A_LINE = "not a line of ns-2's trace of wired links"
_TOO_LARGE = "a packet, node or port has a larger number than IP allows"
_TOO_MANY = f"the packet is of none of the first {_MOST_FLOWS:,} flows"
_BYTES = "the numbers of a flow count bytes, as FullTcp's do"
_SIZES = "data packets of one flow have several sizes, so that their numbers give no position"


class _UnusableError(Exception):
    """The numbers of a flow give no positions, so that reading ends."""


class _Raw(io.RawIOBase):
    """A source of bytes as a raw stream."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # BufferedReader gives a memoryview
        return self._stream.readinto(buffer) or 0


@dataclass(slots=True)
class _Flow:
    """The numbers of one flow of ns-2's one-way TCP, as positions in a stream of bytes."""

    has_syn: bool = False
    is_answer: bool = False
    """Whether its SYN is the answer to the SYN of the other direction."""
    data_bytes: int = 0
    """Payload of each data packet; 0 until the first one."""
    first: int = 0
    highest: int = 0
    end: int = 1
    """Position behind the data packet with the highest number."""

    def data(self, number: int, data_bytes: int) -> int:
        """Return the position of a data packet; raise an error if the numbers do not give it."""
        if not self.data_bytes:
            self.data_bytes, self.first, self.highest = data_bytes, number, number - 1
            self.end = self._position(number)
        if self.highest == self.first and number - self.first == data_bytes > 1:
            raise _UnusableError(_BYTES)
        at, is_new = self._position(number), number > self.highest
        is_full = data_bytes == self.data_bytes
        follows_full = self.end == self._position(self.highest + 1)
        if data_bytes > self.data_bytes or not (follows_full if is_new else is_full or number == self.highest):
            raise _UnusableError(_SIZES)
        if is_new:
            self.highest, self.end = number, at + data_bytes
        return at

    def acknowledged(self, number: int) -> int:
        """Return the position that an acknowledgment of packet `number` names."""
        after = self._position(number + 1)
        return self.end if self.highest == number else after

    def _position(self, number: int) -> int:
        return 1 + (number - self.has_syn) * self.data_bytes


class _Interface:
    """Turns the lines of a trace into packets at one interface."""

    def __init__(self, lines: LogLines, source: SourceFile) -> None:
        self.lines = lines
        self._source = source
        self._head = list(islice(lines, _HEAD_LINES))
        self._link: tuple[str, str] | None = None
        self.number = 0
        """Number of the current line."""
        self._flows: dict[tuple[int, int, int, int], _Flow] = {}
        self.elsewhere = self.dropped = 0
        """Lines of other links, and packets that the queue of this interface dropped."""
        self._data = bytearray()
        self._times_ns: list[int] = []
        self._captured: list[int] = []
        self._original: list[int] = []

    def read(self) -> Iterator[PacketRecords]:
        """Read the lines, and yield the packets in batches."""
        heads = [line for line in map(_LINE.fullmatch, self._head) if line and line[1] == "+" and line[5] == "tcp"]
        with_data = (line for line in heads if int(line[6]) > _HEADERS_BYTES)
        for line in [*with_data, *heads][:1]:
            self._use(line[3], line[4])
        try:
            for text in chain(self._head, self.lines):
                self.number += 1
                self._take(text)
                if len(self._times_ns) == _BLOCK_PACKETS:
                    yield self._records()
            cut = f"the last line is truncated after {len(self.lines.cut)} bytes" if self.lines.cut else None
            self._source.damaged = self.lines.damage or cut
        except _UnusableError as error:
            self._source.damaged = f"line {self.number:,}: {error}; reading ended there"
        yield self._records()

    def _use(self, begin: str, end: str) -> None:
        self._link = begin, end
        self._source.interfaces.append(CaptureInterface(_RAW_IP, name=f"node {begin} to {end}"))

    def _skip(self, reason: str) -> None:
        self.lines.skip(reason, number=self.number)

    def _take(self, text: str) -> None:
        line = _LINE.fullmatch(text)
        if line is None:
            self._skip(_NOT_A_LINE)
            return
        event, time_s, begin, end, kind, *_ = line.groups()
        if self._link is None and event == "+" and kind == "tcp":
            self._use(begin, end)
        if (begin, end) == self._link and event in "+d":
            self.dropped += event == "d"
            here = event == "+"
        else:
            here = event == "r" and (end, begin) == self._link
            self.elsewhere += event != "-" and not here
        if here:
            self._packet(kind, round(float(time_s) * NS_PER_S), [int(group) for group in line.groups()[5:]])

    def _packet(self, kind: str, time_ns: int, numbers: list[int]) -> None:
        size, source, source_port, destination, port, number, unique = numbers
        size = max(size, _HEADERS_BYTES if kind in {"tcp", "ack"} else _IP.size + _UDP.size)
        if max(source, destination) >= _MOST_NODES or max(source_port, port, size) > _LARGEST_BYTES:
            self._skip(_TOO_LARGE)
            return
        flow = source, source_port, destination, port
        if kind == "tcp":
            payload = self._data_header(flow, number, size - _HEADERS_BYTES)
        elif kind == "ack":
            payload = self._ack_header(flow, number)
        else:
            payload = _UDP.pack(source_port, port, size - _IP.size, 0)
        if not payload:
            return
        protocol = _UDP_PROTOCOL if len(payload) == _UDP.size else _TCP_PROTOCOL
        size += len(payload) - _TCP.size if protocol == _TCP_PROTOCOL else 0
        addresses = _NETWORK | source, _NETWORK | destination
        octets = _IP.pack(0x45, 0, size, unique & 0xFFFF, 0, 64, protocol, 0, *addresses) + payload
        self._data += octets.ljust(_STRIDE, b"\0")
        self._times_ns.append(time_ns)
        self._captured.append(len(octets))
        self._original.append(size)

    def _data_header(self, ends: tuple[int, int, int, int], number: int, data_bytes: int) -> bytes:
        flow = self._flow(ends)
        if flow is None:
            return b""
        if data_bytes:
            return _tcp(ends, flow.data(number, data_bytes), 1, Flag.ACK)
        flow.has_syn |= number == 0 and not flow.data_bytes
        return _tcp(ends, 0, 0, Flag.SYN, _SCALE) if flow.has_syn else b""

    def _ack_header(self, ends: tuple[int, int, int, int], number: int) -> bytes:
        source, source_port, destination, port = ends
        flow, own = self._flow((destination, port, source, source_port)), self._flow(ends)
        if flow is None or own is None:
            return b""
        if number == 0 and flow.has_syn and not flow.is_answer and not flow.data_bytes:
            own.has_syn = own.is_answer = True
            return _tcp(ends, 0, 1, Flag.SYN | Flag.ACK, _SCALE)
        return _tcp(ends, 1, flow.acknowledged(number), Flag.ACK)

    def _flow(self, ends: tuple[int, int, int, int]) -> _Flow | None:
        if ends not in self._flows and len(self._flows) >= _MOST_FLOWS:
            self._skip(_TOO_MANY)
            return None
        return self._flows.setdefault(ends, _Flow())

    def _records(self) -> PacketRecords:
        """Return the packets since the last call of this method."""
        count = len(self._times_ns)
        data = np.frombuffer(bytes(self._data) + bytes(PAD_BYTES), np.uint8)
        captured, original, times_ns = (
            np.array(numbers, dtype=np.int64) for numbers in (self._captured, self._original, self._times_ns)
        )
        for each in (self._data, self._times_ns, self._captured, self._original):
            each.clear()
        return PacketRecords(data, np.arange(count) * _STRIDE, captured, original, times_ns, _RAW_IP)


def _tcp(ends: tuple[int, int, int, int], seq: int, ack: int, flags: int, options: bytes = b"") -> bytes:
    _, source_port, _, port = ends
    words = (_TCP.size + len(options)) // 4
    return _TCP.pack(source_port, port, seq % 2**32, ack % 2**32, words << 4, flags, _WINDOW, 0, 0) + options


def sniff(head: bytes) -> Match:
    """Return "yes" where the first line is one of a trace, "maybe" where another one is."""
    if _SNIFFED.match(head):
        return "yes"
    return "maybe" if re.search(rb"(?m)^" + _SNIFFED.pattern, head) else "no"


def blocks(stream: Readable, source: SourceFile) -> Generator[PacketRecords]:
    """Yield the packets of a trace in batches, and store the properties of the file in `source`.

    Raises
    ------
    FormatError
        If no line is one of ns-2's trace of wired links.
    """
    lines = LogLines(io.BufferedReader(_Raw(stream), 1 << 20))
    here = _Interface(lines, source)
    source.application = "ns-2"
    source.variant = "wired links, seconds since the start"
    yield from here.read()
    if lines.skipped.get(_NOT_A_LINE, 0) == lines.number:
        raise FormatError(source.path, "no line is one of ns-2's trace of wired links", line=1)
    _note(here, source)


def _note(here: _Interface, source: SourceFile) -> None:
    """State what the trace has beside the packets at the interface."""
    here.lines.warn_of_skipped()
    source.warnings += here.lines.provenance(source.path, source.format)["warnings"]  # type: ignore[arg-type]
    if here.dropped:
        source.comments.append((None, f"packets that ns-2 dropped at the queue of this interface: {here.dropped:,}"))
    if here.elsewhere:
        source.comments.append((None, f"events of other interfaces, which were not read: {here.elsewhere:,}"))


def parse(stream: BinaryIO, *, path: str) -> CaptureTables:
    """Return the TCP segments of a trace as they pass one interface, and the counts of all other packets."""
    return decode_stream(stream, SourceFile(path, "ns2-trace"), blocks)


FORMAT = Format(
    name="ns2-trace",
    layer="packet",
    description="packets on wired links as ns-2 traces them, with its one-way TCP",
    source="The ns Manual, chapter Trace and Monitoring Support, section Trace File Format",
    sniff=sniff,
    parse=parse,
    blocks=blocks,
)
