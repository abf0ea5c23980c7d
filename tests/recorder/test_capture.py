"""A capture survives what befalls it on a drive: dead collectors, a dead supervisor, a full disk, signals."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shlex
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from multitracer.manifest import Manifest, hand_over, write_manifest
from multitracer.recording.read import read
from tests.recorder.capturing import PATIENCE_S, capturing, command, end, log_began, manifest, processes_of, until

TWO = ("--with", "tcp_info", "--with", "tcp_probe")


def _pid(folder: Path, name: str) -> int:
    """Return the process of a collector."""
    found = [
        pid
        for pid in processes_of(folder)
        if f"collectors.{name}".encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    assert len(found) == 1
    return found[0]


def inspect(folder: Path) -> str:
    argv = [sys.executable, "-m", "multitracer", "inspect", str(folder)]
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout


def _records(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]


@pytest.mark.root
def test_capture_with_all_that_works_here_makes_a_whole_session(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    with (
        capturing(folder, "-i", "lo", "--clap-every", "1", "--label", "location=tunnel") as child,
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()[:2]) as client,
    ):
        client.sendall(b"x" * 1000)
        until(lambda: len(_records(folder / "mobile" / "claps.jsonl")) >= 3)
        status, out, _ = end(child)
    assert status == 0
    assert "recorded; stopped by SIGTERM" in out
    document = manifest(folder)
    assert document["variables"] == {"location": "tunnel"}
    assert {run["outcome"] for run in document["collectors"]} == {"ended"}
    assert {log["path"] for log in document["files"]} >= {
        "mobile/claps.jsonl", "mobile/tcp-0.pcap", "mobile/tcp_state-0.jsonl"
    }  # fmt: skip
    session = read(folder)
    assert [each.point.name for each in session.captures] == ["mobile"]
    assert len(session.captures[0].tables.segments) >= 4
    assert not list(folder.rglob(".reserve"))


@pytest.mark.root
def test_one_tag_is_in_every_log_and_on_the_network(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    with capturing(folder, "-i", "lo", "--clap-every", "1") as child:
        until(lambda: len(_records(folder / "mobile" / "claps.jsonl")) >= 4)
        end(child)
    tag = str(_records(folder / "mobile" / "claps.jsonl")[2]["tag"])
    logs = [path for path in (folder / "mobile").iterdir() if path.suffix in (".jsonl", ".ftrace", ".pcap")]
    assert {path.name for path in logs if tag.encode() in path.read_bytes()} == {
        "claps.jsonl", "tcp-0.pcap", "tcpdump-0.jsonl", "tcpdump-udp-0.jsonl", "tcp_state-0.jsonl",
        "tcp_probe-0.ftrace",
        *(path.name for path in logs if path.name.startswith(("clocks", "radio", "gps"))),
    }  # fmt: skip


@pytest.mark.root
def test_killed_collector_is_started_again_and_the_gap_is_in_the_manifest(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    with capturing(folder, *TWO) as child:
        os.kill(_pid(folder, "tcp_info"), signal.SIGKILL)
        second = folder / "mobile" / "tcp_state-1.jsonl"
        until(lambda: second.exists() and b'"kind":"clock"' in second.read_bytes())
        assert end(child)[0] == 0
    first, again = (run for run in manifest(folder)["collectors"] if run["name"] == "tcp_info")
    assert first["outcome"] == "killed by signal 9 (Killed)"
    assert again["outcome"] == "ended"
    assert again["started_ns"] - first["ended_ns"] >= 400_000_000, "it waits before it starts anew"
    assert "on mobile, killed by signal 9 (Killed), at 20" in inspect(folder)
    names = [Path(log.path).name for log in read(folder).inputs.listed if log.format == "tcp-info"]
    assert names == ["tcp_state-0.jsonl", "tcp_state-1.jsonl"]


@pytest.mark.root
@pytest.mark.parametrize("victims", ["supervisor", "all"])
def test_after_kill_9_nothing_is_left_and_the_session_opens(tmp_path: Path, victims: str) -> None:
    folder = tmp_path / "drive"
    with capturing(folder) as child:
        for pid in processes_of(folder) if victims == "all" else [child.pid]:
            with contextlib.suppress(ProcessLookupError):  # one may end because of the one before
                os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        until(lambda: not processes_of(folder))
        took_s = time.monotonic() - killed
        child.communicate()
    assert took_s < 20, "2 s on a machine with nothing else to do"
    session = read(folder)
    assert session.manifest is not None
    assert [run.outcome for run in session.manifest.collectors] == [None] * len(session.manifest.collectors)
    assert {log.format for log in session.inputs.listed} >= {"tcp-info"}
    assert not list(folder.rglob(".*")), "nobody was left to remove what is no log"
    said = inspect(folder)
    assert said.count("how this collector ended is not recorded; last write to its log at 20") == said.count(
        " on mobile, "
    )
    if victims == "supervisor":
        assert _records(folder / "mobile" / "tcp_state-0.jsonl")[-1]["reason"] == "parent ended"


@pytest.mark.root
def test_tcpdump_does_not_outlive_its_collector(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    with capturing(folder, "--with", "tcpdump", "--filter", "tcp") as child:
        until((folder / "mobile" / "tcp-0.pcap").exists)
        os.kill(_pid(folder, "tcpdump"), signal.SIGKILL)
        until((folder / "mobile" / "tcp-1.pcap").exists)
        until(lambda: not any(b"tcp-0.pcap" in Path(f"/proc/{p}/cmdline").read_bytes() for p in processes_of(folder)))
        end(child)
    assert {path.name for path in (folder / "mobile").glob("tcp-*")} == {"tcp-0.pcap", "tcp-1.pcap"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_signal_ends_in_order(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "drive"
    with capturing(folder, "--with", "tcp_info") as child:
        status, out, _ = end(child, number)
    assert status == 0
    assert f"recorded; stopped by {number.name}" in out
    assert manifest(folder)["ended_by"] == number.name
    assert manifest(folder)["files"]


def test_capture_that_nohup_started_outlives_the_terminal(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    with capturing(folder, "--with", "tcp_info", preexec_fn=_as_nohup_does) as child:
        child.send_signal(signal.SIGHUP)
        status, out, _ = end(child)
    assert (status, "recorded; stopped by SIGTERM" in out) == (0, True)


def _as_nohup_does() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def test_ctrl_c_twice_ends_at_once_and_still_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    with capturing(folder, "--with", "tcp_info") as child:
        child.send_signal(signal.SIGINT)
        status, _, _ = end(child, signal.SIGINT)
    assert status == 0
    assert manifest(folder)["ended_by"] == "SIGINT"
    assert read(folder).inputs.listed


def test_closed_terminal_ends_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    master, terminal = pty.openpty()
    argv = [word for word in command(folder, "--with", "tcp_info") if word != "--plain"]
    child = subprocess.Popen(argv, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
                             preexec_fn=_take_terminal)  # fmt: skip  # noqa: PLW1509  # the tests have one thread
    os.close(terminal)
    try:
        until((folder / "mobile" / "tcp_state-0.jsonl").exists)
        os.close(master)
        until(lambda: child.poll() is not None)
    finally:
        child.kill()
        child.wait()
    assert manifest(folder)["ended_by"] == "SIGHUP"
    assert manifest(folder)["files"]


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_live_view_shows_the_collectors_and_keeps_a_marker(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    master, terminal = pty.openpty()
    argv = [word for word in command(folder, "--with", "tcp_info") if word != "--plain"]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    child = subprocess.Popen(argv, stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    seen = bytearray()
    try:
        until(lambda: b"recording" in _read(master, seen))
        os.write(master, b"mtunnel entrance\n")
        markers = folder / "mobile" / "markers.jsonl"
        until(lambda: _read(master, seen) and markers.exists() and markers.read_text().endswith("\n"))
        os.write(master, b"\x03")
        child.send_signal(signal.SIGINT)
        until(lambda: _read(master, seen) is not None and child.poll() is not None)
    finally:
        child.kill()
        child.wait()
        os.close(master)
    assert b"tcp_info" in seen
    assert _records(markers)[0]["note"] == "tunnel entrance"


def _read(master: int, seen: bytearray) -> bytearray:
    os.set_blocking(master, False)
    with contextlib.suppress(OSError):
        seen += os.read(master, 1 << 16)
    return seen


def test_ends_with_its_command(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    argv = command(folder, "--with", "tcp_info", "--", sys.executable, "-c", "import time; time.sleep(1.5)")
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert manifest(folder)["ended_by"] == "the command finished (status 0)"


def test_ends_after_its_duration(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    argv = command(folder, "--with", "tcp_info", "--duration", "1.5")
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert manifest(folder)["ended_by"] == "duration"


@pytest.mark.root
def test_full_disk_is_warned_of_and_ends_in_an_openable_session(tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", place], check=True)
    try:
        folder = place / "drive"
        with capturing(folder, "--with", "tcp_info") as child:
            _leave(place, 1_200_000)
            time.sleep(2.5)  # it looks once a second
            _leave(place, 250_000)
            out, err = child.communicate(timeout=40)
        assert child.returncode == 0, err
        assert "the disk is nearly full" in err
        assert "recorded; the disk is full" in out
        assert manifest(folder)["files"]
        assert _records(folder / "mobile" / "tcp_state-0.jsonl")[-1]["kind"] == "end"
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.root
def test_disk_without_a_byte_left_still_gets_its_manifest(tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], check=True)
    try:
        folder = place / "drive"
        with capturing(folder, "--with", "tcp_info") as child:
            with contextlib.suppress(OSError), (place / "ballast").open("wb", buffering=0) as ballast:
                while True:
                    ballast.write(bytes(4096))
            assert os.statvfs(place).f_bavail == 0
            out, err = child.communicate(timeout=40)
        assert child.returncode == 0, err
        assert "recorded; the disk is full" in out
        assert manifest(folder)["ended_by"] == "the disk is full"
        assert {log["path"] for log in manifest(folder)["files"]} >= {"mobile/tcp_state-0.jsonl"}
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def _leave(place: Path, free_bytes: int) -> None:
    """Fill a disk until only so much is free."""
    found = os.statvfs(place)
    with (place / "ballast").open("ab") as ballast:
        ballast.write(bytes(max(0, found.f_bavail * found.f_frsize - free_bytes)))


def test_rehearsal_is_a_whole_drive_without_hardware(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    wanted = [word for name in ("modem", "gps", "host_clock", "tcp_info") for word in ("--with", name)]
    with capturing(folder, "--rehearse", *wanted) as child:
        until(lambda: b'"shown":[{' in (folder / "mobile" / "radio-0.jsonl").read_bytes())
        until(lambda: b"lat_deg" in (folder / "mobile" / "gps-0.jsonl").read_bytes())
        status, _, _ = end(child)
    assert status == 0
    session = read(folder)
    radio = next(tables["radio"] for _, tables in session.logs("radio"))
    position = next(tables["position"] for _, tables in session.logs("position"))
    assert radio["rssi_dbm"][0] < -30
    assert position["lat_deg"][0] == pytest.approx(40, abs=1)


def test_next_rehearsal_removes_what_a_killed_one_left_and_nothing_else(tmp_path: Path) -> None:
    places = tmp_path / "places"
    places.mkdir()
    foreign = places / "multitracer-rehearsal-foreign"
    foreign.mkdir()
    (foreign / "letter").write_text("not ours")
    environment = os.environ | {"TMPDIR": str(places)}
    options = ("--rehearse", "--with", "modem")

    def folders() -> set[Path]:
        return set(places.iterdir()) - {foreign}

    with capturing(tmp_path / "killed", *options, env=environment) as child:
        (left,) = folders()
        killed = {child.pid, *processes_of(left)}
        for number in (signal.SIGSTOP, signal.SIGKILL):  # else one tidies up when it sees that another is gone
            for pid in killed:
                os.kill(pid, number)
        child.communicate()
    assert {path.name for path in left.iterdir()} == {"gps", "modem"}, "nobody was left to tidy up"
    with (
        capturing(tmp_path / "first", *options, env=environment) as first,
        capturing(tmp_path / "second", *options, env=environment) as second,
    ):
        assert len(folders() - {left}) == 2, "that of the living stays"
        assert not left.exists()
        end(first)
        end(second)
    assert not folders()
    assert (foreign / "letter").exists()


@pytest.mark.root
def test_a_recording_as_root_is_private_and_belongs_to_who_called_sudo(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    folder, made = tmp_path / "drive", tmp_path / "made"
    sudo = os.environ | {"SUDO_UID": "4321", "SUDO_GID": "8765"}
    shell = f"umask 022; exec {shlex.join(command(folder, '-i', 'lo', '--', 'sh', '-c', f'touch {made}; sleep 60'))}"
    child = subprocess.Popen(
        ["sh", "-c", shell], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=sudo
    )
    try:
        until(lambda: made.exists() and all(log_began(folder)))
        until(lambda: _owners(folder) == {(4321, 8765)}, patience_s=5)  # also of a recording that is killed later
        assert _modes(folder) == {0o700, 0o600}
        child.terminate()
        child.wait(PATIENCE_S)
    finally:
        child.kill()
        child.wait()
    assert _owners(folder) == {(4321, 8765)}
    assert {path.name for path in folder.rglob("*")} >= {"tcp-0.pcap", "manifest.json", "claps.jsonl"}
    assert stat.S_IMODE(made.stat().st_mode) == 0o644, "COMMAND is no part of the recording"


def _owners(folder: Path) -> set[tuple[int, int]]:
    return {(path.stat().st_uid, path.stat().st_gid) for path in (folder, *folder.rglob("*"))}


def _modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}


@pytest.mark.root
def test_nothing_outside_the_recording_is_given_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, precious = tmp_path / "drive", tmp_path / "precious"
    folder.mkdir()
    precious.write_text("root's")
    (folder / "hard").hardlink_to(precious)
    (folder / "soft").symlink_to(precious)
    (folder / "away").symlink_to(tmp_path)
    (folder / "log").touch()
    os.mkfifo(folder / "pipe")
    monkeypatch.setenv("SUDO_UID", "4321")
    monkeypatch.setenv("SUDO_GID", "8765")
    hand_over(folder)
    assert (folder.stat().st_uid, (folder / "log").stat().st_uid) == (4321, 4321)
    assert (tmp_path.stat().st_uid, precious.stat().st_uid) == (0, 0)


@pytest.mark.root
def test_a_collector_as_root_writes_a_private_log_of_who_called_sudo(tmp_path: Path) -> None:
    log = tmp_path / "clocks.jsonl"
    argv = [sys.executable, "-m", "collectors.host_clock", "-o", str(log), "--duration", "0.2"]
    sudo = os.environ | {"SUDO_UID": "4321", "SUDO_GID": "8765"}
    subprocess.run(argv, check=True, env=sudo, stdin=subprocess.DEVNULL)
    status = log.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (0o600, 4321, 8765)


def test_the_manifest_follows_no_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "manifest.json.tmp").symlink_to(precious)
    write_manifest(tmp_path, Manifest("drive"))
    assert precious.read_text() == "mine"
    assert manifest(tmp_path)["name"] == "drive"
