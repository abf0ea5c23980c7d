"""Medians of two sides: an interval holds what the test does not refuse; what was dropped counts as long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.analysis.comparison.medians import difference_interval, ratio_interval

if TYPE_CHECKING:
    from multitracer.tables import Array

CHANCE = np.random.default_rng(21)
INF = np.inf


def side(median: float, count: int, spread: float = 0.3) -> Array:
    return np.sort(CHANCE.lognormal(np.log(median), spread, count))


@pytest.mark.parametrize(("ours", "theirs"), [(4, 4), (5, 6), (12, 40), (100, 100)])
def test_a_factor_of_ten_is_shown_and_its_ratio_is_in_the_interval(ours: int, theirs: int) -> None:
    first, second = side(10, ours), side(1, theirs)
    low, high = ratio_interval(first, second)
    assert 1 < low < np.median(first) / np.median(second) < high
    low, high = difference_interval(first, second)
    assert 0 < low < np.median(first) - np.median(second) < high


def test_three_values_a_side_have_no_interval() -> None:
    for ends in (ratio_interval(side(10, 3), side(1, 50)), difference_interval(side(10, 50), side(1, 3))):
        assert np.isnan(ends).all()


def test_sides_that_change_places_have_the_inverse_interval() -> None:
    first, second = side(2, 5), side(1, 5)
    low, high = ratio_interval(first, second)
    assert ratio_interval(second, first) == pytest.approx((1 / high, 1 / low), rel=1e-6)
    assert ratio_interval(7 * first, second) == pytest.approx((7 * low, 7 * high), rel=1e-6)


def test_an_interval_ends_where_the_test_begins_to_refuse() -> None:
    """A ratio is refused if, divided by it, the sides are shown to differ: 1 is then outside."""
    first, second = side(2, 30), side(1, 25)
    low, high = ratio_interval(first, second)
    for ratio, is_held in ((0.99 * low, False), (1.01 * low, True), (0.99 * high, True), (1.01 * high, False)):
        ends = ratio_interval(first / ratio, second)
        assert (ends.low <= 1 <= ends.high) == is_held


def test_a_dropped_value_counts_as_a_long_one_and_half_of_them_leave_nothing() -> None:
    first, second = side(1, 20), side(1, 20)
    worse = first.copy()
    worse[-6:] = INF
    assert ratio_interval(worse, second).high > ratio_interval(first, second).high
    worse[-10:] = INF
    assert np.isnan(ratio_interval(worse, second)).all()
    assert np.isnan(difference_interval(first, worse)).all()


def test_equal_values_are_apart_by_what_they_are() -> None:
    """In virtual time all transactions of a size may take the same time to the nanosecond."""
    assert ratio_interval(np.full(8, 3.0), np.full(8, 2.0)) == pytest.approx((1.5, 1.5))
    assert difference_interval(np.full(8, 3.0), np.full(8, 2.0)) == pytest.approx((1, 1))
    assert difference_interval(np.full(8, 2.0), np.full(8, 2.0)) == pytest.approx((0, 0))


@pytest.mark.slow
@pytest.mark.parametrize(("ours", "theirs"), [(6, 6), (5, 7)])
def test_alike_sides_are_told_apart_as_rarely_as_stated(ours: int, theirs: int) -> None:
    told = 0
    for _ in range(100):
        low, high = ratio_interval(side(1, ours), side(1, theirs))
        told += not low <= 1 <= high
    assert told <= 11  # 5 %, and three standard deviations of 100
