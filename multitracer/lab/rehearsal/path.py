"""The path of a rehearsal with privileges: `python -m multitracer.lab.rehearsal.path --seed N --began NS`.

The phone is the network namespace in which this program is started; the program makes one for the server. The link of
`relay.py` connects their TUN devices. The server, and with `--fixed FOLDER` collectors at its end, are children of this
program; the namespaces have no names, so nothing remains when the processes have ended. Standard output has JSON
objects, one per line: first that the path is ready, then each packet that the link drops.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from collectors._options import parser, run
from collectors._stop import PARENT_ENDED, Stop
from multitracer.errors import CollectorError
from multitracer.lab.rehearsal._terminal import say_back
from multitracer.lab.rehearsal.idle import IdleGate
from multitracer.lab.rehearsal.journey import Journey
from multitracer.lab.rehearsal.relay import Relay, RelayQueue, open_tun, rate_bps
from multitracer.lab.rehearsal.server import ADDRESS, PORT

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from multitracer.schemas.schema import Document

PHONE = "10.77.0.2"
_DEVICES = {"wwan0": (PHONE, ADDRESS), "core0": (ADDRESS, PHONE)}
_SETTINGS = {"tcp_no_metrics_save": 1, "tcp_sack": 1, "tcp_timestamps": 1, "tcp_ecn": 0}
_CLONE_NEWNET = 0x4000_0000
_QUEUE_PACKETS = 10_000
"""Queue length of a TUN device, so long that it never drops: only the link may drop packets."""
_PATIENCE_S, _HASTE_S = 10.0, 2.0
"""Time in s for a child to end in order, and after the end of the recorder, when nothing may live on for long."""


def main(argv: Sequence[str]) -> None:
    """Set up both namespaces and relay packets between them until stopped."""
    chosen = _options(argv)
    with (
        Stop(duration_ns=chosen.duration, outlive_parent=chosen.outlive_parent, tags=chosen.tags) as stop,
        ExitStack() as ending,
    ):
        phone = _device("wwan0")
        _new_namespace()
        core = _device("core0")
        children = _children(chosen)
        ending.callback(lambda: _stop_all(children, _HASTE_S if stop.reason == PARENT_ENDED else _PATIENCE_S))
        journey = Journey(chosen.seed)
        rate = partial(rate_bps, journey)
        gate = IdleGate(chosen.seed, partial(_state, chosen)) if chosen.idle else None
        ways = {phone: RelayQueue(rate, gate), core: RelayQueue(rate, gate)}
        say_back(ready=PHONE)
        Relay(
            ways, partial(_wait, stop, gate, chosen.began),
            lambda fd, why, packet: _tell(fd == phone, why, packet),
            zero_ns=chosen.began,
        ).run()  # fmt: skip


def _options(argv: Sequence[str]) -> argparse.Namespace:
    options = parser(__doc__, traffic=False)
    options.add_argument("--seed", type=int, required=True, help="random seed of the drive")
    options.add_argument("--began", type=int, required=True, help="start of the drive, CLOCK_MONOTONIC in ns")
    options.add_argument("--requests", action="store_true", help="the server answers requests")
    options.add_argument("--idle", action="store_true", help="the phone becomes idle, and packets wait for promotions")
    options.add_argument("--modem", type=Path, metavar="PIPE", help="with --idle: where the modem reads its state")
    options.add_argument("--fixed", type=Path, metavar="FOLDER", help="folder for the logs of the server side")
    return options.parse_args(argv)


def _wait(stop: Stop, gate: IdleGate | None, began_ns: int, due_ns: int, readable: list[int]) -> bool:
    """Wait for packets, for those in transit, or for the next state of the phone; return False to end."""
    if gate is not None and gate.next_ns is not None:
        due_ns = min(due_ns, began_ns + gate.next_ns)
    goes_on = stop.wait(due_ns, readable=readable)
    if gate is not None:
        gate.tick(time.monotonic_ns() - began_ns)
    return goes_on


def _state(chosen: argparse.Namespace, event: Document) -> None:
    """Write a change of the phone's state for the judge, and say it to the modem."""
    offset_ns = time.time_ns() - time.monotonic_ns() + chosen.began
    say_back(**{name: value + offset_ns if isinstance(value, int) else value for name, value in event.items()})
    if chosen.modem is None:
        return
    is_connected = event["rrc"] == "connected"
    lines: list[Document] = [{"set": {"connection": "CONNECT" if is_connected else "NOCONN"}}]
    lines.append({"do": "say", "text": f"+CSCON: {int(is_connected)}"})
    with contextlib.suppress(OSError):  # the modem has ended
        pipe = os.open(chosen.modem, os.O_WRONLY | os.O_NONBLOCK)
        os.write(pipe, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        os.close(pipe)


def _device(name: str) -> int:
    """Make a TUN device in this process's namespace, set its address, and clear TCP's metrics cache."""
    descriptor = open_tun(name)
    here, there = _DEVICES[name]
    _ip("link", "set", "lo", "up")
    _ip("address", "add", here, "peer", there, "dev", name)
    # One packet at a time, as on the air; and a ring that never drops behind the capture's back.
    _ip("link", "set", name, "gso_max_segs", "1", "txqueuelen", str(_QUEUE_PACKETS), "up")
    for setting, value in _SETTINGS.items():
        Path("/proc/sys/net/ipv4", setting).write_text(f"{value}\n")
    return descriptor


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    if done.returncode:
        raise CollectorError(f"the command `ip {' '.join(words)}` failed: {done.stderr.strip()}")


def _new_namespace() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        raise CollectorError(f"cannot create a network namespace: {os.strerror(ctypes.get_errno())}; run as root")


def _children(chosen: argparse.Namespace) -> list[subprocess.Popen[bytes]]:
    """Start the server and the collectors beside it; return their processes once the server is ready."""
    drive = ("--seed", str(chosen.seed), "--began", str(chosen.began), *(("--requests",) if chosen.requests else ()))
    server = _started("multitracer.lab.rehearsal.server", *drive, stdout=subprocess.PIPE)
    children = [server]
    if chosen.fixed is not None:
        folder = str(chosen.fixed)
        notes = ("--notes", f"{folder}/tcpdump-0.jsonl")
        children += [
            _started("collectors.tcpdump", "-o", f"{folder}/tcp-0.pcap", *notes),
            _started("collectors.tcp_info", "-o", f"{folder}/tcp_state-0.jsonl", "--hz", "2"),
            _started("collectors.host_clock", "-o", f"{folder}/clocks-0.jsonl", "--host", "fixed"),
        ]
    assert server.stdout is not None
    if not server.stdout.readline():
        _stop_all(children, _PATIENCE_S)
        raise CollectorError(
            f"the server of the rehearsal cannot listen on {ADDRESS}:{PORT}; end the program that uses this port"
        )
    return children


def _started(module: str, *options: str, stdout: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """Start a program that ends at the end of its standard input, which this process holds."""
    command = [sys.executable, "-m", module, "--tags", *options]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stdout, stderr=subprocess.DEVNULL)


def _stop_all(children: Sequence[subprocess.Popen[bytes]], patience_s: float) -> None:
    for child in children:
        child.terminate()
    for child in children:
        try:
            child.wait(patience_s)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _tell(is_phone: bool, why: str, packet: bytes) -> None:
    say_back(
        entered_realtime_ns=time.time_ns(),
        direction="uplink" if is_phone else "downlink",
        dropped=why,
        bytes=len(packet),
        ip_id=int.from_bytes(packet[4:6]),
    )


if __name__ == "__main__":
    run(main)
