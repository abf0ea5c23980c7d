"""A power trace: received power at even steps, as text, to let a link be up and down as it was.

    time_s,power_dbm
    0,-46.93
    0.001,-46.95

The first line of numbers is the begin of the link, whatever its time; each power holds until the next one.
The file does not say whether its power was measured or computed, nor below which threshold a link was down.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from multitracer.errors import FormatError
from multitracer.lab.channel.ray.channel import Channel
from multitracer.lab.channel.ray.config import MOST_STEPS
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.tables import Array, Document

POWER_HEADER = "time_s,power_dbm"
MOST_POWER_BYTES = 40 * MOST_STEPS
"""Of such a file: two numbers a line."""
_MOST_S = 1e10
"""Three hundred years: times since 1970 are below it."""
_LONGEST_S = 1e9
"""Thirty years: ns of it fit into int64 many times."""
_MOST_DBM = 1000.0
"""Not measured: no radio comes near it; what no ray reaches is -300 dBm here."""
_UNEVEN = 0.1
"""How far a time may be off its place, in steps: not measured, less than what a step leaves open anyway."""


class PowerTrace:
    """Received power that does not depend on what is sent.

    Parameters
    ----------
    channel : Channel
        Its steps, at least one.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def __eq__(self, other: object) -> bool:
        """Return whether another trace has the same steps and powers."""
        return (
            isinstance(other, PowerTrace)
            and self.channel.step_ns == other.channel.step_ns
            and np.array_equal(self.channel.power_dbm, other.channel.power_dbm)
        )

    def __hash__(self) -> int:
        return hash((self.channel.step_ns, len(self.channel.power_dbm)))

    def __deepcopy__(self, memo: object) -> PowerTrace:
        """Return the trace itself, which never changes."""
        return self

    @property
    def lasts_ns(self) -> int:
        """The trace's length: its last power holds for a step, too."""
        return self.channel.step_ns * len(self.channel.power_dbm)

    def facts(self) -> Document:
        """Return what a manifest says of it."""
        return {"steps": len(self.channel.power_dbm), "step_ns": self.channel.step_ns}


def parse_power_trace(text: str, *, path: str) -> PowerTrace:
    """Return the power trace that `text` holds.

    Parameters
    ----------
    text : str
        A whole file.
    path : str
        Its name, for messages.

    Raises
    ------
    FormatError
        If its first line is another one, a line is not two finite numbers, times go back or are not evenly
        spaced (within a tenth of a step), or there are fewer than two or more than a million.
    """
    header, _, rest = text.partition("\n")
    if header.strip() != POWER_HEADER:
        reason = f"begins with no line {POWER_HEADER}; `testbed channel` writes such files"
        raise FormatError(path, reason, line=1)
    steps = rest.count("\n") + bool(rest and not rest.endswith("\n"))
    if not 2 <= steps <= MOST_STEPS:
        raise FormatError(path, f"{steps:,} lines of numbers; a power trace has 2 to {MOST_STEPS:,}")
    lines = rest.removesuffix("\n").split("\n")
    cells = np.array([_numbers(line, path, at) for at, line in enumerate(lines, 2)])
    power_dbm = cells[:, 1].copy()
    power_dbm.flags.writeable = False
    return PowerTrace(Channel(_step_ns(cells[:, 0], path), power_dbm))


def _numbers(line: str, path: str, at: int) -> tuple[float, float]:
    try:
        time_s, power_dbm = map(float, line.split(","))
    except ValueError:
        time_s = power_dbm = float("nan")
    if not (isfinite(time_s) and isfinite(power_dbm)):
        raise FormatError(path, "not two numbers", line=at, excerpt=line[:80].encode())
    if abs(time_s) > _MOST_S or abs(power_dbm) > _MOST_DBM:
        reason = f"a time beyond {_MOST_S:g} s or a power beyond {_MOST_DBM:g} dBm"
        raise FormatError(path, reason, line=at, excerpt=line[:80].encode())
    return time_s, power_dbm


def _step_ns(times_s: Array, path: str) -> int:
    """Return the time between two lines, which is the same everywhere."""
    back = np.flatnonzero(np.diff(times_s) < 0)
    if len(back):
        at = int(back[0])
        reason = f"goes back from {times_s[at]:.10g} to {times_s[at + 1]:.10g} s; sort the trace"
        raise FormatError(path, reason, line=at + 3)
    step_s = (times_s[-1] - times_s[0]) / (len(times_s) - 1)
    step_ns = round(float(step_s) * NS_PER_S)
    off = np.abs(times_s - times_s[0] - np.arange(len(times_s)) * step_s) > _UNEVEN * step_s
    if step_ns < 1 or off.any():
        at = int(np.argmax(off))
        reason = f"its times are not evenly spaced: expected a line each {step_s:.10g} s"
        raise FormatError(path, reason, line=at + 2)
    if step_s * len(times_s) > _LONGEST_S:
        raise FormatError(path, f"lasts longer than {_LONGEST_S:g} s; give its times in seconds")
    return step_ns
