"""The scene of a ray-traced channel: the radio, two nodes, reflecting surfaces and obstacles.

Input: a scenario's `RayConfig` and a seed for its random parts. Output: surfaces and solids. Impossible
positions raise an error: a node inside an object, outside its street, or at the other node's position.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Literal

import numpy as np

from multitracer.errors import LocalProtocolError
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from random import Random

    from multitracer.tables import Array, Mask

# What a scenario says of a ray-traced channel: the radio, two nodes, and what reflects.
#
# Where a number comes from stands beside it. *Paper*: paper 002, section II. *Ours*: the paper gives none.


MOST_STEPS = 1_000_000
"""Maximum number of samples of a channel: 1,000 s at 1 ms, about a second of computing per ray (not measured)."""
MOST_ORDER = 3
"""Maximum number of reflections of a ray.

Not measured: 5 surfaces have 105 sequences of up to three reflections, 100 surfaces have 990,000."""
MOST_SEQUENCES = 10_000
"""Maximum number of surface sequences that are examined: some seconds with 20,000 steps (not measured)."""
_MOST_M = 100_000.0
"""Maximum length and coordinate: 100 km (not measured); the flat-earth model ends long before."""


def _check_range(owner: object, minimum: float, most: float, *keys: str) -> None:
    """Raise an error unless the attributes `keys` of `owner` are finite numbers from `minimum` to `most`."""
    for key in keys:
        value = getattr(owner, key)
        if not (isfinite(value) and minimum <= value <= most):
            raise LocalProtocolError(f'"{key}" must be {minimum:,.6g} to {most:,.6g}, but is {value:g}')


@dataclass(frozen=True, slots=True, kw_only=True)
class RayRadioConfig:
    """The carrier wave, the reflection coefficients and the time steps."""

    frequency_mhz: float = 915.0
    """The centre of the band of 902 to 928 MHz (paper)."""
    power_dbm: float = 0.0
    """Transmitted power; both antennas radiate equally in all directions, with gain 1 (paper)."""
    order: int = 1
    """Maximum number of reflections of a ray (paper: 1)."""
    reflection: Literal["constant", "fresnel"] = "constant"
    """Reflection factor: `coefficient`, or Fresnel's formula for angle and material."""
    coefficient: float = -1.0
    """Reflection coefficient of all surfaces, the ground included (paper)."""
    ground: bool = True
    """Whether the plane at height 0 reflects."""
    ground_permittivity: float = 15.0
    """Relative permittivity of medium dry ground (ITU-R P.527 gives 15)."""
    ground_conductivity: float = 0.035
    """Conductivity in S/m of medium dry ground at 915 MHz (ITU-R P.527, read from its figure)."""
    wall_permittivity: float = 5.31
    """Relative permittivity of concrete (ITU-R P.2040, table 3)."""
    wall_conductivity: float = 0.03
    """Conductivity in S/m of concrete at 915 MHz (ITU-R P.2040: 0.0326 f^0.8095, f in GHz)."""
    step_ns: int = NS_PER_MS
    """Interval of two power samples (our choice: 3 cm at 30 m/s, a tenth of the wavelength)."""
    duration_ns: int = 20 * NS_PER_S
    """Duration of the computed channel (paper: 20 s); after it the last value remains."""

    def __post_init__(self) -> None:
        _check_range(self, 1, 100_000, "frequency_mhz")
        _check_range(self, -200, 200, "power_dbm")
        _check_range(self, -1, 1, "coefficient")
        _check_range(self, 1, 1000, "ground_permittivity", "wall_permittivity")
        _check_range(self, 0, 1e8, "ground_conductivity", "wall_conductivity")
        if not 0 <= self.order <= MOST_ORDER:
            raise LocalProtocolError(
                f'"order" (the maximum number of reflections) must be 0 to {MOST_ORDER}, but is {self.order}'
            )
        if self.step_ns < 1 or not 1 <= self.duration_ns // max(1, self.step_ns) <= MOST_STEPS:
            raise LocalProtocolError(
                f'the number of time steps ("duration_s" divided by "step_s") must be 1 to {MOST_STEPS:,}'
            )

    @property
    def wavelength_m(self) -> float:
        """Wavelength of the carrier in air; 0.328 m at 915 MHz."""
        return 299.792458 / self.frequency_mhz

    @property
    def steps(self) -> int:
        """Number of time steps of the channel."""
        return self.duration_ns // self.step_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Position and motion of a node's antenna: on a line, or on a circle if `radius_m` is above 0."""

    x_m: float = 0.0
    y_m: float = 0.0
    """Start position, or centre of the circle: its y, as `x_m` is its x."""
    height_m: float = 1.5
    """Height of the antenna above the ground (paper)."""
    speed_m_per_s: float = 0.0
    heading_deg: float = 0.0
    """Heading in degrees: 0 towards increasing x, 90 towards increasing y.

    On a circle, angle of the start position."""
    radius_m: float = 0.0
    """Radius of a circle, on which the node moves from x towards y; 0: the node moves on a line."""
    slowest_m_per_s: float = 0.0
    fastest_m_per_s: float = 0.0
    """If above 0, the speed is random: uniform from slowest to fastest, drawn every `speed_every_s` seconds."""
    speed_every_s: float = 1.0
    """Time after which a new random speed is drawn (our choice)."""

    def __post_init__(self) -> None:
        _check_range(self, -_MOST_M, _MOST_M, "x_m", "y_m")
        _check_range(self, 0, _MOST_M, "radius_m", "height_m")
        _check_range(self, -1000, 1000, "speed_m_per_s")
        _check_range(self, 0, 1000, "slowest_m_per_s", "fastest_m_per_s")
        _check_range(self, -360, 360, "heading_deg")
        _check_range(self, 0.001, 86_400, "speed_every_s")
        if self.height_m == 0:
            raise LocalProtocolError('"height_m" must be above 0, because the antenna must be above the ground')
        if self.slowest_m_per_s > self.fastest_m_per_s:
            raise LocalProtocolError('"slowest_m_per_s" must not be above "fastest_m_per_s"')


