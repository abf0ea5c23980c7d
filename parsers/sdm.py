"""Samsung's diagnostic log (SDM): the phone's own file (`.sdm`), or a recording by SCAT (`.sdmraw`).

This module only checks the lengths of the frames; the program `scat` decodes the frames, and tshark the messages in
them. Frames in the phone's own file have the time of logging; frames recorded by SCAT have no time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from parsers._format import Format, Match
from parsers._signalling.diagnostic_log import tables_of_log, untimed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Table

_BEGIN, _END = 0x7F, 0x7E
"""Octets at the begin and the end of a frame. A length of 16 bits, an octet, and the length minus three
follow the first octet."""
_LOGGED = b"\x39\x7f"
"""Octets that follow the length at the begin of each record in a phone's own file."""
_CHUNK_BYTES = 1 << 16
_MIN_LENGTH = 13  # the header behind the first octet has 14 octets
_NO_TIMES = (
    "SDM frames have no time, so this log cannot be used; let the phone write the log (.sdm), or "
    "record with multitracer"
)


@dataclass(slots=True)
class _Raw:
    """The frames that SCAT records."""

    stream: BinaryIO
    complete: int = 0
    damaged: int = 0
    rest: int = 0

    def __iter__(self) -> Iterator[bytes]:
        data = b""
        while chunk := self.stream.read(_CHUNK_BYTES):
            data += chunk
            at = 0
            while (end := _frame_end(data, at)) is not None:
                if end > at:
                    self.complete += 1
                    yield data[at:end]
                    at = end
                    continue
                begin = data.find(bytes([_BEGIN]), at + 1)
                self.damaged += 1
                at = len(data) if begin < 0 else begin
            data = data[at:]
        self.rest = len(data)


def _frame_end(data: bytes, at: int) -> int | None:
    """Return the end of the frame at `at`; `at` if no frame begins there, None if more octets are needed."""
    if len(data) < at + 6:
        return None
    outer = int.from_bytes(data[at + 1 : at + 3], "little")
    inner = int.from_bytes(data[at + 4 : at + 6], "little")
    if data[at] != _BEGIN or outer < _MIN_LENGTH or inner + 3 != outer:
        return at
    if len(data) < at + outer + 2:
        return None
    return at + outer + 2 if data[at + outer + 1] == _END else at


@dataclass(slots=True)
class _Logged:
    """The records of a phone's own file: length, mark, time, and frame without begin and end octets."""

    stream: BinaryIO
    complete: int = 0
    damaged: int = 0
    rest: int = 0

    def __iter__(self) -> Iterator[bytes]:
        data = b""
        while chunk := self.stream.read(_CHUNK_BYTES):
            data += chunk
            at = 0
            while len(data) >= at + 2:
                end = at + 2 + int.from_bytes(data[at : at + 2], "little")
                if end > len(data):
                    break
                if data[at + 2 : at + 4] == _LOGGED:
                    self.complete += 1
                else:
                    self.damaged += 1  # the first one describes the file
                yield data[at:end]
                at = end
            data = data[at:]
        self.rest = len(data)


def sniff(head: bytes) -> Match:
    """Return "yes" if the log begins with two consecutive frames or records."""
    end = _frame_end(head, 0)
    if end and (_frame_end(head, end) or 0) > end:
        return "yes"
    return "yes" if _records(head) >= 2 else "no"


def _records(head: bytes) -> int:
    at = marks = 0
    while at + 4 <= len(head):
        marks += head[at + 2 : at + 4] == _LOGGED
        if at and head[at + 2 : at + 4] != _LOGGED:
            break
        at += 2 + int.from_bytes(head[at : at + 2], "little")
    return marks


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return the tables `signalling`, `radio` and `handovers`.

    Raises
    ------
    FormatError
        If the log has no complete frame.
    PreflightError
        If scat or tshark is not installed.
    """
    frames, suffix = frames_of(stream)
    is_raw = suffix == ".sdmraw"
    tables = tables_of_log(frames, {}, path=path, arguments=("-t", "sec"), suffix=suffix, has_times=not is_raw)
    warnings = [f"{frames.damaged:,} parts of the log are not frames, and are not used"] if frames.damaged > 1 else []
    if frames.rest:
        warnings.append(f"the log ends within a frame; its last {frames.rest:,} bytes are not used")
    for table in tables.values():
        facts = {"format": FORMAT.name, "frames": frames.complete, "damaged_frames": frames.damaged}
        table.provenance |= facts | {"warnings": [*warnings, *table.provenance["warnings"]]}
    return untimed(tables, _NO_TIMES) if is_raw else tables


def frames_of(stream: BinaryIO) -> tuple[_Raw | _Logged, str]:
    """Return the frames of a log, and the suffix by which SCAT knows what it is."""
    begin = stream.read(1)
    rest = _Behind(begin, stream)
    if begin == bytes([_BEGIN]):
        return _Raw(rest), ".sdmraw"  # type: ignore[arg-type]
    return _Logged(rest), ".sdm"  # type: ignore[arg-type]


@dataclass(slots=True)
class _Behind:
    """The rest of a stream whose first octets were already read."""

    begin: bytes
    stream: BinaryIO

    def read(self, size: int) -> bytes:
        begin, self.begin = self.begin, b""
        return begin or self.stream.read(size)


FORMAT = Format(
    name="sdm",
    layer="radio",
    description="diagnostic log of a Samsung modem (SDM), read with scat and tshark",
    source="SCAT's reader (its samsungparser.py)",
    sniff=sniff,
    parse=parse,
)
