"""Run a command and say what it cost: wall time, CPU time of it and its children, peak memory.

Linux counts into a child's peak what its parent held when it was started, so the process that measures has
to be small: this module, and those that use it, import nothing heavy.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run of a whole process cost."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


class ProgramFailedError(Exception):
    """A program that is measured failed: which one, and its last words."""


def cost(argv: list[str]) -> Cost:
    """Run a command with its output thrown away.

    Raises
    ------
    ProgramFailedError
        If it fails.
    """
    begin = time.monotonic()
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert child.stderr is not None
    with child.stderr:
        words = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        last = words.decode(errors="replace").strip()[-2000:]
        raise ProgramFailedError(f"{' '.join(argv)}: exit {child.returncode}: {last}")
    return Cost(time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def median(costs: list[Cost]) -> Cost:
    """Return the medians of each figure."""
    return Cost(
        statistics.median(c.wall_s for c in costs),
        statistics.median(c.cpu_s for c in costs),
        round(statistics.median(c.peak_bytes for c in costs)),
    )


def paired(ours: list[str], peer: list[str], *, runs: int) -> list[tuple[Cost, Cost]]:
    """Run the two in turn, so that a busy moment of the machine falls on both."""
    return [(cost(ours), cost(peer)) for _ in range(runs)]
