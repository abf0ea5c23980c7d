"""Reads the clocks of this host together every few seconds, and immediately after one is set.

CLOCK_REALTIME and CLOCK_BOOTTIME are read between two readings of CLOCK_MONOTONIC, so that stamps of one clock can be
converted to another. The error that NTP, chrony or PTP reported to the kernel is recorded too. Needs no root.

The log is JSON lines without a header, each a reading (docs/session.md, clocks.jsonl): `host`,
`monotonic_before_ns`, `realtime_ns`, `monotonic_after_ns`, `boottime_ns`, `synchronized`, `offset_ns`,
`max_error_ns`, `est_error_ns`, `frequency_ppm`, `tai_offset_s`, and

- `event`: `step`, realtime was set by `step_ns` since the last reading; `suspend`, the machine slept so long,
- once a minute, where installed: `chrony`, the output of `chronyc -c tracking`, and `ptp`, the TIME_STATUS_NP
  of linuxptp's ptp4l by `pmc` (as root only, like their socket),
- in the first reading `header`, also with `ptp_clocks`, the hardware clocks of this host by their devices; in
  the last `end`, and `tag` in one that a clap asked for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from collectors._collector import Collector
from collectors._log import Log
from collectors._options import header, parser, run
from collectors._ready import ready
from collectors._stop import Stop, discipline, read_together
from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    Reading = dict[str, int]

_LOOK_NS = NS_PER_S
"""Interval of checks for a clock step if the kernel does not report steps."""
_SMALLEST_STEP_NS = 200 * NS_PER_US
"""Minimum step: larger than reading errors and slewing (500 ppm) within a second."""
_SMALLEST_SLEEP_NS = 100 * NS_PER_MS
_ASK_NS = 60 * NS_PER_S
_ASK_S = 1.0
_MOST_SAID = 500
_TOOLS = {
    "chrony": (["chronyc", "-n", "-c", "tracking"], ""),
    "ptp": (["pmc", "-u", "-b", "0", "GET TIME_STATUS_NP"], " RESPONSE MANAGEMENT "),
}
"""Command of each tool and the text before its answer, by the key in a reading."""
_PTP_CLOCKS = Path("/sys/class/ptp")


class HostClockRecorder:
    """One run of the collector: periodic readings, and events between two readings.

    Parameters
    ----------
    log : Log
    every_ns : int
        Time between two readings.
    host : str
    read : callable
        Reads the clocks together.
    """

    def __init__(self, log: Log, *, every_ns: int, host: str, read: Callable[[], Reading] = read_together) -> None:
        self._log = log
        self._every_ns = every_ns
        self._host = host
        self._read = read
        self._last: Reading | None = None
        self._due_ns = 0
        self._ask_ns = 0

    def run(self, stop: Stop, *, header: dict[str, object]) -> None:
        """Read until `stop` ends the collector."""
        stop.on_set = self.look
        self.write(header=header)
        ready()
        while stop.wait(time.monotonic_ns() + _LOOK_NS):
            self.look()
        self.look()
        self.write(end=stop.reason)

    def look(self) -> None:
        """Write a reading if a clock step or suspend occurred, or if a reading is due."""
        reading = self._read()
        event = self._event(reading)
        if event or reading["monotonic_before_ns"] >= self._due_ns:
            self._put(reading, **event)

    def write(self, **more: object) -> None:
        """Write a reading at once."""
        reading = self._read()
        self._put(reading, **self._event(reading), **more)

    def sync_probe(self, tag: str) -> None:
        """Write a reading with the tag of a sync probe."""
        self.write(tag=tag)

    def _put(self, reading: Reading, **more: object) -> None:
        self._last = reading
        self._due_ns = reading["monotonic_before_ns"] + self._every_ns
        self._log.record(host=self._host, **reading, **discipline(), **more, **self._by_daemons())

    def _event(self, now: Reading) -> dict[str, object]:
        """Return the event since the last reading (step or suspend); empty if there was none."""
        if self._last is None:
            return {}
        slept = _between(now, "boottime_ns") - _between(self._last, "boottime_ns")
        moved = _between(now, "realtime_ns") - _between(self._last, "realtime_ns")
        caveat = _bracket(now) + _bracket(self._last)
        if slept > _SMALLEST_SLEEP_NS + caveat:
            moved -= slept
            if abs(moved) <= _SMALLEST_STEP_NS + caveat:
                return {"event": "suspend", "step_ns": slept}
        if abs(moved) > _SMALLEST_STEP_NS + caveat:
            return {"event": "step", "step_ns": moved}
        return {}

    def _by_daemons(self) -> dict[str, str]:
        """Return the reports of the programs that discipline the clock; empty if no report is due."""
        now = time.monotonic_ns()
        if now < self._ask_ns:
            return {}
        self._ask_ns = now + _ASK_NS
        answers = ((key, _answer(command, after)) for key, (command, after) in _TOOLS.items())
        return {key: answer for key, answer in answers if answer}


def _answer(command: list[str], after: str) -> str:
    """Return a tool's output as one line; empty if it is missing, fails, is slow or prints nothing."""
    if shutil.which(command[0]) is None:
        return ""
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=_ASK_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    output = " ".join(done.stdout.decode("ascii", "replace").split())
    _, separator, answer = output.partition(after) if after else ("", output, output)
    return answer[:_MOST_SAID] if done.returncode == 0 and separator else ""


def _ptp_clocks() -> dict[str, str]:
    """Return the PTP hardware clocks of this host, device -> name (Documentation/ABI/testing/sysfs-ptp)."""
    names = sorted(_PTP_CLOCKS.glob("ptp*/clock_name"))
    return {path.parent.name: path.read_text("utf-8", "replace").strip()[:_MOST_SAID] for path in names}


def _between(reading: Reading, name: str) -> int:
    """Return the difference of a clock to CLOCK_MONOTONIC in ns."""
    return reading[name] - (reading["monotonic_before_ns"] + reading["monotonic_after_ns"]) // 2


def _bracket(reading: Reading) -> int:
    return reading["monotonic_after_ns"] - reading["monotonic_before_ns"]


def _options(argv: Sequence[str]) -> argparse.Namespace:
    options = parser(__doc__, traffic=False)
    options.add_argument(
        "--every", type=float, default=5.0, metavar="SECONDS", help="seconds between two clock readings; default 5"
    )
    options.add_argument(
        "--host", default=os.uname().nodename, help="host name to write to the log; default: name of this host"
    )
    return options.parse_args(argv)


def main(argv: Sequence[str]) -> None:
    """Record until stopped."""
    chosen = _options(argv)
    with (
        Stop(duration_ns=chosen.duration, outlive_parent=chosen.outlive_parent, tags=chosen.tags) as stop,
        Log(chosen.output) as log,
    ):
        recording = HostClockRecorder(log, every_ns=round(chosen.every * NS_PER_S), host=chosen.host[:64])
        stop.on_tag = recording.sync_probe
        more = {"every_s": chosen.every, "ptp_clocks": _ptp_clocks()}
        recording.run(stop, header=header("multitracer-host-clock", chosen, **more))


def check() -> None:
    """Check nothing: all Linux systems have these clocks."""


COLLECTOR = Collector(
    name="host_clock",
    layer="clock",
    description="simultaneous readings of realtime, monotonic and boottime; synchronisation state; clock steps",
    log_format="clocks",
    suffix=".jsonl",
    check=check,
)

if __name__ == "__main__":
    run(main)
