"""What the engineer is shown is so: a gap is a gap, a rate a rate, and nothing acts on the terminal."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import pty
import re
import signal
import subprocess
import termios
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from multitracer.manifest import CollectorRun
from multitracer.recorder.child import CollectorProcess
from multitracer.recorder.plan import PlannedCollector
from multitracer.recorder.screen import sparkline
from multitracer.recorder.status import Watcher, values_of
from multitracer.recording.read import read
from tests.collectors.rehearsal import device
from tests.recorder.capturing import capturing, command, end, manifest, until

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterator
    from pathlib import Path

S = 1_000_000_000


def test_unplugged_modem_is_said_so_until_it_is_back_under_another_name(tmp_path: Path) -> None:
    port, other = tmp_path / "port-a", tmp_path / "port-b"
    options = ("--with", "modem", "--modem", f"{tmp_path}/port-*")
    with device("modem", port) as modem, capturing(tmp_path / "drive", *options) as child:
        assert child.stderr is not None
        modem.do("unplug")
        assert any(re.search(r"modem no values( \d+ s)? \(unplugged\)", line) for line in child.stderr)
        modem.do("plug", link=str(other))
        assert any("modem recording" in line for line in child.stderr)
        end(child)


@contextmanager
def held(port: Path, how: str) -> Iterator[None]:
    """Use a port as another program does: with a lock, or with the terminal to itself (ioctl_tty(2))."""
    descriptor = os.open(port, os.O_RDWR | os.O_NOCTTY)
    try:
        if how == "flock":
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        else:
            fcntl.ioctl(descriptor, termios.TIOCEXCL)
        yield
        if how != "flock":  # our own device keeps the port open, so the kernel does not forget it at our close
            fcntl.ioctl(descriptor, termios.TIOCNXCL)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("how", ["flock", pytest.param("tiocexcl", marks=pytest.mark.root)])
def test_busy_port_is_said_so_while_the_rest_records_and_taken_when_free(tmp_path: Path, how: str) -> None:
    port, folder = tmp_path / "port", tmp_path / "drive"
    options = ("--with", "modem", "--with", "tcp_info", "--modem", port)
    busy_port = re.compile(r"modem no values( \d+ s)? \(port busy\)")
    with device("modem", port), ExitStack() as other:
        other.enter_context(held(port, how))
        with capturing(folder, *options) as child:
            assert child.stderr is not None
            busy = next(line for line in child.stderr if busy_port.search(line))
            assert "tcp_info" in busy
            assert any(busy_port.search(line) and "tcp_info recording" in line for line in child.stderr)
            other.close()
            assert any("modem recording" in line for line in child.stderr)
            assert end(child)[0] == 0
    gaps = [table for _, table in read(folder).tables("radio", "gaps")]
    assert [gap["reason"].tolist() for gap in gaps] == [["port busy"]]
    outcomes = {run["name"]: run["outcome"] for run in manifest(folder)["collectors"]}
    assert outcomes == {"modem": "ended", "tcp_info": "ended"}, "nothing was started anew"


def test_busy_port_on_the_screen(tmp_path: Path) -> None:
    port, folder = tmp_path / "port", tmp_path / "drive"
    master, terminal = pty.openpty()
    argv = [w for w in command(folder, "--with", "modem", "--modem", port) if w != "--plain"]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    with device("modem", port), ExitStack() as other:
        other.enter_context(held(port, "flock"))
        child = subprocess.Popen(argv, stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
        os.close(terminal)
        try:
            until(lambda: re.search(r"modem .*no values \d+ s.* port busy", shown(master)))
            until(lambda: "now: not known: no packets are recorded" in shown(master))
            other.close()
            until(lambda: re.search(r"modem .*recording", shown(master)))
            child.send_signal(signal.SIGINT)
            until(lambda: (shown(master), child.poll())[1] is not None)
        finally:
            child.kill()
            child.wait()
            os.close(master)
    assert child.returncode == 0


def shown(master: int) -> str:
    """Return what the screen showed since the last look."""
    os.set_blocking(master, False)
    with contextlib.suppress(OSError):
        return os.read(master, 1 << 16).decode("utf-8", "replace")
    return ""


def _told(rssi_dbm: float) -> str:
    cell = {"role": "serving", "rssi_dbm": rssi_dbm, "rat": "LTE", "operator": "\x1b]0;mine\x07"}
    return json.dumps({"kind": "answer", "shown": [cell]}) + "\n"


def test_value_that_is_not_told_any_more_is_not_shown_as_if_it_were(tmp_path: Path) -> None:
    child = CollectorProcess(PlannedCollector("modem", "radio", ".jsonl"), tmp_path)
    child.runs.append(CollectorRun("modem", "", [], "", 0))
    watcher, series = Watcher(child), dict[str, "deque[float]"]()
    with (tmp_path / "radio-0.jsonl").open("w") as log:
        for second in range(12):
            if not 3 <= second < 9:
                log.write(_told(-60 - second))
                log.flush()
            line = watcher.look(series, (100 + second) * S)
    shown = list(series["RSSI, dBm"])
    assert [value for value in shown if not math.isnan(value)] == [-60, -61, -62, -69, -70, -71]
    assert [math.isnan(value) for value in shown[3:-3]] == [True] * 3, "three seconds may be a slow answer"
    assert sparkline(shown) == "█▇▆   ▂▁▁"
    assert line.last.isprintable()


def test_capture_that_goes_on_in_a_second_file_is_counted_whole(tmp_path: Path) -> None:
    """Where a capture is begun anew at 1 GB, tcpdump numbers its files (tcpdump(1), -C)."""
    child = CollectorProcess(PlannedCollector("tcpdump", "tcp", ".pcap", notes=True), tmp_path)
    child.runs.append(CollectorRun("tcpdump", "", [], "", 0))
    for name in ("tcp-0.pcap", "tcp-0.pcap1", "tcp-0.pcap12", "tcpdump-0.jsonl", "tcp-1.pcap", "tcp_state-0.jsonl"):
        (tmp_path / name).write_bytes(bytes(100))
    assert {path.name for path in child.logs} == {
        "tcp-0.pcap", "tcp-0.pcap1", "tcp-0.pcap12", "tcpdump-0.jsonl"
    }  # fmt: skip
    assert Watcher(child).look({}, S).bytes == 400


def test_throughput_is_what_was_carried_in_the_time() -> None:
    """The kernel's delivery rate is that of bursts: over loopback, gigabits for an idle connection."""

    def reading(at_ms: int, acked: int, cookie: int = 1, received: int = 0) -> dict[str, object]:
        info = {"bytes_acked": acked, "bytes_received": received, "delivery_rate": 10**9, "snd_cwnd": 10,
                "rtt": 500, "rcv_rtt": 9000}  # fmt: skip
        return {"kind": "reading", "read_before_ns": at_ms * 10**6, "cookie": cookie, "tcp_info": info}

    old = [reading(at, 10**9, cookie=2) for at in (0, 500)]
    newest = values_of("tcp_info", [*old, reading(0, 1000), reading(500, 6000)])
    assert newest.words.startswith("2 sockets")
    assert newest.numbers == {
        "cwnd, segments": 10, "RTT, ms": 0.5, "sent, kbit/s": pytest.approx(80), "received, kbit/s": 0
    }  # fmt: skip
    newest = values_of("tcp_info", [reading(0, 10, received=0), reading(500, 20, received=50_000)])
    assert newest.words.startswith("1 socket,")
    assert newest.numbers["received, kbit/s"] == pytest.approx(800)
    assert newest.numbers["RTT, ms"] == 9, "who only receives knows the round trip of its window"


