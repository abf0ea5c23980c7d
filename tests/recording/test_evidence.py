"""Evidence never vanishes silently: what cannot be used is a warning of every command and of the session."""

from __future__ import annotations

import gzip
import html
import json
import lzma
import os
import shutil
from typing import TYPE_CHECKING

import pytest

import multitracer as mt
import parsers
from multitracer.manifest import CollectorRun, LogFile, Manifest, Variables, write_manifest
from multitracer.recording.inputs import find_inputs
from multitracer.recording.read import read
from multitracer.recording.recording import Recording
from tests.cli.program import call, run
from tests.recording.captures import START_NS, Conversation, write_conversations

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = (("analyze",), ("diagnose",), ("inspect",), ("report", "-o", "r.html"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a session with one capture."""
    folder = tmp_path / "drive"
    (folder / "mobile").mkdir(parents=True)
    write_conversations(folder / "mobile" / "tcp-0.pcap", Conversation(segments=30, lost=(7,)))
    return folder


def _warnings_everywhere(folder: Path, tmp_path: Path) -> list[str]:
    """Return the warnings of the session, which every command and the report must have, too."""
    warnings = read(folder).warnings
    for command in COMMANDS:
        done = run(*command, folder, cwd=tmp_path)
        for sentence in warnings:
            assert f"Warning: {sentence}" in done.stderr, command
    page = html.unescape((tmp_path / "r.html").read_text("utf-8"))
    assert all(sentence in page for sentence in warnings)
    return warnings


def test_a_log_of_garbage_is_named_with_its_reason(folder: Path, tmp_path: Path) -> None:
    (folder / "mobile" / "tcp_state.jsonl.xz").write_bytes(b"\xfd7zXZ\0" + bytes(range(256)) * 9)
    (only,) = _warnings_everywhere(folder, tmp_path)
    assert only.startswith(f"{folder}/mobile/tcp_state.jsonl.xz")
    assert "damaged xz data" in only


def test_a_log_that_a_collector_wrote_and_nothing_reads_is_named(folder: Path, tmp_path: Path) -> None:
    (folder / "mobile" / "gps.jsonl").write_text('{"lat": 1}\n')
    command = ["python", "-m", "collectors.gps", "-o", "mobile/gps.jsonl"]
    write_manifest(folder, Manifest("drive", collectors=[CollectorRun("gps", "mobile", command)]))
    (only,) = _warnings_everywhere(folder, tmp_path)
    assert only.startswith(f"{folder}/mobile/gps.jsonl: the format is unknown")


def test_a_log_that_the_manifest_lists_is_named(folder: Path) -> None:
    (folder / "mobile" / "acme.bin").write_bytes(b"ACME")
    write_manifest(folder, Manifest("drive", files=[LogFile("mobile/acme.bin", "mobile")]))
    (only,) = read(folder).warnings
    assert only.startswith(f"{folder}/mobile/acme.bin: the format is unknown")


def test_a_log_that_the_manifest_lists_and_that_is_gone_is_named(folder: Path, tmp_path: Path) -> None:
    """One that somebody packed is there all the same."""
    (folder / "mobile" / "tcp-0.pcap.gz").write_bytes(gzip.compress((folder / "mobile" / "tcp-0.pcap").read_bytes()))
    (folder / "mobile" / "tcp-0.pcap").unlink()
    listed = ("mobile/tcp-0.pcap", "mobile/tcp_state.jsonl", "../x", "a\0b", "mobile/tcpdump.log", "tables/t")
    write_manifest(
        folder,
        Manifest(
            "drive", files=[LogFile(path, "mobile") for path in listed], collectors=[CollectorRun("tcpdump", "mobile")]
        ),
    )
    warnings = _warnings_everywhere(folder, tmp_path)
    assert [sentence.endswith("listed in the manifest, but missing") for sentence in warnings] == [True] * 3
    assert f"{folder}/mobile/tcp_state.jsonl: listed in the manifest, but missing" in warnings


def test_a_folder_in_a_hosts_folder_and_a_dead_link_are_named(folder: Path) -> None:
    (folder / "mobile" / "more").mkdir()
    (folder / "mobile" / "more" / "tcp_state.jsonl").write_text("{}")
    (folder / "fixed").symlink_to(folder / "mobile")
    (folder / "mobile" / "tcp-1.pcap").symlink_to(folder / "absent")
    assert sorted(read(folder).warnings) == [
        f"{folder}/fixed: a link to a folder, or to nothing; skipped",
        f"{folder}/mobile/more: a folder inside a host's folder; its files belong beside it; skipped",
        f"{folder}/mobile/tcp-1.pcap: a link to a folder, or to nothing; skipped",
    ]


def test_damage_that_shows_only_in_the_reading_is_told_once_the_log_is_read(
    sample_session: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(sample_session.parent / "fig10-backoff", tmp_path / "call")
    for log in folder.glob("*/rlp.pcapng.xz"):
        log.write_bytes(lzma.compress(lzma.decompress(log.read_bytes())[:-100_001]))
    done = call("diagnose", folder)
    assert done.stderr.count("rlp.pcapng.xz: damaged: ") == 2
    session = mt.open(folder)
    assert session.warnings == []
    assert len(session.link_frames)
    assert [("damaged: " in sentence) for sentence in session.warnings] == [True, True]


def test_what_precedes_the_end_of_a_cut_archive_is_used(folder: Path) -> None:
    rows = "".join(
        f'{{"kind":"marker","note":"{number}","realtime_ns":{1_700_000_000_000_000_000 + number}}}\n'
        for number in range(5_000)
    )
    (folder / "mobile" / "markers.jsonl.gz").write_bytes(gzip.compress(rows.encode())[:-20])
    session = mt.open(folder)
    assert 4_000 < len(session.markers) < 5_000
    (told,) = (sentence for sentence in session.warnings if "markers" in sentence)
    assert told.endswith("; the part before it is used")
    assert "gzip data: the file is truncated at byte " in told


def test_files_that_nobody_knows_are_named_up_to_ten(folder: Path) -> None:
    for number in range(100):
        (folder / f"note{number}.txt").write_text("x")
    (only,) = read(folder).warnings
    assert only.startswith(f"{folder}: no installed format knows note0.txt, note1.txt, ")
    assert only.endswith("note9.txt and 90 more; not read")


def test_companions_of_a_recording_are_no_logs(folder: Path) -> None:
    names = ("scenario.toml", "summary.json", "mobile/nstat_before.json.xz", "mobile/tcpdump.err", "transactions.jsonl")
    went_on = "mobile/tcpdump-1.log"
    for name in (*names, went_on, "mobile/tcpdump-0.jsonl"):
        (folder / name).write_text("x")
    (folder / "mobile" / "claps.jsonl").write_text("")  # of a recording that ended before the first
    runs, files = [CollectorRun("tcpdump", "mobile")], [LogFile("mobile/claps.jsonl", "mobile")]
    write_manifest(folder, Manifest("drive", collectors=runs, files=files))
    assert read(folder).warnings == []


def test_a_log_that_changes_while_it_is_read_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder that still runs: here it writes while the reader is at the file."""
    capture = folder / "mobile" / "tcp-0.pcap"
    complete, read_capture = capture.read_bytes(), parsers.read_capture
    capture.write_bytes(complete[:-80])

    def read_while_it_grows(*arguments: object, **options: object) -> object:
        found = read_capture(*arguments, **options)  # type: ignore[arg-type]
        capture.write_bytes(complete)
        return found

    monkeypatch.setattr(parsers, "read_capture", read_while_it_grows)
    warnings = read(folder).warnings
    assert warnings[0] == f"{capture}: changed while it was read; its records up to that moment are used"


def test_a_filter_that_leaves_nothing_says_so(folder: Path) -> None:
    done = call("analyze", "--from", "100", folder)
    assert "Warning: no TCP segment lies between --from and --to" in done.stderr
    for command in (("report", "-o", "r.html"), ("export", "series", "-o", "series")):
        done = run(*command, "--from", "100", folder, cwd=folder.parent)
        assert "Warning: no TCP segment lies between --from and --to" in done.stderr, command
    assert "no TCP segment lies between" in (folder.parent / "r.html").read_text("utf-8")


def test_a_transfer_between_two_readings_makes_no_clock_suspicious(folder: Path) -> None:
    lines = ["time_ns,source,role,rat,cell_id,rssi_dbm"]
    lines += [f"{START_NS + n * 10 * 10**9},csv,serving,LTE,7,-80" for n in (-2, -1, 1, 2)]
    (folder / "mobile" / "radio.csv").write_text("\n".join(lines) + "\n")
    assert "no reading lies" not in call("diagnose", folder).stderr


def test_a_radio_log_of_another_time_is_not_passed_over_in_silence(folder: Path) -> None:
    """A log in local time, an hour off: its handover is not in the transfer, and that is said."""
    lines = ["time_ns,source,role,rat,cell_id,rssi_dbm"]
    lines += [f"{1_700_003_600_000_000_000 + n * 10**9},csv,serving,LTE,{7 + n // 2},-80" for n in range(4)]
    (folder / "mobile" / "radio.csv").write_text("\n".join(lines) + "\n")
    done = call("diagnose", folder)
    assert f"{folder}/mobile/radio.csv: no reading lies in the time of connection 1" in done.stderr
    assert "time zone" in done.stderr


def test_each_log_is_parsed_once(sample_session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: dict[str, int] = {}
    read_log = parsers.read

    def count(path: str) -> object:
        counted[path] = counted.get(path, 0) + 1
        return read_log(path)

    monkeypatch.setattr(parsers, "read", count)
    session = mt.open(sample_session.parent / "fig10-backoff")
    for _ in range(2):
        session.stacked(), session.series(), session.phases(), session.diagnose(), session.tcp_state
    assert set(counted.values()) == {1}
    assert sum("rlp" in os.path.basename(path) for path in counted) == 2  # noqa: PTH119


def test_one_rule_says_how_fast_the_link_ran(sample_session: Path, tmp_path: Path) -> None:
    """By the manifest, else by the logs of the link: then figure, account and filter agree."""
    call = shutil.copytree(sample_session.parent / "fig10-backoff", tmp_path / "call")
    for log in call.glob("*/rlp.pcapng.xz"):
        text = lzma.decompress(log.read_bytes())
        assert text.count(b"speed=1") == 1
        log.write_bytes(lzma.compress(text.replace(b"speed=1", b"speed=9")))
    assert read(call).speed == 1, "the manifest says so"
    document = json.loads((call / "manifest.json").read_text())
    del document["variables"]["speed"]
    (call / "manifest.json").write_text(json.dumps(document))
    session = mt.open(call)
    found = session.diagnose()
    assert Recording(find_inputs(call)).speed == found.transfer.speed == 9
    assert session.stacked().layout.xaxis.title.text.endswith("(9 to a recorded one)")


def test_a_session_without_a_capture_opens(sample_session: Path) -> None:
    drive = mt.open(sample_session.parent / "rehearsal")
    assert len(drive) == 0
    assert len(drive.radio) > 50
    assert len(drive.position) > 50
    assert drive.connections.empty
    assert "Logs: " in drive._repr_html_()


def test_two_hosts_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """A folder and a file set cannot hold two hosts of one name; two folders are two sessions."""
    days = [tmp_path / name / "drive" for name in ("monday", "tuesday")]
    for day in days:
        (day / "mobile").mkdir(parents=True)
        write_conversations(day / "mobile" / "tcp-0.pcap", Conversation())
        write_manifest(day, Manifest("recorded", variables=Variables.of({"day": day.parent.name})))
    done = call("report", "-o", tmp_path / "out", *days)
    assert done.returncode == 0
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["drive-2.html", "drive.html", "index.html"]


@pytest.mark.parametrize("stated", [0, -3, 5000])
def test_a_speed_that_no_link_has_is_named(folder: Path, stated: float) -> None:
    write_manifest(folder, Manifest("drive", variables=Variables(speed=stated)))
    recording = read(folder)
    assert recording.speed == 1
    assert recording.warnings == [f"drive: no link has the speed {stated} of manifest.json; 1 is taken"]
