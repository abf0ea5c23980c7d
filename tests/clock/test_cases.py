"""A part of the sweep: rates, jitter, losses, asymmetry, missing packets, steps, a GSM link, a recording."""

from __future__ import annotations

import numpy as np
import pytest

from tests.clock.sweep import asymmetric, gsm, judge, recording, synthetic


@pytest.fixture(scope="module")
def results():
    slow = [synthetic(seed) for seed in range(200, 236) if seed % 6 != 5]
    return [judge(subject) for subject in [*slow, *map(gsm, range(6)), *map(recording, range(4))]]


def test_the_cases_are_many(results):
    assert len(results) >= 40


def test_errors_are_within_two_milliseconds_or_three_sigma(results):
    assert np.mean([r.good for r in results]) >= 0.95


def test_the_truth_lies_inside_the_stated_interval(results):
    assert np.mean([r.inside for r in results]) >= 0.93


def test_causality_bounds_hold_the_truth(results):
    assert all(r.causal for r in results)


def test_on_unequal_ways_the_truth_lies_inside_the_bounds_of_causality_always():
    unequal = [judge(asymmetric(seed)) for seed in range(300, 336)]
    assert all(r.causal for r in unequal)
    assert np.mean([r.inside for r in unequal]) < 0.5  # or the ways would not have been unequal


def test_the_skews_interval_holds_the_truth(results):
    assert np.mean([r.skew_error_ppm <= r.skew_half_ppm for r in results]) >= 0.93


def test_intervals_are_narrow(results):
    slow = [r.half_ns for r in results if "9.6 kb/s" in r.family]
    fast = [r.half_ns for r in results if "64 kb/s" in r.family or "Mb/s" in r.family]
    assert np.median(slow) <= 25e6
    assert np.median(fast) <= 5e6
