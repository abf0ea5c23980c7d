"""What reflects, and what is in the way: the ground, and upright rectangles that may move."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from multitracer.tables import Array, Mask

_X, _Y, UP = np.eye(3)  # the third axis is height
ON_IT_M = 1e-9
"""Metres within which a point counts as on a surface: above rounding at 100 km, far below a wavelength."""


@dataclass(frozen=True, slots=True, eq=False)
class Surface:
    """A plane, or an upright rectangle on the ground, which reflects.

    Parameters
    ----------
    normal : (3,) float64
        Of length 1; of a face of a box outwards.
    offset_m : (n,) or (1,) float64
        How far its plane is from the origin in that direction at each step; one number if it does not change.
    along : (3,) float64, optional
        Of length 1, from one end to the other; None of an endless plane.
    start_m : (n,) or (1,) float64
        Where it begins in that direction.
    length_m, height_m : float
    both_sides : bool
        Whether it reflects on the side that `normal` points away from, too.
    kind : "ground" or "wall"
    """

    normal: Array
    offset_m: Array
    along: Array | None = None
    start_m: Array = field(default_factory=lambda: np.zeros(1))
    length_m: float = np.inf
    height_m: float = np.inf
    both_sides: bool = False
    kind: Literal["ground", "wall"] = "wall"

    def distance(self, points: Array, rows: Array) -> Array:
        """Return how far points are from its plane, above 0 on the outer side; (n,), or (1,) if all are."""
        return np.asarray(points @ self.normal - _at(self.offset_m, rows))

    def holds(self, begin: Array, end: Array, share: Array, rows: Array) -> Mask:
        """Return which straight lines meet its plane within its edges, that `share` of the way."""
        if self.along is None:
            return np.ones(1, dtype=np.bool_)
        along_m = _between(begin @ self.along, end @ self.along, share) - _at(self.start_m, rows)
        height_m = _between(begin[:, 2], end[:, 2], share)
        inside = (along_m >= -ON_IT_M) & (along_m <= self.length_m + ON_IT_M)
        return np.asarray(inside & (height_m >= -ON_IT_M) & (height_m <= self.height_m + ON_IT_M))

    def crossed(self, begin: Array, end: Array, rows: Array) -> Mask:
        """Return which straight lines between points go through it, not only touch it; (n,) or (1,)."""
        before, after = self.distance(begin, rows), self.distance(end, rows)
        through = (np.minimum(before, after) < -ON_IT_M) & (np.maximum(before, after) > ON_IT_M)
        if not through.any():
            return np.asarray(through)
        share = before / np.where(through, before - after, 1.0)
        return np.asarray(through & self.holds(begin, end, share, rows))


def _at(numbers: Array, rows: Array) -> Array:
    return numbers if len(numbers) in (1, len(rows)) else numbers[rows]


def _between(begin: Array, end: Array, share: Array) -> Array:
    return np.asarray(begin + share * (end - begin))


def lengths(vectors: Array) -> Array:
    """Return how long vectors are; column by column, as NumPy takes 1 ms along the rows of 20,000."""
    x, y, z = vectors.T
    return np.asarray(np.sqrt(x * x + y * y + z * z))


GROUND = Surface(UP, np.zeros(1), kind="ground")
"""The plane at height 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Solid:
    """A thing that blocks rays: a wall, or a box with its four sides.

    Parameters
    ----------
    name : str
        What a message calls it.
    faces : tuple of Surface
        The sides; of a wall one.
    low, high : tuple of three (n,) or (1,) float64
        Its least and greatest x, y and height at each step.
    """

    name: str
    faces: tuple[Surface, ...]
    low: tuple[Array, Array, Array]
    high: tuple[Array, Array, Array]

    @property
    def is_box(self) -> bool:
        """Whether it has an inside."""
        return len(self.faces) > 1

    def contains(self, points: Array) -> Mask:
        """Return at which steps a point is inside of a box or on its sides; (n,) or (1,)."""
        inside = np.ones(1, dtype=np.bool_)
        for axis in (1, 2, 0):  # most boxes are beside the way, some far along it
            at = points[:, axis]
            inside = inside & (at >= self.low[axis]) & (at <= self.high[axis])
            if not inside.any():
                break
        return np.asarray(inside)


def wall(begin: tuple[float, float], end: tuple[float, float], height_m: float) -> Solid:
    """Return a thin wall between two places on the ground."""
    corner, way = np.array([*begin, 0.0]), np.array([end[0] - begin[0], end[1] - begin[1], 0.0])
    length_m = float(np.linalg.norm(way))
    along = way / length_m
    normal = np.array([-along[1], along[0], 0.0])
    offset_m, start_m = np.array([corner @ normal]), np.array([corner @ along])
    face = Surface(normal, offset_m, along, start_m, length_m, height_m, both_sides=True)
    low, high = np.minimum(corner, corner + way), np.maximum(corner, corner + way) + height_m * UP
    return Solid("a wall", (face,), _axes(low), _axes(high))


def _axes(place: Array) -> tuple[Array, Array, Array]:
    return place[:1], place[1:2], place[2:]


def box(name: str, x_m: Array, y_m: float, size: tuple[float, float, float]) -> Solid:
    """Return a box with its sides along x and y.

    Parameters
    ----------
    name : str
    x_m : (n,) or (1,) float64
        Its least x at each step.
    y_m : float
        Its least y.
    size : tuple of float
        Length along x, width along y, height; m.
    """
    length_m, width_m, height_m = size
    near, far = np.array([y_m]), np.array([y_m + width_m])
    end_m = x_m + length_m
    faces = (
        Surface(-_Y, -near, _X, x_m, length_m, height_m),
        Surface(_Y, far, _X, x_m, length_m, height_m),
        Surface(-_X, -x_m, _Y, near, width_m, height_m),
        Surface(_X, end_m, _Y, near, width_m, height_m),
    )
    return Solid(name, faces, (x_m, near, np.zeros(1)), (end_m, far, np.array([height_m])))
