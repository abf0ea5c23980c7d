"""What a reflection leaves of a wave: a constant, or Fresnel's coefficient for upright antennas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from multitracer.lab.channel.ray.config import RadioConfig
    from multitracer.lab.channel.ray.surfaces import Surface
    from multitracer.tables import Array

_OHM = 60.0
"""S/m times metres of wavelength times this: imaginary part of the relative permittivity, 1/(2 pi c eps0)."""


def coefficient(radio: RadioConfig, surface: Surface, sine: Array) -> Array | float:
    """Return the factor by which a reflection multiplies the field.

    Parameters
    ----------
    radio : RadioConfig
    surface : Surface
        The ground meets the field of upright antennas in the plane of incidence, a wall across it.
    sine : (n,) float64
        Of the grazing angle, 0 along the surface and 1 straight on it.

    Returns
    -------
    (n,) complex128, or float
        -1 at grazing incidence of either kind.
    """
    if radio.reflection == "constant":
        return radio.coefficient
    is_ground = surface.kind == "ground"
    permittivity = radio.ground_permittivity if is_ground else radio.wall_permittivity
    conductivity = radio.ground_conductivity if is_ground else radio.wall_conductivity
    complex_permittivity = permittivity - 1j * _OHM * conductivity * radio.wavelength_m
    root = np.sqrt(complex_permittivity - 1 + sine**2)
    straight = complex_permittivity * sine if is_ground else sine
    return np.asarray((straight - root) / (straight + root))
