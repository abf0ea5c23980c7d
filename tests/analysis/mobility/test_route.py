"""The route: distances computed by hand, noise of a parked receiver, gaps, leaps, hostile rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.analysis.mobility.route import EARTH_M, GAP_S, PARKED_NOISE_M, route_of
from multitracer.schemas.radio import POSITION
from multitracer.tables import NOT_A_TIME, Row
from tests.analysis.mobility.tables import at_ns, table_of

DEGREE_M = EARTH_M * math.pi / 180
"""A degree of latitude, anywhere."""


def north(at: float, metres: float, **more: object) -> Row:
    return {"at": at, "lat_deg": 50 + metres / DEGREE_M, "lon_deg": 8.0, **more}


def test_distance_along_a_meridian_is_the_arc() -> None:
    route = route_of(table_of(POSITION, [north(t, 20.0 * t) for t in range(11)]))
    assert route.length_m == pytest.approx(200.0, abs=1e-5)
    heading = route.table["heading_deg"][route.table["moved"]]
    assert np.cos(np.radians(heading)) == pytest.approx(np.ones(len(heading)))


def test_distance_along_a_parallel_shrinks_with_the_cosine() -> None:
    rows = [{"at": t, "lat_deg": 60.0, "lon_deg": 0.0001 * t} for t in range(0, 100, 5)]
    expected = 0.0095 * DEGREE_M * math.cos(math.radians(60))
    assert route_of(table_of(POSITION, rows)).length_m == pytest.approx(expected, rel=1e-6)


def test_position_between_two_fixes_is_interpolated() -> None:
    route = route_of(table_of(POSITION, [north(0, 0), north(10, 100)]))
    places = route.at(np.array([at_ns(0), at_ns(2.5), at_ns(10)]))
    assert (places.lat_deg - 50) * DEGREE_M == pytest.approx([0, 25, 100], abs=1e-3)
    assert places.distance_m == pytest.approx([0, 25, 100], abs=1e-3)
    assert np.cos(np.radians(places.heading_deg)) == pytest.approx([1, 1, 1])


def test_position_outside_and_in_a_gap_is_missing() -> None:
    route = route_of(table_of(POSITION, [north(0, 0), north(5, 100), north(5 + GAP_S + 1, 400)]))
    places = route.at(np.array([at_ns(-1), at_ns(8), at_ns(17), NOT_A_TIME, at_ns(16), at_ns(5)]))
    assert np.isnan(places.lat_deg).tolist() == [True, True, True, True, False, False]
    assert route.length_m == pytest.approx(400, abs=1e-3)  # the straight line is the least it drove
    assert route.gaps["reason"].tolist() == ["no position for 11 s and 300 m"]


def test_of_positions_at_one_time_the_last_is_where_it_was() -> None:
    """A logger of the UCC data set begins with the place where it last ran, at the time of its first own."""
    route = route_of(table_of(POSITION, [north(0, -4000), north(0, 0), north(10, 100)]))
    places = route.at(np.array([at_ns(0), at_ns(5), at_ns(10)]))
    assert (places.lat_deg - 50) * DEGREE_M == pytest.approx([0, 50, 100], abs=1e-3)


def test_longer_gap_is_bridged_when_asked_for() -> None:
    route = route_of(table_of(POSITION, [north(0, 0), north(60, 600)]), gap_s=60)
    assert route.at(np.array([at_ns(30)])).distance_m[0] == pytest.approx(300, abs=1e-3)


def test_interpolation_follows_the_speed_between_rare_positions() -> None:
    """A car that stands for 20 s and then drives 100 m is not seen creeping all the time."""
    rows: list[Row] = [north(0, 0, speed_mps=0.0)]
    rows += [{"at": t, "speed_mps": 0.0} for t in range(1, 20)] + [{"at": 20, "speed_mps": 0.0}]
    rows += [{"at": t, "speed_mps": 10.0} for t in (20.001, 25.0)] + [north(30.001, 100, speed_mps=10.0)]
    places = route_of(table_of(POSITION, rows)).at(np.array([at_ns(15), at_ns(25.001)]))
    assert places.distance_m == pytest.approx([0, 50], abs=0.1)


def test_leap_is_a_gap_with_a_name_and_adds_no_distance() -> None:
    rows = [north(t, 10.0 * t) for t in range(5)] + [north(t, 300_000 + 10.0 * t) for t in range(5, 10)]
    route = route_of(table_of(POSITION, rows))
    assert route.gaps["kind"].tolist() == ["leap"]
    assert route.gaps["reason"].tolist() == ["leap of 300.0 km in 1 s"]
    assert route.length_m == pytest.approx(80, abs=1e-3)
    assert np.isnan(route.at(np.array([at_ns(4.5)])).lat_deg[0])


def test_stray_position_is_left_out_and_counted() -> None:
    rows = [north(t, 10.0 * t + (5_000 if t == 7 else 0)) for t in range(20)]
    route = route_of(table_of(POSITION, rows))
    assert route.table.provenance["left_out"] == {"stray": 1}
    assert route.length_m == pytest.approx(190, abs=1e-3)
    assert not len(route.gaps)


def test_impossible_positions_are_missing_and_counted() -> None:
    rows: list[Row] = [
        north(0, 0),
        {"at": 1, "lat_deg": 0.0, "lon_deg": 0.0},
        {"at": 2, "lat_deg": 91.0, "lon_deg": 8.0},
        {"at": 3, "lat_deg": 50.0, "lon_deg": -180.5},
        {"at": 4},
        north(5, 50, fix=0),
        {"lat_deg": 50.0, "lon_deg": 8.0},
        north(9, 90),
        north(8, 80),
    ]
    route = route_of(table_of(POSITION, rows))
    assert route.table["row"].tolist() == [0, 8, 7]
    assert route.table.provenance["left_out"] == {
        "0/0": 1, "beyond the earth": 2, "no position": 1, "no fix": 1, "no time": 1, "out of order": 1,
    }  # fmt: skip


@pytest.mark.parametrize(("speed", "most_m"), [(0.1, 0.0), (None, 25.0)])
def test_parked_receiver_drives_nowhere(speed: float | None, most_m: float) -> None:
    """An hour of noise: 4.5 m (68 %) without a speed, 15 m with one that says it stands."""
    random = np.random.default_rng(1)
    sigma_m = 3.0 if speed is None else 10.0
    known = {} if speed is None else {"speed_mps": speed}
    noise = random.normal(0, sigma_m, (3600, 2))
    rows = [
        {"at": t, "lat_deg": 50 + y / DEGREE_M, "lon_deg": 8 + x / DEGREE_M / 0.64} | known
        for t, (x, y) in enumerate(noise)
    ]
    route = route_of(table_of(POSITION, rows))
    naive = sum(math.hypot(*step) for step in np.diff(noise, axis=0))
    assert naive > 10_000
    assert route.length_m <= most_m


def test_distance_without_a_speed_is_right_at_each_second() -> None:
    route = route_of(table_of(POSITION, [north(t, 7.0 * t) for t in range(60)]))
    assert route.table["distance_m"] == pytest.approx(7.0 * np.arange(60), abs=7.0 * 3)
    assert route.table["distance_m"][:57] == pytest.approx(7.0 * np.arange(57), abs=1e-3)


def test_log_whose_speed_is_always_zero_still_measures_the_road() -> None:
    rows = [north(t, 15.0 * t, speed_mps=0.0) for t in range(101)]
    assert 1500 - PARKED_NOISE_M - 15 <= route_of(table_of(POSITION, rows)).length_m <= 1500.01


def test_repeated_old_positions_are_no_positions() -> None:
    """As phones log: each second a row, every 100 m another position."""
    rows = [north(t, 100 * (t // 7), speed_mps=14.3) for t in range(71)]
    route = route_of(table_of(POSITION, rows))
    assert route.table.provenance["left_out"] == {"repeated": 60}
    at_m = route.at(np.array([at_ns(t) for t in range(71)])).distance_m
    assert at_m == pytest.approx(100 / 7 * np.arange(71), abs=1.0)


@pytest.mark.parametrize("speed", [{}, {"speed_mps": 12.0}])
def test_position_that_a_logger_held_in_a_tunnel_is_none_there(speed: Row) -> None:
    """It stood at the tunnel's mouth for a minute, and the leap behind it added no distance."""
    before = [north(t, 12.0 * t, **speed) for t in range(900)]
    held = [north(900 + t, 12.0 * 899, **speed) for t in range(40)]
    behind = [north(t, 12.0 * t, **speed) for t in range(940, 1000)]
    route = route_of(table_of(POSITION, before + held + behind))
    assert route.length_m == pytest.approx(12.0 * 999, abs=1)
    assert route.table.provenance["left_out"] == {"repeated": 40}
    assert np.isnan(route.at(np.array([at_ns(920)])).lat_deg[0])
    assert route.gaps["reason"].tolist() == ["no position for 41 s and 492 m"]


