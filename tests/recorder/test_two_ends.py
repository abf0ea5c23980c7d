"""Two captures at two hosts, joined by a cable, become one session whose clocks align."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.cli.program import call
from tests.netns import namespaces
from tests.recorder.capturing import command, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.netns import Namespaces

ENDS = {"mobile": "10.78.0.2", "fixed": "10.78.0.1"}
"""Each end, and where it sends its claps: the other one's address."""
_SEND = """
import socket, sys, time
with socket.create_connection((sys.argv[1], 5001)) as client:
    for _ in range(60):
        client.sendall(bytes(2000))
        time.sleep(0.05)
"""
_TAKE = """
import socket
with socket.create_server(("", 5001)) as server:
    print("listens", flush=True)
    taken, _ = server.accept()
    while taken.recv(65536):
        pass
    taken.close()
"""


@contextmanager
def _captures(hosts: Namespaces, folder: Path) -> Iterator[None]:
    """Capture at both ends beside the body, until five claps are in the log of each."""
    children = []
    for role, other in ENDS.items():
        options = ("--role", role, "--clap", f"{other}:9009", "--clap-every", "0.5",
                   "--with", "tcpdump", "--with", "host_clock")  # fmt: skip
        argv = command(folder / f"{role}-drive", *options)
        children.append(hosts.start(role, *argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    packets = [folder / f"{role}-drive" / role / "tcp-0.pcap" for role in ENDS]
    until(lambda: all(path.exists() and path.stat().st_size for path in packets))
    yield
    until(lambda: all(path.read_bytes().count(b"MultiTracer clap ") >= 10 for path in packets))
    for child in children:
        child.terminate()
    for child in children:
        assert child.wait(30) == 0


@pytest.mark.root
def test_captures_of_two_hosts_are_merged_and_their_clocks_aligned(tmp_path: Path) -> None:
    with namespaces(*ENDS) as hosts:
        hosts.join("mobile", "fixed", network="10.78.0")
        with _captures(hosts, tmp_path):
            server = hosts.start("fixed", sys.executable, "-c", _TAKE, stdout=subprocess.PIPE)
            assert server.stdout is not None
            assert server.stdout.readline()
            hosts.run("mobile", sys.executable, "-c", _SEND, ENDS["mobile"])
            assert server.wait(30) == 0
            server.stdout.close()
    call("merge", tmp_path / "mobile-drive", tmp_path / "fixed-drive", "-o", tmp_path / "drive")
    found = json.loads(call("align", "--json", tmp_path / "drive").stdout)
    between = {
        edge["method"]: edge
        for edge in found["edges"]
        if {edge["from"].partition(":")[0], edge["to"].partition(":")[0]} == {"mobile", "fixed"}
    }
    assert set(between) == {"clapperboard", "two captures"}
    for edge in between.values():
        assert abs(edge["offset_ns"]) <= edge["uncertainty_ns"], "the two hosts share one clock"
