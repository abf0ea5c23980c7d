"""Qualcomm's diagnostic log (DIAG): `.mi2log` of MobileInsight, QMDL of other tools.

The frames are checked and counted here; the program `scat` (package signalcat) decodes their records, tshark
the messages in these. See docs/signalling.md.
"""

from __future__ import annotations

import binascii
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from multitracer.tables import NOT_A_TIME
from parsers._format import Format, Match
from parsers._signalling.diagnostic_log import tables_of_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Document, Table


# Frames of Qualcomm's diagnostic protocol: separated, checked and counted; their content is not decoded.


FLAG = b"\x7e"
LOG, SEVERAL_RADIOS = 0x10, 0x98
"""Commands."""
_ESCAPE = b"\x7d"
_GOOD = 0x1D0F
"""CRC of a complete frame, 0xF0B8 (RFC 1662, C.2), with its bits reversed."""
_TURNED = bytes(int(f"{octet:08b}"[::-1], 2) for octet in range(256))
"""Each octet with its bits reversed: the check sequence is `binascii.crc_hqx` with reversed bits."""
_CHUNK_BYTES = 1 << 16
_LONGEST_BYTES = 1 << 17
"""Maximum octets without a flag: a record has a length of 16 bits, and each octet may be escaped."""
_RADIO_BYTES = 8
_GPS_EPOCH_NS = 315_964_800 * 1_000_000_000
"""1980-01-06 in ns since 1970."""
_TICK_NS = 1_250_000
"""Unit of the upper 48 bits of a time, ns (1.25 ms); the lower 16 bits count 1/49,152 of it, which is 1/32 of a CDMA
chip."""
_PARTS = 49_152


@dataclass(slots=True)
class HdlcFrames:
    """The frames of a diagnostic log.

    Attributes
    ----------
    complete, damaged : int
        Frames with a correct check sequence, and the others.
    cut_bytes : int
        Octets after the last flag: an incomplete frame.
    commands, log_codes : Counter of int
        Complete frames by command; those of command LOG by the code of the record.
    inner_codes : Counter of int
        Records in frames of SEVERAL_RADIOS, by code.
    first_ns, last_ns : int
        Smallest and largest time of a record, as the modem counts it; NOT_A_TIME without any.
    """

    stream: BinaryIO
    complete: int = 0
    damaged: int = 0
    cut_bytes: int = 0
    commands: Counter[int] = field(default_factory=Counter)
    log_codes: Counter[int] = field(default_factory=Counter)
    inner_codes: Counter[int] = field(default_factory=Counter)
    first_ns: int = NOT_A_TIME
    last_ns: int = NOT_A_TIME

    def __iter__(self) -> Iterator[bytes]:
        """Yield each complete frame as it is in the log, with escape octets and its flag."""
        rest = b""
        while chunk := self.stream.read(_CHUNK_BYTES):
            *ended, rest = (rest + chunk).split(FLAG)
            yield from (each + FLAG for each in ended if self._is_complete(each))
            if len(rest) > _LONGEST_BYTES:
                self.damaged += 1
                rest = b""
        self.cut_bytes = len(rest)

    def _is_complete(self, raw: bytes) -> bool:
        """Count a frame; return whether its check sequence is correct."""
        if not raw:
            return False  # two flags in a row
        frame = unescaped(raw)
        if len(frame) < 3 or not holds(frame):
            self.damaged += 1
            return False
        self.complete += 1
        self.commands[frame[0]] += 1
        if frame[0] == LOG:
            self._count(frame, self.log_codes)
        elif frame[0] == SEVERAL_RADIOS and frame[_RADIO_BYTES : _RADIO_BYTES + 1] == bytes([LOG]):
            self._count(frame[_RADIO_BYTES:], self.inner_codes)
        return True

    def _count(self, frame: bytes, codes: Counter[int]) -> None:
        if len(frame) < 18:
            return
        codes[int.from_bytes(frame[6:8], "little")] += 1
        time_ns = stamp_ns(int.from_bytes(frame[8:16], "little"))
        if time_ns is not None:
            self.first_ns = time_ns if self.first_ns == NOT_A_TIME else min(self.first_ns, time_ns)
            self.last_ns = max(self.last_ns, time_ns)


def unescaped(raw: bytes) -> bytes:
    """Return the octets of a frame with its escape sequences (for 0x7d and 0x7e) decoded."""
    return raw.replace(b"\x7d\x5e", FLAG).replace(b"\x7d\x5d", _ESCAPE)


