"""Logs of another device become a host of a session, and nothing of what was there changes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pandas as pd
import pytest

import multitracer as mt
from multitracer.manifest import changed_files, read_manifest
from multitracer.recording.read import read
from tests.cli.program import call
from tests.cli.test_without_capture import CSV
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

DRIVE = SAMPLES / "rehearsal"
PACKETS = SAMPLES / "download"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A drive test of another phone."""
    path = tmp_path / "walk.csv"
    path.write_text(CSV)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.*")}


def test_each_byte_of_session_and_log_is_copied(tmp_path: Path, log: Path) -> None:
    made = tmp_path / "with-phone"
    assert call("merge", DRIVE, log, "-o", made, "--host", "phone").stdout.endswith("phone\n")
    before, after = contents(DRIVE), contents(made)
    assert after.pop("phone/walk.csv") == log.read_bytes()
    before.pop("manifest.json", None)
    after.pop("manifest.json")
    assert after == before


def test_the_manifest_lists_the_new_log_with_its_checksum(tmp_path: Path, log: Path) -> None:
    made = tmp_path / "with-phone"
    call("merge", DRIVE, log, "-o", made, "--host", "phone")
    manifest, was = read_manifest(made), read_manifest(DRIVE)
    assert manifest is not None
    (listed,) = [each for each in manifest.files if each.host == "phone"]
    assert (listed.path, listed.bytes) == ("phone/walk.csv", len(CSV))
    assert listed.sha256 == hashlib.sha256(log.read_bytes()).hexdigest()
    assert list(changed_files(made, manifest)) == []
    if was is not None:
        assert [each for each in manifest.files if each.host != "phone"] == was.files
        assert list(manifest.hosts) == [*was.hosts, "phone"]


def test_the_new_session_reads_the_log_as_that_of_the_host(tmp_path: Path, log: Path) -> None:
    made = tmp_path / "with-phone"
    call("merge", DRIVE, log, "-o", made, "--host", "phone")
    assert "phone" in {each.host for each, _ in read(made).logs("radio")}


def test_the_map_of_a_csv_comes_along(tmp_path: Path) -> None:
    log = tmp_path / "mine.csv"
    log.write_text("when,level\n1700000000,-80\n1700000001,-81\n")
    (tmp_path / "mine.csv.toml").write_text(
        '[time]\ncolumn = "when"\nform = "epoch_s"\n[radio]\nrssi_dbm = { column = "level" }\n'
    )
    session = tmp_path / "session"
    (session / "car").mkdir(parents=True)
    (session / "car" / "drive.csv").write_text(CSV)
    call("merge", session, log, "-o", tmp_path / "made", "--host", "scanner")
    logs = read(tmp_path / "made").logs("radio")
    assert {each.host for each, _ in logs} == {"car", "scanner"}
    manifest = read_manifest(tmp_path / "made")
    assert manifest is not None
    assert [each.path for each in manifest.files] == ["scanner/mine.csv", "scanner/mine.csv.toml"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-o", ".hidden", "truth", "x" * 65, "a\nb"])
def test_a_host_that_is_no_name_of_a_folder_is_refused(tmp_path: Path, log: Path, name: str) -> None:
    done = call("merge", DRIVE, log, "-o", tmp_path / "made", f"--host={name}", status=1)
    assert "not a valid name of a host" in done.stderr
    assert not (tmp_path / "made").exists()


def test_a_host_of_the_session_is_refused(tmp_path: Path, log: Path) -> None:
    session = tmp_path / "session"
    (session / "car").mkdir(parents=True)
    (session / "car" / "drive.csv").write_text(CSV)
    done = call("merge", session, log, "-o", tmp_path / "made", "--host", "car", status=1)
    assert "host 'car' already exists" in done.stderr


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [("notes.txt", "bought milk\n", "the format is unknown"), ("README.md", CSV, "this name is reserved")],
)
def test_what_would_not_be_read_is_refused(tmp_path: Path, name: str, content: str, complaint: str) -> None:
    log = tmp_path / name
    log.write_text(content)
    assert complaint in call("merge", DRIVE, log, "-o", tmp_path / "made", "--host", "phone", status=1).stderr
    assert not (tmp_path / "made").exists()


