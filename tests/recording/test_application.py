"""What iperf3 counted of its streams beside what a capture of the same run holds."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from multitracer.recording.application import counted_streams
from multitracer.recording.read import read
from tests.cli.program import call
from tests.parsers.test_iperf3 import SAMPLE, free_port

if TYPE_CHECKING:
    from pathlib import Path

_COOKIE = 37
"""Bytes by which a stream of iperf3 names itself first (iperf_api.h: COOKIE_SIZE)."""
PROGRAMS = [shutil.which(name) for name in ("iperf3", "tcpdump")]


def until(path: Path, size: int) -> None:
    for _ in range(400):
        if path.exists() and path.stat().st_size >= size:
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} was not written")


def captured_test(folder: Path, *options: str) -> None:
    """Leave a capture of a test of iperf3 over the loopback in a folder, and what iperf3 says of it."""
    port = str(free_port())
    capture = folder / "lo.pcap"
    tcpdump = subprocess.Popen(
        ["tcpdump", "-i", "lo", "-s", "100", "-B", "16384", "-U", "-w", capture, f"tcp port {port}"],
        stderr=subprocess.DEVNULL,
    )
    server = subprocess.Popen(["iperf3", "-s", "-1", "-p", port], stdout=subprocess.DEVNULL)
    try:
        until(capture, 24)
        command = ["iperf3", "-c", "127.0.0.1", "-p", port, "-t", "1", "-b", "4M", "-P", "2", "--json", *options]
        for _ in range(100):
            done = subprocess.run(command, capture_output=True, check=False)
            if b'"error"' not in done.stdout:
                break
            time.sleep(0.05)
        (folder / "iperf3.json").write_bytes(done.stdout)
        time.sleep(0.5)
    finally:
        tcpdump.send_signal(signal.SIGINT)
        tcpdump.wait()
        server.kill()
        server.wait()


@pytest.mark.root
@pytest.mark.skipif(None in PROGRAMS, reason="iperf3 or tcpdump is not installed")
@pytest.mark.parametrize("options", [(), ("-R",)])
def test_sums_of_iperf3_stand_beside_those_of_the_capture(options: tuple[str, ...], tmp_path: Path) -> None:
    captured_test(tmp_path, *options)
    streams = counted_streams(read(tmp_path))
    assert len(streams) == 2
    told = json.loads((tmp_path / "iperf3.json").read_text())["end"]["streams"]
    assert {each.sender_bytes for each in streams} == {each["sender"]["bytes"] for each in told}
    for each in streams:
        assert each.captured_bytes is not None
        assert each.sender_bytes is not None
        assert each.receiver_bytes is not None
        cookie = 0 if options else _COOKIE  # the client names its streams
        assert each.receiver_bytes + cookie <= each.captured_bytes <= each.sender_bytes + cookie
    for name in ("inspect", "analyze"):
        shown = call(name, str(tmp_path)).stdout
        assert "2 streams of a traffic generator, in bytes" in shown
        assert f"{streams[0].captured_bytes:,}" in shown


def test_stream_without_a_capture_stands_alone(tmp_path: Path) -> None:
    (tmp_path / "iperf3.json").write_bytes(SAMPLE)
    first, second = counted_streams(read(tmp_path))
    assert (first.sender, first.receiver) == ("10.0.0.1:58430", "10.0.0.2:5201")
    assert (second.sender_bytes, second.receiver_bytes, second.captured_bytes) == (2097152, 2000000, None)
    lines = call("inspect", str(tmp_path)).stdout.splitlines()
    assert [line.split()[-3:] for line in lines[-2:]] == [["2,097,152", "2,000,000", "-"]] * 2


def test_session_without_a_load_program_has_no_streams(sample_session: Path) -> None:
    assert counted_streams(read(sample_session)) == []