def holds(frame: bytes) -> bool:
    """Return whether the check sequence at the end of an unescaped frame is correct."""
    return binascii.crc_hqx(frame.translate(_TURNED), 0xFFFF) == _GOOD


def escaped(payload: bytes) -> bytes:
    """Return a payload as a frame: check sequence appended, octets escaped, flag at the end."""
    register = binascii.crc_hqx(payload.translate(_TURNED), 0xFFFF)
    check = int(f"{register:016b}"[::-1], 2) ^ 0xFFFF
    frame = payload + check.to_bytes(2, "little")
    return frame.replace(_ESCAPE, b"\x7d\x5d").replace(FLAG, b"\x7d\x5e") + FLAG


def stamp_ns(stamp: int) -> int | None:
    """Return a modem time stamp in ns since 1970; None if it is after the year 2200."""
    time_ns = _GPS_EPOCH_NS + (stamp >> 16) * _TICK_NS + (stamp & 0xFFFF) * _TICK_NS // _PARTS
    return time_ns if time_ns < 7_258_118_400 * 1_000_000_000 else None


_PPP = b"\xff"
"""The address of PPP, whose frames have the same form (RFC 1662, section 3.1)."""
_HEADER_BYTES = 16
_OTHER_CLOCKS = 315_964_800 * 1_000_000_000  # 1980-01-06: a stamp of 0


def sniff(head: bytes) -> Match:
    """Return "yes" for frames between flags whose check sequences are right, and that are not PPP's."""
    ended = [unescaped(each) for each in head.split(FLAG)[:-1] if each and not each.startswith(_PPP)]
    good = sum(len(frame) > 3 and holds(frame) for frame in ended)
    if good >= 2 and 2 * good >= len(ended):
        return "yes"
    if good == len(ended) == 1:
        return "yes"
    return "maybe" if _begins_record(unescaped(head.partition(FLAG)[0])) else "no"


def _begins_record(frame: bytes) -> bool:
    """Return whether a frame that is longer than the head begins as a record of the log does."""
    if len(frame) < _HEADER_BYTES or frame[0] != LOG or frame[2:4] != frame[4:6]:
        return False
    time_ns = stamp_ns(int.from_bytes(frame[8:16], "little"))
    return time_ns is not None and time_ns > _OTHER_CLOCKS and int.from_bytes(frame[2:4], "little") > len(frame)


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `signalling`, `radio` and `handovers`.

    Raises
    ------
    FormatError
        If no frame in it is whole.
    PreflightError
        If scat or tshark is not installed.
    """
    frames, facts = HdlcFrames(stream), dict[str, object]()
    arguments = ("-t", "qc", "--disable-crc-check")
    tables = tables_of_log(frames, facts, path=path, arguments=arguments, suffix=".qmdl")
    counted = _facts(frames)
    for table in tables.values():
        table.provenance |= counted | {"warnings": [*_warnings(frames), *table.provenance["warnings"]]}
    return tables


def _facts(frames: HdlcFrames) -> Document:
    return {
        "format": FORMAT.name,
        "frames": frames.complete,
        "damaged_frames": frames.damaged,
        "cut_bytes": frames.cut_bytes,
        "commands": {f"0x{code:02x}": n for code, n in frames.commands.most_common()},
        "log_codes": {f"0x{code:04X}": n for code, n in frames.log_codes.most_common()},
        "inner_log_codes": {f"0x{code:04X}": n for code, n in frames.inner_codes.most_common()},
        "first_ns": frames.first_ns,
        "last_ns": frames.last_ns,
    }


def _warnings(frames: HdlcFrames) -> list[str]:
    warnings = []
    if frames.damaged:
        count = "1 frame is" if frames.damaged == 1 else f"{frames.damaged:,} frames are"
        warnings.append(f"{count} damaged (wrong check sequence) and not used; {frames.complete:,} are intact")
    if frames.cut_bytes:
        warnings.append(f"the log ends within a frame; its last {frames.cut_bytes:,} bytes are not used")
    return warnings


FORMAT = Format(
    name="diag",
    layer="radio",
    description="diagnostic log of a Qualcomm modem (mi2log, QMDL), read with scat and tshark",
    source="SCAT's and MobileInsight's readers; RFC 1662, sections 4.2 and C.2",
    sniff=sniff,
    parse=parse,
)
