"""The ray-traced channel: its physics, its geometry, and what is said of places that cannot be."""

from __future__ import annotations

from math import hypot, log10, pi, sqrt
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.ray import NO_POWER_DBM, channel_of, coefficient, positions, rays_between, received_dbm
from multitracer.lab.channel.ray_scene import (
    GROUND,
    BuildingConfig,
    NodeConfig,
    RayConfig,
    RayRadioConfig,
    RoadConfig,
    Scene,
    StreetConfig,
    WallConfig,
    wall,
)
from multitracer.units import NS_PER_S
from tests.examples import examples

WAVELENGTH_M = 299.792458 / 915
LONG_WALL = WallConfig(from_x_m=-500, from_y_m=0, to_x_m=500, to_y_m=0)


def away(speed_m_per_s: float = 6.0, x_m: float = 10.0, **more: Any) -> RayConfig:
    """Return a channel in which the mobile drives away from the fixed node at the origin."""
    return RayConfig(mobile=NodeConfig(x_m=x_m, speed_m_per_s=speed_m_per_s), **more)


def still(*places: tuple[float, float], height_m: float = 1.5, **more: Any) -> RayConfig:
    """Return a channel of one step between two places."""
    mobile, fixed = (NodeConfig(x_m=x_m, y_m=y_m, height_m=height_m) for x_m, y_m in places)
    radio = more.pop("radio", {})
    return RayConfig(mobile=mobile, fixed=fixed, radio=RayRadioConfig(duration_ns=1_000_000, **radio), **more)


def power(config: RayConfig, seed: int = 1) -> Any:
    return channel_of(config, seed=seed).power_dbm


def lengths(config: RayConfig) -> list[float]:
    """Return the lengths of the rays of the first step, sorted."""
    times_s = np.zeros(1)
    scene = Scene(config, times_s, luck=Random(1))
    source, target = (positions(node, times_s, luck=Random(1)) for node in (config.mobile, config.fixed))
    return sorted(float(ray.length_m[0]) for ray in rays_between(scene, source, target, config.radio))


def test_free_space_falls_by_six_decibels_an_octave() -> None:
    free = RayRadioConfig(ground=False)
    at = {d: power(still((d, 0), (0, 0), radio={"ground": False}))[0] for d in (10, 20, 40, 1280)}
    assert at[10] == pytest.approx(20 * log10(WAVELENGTH_M / (4 * pi * 10)))
    assert at[10] - at[20] == pytest.approx(20 * log10(2))
    assert at[10] - at[1280] == pytest.approx(7 * 20 * log10(2))
    assert power(away(radio=free))[1000] == pytest.approx(20 * log10(WAVELENGTH_M / (4 * pi * 16)))


def test_two_rays_fall_by_twelve_decibels_an_octave_beyond_the_break_point() -> None:
    break_m = 4 * 1.5**2 / WAVELENGTH_M
    assert break_m == pytest.approx(27.5, abs=0.1)
    far = [power(still((d, 0), (0, 0)))[0] for d in (1000, 2000, 4000)]
    assert far[0] - far[1] == pytest.approx(40 * log10(2), abs=0.01)
    assert far[1] - far[2] == pytest.approx(40 * log10(2), abs=0.01)
    assert far[0] == pytest.approx(20 * log10(1.5**2 / 1000**2), abs=0.01)  # P = (h h / d d)^2


def test_nulls_stand_where_the_ground_ray_is_whole_wavelengths_longer() -> None:
    channel = channel_of(away(2.0, x_m=2.0), seed=1)
    where_m = 2.0 + 2.0 * channel.time_ns / NS_PER_S
    lowest = (channel.power_dbm[1:-1] < channel.power_dbm[:-2]) & (channel.power_dbm[1:-1] < channel.power_dbm[2:])
    nulls_m = sorted(where_m[1:-1][lowest])
    by_hand = [(4 * 1.5**2 - (m * WAVELENGTH_M) ** 2) / (2 * m * WAVELENGTH_M) for m in (1, 2, 3, 4)]
    assert by_hand[0] == pytest.approx(13.57, abs=0.01)
    assert nulls_m[::-1] == pytest.approx(by_hand, abs=0.005)


def test_equation_1_of_a_wall_by_hand() -> None:
    config = still((30, 17), (0, 10), wall=(LONG_WALL,))
    ways = [hypot(30, 7), sqrt(30**2 + 7**2 + 3**2), hypot(30, 27)]
    field = sum(sign * np.exp(-2j * pi * d / WAVELENGTH_M) / d for sign, d in zip((1, -1, -1), ways, strict=True))
    assert lengths(config) == pytest.approx(sorted(ways))
    assert power(config)[0] == pytest.approx(20 * log10(WAVELENGTH_M / (4 * pi) * abs(field)))


