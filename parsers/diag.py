"""Qualcomm's diagnostic log (DIAG): `.mi2log` of MobileInsight, QMDL of other tools.

The frames are checked and counted here; the program `scat` (package signalcat) decodes their records, tshark
the messages in these. See docs/signalling.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from parsers._format import Format, Match
from parsers._signalling.diagnostic_log import tables_of_log
from parsers._signalling.hdlc import FLAG, LOG, HdlcFrames, holds, stamp_ns, unescaped

if TYPE_CHECKING:
    from multitracer.tables import Document, Table

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
