"""`capture --rehearse`: with privileges TCP crosses a link that follows the radio; without, it says so."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from collectors.tcp_probe import tracefs
from multitracer.errors import PreflightError
from multitracer.recording.read import read
from tests.recorder.capturing import PATIENCE_S, capturing, command, manifest, until

if TYPE_CHECKING:
    from collections.abc import Iterator

PRIVILEGED = pytest.mark.root
WITHOUT = ("--without", "tcp_probe", "--without", "rlp")
LOOPBACK = "the rehearsal's traffic uses the loopback interface, not the simulated radio link: "


def _captured(argv: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=2 * PATIENCE_S)


@PRIVILEGED
def test_rehearsal_carries_tcp_over_a_link_of_its_own(tmp_path: Path) -> None:
    folder, devices = tmp_path / "drive", Path("/proc/net/dev").read_text().count(":")
    done = _captured(command(folder, "--rehearse", "--seed", 3, "--duration", 6, *WITHOUT))
    assert done.returncode == 0, done.stderr
    assert LOOPBACK not in done.stderr
    recording = read(folder)
    assert [capture.point.name for capture in recording.captures] == ["mobile", "fixed"]
    for capture in recording.captures:
        (row,) = capture.analysis.connections.rows()
        assert capture.analysis.ends(1).destination == "10.77.0.1:5001"
        assert row["handshake_seen"]
    truth = json.loads((folder / "truth" / "drive.json").read_text())
    assert (truth["seed"], truth["events"]) == (3, [])
    document = manifest(folder)
    assert (document["rehearsed_seed"], document["rehearsed_from_ns"]) == (3, truth["began_ns"])
    checked = {log["path"] for log in manifest(folder)["files"]}
    assert checked >= {"truth/drive.json", "fixed/tcp-0.pcap", "mobile/tcp-0.pcap", "mobile/gps-0.jsonl"}
    assert Path("/proc/net/dev").read_text().count(":") == devices, "this machine's network is as it was"


@PRIVILEGED
def test_payload_arrives_as_fast_as_the_map_says(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    assert _captured(command(folder, "--rehearse", "--seed", 0, "--duration", 10, *WITHOUT)).returncode == 0
    mobile, _ = read(folder).captures
    segments = mobile.tables.segments
    took_s = (segments["time_ns"].max() - segments["time_ns"].min()) / 1e9
    rate_bps = segments["payload_bytes"].sum() * 8 / took_s
    assert 50_000 < rate_bps < 300_000, "between the lowest and the highest class of the drive"


@PRIVILEGED
@pytest.mark.realtime
@pytest.mark.parametrize("load", [0, 18])
def test_killed_rehearsal_leaves_nothing_after_five_seconds(load: int, tmp_path: Path) -> None:
    folder, temporary = tmp_path / "drive", tmp_path / "tmp"
    temporary.mkdir()
    before = _tracefs_outside()
    popen = {"env": os.environ | {"TMPDIR": str(temporary)}, "preexec_fn": lambda: os.nice(19)}
    with capturing(folder, "--rehearse", "--seed", 4, "--without", "rlp", **popen) as child:
        until((folder / "fixed" / "tcp-0.pcap").exists)
        until(lambda: _is_downloading(temporary))
        pids = set(_processes_with(temporary))
        instances = {each for each in _trace_instances() if int(each.name.split("-")[1]) in pids}
        assert instances
        with _busy_loops(load):
            child.kill()
            child.communicate()
            until(lambda: not _processes_with(temporary), patience_s=5)
        assert list(temporary.iterdir()) == []
        assert not _trace_instances() & instances
        assert _tracefs_outside() == before
    document = manifest(folder)
    assert (document["rehearsed_seed"], list(document["hosts"])) == (4, ["mobile", "fixed"])
    assert read(folder).inputs.warnings == []


def _processes_with(temporary: Path) -> dict[int, str]:
    """Return the command line of each process that has this temporary folder in its environment."""
    commands = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is a zombie without an environment
            if str(temporary).encode() in (process / "environ").read_bytes():
                commands[int(process.name)] = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return commands


def _is_downloading(temporary: Path) -> bool:
    return any("rehearsal.traffic" in each for each in _processes_with(temporary).values())


def _trace_instances() -> set[Path]:
    """Return the kernel's trace instances of this program; the mount is that of this process alone."""
    with contextlib.suppress(PreflightError):
        return set((tracefs() / "instances").glob("multitracer-*"))
    return set()


def _tracefs_outside() -> list[str]:
    """Return the mounts of tracefs of the process that started the tests, in the machine's mount namespace."""
    return [line for line in Path(f"/proc/{os.getppid()}/mounts").read_text().splitlines() if "tracefs" in line]


@contextlib.contextmanager
def _busy_loops(number: int) -> Iterator[None]:
    """Keep the processors busy during the `with` block, with as low a priority as the recorder has here."""
    loops = [subprocess.Popen(["nice", "-n", "19", "sh", "-c", "while :; do :; done"]) for _ in range(number)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@PRIVILEGED
@pytest.mark.parametrize(
    ("before", "options", "why"),
    [
        (["setpriv", "--bounding-set=-net_admin,-sys_admin"], [], "run as root for the simulated link"),
        ([], ["-i", "lo"], "--interface needs this machine's own network"),
        ([], ["--", "sleep", "1"], "COMMAND needs this machine's own network"),
    ],
)
def test_rehearsal_that_cannot_have_the_link_says_so(
    before: list[str], options: list[str], why: str, tmp_path: Path
) -> None:
    folder = tmp_path / "drive"
    argv = [*before, *command(folder, "--rehearse", "--duration", "2", *WITHOUT, *options)]
    done = _captured(argv)
    assert done.returncode == 0, done.stderr
    (said,) = (line for line in done.stderr.splitlines() if LOOPBACK in line)
    assert said.endswith(why)
    assert not (folder / "truth").exists()


def test_seed_without_a_rehearsal_is_refused(tmp_path: Path) -> None:
    done = _captured(command(tmp_path / "drive", "--seed", "3"))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == ("Error: --seed needs --rehearse; add --rehearse, or omit --seed")
    assert not (tmp_path / "drive").exists()