def test_without_reflection_only_the_direct_ray_is_left() -> None:
    street, road = StreetConfig(width_m=40, first_m=-50), RoadConfig(shortest_m=2, longest_m=5.6)
    silent = still((60, 0), (0, 0), street=street, road=road, radio={"coefficient": 0.0})
    assert power(silent) == pytest.approx(power(still((60, 0), (0, 0), radio={"order": 0})))
    assert power(silent) == pytest.approx(20 * log10(WAVELENGTH_M / (4 * pi * 60)))


@given(
    places=st.lists(st.tuples(st.floats(-6.5, 6.5), st.floats(-4.5, 4.5)), min_size=2, max_size=2),
    order=st.integers(0, 3),
    reflection=st.sampled_from(["constant", "fresnel"]),
)
@examples(40)
def test_both_directions_receive_the_same(places: Any, order: int, reflection: str) -> None:
    if hypot(places[0][0] - places[1][0], places[0][1] - places[1][1]) < 1:
        return
    room = ((-7, -5, 7, -5), (7, -5, 7, 5), (7, 5, -7, 5), (-7, 5, -7, -5))
    walls = tuple(WallConfig(**dict(zip(("from_x_m", "from_y_m", "to_x_m", "to_y_m"), w, strict=True))) for w in room)
    radio = {"order": order, "reflection": reflection}
    there, back = (still(*pair, wall=walls, radio=radio) for pair in (places, places[::-1]))
    assert lengths(there) == pytest.approx(lengths(back))
    assert power(there) == pytest.approx(power(back), abs=1e-6)


def test_a_corner_sends_one_ray_back_by_both_walls() -> None:
    corner = (LONG_WALL, WallConfig(from_x_m=0, from_y_m=-500, to_x_m=0, to_y_m=500))
    config = still((3, 4), (5, 1), wall=corner, radio={"order": 2, "ground": False})
    ways = [hypot(2, 3), hypot(8, 3), hypot(2, 5), hypot(8, 5)]
    assert lengths(config) == pytest.approx(sorted(ways))
    assert len(lengths(still((3, 4), (5, 1), wall=corner, radio={"order": 3}))) == 8  # the ground, too


def test_a_ray_into_an_edge_counts_once() -> None:
    for order, count in ((1, 3), (2, 4)):
        level = still((3, 4), (9, 4), wall=(LONG_WALL,), radio={"order": order})
        assert len(lengths(level)) == count  # ground and wall meet where the ray does


def test_a_wall_reflects_only_where_it_stands() -> None:
    def count(begin_m: float, end_m: float, height_m: float = 10) -> int:
        short = WallConfig(from_x_m=begin_m, from_y_m=0, to_x_m=end_m, to_y_m=0, height_m=height_m)
        return len(lengths(still((10, 4), (0, 4), wall=(short,), radio={"ground": False})))

    assert (count(4, 6), count(5.1, 9), count(0, 4.9)) == (2, 1, 1)
    assert (count(4, 6, 1.4), count(4, 6, 1.6)) == (1, 2)


def test_a_building_hides_what_is_behind_it() -> None:
    tower = BuildingConfig(x_m=4, y_m=-1, length_m=2, width_m=2)
    hidden = still((10, 0), (0, 0), building=(tower,), radio={"ground": False})
    assert lengths(hidden) == []
    assert power(hidden)[0] == pytest.approx(NO_POWER_DBM)
    low = still((10, 0), (0, 0), building=(BuildingConfig(x_m=4, y_m=-1, length_m=2, width_m=2, height_m=1),))
    assert lengths(low) == [10.0]  # over it, and no ray by the ground
    aside = still((10, 4), (0, 4), building=(tower,), radio={"ground": False})
    assert lengths(aside) == pytest.approx([10.0, hypot(10, 6)])  # by its near side at y = 1, no other one
    long = BuildingConfig(x_m=0.5, y_m=-1, length_m=9, width_m=2)
    behind = still(
        (10, 2),
        (0, 2),
        building=(long,),
        wall=(WallConfig(from_x_m=-20, from_y_m=-9, to_x_m=20, to_y_m=-9),),
        radio={"ground": False},
    )
    assert lengths(behind) == pytest.approx([10.0, hypot(10, 2)])  # the wall behind it cannot be seen


def test_a_car_reflects_while_it_passes() -> None:
    road = RoadConfig(shortest_m=4, longest_m=4, least_gap_m=200, most_gap_m=200, speed_m_per_s=30)
    config = RayConfig(mobile=NodeConfig(x_m=60), road=road, radio=RayRadioConfig(ground=False))
    received = power(config)
    reflects = np.flatnonzero(np.abs(received - received[0]) > 1e-9)
    bursts = np.split(reflects, np.flatnonzero(np.diff(reflects) > 1) + 1)
    assert [len(burst) for burst in bursts] == pytest.approx([4 / 30 * 1000] * len(bursts), abs=1)
    assert np.diff([burst[0] for burst in bursts]) == pytest.approx(204 / 30 * 1000, abs=1)


