"""Samsung's diagnostic log, with frames that SCAT itself writes and reads."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import FormatError
from multitracer.tables import NOT_A_TIME
from parsers import sdm
from tests.parsers.signalling_messages import DL_CCCH, DL_DCCH, MESSAGES, START_NS, UL_DCCH
from tests.parsers.test_diag import needs_programs

_LTE, _OTA = 0x02, 0x52
_CHANNELS = {DL_CCCH: (0, 0), DL_DCCH: (4, 0), UL_DCCH: (4, 1)}
"""Subtype of GSMTAP -> channel and direction in SDM."""
NAMES = ("report", "handover to 305", "complete 1")


def payload(name: str) -> bytes:
    subtype, octets = MESSAGES[name]
    return bytes(_CHANNELS[subtype]) + struct.pack("<H", len(octets) // 2) + bytes.fromhex(octets)


def frame(body: bytes) -> bytes:
    length = 2 + 3 + 4 + len(body) + 2
    return b"\x7f" + struct.pack("<HBHHBBBL", length + 3, 0, length, 0, 0xA0, _LTE, _OTA, 0) + body + b"\x7e"


def record(body: bytes, *, time_ms: int) -> bytes:
    head = struct.pack("<HHLHBBBL", 0x7F39, time_ms & 0xFFFF, time_ms >> 16, 0, 0xA0, _LTE, _OTA, 0)
    return struct.pack("<H", len(head) + len(body)) + head + body


RAW = b"".join(frame(payload(name)) for name in NAMES)
LOGGED = (
    struct.pack("<H", 40)
    + bytes(40)
    + b"".join(record(payload(name), time_ms=START_NS // 10**6 + n) for n, name in enumerate(NAMES))
)


def test_both_forms_are_recognised_and_nothing_else() -> None:
    assert sdm.sniff(RAW) == "yes"
    assert sdm.sniff(LOGGED) == "yes"
    assert sdm.sniff(frame(b"")) == "no"
    assert sdm.sniff(b"\x7f\x10\0\0\x10\0" + bytes(60)) == "no"


@needs_programs
def test_a_log_of_the_phone_gives_messages_at_its_times() -> None:
    tables = sdm.parse(io.BytesIO(LOGGED), path="x")
    table = tables["signalling"]
    assert table["message"].tolist() == [
        "MeasurementReport",
        "RRCConnectionReconfiguration",
        "RRCConnectionReconfigurationComplete",
    ]
    assert table["time_ns"].tolist() == [START_NS + n * 10**6 for n in range(3)]
    (handover,) = tables["handovers"].rows()
    assert (handover["kind"], handover["result"], handover["target_physical_cell_id"]) == ("handover", "complete", 305)
    assert table.provenance["frames"] == 3


@needs_programs
def test_a_log_without_times_says_so_and_has_none() -> None:
    tables = sdm.parse(io.BytesIO(RAW), path="x")
    table = tables["signalling"]
    assert len(table) == 3
    assert set(table["time_ns"].tolist()) == {NOT_A_TIME}
    assert table.provenance["warnings"][0].startswith("SDM frames have no time")
    assert {row["time_ns"] for row in tables["handovers"].rows()} == {None}


@needs_programs
def test_frames_that_are_damaged_or_cut_are_counted() -> None:
    table = sdm.parse(io.BytesIO(RAW[:10] + RAW[11:] + RAW[:20]), path="x")["signalling"]
    facts = table.provenance
    assert (facts["frames"], facts["damaged_frames"]) == (2, 1)
    assert "the log ends within a frame; its last 20 bytes are not used" in facts["warnings"]


@given(st.binary(max_size=400))
def test_any_octets_are_frames_or_refused(data: bytes) -> None:
    for octets in (data, b"\x7f" + data):
        with pytest.raises(FormatError, match="no complete frame"):
            sdm.parse(io.BytesIO(octets), path="x")
