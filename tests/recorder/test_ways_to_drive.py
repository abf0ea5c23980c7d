"""The pages on ways to drive: their commands run as they stand there, with a fake device in place of the real one."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

import multitracer as mt
import parsers
from tests.cli.program import COMMAND, ENVIRONMENT
from tests.collectors.rehearsal import device
from tests.conftest import ROOT
from tests.netns import namespaces
from tests.recorder.capturing import command as capture_command
from tests.recorder.capturing import processes_of, until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.collectors.test_remote import Router

pytestmark = [pytest.mark.realtime, pytest.mark.root]

PAGES = ROOT / "docs" / "drives"
_FENCE = re.compile(r"^```sh drive ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TRAFFIC = """
import pathlib, socket, sys, time
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
taken, _ = server.accept()
end = time.monotonic() + 60
while time.monotonic() < end and not all(any(pathlib.Path().glob(f"drive/**/{log}")) for log in sys.argv[1:]):
    time.sleep(0.1)
for _ in range(30):
    taken.sendall(bytes(20_000))
    client.recv(20_000, socket.MSG_WAITALL)
    time.sleep(0.1)
"""
_TAKE = """
import socket
with socket.create_server(("", 5001)) as server:
    taken, _ = server.accept()
with taken:
    while taken.recv(65_536):
        pass
"""
_SEND = """
import socket, time
for _ in range(300):
    try:
        client = socket.create_connection(("10.78.0.2", 5001))
        break
    except OSError:
        time.sleep(0.1)
with client:
    for _ in range(30):
        client.sendall(bytes(3_000))
        time.sleep(0.1)
"""


def blocks(page: str) -> list[tuple[str, list[list[str]]]]:
    """Return the commands of a page's fences, each with the host that runs it."""
    text = (PAGES / page).read_text("utf-8")
    return [(host, [shlex.split(line) for line in lines.splitlines()]) for host, lines in _FENCE.findall(text)]


def run(words: list[str], folder: Path, environment: Mapping[str, str] | None = None, *more: str) -> str:
    assert words[0] == "multitracer"
    done = subprocess.run(
        [*COMMAND, *words[1:], *more], cwd=folder, env={**ENVIRONMENT, **(environment or {})},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def drive(page: str, folder: Path, fakes: Mapping[str, str], *logs: str, **environment: str) -> mt.Session:
    """Drive as a page says, with traffic over the loopback once each log is there; read it as the page says."""
    (_, (record,)), *reading = blocks(page)
    words = [{"wwan0": "lo", "eth0": "lo", "usb0": "lo", **fakes}.get(word, word) for word in record]
    assert set(fakes) <= set(record), "the page names other devices"
    traffic = ("--plain", "--ready", "20", "--", sys.executable, "-c", _TRAFFIC, *logs)
    run(words, folder, environment, *traffic)
    for _, commands in reading:
        for command in commands:
            run(command, folder)
    assert (folder / "drive.html").stat().st_size > 100_000
    return mt.open(folder / "drive")


def _is_within(session: mt.Session, ahead_ns: int) -> bool:
    """Whether the other clock is ahead by so much, within the stated error."""
    edges = session.align().edges
    found = edges[edges["method"] == "remote clock between two readings"]
    assert len(found) == 1
    return bool(((found["offset_ns"] + ahead_ns).abs() <= found["uncertainty_ns"]).all())


def test_a_laptop_with_a_modem(tmp_path: Path) -> None:
    ports = {"/dev/ttyUSB2": str(tmp_path / "modem"), "/dev/ttyACM0": str(tmp_path / "gps")}
    with device("modem", tmp_path / "modem", "--profile", "quectel"), device("gps", tmp_path / "gps"):
        session = drive("modem.md", tmp_path, ports, "radio-0.jsonl", "gps-0.jsonl")
    assert session.radio["rsrp_dbm"].notna().any()
    assert session.position["lat_deg"].notna().any()


@pytest.mark.skipif(shutil.which("adb") is None, reason="needs adb")
def test_a_phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.collectors import test_android

    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(20_000 + os.getpid() % 12_000))
    monkeypatch.setenv("HOME", str(tmp_path))
    test_android.adb("start-server")
    names = {name: os.environ[name] for name in ("ANDROID_ADB_SERVER_PORT", "HOME")}
    try:
        with test_android.plugged(test_android.Tools(tmp_path / "tools")):
            session = drive("phone.md", tmp_path, {}, "android-0.jsonl", **names)
    finally:
        test_android.adb("kill-server")
    assert -65.0 in session.radio["rsrp_dbm"].tolist()
    assert _is_within(session, test_android.CLOCK_AHEAD_NS)


def test_a_router(tmp_path: Path) -> None:
    from tests.collectors.test_remote import AHEAD_NS, Router

    home = tmp_path / "router"
    (home / "bin").mkdir(mode=0o700, parents=True)
    router = Router(home)
    (home / "bin" / "ssh").symlink_to(router.ssh)
    router.plug()
    try:
        fakes = {"root@192.168.1.1": "root@127.0.0.1:openwrt"}
        session = drive("router.md", tmp_path, fakes, "remote-0.jsonl", PATH=f"{home}/bin:{os.environ['PATH']}")
    finally:
        router.unplug()
    assert set(session.radio["rsrp_dbm"].dropna()) == {-93.0}
    assert _is_within(session, AHEAD_NS)


