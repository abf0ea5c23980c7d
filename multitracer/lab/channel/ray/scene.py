"""The objects of a channel: all that reflects, and all that is in the way."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.ray.config import MOST_SEQUENCES
from multitracer.lab.channel.ray.surfaces import GROUND, Solid, Surface, box, wall

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from multitracer.lab.channel.ray.config import RayConfig, RoadConfig, StreetConfig
    from multitracer.tables import Array, Mask

_TOUCH_M = 1e-9
"""Boxes around two things that overlap by less only touch: rounding, as in `surfaces.py`."""


class Scene:
    """Solid things, and the surfaces of them and of the ground.

    Parameters
    ----------
    config : RayConfig
    times_s : (n,) float64
        The steps.
    luck : Random
        For the cars of the road.

    Raises
    ------
    LocalProtocolError
        If it has too many surfaces for so many reflections.
    """

    def __init__(self, config: RayConfig, times_s: Array, *, luck: Random) -> None:
        self.steps = len(times_s)
        self.solids: list[Solid] = [
            wall((each.from_x_m, each.from_y_m), (each.to_x_m, each.to_y_m), each.height_m)
            for each in config.wall
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
        """Return at which of some steps the way along points goes through a wall or a box."""
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
        """Return which solids overlap a box along the axes; a flat one, such as a wall, need only touch."""
        flat = (self._high - self._low) < _TOUCH_M
        slack = np.where(flat | (high - low < _TOUCH_M), -_TOUCH_M, _TOUCH_M)
        return np.asarray(((self._high > low + slack) & (self._low < high - slack)).all(axis=1))


def _check_sequences(surfaces: int, order: int) -> None:
    count = sum(surfaces**reflections for reflections in range(1, order + 1))
    if count > MOST_SEQUENCES:
        raise LocalProtocolError(
            f"{surfaces} surfaces and rays of up to {order} reflections are {count:,} ways to look at; "
            f"choose a smaller order, or fewer walls, buildings and cars (at most {MOST_SEQUENCES:,} ways)"
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
    """Yield the cars that come past, from the one that is first on the way."""
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
        least_x_m = front - length_m if ahead > 0 else front
        size = length_m, road.car_width_m, road.car_height_m
        yield box("a car", least_x_m + moved_m, side_m, size)
        front -= ahead * (length_m + luck.uniform(road.least_gap_m, road.most_gap_m))


def _check_cars(most: float) -> None:
    if 4 * most > MOST_SEQUENCES:
        raise LocalProtocolError(
            f"the road may have {most:,.0f} cars; choose a shorter road, a shorter run or longer gaps"
        )