def test_a_stray_after_a_long_stop_is_no_way() -> None:
    rows = [*(north(t, 0) for t in range(300)), north(300, 3000), *(north(t, 0) for t in range(301, 400))]
    route = route_of(table_of(POSITION, rows))
    assert route.length_m == pytest.approx(0, abs=1e-6)
    assert route.table.provenance["left_out"] == {"stray": 1}


@pytest.mark.parametrize(("mps", "hz", "most"), [(1.3, 1, 0.03), (1.3, 5, 0.05), (3.0, 1, 0.03), (12.0, 5, 0.03)])
def test_noise_makes_a_slow_way_no_longer(mps: float, hz: int, most: float) -> None:
    """A walk of 1.0 km was 1.4 km long: each step had the noise of two positions."""
    random, noise, rows = np.random.default_rng(7), np.zeros(2), []
    for n in range(900 * hz):
        noise = 0.9 * noise + random.normal(0, 2 * math.sqrt(1 - 0.81), 2)
        row = north(n / hz, mps * n / hz + noise[0], speed_mps=mps)
        rows.append(row | {"lon_deg": 8.0 + noise[1] / DEGREE_M / math.cos(math.radians(50))})
    assert route_of(table_of(POSITION, rows)).length_m == pytest.approx(900 * mps, rel=most)


