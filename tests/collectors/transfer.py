"""A transfer between real kernels, captured at the sender with both TCP collectors beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tests.collectors.running import PATIENCE_S, command, until
from tests.netns import Namespaces, routed_path, stop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SINK = """
import socket, sys
server = socket.create_server(("", int(sys.argv[1])))
print("ready", flush=True)
while True:
    with server.accept()[0] as client:
        while client.recv(1 << 16):
            pass
"""
SOURCE = """
import fcntl, select, socket, struct, sys, termios, time
client = socket.socket()
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[3].encode())
client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
client.connect((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:  # until it is closed
    client.send(b"x" * 8192)
unsent = struct.pack("i", 1)
while struct.unpack("i", fcntl.ioctl(client, termios.TIOCOUTQ, unsent))[0]:  # tcp_probe sees ESTABLISHED only
    time.sleep(0.01)
client.close()
"""
PORT = 20_000 + os.getpid() % 10_000
"""Of this run alone: tcp_probe sees every namespace of the machine."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The logs of one transfer."""

    pcap: Path
    tcp_info: Path
    tcp_probe: Path


def record(folder: Path, *, congestion_control: str, seconds: float, hz: float = 100) -> Recorded:
    """Send from `a` to `b` through a slow router, recorded at `a`; half-way nothing passes for a second."""
    logs = Recorded(folder / "tcp.pcap", folder / "tcp_info.jsonl", folder / "tcp_probe.ftrace")
    with routed_path(rate="4mbit", latency="60ms") as hosts:
        hosts.sysctl("a", tcp_slow_start_after_idle=0)  # a source that waits for a processor is no idle one
        with recorders(hosts, logs, hz=hz), sending(hosts, congestion_control):
            time.sleep(seconds / 2)
            hosts.lose("r", one_in=1)
            time.sleep(1)
            hosts.run("r", "nft", "delete", "table", "ip", "loss")
            time.sleep(seconds / 2 - 1)
    return logs


@contextmanager
def sending(hosts: Namespaces, congestion_control: str) -> Iterator[None]:
    """Send from `a` to `b` while the body runs, however late they are connected; then wait for the rest."""
    sink = hosts.start("b", sys.executable, "-c", SINK, str(PORT), stdout=subprocess.PIPE)
    _ready(sink)
    argument = ("10.0.2.2", str(PORT), congestion_control)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    source = hosts.start("a", sys.executable, "-c", SOURCE, *argument, **pipes)
    assert source.stdin is not None
    with source.stdin:
        _ready(source)
        yield
    assert source.wait(PATIENCE_S) == 0


def _ready(child: subprocess.Popen[str]) -> None:
    assert child.stdout is not None
    with child.stdout:
        assert child.stdout.readline() == "ready\n"


def _has_begun(log: Path) -> bool:
    return log.exists() and b'"clock"' in log.read_bytes()


@contextmanager
def recorders(hosts: Namespaces, logs: Recorded, *, hz: float) -> Iterator[None]:
    """Capture and poll within host `a` and trace the kernel while the body runs."""
    options = ("--port", PORT)
    argvs = [
        hosts.command("a", *tcpdump(logs.pcap)),
        hosts.command("a", *command("tcp_info", "-o", logs.tcp_info, "--hz", hz, *options)),
        command("tcp_probe", "-o", logs.tcp_probe, "--address", "10.0.1.1", *options),
    ]
    with ExitStack() as stack:
        for argv in argvs:
            stack.callback(stop, subprocess.Popen(argv, text=True, stderr=subprocess.DEVNULL))
        until(lambda: logs.pcap.exists() and logs.pcap.stat().st_size)
        for log in (logs.tcp_info, logs.tcp_probe):
            until(partial(_has_begun, log))
        yield


def tcpdump(path: Path) -> list[str]:
    """Return the command that captures headers, to the nanosecond, packet by packet."""
    options = [
        "-i",
        "to-r",
        "-s",
        "96",
        "-U",
        "--immediate-mode",
        "--time-stamp-precision",
        "nano",
        "-Z",
        "root",
        "tcp",
    ]
    return ["tcpdump", "-Z", "root", *options, "-w", str(path)]