def test_two_logs_of_one_name_are_refused(tmp_path: Path, log: Path) -> None:
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / log.name
    other.write_text(CSV)
    done = call("merge", DRIVE, log, other, "-o", tmp_path / "made", "--host", "phone", status=1)
    assert "rename one" in done.stderr


def test_a_folder_that_exists_or_lies_in_the_session_is_refused(tmp_path: Path, log: Path) -> None:
    assert "not empty" in call("merge", DRIVE, log, "-o", tmp_path, "--host", "phone", status=1).stderr
    session = tmp_path / "session"
    (session / "car").mkdir(parents=True)
    (session / "car" / "drive.csv").write_text(CSV)
    done = call("merge", session, log, "-o", session / "made", "--host", "phone", status=1)
    assert "is inside" in done.stderr


def test_a_log_without_host_is_told_what_to_do(tmp_path: Path, log: Path) -> None:
    assert "--host" in call("merge", DRIVE, log, "-o", tmp_path / "made", status=2).stderr


def _begin_ns(session: Path) -> int:
    return min(file.first_ns for capture in read(session).captures for file in capture.tables.files if file.first_ns)


@pytest.fixture
def undated(tmp_path: Path) -> Path:
    """What a terminal logs: answers of a modem with the time of day by local clocks, two hours ahead of UTC."""
    begin_ns = _begin_ns(PACKETS)
    local = pd.Timestamp(begin_ns, tz="UTC").tz_convert("Etc/GMT-2")
    lines = [
        f"[{local + pd.Timedelta(seconds=second):%H:%M:%S.%f}] {line}\n"
        for second in range(5)
        for line in ("AT+CESQ", "+CESQ: 99,99,255,255,20,52")
    ]
    path = tmp_path / "modem.txt"
    path.write_text("".join(lines))
    return path


def test_times_of_day_get_the_date_and_the_zone_of_the_options(tmp_path: Path, undated: Path) -> None:
    made = tmp_path / "with-modem"
    call("merge", PACKETS, undated, "-o", made, "--host", "modem")
    begin_ns = _begin_ns(made)
    day = str(pd.Timestamp(begin_ns, tz="UTC").date())
    session = mt.open(made)
    assert len(session.radio)
    assert f"give that of the first line, such as --date {day}" in " ".join(session.warnings)
    stated = mt.open(made, date=day, zone="+02:00")
    assert not [each for each in stated.warnings if "modem.txt" in each]
    times = stated.radio.query("host == 'modem'")["time_ns"]
    assert abs((times.min() - pd.Timestamp(begin_ns, tz="UTC")).total_seconds()) < 1
    cut = mt.open(made, date=day, zone="+02:00").between(0, 3)
    assert 2 <= len(cut.radio.query("host == 'modem'")) <= 4, "a part keeps what the user states"
    shown = call("inspect", made, "--date", day, "--zone", "+02:00")
    assert "modem.txt" not in shown.stderr


def test_date_and_zone_of_the_new_log_are_in_the_manifest(tmp_path: Path, undated: Path) -> None:
    made = tmp_path / "with-modem"
    day = str(pd.Timestamp(_begin_ns(PACKETS), tz="UTC").date())
    call("merge", PACKETS, undated, "-o", made, "--host", "modem", "--zone", "+02:00", "--date", day)
    session = mt.open(made)
    times = session.radio.query("host == 'modem'")["time_ns"]
    assert abs((times.min() - pd.Timestamp(_begin_ns(made), tz="UTC")).total_seconds()) < 1
    assert not [each for each in session.warnings if "modem.txt" in each]
    refused = call("merge", PACKETS, PACKETS, "-o", tmp_path / "other", "--zone", "UTC", status=2)
    assert "--host" in refused.stderr
    wrong = call("merge", PACKETS, undated, "-o", tmp_path / "other", "--host", "a", "--date", "30.11.2026", status=2)
    assert "is not a date; write YEAR-MONTH-DAY" in wrong.stderr
