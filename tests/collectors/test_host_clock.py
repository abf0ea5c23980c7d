"""The collector host_clock: clocks read together, and steps and sleeps noticed and told apart."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import parsers
from collectors import host_clock
from collectors._log import Log
from collectors._stop import SetAlarm, read_together
from collectors.host_clock import HostClockRecorder
from tests.collectors.running import PATIENCE_S, command, run, until
from tests.netns import namespaces

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
        recording = HostClockRecorder(out, every_ns=5 * S, host="mobile", read=clocks.read)
        recording.write()
        for step_ns in (0, 37 * S, 0, -2 * S):
            clocks.run(S)
            if step_ns:
                clocks.set_by(step_ns)
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
    recording = HostClockRecorder(Log.__new__(Log), every_ns=S, host="x", read=clocks.read)
    recording._last = clocks.read()
    clocks.run(S)
    clocks.set_by(step)
    clocks.sleep(slept)
    event = recording._event(clocks.read())
    if abs(step) > 300_000:
        assert event == {"event": "step", "step_ns": step}
    elif abs(step) < 200_000:
        assert event == ({"event": "suspend", "step_ns": slept} if slept else {})


@pytest.mark.realtime  # within 10 ms
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

    said = "D45AC91E,212.90.201.30,3,1500000000.1,-0.000001,0.00002,0.00003,-1.2,0.0,0.04,0.01,0.001,64.2,Normal"
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


@pytest.mark.root
@pytest.mark.skipif(shutil.which("ptp4l") is None, reason="needs ptp4l and pmc (linuxptp)")
def test_ptp_is_told_by_a_real_ptp4l(log: Path, tmp_path: Path) -> None:
    """Both daemons run free: they compare the clocks of two namespaces, which are one, and set none."""
    with namespaces("a", "b") as hosts:
        hosts.join("a", "b", network="10.0.1")
        for label, device in (("a", "to-b"), ("b", "to-a")):
            (tmp_path / f"{label}.cfg").write_text(
                "[global]\ntime_stamping software\nfree_running 1\nannounceReceiptTimeout 3\n"
                f"logAnnounceInterval -2\nlogSyncInterval -3\nslaveOnly {int(label == 'a')}\n[{device}]\n"
            )
        argv = command("host_clock", "-o", log, "--every", 1)
        for label, more in (("a", f"until {PTP_READY}; do :; done; exec {shlex.join(argv)}"), ("b", "wait")):
            daemon = f"setpriv --pdeathsig KILL ptp4l -f {tmp_path}/{label}.cfg"
            hosts.start(label, "sh", "-c", f"mount -t tmpfs none /run && {daemon} & {more}")
        until(lambda: log.exists() and log.read_text().count("\n") > 0)
    first = lines(log)[0]
    assert first["ptp"].startswith("TIME_STATUS_NP master_offset ")
    told = first["ptp"].split()
    said = dict(zip(told[1::2], told[2::2], strict=True))
    assert said["gmPresent"] == "true"
    assert abs(int(said["master_offset"])) < S // 100, "one clock, seen over a cable"
    assert 0 <= first["realtime_ns"] - int(said["ingress_time"]) < 60 * S


PTP_READY = "pmc -u -b 0 'GET TIME_STATUS_NP' | grep -q 'gmPresent *true'"
PTP_SAID = (
    "sending: GET TIME_STATUS_NP\n\tfac4d5.fffe.35c332-0 seq 0 RESPONSE MANAGEMENT TIME_STATUS_NP \n"
    "\t\tmaster_offset              -481\n\t\tingress_time               1795300372926440260\n"
    "\t\tcumulativeScaledRateOffset +0.000000000\n\t\tscaledLastGmPhaseChange    0\n"
    "\t\tgmTimeBaseIndicator        0\n\t\tlastGmPhaseChange          0x0000'0000000000000000.0000\n"
    "\t\tgmPresent                  true\n\t\tgmIdentity                 3a7f98.fffe.8138a6\n"
)
"""What pmc 3.1.1 printed beside a ptp4l, and, first line alone, beside none."""


@pytest.mark.parametrize("answered", [True, False])
def test_ptp_is_told_where_pmc_has_an_answer(log: Path, tmp_path: Path, answered: bool) -> None:
    """A program that prints the recorded words stands for the real one, which not every machine has."""
    pmc = tmp_path / "bin" / "pmc"
    pmc.parent.mkdir()
    (tmp_path / "said").write_text(PTP_SAID if answered else PTP_SAID.splitlines(keepends=True)[0])
    pmc.write_text(f"#!/bin/sh\n[ \"$*\" = '-u -b 0 GET TIME_STATUS_NP' ] && cat {tmp_path}/said\n")
    pmc.chmod(stat.S_IRWXU)
    environment = os.environ | {"PATH": f"{pmc.parent}:{os.environ['PATH']}"}
    argv = command("host_clock", "-o", log, "--duration", 0.2)
    subprocess.run(argv, env=environment, check=True, timeout=PATIENCE_S)
    first = lines(log)[0]
    if answered:
        assert first["ptp"].startswith("TIME_STATUS_NP master_offset -481 ingress_time 1795300372926440260 ")
        assert first["ptp"].endswith(" gmPresent true gmIdentity 3a7f98.fffe.8138a6")
    else:
        assert "ptp" not in first
    here = sorted(path.name for path in Path("/sys/class/ptp").glob("ptp*"))
    assert sorted(first["header"]["ptp_clocks"]) == here


def test_hardware_clocks_are_told_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is as the kernel's (Documentation/ABI/testing/sysfs-ptp): few machines have such a clock."""
    for device, name in (("ptp0", "e1000e-phc\n"), ("ptp1", "KVM virtual PTP\n")):
        (tmp_path / device).mkdir()
        (tmp_path / device / "clock_name").write_text(name)
    monkeypatch.setattr(host_clock, "_PTP_CLOCKS", tmp_path)
    assert host_clock._ptp_clocks() == {"ptp0": "e1000e-phc", "ptp1": "KVM virtual PTP"}


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
