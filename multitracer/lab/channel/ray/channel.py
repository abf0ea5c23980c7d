"""The received power of a ray-traced channel over time: equation (1) of paper 002."""

from __future__ import annotations

from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.lab.channel.ray.checks import check_places
from multitracer.lab.channel.ray.fades import Fades, fades_of
from multitracer.lab.channel.ray.movement import positions
from multitracer.lab.channel.ray.rays import rays_between
from multitracer.lab.channel.ray.scene import Scene
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multitracer.lab.channel.ray.config import RadioConfig, RayConfig
    from multitracer.lab.channel.ray.rays import Ray
    from multitracer.tables import Array, Numbers

NO_POWER_DBM = -300.0
"""What stands for no power at all, where no ray arrives or all cancel: 1e-30 mW, far below any noise."""


class Channel(NamedTuple):
    """Received power of each step, which holds until the next one."""

    step_ns: int
    power_dbm: Array
    """(n,) float64; -300 where nothing arrives."""

    @property
    def time_ns(self) -> Numbers:
        """Begin of each step since the channel's begin, (n,) int64 ns."""
        return np.arange(len(self.power_dbm), dtype=np.int64) * self.step_ns

    def fades(self, threshold_dbm: float) -> Fades:
        """Return the fades below a threshold."""
        return fades_of(self.power_dbm, threshold_dbm, step_s=self.step_ns / NS_PER_S)


@lru_cache(maxsize=8)
def channel_of(config: RayConfig, *, seed: int) -> Channel:
    """Return the received power that a configuration describes; the last eight are kept, and read-only.

    Parameters
    ----------
    config : RayConfig
    seed : int
        Of drawn speeds and of the cars of the road.

    Raises
    ------
    LocalProtocolError
        If a node is inside of a building or a car, goes through a wall, leaves its street, or the nodes are
        less than a wavelength apart.
    """
    times_s = np.arange(config.radio.steps) * (config.radio.step_ns / NS_PER_S)
    mobile = positions(config.mobile, times_s, luck=Random(f"{seed} speed of mobile"))
    fixed = positions(config.fixed, times_s, luck=Random(f"{seed} speed of fixed"))
    scene = Scene(config, times_s, luck=Random(f"{seed} road"))
    check_places({"mobile": mobile, "fixed": fixed}, scene, config, times_s)
    rays = rays_between(scene, mobile, fixed, config.radio)
    power_dbm = received_dbm(rays, config.radio)
    power_dbm.flags.writeable = False
    return Channel(config.radio.step_ns, power_dbm)


def received_dbm(rays: Iterable[Ray], radio: RadioConfig) -> Array:
    """Return the power of the sum of all rays at the antenna, (n,) float64 dBm.

    Source: paper 002, equation (1).
    """
    wavelength_m = radio.wavelength_m
    field = np.zeros(radio.steps, dtype=np.complex128)
    for ray in rays:
        wave = ray.gain * np.exp(-2j * np.pi / wavelength_m * ray.length_m) / ray.length_m
        if len(ray.rows) == radio.steps:
            field += wave
        else:
            field[ray.rows] += wave
    amplitude = np.abs(field) * wavelength_m / (4 * np.pi)
    floor = 10 ** ((NO_POWER_DBM - radio.power_dbm) / 20)
    return np.asarray(radio.power_dbm + 20 * np.log10(np.maximum(amplitude, floor)))
