"""The collector modem on real pseudo-terminals: what it asks, writes, survives, and never makes up."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import time
import tty
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import parsers
from multitracer.lab.rehearsal.modem import VOICES
from tests.collectors.rehearsal import modem
from tests.collectors.running import command, end, records, run, running, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Table

HZ = 20
QUICK = ("--hz", HZ, "--timeout", 0.15)
HERE = {
    "rssi_dbm": -71, "rsrp_dbm": -97, "rsrq_db": -11, "sinr_db": 14, "registration": 1, "area_code": 0x2A01,
    "cell_id": 0x1A2D001, "physical_cell_id": 101, "channel": 512, "bler_pct": 3, "cell_busy_pct": 42.5,
}  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "radio.jsonl"


@pytest.fixture
def port(tmp_path: Path) -> Path:
    return tmp_path / "ttyUSB0"


def tables(log: Path) -> dict[str, Table]:
    _, parsed = parsers.read(log)
    assert isinstance(parsed, dict)
    return parsed


def answers(log: Path, name: str) -> list[dict[str, Any]]:
    return [r for r in records(log, "answer") if r["command"] == name]


def shown(log: Path, name: str) -> list[Any]:
    """Return the values of a column in the order of the log."""
    return [r[name] for record in records(log, "answer") for r in record["shown"] if name in r]


def rounds(log: Path, *, beyond: int) -> bool:
    return len(answers(log, "AT+CSQ")) > beyond


@pytest.mark.parametrize("profile", sorted(VOICES))
def test_vendor_is_found_and_its_values_are_those_the_modem_was_told(profile: str, port: Path, log: Path) -> None:
    with modem(port, profile, "--chatter", 0.3) as fake:
        fake.set(**HERE)
        with running("modem", log, "--device", port, *QUICK) as child:
            until(lambda: len(records(log, "answer")) > 25)
            assert end(child) == 0
    (met,) = records(log, "modem")
    assert met["profile"] == profile
    radio = tables(log)["radio"]
    of_links, of_cells = ("rssi_dbm", "bler_pct", "cell_busy_pct"), ("rssi_dbm", "cell_id", "rsrp_dbm")
    names = of_links if profile.startswith("rehearsal_") else of_cells
    for name in names:
        read = {v for v, gone in zip(radio[name], radio.missing(name), strict=True) if not gone}
        assert read == {HERE[name]}, name
    assert tables(log)["radio"].provenance["skipped"] == {}


def test_every_answer_is_kept_raw_between_two_stamps_of_its_round(port: Path, log: Path) -> None:
    with modem(port, "3gpp") as fake:
        fake.set(**HERE)
        done = run("modem", "--device", port, "-o", log, "--duration", 1.5, "--hz", 5)
        assert (done.returncode, done.stderr) == (0, "")
    stamps = [(r["asked_ns"], r["answered_ns"]) for r in records(log, "answer")]
    assert all(asked < answered for asked, answered in stamps)
    assert stamps == sorted(stamps)
    assert answers(log, "AT+CSQ")[0]["raw"] == "\r\n+CSQ: 21,99\r\n\r\nOK\r\n"
    (ending,) = records(log, "end")
    assert ending["reason"] == "duration"
    assert 5 <= ending["reads"] <= 9
    assert [r["kind"] for r in records(log)][-2:] == ["clock", "end"]


def test_unplugged_and_plugged_in_under_another_name_is_a_gap_and_goes_on(port: Path, log: Path) -> None:
    pattern = str(port.with_name("tty*"))
    with modem(port, "3gpp") as fake:
        fake.set(**HERE)
        with running("modem", log, "--device", pattern, *QUICK) as child:
            until(lambda: rounds(log, beyond=3))
            fake.do("unplug")
            until(lambda: [r for r in records(log, "missed") if r["why"] == "unplugged"])
            fake.set(rssi_dbm=-99)
            fake.do("plug", link=str(port.with_name("ttyUSB7")))
            until(lambda: -99 in shown(log, "rssi_dbm"))
            assert end(child) == 0
    ports = [(r["state"], Path(r["port"]).name) for r in records(log, "port")]
    assert ports == [("opened", "ttyUSB0"), ("lost", "ttyUSB0"), ("opened", "ttyUSB7")]
    gap, radio = only_gap(log, "unplugged"), tables(log)["radio"]
    inside = (radio["asked_ns"] > gap["time_ns"]) & (radio["answered_ns"] < gap["until_ns"])
    assert not inside.any()
    signal_ = [v for v, no in zip(radio["rssi_dbm"], radio.missing("rssi_dbm"), strict=True) if not no]
    assert sorted(set(signal_)) == [-99, -71]


def only_gap(log: Path, reason: str) -> dict[str, Any]:
    (gap,) = [row for row in tables(log)["gaps"].rows() if row["reason"] == reason]
    return gap


def test_silence_of_a_minute_of_rounds_is_one_gap_without_a_value(port: Path, log: Path) -> None:
    """At 20 rounds a second, 60 rounds stand for the 60 s of a silent modem at one a second."""
    with modem(port, "3gpp") as fake:
        fake.set(**HERE)
        with running("modem", log, "--device", port, *QUICK) as child:
            until(lambda: rounds(log, beyond=3))
            fake.do("silent")
            until(lambda: sum(r["count"] for r in records(log, "missed") if r["why"] == "silent") >= 60)
            fake.set(rssi_dbm=-99)
            fake.do("speak")
            until(lambda: -99 in shown(log, "rssi_dbm"))
            assert end(child) == 0
    gap, radio = only_gap(log, "silent"), tables(log)["radio"]
    assert gap["count"] >= 60
    assert not ((radio["asked_ns"] > gap["time_ns"]) & (radio["answered_ns"] < gap["until_ns"])).any()
    assert len(records(log, "port")) == 1


def test_answers_that_come_late_are_nobodys(port: Path, log: Path) -> None:
    """What was asked before the modem stalled is answered after; it may not stand for a later question."""
    with modem(port, "3gpp", "--delay", 0.03, 0.04) as fake:
        fake.set(**HERE)
        with running("modem", log, "--device", port, *QUICK) as child:
            until(lambda: rounds(log, beyond=3))
            fake.do("stall")
            until(lambda: [r for r in records(log, "missed") if r["why"] == "silent"])
            fake.set(rssi_dbm=-99)
            changed_ns, missed = time.monotonic_ns(), len(records(log, "missed"))
            until(lambda: len(records(log, "missed")) > missed + 1)
            stalled = len(records(log, "answer"))
            fake.do("speak")
            until(lambda: len(records(log, "answer")) > stalled + 10)
            assert end(child) == 0
    late = [r for r in answers(log, "AT+CSQ") if r["asked_ns"] > changed_ns and r["shown"]]
    assert late
    assert {reading["rssi_dbm"] for r in late for reading in r["shown"]} == {-99}
    radio = tables(log)["radio"]
    later = radio["rssi_dbm"][(radio["asked_ns"] > tables(log)["gaps"]["until_ns"].min()) & ~radio.missing("rssi_dbm")]
    assert set(later.tolist()) == {-99}
    assert records(log, "unasked")
    for name, prefix in (("AT+CSQ", "+CSQ:"), ("AT+CESQ", "+CESQ:"), ("AT+CREG?", "+CREG:")):
        complete = [r["raw"] for r in answers(log, name) if r["result"] == "OK"]
        assert complete
        assert all(raw.strip().startswith(prefix) or raw.strip() == "OK" for raw in complete)


def test_garbage_is_kept_raw_and_gives_no_value(port: Path, log: Path) -> None:
    with modem(port, "3gpp") as fake:
        fake.set(**HERE)
        with running("modem", log, "--device", port, *QUICK) as child:
            until(lambda: rounds(log, beyond=3))
            for _ in range(20):
                fake.do("garbage", bytes=300)
            before = len(answers(log, "AT+CSQ"))
            until(lambda: rounds(log, beyond=before + 10))
            assert end(child) == 0
    radio = tables(log)["radio"]
    assert {v for v, no in zip(radio["rssi_dbm"], radio.missing("rssi_dbm"), strict=True) if not no} == {-71}
    kept = [r["raw"] for r in records(log, "answer", "unasked")]
    assert any(not raw.isascii() for raw in kept)


def test_busy_port_is_a_gap_until_it_is_free(port: Path, log: Path) -> None:
    with modem(port, "3gpp") as fake:
        fake.set(**HERE)
        other = os.open(fake.link, os.O_RDWR | os.O_NOCTTY)
        fcntl.flock(other, fcntl.LOCK_EX)
        with running("modem", log, "--device", port, *QUICK) as child:
            until(lambda: len(records(log, "missed")) > 3)
            assert child.poll() is None
            os.close(other)
            until(lambda: rounds(log, beyond=3))
            assert end(child) == 0
    assert only_gap(log, "port busy")["count"] > 3


def test_first_of_several_ports_that_answers_is_taken(tmp_path: Path, log: Path) -> None:
    mute = tmp_path / "ttyUSB0"
    with modem(mute, "3gpp") as silent, modem(tmp_path / "ttyUSB1", "quectel") as fake:
        silent.do("silent")
        fake.set(**HERE)
        with running("modem", log, "--device", str(tmp_path / "ttyUSB*"), *QUICK) as child:
            until(lambda: rounds(log, beyond=1))
            assert end(child) == 0
    assert [Path(r["port"]).name for r in records(log, "port")] == ["ttyUSB1"]


HOSTILE = [
    b'\r\n+COPS: 0,0,"$(touch OWNED)`touch OWNED`",7\r\n\r\nOK\r\n',
    b'\r\n+COPS: 0,0,"../../../../etc/passwd",7\r\n\r\nOK\r\n',
    b'\r\n+COPS: 0,0,"<script>alert(1)</script>\x1b[2J\x07%s%n{0}",7\r\n\r\nOK\r\n',
    b"\r\n+CSQ: 99999999999999999999,99\r\n\r\nOK\r\n",
    b"+CSQ: " + b"9" * 100_000 + b"\r\n\r\nOK\r\n",
    b'\r\n{"kind":"end"}\r\n\r\nOK\r\n',
]


@pytest.fixture
def terminal() -> Iterator[tuple[int, str]]:
    """Return the device's side of a pseudo-terminal, and the name of the other."""
    device, port = pty.openpty()
    tty.setraw(device)
    tty.setraw(port)
    yield device, os.ttyname(port)
    os.close(device)
    os.close(port)