def test_a_dish(tmp_path: Path) -> None:
    pytest.importorskip("starlink_grpc", reason="the extra starlink is not installed")
    pytest.importorskip("grpc_reflection", reason="grpcio-reflection is not installed")
    from tests.collectors.dish import FakeDish

    dish = FakeDish()
    dish.samples = [(30.0, 0.0, 5e7, 3e6)] * 20
    try:
        session = drive("dish.md", tmp_path, {"any": f"127.0.0.1:{dish.port}"}, "starlink-0.jsonl")
    finally:
        dish.stop()
    assert session.table("radio", "dish")["downlink_bps"].dropna().unique().tolist() == [5e7]


@contextmanager
def phone_router_and_dish(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Router, list[str]]]:
    """The three plugged in, with the options of `capture` that record them; a program on the router waits."""
    from tests.collectors import test_android
    from tests.collectors.dish import FakeDish
    from tests.collectors.test_remote import FOLLOWED, Router

    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(20_000 + os.getpid() % 12_000))
    monkeypatch.setenv("HOME", str(folder))
    home = folder / "router"
    (home / "bin").mkdir(mode=0o700, parents=True)
    router, dish = Router(home), FakeDish()
    (home / "logread").write_text(f"#!/bin/sh\n{FOLLOWED}\n".replace("{folder}", str(home)))
    (home / "bin" / "ssh").symlink_to(router.ssh)
    monkeypatch.setenv("PATH", f"{home}/bin:{os.environ['PATH']}")
    dish.samples = [(30.0, 0.0, 5e7, 3e6)] * 20
    router.plug()
    test_android.adb("start-server")
    try:
        with test_android.plugged(test_android.Tools(folder / "tools")) as phone:
            yield router, ["--phone", phone.serial, "--remote", "root@127.0.0.1:openwrt",
                           "--starlink", f"127.0.0.1:{dish.port}"]  # fmt: skip
    finally:
        test_android.adb("kill-server")
        router.unplug()
        dish.stop()


@pytest.mark.skipif(shutil.which("adb") is None, reason="needs adb")
def test_kill_9_of_all_loses_nothing_of_phone_router_and_dish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every record that was written is read; nothing of the recording lives on, neither here nor on the router."""
    pytest.importorskip("starlink_grpc", reason="the extra starlink is not installed")
    pytest.importorskip("grpc_reflection", reason="grpcio-reflection is not installed")
    from tests.collectors.test_remote import followed

    folder = tmp_path / "drive"
    logs = [folder / "mobile" / f"{name}-0.jsonl" for name in ("android", "remote", "starlink")]
    only = [word for log in logs for word in ("--with", log.stem.removesuffix("-0"))]
    with (
        phone_router_and_dish(tmp_path, monkeypatch) as (router, options),
        subprocess.Popen(capture_command(folder, *only, *options), stderr=subprocess.DEVNULL) as child,
    ):
        until(lambda: all(log.exists() and log.read_bytes().count(b'"kind":"clock"') > 3 for log in logs))
        values = (b"rsrp=-65", b"-93", b'"kind":"history"')  # a clock record does not imply that there was an answer
        until(lambda: all(value in log.read_bytes() for log, value in zip(logs, values, strict=True)))
        waiting = followed(router)
        for pid in processes_of(folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        child.wait(90)
        until(lambda: not processes_of(folder))
        until(lambda: not waiting.exists())
    for log in logs:
        _, tables = parsers.read(log)
        assert isinstance(tables, dict)
        assert {(str(each.provenance["damaged"]), len(each.provenance["skipped"])) for each in tables.values()} == {
            ("None", 0)
        }
    session = mt.open(folder)
    assert {-65.0, -93.0} <= set(session.radio["rsrp_dbm"].tolist())
    assert 5e7 in session.table("radio", "dish")["downlink_bps"].tolist()


def test_two_cars(tmp_path: Path) -> None:
    first, second, after = blocks("two_cars.md")
    with namespaces("mobile", "fixed") as hosts:
        hosts.join("mobile", "fixed", network="10.78.0")
        children = []
        for (host, (words,)), other, body in ((second, "mobile", _TAKE), (first, "fixed", _SEND)):
            options = [{"wwan0": f"to-{other}", "eth0": f"to-{other}"}.get(word, word) for word in words[1:]]
            argv = [*COMMAND, *options, "--plain", "--clap-every", "1", "--", sys.executable, "-c", body]
            children.append(hosts.start(host, *argv, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE))
        for child in reversed(children):
            child.communicate(timeout=90)
            assert child.returncode == 0
    for command in after[1]:
        run(command, tmp_path)
    session = mt.open(tmp_path / "drive")
    assert set(session.connections["host"]) == {"mobile", "fixed"}
    assert "clapperboard" in set(session.align().edges["method"])