def test_position_across_the_date_line_stays_there() -> None:
    rows = [{"at": 0, "lat_deg": 10.0, "lon_deg": 179.9999}, {"at": 1, "lat_deg": 10.0, "lon_deg": -179.9999}]
    route = route_of(table_of(POSITION, rows))
    assert route.length_m == pytest.approx(0.0002 * DEGREE_M * math.cos(math.radians(10)), rel=1e-6)
    assert abs(route.at(np.array([at_ns(0.25)])).lon_deg[0]) == pytest.approx(179.99995)


@pytest.mark.parametrize("rows", [[], [{"at": 0}], [north(0, 0)]])
def test_no_or_one_position_is_no_error(rows: list[Row]) -> None:
    route = route_of(table_of(POSITION, rows))
    assert not len(route.gaps)
    assert np.isnan(route.at(np.array([at_ns(1)])).lat_deg).all()


_COORDINATE = st.floats(-200, 200) | st.sampled_from([0.0, math.nan, math.inf, 1e300])


@given(st.lists(st.tuples(st.floats(-1e4, 1e4), _COORDINATE, _COORDINATE, st.floats(width=64)), max_size=30))
def test_any_rows_give_a_route(drawn: list[tuple[float, float, float, float]]) -> None:
    rows = [{"at": t, "lat_deg": a, "lon_deg": o, "speed_mps": v} for t, a, o, v in drawn]
    route = route_of(table_of(POSITION, rows))
    left_out = {k: v for k, v in route.table.provenance["left_out"].items() if k != "out of order"}
    assert len(route.table) + sum(left_out.values()) == len(rows)
    assert (np.diff(route.table["distance_m"]) >= 0).all()
    places = route.at(route.table["time_ns"])
    assert np.isfinite(places.distance_m).all()
    assert (np.abs(places.lat_deg) <= 90).all()
