"""Some of the sweep: rates, jitter, losses, asymmetry, missing packets, steps, a GSM link, a recording.

So few cases show that nothing broke; the shares that docs/clock_accuracy.md states are those of the 200 that
`python -m tests.clock.sweep` judges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.clock.sweep import asymmetric, gsm, judge, recording, synthetic

if TYPE_CHECKING:
    from tests.clock.sweep import Result

MOST = 0.9
"""Of some twenty cases: two may be among the 5 % for which a 95 % interval is not meant."""


@pytest.fixture(scope="module")
def results() -> list[Result]:
    seeds = [seed for seed in range(200, 219) if seed % 6 != 5]  # 4 Mb/s: many packets, nothing new
    paths = map(synthetic, seeds)
    return [judge(subject) for subject in [*paths, *map(gsm, (1, 2, 4)), *map(recording, (1, 2))]]


@pytest.mark.slow
def test_the_cases_are_of_every_kind(results: list[Result]) -> None:
    assert len(results) >= 20
    assert len({r.family for r in results}) == 5


@pytest.mark.slow
def test_errors_are_within_two_milliseconds_or_three_sigma(results: list[Result]) -> None:
    assert np.mean([r.good for r in results]) >= MOST


@pytest.mark.slow
def test_the_truth_lies_inside_the_stated_interval(results: list[Result]) -> None:
    assert np.mean([r.inside for r in results]) >= MOST


@pytest.mark.slow
def test_causality_bounds_hold_the_truth(results: list[Result]) -> None:
    assert all(r.causal for r in results)


@pytest.mark.slow
def test_steps_are_found_and_no_others(results: list[Result]) -> None:
    assert all(r.steps_found for r in results)


@pytest.mark.slow
def test_on_unequal_ways_the_truth_lies_inside_the_bounds_of_causality_always() -> None:
    unequal = [judge(asymmetric(seed)) for seed in range(300, 308)]
    assert all(r.causal for r in unequal)
    assert np.mean([r.inside for r in unequal]) < 0.5  # or the ways would not have been unequal


@pytest.mark.slow
def test_the_skews_interval_holds_the_truth(results: list[Result]) -> None:
    assert np.mean([r.skew_error_ppm <= r.skew_half_ppm for r in results]) >= MOST


@pytest.mark.slow
def test_intervals_are_narrow(results: list[Result]) -> None:
    slow = [r.half_ns for r in results if "9.6 kb/s" in r.family]
    fast = [r.half_ns for r in results if "64 kb/s" in r.family or "Mb/s" in r.family]
    assert np.median(slow) <= 25e6
    assert np.median(fast) <= 5e6
