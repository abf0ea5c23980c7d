"""Records the bundled drive with transactions: `python -m sample_traces.recording.measured_drive FOLDER` (root, Linux).

On a rehearsed drive (`multitracer/lab/rehearsal`) TCP and CentaurusComm do transactions in turn with a server behind
a link whose rate and outages follow the radio. `multitracer capture` records both endpoints, the phone's with a modem
and a GPS receiver on pseudo-terminals; each block of transactions is a `multitracer measure run` within it. The two
recordings are merged, and what the name of a machine tells is left out. `truth/drive.json` has the planted events.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.lab.rehearsal.path import PHONE
from multitracer.lab.rehearsal.server import ADDRESS
from multitracer.lab.rehearsal.session import RehearsedDrive, own_network, stop
from sample_traces.recording.rehearsed_drive import finish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEED = 108
"""A drive with a coverage hole, a handover, a loaded cell and interference in its first two minutes."""
BLOCKS = 3
PLAN = ("--vary", "reply", "--sizes", "1024,16384", "--sessions", 12, "--timeout", 20)
"""Transactions of a block."""
PORTS = {"tcp": 5100, "centauruscomm": 5101}
MULTITRACER = [sys.executable, "-m", "multitracer"]
FILTER = f"tcp port {PORTS['tcp']} or udp port {PORTS['centauruscomm']} or udp port 9009"
_READY_S = 20.0


def record(folder: Path) -> None:
    """Drive, measure and record at both endpoints."""
    with ExitStack() as ending:
        scratch = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="multitracer-rehearsal-")))
        ending.enter_context(own_network())
        drive = RehearsedDrive.now(SEED)
        for name, more in (("modem", ("--profile", "rehearsal_cdpd")), ("gps", ())):
            ending.enter_context(_device(name, "--link", scratch / name, *drive.options, *more))
        path = ending.enter_context(_device("path", *drive.path_options))
        assert path.stdout is not None
        assert json.loads(path.stdout.readline()) == {"ready": PHONE}
        inside = ["nsenter", f"--net=/proc/{path.pid}/ns/net"]
        with _started([*inside, *_fixed(scratch / "fixed-drive")]):
            _until(lambda: all(_is_open(inside, port) for port in PORTS.values()))
            subprocess.run(_mobile(scratch / "mobile-drive", scratch), check=True)
        ended_ns = time.monotonic_ns()
        ends = [str(scratch / f"{side}-drive") for side in ("mobile", "fixed")]
        subprocess.run([*MULTITRACER, "merge", *ends, "-o", str(folder)], check=True)
        (folder / "truth").mkdir()
        (folder / "truth" / "drive.json").write_text(json.dumps(drive.truth(ended_ns)) + "\n")


def _fixed(folder: Path) -> list[str]:
    """Return the command that records the server's endpoint."""
    serve = (
        _measure("serve", protocol, "--listen", f"{ADDRESS}:{port}", "-o", folder / "fixed")
        for protocol, port in PORTS.items()
    )
    return [*_capture(folder, "core0", "tcpdump"), "--role", "fixed", "--", "sh", "-c", f"{' & '.join(serve)} & wait"]


def _mobile(folder: Path, ports: Path) -> list[str]:
    """Return the command that records the phone's endpoint, and measures with both protocols in turn."""
    blocks = (
        _measure("run", protocol, "--server", f"{ADDRESS}:{port}", *PLAN, "-o", folder / f"{protocol}-{block}")
        for block in range(1, BLOCKS + 1)
        for protocol, port in PORTS.items()
    )
    options = ["--modem", str(ports / "modem"), "--gps", str(ports / "gps"), "--clap", f"{ADDRESS}:9009"]
    return [*_capture(folder, "wwan0", "tcpdump", "modem", "gps"), *options, "--", "sh", "-c", " && ".join(blocks)]


def _capture(folder: Path, interface: str, *collectors: str) -> list[str]:
    wanted = [word for name in (*collectors, "tcp_info", "host_clock") for word in ("--with", name)]
    return [*MULTITRACER, "capture", "-o", str(folder), "--plain", "-i", interface, "--filter", FILTER, *wanted]


def _measure(command: str, protocol: str, *options: object) -> str:
    return shlex.join([*MULTITRACER, "measure", command, "--protocol", protocol, *map(str, options)])


def _device(name: str, *options: object) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Run a program of the rehearsal, which ends with its standard input."""
    return _started([sys.executable, "-m", f"multitracer.lab.rehearsal.{name}", "--tags", *map(str, options)])


@contextmanager
def _started(argv: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield child
    finally:
        stop(child)
        assert child.stdout is not None
        child.stdout.close()


def _is_open(inside: list[str], port: int) -> bool:
    sockets = [*inside, "ss", "-Hltun", f"sport = :{port}"]
    return bool(subprocess.run(sockets, check=True, capture_output=True).stdout.strip())


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _READY_S
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("the servers did not start")
        time.sleep(0.1)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    record(target)
    finish(target)
