"""Captures of other projects: as many packets, and the same fields of each segment, as tshark finds."""

from __future__ import annotations

import csv
import ipaddress
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

import parsers
from multitracer.captured import CaptureMark
from multitracer.errors import MultiTracerError
from tests.fuzz.captures import check

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.capture import CaptureTables

_SECONDS = 10
_SAMPLE = 25
"""Files that are compared field by field; tshark takes a quarter of a second for each."""
FIELDS = (
    "frame.number", "tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.ack_raw", "tcp.len", "tcp.flags",
    "tcp.window_size_value", "tcp.options.timestamp.tsval", "tcp.options.timestamp.tsecr",
    "tcp.options.sack_le", "tcp.options.sack_re", "ip.src", "ipv6.src",
)  # fmt: skip
_NOT_COMPARED = ("tunnel", "gre", "erspan", "frag", "oobr", "vxlan", "geneve", "gtp", "ayiya", "teredo")
"""In names of files with tunnels in UDP, with fragments (tshark gives a segment the place of its last one),
and with headers that contradict themselves."""


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.fixtures
def test_every_capture_has_the_packets_that_every_reader_must_find(fixture_folder: Path) -> None:
    wrong = []
    for row in rows(fixture_folder / "answers" / "gold_packets.csv"):
        start = time.monotonic()
        try:
            facts = parsers.read_capture([fixture_folder / row["file"]]).files[0]
            found, damaged = facts.packets, facts.damaged is not None
        except MultiTracerError:
            found, damaged = 0, True
        expected = int(row["packets"] or 0)
        exact = row["must"] == "EXACT"
        good = found == expected if exact else found >= expected and damaged
        if not good or time.monotonic() - start > _SECONDS:
            wrong.append((row["file"], expected, found))
    assert not wrong


@pytest.mark.fixtures
def test_every_file_gives_a_capture_or_one_sanctioned_error(fixture_folder: Path) -> None:
    files = [path for path in sorted(fixture_folder.rglob("*")) if path.is_file()]
    assert len(files) > 1000
    captures = 0
    for path in files:
        start = time.monotonic()
        try:
            capture = parsers.read_capture([path])
        except MultiTracerError:
            continue
        check(capture)
        captures += 1
        # What was made to cost time (hostile/) is counted here, too, but has no bound yet.
        assert time.monotonic() - start < _SECONDS or "hostile" in path.parts, path
    assert captures > 900


@pytest.mark.fixtures
@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
def test_the_fields_of_each_segment_are_those_of_tshark(fixture_folder: Path) -> None:
    candidates = [
        row["file"]
        for row in rows(fixture_folder / "answers" / "gold_packets.csv")
        if int(row["tcp_packets"] or 0) > 5 and not any(part in row["file"] for part in _NOT_COMPARED)
    ]
    chosen = np.random.default_rng(11).choice(sorted(candidates), _SAMPLE, replace=False).tolist()
    compared = 0
    for name in chosen:
        theirs = of_tshark(fixture_folder / name)
        ours = of_capture(parsers.read_capture([fixture_folder / name]))
        assert ours == theirs, name
        compared += len(ours)
    assert compared > 500


def of_tshark(path: Path) -> dict[int, tuple[object, ...]]:
    """Return frame -> fields, as tshark has them."""
    command = ["tshark", "-r", str(path), "-Y", "tcp && !icmp && !icmpv6", "-T", "fields", "-E", "occurrence=a"]
    for preference in ("tcp.analyze_sequence_numbers", "tcp.desegment_tcp_streams"):
        command += ["-o", f"{preference}:FALSE"]
    for field in FIELDS:
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    found: dict[int, tuple[object, ...]] = {}
    for line in done.stdout.splitlines():
        frame, *numbers, left, right, ipv4, ipv6 = line.split("\t")
        values = [int(n, 0) if n else 0 for n in numbers]
        edges = [tuple(int(e) for e in side.split(",") if e) for side in (left, right)]
        source = ipaddress.ip_address(ipv4 or ipv6)
        found[int(frame)] = (source, *values, *edges)
    return found


def of_capture(capture: CaptureTables) -> dict[int, tuple[object, ...]]:
    """Return frame -> the same fields, as we have them."""
    table, blocks = capture.segments, capture.sack_blocks
    found = {}
    for row, segment in enumerate(table.rows()):
        here = blocks["row"] == row
        flow = {c: capture.flows[c][segment["flow"] >> 1] for c in capture.flows.schema.names}
        near, far = "ba" if segment["flow"] & 1 else "ab"
        address = flow[f"address_{near}"].tobytes()[: 4 if flow["ip_version"] == 4 else 16]
        timed = segment["marks"] & CaptureMark.HAS_TIMESTAMPS
        found[segment["frame"]] = (
            ipaddress.ip_address(address),
            int(flow[f"port_{near}"]),
            int(flow[f"port_{far}"]),
            *(segment[c] for c in ("seq", "ack", "payload_bytes", "flags", "window")),
            *((segment["tsval"], segment["tsecr"]) if timed else (0, 0)),
            tuple(blocks["left"][here].tolist()),
            tuple(blocks["right"][here].tolist()),
        )
    return found


_TUNNELS = ("gtp", "vxlan", "geneve", "gre", "erspan", "teredo", "tunnel", "l2tp", "6in", "ipip")
_NOT_FOLLOWED = {
    "zeek/tunnels/gre-aruba-amsdu.pcap": "several packets in one frame of 802.11",
    "zeek/tunnels/ayiya3.pcap": "AYIYA is not opened",
    "zeek/tunnels/gtp/gtp9_unknown_or_too_short_payload.pcap": "the length of IP is longer than that of GTP-U",
}


@pytest.mark.fixtures
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
def test_tcp_inside_tunnels_is_in_the_frames_where_tshark_finds_it(fixture_folder: Path) -> None:
    files = [
        path for path in sorted(fixture_folder.rglob("*.pcap*"))
        if any(part in str(path.relative_to(fixture_folder)).lower() for part in _TUNNELS) and path.is_file()
    ]  # fmt: skip
    wrong, tunnelled = {}, 0
    for path in files:
        name = path.relative_to(fixture_folder).as_posix()
        command = ["tshark", "-r", str(path), "-Y", "tcp && !icmp && !icmpv6", "-T", "fields", "-e", "frame.number"]
        command += ["-o", "ip.defragment:FALSE", "-o", "tcp.desegment_tcp_streams:FALSE"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        capture = parsers.read_capture([path])
        ours = capture.segments["frame"].tolist()
        if ours != [int(line) for line in done.stdout.split()] and name not in _NOT_FOLLOWED:
            wrong[name] = (len(ours), len(done.stdout.split()))
        tunnelled += sum(each.tcp_packets for file in capture.files for each in file.tunnels.values())
    assert not wrong
    assert tunnelled > 100
