"""Qualcomm's diagnostic log: frames are checked and counted, and what programs do with them is bounded."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import stat
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import parsers
from multitracer.errors import FormatError, PreflightError
from multitracer.tables import NOT_A_TIME
from parsers import diag
from parsers._signalling import diagnostic_log as conversion
from parsers._signalling import dissection as programs
from parsers.diag import HdlcFrames, escaped, holds, stamp_ns, unescaped
from tests.conftest import FIXTURES

LOGS = FIXTURES / "mobileinsight"
SCAT = shutil.which("scat") or (Path(sys.executable).parent / "scat").exists()
needs_programs = pytest.mark.skipif(
    not SCAT or not shutil.which("tshark"), reason="needs scat (pip install signalcat) and tshark"
)


def record(code: int, body: bytes, *, stamp: int = 0x00FD0000_00000000) -> bytes:
    """Return a frame that holds a record of the log."""
    inner = (len(body) + 12).to_bytes(2, "little")
    return escaped(b"\x10\0" + inner + inner + code.to_bytes(2, "little") + stamp.to_bytes(8, "little") + body)


def log(records: int = 40, *, seed: int = 5) -> bytes:
    rng = random.Random(seed)
    return b"".join(record(0xB000 + n % 3, rng.randbytes(rng.randrange(20, 200))) for n in range(records))


def walked(data: bytes) -> tuple[HdlcFrames, list[bytes]]:
    frames = HdlcFrames(io.BytesIO(data))
    return frames, list(frames)


# --- frames ---


def bitwise(frame: bytes) -> int:
    """Return the check sequence as RFC 1662, C.2 has it, bit by bit."""
    register = 0xFFFF
    for octet in frame:
        register ^= octet
        for _ in range(8):
            register = register >> 1 ^ (0x8408 if register & 1 else 0)
    return register


@given(st.binary(max_size=300))
def test_the_check_sequence_is_that_of_rfc_1662(payload: bytes) -> None:
    raw = escaped(payload)
    assert raw.endswith(b"\x7e")
    assert b"\x7e" not in raw[:-1]
    frame = unescaped(raw[:-1])
    assert frame[:-2] == payload
    assert bitwise(frame) == 0xF0B8
    assert holds(frame)


@given(st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=8), st.data())
def test_a_changed_octet_costs_its_frames_and_no_others(bodies: list[bytes], data: st.DataObject) -> None:
    raws = [escaped(body) for body in bodies]
    stream = bytearray(b"".join(raws))
    at = data.draw(st.integers(0, len(stream) - 1))
    stream[at] ^= data.draw(st.integers(1, 255))
    frames, complete = walked(bytes(stream))
    begins = [sum(map(len, raws[:n])) for n in range(len(raws))]
    untouched = [r for b, r in zip(begins, raws, strict=True) if at not in range(b - 1, b + len(r))]
    for raw in untouched:
        assert raw in complete
    assert frames.complete == len(complete)
    assert frames.complete + frames.damaged + bool(frames.cut_bytes) >= len(untouched)


@given(st.binary(max_size=2000))
def test_any_octets_are_walked(data: bytes) -> None:
    frames, complete = walked(data)
    assert frames.complete == len(complete) == sum(frames.commands.values())
    assert sum(map(len, complete)) + frames.cut_bytes <= len(data)


def test_frames_are_found_across_pieces_of_the_stream_and_without_a_flag_memory_is_bounded() -> None:
    data = log(3000)
    frames, complete = walked(data)
    assert b"".join(complete) == data
    assert frames.complete == 3000
    assert frames.log_codes == {0xB000: 1000, 0xB001: 1000, 0xB002: 1000}
    frames, complete = walked(bytes(1 << 20))
    assert (frames.complete, complete) == (0, [])
    assert frames.cut_bytes <= 1 << 17


def test_a_log_cut_in_a_frame_counts_what_is_left() -> None:
    data = log(10)
    last = len(record(0xB000, b""))
    frames, _ = walked(data[:-5])
    assert (frames.complete, frames.damaged) == (9, 0)
    assert frames.cut_bytes > last


def test_times_count_1_25_ms_since_1980_and_49152nd_parts_of_it() -> None:
    assert stamp_ns(0) == 315_964_800 * 10**9
    assert stamp_ns(800 << 16) == 315_964_801 * 10**9
    assert stamp_ns((800 << 16) + 24_576) == 315_964_801 * 10**9 + 625_000
    assert stamp_ns((1 << 64) - 1) is None


# --- what is recognised ---


@pytest.mark.parametrize("radio", [b"", b"\x98\x01\0\0\x01\0\0\0"])
def test_a_log_is_recognised_even_if_its_first_frame_is_cut(radio: bytes, tmp_path: Path) -> None:
    rng = random.Random(5)
    frames = [escaped(radio + b"\x10\0" + rng.randbytes(rng.randrange(20, 200))) for _ in range(60)]
    path = tmp_path / "a file"
    path.write_bytes(b"".join(frames)[7:])
    assert parsers.detect(path).name == "diag"


def test_a_long_first_record_may_be_a_log_and_ppp_is_none() -> None:
    long = record(0xB0C0, bytes(9000))
    assert diag.sniff(long[:4096]) == "maybe"
    assert diag.sniff(b"".join(escaped(b"\xff\x03" + bytes(20)) for _ in range(9))) == "no"
    assert diag.sniff(b"\x10\0" + bytes(4000)) == "no"


# --- the programs ---


def stub(tmp_path: Path, name: str, script: str) -> str:
    """Write a program that comes first on the path."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_a_missing_program_is_one_sentence_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(PreflightError, match=r"scat is not installed.*; pip install 'multitracer\[sig"):
        diag.parse(io.BytesIO(log()), path="x")
    with pytest.raises(PreflightError, match=r"tshark is not installed.*; sudo apt-get install tshark"):
        programs.program("tshark")


