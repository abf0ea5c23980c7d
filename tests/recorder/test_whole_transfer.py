"""`capture -- COMMAND` catches all of what COMMAND does, never waits for ever, and ends as COMMAND did."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from multitracer.recording.read import read
from multitracer.schemas.tcp import Close
from tests.collectors.test_installed import install
from tests.netns import namespaces
from tests.recorder.capturing import command, end, manifest, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE_S = 120
"""Ends every wait, however slow the machine; none of them takes more than some seconds."""
SENT_BYTES = 40_000
UPLOAD = f"""
import socket
client = socket.create_connection(("10.9.0.2", 9000))
client.sendall(bytes({SENT_BYTES}))
client.shutdown(socket.SHUT_WR)
assert not client.recv(1)
"""
"""Connects as the first thing it does, and takes leave in order."""
AT_ONCE = (sys.executable, "-I", "-S", "-c", UPLOAD)
"""Python without its site packages: there before most collectors have read their own code."""
SERVER = """
import socket
with socket.create_server(("10.9.0.2", 9000)) as server:
    print("listening", flush=True)
    while True:
        accepted, _ = server.accept()
        while accepted.recv(1 << 16):
            pass
        accepted.close()
"""
SILENT = """
import sys, time
from pathlib import Path
from multitracer.plugins import Collector, Log, Stop, parser, run
def main(argv):
    chosen = parser(None, traffic=False).parse_args(argv)
    with Stop(duration_ns=chosen.duration, tags=chosen.tags) as stop, Log(chosen.output) as log:
        while stop.wait(time.monotonic_ns() + 100_000_000):
            log.write(b"x")
COLLECTOR = Collector("silent", "radio", "never says that it is ready", "radio-table", ".csv", lambda: None)
if __name__ == "__main__":
    run(main)
"""


def recorded(folder: Path, *options: object, **how: Any) -> subprocess.CompletedProcess[str]:
    """Capture to the end."""
    argv = command(folder, *options)
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE_S, **how)


@contextmanager
def server_beside() -> Iterator[list[str]]:
    """Run a server at 10.9.0.2 in a network of two; give what runs a program at the other end of it."""
    with namespaces("a", "b") as hosts:
        hosts.join("a", "b", network="10.9.0")
        server = hosts.start("b", sys.executable, "-c", SERVER, stdout=subprocess.PIPE)
        assert server.stdout is not None
        assert server.stdout.readline() == "listening\n"
        yield hosts.command("a")
        server.stdout.close()


@pytest.mark.root
@pytest.mark.parametrize("packets", ["tcpdump", "sniffer"])
def test_command_that_connects_at_once_is_recorded_from_its_syn_to_its_last_fin(packets: str, tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    options = ("--ready", PATIENCE_S, "--with", packets, "--with", "tcp_info", "--with", "tcp_probe")
    with server_beside() as host:
        argv = [*host, *command(folder, *options, "--", *AT_ONCE)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert "not ready" not in done.stderr
    assert "not_ready" not in manifest(folder)
    (capture,) = read(folder).captures
    (row,) = capture.analysis.connections.rows()
    assert (row["syn_seen"], row["handshake_seen"], row["close"]) == (True, True, Close.FIN_BOTH_WAYS)
    assert capture.analysis.directions["unique_bytes"].tolist() == [SENT_BYTES, 0]
    assert capture.analysis.ends(1).destination == "10.9.0.2:9000"


@pytest.mark.root
def test_traffic_of_a_rehearsal_is_recorded_from_its_syn_to_its_last_fin(tmp_path: Path) -> None:
    names = ("tcpdump", "modem", "gps")
    wanted = [word for name in names for word in ("--with", name)]
    first = 'ip link set lo up && exec "$@"'
    argv = command(tmp_path / "drive", "--rehearse", "--duration", "1", "--ready", PATIENCE_S, *wanted)
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c", first, "sh", *argv],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    parts = read(tmp_path / "drive").captures
    assert [capture.point.name for capture in parts] == ["mobile", "fixed"]
    for capture in parts:
        (row,) = capture.analysis.connections.rows()
        assert (row["syn_seen"], row["handshake_seen"], row["close"]) == (True, True, Close.FIN_BOTH_WAYS)


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [
        ("exit 0", 0, "the command finished (status 0)"),
        ("exit 3", 3, "the command finished (status 3)"),
        ("kill -9 $$", 137, "the command was killed by signal 9 (Killed)"),
        ("kill -15 $$", 143, "the command was killed by signal 15 (Terminated)"),
    ],
)
def test_exit_status_is_that_of_the_command(script: str, status: int, words: str, tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    done = recorded(folder, "--with", "tcp_info", "--tail", 0, "--", "sh", "-c", script)
    assert done.returncode == status, done.stderr
    assert done.stdout == f"{folder}: recorded; {words}\n"
    assert manifest(folder)["ended_by"] == words
    assert {run["outcome"] for run in manifest(folder)["collectors"]} == {"ended"}


def test_command_whose_time_is_over_is_ended_and_its_status_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    done = recorded(folder, "--with", "tcp_info", "--duration", 0.5, "--tail", 0, "--", "sleep", PATIENCE_S)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert manifest(folder)["ended_by"] == "duration"


@pytest.mark.root
def test_recording_that_failed_exits_with_1_whatever_the_command_did(tmp_path: Path) -> None:
    done = recorded(tmp_path / "drive", "--with", "tcpdump", "-i", "nosuch0", "--", "sh", "-c", "exit 3")
    assert done.returncode == 1
    assert "tcpdump stopped: nosuch0: No such device" in done.stderr


def test_recording_goes_on_for_its_tail_when_the_command_has_ended(tmp_path: Path) -> None:
    folder, ended = tmp_path / "drive", tmp_path / "ended"
    done = recorded(folder, "--with", "tcp_info", "--tail", 2, "--", "touch", ended)
    assert done.returncode == 0, done.stderr
    coarse_ns = 100_000_000
    assert manifest(folder)["ended_ns"] - ended.stat().st_mtime_ns >= 2_000_000_000 - coarse_ns


def test_command_that_is_not_to_wait_starts_before_anything_is_ready(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    done = recorded(folder, "--with", "tcp_info", "--with", "host_clock", "--ready", 0, "--", "true")
    assert done.returncode == 0, done.stderr
    assert manifest(folder)["not_ready"] == ["tcp_info", "host_clock"]
    assert re.search(
        r"^Warning: tcp_info, host_clock: these collectors are not ready after .* s; COMMAND starts", done.stderr, re.M
    )


@pytest.fixture
def with_silent(tmp_path: Path) -> dict[str, str]:
    """Return an environment with another package's collector that never says that it is ready."""
    points = "[multitracer.collectors]\nsilent = silent_collector\n"
    return install(tmp_path / "site", "silent", points, {"silent_collector": SILENT})


