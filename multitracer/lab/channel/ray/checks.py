"""Places that cannot be: a node inside of something, off its street, or where the other one is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.ray.surfaces import lengths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.lab.channel.ray.config import RadioConfig, RayConfig, StreetConfig
    from multitracer.lab.channel.ray.scene import Scene
    from multitracer.lab.channel.ray.surfaces import Solid, Surface
    from multitracer.tables import Array


def check_places(places: Mapping[str, Array], scene: Scene, config: RayConfig, times_s: Array) -> None:
    """Refuse paths of nodes that cannot be.

    Parameters
    ----------
    places : mapping
        Name of the node -> (n, 3) or (1, 3) float64, m.
    scene : Scene
    config : RayConfig
    times_s : (n,) float64

    Raises
    ------
    LocalProtocolError
        With the first time and place at which it happens.
    """
    one, other = places.values()
    _check_distance(one, other, config.radio, times_s)
    for name, path in places.items():
        _check_street(name, path, config.street, times_s)
        for solid in scene.solids:
            _check_solid(name, path, solid, times_s)


def _check_distance(one: Array, other: Array, radio: RadioConfig, times_s: Array) -> None:
    apart_m = lengths(one - other)
    at = int(np.argmin(apart_m))
    if apart_m[at] < radio.wavelength_m:
        raise LocalProtocolError(
            f"the nodes are {apart_m[at]:.3g} m apart at {times_s[at]:.3g} s; keep them at least a "
            f"wavelength ({radio.wavelength_m:.3g} m) apart, nearer ones are not in each other's far field"
        )


def _check_street(name: str, path: Array, street: StreetConfig, times_s: Array) -> None:
    if street.width_m == 0:
        return
    x_m, y_m = path[:, 0], path[:, 1]
    outside = (np.abs(y_m) >= street.width_m / 2) | (x_m < street.first_m) | (x_m > street.end_m)
    if outside.any():
        raise LocalProtocolError(
            f"the {name} node leaves its street {_where(path, times_s, int(np.argmax(outside)))}; the street "
            f"goes from x = {street.first_m:g} to {street.end_m:g} m and is {street.width_m:g} m wide"
        )


def _check_solid(name: str, path: Array, solid: Solid, times_s: Array) -> None:
    if solid.is_box:
        inside = solid.contains(path)
        if inside.any():
            at = int(np.argmax(inside))
            raise LocalProtocolError(
                f"the {name} node is inside {solid.name} {_where(path, times_s, at)}; {_MOVE}"
            )
        return
    touch = _first_touch(solid.faces[0], path)
    if touch is not None:
        raise LocalProtocolError(
            f"the {name} node is in {solid.name} {_where(path, times_s, touch)}; {_MOVE}"
        )


_MOVE = "move its path or the object"


def _first_touch(face: Surface, path: Array) -> int | None:
    """Return the first step at which a path touches a wall or has gone through it; None without one."""
    steps = np.zeros(1, dtype=np.int64)
    distance = face.distance(path, steps)
    touches = (distance == 0) & face.holds(path, path, np.zeros(1), steps)
    if len(path) > 1:
        touches[1:] |= face.crossed(path[:-1], path[1:], steps)
    return int(np.argmax(touches)) if touches.any() else None


def _where(path: Array, times_s: Array, at: int) -> str:
    return f"at {times_s[at]:.3g} s, at x = {path[at, 0]:.4g}, y = {path[at, 1]:.4g} m"
