"""The totals of an rlpdump log, and its records one at a time.

Records in the layout of rlpdump are read many at once (`bulk.py`); this module reads those with another
layout and the lines of events, and has the code that both readers share.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.captured import IpProtocol
from multitracer.protocols.gsmtap import PORT, GsmtapError, GsmtapType, decode, log_text
from multitracer.protocols.l2r import L2rError, unpack
from multitracer.protocols.pcap_file import OptionCode
from multitracer.protocols.rlp import FRAME_OCTETS, FrameError, FrameKind, is_intact, read_header
from multitracer.protocols.rlpdump import MARK
from multitracer.schemas.link import LINK_EVENTS, LINK_FRAMES
from multitracer.tables import NA, NOT_A_TIME
from parsers._pcapng.blocks import Resolution, byte_order, options, text
from parsers._text.times import MOST, Rows, filled, natural

if TYPE_CHECKING:
    from multitracer.tables import Array, Schema, Table

IP_OCTETS, UDP_OCTETS, GSMTAP_OCTETS = 20, 8, 16
NO_GSMTAP, NO_FRAME, CUT_LINE = "no GSMTAP packet", "no RLP frame", "truncated log line"
MOST_ATTEMPTS = 0x7FFF
_TIME_RESOLUTION = 9
"""Code of the interface option with the resolution of time stamps (if_tsresol)."""
_WORD = re.compile(r"(\w+)=(\S+)")
_EVENT = re.compile(r"[a-z0-9_]+")
_TEXT_COLUMNS = ("event", "cause")
_NUMBER_COLUMNS = tuple(name for name in LINK_EVENTS.names[3:] if name not in _TEXT_COLUMNS)
_MOST_PENDING = 1 << 16


class Facts(NamedTuple):
    """The fields of a frame, in the order of the columns from `kind` to `payload_bytes`."""

    kind: str = ""
    function: str = ""
    command: bool = False
    poll_final: bool = False
    n_s: int = NA
    n_r: int = NA
    payload_bytes: int = 0


class RlpRecord(NamedTuple):
    """A packet of the file: time, slot, direction and comment words."""

    time_ns: int
    tick: int
    number: int
    uplink: bool
    words: dict[str, str]


def words_in(line: str) -> dict[str, str]:
    """Return the `key=value` words of a line."""
    return dict(_WORD.findall(line))


def number(value: str | None, most: int) -> int:
    """Return a count in the log as an integer; NA if it is absent, not valid or above `most`."""
    try:
        return NA if value is None else natural(value, most=most)
    except ValueError:
        return NA


def frame_facts(octets: bytes, *, length: int) -> Facts:
    """Return the fields of a frame of `length` octets; `octets` are the stored ones, from its start.

    Raises
    ------
    FrameError
        If the header is cut or not valid.
    """
    if len(octets) < 2 or length not in FRAME_OCTETS:
        raise FrameError(
            "RLP frame: the frame length must be 30 or 72 octets (in studies also 42, 144 or 288), "
            f"but is {length} octets, of which {len(octets)} are present"
        )
    header = read_header(octets[0] | octets[1] << 8)
    return Facts(
        header.kind.name,
        header.function.name,
        header.command,
        header.poll_final,
        NA if header.n_s is None else header.n_s,
        NA if header.n_r is None else header.n_r,
        payload_bytes(octets[2:], length - 5) if header.kind is FrameKind.IS else 0,
    )


def payload_bytes(info: bytes, length: int) -> int:
    """Return the number of characters in an information field of `length` octets; 0 if it is not valid.

    If `info` is truncated, the number is taken from the status octets that are present.
    """
    try:
        return sum(len(chunk.data) for chunk in unpack(info[:length].ljust(length, b"\x1f")))
    except L2rError:
        return 0


class RlpTotals:
    """The rows and counts of a log, up to the block that was read last.

    Attributes
    ----------
    header : dict of str to str
        Facts of the first section that has rlpdump's mark.
    packets : int
        Packet blocks so far.
    skipped : dict of str to int
        Packets that could not be used, by reason.
    order : str
        struct's sign for the byte order of the current section; empty before the first.
    resolutions : list of Resolution
        Clock resolutions of the interfaces of the section.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.header: dict[str, str] = {}
        self.packets = 0
        self.skipped: dict[str, int] = {}
        self.order = ""
        self.resolutions: list[Resolution] = []
        self.frames = Rows(LINK_FRAMES, LINK_FRAMES.names)
        self.events = _Events()

    @property
    def is_mobile(self) -> bool:
        """Whether the log was written at the mobile side."""
        return self.header.get("side") == "mobile"

    @property
    def is_overheard(self) -> bool:
        """Whether the log was written by a listener on the radio channel instead of one of the two sides."""
        return self.header.get("source") == "gsmtap"

    def skip(self, reason: str) -> None:
        """Count a packet that could not be used."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    # --- blocks; `body` is what stands between a block's lengths ---

    def section(self, body: bytes) -> None:
        """Read a section header block: a new section begins."""
        self.order = byte_order(b"\0" * 8 + body) or self.order
        self.resolutions = []
        comments = [text(value) for code, value in options(body[16:], self.order) if code == OptionCode.COMMENT]
        for comment in comments:
            if comment.startswith(MARK) and not self.header:
                self.header = words_in(comment)

    def interface(self, body: bytes) -> None:
        """Read the description of the next interface of the section."""
        codes = {code: value for code, value in options(body[8:], self.order) if value}
        self.resolutions.append(Resolution(codes.get(_TIME_RESOLUTION, b"\x06")[0]))

    def packet(self, place: int, body: bytes) -> None:
        """Read packet number `place` of the file, and add its frame or log line."""
        interface, high, low, kept, _ = struct.unpack_from(self.order + "IIIII", body)
        packet = body[20 : 20 + kept]
        header = (packet[0] & 0x0F) * 4 if packet else 0
        ports = packet[header : header + 4]
        is_gsmtap = packet[9:10] == bytes((IpProtocol.UDP,)) and PORT.to_bytes(2) in (ports[:2], ports[2:])
        if interface >= len(self.resolutions) or len(packet) < kept or not is_gsmtap:
            self.skip(NO_GSMTAP)
            return
        length = int.from_bytes(packet[header + 4 : header + 6]) - UDP_OCTETS
        try:
            tap = decode(packet[header + UDP_OCTETS :])
        except GsmtapError:
            self.skip(NO_GSMTAP)
            return
        behind = options(body[20 + (kept + 3 & ~3) :], self.order)
        comments = [text(value) for code, value in behind if code == OptionCode.COMMENT]
        time_ns = self._time_ns(interface, high << 32 | low)
        record = RlpRecord(time_ns, tap.frame_number, place, tap.uplink, words_in(" ".join(comments)))
        if tap.type == GsmtapType.GSM_RLP:
            missing = length - (len(packet) - header - UDP_OCTETS)
            self.frame(record, tap.payload, len(tap.payload) + missing)
        elif tap.type == GsmtapType.LOG:
            self.line(record, tap.payload)
        else:
            self.skip(f"GSMTAP type {tap.type:#04x}")

    def _time_ns(self, interface: int, ticks: int) -> int:
        resolution = self.resolutions[interface]
        unit = 2**resolution.exponent if resolution.binary else 10**resolution.exponent
        time_ns = ticks * 10**9 // unit
        return time_ns if time_ns < 1 << 63 else NOT_A_TIME

    # --- records ---

    def frame(self, record: RlpRecord, octets: bytes, length: int) -> None:
        """Add a frame of `length` octets; `octets` are the stored ones, from its start."""
        complete = len(octets) == length in FRAME_OCTETS
        lost = record.words.get("fate") == "lost" or (complete and not is_intact(octets))
        try:
            facts = Facts() if lost else frame_facts(octets, length=length)
        except FrameError:
            self.skip(NO_FRAME)
            return
        self._append(record, facts, fcs_ok=not lost)

    def _append(self, record: RlpRecord, facts: Facts, *, fcs_ok: bool) -> None:
        sent = record.uplink == self.is_mobile
        words = record.words
        fate = words.get("fate", "") if fcs_ok else "lost"
        if facts.kind == "IS" and not sent and not self.is_overheard:
            fate = fate or "delivered"
        first = None if self.is_overheard else "1"
        self.frames.append(
            record.time_ns,
            NA if self.is_overheard else record.tick,
            record.number,
            sent,
            record.uplink,
            fcs_ok,
            *facts,
            number(words.get("off"), MOST),
            number(words.get("try", first), MOST_ATTEMPTS) if sent else NA,
            words.get("cause", ""),
            fate,
        )

    def line(self, record: RlpRecord, payload: bytes) -> None:
        """Add an event from a log line, with its `key=value` words."""
        try:
            line = log_text(payload)
        except GsmtapError:
            self.skip(CUT_LINE)
            return
        name, _, rest = line.partition(" ")
        if not _EVENT.fullmatch(name):
            self.skip("log line without an event")
        elif name == "frame_lost":
            self._append(record._replace(uplink=not record.uplink), Facts(), fcs_ok=False)
        else:
            self.events.append(record, name, words_in(rest))

    # --- the end ---

    def tables(self, damaged: str | None, *, name: str) -> dict[str, Table]:
        """Return the tables `link_frames` and `link_events`, with warnings about the log in their provenance.

        `damaged` describes the damage of the file; None without damage.
        """
        provenance: dict[str, object] = {
            "path": self.path,
            "format": name,
            "header": self.header,
            "packets": self.packets,
            "skipped": self.skipped,
            "damaged": damaged,
        }
        made = ((LINK_FRAMES, self.frames), (LINK_EVENTS, self.events))
        return {schema.name: _table(schema, rows, provenance) for schema, rows in made}


class _Events:
    """Rows of LINK_EVENTS; an event has values only in the columns of its kind."""

    def __init__(self) -> None:
        self._rows = Rows(LINK_EVENTS, LINK_EVENTS.names)
        self._begin()

    def _begin(self) -> None:
        self._texts: list[tuple[int, int, int, str, str]] = []
        self._numbers: dict[str, tuple[list[int], list[str]]] = {name: ([], []) for name in _NUMBER_COLUMNS}

    def append(self, record: RlpRecord, name: str, words: dict[str, str]) -> None:
        """Add one event with its name and its `key=value` words."""
        row, cause = len(self._texts), words.pop("cause", "")
        self._texts.append((record.time_ns, record.tick, record.number, name, cause))
        for key, value in words.items():
            if key in self._numbers:
                rows, values = self._numbers[key]
                rows.append(row)
                values.append(value)
        if len(self._texts) >= _MOST_PENDING:
            self._pack()

    def _pack(self) -> None:
        known = ("time_ns", "tick", "frame", *_TEXT_COLUMNS)
        dtypes = {column.name: column.dtype for column in LINK_EVENTS}
        texts = zip(*self._texts, strict=True) if self._texts else [()] * len(known)
        columns = {name: np.array(v, dtype=dtypes[name]) for name, v in zip(known, texts, strict=True)}
        for name, (rows, values) in self._numbers.items():
            columns[name] = np.full(len(self._texts), NA, dtype=np.int64)
            columns[name][rows] = _numbers(values)
        self._rows.extend(columns)
        self._begin()

    def columns(self) -> dict[str, Array]:
        """Return the collected columns by name, each of shape (n_events,), with the dtype of the schema."""
        self._pack()
        return self._rows.columns()


def _numbers(values: list[str]) -> Array:
    """Return counts of the log as integers; see `number`."""
    digits = "".join(values)
    if digits.isascii() and digits.isdigit() and max(map(len, values)) < len(str(MOST)):
        return np.array(values).astype(np.int64)
    return np.array([number(value, MOST) for value in values], dtype=np.int64)


def _table(schema: Schema, rows: Rows | _Events, provenance: dict[str, object]) -> Table:
    """Return the rows as a table in order of time; rows with equal times are in the order of the log."""
    columns = rows.columns()
    order = np.argsort(columns["frame"], kind="stable")
    return filled(schema, {name: values[order] for name, values in columns.items()}, provenance)
