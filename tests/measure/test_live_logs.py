"""What a good-bye knows of modem and GPS receiver: from logs that grow, that are large, old, or moved away."""

from __future__ import annotations

import json
import lzma
from typing import TYPE_CHECKING

import pytest

from multitracer.measure.live_logs import LiveLogs
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

LINES = lzma.decompress((SAMPLES / "measured-drive" / "mobile" / "radio-0.jsonl.xz").read_bytes()).splitlines()
ANSWERS = [line for line in LINES if line.startswith(b'{"kind":"answer"') and b"WPRSSI" in line]
"""Answers of a modem to the command that tells the level."""
END_NS = json.loads(ANSWERS[-1])["answered_ns"]
RTT_NS = 100_000_000


def _write(path: Path, lines: list[bytes], *, later_ns: int = 0) -> None:
    records = [json.loads(line) for line in lines]
    for record in records:
        record |= {name: record[name] + later_ns for name in ("asked_ns", "answered_ns") if name in record}
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


class _Clock:
    """A clock that a test sets; each reading of it takes `step_ns`."""

    def __init__(self, now_ns: int = END_NS, *, step_ns: int = 0) -> None:
        self.now_ns, self._step_ns = now_ns, step_ns

    def __call__(self) -> int:
        self.now_ns += self._step_ns
        return self.now_ns


def test_reading_that_is_appended_is_known(tmp_path: Path) -> None:
    logs = LiveLogs(tmp_path, clock := _Clock())
    assert logs.since(RTT_NS)["rssi_absent"] == "no modem is recorded"
    _write(tmp_path / "radio-0.jsonl", ANSWERS)
    clock.now_ns += 10**9
    known = logs.since(RTT_NS)
    assert known["rssi_dbm"] < -40
    assert 0.8 < known["rssi_age_s"] < 1.0


def test_reading_that_comes_between_a_look_at_the_clock_and_at_the_log_is_known(tmp_path: Path) -> None:
    """A busy machine lets a program wait there for long, and no later call reads it again."""
    _write(tmp_path / "radio-0.jsonl", ANSWERS[-1:])
    logs = LiveLogs(tmp_path, _Clock(END_NS - 3 * RTT_NS // 2, step_ns=RTT_NS))
    assert logs.since(10 * RTT_NS)["rssi_readings"] == 1


def test_end_of_a_large_log_is_known_at_once(tmp_path: Path) -> None:
    """A measurement begins hours after its recording: its first good-bye has the newest reading."""
    (tmp_path / "radio-0.jsonl").write_bytes(b"\n".join([*LINES * 40, ANSWERS[-1], b""]))
    assert (tmp_path / "radio-0.jsonl").stat().st_size > 3 << 20
    assert LiveLogs(tmp_path, _Clock()).since(RTT_NS)["rssi_age_s"] == 0


def test_log_of_a_run_before_the_machine_started_anew_is_not_the_present(tmp_path: Path) -> None:
    """CLOCK_MONOTONIC begins with the machine: what an earlier run read has times to come."""
    _write(tmp_path / "radio-0.jsonl", ANSWERS, later_ns=3600 * 10**9)
    logs = LiveLogs(tmp_path, clock := _Clock())
    assert logs.since(RTT_NS)["rssi_absent"] == "the modem has not reported it"
    _write(tmp_path / "radio-9.jsonl", ANSWERS[-1:])
    clock.now_ns += 10**9
    assert logs.since(RTT_NS)["rssi_age_s"] < 1
    _write(tmp_path / "radio-10.jsonl", ANSWERS[-1:], later_ns=2 * 10**9)
    assert LiveLogs(tmp_path, _Clock(END_NS + 3 * 10**9)).since(RTT_NS)["rssi_age_s"] < 1, "the newest"


@pytest.mark.parametrize("begins_after", [False, True])
def test_log_that_is_moved_away_ends_no_transaction(begins_after: bool, tmp_path: Path) -> None:
    log = tmp_path / "radio-0.jsonl"
    _write(log, ANSWERS)
    if begins_after:
        (tmp_path / "radio-1.jsonl").symlink_to(tmp_path / "gone")
    logs = LiveLogs(tmp_path, _Clock())
    log.unlink()
    assert ("rssi_dbm" in logs.since(RTT_NS)) != begins_after
