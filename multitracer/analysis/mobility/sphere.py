"""Points on the earth: distances, courses and points between, on a sphere of the earth's mean radius.

A great circle on the sphere differs from the geodesic of WGS 84 by up to 0.56 %. All steps are unit vectors,
so that nothing breaks at the date line or at a pole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from multitracer.tables import Array

EARTH_M = 6_371_008.8
"""Mean radius of the earth, (2a + b) / 3 of WGS 84 (IUGG)."""


def vectors(lat_deg: Array, lon_deg: Array) -> Array:
    """Return points as unit vectors.

    Parameters
    ----------
    lat_deg, lon_deg : ndarray of float64, degrees, shape (n,)

    Returns
    -------
    ndarray of float64, shape (n, 3)
        NaN where a coordinate is NaN.
    """
    lat, lon = np.radians(lat_deg), np.radians(lon_deg)
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)


def degrees(points: Array) -> tuple[Array, Array]:
    """Return latitudes and longitudes of vectors of any length, in degrees; shapes (n,)."""
    x, y, z = points[:, 0], points[:, 1], points[:, 2]
    return np.degrees(np.arctan2(z, np.hypot(x, y))), np.degrees(np.arctan2(y, x))


def distance_m(a: Array, b: Array) -> Array:
    """Return the great-circle distances between points.

    Parameters
    ----------
    a, b : ndarray of float64, shape (n, 3)
        Unit vectors.

    Returns
    -------
    ndarray of float64, metres, shape (n,)
        Exact also for points a centimetre apart: half the chord is the sine of half the angle.
    """
    half = np.sqrt(((a - b) ** 2).sum(axis=1)) / 2
    return np.asarray(2 * EARTH_M * np.arcsin(np.minimum(half, 1.0)))


def course_deg(a: Array, b: Array) -> Array:
    """Return the initial course from points to points, from true north over east, 0 to 360.

    Parameters
    ----------
    a, b : ndarray of float64, shape (n, 3)
        Unit vectors. A point to itself gives 0.
    """
    east = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    north = b[:, 2] * (a[:, 0] ** 2 + a[:, 1] ** 2) - a[:, 2] * (a[:, 0] * b[:, 0] + a[:, 1] * b[:, 1])
    return np.asarray(np.degrees(np.arctan2(east, north)) % 360.0)
