"""A plain load by the installed iperf3: TCP or UDP in each direction; what iperf3 prints is the log.

The program's own JSON is kept as it is, one file for each direction, so that every reader of iperf3's output reads
it. The peer may be hostile: what iperf3 repeats of its words is text here, and only the error is looked at.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

from multitracer.errors import InputError, PreflightError
from multitracer.manifest import Measurement
from multitracer.measure.endpoint import resolved
from multitracer.measure.transports import host_port
from multitracer.words import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Direction = Literal["up", "down"]
"""Whose data it is: of the client that this machine is, or of the server."""
DURATION_S = 10
_CONNECT_MS = 10_000
_PATIENCE_S = 30
"""Time after a test's end until it must be over: buffers of many seconds drain meanwhile."""
_END_S = 5
"""Time in which iperf3 writes what it knows when it is interrupted."""
_MOST_JSON_BYTES = 32 << 20
"""What the reader of iperf3's logs takes."""
_INTERVALS_S = 3600
"""Longest test with an interval for each second, of some 700 bytes; that of a day has one for each 24 s (iperf3 takes
60 s at most)."""
_MOST_ERROR = 200
_LISTENS_AGAIN_S = 2.0
"""After a test the server listens to nobody for a moment: so long after a refusal the next direction tries again."""
_REFUSED = re.compile(r"unable to connect|refused|timed out|no route|unreachable", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """A test of each direction, one after the other."""

    server: str
    """HOST:PORT of `iperf3 -s`."""
    duration_s: int = DURATION_S
    directions: tuple[Direction, ...] = ("up", "down")
    udp_bps: int | None = None
    """Rate of UDP in bit/s; None for TCP."""
    labels: dict[str, str] = field(default_factory=dict)

    def measurement(self) -> Measurement:
        """Return the plan in the form of the manifest."""
        rest = asdict(self) | {"directions": list(self.directions)}
        return Measurement("iperf3", rest.pop("server"), None, rest)


def log_name(direction: Direction, *, failed: bool = False) -> str:
    """Return the name of the file that a test of a direction becomes."""
    return f"iperf3-{direction}{'-failed' if failed else ''}.json"


def run_load(plan: LoadPlan, folder: Path) -> Iterator[Direction]:
    """Do the tests that the folder does not have yet; yield each direction when it begins.

    Parameters
    ----------
    plan : LoadPlan
        What to do.
    folder : Path
        The session folder; it exists.

    Raises
    ------
    PreflightError
        If iperf3 is not installed.
    InputError
        If a test failed. What iperf3 knew of it is then in `iperf3-DIRECTION-failed.json`, if it knew anything.
    """
    left = [each for each in plan.directions if not (folder / log_name(each)).exists()]
    if not left:
        return
    program = shutil.which("iperf3")
    if program is None:
        raise PreflightError("iperf3 is not installed; install it (`apt-get install iperf3`)")
    host, port = resolved(*host_port(plan.server))
    for direction in left:
        yield direction
        argv = [program, *_arguments(plan, host, port, direction)]
        printed, complaint = _run(argv, plan.duration_s)
        if direction is not left[0] and b"refused" in printed + complaint:
            time.sleep(_LISTENS_AGAIN_S)
            printed, complaint = _run(argv, plan.duration_s)
        error = _error_in(printed, complaint)
        _write(folder / log_name(direction, failed=error is not None), printed, error)
        if error is not None:
            raise InputError(f"{plan.server}: {error}; {_remedy(error, port)}")
        (folder / log_name(direction, failed=True)).unlink(missing_ok=True)


def _arguments(plan: LoadPlan, host: str, port: int, direction: Direction) -> list[str]:
    udp = [] if plan.udp_bps is None else ["--udp", "--bitrate", str(plan.udp_bps)]
    return [
        "--client", host, "--port", str(port), "--json", "--time", str(plan.duration_s),
        "--interval", str(max(1, plan.duration_s // _INTERVALS_S)), "--connect-timeout", str(_CONNECT_MS), *udp,
        *(["--reverse"] if direction == "down" else []),
    ]  # fmt: skip


def _run(argv: list[str], duration_s: int) -> tuple[bytes, bytes]:
    """Return what iperf3 printed, and what it complained of; interrupt it if it does not end."""
    child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        for number, patience_s in (
            (signal.SIGINT, duration_s + _CONNECT_MS / 1000 + _PATIENCE_S),
            (signal.SIGKILL, _END_S),
        ):
            try:
                return child.communicate(timeout=patience_s)
            except subprocess.TimeoutExpired:
                child.send_signal(number)
        return child.communicate()
    finally:
        child.kill()
        child.wait()


def _error_in(printed: bytes, complaint: bytes) -> str | None:
    """Return why the output is no complete test; None if it is one."""
    if len(printed) > _MOST_JSON_BYTES:
        return f"iperf3 printed more than {_MOST_JSON_BYTES >> 20} MB"
    try:
        document = json.loads(printed)
    except (ValueError, RecursionError):
        return f"iperf3 failed: {_shown((complaint or printed).decode('utf-8', 'replace')) or 'it printed nothing'}"
    if not isinstance(document, dict):
        return "iperf3 printed no test"
    if (error := document.get("error")) is not None:
        is_interrupted = "interrupt" in str(error)
        return (
            "iperf3 did not end; the server or the path is gone"
            if is_interrupted
            else f"iperf3 failed: {_shown(error)}"
        )
    ended = document.get("end")
    return None if isinstance(ended, dict) and ended else "iperf3 printed no result"


def _shown(error: object) -> str:
    return printable(" ".join(str(error).split()))[:_MOST_ERROR]


def _remedy(error: str, port: int) -> str:
    if "busy" in error:
        return "wait until the other test has ended, then start the same command again"
    if _REFUSED.search(error):
        return f"check that `iperf3 --server --port {port}` is running there"
    return "check the server, then start the same command again"


def _write(path: Path, printed: bytes, error: str | None) -> None:
    """Write a log, complete or not at all; of a failed test only if it holds intervals."""
    if error is not None and b'"bits_per_second"' not in printed:
        return
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(printed)
    temporary.replace(path)