@dataclass(frozen=True, slots=True, kw_only=True)
class WallConfig:
    """A thin wall on the ground, which reflects on both sides."""

    from_x_m: float
    from_y_m: float
    to_x_m: float
    to_y_m: float
    height_m: float = 10.0
    """Height of the wall (our choice)."""

    def __post_init__(self) -> None:
        _check_range(self, -_MOST_M, _MOST_M, "from_x_m", "from_y_m", "to_x_m", "to_y_m")
        _check_range(self, 0.001, _MOST_M, "height_m")
        if (self.from_x_m, self.from_y_m) == (self.to_x_m, self.to_y_m):
            raise LocalProtocolError("both ends of a wall are the same point; the ends must be two different points")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildingConfig:
    """A solid box on the ground with sides parallel to x and y."""

    x_m: float
    y_m: float
    """Corner with the minimum x and y: its y, as `x_m` is its x."""
    length_m: float
    """Length along x."""
    width_m: float
    """Width along y."""
    height_m: float = 10.0
    """Height of the building (our choice)."""

    def __post_init__(self) -> None:
        _check_range(self, -_MOST_M, _MOST_M, "x_m", "y_m")
        _check_range(self, 0.001, _MOST_M, "length_m", "width_m", "height_m")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreetConfig:
    """A street along x, centred at y = 0, with equal buildings on both sides; no street if `width_m` is 0."""

    width_m: float = 0.0
    first_m: float = 0.0
    """Start of the street and of its first building: x."""
    buildings: int = 10
    """Number of buildings on each side; the street ends after the last building and its gap."""
    building_m: float = 50.0
    """Length of a building along the street (paper)."""
    gap_m: float = 20.0
    """Gap between two buildings (paper)."""
    depth_m: float = 20.0
    """Depth of a building away from the street (our choice; it has no effect with one reflection)."""
    height_m: float = 10.0
    """Height of the buildings (our choice: it only must exceed the antennas' height)."""

    def __post_init__(self) -> None:
        _check_range(self, -_MOST_M, _MOST_M, "first_m")
        _check_range(self, 0, _MOST_M, "width_m", "gap_m")
        _check_range(self, 0.001, _MOST_M, "building_m", "depth_m", "height_m")
        _check_range(self, 1, 200, "buildings")

    @property
    def end_m(self) -> float:
        """End of the street: its x coordinate in m."""
        return self.first_m + self.buildings * (self.building_m + self.gap_m)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoadConfig:
    """A lane along x with passing cars of random lengths and gaps; no cars if `longest_m` is 0."""

    y_m: float = 10.0
    """Middle of the lane: y; the paper's nodes are 10 m away."""
    speed_m_per_s: float = 30.2
    """Speed of all cars, towards increasing x if positive (paper)."""
    shortest_m: float = 0.0
    longest_m: float = 0.0
    """Maximum length of a car; lengths are uniform (paper: 2 to 5.6 m)."""
    least_gap_m: float = 1.0
    most_gap_m: float = 30.0
    """Maximum gap between two cars; gaps are uniform (paper)."""
    car_width_m: float = 1.8
    """Width of a car (our choice: the reflecting side is half a width nearer than the middle of the lane)."""
    car_height_m: float = 1.6
    """Height of a car (our choice: it must exceed the antennas' height, or the cars would reflect nothing)."""
    from_x_m: float = -50.0
    to_x_m: float = 150.0
    """Maximum x at which there are cars (our choice: cars beyond it are far from both nodes)."""

    def __post_init__(self) -> None:
        _check_range(self, -_MOST_M, _MOST_M, "y_m", "from_x_m", "to_x_m")
        _check_range(self, -1000, 1000, "speed_m_per_s")
        _check_range(self, 0, 100, "shortest_m", "longest_m")
        _check_range(self, 0.1, _MOST_M, "least_gap_m", "most_gap_m")
        _check_range(self, 0.001, 100, "car_width_m", "car_height_m")
        for minimum, most in (("shortest_m", "longest_m"), ("least_gap_m", "most_gap_m"), ("from_x_m", "to_x_m")):
            if getattr(self, minimum) > getattr(self, most):
                raise LocalProtocolError(f'"{minimum}" must not be above "{most}"')
        if self.longest_m > 0 and self.shortest_m < 0.1:
            raise LocalProtocolError('"shortest_m" must be at least 0.1')


