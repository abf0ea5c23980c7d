"""What a scenario says of a ray-traced channel: the radio, two nodes, and what reflects.

Where a number comes from stands beside it. *Paper*: paper 002, section II. *Ours*: the paper gives none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import Literal

from multitracer.errors import LocalProtocolError
from multitracer.units import NS_PER_MS, NS_PER_S

MOST_STEPS = 1_000_000
"""Samples of a channel: not measured, a thousand seconds at 1 ms and about a second of computing a ray."""
MOST_ORDER = 3
"""Reflections of a ray: not measured; 5 surfaces have 105 sequences of up to three, 100 have 990,000."""
MOST_SEQUENCES = 10_000
"""Sequences of surfaces that are looked at: not measured, some seconds with 20,000 steps."""
_MOST_M = 100_000.0
"""Lengths and places: 100 km; not measured, a flat earth ends long before."""


def _check_range(owner: object, least: float, most: float, *keys: str) -> None:
    """Refuse a number outside of a range, and what is no number."""
    for key in keys:
        value = getattr(owner, key)
        if not (isfinite(value) and least <= value <= most):
            raise LocalProtocolError(f"{key} is {value:g}; choose {least:,.6g} to {most:,.6g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RadioConfig:
    """The wave, what a reflection leaves of it, and the steps in time."""

    frequency_mhz: float = 915.0
    """The centre of the band of 902 to 928 MHz (paper)."""
    power_dbm: float = 0.0
    """Transmitted; both antennas radiate alike in all directions, with gain 1 (paper)."""
    order: int = 1
    """Reflections of a ray at most (paper: single ones)."""
    reflection: Literal["constant", "fresnel"] = "constant"
    """Whether a reflection multiplies by `coefficient`, or by Fresnel's factor of angle and material."""
    coefficient: float = -1.0
    """Of all that reflects, the ground too (paper)."""
    ground: bool = True
    """Whether the plane at height 0 reflects."""
    ground_permittivity: float = 15.0
    """Relative, of medium dry ground (ITU-R P.527 gives 15)."""
    ground_conductivity: float = 0.035
    """S/m, of medium dry ground at 915 MHz (ITU-R P.527, read from its figure)."""
    wall_permittivity: float = 5.31
    """Relative, of concrete (ITU-R P.2040, table 3)."""
    wall_conductivity: float = 0.03
    """S/m, of concrete at 915 MHz (ITU-R P.2040: 0.0326 f^0.8095, f in GHz)."""
    step_ns: int = NS_PER_MS
    """Between two samples of the power (ours: 3 cm at 30 m/s, a tenth of the wavelength)."""
    duration_ns: int = 20 * NS_PER_S
    """How long it is computed for (paper: 20 s); later the last value holds."""

    def __post_init__(self) -> None:
        _check_range(self, 1, 100_000, "frequency_mhz")
        _check_range(self, -200, 200, "power_dbm")
        _check_range(self, -1, 1, "coefficient")
        _check_range(self, 1, 1000, "ground_permittivity", "wall_permittivity")
        _check_range(self, 0, 1e8, "ground_conductivity", "wall_conductivity")
        if not 0 <= self.order <= MOST_ORDER:
            raise LocalProtocolError(f"order is {self.order}; choose 0 to {MOST_ORDER}")
        if self.step_ns < 1 or not 1 <= self.duration_ns // max(1, self.step_ns) <= MOST_STEPS:
            raise LocalProtocolError(
                f"duration_s over step_s is the number of steps; choose 1 to {MOST_STEPS:,}"
            )

    @property
    def wavelength_m(self) -> float:
        """Of the carrier in air; 0.328 m at 915 MHz."""
        return 299.792458 / self.frequency_mhz

    @property
    def steps(self) -> int:
        """How many samples the channel has."""
        return self.duration_ns // self.step_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Where a node's antenna is, and how it moves: on a line, or on a circle if `radius_m` is above 0."""

    x_m: float = 0.0
    y_m: float = 0.0
    """Where it begins, or the centre of its circle."""
    height_m: float = 1.5
    """Of the antenna above the ground (paper)."""
    speed_m_per_s: float = 0.0
    heading_deg: float = 0.0
    """On a line: 0 towards growing x, 90 towards growing y. On a circle: where it begins, from its centre."""
    radius_m: float = 0.0
    """Of the circle, which is gone round from x to y; 0: a line."""
    slowest_m_per_s: float = 0.0
    fastest_m_per_s: float = 0.0
    """If above 0, the speed is not the fixed one: it is drawn evenly between these each `speed_every_s`."""
    speed_every_s: float = 1.0
    """How long a drawn speed holds (ours)."""

    def __post_init__(self) -> None:
        _check_range(self, -_MOST_M, _MOST_M, "x_m", "y_m")
        _check_range(self, 0, _MOST_M, "radius_m", "height_m")
        _check_range(self, -1000, 1000, "speed_m_per_s")
        _check_range(self, 0, 1000, "slowest_m_per_s", "fastest_m_per_s")
        _check_range(self, -360, 360, "heading_deg")
        _check_range(self, 0.001, 86_400, "speed_every_s")
        if self.height_m == 0:
            raise LocalProtocolError("height_m is 0; an antenna is above the ground")
        if self.slowest_m_per_s > self.fastest_m_per_s:
            raise LocalProtocolError("slowest_m_per_s is above fastest_m_per_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class WallConfig:
    """A thin wall on the ground, which reflects on both sides."""

    from_x_m: float
    from_y_m: float
    to_x_m: float
    to_y_m: float
    height_m: float = 10.0
    """Ours."""

    def __post_init__(self) -> None:
        _check_range(self, -_MOST_M, _MOST_M, "from_x_m", "from_y_m", "to_x_m", "to_y_m")
        _check_range(self, 0.001, _MOST_M, "height_m")
        if (self.from_x_m, self.from_y_m) == (self.to_x_m, self.to_y_m):
            raise LocalProtocolError("a wall is as long as 0 m; give two places")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildingConfig:
    """A solid box on the ground, its sides along x and y."""

    x_m: float
    y_m: float
    """Its corner with the least x and y."""
    length_m: float
    """Along x."""
    width_m: float
    """Along y."""
    height_m: float = 10.0
    """Ours."""

    def __post_init__(self) -> None:
        _check_range(self, -_MOST_M, _MOST_M, "x_m", "y_m")
        _check_range(self, 0.001, _MOST_M, "length_m", "width_m", "height_m")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreetConfig:
    """A street along x, around y = 0, with rows of equal buildings on both sides; none with `width_m` 0."""

    width_m: float = 0.0
    first_m: float = 0.0
    """Where the first building begins, and the street."""
    buildings: int = 10
    """On each side; after the last one and its gap the street ends."""
    building_m: float = 50.0
    """Along the street (paper)."""
    gap_m: float = 20.0
    """Between two buildings (paper)."""
    depth_m: float = 20.0
    """Away from the street (ours; nothing depends on it with rays of one reflection)."""
    height_m: float = 10.0
    """Ours: more than the antennas' height is all that matters."""

    def __post_init__(self) -> None:
        _check_range(self, -_MOST_M, _MOST_M, "first_m")
        _check_range(self, 0, _MOST_M, "width_m", "gap_m")
        _check_range(self, 0.001, _MOST_M, "building_m", "depth_m", "height_m")
        _check_range(self, 1, 200, "buildings")

    @property
    def end_m(self) -> float:
        """Where the street ends."""
        return self.first_m + self.buildings * (self.building_m + self.gap_m)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoadConfig:
    """A road along x on which cars pass, with random lengths and gaps; none with `longest_m` 0."""

    y_m: float = 10.0
    """The middle of its lane; the paper's nodes sit 10 m away."""
    speed_m_per_s: float = 30.2
    """Of all cars, towards growing x if positive (paper)."""
    shortest_m: float = 0.0
    longest_m: float = 0.0
    """Length of a car, drawn evenly (paper: 2 to 5.6 m)."""
    least_gap_m: float = 1.0
    most_gap_m: float = 30.0
    """Between two cars, drawn evenly (paper)."""
    car_width_m: float = 1.8
    """Ours: the side that reflects is half of it nearer than the lane's middle."""
    car_height_m: float = 1.6
    """Ours: more than the antennas' height, or the paper's cars would reflect nothing."""
    from_x_m: float = -50.0
    to_x_m: float = 150.0
    """Cars outside of this stretch are not looked at (ours: they are far from both nodes)."""

    def __post_init__(self) -> None:
        _check_range(self, -_MOST_M, _MOST_M, "y_m", "from_x_m", "to_x_m")
        _check_range(self, -1000, 1000, "speed_m_per_s")
        _check_range(self, 0, 100, "shortest_m", "longest_m")
        _check_range(self, 0.1, _MOST_M, "least_gap_m", "most_gap_m")
        _check_range(self, 0.001, 100, "car_width_m", "car_height_m")
        for least, most in (
            ("shortest_m", "longest_m"),
            ("least_gap_m", "most_gap_m"),
            ("from_x_m", "to_x_m"),
        ):
            if getattr(self, least) > getattr(self, most):
                raise LocalProtocolError(f"{least} is above {most}")
        if self.longest_m > 0 and self.shortest_m < 0.1:
            raise LocalProtocolError("shortest_m is below 0.1; a car has a length")


@dataclass(frozen=True, slots=True, kw_only=True)
class RayConfig:
    """A whole ray-traced channel."""

    radio: RadioConfig = field(default_factory=RadioConfig)
    mobile: NodeConfig = field(default_factory=lambda: NodeConfig(x_m=10.0))
    fixed: NodeConfig = field(default_factory=NodeConfig)
    street: StreetConfig = field(default_factory=StreetConfig)
    road: RoadConfig = field(default_factory=RoadConfig)
    wall: tuple[WallConfig, ...] = ()
    building: tuple[BuildingConfig, ...] = ()