def test_fresnel_at_the_ends_of_its_range() -> None:
    radio = RayRadioConfig(reflection="fresnel", wall_conductivity=0, ground_conductivity=0)
    (side,) = wall((0, 0), (1, 0), 1).faces
    index = sqrt(radio.wall_permittivity)
    at = np.asarray(coefficient(radio, side, np.array([0.0, 1.0])))
    assert at == pytest.approx([-1, (1 - index) / (1 + index)])
    of_ground = np.asarray(coefficient(radio, GROUND, np.array([0.0, 1.0])))
    index = sqrt(radio.ground_permittivity)
    assert of_ground == pytest.approx([-1, (index - 1) / (index + 1)])
    brewster = coefficient(radio, GROUND, np.sin(np.arctan(np.array([1 / index]))))
    assert abs(np.asarray(brewster)[0]) == pytest.approx(0, abs=1e-12)


def test_a_node_on_a_circle_and_one_with_a_drawn_speed() -> None:
    times_s = np.arange(0, 20, 0.5)
    round_ = positions(NodeConfig(radius_m=5, x_m=1, speed_m_per_s=2), times_s, luck=Random(1))
    assert np.hypot(round_[:, 0] - 1, round_[:, 1]) == pytest.approx(5)
    assert round_[:2, 1] == pytest.approx([0, 5 * np.sin(0.2)])
    drawn = positions(NodeConfig(slowest_m_per_s=15, fastest_m_per_s=20), times_s, luck=Random(1))
    speeds = np.diff(drawn[:, 0]) / 0.5
    assert speeds.min() > 15
    assert speeds.max() < 20
    assert speeds[::2] == pytest.approx([*speeds[1::2].tolist(), speeds[-1]], abs=1e-9)


def test_one_seed_is_one_channel() -> None:
    config = away(0, x_m=60, road=RoadConfig(shortest_m=2, longest_m=5.6))
    assert power(config).tobytes() == power(config).tobytes()
    assert power(config).tobytes() != power(config, seed=2).tobytes()


def test_no_ray_is_no_power_and_no_warning() -> None:
    assert received_dbm([], RayRadioConfig(duration_ns=3_000_000)) == pytest.approx([NO_POWER_DBM] * 3)


HOUSE = BuildingConfig(x_m=20, y_m=-5, length_m=10, width_m=10)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (away(building=(HOUSE,)), "the mobile node is inside a building at 1.67 s, at x = 20"),
        (still((60, 0), (25, 0), building=(HOUSE,)), "the fixed node is inside a building at 0 s"),
        (
            away(wall=(WallConfig(from_x_m=40, from_y_m=-1, to_x_m=40, to_y_m=1),)),
            "the mobile node is in a wall at 5 s, at x = 40",
        ),
        (
            still((60, 0), (0, 5), wall=(WallConfig(from_x_m=50, from_y_m=0, to_x_m=70, to_y_m=0),)),
            "the mobile node is in a wall at 0 s",
        ),
        (away(-5.0), "the nodes are 0 m apart at 2 s; their distance must be at least one wavelength (0.328 m)"),
        (still((0, 0), (0, 0)), "the nodes are 0 m apart at 0 s"),
        (
            away(street=StreetConfig(width_m=20, buildings=1)),
            "the mobile node is outside its street at 10 s, at x = 70.01",
        ),
        (still((30, 11), (0, 0), street=StreetConfig(width_m=20)), "the mobile node is outside its street at 0 s"),
        (
            still((30, 1), (0, 0), street=StreetConfig(width_m=20), radio={"order": 3}),
            "possible ray paths, but the maximum is",
        ),
        (away(road=RoadConfig(shortest_m=0.1, longest_m=1, least_gap_m=0.1)), "the road may need up to 4,020 cars"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(config: RayConfig, says: str) -> None:
    with pytest.raises(LocalProtocolError) as refused:
        channel_of(config, seed=1)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: NodeConfig(x_m=float("nan")), '"x_m" must be -100,000 to 100,000'),
        (lambda: NodeConfig(height_m=0), "the antenna must be above the ground"),
        (lambda: NodeConfig(slowest_m_per_s=3, fastest_m_per_s=2), '"slowest_m_per_s" must not be above'),
        (lambda: RayRadioConfig(order=9), "must be 0 to 3, but is 9"),
        (lambda: RayRadioConfig(step_ns=1), "must be 1 to 1,000,000"),
        (lambda: RayRadioConfig(step_ns=0), "the number of time steps"),
        (lambda: RayRadioConfig(coefficient=2), '"coefficient" must be -1 to 1'),
        (lambda: WallConfig(from_x_m=1, from_y_m=1, to_x_m=1, to_y_m=1), "both ends of a wall are the same point"),
        (lambda: RoadConfig(least_gap_m=4, most_gap_m=3), '"least_gap_m" must not be above'),
        (lambda: RoadConfig(longest_m=3), '"shortest_m" must be at least 0.1'),
        (lambda: StreetConfig(buildings=0), "must be 1 to 200, but is 0"),
    ],
)
def test_a_wrong_number_is_refused(make: Any, says: str) -> None:
    with pytest.raises(LocalProtocolError) as refused:
        make()
    assert says in str(refused.value)