def test_clock_that_was_set_is_told() -> None:
    newest = values_of("host_clock", [{"synchronized": 0, "event": "step", "step_ns": -2 * S}])
    assert (newest.words, newest.alert) == ("not synchronised", "the clock was stepped by -2.000 s")


def test_two_steps_of_the_clock_between_two_looks_are_both_told() -> None:
    """The second hid the first, on a machine that looks seldom."""
    steps = [{"synchronized": 0, "event": "step", "step_ns": step_s * S} for step_s in (37, -2)]
    told = "the clock was stepped by +37.000 s; the clock was stepped by -2.000 s"
    assert values_of("host_clock", steps).alert == told


def test_phone_that_gives_no_packets_is_an_alert_and_one_that_does_says_how() -> None:
    unable = {"kind": "unable", "says": "no packets of this phone are recorded"}
    newest = values_of("android-packets-2", [{"kind": "phone", "serial": "x", "packets": ""}, unable])
    assert (newest.alert, newest.gap) == (unable["says"], unable["says"])
    records = [{"kind": "missed", "why": "unplugged"}, {"kind": "phone", "serial": "x", "packets": "tcpdump"}]
    newest = values_of("android-packets", records)
    assert (newest.words, newest.gap, newest.alert) == ("x tcpdump", "", "")
