"""Two sides: a session counts once, chance is what it is, and no claim is stronger than the sessions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from multitracer.analysis.comparison.difference import CellMeans, difference
from multitracer.analysis.comparison.sides import ComparedQuantity, Sides, Sums, compare, matching, stands, strata
from multitracer.campaign.compared_sides import quantities_of
from multitracer.tables import NA
from tests.statistics.drives import Network, drives, half
from tests.statistics.sides import ALIKE, WORLDS, false_alarms, power

CHANCE = np.random.default_rng(22)
THROUGHPUT = [ComparedQuantity("throughput", relative=True, weight=1.0)]


def entries(first: list[float], second: list[float]) -> CellMeans:
    values = np.array([*first, *second], dtype=np.float64)
    unit = np.arange(len(values))
    same = np.zeros_like(unit)
    return CellMeans(unit, same, np.ones(len(values)), values, unit >= len(first), same)


def sides(place: list[int], side: list[int], value: list[float]) -> Sides:
    """Return sessions of one second each."""
    count = len(place)
    sums = {"throughput": Sums(np.ones(count), np.array(value, dtype=np.float64))}
    session, ones = np.arange(count), np.ones(count)
    return Sides(np.array(side, dtype=bool), session, np.array(place), np.zeros(count, np.int64) + NA, ones, sums)


def test_all_orders_of_eight_sessions_give_the_p_value_of_the_most_extreme_one() -> None:
    of = difference(entries([1, 2, 3, 4], [11, 12, 13, 14]), relative=False)
    assert of.p_value == pytest.approx(2 / 70)  # of 70 orders, this one and its mirror
    assert of.value == pytest.approx(10)
    assert of.low < 10 < of.high
    assert of.low > 0


def test_three_sessions_a_side_show_nothing() -> None:
    of = difference(entries([1, 2, 3], [101, 102, 103]), relative=True)
    assert of.p_value == pytest.approx(2 / 20)
    assert (of.low, of.high) == (-1, np.inf)


def test_a_ratio_is_that_of_the_means_and_turns_with_the_sides() -> None:
    first, second = CHANCE.lognormal(0, 0.3, 40), CHANCE.lognormal(0.2, 0.3, 60)
    one = difference(entries([*first], [*second]), relative=True)
    other = difference(entries([*second], [*first]), relative=True)
    assert one.value == pytest.approx(second.mean() / first.mean() - 1)
    assert 1 + other.value == pytest.approx(1 / (1 + one.value))
    assert 1 + other.high == pytest.approx(1 / (1 + one.low), rel=0.02)  # other relabellings are drawn


def test_an_interval_leaves_out_what_the_test_refuses() -> None:
    first, second = CHANCE.normal(5, 1, 30), CHANCE.normal(6, 1, 30)
    of = difference(entries([*first], [*second]), relative=False, seed=1)
    for added, is_refused in ((of.low - 0.01, True), (of.low + 0.01, False), (of.high + 0.01, True)):
        moved = difference(entries([*first], [*(second - added)]), relative=False, seed=1)
        assert (moved.p_value < 0.05) == is_refused


def test_a_difference_of_nothing_is_none() -> None:
    of = difference(entries([0.1 + 0.2] * 6, [0.3] * 6), relative=True)
    assert of.value == pytest.approx(0)
    assert of.p_value == 1


def test_a_session_counts_once_however_long_it_is() -> None:
    made = drives(Network(20), np.random.default_rng(1))
    longer = made.session == 3
    weight, total = made.sums["throughput"]
    times = np.where(longer, 1000.0, 1.0)
    stretched = replace(made, sums={"throughput": Sums(weight * times, total * times)})
    assert compare(stretched, THROUGHPUT, draws=99).judged == compare(made, THROUGHPUT, draws=99).judged


def test_places_that_both_sides_visited_are_set_beside_each_other() -> None:
    place = [*range(20), *range(20)]
    level = np.exp(np.random.default_rng(3).standard_normal(20))
    noise = np.random.default_rng(4).normal(1, 0.01, 40)
    value = np.concatenate([level, 0.9 * level]) * noise
    result = compare(sides(place, [0] * 20 + [1] * 20, [*value]), THROUGHPUT)
    of = result.judged[0].difference
    assert result.matching.by == "place"
    assert of.value == pytest.approx(-0.1, abs=0.03)
    assert -0.2 < of.low < of.high < 0
    assert result.judged[0].is_shown


def test_pairs_change_sides_as_pairs() -> None:
    """Five of five pairs agree by chance in 2 of 32; eight in 2 of 256."""
    for pairs, p_value in ((5, 2 / 32), (8, 2 / 256)):
        level = np.arange(1.0, pairs + 1)
        value = [*(10 * level), *(10 * level + 1)]
        of = compare(sides([*range(pairs)] * 2, [0] * pairs + [1] * pairs, value), THROUGHPUT).judged[0]
        assert of.difference.p_value == pytest.approx(p_value)
        assert of.is_shown == (pairs == 8)


def test_drives_of_one_road_are_a_group_whatever_square_they_were_in_longest() -> None:
    unit, cell = np.repeat(np.arange(8), 2), np.array([0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10, 10, 11])
    weight = np.tile([0.9, 0.1, 0.1, 0.9], 4)
    assert strata(unit, cell, weight, np.arange(8) % 2 == 1).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert strata(unit, cell, weight, np.arange(8) % 4 > 1).tolist() == [0] * 8


def test_a_hundred_sessions_at_one_place_are_one_place() -> None:
    value = np.random.default_rng(5).normal(1, 0.01, 200)
    value[100:] *= 2
    result = compare(sides([1] * 100 + [2] * 100, [0] * 100 + [1] * 100, [*value]), THROUGHPUT)
    assert result.are_places
    assert result.judged[0].difference.value == pytest.approx(1, abs=0.01)
    assert not result.judged[0].is_shown


def test_hours_are_matched_where_places_cannot_be() -> None:
    hour = np.tile(np.arange(4), 10)
    place = np.full(40, NA)
    of = matching(place, hour, np.ones(40), np.arange(40) % 8 < 4)
    assert of.by == "hour"
    assert np.isnan(of.places)


def test_a_side_without_a_quantity_has_no_difference() -> None:
    made = sides([NA] * 8, [0] * 4 + [1] * 4, [1.0] * 8)
    weight = made.sums["throughput"].weight * ~made.side[made.session]
    missing = {**made.sums, "RTT": Sums(weight, weight)}
    result = compare(replace(made, sums=missing), [*THROUGHPUT, ComparedQuantity("RTT", True, 0.1)])
    of = result.of("RTT")
    assert np.isnan(of.difference.value)
    assert of.sessions == (4, 0)
    assert not of.is_shown


def test_weighted_claims_stand_as_in_holm() -> None:
    weights = np.array([0.9, 0.05, 0.05])
    for p_values, expected in (
        ([0.044, 0.5, 0.5], [True, False, False]),
        ([0.046, 0.5, 0.5], [False, False, False]),
        ([0.044, 0.024, 0.5], [True, True, False]),  # what the first one had passes on
        ([0.2, 0.024, 0.5], [False, False, False]),
        ([np.nan, 0.024, 0.5], [False, True, False]),  # and that of one that is not there
    ):
        assert stands(np.array(p_values), weights, 0.05).tolist() == expected


def test_throughput_is_judged_at_nearly_the_whole_level() -> None:
    some, none = Sums(np.ones(2), np.array([0.0, 1.0])), Sums(np.zeros(2), np.zeros(2))
    names = ("throughput", "RTT", "loss", "transaction time", "limited by link")
    sums = dict.fromkeys(names, some) | dict.fromkeys(("goodput of transfers", "completion time"), none)
    judged = quantities_of(_sides(sums))
    assert judged[0].name == "throughput"
    weights = np.array([each.weight for each in judged])
    assert weights.sum() == pytest.approx(1)
    only = np.array([0.0475, *[0.5] * (len(sums) - 1)])
    assert stands(only, weights, 0.05).tolist() == [True] + [False] * (len(sums) - 1)


def _sides(sums: dict[str, Sums]) -> Sides:
    """Return two sessions, one a side."""
    return Sides(np.array([False, True]), np.arange(2), np.full(2, NA), np.full(2, NA), np.ones(2), sums)


def test_complete_transfers_are_the_headline_where_half_of_both_sides_have_some() -> None:
    some, one = Sums(np.ones(2), np.array([0.0, 1.0])), Sums(np.array([1.0, 0.0]), np.zeros(2))
    sums = {"throughput": some, "completion time": some, "goodput of transfers": some, "RSRP": some}
    judged = quantities_of(_sides(sums))
    assert [each.name for each in judged] == ["goodput of transfers", "completion time", "throughput"]
    assert judged[0].weight == 0.96
    assert quantities_of(_sides(sums | {"goodput of transfers": one}))[0].name == "completion time"
    neither = sums | dict.fromkeys(("goodput of transfers", "completion time", "throughput"), one)
    radio = quantities_of(_sides(neither))
    assert (radio[0].name, radio[0].relative) == ("RSRP", False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["6 and 6, 4 places", "20 and 20, drives over 10 places"])
def test_chance_alone_is_rarely_claimed(name: str) -> None:
    alarms = false_alarms(WORLDS[name], 60, draws=199)
    assert alarms.any_claim <= 0.05 * 60 + 3 * np.sqrt(60 * 0.05 * 0.95)


@pytest.mark.slow
def test_ten_percent_are_claimed_of_a_hundred_sessions_a_side() -> None:
    made = drives(ALIKE, np.random.default_rng(1))
    weight, total = (np.bincount(made.session, each) for each in made.sums["throughput"])
    assert np.std(total / weight) / np.mean(total / weight) == pytest.approx(0.2, abs=0.03)
    assert power(0.9, 20, draws=499) >= 0.8


def test_a_half_is_a_half() -> None:
    assert half(12, np.random.default_rng(1)).sum() == 6
