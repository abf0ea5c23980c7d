"""Fairness of flows: known values, what always holds, and where a number would say nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.analysis import fairness as module
from multitracer.analysis.fairness import fairness, shares
from multitracer.errors import InputError

_RATES = st.lists(st.floats(1e-3, 1e12), min_size=2, max_size=20)


def test_gap_and_index_of_known_rates() -> None:
    assert fairness([300.0, 100.0])[1:3] == pytest.approx((2, 0.8))
    assert fairness([100.0, 120.0, 160.0]).gap == pytest.approx(0.6)  # 60 % on the axis of paper 003, fig. 6
    assert fairness([5.0, 5.0, 5.0, 5.0]) == (4, 0.0, 1.0, "")


@given(_RATES)
def test_bounds_hold_whatever_the_rates(rates: list[float]) -> None:
    found = fairness(rates)
    assert found.gap >= 0
    assert 1 / len(rates) - 1e-9 <= found.jain <= 1
    assert found.reason == ""


@given(_RATES, st.floats(1e-6, 1e6), st.randoms())
def test_unit_and_order_do_not_matter(rates: list[float], factor: float, random: object) -> None:
    turned = list(rates)
    random.shuffle(turned)  # type: ignore[attr-defined]  # of random.Random
    assert fairness([factor * each for each in turned])[1:3] == pytest.approx(fairness(rates)[1:3], rel=1e-6)


@pytest.mark.parametrize(
    ("rates", "reason"),
    [
        ([], module.NO_FLOW),
        ([7.0], "a gap is between two flows or more"),
        ([7.0, np.nan], module.UNKNOWN_RATE),
        ([0.0, 0.0], module.ALL_STOOD),
    ],
)
def test_reason_stands_where_no_number_can(rates: list[float], reason: str) -> None:
    found = fairness(rates)
    assert found.reason == reason
    assert np.isnan([found.gap, found.jain]).all()


@pytest.mark.parametrize("smallest", [0.0, 5e-324])
def test_flow_that_stands_leaves_the_index(smallest: float) -> None:
    found = fairness([1e300, smallest])
    assert np.isnan(found.gap)
    assert found.jain == pytest.approx(0.5)
    assert found.reason.startswith("the slowest flow delivered nothing")


@pytest.mark.parametrize("rates", [[1.0, -1.0], [1.0, np.inf], ["x", "y"], [[1.0], [2.0]]])
def test_bad_rates_are_refused(rates: object) -> None:
    with pytest.raises(InputError, match=r"^fairness: "):
        fairness(rates)  # type: ignore[arg-type]  # what a user may give


def test_shares_are_parts_of_those_that_took_part() -> None:
    found = shares([[3.0, 0.0, 2.0, np.nan], [1.0, 0.0, np.nan, np.nan]])
    assert found[:, 0].tolist() == [0.75, 0.25]
    assert np.isnan(found[:, 1]).all()
    assert found[0, 2] == 1
    assert np.isnan(found[1, 2])
    assert np.isnan(found[:, 3]).all()


@given(st.lists(st.lists(st.floats(0, 1e300), min_size=3, max_size=3), min_size=1, max_size=6))
def test_shares_of_an_interval_add_up_to_the_whole(amounts: list[list[float]]) -> None:
    complete = np.nansum(shares(amounts), axis=0)
    carried = np.max(amounts, axis=0) > 0
    assert complete[carried] == pytest.approx(1)
    assert (complete[~carried] == 0).all()
