"""`export wireshark`: the records as they were, with remarks that the real Wireshark shows."""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

import parsers
from multitracer.export.wireshark import colour_rules
from multitracer.protocols.pcap_file import interface_block, packet_block, section_header
from tests.analysis.pcap_file import write_pcap
from tests.analysis.traffic import ACK, MS, Segment, handshake
from tests.cli.program import call, run
from tests.conftest import SAMPLES
from tests.export.lossy_capture import lossy
from tests.parsers import frames as build

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
SENDER = SAMPLES / "fig8-resets-vj" / "mobile" / "tcp-0.pcap.gz"
Row = tuple[int, int, int, bytes]


def rows_of(path: Path) -> Iterator[Row]:
    """Yield time, original length, link type and bytes of each record."""
    for records in parsers.read_records(path):
        links = np.broadcast_to(np.asarray(records.link_type), (len(records),))
        for i in range(len(records)):
            begin, end = records.start[i], records.start[i] + records.captured[i]
            packet = records.data[begin:end].tobytes()
            yield int(records.time_ns[i]), int(records.original[i]), int(links[i]), packet


def exported(output: Path, *args: str | Path) -> list[Row]:
    call("export", "wireshark", *args, "-o", output)
    return list(rows_of(output))


def tshark(path: Path, *fields: str, options: tuple[str, ...] = ()) -> list[list[str]]:
    """Return the fields of each packet as tshark shows them."""
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", *options]
    command += [word for field in fields for word in ("-e", field)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_every_record_is_there_byte_for_byte(tmp_path: Path) -> None:
    assert exported(tmp_path / "out.pcapng", SENDER) == list(rows_of(SENDER))


@needs_tshark
def test_wireshark_sees_the_same_packets_and_nothing_malformed(tmp_path: Path) -> None:
    exported(tmp_path / "out.pcapng", SENDER)
    seen = ("frame.number", "frame.time_epoch", "frame.len", "frame.cap_len", "frame.protocols", "tcp.seq_raw")
    assert tshark(tmp_path / "out.pcapng", *seen) == tshark(SENDER, *seen)
    assert not tshark(tmp_path / "out.pcapng", "frame.number", options=("-Y", "_ws.malformed"))


@needs_tshark
def test_comments_stand_on_the_packets_that_they_speak_of(tmp_path: Path) -> None:
    exported(tmp_path / "out.pcapng", lossy(tmp_path))
    comments = dict(tshark(tmp_path / "out.pcapng", "frame.number", "frame.comment"))
    assert comments["5"].startswith("lost: sent again in frame 13")
    assert "sent again: fast, necessary" in comments["13"]
    assert "copy of frame 5" in comments["13"]
    assert "window closed: offers a window of 0" in comments["15"]
    assert not comments["1"]


@needs_tshark
def test_as_many_comments_as_the_analysis_counts(tmp_path: Path) -> None:
    call("export", "wireshark", SAMPLES / "sack-modern", "-o", tmp_path / "out.pcapng")
    fields = tshark(tmp_path / "out.pcapng", "frame.interface_id", "frame.comment")
    again = Counter(interface for interface, comment in fields if "sent again:" in comment)
    counts = retransmissions(SAMPLES / "sack-modern")
    assert [again[str(place)] for place in range(len(counts))] == counts
    assert sum(counts) > 10


def retransmissions(session: Path) -> list[int]:
    """Return how many retransmissions each capture of a session shows, in the order of its points."""
    from multitracer.diagnosis.segment_verdicts import NO_VERDICT, segment_verdicts
    from multitracer.recording.read import read

    recording = read(session)
    judged = [segment_verdicts(recording, capture) for capture in recording.captures]
    return [int(np.count_nonzero(each.cause != NO_VERDICT)) for each in judged]


def test_every_incident_has_its_packet(tmp_path: Path) -> None:
    session = SAMPLES / "fig8-resets-vj"
    call("export", "wireshark", session, "-o", tmp_path / "out.pcapng")
    _, capture = parsers.read(tmp_path / "out.pcapng")
    comments = [text for packet, text in capture.files[0].comments if packet]  # type: ignore[union-attr]
    kinds = re.findall(r"^incident: ([\w-]+) begins", "\n".join(comments), re.MULTILINE)
    incidents = json.loads(call("diagnose", "--json", session).stdout)["incidents"]
    assert sorted(kinds) == sorted(each["kind"] for each in incidents)
    assert any("evidence: of header-decompressor-failure" in text for text in comments)
    assert all(" of mobile" in text or " of fixed" in text for text in comments)  # frames have new numbers


@needs_tshark
def test_the_comment_of_the_file_is_the_answer(tmp_path: Path) -> None:
    call("export", "wireshark", SENDER, "-o", tmp_path / "out.pcapng")
    headline = call("diagnose", SENDER).stdout.splitlines()[0]
    capinfos = subprocess.run(["capinfos", str(tmp_path / "out.pcapng")], capture_output=True, text=True, check=True)
    assert headline in capinfos.stdout


@needs_tshark
def test_the_colour_rules_find_the_comments(tmp_path: Path) -> None:
    profile = tmp_path / "profiles" / "multitracer"
    profile.mkdir(parents=True)
    exported(tmp_path / "out.pcapng", lossy(tmp_path))
    written = (tmp_path / "out.colorfilters").read_text()
    assert written == colour_rules()
    (profile / "colorfilters").write_text(written)
    command = ["tshark", "-C", "multitracer", "--color", "-r", str(tmp_path / "out.pcapng"), "-T", "fields"]
    command += ["-e", "frame.coloring_rule.name"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env={"WIRESHARK_CONFIG_DIR": str(tmp_path), "PATH": "/usr/bin"},
    )
    names = [line.partition(": ")[2] for line in done.stdout.splitlines()]
    assert (names[4], names[12], names[14]) == ("lost", "sent again", "window closed")
    assert not done.stderr or "error" not in done.stderr.lower()


def test_two_captures_are_two_interfaces_in_the_order_of_time(tmp_path: Path) -> None:
    session = SAMPLES / "fig8-resets-vj"
    rows = exported(tmp_path / "out.pcapng", session)
    captures = [list(rows_of(session / host / "tcp-0.pcap.gz")) for host in ("mobile", "fixed")]
    assert Counter(rows) == Counter(row for capture in captures for row in capture)
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    _, capture = parsers.read(tmp_path / "out.pcapng")
    assert [each.name for each in capture.files[0].interfaces] == ["mobile", "fixed"]  # type: ignore[union-attr]


def test_captures_of_two_clocks_are_put_onto_one(tmp_path: Path) -> None:
    session = SAMPLES / "clock-shift"
    rows = exported(tmp_path / "out.pcapng", session)
    _, capture = parsers.read(tmp_path / "out.pcapng")
    words = [each.description or "" for each in capture.files[0].interfaces]  # type: ignore[union-attr]
    assert sum("its times are shown on that of" in each for each in words) == 1
    assert len(rows) == sum(len(list(rows_of(path))) for path in session.glob("*/tcp-*.pcap*"))


def test_snap_cuts_the_bytes_and_keeps_the_lengths(tmp_path: Path) -> None:
    complete = list(rows_of(SENDER))
    cut = exported(tmp_path / "out.pcapng", SENDER, "--snap", "60")
    assert cut == [(time, length, link, packet[:60]) for time, length, link, packet in complete]


def test_a_stretch_and_a_connection_are_chosen(tmp_path: Path) -> None:
    complete = list(rows_of(SENDER))
    first = complete[0][0]
    part = exported(tmp_path / "out.pcapng", SENDER, "--from", "10", "--to", "20")
    assert part == [row for row in complete if first + 10 * 10**9 <= row[0] < first + 20 * 10**9]
    both = write_pcap(tmp_path / "both.pcap", [*handshake(), *(Segment(0, 1, 9, ACK, 1, pair=2) for _ in range(3))])
    assert len(exported(tmp_path / "out.pcapng", both, "-c", "1")) == 3


def test_comments_of_others_stay_and_names_are_harmless(tmp_path: Path) -> None:
    packet = next(rows_of(lossy(tmp_path)))[3]
    evil = "\x1b[2Jlost: \u202etxt\n<script>" + "x" * 60_000
    blocks = section_header(comment=evil), interface_block(link_type=101, name=evil)
    record = packet_block(packet, time_ns=10**18, comment=evil)
    (tmp_path / "evil\x1b[2J.pcapng").write_bytes(b"".join([*blocks, record]))
    call("export", "wireshark", tmp_path / "evil\x1b[2J.pcapng", "-o", tmp_path / "out.pcapng")
    written = (tmp_path / "out.pcapng").read_bytes()
    assert b"\x1b" not in written
    assert "\u202e".encode() not in written
    assert rb"\x1b[2Jlost: \u202etxt\n<script>" in written
    assert list(rows_of(tmp_path / "out.pcapng")) == [(10**18, len(packet), 101, packet)]


def test_one_packet_and_none(tmp_path: Path) -> None:
    one = write_pcap(tmp_path / "one.pcap", handshake()[:1])
    assert exported(tmp_path / "out.pcapng", one) == list(rows_of(one))
    none = write_pcap(tmp_path / "none.pcap", [])
    done = call("export", "wireshark", none, "-o", tmp_path / "out.pcapng")
    assert "contains no TCP connection" in done.stderr


def test_packets_without_a_time_are_counted(tmp_path: Path) -> None:
    packet = next(rows_of(lossy(tmp_path)))[3]
    simple = b"\x03\0\0\0" + (b"%c\0\0\0" % (16 + len(packet))) + (b"%c\0\0\0" % len(packet)) + packet
    simple += b"%c\0\0\0" % (16 + len(packet))
    path = tmp_path / "in.pcapng"
    path.write_bytes(section_header() + interface_block(link_type=101) + simple + packet_block(packet, time_ns=5))
    done = call("export", "wireshark", path, "-o", tmp_path / "out.pcapng")
    assert "1 packet left out: no time that pcapng can hold" in done.stderr
    assert len(list(rows_of(tmp_path / "out.pcapng"))) == 1


def test_what_cannot_be_exported_is_refused_in_a_sentence(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    shutil.copytree(SAMPLES / "rehearsal", logs, ignore=shutil.ignore_patterns("*.pcap*"))
    refused = call("export", "wireshark", logs, "-o", tmp_path / "out.pcapng", status=1)
    assert "contains no capture" in refused.stderr
    with SENDER.open("rb") as stream:
        done = run("export", "wireshark", "-", "-o", tmp_path / "out.pcapng", status=1, stdin=stream)
    assert "must be read twice" in done.stderr
    assert call("export", "wireshark", SENDER, "-o", tmp_path / "out.pcap", status=2).stderr
    assert not list(tmp_path.glob("out*"))


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "out.pcapng").write_bytes(b"before")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    done = run("export", "wireshark", SENDER, "-o", tmp_path / "out.pcapng", status=1, preexec_fn=limit)
    assert "out.pcapng: cannot write this file: File too large; make room there" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out.pcapng"]
    assert (tmp_path / "out.pcapng").read_bytes() == b"before"


def test_times_that_step_back_keep_their_order(tmp_path: Path) -> None:
    begin = handshake()
    back = [Segment(0, 1, 10, ACK, 1, time_ns=10**18 + t * MS) for t in (5, 3, 9)]
    path = write_pcap(tmp_path / "back.pcap", [*begin, *back])
    assert exported(tmp_path / "out.pcapng", path) == list(rows_of(path))


@pytest.mark.parametrize("link_type", [0x10001, 0x03FF0001])
def test_a_link_type_that_pcapng_cannot_hold_is_one_error(tmp_path: Path, link_type: int) -> None:
    """A damaged header of pcap: it ended as a bug."""
    frames = [build.frame(seq=1, payload=b"x")]
    (tmp_path / "a.pcap").write_bytes(build.pcap_file(frames, link_type=link_type))
    done = call("export", "wireshark", tmp_path / "a.pcap", "-o", tmp_path / "out.pcapng", status=1)
    assert f"the link type {link_type} of this file does not exist" in done.stderr
    assert not (tmp_path / "out.pcapng").exists()