def test_a_log_without_a_whole_frame_is_refused_before_anything_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FormatError, match="no complete frame"):
        diag.parse(io.BytesIO(b"\x10\0\0\0\x7e" * 9), path="x")


@needs_programs
def test_a_program_that_hangs_is_stopped_and_one_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", stub(tmp_path, "scat", "trap '' INT TERM; sleep 600 & wait; sleep 600"))
    monkeypatch.setattr(conversion, "MIN_S", 0.5)
    monkeypatch.setattr(programs, "_GRACE_S", 0.2)
    tables = diag.parse(io.BytesIO(log()), path="x")
    warnings = tables["signalling"].provenance["warnings"]
    assert any("scat did not end within 1 s and was stopped" in each for each in warnings)
    assert tables["signalling"].provenance["frames"] == 40
    assert len(tables["signalling"]) == 0


@needs_programs
def test_a_program_that_dies_or_writes_too_much_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", stub(tmp_path, "scat", "echo 'cannot go on' >&2; exit 3"))
    tables = diag.parse(io.BytesIO(log()), path="x")
    assert tables["radio"].provenance["warnings"][0] == (
        "scat failed with status 3 (cannot go on); the messages read before are used"
    )
    monkeypatch.setattr(conversion, "MIN_OUTPUT_BYTES", 1 << 16)
    monkeypatch.setattr(conversion, "EXPANSION", 0)
    stub(tmp_path, "scat", "exec cat /dev/zero")
    tables = diag.parse(io.BytesIO(log()), path="x")
    assert "scat was stopped because its output was too large" in tables["radio"].provenance["warnings"][0]


@needs_programs
def test_damaged_frames_and_records_that_nobody_decodes_are_counted() -> None:
    data = log(20)
    broken = data[:30] + bytes([data[30] ^ 1]) + data[31:-4]
    facts = diag.parse(io.BytesIO(broken), path="x")["signalling"].provenance
    assert facts["frames"] == 18
    assert facts["damaged_frames"] == 1
    assert facts["warnings"][0] == "1 frame is damaged (wrong check sequence) and not used; 18 are intact"
    assert facts["warnings"][1].startswith("the log ends within a frame; its last ")
    assert "the log has no signalling message that scat decodes" in facts["warnings"]


@needs_programs
def test_a_record_on_which_scat_fails_is_left_out_and_what_follows_is_read() -> None:
    def cell(channel: int) -> bytes:  # as SCAT unpacks version 3 of the record
        numbers = 305, channel, channel + 18_000, 100, 100, 7, 0x10DE, 3, 1, 2, 1, 0
        return record(0xB0C2, b"\x03" + struct.pack("<HLLBBLHLHBHB", *numbers))

    data = log(30) + cell(1350) + record(0xB0C2, b"\x03\x01") + cell(1351) + record(0xB0C2, b"\x03") + cell(1352)
    radio = diag.parse(io.BytesIO(data), path="x")["radio"]
    assert radio["channel"].tolist() == [1350, 1351, 1352]
    assert radio["line"].tolist() == [1, 2, 3]
    assert radio.provenance["failed_frames"] == 2
    (warning,) = (each for each in radio.provenance["warnings"] if "scat failed" in each)
    assert warning.startswith("scat failed on 2 records, which are not used: struct.error")


# --- recordings of others ---


@pytest.mark.fixtures
@pytest.mark.parametrize(
    "name", json.loads((FIXTURES / "answers" / "mi2log.json").read_text()) if LOGS.is_dir() else []
)
def test_frames_are_as_many_as_the_reference_counts(name: str) -> None:
    answer = json.loads((FIXTURES / "answers" / "mi2log.json").read_text())[name]
    with (FIXTURES / name).open("rb") as stream:
        frames = HdlcFrames(stream)
        for _ in frames:
            pass
    assert (frames.complete, frames.damaged) == (answer["frames_crc_ok"], answer["frames_bad"])
    assert {f"0x{code:02x}": n for code, n in frames.commands.items()} == answer["cmd"]
    assert {f"0x{code:04X}": n for code, n in frames.log_codes.items()} == answer["log_codes"]
    assert frames.first_ns != NOT_A_TIME
    assert frames.first_ns <= frames.last_ns


@needs_programs
def test_records_of_a_newer_form_are_counted_by_name_with_what_would_help(tmp_path: Path) -> None:
    """NR RRC in packet versions that this SCAT does not know; of many kinds the rest is counted together."""
    path = tmp_path / "new.qmdl"
    versions = [0x80] * 6 + [0x81] * 5 + [0x82] * 4 + [0x83] * 3 + [0x84, 0x84, 0x85]
    records = [record(0xB821, version.to_bytes(4, "little") + bytes(40)) for version in versions]
    path.write_bytes(log(20) + b"".join(records))
    _, tables = parsers.read(path)
    assert isinstance(tables, dict)
    said = [each for each in tables["signalling"].provenance["warnings"] if "does not decode" in each]
    assert said[0].startswith("scat does not decode 6 records: Unknown NR RRC OTA Message packet version 0x80; "), said
    assert "`pip install -U signalcat`" in said[0]
    assert said[-1] == "scat does not decode 3 records of 2 further kinds"