def test_silent_collector_of_another_package_is_named_and_blocks_nothing(
    with_silent: dict[str, str], tmp_path: Path
) -> None:
    folder, began = tmp_path / "drive", tmp_path / "began"
    before_ns = time.time_ns()
    done = recorded(
        folder, "--with", "silent", "--with", "host_clock", "--ready", 3, "--", "touch", began,
        env=with_silent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert began.stat().st_mtime_ns - before_ns >= 2_900_000_000
    assert re.search(
        r"^Warning: silent.*: these collectors are not ready after .* s; COMMAND starts", done.stderr, re.M
    )
    assert "silent" in manifest(folder)["not_ready"]
    outcomes = {run["name"]: run["outcome"] for run in manifest(folder)["collectors"]}
    assert outcomes == {"silent": "ended", "host_clock": "ended"}


def test_ctrl_c_while_the_collectors_are_awaited_starts_no_command(with_silent: dict[str, str], tmp_path: Path) -> None:
    folder, began = tmp_path / "drive", tmp_path / "began"
    argv = command(folder, "--with", "silent", "--ready", PATIENCE_S, "--", "touch", began)
    child = subprocess.Popen(argv, env=with_silent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: child.poll() is not None or (folder / "mobile" / "silent-0.csv").exists())
        status, out, said = end(child, signal.SIGINT)
    finally:
        child.kill()
        child.communicate()
    assert status == 128 + signal.SIGINT, said
    assert "recorded; stopped by SIGINT" in out
    assert not began.exists()


@pytest.mark.root
def test_collector_that_dies_at_the_start_is_named_with_its_reason_and_not_awaited(tmp_path: Path) -> None:
    folder, began = tmp_path / "drive", tmp_path / "began"
    options = ("--with", "tcpdump", "--with", "tcp_info", "-i", "nosuch0", "--ready", PATIENCE_S)
    before = time.monotonic()
    recorded(folder, *options, "--", "touch", began)
    assert began.exists()
    assert time.monotonic() - before < PATIENCE_S, "it did not wait for its restarts"
    document = manifest(folder)
    assert "tcpdump" in document["not_ready"]
    assert "tcp_info" not in document["not_ready"]


def test_collector_alone_has_nobody_to_tell_and_records(tmp_path: Path) -> None:
    log = tmp_path / "clocks.jsonl"
    argv = [sys.executable, "-m", "collectors.host_clock", "-o", str(log), "--duration", "0.5"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert log.read_text()