@dataclass(frozen=True, slots=True, kw_only=True)
class RayConfig:
    """Configuration of a complete ray-traced channel."""

    radio: RayRadioConfig = field(default_factory=RayRadioConfig)
    mobile: NodeConfig = field(default_factory=lambda: NodeConfig(x_m=10.0))
    fixed: NodeConfig = field(default_factory=NodeConfig)
    street: StreetConfig = field(default_factory=StreetConfig)
    road: RoadConfig = field(default_factory=RoadConfig)
    wall: tuple[WallConfig, ...] = ()
    building: tuple[BuildingConfig, ...] = ()


# What reflects, and what is in the way: the ground, and upright rectangles that may move.


_X, _Y, UP = np.eye(3)  # the third axis is height
ON_IT_M = 1e-9
"""Distance in metres within which a point counts as on a surface: above rounding errors at 100 km, far below a
wavelength."""


@dataclass(frozen=True, slots=True, eq=False)
class Surface:
    """A plane, or an upright rectangle on the ground, which reflects.

    Parameters
    ----------
    normal : (3,) float64
        Unit vector; for the face of a box it points outwards.
    offset_m : (n,) or (1,) float64
        Distance of the plane from the origin along `normal` at each step; one number if constant.
    along : (3,) float64, optional
        Horizontal unit vector from one edge to the other; None for an infinite plane.
    start_m : (n,) or (1,) float64
        Start of the rectangle along `along`.
    length_m, height_m : float
    both_sides : bool
        Whether it also reflects on the side opposite to `normal`.
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
        """Return the distance in m of points from the plane at the steps `rows`, (n,) or (1,).

        It is positive on the outer side, to which `normal` points.
        """
        return np.asarray(points @ self.normal - _at(self.offset_m, rows))

    def holds(self, begin: Array, end: Array, share: Array, rows: Array) -> Mask:
        """Return a mask of the lines that meet the surface's plane within the surface's edges.

        A line meets the plane at fraction `share` of the way from `begin` to `end`.
        """
        if self.along is None:
            return np.ones(1, dtype=np.bool_)
        along_m = _between(begin @ self.along, end @ self.along, share) - _at(self.start_m, rows)
        height_m = _between(begin[:, 2], end[:, 2], share)
        inside = (along_m >= -ON_IT_M) & (along_m <= self.length_m + ON_IT_M)
        return np.asarray(inside & (height_m >= -ON_IT_M) & (height_m <= self.height_m + ON_IT_M))

    def crossed(self, begin: Array, end: Array, rows: Array) -> Mask:
        """Return a mask of the lines from `begin` to `end` that pass through the surface.

        To touch it is not enough.
        """
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
    """Return the lengths of vectors, (n, 3) to (n,).

    They are computed column by column, because NumPy takes 1 ms for 20,000 vectors along rows.
    """
    x, y, z = vectors.T
    return np.asarray(np.sqrt(x * x + y * y + z * z))


GROUND = Surface(UP, np.zeros(1), kind="ground")
"""The ground: the plane at height 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Solid:
    """A solid that blocks rays: a wall, or a box with its four sides.

    Parameters
    ----------
    name : str
        Name in messages.
    faces : tuple of Surface
        The sides; a wall has one.
    low, high : tuple of three (n,) or (1,) float64
        Minimum and maximum x, y and height at each step.
    """

    name: str
    faces: tuple[Surface, ...]
    low: tuple[Array, Array, Array]
    high: tuple[Array, Array, Array]

    @property
    def is_box(self) -> bool:
        """Whether the solid is a box, which has an inside."""
        return len(self.faces) > 1

    def contains(self, points: Array) -> Mask:
        """Return a mask of the steps at which a point is inside the box or on its sides, (n,) or (1,)."""
        inside = np.ones(1, dtype=np.bool_)
        for axis in (1, 2, 0):  # most boxes are beside the way, some far along it
            at = points[:, axis]
            inside = inside & (at >= self.low[axis]) & (at <= self.high[axis])
            if not inside.any():
                break
        return np.asarray(inside)


