"""The received power of a scenario's ray-traced radio, and the file that holds one."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.channel.ray.channel import Channel, channel_of
from multitracer.channel.ray.config import MOST_STEPS
from multitracer.channel.switched.config import SwitchedConfig
from multitracer.errors import FormatError, InputError, LocalProtocolError
from multitracer.scenario.library import load_scenario
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.channel.ray.fades import Fades

HEADER = "time_s,power_dbm\n"
_MOST_BYTES = 40 * MOST_STEPS
"""Of such a file: two numbers a line."""


class ReceivedPower(NamedTuple):
    """Received power over time, and the threshold below which the link is down."""

    name: str
    channel: Channel
    threshold_dbm: float | None = None
    """None where nothing says it."""
    seed: int | None = None

    @property
    def fades(self) -> Fades | None:
        """Return its fades; None without a threshold."""
        return None if self.threshold_dbm is None else self.channel.fades(self.threshold_dbm)

    def text(self) -> str:
        """Return it as CSV: time_s and power_dbm, a line for each step, ten digits of each."""
        step_s = self.channel.step_ns / NS_PER_S
        lines = (f"{at * step_s:.10g},{dbm:.10g}\n" for at, dbm in enumerate(self.channel.power_dbm.tolist()))
        return HEADER + "".join(lines)


def power_of(name: str, *, seed: int | None = None, threshold_dbm: float | None = None) -> ReceivedPower:
    """Return the received power of a scenario.

    Parameters
    ----------
    name : str
        Of a bundled scenario, or the path of a TOML file.
    seed : int, optional
        Another one than the scenario's.
    threshold_dbm : float, optional
        Another one than its link's.

    Raises
    ------
    InputError
        If there is no such scenario, its link has no ray-traced radio, or the nodes cannot be where they are.
    """
    scenario = load_scenario(name)
    link = scenario.link
    if not isinstance(link, SwitchedConfig):
        raise InputError(
            f"{scenario.name}: its link has no ray-traced radio; "
            'choose a scenario with [link] kind = "switched"'
        )
    used = scenario.seed if seed is None else seed
    try:
        if threshold_dbm is not None:
            link = replace(link, threshold_dbm=threshold_dbm)
        channel = channel_of(link.ray, seed=used)
    except LocalProtocolError as error:
        raise InputError(f"{scenario.name}: {error}") from error
    return ReceivedPower(scenario.name, channel, link.threshold_dbm, used)


def read_power(path: Path) -> ReceivedPower:
    """Return the received power in a file of `ReceivedPower.text`.

    Raises
    ------
    InputError
        If it cannot be read.
    FormatError
        If it is no such file, or its steps are not even.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(f"{path}: longer than {_MOST_BYTES:,} bytes; this is another kind of file")
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not text") from error
    if not lines or lines[0].strip() != HEADER.strip():
        raise FormatError(
            path, f"begins with no line {HEADER.strip()}; `testbed channel` writes such files", line=1
        )
    cells = np.array([_numbers(line, path, at) for at, line in enumerate(lines[1:], 2)]).reshape(-1, 2)
    steps_ns = np.rint(np.diff(cells[:, 0]) * NS_PER_S)
    if len(cells) < 2 or steps_ns[0] < 1 or (np.abs(steps_ns - steps_ns[0]) > 1).any():
        raise FormatError(path, "its times are not evenly spaced, or fewer than two")
    return ReceivedPower(path.stem, Channel(int(steps_ns[0]), cells[:, 1]))


def _numbers(line: str, path: Path, at: int) -> tuple[float, float]:
    cells = line.split(",")
    try:
        time_s, power_dbm = map(float, cells)
    except ValueError:
        time_s = power_dbm = float("nan")
    if not (isfinite(time_s) and isfinite(power_dbm)):
        raise FormatError(path, "not two numbers", line=at, excerpt=line.encode())
    return time_s, power_dbm