def test_hostile_answers_stay_data(terminal: tuple[int, str], log: Path, tmp_path: Path) -> None:
    device, name = terminal
    profile = tmp_path / "mine.toml"
    profile.write_text('name = "mine"\n[[ask]]\ncommand = "AT+COPS?"\n[[ask]]\ncommand = "AT+CSQ"\n')
    argv = command("modem", "-o", log, "--device", name, "--profile", profile, "--hz", 5)
    child = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    os.set_blocking(device, False)
    try:
        said = 0

        def converse() -> bool:
            nonlocal said
            try:
                asked = os.read(device, 4096)
            except BlockingIOError:
                return False
            for _ in range(asked.count(b"\r")):
                write_all(device, b"\r\nOK\r\n" if asked == b"AT\r" else HOSTILE[said // 2 % len(HOSTILE)])
                said += asked != b"AT\r"
            return said > 6 * len(HOSTILE)

        until(converse)
        assert end(child) == 0
    finally:
        child.kill()
        errors = child.communicate()[1]
    assert errors == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == [profile.name, log.name]
    text = log.read_bytes()
    assert text.isascii()
    assert not set(text) & set(range(10)) - {10}
    operators = tables(log)["radio"]["operator"]
    assert all(not o or (o.isprintable() and len(o) <= 32) for o in operators.tolist())
    assert any("touch" in o for o in operators.tolist())
    assert len(records(log, "end")) == 1


def write_all(device: int, data: bytes) -> None:
    """Write to a terminal that takes some kilobytes at a time."""
    while data:
        try:
            data = data[os.write(device, data) :]
        except BlockingIOError:
            os.sched_yield()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_it_with_an_end_also_while_it_waits_for_an_answer(number: int, port: Path, log: Path) -> None:
    with modem(port, "3gpp") as fake:
        fake.do("silent")
        with running("modem", log, "--device", port, "--hz", 5) as child:
            until(lambda: records(log, "port"))
            assert end(child, number) == 0
    assert records(log)[-1]["reason"] == signal.Signals(number).name


def test_killed_collector_leaves_whole_records(port: Path, log: Path) -> None:
    with modem(port, "3gpp") as fake:
        fake.set(**HERE)
        with running("modem", log, "--device", port, *QUICK) as child:
            until(lambda: rounds(log, beyond=10))
            end(child, signal.SIGKILL)
    found = tables(log)
    assert len(found["radio"]) >= 10
    assert found["radio"].provenance["ended"] is None


def test_it_ends_when_its_parent_does(port: Path, log: Path) -> None:
    argv = [*command("modem", "-o", log, "--device", port)]
    program = f"import subprocess, time; subprocess.Popen({argv!r}); input()"
    parent = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    until(lambda: log.exists() and records(log, "clock"))
    parent.kill()
    parent.communicate()
    until(lambda: records(log, "end"))
    assert records(log, "end")[0]["reason"] == "parent ended"


def test_wrong_profile_is_named_with_what_there_is(tmp_path: Path) -> None:
    done = run("modem", "--profile", "nonesuch", "--device", "/dev/null0")
    assert done.returncode == 1
    assert "rehearsal_cdpd" in done.stderr
    bad = tmp_path / "mine.toml"
    bad.write_text('name = "mine"\n[[ask]]\ncommand = "AT+CSQ\\rATD112;"\n')
    done = run("modem", "--profile", bad, "--device", "/dev/null0")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "ASCII" in done.stderr


def test_a_cable_with_a_bad_contact_leaks_no_descriptor(port: Path, log: Path) -> None:
    with modem(port, "3gpp") as fake, running("modem", log, "--device", port, *QUICK) as child:
        until(lambda: rounds(log, beyond=1))
        before = len(os.listdir(f"/proc/{child.pid}/fd"))  # noqa: PTH208

        def times_lost(count: int) -> bool:
            return len([r for r in records(log, "port") if r["state"] == "lost"]) == count

        def times_found(count: int) -> bool:
            return len(records(log, "modem")) == count

        for times in range(1, 16):
            fake.do("unplug")
            until(partial(times_lost, times))
            fake.do("plug")
            until(partial(times_found, times + 1))
        asked = len(answers(log, "AT+CSQ"))
        until(lambda: rounds(log, beyond=asked))
        assert len(os.listdir(f"/proc/{child.pid}/fd")) == before  # noqa: PTH208
        assert end(child) == 0
    assert tables(log)["gaps"]["reason"].tolist().count("unplugged") == 15
