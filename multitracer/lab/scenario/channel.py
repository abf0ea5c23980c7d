"""The received power of a scenario's ray-traced radio, and the file that holds one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.errors import InputError, LocalProtocolError
from multitracer.lab.channel.ray.channel import Channel
from multitracer.lab.channel.ray.config import MOST_STEPS
from multitracer.lab.channel.switched.config import SwitchedConfig
from multitracer.lab.channel.switched.trace import POWER_HEADER
from multitracer.lab.scenario.library import load_scenario, read_power_trace
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.lab.channel.ray.fades import Fades


class ReceivedPower(NamedTuple):
    """Received power over time, and the threshold below which the link is down."""

    name: str
    channel: Channel
    threshold_dbm: float | None = None
    """None where nothing says it."""
    seed: int | None = None
    repeats: bool = False
    """Whether it begins again at its end, as a power trace does."""

    @property
    def fades(self) -> Fades | None:
        """Return its fades; None without a threshold."""
        return None if self.threshold_dbm is None else self.channel.fades(self.threshold_dbm)

    def text(self) -> str:
        """Return it as CSV: time_s and power_dbm, a line for each step, ten digits of each."""
        step_s = self.channel.step_ns / NS_PER_S
        lines = (f"{at * step_s:.10g},{dbm:.10g}\n" for at, dbm in enumerate(self.channel.power_dbm.tolist()))
        return f"{POWER_HEADER}\n" + "".join(lines)


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
        channel = link.channel(seed=used)
    except LocalProtocolError as error:
        raise InputError(f"{scenario.name}: {error}") from error
    repeats = link.power is not None and link.at_end == "repeat"
    return ReceivedPower(scenario.name, channel, link.threshold_dbm, used, repeats)


def repeated(received: ReceivedPower, until_ns: int) -> ReceivedPower:
    """Return the power up to a time, if it begins again before; a million steps at the most."""
    step_ns, power_dbm = received.channel
    steps = min(-(-until_ns // step_ns), max(MOST_STEPS, len(power_dbm)))
    if not received.repeats or steps <= len(power_dbm):
        return received
    return received._replace(channel=Channel(step_ns, np.resize(power_dbm, steps)))


def read_power(path: Path) -> ReceivedPower:
    """Return the received power in a file of `ReceivedPower.text`.

    Raises
    ------
    InputError
        If it cannot be read.
    FormatError
        If it is no such file, or its steps are not even.
    """
    return ReceivedPower(path.stem, read_power_trace(path).channel)