def wall(begin: tuple[float, float], end: tuple[float, float], height_m: float) -> Solid:
    """Return a thin wall between two points on the ground."""
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
    """Return a box with sides parallel to x and y.

    Parameters
    ----------
    name : str
    x_m : (n,) or (1,) float64
        Minimum x of the box at each step.
    y_m : float
        Minimum y of the box.
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


# The objects of a channel: all that reflects, and all that is in the way.


_TOUCH_M = 1e-9
"""Boxes that overlap by less than this only touch: rounding errors, as for surfaces."""


class Scene:
    """Solid objects, and all reflecting surfaces with the ground.

    Parameters
    ----------
    config : RayConfig
    times_s : (n,) float64
        The steps.
    luck : Random
        Random generator for the cars on the road.

    Raises
    ------
    LocalProtocolError
        If there are too many surfaces for the number of reflections.
    """

    def __init__(self, config: RayConfig, times_s: Array, *, luck: Random) -> None:
        self.steps = len(times_s)
        self.solids: list[Solid] = [
            wall((each.from_x_m, each.from_y_m), (each.to_x_m, each.to_y_m), each.height_m) for each in config.wall
        ]
        for each in config.building:
            size = each.length_m, each.width_m, each.height_m
            self.solids.append(box("a building", np.array([each.x_m]), each.y_m, size))
        self.solids += [*_buildings(config.street), *_cars(config.road, times_s, luck)]
        faces = [face for solid in self.solids for face in solid.faces]
        self.surfaces: list[Surface] = [GROUND] * config.radio.ground + faces
        _check_sequences(len(self.surfaces), config.radio.order)
        self._low = np.array([[axis.min() for axis in solid.low] for solid in self.solids]).reshape(-1, 3)
        self._high = np.array([[axis.max() for axis in solid.high] for solid in self.solids]).reshape(-1, 3)

    def blocked(self, points: list[Array], rows: Array) -> Mask:
        """Return a mask of the steps at which the path through `points` crosses a wall or a box."""
        mask = np.zeros(max(len(each) for each in points), dtype=np.bool_)
        for begin, end in pairwise(points):
            axes = [*zip(begin.T, end.T, strict=True)]  # NumPy takes 1.6 ms for the rows of 20,000 points
            low = np.array([min(one.min(), other.min()) for one, other in axes])
            high = np.array([max(one.max(), other.max()) for one, other in axes])
            for number in np.flatnonzero(self._near(low, high)):
                for face in self.solids[number].faces:
                    mask = mask | face.crossed(begin, end, rows)
        return mask

    def _near(self, low: Array, high: Array) -> Mask:
        """Return a mask of the solids that overlap the box from `low` to `high`.

        If the solid or the box is flat, as a wall is, contact is enough.
        """
        flat = (self._high - self._low) < _TOUCH_M
        slack = np.where(flat | (high - low < _TOUCH_M), -_TOUCH_M, _TOUCH_M)
        return np.asarray(((self._high > low + slack) & (self._low < high - slack)).all(axis=1))


def _check_sequences(surfaces: int, order: int) -> None:
    count = sum(surfaces**reflections for reflections in range(1, order + 1))
    if count > MOST_SEQUENCES:
        raise LocalProtocolError(
            f"{surfaces} surfaces and up to {order} reflections per ray give {count:,} possible ray "
            f'paths, but the maximum is {MOST_SEQUENCES:,}; choose a smaller "order", or fewer '
            "walls, buildings and cars"
        )


def _buildings(street: StreetConfig) -> Iterator[Solid]:
    """Yield the buildings of both sides of a street."""
    if street.width_m == 0:
        return
    size = street.building_m, street.depth_m, street.height_m
    for number in range(street.buildings):
        x_m = street.first_m + number * (street.building_m + street.gap_m)
        for y_m in (street.width_m / 2, -street.width_m / 2 - street.depth_m):
            yield box("a building", np.array([x_m]), y_m, size)


def _cars(road: RoadConfig, times_s: Array, luck: Random) -> Iterator[Solid]:
    """Yield the passing cars, in the order in which they pass."""
    if road.longest_m == 0:
        return
    way_m = abs(road.speed_m_per_s) * float(times_s[-1])
    _check_cars((road.to_x_m - road.from_x_m + way_m) / (road.shortest_m + road.least_gap_m))
    ahead = 1.0 if road.speed_m_per_s >= 0 else -1.0
    first, last = (road.to_x_m, road.from_x_m) if ahead > 0 else (road.from_x_m, road.to_x_m)
    front = first + ahead * luck.uniform(0, road.most_gap_m)
    moved_m = road.speed_m_per_s * times_s
    side_m = road.y_m - road.car_width_m / 2
    while ahead * (front - last) > -way_m:
        length_m = luck.uniform(road.shortest_m, road.longest_m)
        min_x_m = front - length_m if ahead > 0 else front
        size = length_m, road.car_width_m, road.car_height_m
        yield box("a car", min_x_m + moved_m, side_m, size)
        front -= ahead * (length_m + luck.uniform(road.least_gap_m, road.most_gap_m))


def _check_cars(most: float) -> None:
    if 4 * most > MOST_SEQUENCES:
        raise LocalProtocolError(
            f"the road may need up to {most:,.0f} cars, which is too many; choose a shorter road, a "
            "shorter run or longer gaps between cars"
        )


# Places that cannot be: a node inside of something, off its street, or where the other one is.


def check_places(places: Mapping[str, Array], scene: Scene, config: RayConfig, times_s: Array) -> None:
    """Raise an error for impossible paths of nodes.

    Parameters
    ----------
    places : mapping
        Positions by name of the node: (n, 3) or (1, 3) float64, m.
    scene : Scene
    config : RayConfig
    times_s : (n,) float64

    Raises
    ------
    LocalProtocolError
        If a path is impossible; the message names the first time and position.
    """
    one, other = places.values()
    _check_distance(one, other, config.radio, times_s)
    for name, path in places.items():
        _check_street(name, path, config.street, times_s)
        for solid in scene.solids:
            _check_solid(name, path, solid, times_s)


def _check_distance(one: Array, other: Array, radio: RayRadioConfig, times_s: Array) -> None:
    apart_m = lengths(one - other)
    at = int(np.argmin(apart_m))
    if apart_m[at] < radio.wavelength_m:
        raise LocalProtocolError(
            f"the nodes are {apart_m[at]:.3g} m apart at {times_s[at]:.3g} s; their distance must be "
            f"at least one wavelength ({radio.wavelength_m:.3g} m), because the radio model is valid "
            "only in the far field"
        )


def _check_street(name: str, path: Array, street: StreetConfig, times_s: Array) -> None:
    if street.width_m == 0:
        return
    x_m, y_m = path[:, 0], path[:, 1]
    outside = (np.abs(y_m) >= street.width_m / 2) | (x_m < street.first_m) | (x_m > street.end_m)
    if outside.any():
        raise LocalProtocolError(
            f"the {name} node is outside its street "
            f"{_where(path, times_s, int(np.argmax(outside)))}; the street "
            f"goes from x = {street.first_m:g} to {street.end_m:g} m and is {street.width_m:g} m wide"
        )


def _check_solid(name: str, path: Array, solid: Solid, times_s: Array) -> None:
    if solid.is_box:
        inside = solid.contains(path)
        if inside.any():
            at = int(np.argmax(inside))
            raise LocalProtocolError(f"the {name} node is inside {solid.name} {_where(path, times_s, at)}; {_MOVE}")
        return
    touch = _first_touch(solid.faces[0], path)
    if touch is not None:
        raise LocalProtocolError(f"the {name} node is in {solid.name} {_where(path, times_s, touch)}; {_MOVE}")


_MOVE = "move the path of the node, or move the object"


def _first_touch(face: Surface, path: Array) -> int | None:
    """Return the first step at which a path touches or crosses a wall; None if it never does."""
    steps = np.zeros(1, dtype=np.int64)
    distance = face.distance(path, steps)
    touches = (distance == 0) & face.holds(path, path, np.zeros(1), steps)
    if len(path) > 1:
        touches[1:] |= face.crossed(path[:-1], path[1:], steps)
    return int(np.argmax(touches)) if touches.any() else None


def _where(path: Array, times_s: Array, at: int) -> str:
    return f"at {times_s[at]:.3g} s, at x = {path[at, 0]:.4g}, y = {path[at, 1]:.4g} m"
