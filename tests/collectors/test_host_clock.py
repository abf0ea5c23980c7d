"""The collector host_clock: clocks read together, and steps and sleeps noticed and told apart."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import parsers
from collectors._kernel_clock import SetAlarm, read_together
from collectors._log import Log
from collectors.host_clock import Recording
from tests.collectors.running import PATIENCE_S, command, run, until

if TYPE_CHECKING:
    from pathlib import Path

S = 1_000_000_000
START = {"monotonic": 50 * S, "realtime": 1_795_000_000 * S, "boottime": 80 * S}


class Clocks:
    """Clocks that can be set and that can sleep, read as the kernel's are."""

    def __init__(self) -> None:
        self._now = dict(START)

    def run(self, ns: int) -> None:
        for name in self._now:
            self._now[name] += ns

    def set_by(self, ns: int) -> None:
        self._now["realtime"] += ns

    def sleep(self, ns: int) -> None:
        self._now["realtime"] += ns
        self._now["boottime"] += ns

    def read(self) -> dict[str, int]:
        middle = self._now["monotonic"]
        return {
            "monotonic_before_ns": middle - 300,
            "realtime_ns": self._now["realtime"],
            "monotonic_after_ns": middle + 300,
            "boottime_ns": self._now["boottime"],
        }


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "clocks.jsonl"


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_steps_of_a_leap_table_and_of_a_late_ntp_are_noticed_and_survived(log: Path) -> None:
    """+37 s is TAI taken for UTC, -2 s an NTP client that wakes up."""
    clocks = Clocks()
    with Log(log) as out:
        recording = Recording(out, every_ns=5 * S, host="mobile", read=clocks.read)
        recording.write()
        for happens in (
            lambda: None,
            lambda: clocks.set_by(37 * S),
            lambda: None,
            lambda: clocks.set_by(-2 * S),
        ):
            clocks.run(S)
            happens()
            recording.look()
        clocks.run(S)
        clocks.sleep(600 * S)
        recording.look()
        recording.write(end="SIGTERM")
    _, parsed = parsers.read(log)
    assert isinstance(parsed, dict)
    table = parsed["clock_readings"]
    assert table["event"].tolist() == ["reading", "step", "step", "suspend", "reading"]
    assert table["step_ns"].tolist()[1:4] == [37 * S, -2 * S, 600 * S]
    assert table["host"].tolist() == ["mobile"] * 5
    assert table.provenance["skipped"] == {}


@given(step=st.integers(-(10**12), 10**12), slept=st.sampled_from([0, 0, 400 * S]))
def test_a_step_is_told_exactly_and_a_small_one_not_at_all(step: int, slept: int) -> None:
    clocks = Clocks()
    recording = Recording(Log.__new__(Log), every_ns=S, host="x", read=clocks.read)
    recording._last = clocks.read()
    clocks.run(S)
    clocks.set_by(step)
    clocks.sleep(slept)
    event = recording._event(clocks.read())
    if abs(step) > 300_000:
        assert event == {"event": "step", "step_ns": step}
    elif abs(step) < 200_000:
        assert event == ({"event": "suspend", "step_ns": slept} if slept else {})


def test_real_clocks_are_read_within_microseconds_of_each_other(log: Path) -> None:
    done = run("host_clock", "-o", log, "--every", 0.5, "--duration", 1.2, "--host", "fixed")
    assert (done.returncode, done.stderr) == (0, "")
    found = lines(log)
    assert found[0]["header"]["format"] == "multitracer-host-clock"
    assert found[-1]["end"] == "duration"
    offsets = []
    for reading in found:
        assert 0 < reading["monotonic_after_ns"] - reading["monotonic_before_ns"] < 10_000_000
        assert abs(reading["realtime_ns"] - time.time_ns()) < 60 * S
        assert reading["synchronized"] in (0, 1)
        assert "event" not in reading
        offsets.append(reading["boottime_ns"] - reading["monotonic_before_ns"])
    assert max(offsets) - min(offsets) < 10_000_000


def test_tags_become_readings(log: Path) -> None:

    child = subprocess.Popen(command("host_clock", "-o", log, "--tags"), stdin=subprocess.PIPE, text=True)
    try:
        assert child.stdin is not None
        until(lambda: log.exists() and log.read_text().count("\n") == 1)
        child.stdin.write("00ff\n")
        child.stdin.flush()
        until(lambda: "00ff" in log.read_text())
        child.stdin.close()
        assert child.wait(PATIENCE_S) == 0
    finally:
        child.kill()
        child.wait()
    assert [r.get("tag") for r in lines(log)][1] == "00ff"
    assert lines(log)[-1]["end"] == "parent ended"


def test_signal_ends_it_and_chrony_is_asked_where_it_is(log: Path, tmp_path: Path) -> None:
    """The line is that of chronyc(1); a program that prints it stands for the real one."""

    said = (
        "D45AC91E,212.90.201.30,3,1500000000.1,-0.000001,0.00002,0.00003,-1.2,0.0,0.04,0.01,0.001,64.2,Normal"
    )
    chronyc = tmp_path / "bin" / "chronyc"
    chronyc.parent.mkdir()
    chronyc.write_text(f"#!/bin/sh\necho '{said}'\n")
    chronyc.chmod(stat.S_IRWXU)
    environment = os.environ | {"PATH": f"{chronyc.parent}:{os.environ['PATH']}"}
    child = subprocess.Popen(command("host_clock", "-o", log), env=environment)
    try:
        until(lambda: log.exists() and log.read_text().count("\n") == 1)
        child.send_signal(signal.SIGINT)
        assert child.wait(PATIENCE_S) == 0
    finally:
        child.kill()
        child.wait()
    assert lines(log)[0]["chrony"] == said
    assert lines(log)[-1]["end"] == "SIGINT"


@pytest.mark.parametrize("reason", ["SIGHUP", "SIGTERM"])
def test_closed_terminal_ends_it_in_order_unless_nohup_started_it(log: Path, reason: str) -> None:
    before = ["nohup"] if reason == "SIGTERM" else []
    child = subprocess.Popen(
        [*before, *command("host_clock", "-o", log)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until(lambda: log.exists() and log.read_text().count("\n") == 1)
        child.send_signal(signal.SIGHUP)
        child.send_signal(signal.SIGTERM)
        assert child.wait(PATIENCE_S) == 0
    finally:
        child.kill()
        child.wait()
    assert lines(log)[-1]["end"] == reason


def test_alarm_is_quiet_while_nobody_sets_the_clock() -> None:
    alarm = SetAlarm()
    assert len(alarm.descriptors) == 1
    assert alarm.take() is False
    assert read_together().keys() >= {"realtime_ns", "boottime_ns"}
    alarm.close()
