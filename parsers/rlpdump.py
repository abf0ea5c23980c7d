"""rlpdump's log of one side of a GSM radio link: a pcapng file of frames, with events between them.

The format is told in multitracer/protocols/rlpdump.py, which writes it. Frames whose information was cut
are read as well as whole ones. A record that is cut ends the log; what precedes it is kept.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from multitracer.errors import FormatError
from multitracer.link import LINK_EVENTS, LINK_FRAMES
from multitracer.protocols.gsmtap import PORT, GsmtapError, GsmtapType, decode, log_text
from multitracer.protocols.l2r import L2rError, unpack
from multitracer.protocols.rlp.frame import FRAME_OCTETS, FrameError, FrameKind, is_intact, read_header
from multitracer.protocols.rlpdump import MARK
from multitracer.tables import NA, NOT_A_TIME
from parsers._format import Format, Match
from parsers._pcapng_blocks import SECTION_HEADER, Resolution, byte_order, options, text
from parsers._sender import Rows

if TYPE_CHECKING:
    from multitracer.tables import Table

_MARK = MARK.encode() + b" "
_LONGEST_BLOCK_BYTES = 1 << 16
_COMMENT, _TIME_RESOLUTION = 1, 9
_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_IP_OCTETS, _UDP_OCTETS, _UDP = 20, 8, 17
_MOST = 1 << 53
_MOST_ATTEMPTS = 0x7FFF
_WORD = re.compile(r"(\w+)=(\S+)")
_EVENT = re.compile(r"[a-z0-9_]+")
_FRAME_COLUMNS = LINK_FRAMES.names
_TEXT_COLUMNS = ("event", "cause")
_NUMBER_COLUMNS = tuple(name for name in LINK_EVENTS.names[3:] if name not in _TEXT_COLUMNS)


class _Facts(NamedTuple):
    """What the bytes of a frame say, in the order of the columns from `kind` to `payload_bytes`."""

    kind: str = ""
    function: str = ""
    command: bool = False
    poll_final: bool = False
    n_s: int = NA
    n_r: int = NA
    payload_bytes: int = 0


class _Record(NamedTuple):
    """A packet of the file: when, which slot, which direction, what."""

    time_ns: int
    tick: int
    number: int
    uplink: bool
    words: dict[str, str]


def frame_facts(octets: bytes, *, length: int) -> _Facts:
    """Return what a frame of `length` octets says, of which `octets` are there.

    Raises
    ------
    FrameError
        If the header is cut or makes no sense.
    """
    if len(octets) < 2 or length not in FRAME_OCTETS:
        raise FrameError(f"RLP frame: {len(octets)} of {length} octets; a frame has 30 or 72")
    header = read_header(octets[0] | octets[1] << 8)
    return _Facts(
        header.kind.name,
        header.function.name,
        header.command,
        header.poll_final,
        NA if header.n_s is None else header.n_s,
        NA if header.n_r is None else header.n_r,
        _payload_bytes(octets[2:], length - 5) if header.kind is FrameKind.IS else 0,
    )


def _payload_bytes(info: bytes, length: int) -> int:
    """Return the characters in an information field; of a cut one, those that its first status tells."""
    try:
        return sum(len(piece.data) for piece in unpack(info[:length].ljust(length, b"\x1f")))
    except L2rError:
        return 0


class _Log:
    """What the blocks read so far add up to."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.header: dict[str, str] = {}
        self.packets = 0
        self.skipped: dict[str, int] = {}
        self.frames = Rows(LINK_FRAMES, _FRAME_COLUMNS)
        self.events = Rows(LINK_EVENTS, LINK_EVENTS.names)
        self._order = "<"
        self._resolutions: list[Resolution] = []

    def take(self, kind: int, body: bytes) -> None:
        """Use one block; `body` is what stands between its lengths."""
        if kind == _SECTION:
            self._section(body)
        elif kind == _INTERFACE:
            codes = {code: value for code, value in options(body[8:], self._order) if value}
            self._resolutions.append(Resolution(codes.get(_TIME_RESOLUTION, b"\x06")[0]))
        elif kind == _PACKET and len(body) >= _IP_OCTETS:
            self.packets += 1
            self._packet(body)

    def skip(self, reason: str) -> None:
        """Count a packet that could not be used."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def _section(self, body: bytes) -> None:
        self._order = byte_order(b"\0" * 8 + body)
        self._resolutions = []
        comments = [text(value) for code, value in options(body[16:], self._order) if code == _COMMENT]
        for comment in comments:
            if comment.startswith(MARK) and not self.header:
                self.header = dict(_WORD.findall(comment))

    def _packet(self, body: bytes) -> None:
        interface, high, low, kept, _ = struct.unpack_from(self._order + "IIIII", body)
        packet = body[20 : 20 + kept]
        header = (packet[0] & 0x0F) * 4 if packet else 0
        ports = packet[header : header + 4]
        is_gsmtap = packet[9:10] == bytes((_UDP,)) and PORT.to_bytes(2) in (ports[:2], ports[2:])
        if interface >= len(self._resolutions) or len(packet) < kept or not is_gsmtap:
            self.skip("no GSMTAP packet")
            return
        length = int.from_bytes(packet[header + 4 : header + 6]) - _UDP_OCTETS
        try:
            tap = decode(packet[header + _UDP_OCTETS :])
        except GsmtapError:
            self.skip("no GSMTAP packet")
            return
        comments = [
            value for code, value in options(body[20 + (kept + 3 & ~3) :], self._order) if code == _COMMENT
        ]
        words = dict(_WORD.findall(" ".join(map(text, comments))))
        time_ns = self._time_ns(interface, high << 32 | low)
        record = _Record(time_ns, tap.frame_number, self.packets, tap.uplink, words)
        if tap.type == GsmtapType.GSM_RLP:
            missing = length - (len(packet) - header - _UDP_OCTETS)
            self._frame(record, tap.payload, len(tap.payload) + missing)
        elif tap.type == GsmtapType.LOG:
            self._line(record, tap.payload)
        else:
            self.skip(f"GSMTAP type {tap.type:#04x}")

    def _time_ns(self, interface: int, ticks: int) -> int:
        resolution = self._resolutions[interface]
        unit = 2**resolution.exponent if resolution.binary else 10**resolution.exponent
        time_ns = ticks * 10**9 // unit
        return time_ns if time_ns < 1 << 63 else NOT_A_TIME

    def _frame(self, record: _Record, octets: bytes, length: int) -> None:
        whole = len(octets) == length in FRAME_OCTETS
        lost = record.words.get("fate") == "lost" or (whole and not is_intact(octets))
        try:
            facts = _Facts() if lost else frame_facts(octets, length=length)
        except FrameError:
            self.skip("no RLP frame")
            return
        self._append(record, facts, fcs_ok=not lost)

    def _append(self, record: _Record, facts: _Facts, *, fcs_ok: bool) -> None:
        sent = record.uplink == (self.header.get("side") == "mobile")
        words = record.words
        overheard = (
            self.header.get("source") == "gsmtap"
        )  # by one who knows the frames, not the sender's books
        fate = words.get("fate", "") if fcs_ok else "lost"
        if facts.kind == "IS" and not sent and not overheard:
            fate = fate or "delivered"
        first = None if overheard else "1"
        attempt = _number(words.get("try", first), _MOST_ATTEMPTS) if sent else NA
        self.frames.append(
            record.time_ns,
            NA if overheard else record.tick,
            record.number,
            sent,
            record.uplink,
            fcs_ok,
            *facts,
            _number(words.get("off"), _MOST),
            attempt,
            words.get("cause", ""),
            fate,
        )

    def _line(self, record: _Record, payload: bytes) -> None:
        try:
            line = log_text(payload)
        except GsmtapError:
            self.skip("log line that is cut")
            return
        name, _, rest = line.partition(" ")
        words = dict(_WORD.findall(rest))
        if not _EVENT.fullmatch(name):
            self.skip("log line without an event")
        elif name == "frame_lost":
            self._append(record._replace(uplink=not record.uplink), _Facts(), fcs_ok=False)
        else:
            numbers = (_number(words.get(column), _MOST) for column in _NUMBER_COLUMNS)
            stamps = record.time_ns, record.tick, record.number
            self.events.append(*stamps, name, words.get("cause", ""), *numbers)

    def tables(self, damaged: str | None) -> dict[str, Table]:
        """Return both tables, with what a reader should know of the log."""
        provenance: dict[str, Any] = {
            "path": self.path,
            "format": FORMAT.name,
            "header": self.header,
            "packets": self.packets,
            "skipped": self.skipped,
            "damaged": damaged,
        }
        return {"link_frames": self.frames.table(provenance), "link_events": self.events.table(provenance)}


def _number(value: str | None, most: int) -> int:
    """Return a count of the log; NA if it is absent or makes no sense."""
    if value is None or not value.isascii() or not value.isdigit() or len(value) > len(str(most)):
        return NA
    return int(value) if int(value) <= most else NA


def sniff(head: bytes) -> Match:
    """Return "yes" for a pcapng section whose comment names rlpdump."""
    if head[:4] != SECTION_HEADER or len(head) < 28 or not byte_order(head):
        return "no"
    length = struct.unpack_from(byte_order(head) + "I", head, 4)[0]
    return "yes" if _MARK in head[: min(length, len(head))] else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return the tables `link_frames` and `link_events` of one side.

    Raises
    ------
    FormatError
        If the stream does not begin like a log of rlpdump.
    """
    log = _Log(path)
    at, order, damaged = 0, "", None
    while prefix := stream.read(8):
        if prefix[:4] == SECTION_HEADER:
            prefix += stream.read(4)
            order = byte_order(prefix) or order
        block, damaged = _rest_of_block(stream, prefix, order, at)
        if block is None:
            break
        log.take(struct.unpack_from(order + "I", block)[0], block[8:-4])
        if at == 0 and "side" not in log.header:
            break
        at += len(block)
    if "side" not in log.header:
        raise FormatError(path, "no log of rlpdump: its section names no side", offset=at)
    return log.tables(damaged)


def _rest_of_block(stream: BinaryIO, prefix: bytes, order: str, at: int) -> tuple[bytes | None, str | None]:
    """Return a whole block, or why there is none."""
    if not order or len(prefix) < 8:
        return None, f"the last record is cut at byte {at}"
    length = struct.unpack_from(order + "I", prefix, 4)[0]
    if length % 4 or not 12 <= length <= _LONGEST_BLOCK_BYTES:
        return None, f"a block of {length} bytes at byte {at} makes no sense"
    block = prefix + stream.read(length - len(prefix))
    if len(block) < length:
        return None, f"the last record is cut at byte {at}"
    if block[-4:] != block[4:8]:
        return None, f"the two lengths of the block at byte {at} differ"
    return block, None


FORMAT = Format(
    name="rlpdump",
    layer="link",
    description="frames and events of one side of a GSM radio link (RLP), from MultiTracer",
    source="multitracer/protocols/rlpdump.py; GSMTAP of libosmocore in pcapng",
    sniff=sniff,
    parse=parse,
)
