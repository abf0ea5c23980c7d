"""An injected clock error reaches every stamp of a host's logs, and nothing else in them."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path

import pytest

from multitracer.lab.scenario.model import ClockSetting
from multitracer.lab.testbed.shift_clock import FORMATS, ClockShift
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.recording.read import read
from multitracer.units import NS_PER_S
from tests.cli.program import analyze
from tests.lab.testbed.running import document, finished, short_scenario, started

ORIGIN_NS = 1_700_000_000 * NS_PER_S
BOOTED_NS = 5_000 * NS_PER_S
ERROR = ClockShift(800_000_000, 30.0, ORIGIN_NS, BOOTED_NS)


def shifted(kind: str, log: bytes) -> bytes:
    return b"".join(FORMATS[kind](io.BytesIO(log), ERROR))


def test_realtime_has_the_offset_and_both_clocks_gain() -> None:
    later = 1_000 * NS_PER_S
    assert ERROR.realtime_ns(ORIGIN_NS) - ORIGIN_NS == 800_000_000
    assert ERROR.realtime_ns(ORIGIN_NS + later) - (ORIGIN_NS + later) == 800_000_000 + 30_000_000
    assert ERROR.monotonic_ns(BOOTED_NS) == BOOTED_NS
    assert ERROR.monotonic_ns(BOOTED_NS + later) - (BOOTED_NS + later) == 30_000_000


def test_no_error_changes_nothing() -> None:
    none = ClockShift.from_now(ClockSetting())
    assert not none
    assert (none.realtime_ns(ORIGIN_NS), none.monotonic_ns(BOOTED_NS)) == (ORIGIN_NS, BOOTED_NS)


def test_a_capture_keeps_its_packets() -> None:
    times = [ORIGIN_NS + n * 700_000_001 for n in range(4)]
    packets = [bytes([n]) * (40 + n) for n in range(4)]

    def capture(stamps: list[int]) -> bytes:
        records = (pcap_record(p, time_ns=t, snap_bytes=41) for p, t in zip(packets, stamps, strict=True))
        return pcap_header(snap_bytes=41) + b"".join(records)

    assert shifted("pcap", capture(times)) == capture([ERROR.realtime_ns(t) for t in times])


def test_a_capture_that_is_cut_stays_cut_there() -> None:
    complete = pcap_header() + pcap_record(b"x" * 50, time_ns=ORIGIN_NS) * 2
    assert len(shifted("pcap", complete[:-60])) == len(complete) - 66
    assert struct.unpack_from("<I", shifted("pcap", complete), 24) == (1_700_000_000,)


def test_readings_and_their_clocks_are_shifted() -> None:
    reading = {"kind": "reading", "read": 7, "read_before_ns": BOOTED_NS, "read_after_ns": BOOTED_NS + NS_PER_S}
    clock = {"kind": "clock", "monotonic_before_ns": BOOTED_NS, "realtime_ns": ORIGIN_NS + NS_PER_S}
    log = b"".join(json.dumps(record).encode() + b"\n" for record in (reading, clock))
    first, second = map(json.loads, shifted("jsonl", log).splitlines())
    assert first == reading | {"read_after_ns": BOOTED_NS + NS_PER_S + 30_000}
    assert second == clock | {"realtime_ns": ORIGIN_NS + NS_PER_S + 800_030_000}


def test_traced_lines_are_shifted_and_comments_too() -> None:
    line = b"  x-1 [000] b..1.  6000.123456: tcp_probe: src=10.0.0.1:1 data_len=5\n"
    comment = b'# multitracer {"kind":"clock","realtime_ns":%d}\n' % ORIGIN_NS
    assert shifted("ftrace", line) == line.replace(b"6000.123456", b"6000.153459")
    assert shifted("ftrace", comment).endswith(b'"realtime_ns":%d}\n' % (ORIGIN_NS + 800_000_000))


@pytest.mark.parametrize("kind", FORMATS)
def test_an_empty_log_stays_empty(kind: str) -> None:
    assert shifted(kind, b"") == b""


@pytest.mark.root
def test_a_run_records_the_fixed_host_by_its_own_clock(tmp_path: Path) -> None:
    scenario, folder = short_scenario(tmp_path), tmp_path / "run"
    scenario.write_text(f"{scenario.read_text()}[clock]\noffset_s = 100\n")
    with started(scenario, folder, speed=50) as child:
        finished(child)
    manifest = document(folder, "manifest.json")
    assert {run["outcome"] for run in manifest["collectors"]} == {"ended"}
    assert manifest["hosts"]["fixed"]["clock_error"]["offset_ns"] == 100 * NS_PER_S
    began = {Path(c["file"]).parent.name: c["start_ns"] for c in analyze(folder)["connections"]}
    assert 100 * NS_PER_S < began["fixed"] - began["mobile"] < 102 * NS_PER_S
    frames = {log.host: tables["link_frames"]["time_ns"] for log, tables in read(folder).logs("link")}
    assert abs(frames["fixed"][0] - frames["mobile"][0] - 100 * NS_PER_S) < NS_PER_S
    assert [log.format for log in read(folder).inputs.listed if log.host == "fixed" and log.layer == "tcp"]
