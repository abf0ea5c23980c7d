"""Bins, entropies, surrogates and stationarity against what is known of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import norm

from multitracer.analysis.correlation import dependence
from multitracer.analysis.statistics.correlations import correlation_of_distances, information_of_neighbours, linfoot
from multitracer.analysis.statistics.curve import bin_count, equal_count_codes, equal_width_codes, joint_counts, moved
from multitracer.analysis.statistics.entropy import NORMALISERS, Normaliser, conditional, entropies, normalised
from multitracer.analysis.statistics.surrogates import (
    BASELINES,
    Baseline,
    block_length,
    correlation_time,
    is_random_walk,
    surrogate_orders,
)
from tests.examples import examples
from tests.statistics.planted import autoregressive

COUNTS = arrays(np.int64, st.tuples(st.integers(1, 6), st.integers(1, 6)), elements=st.integers(0, 50)).filter(
    lambda counts: counts.sum() > 0
)
SESSIONS = st.lists(st.integers(1, 30), min_size=1, max_size=4).map(lambda sizes: np.repeat(range(len(sizes)), sizes))
R = 0.6
KNOWN = -0.5 * np.log(1 - R**2)
"""Mutual information of two normal series with correlation R, nats."""


@given(COUNTS)
def test_normalised_information_is_symmetric_and_its_normalisers_are_in_order(counts: np.ndarray) -> None:
    values = {by: float(normalised(entropies(counts), by)) for by in NORMALISERS}
    assert 0 <= values["joint"] <= values["max"] + 1e-12
    assert values["max"] <= values["mean"] + 1e-12 <= values["sqrt"] + 2e-12 <= values["min"] + 3e-12 <= 1 + 3e-12
    for by, value in values.items():
        assert float(normalised(entropies(counts.T), by)) == pytest.approx(value)


@given(arrays(np.int64, st.integers(2, 8), elements=st.integers(1, 50)))
def test_a_series_tells_all_about_itself(counts: np.ndarray) -> None:
    for by in NORMALISERS:
        assert float(normalised(entropies(np.diag(counts)), by)) == pytest.approx(1)


@given(arrays(np.int64, 4, elements=st.integers(1, 9)), arrays(np.int64, 3, elements=st.integers(1, 9)))
def test_independent_counts_tell_nothing(x: np.ndarray, y: np.ndarray) -> None:
    of = entropies(np.outer(x, y))
    assert float(of.information) == pytest.approx(0, abs=1e-12)
    given_any = conditional(np.stack([np.outer(x, y), 2 * np.outer(x[::-1], y), 0 * np.outer(x, y)]))
    assert float(given_any.information) == pytest.approx(0, abs=1e-12)


@examples(15)
@given(st.integers(0, 2**32 - 1), st.sampled_from(NORMALISERS))
def test_a_monotone_map_changes_nothing(seed: int, normaliser: Normaliser) -> None:
    x, y = np.random.default_rng(seed).standard_normal((2, 200)).round(1)
    first, mapped = (
        dependence(each, y, step_s=1, lags=np.arange(-2, 3), normaliser=normaliser, permutations=5)
        for each in (x, np.exp(x) + 5)
    )
    np.testing.assert_array_equal(first.nmi, mapped.nmi)
    np.testing.assert_array_equal(first.p_corrected, mapped.p_corrected)


@given(
    arrays(np.float64, st.integers(1, 80), elements=st.sampled_from([0, 1, 2, 3, 5.5, 8, np.nan])), st.integers(2, 9)
)
def test_codes_keep_order_and_ties_and_have_no_holes(values: np.ndarray, bins: int) -> None:
    for codes in (equal_count_codes(values, bins), equal_width_codes(values)):
        there = np.isfinite(values)
        assert (codes[~there] == -1).all()
        order = np.argsort(values[there])
        assert (np.diff(codes[there][order]) >= 0).all()
        assert (np.diff(codes[there][order])[np.diff(values[there][order]) == 0] == 0).all()
        assert sorted(set(codes[there])) == list(range(len(set(codes[there]))))
    assert len(set(equal_count_codes(values, bins)) - {-1}) <= bins


def test_bins_are_as_many_as_the_rule_says_and_equally_full() -> None:
    assert [bin_count(points) for points in (5, 30, 600, 1000, 3600)] == [2, 3, 8, 10, 15]
    assert bin_count(10_000, series=3) == 10
    held = np.bincount(equal_count_codes(np.random.default_rng(1).standard_normal(600), 8))
    assert held.tolist() == [75] * 8


def test_outliers_do_not_ask_for_a_million_bins() -> None:
    values = np.append(np.random.default_rng(1).standard_normal(600), 1e12)
    codes = equal_width_codes(values)
    assert 20 < codes.max() < 64
    assert (codes == codes.max()).sum() == 1
    assert equal_width_codes(np.random.default_rng(1).standard_cauchy(5000)).max() == 63


def _in_bins(bins: int) -> float:
    """Return the information that is left of KNOWN in bins of equal probability, by integration."""
    grid = norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    edges = norm.ppf(np.linspace(0, 1, bins + 1))
    below = norm.cdf((edges[None] - R * grid[:, None]) / np.sqrt(1 - R**2))
    joint = np.diff(below, axis=1).reshape(bins, -1, bins).mean(axis=1) / bins
    return float((joint * np.log(joint * bins**2)).sum())


def test_estimates_of_a_known_information_are_within_their_published_bias() -> None:
    points, bins, chance = 1000, 10, np.random.default_rng(8)
    plain, corrected = [], []
    for _ in range(60):
        x, noise = chance.standard_normal((2, points))
        y = R * x + np.sqrt(1 - R**2) * noise
        (counts,) = joint_counts([equal_count_codes(x, bins)], equal_count_codes(y, bins)[None], bins, bins)
        plain.append(float(entropies(counts).information[0]))
        corrected.append(float(entropies(counts, corrected=True).information[0]))
    published = (bins - 1) ** 2 / (2 * points)  # Miller (1955): 0.0405 nats
    assert np.mean(plain) - _in_bins(bins) == pytest.approx(published, rel=0.2)
    assert abs(np.mean(corrected) - _in_bins(bins)) < 0.5 * published
    assert 0 < KNOWN - _in_bins(bins) < 0.1 * KNOWN


def test_nearest_neighbours_give_a_known_information_without_bias() -> None:
    chance = np.random.default_rng(8)
    found = []
    for _ in range(10):
        x, noise = chance.standard_normal((2, 600))
        found.append(information_of_neighbours(x, R * x + np.sqrt(1 - R**2) * noise))
    assert np.mean(found) == pytest.approx(KNOWN, abs=0.03)  # three standard errors
    assert float(linfoot(np.array(KNOWN))) == pytest.approx(R)


def _by_definition(x: np.ndarray, y: np.ndarray) -> float:
    """Return the distance correlation by the matrices of Szekely, Rizzo and Bakirov (2007), definition 4."""
    centred = []
    for values in (x, y):
        distances = np.abs(values[:, None] - values)
        centred.append(distances - distances.mean(axis=0) - distances.mean(axis=1)[:, None] + distances.mean())
    (a, b) = centred
    return float(np.sqrt(max(np.mean(a * b), 0.0) / np.sqrt(np.mean(a * a) * np.mean(b * b))))


POINTS = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=2, max_size=40).filter(
    lambda points: all(len(set(values)) > 1 for values in zip(*points, strict=True))
)


@given(POINTS, st.sampled_from([1e-6, 1.0, 1e6]), st.sampled_from([0.0, 1e3]))
def test_distance_correlation_is_that_of_its_definition(
    points: list[tuple[int, int]], scale: float, offset: float
) -> None:
    x, y = np.array(points, dtype=np.float64).T
    expected = pytest.approx(_by_definition(x, y), abs=1e-7)  # a square root of what is rounded
    assert correlation_of_distances(scale * x + scale * offset, y) == expected
    assert correlation_of_distances(y, x) == expected


def test_distance_correlation_sees_what_falls_and_rises_and_leaves_out_gaps() -> None:
    x, gap = np.linspace(-1, 1, 1001), np.array([np.nan])
    assert correlation_of_distances(x, -3 * x + 1) == pytest.approx(1.0, abs=1e-12)
    assert correlation_of_distances(x, x**2) == pytest.approx(_by_definition(x, x**2), abs=1e-12)
    assert correlation_of_distances(np.r_[x, gap, 5], np.r_[x**2, 7, gap]) == correlation_of_distances(x, x**2)
    assert np.isnan(correlation_of_distances(x, np.zeros_like(x)))


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e160, 1e300])
def test_distance_correlation_has_no_scale(scale: float) -> None:
    x = np.linspace(-1, 2, 301)
    expected = pytest.approx(correlation_of_distances(x, x**2), abs=1e-12)
    assert correlation_of_distances(scale * x, x**2) == expected
    assert correlation_of_distances(x, scale * x**2) == expected


def test_distance_correlation_of_a_series_and_itself_is_1_and_never_more() -> None:
    steps = np.where(np.arange(100) % 3, 1e9, np.nextafter(1e9, np.inf))
    assert correlation_of_distances(steps, steps) == pytest.approx(1.0, abs=1e-12)
    chance = np.random.default_rng(0)
    series = [chance.lognormal(0, 3, size=points) for points in range(2, 200)]
    found = [correlation_of_distances(each, 3 * each + 1) for each in series]
    assert found == pytest.approx(np.ones(len(series)), abs=1e-12)
    assert max(found) <= 1.0


@given(SESSIONS, st.sampled_from(BASELINES), st.integers(1, 12), st.integers(0, 99))
def test_surrogates_move_each_point_within_its_session(
    session: np.ndarray, baseline: Baseline, block: int, seed: int
) -> None:
    orders = np.concatenate(list(surrogate_orders(session, baseline, count=7, block=block, seed=seed)))
    assert orders.shape == (7, len(session))
    assert (np.sort(orders, axis=1) == np.arange(len(session))).all()
    assert (session[orders] == session).all()


def test_blocks_keep_neighbours_together() -> None:
    complete = np.concatenate(list(surrogate_orders(np.zeros(600, int), "block", count=20, block=60, seed=1)))
    assert ((np.diff(complete, axis=1) != 1).sum(axis=1) <= 10).all()
    shifted = np.concatenate(list(surrogate_orders(np.zeros(600, int), "shift", count=20, block=60, seed=1)))
    assert ((np.diff(shifted, axis=1) != 1).sum(axis=1) <= 5).all()


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_correlation_time_of_an_autoregressive_series(correlation: float) -> None:
    session = np.zeros(20_000, int)
    x = autoregressive(np.random.default_rng(3), 20_000, correlation)
    wanted = (1 + correlation) / (1 - correlation)
    assert correlation_time(x, session) == pytest.approx(wanted, rel=0.15)
    white = np.random.default_rng(4).standard_normal(20_000)
    assert block_length(x, white, session) == pytest.approx(5 * wanted, rel=0.2)
    assert correlation_time(np.ones(5), np.zeros(5, int)) == 1


def test_random_walks_are_told_from_series_that_return() -> None:
    session = np.zeros(600, int)
    shares = {
        correlation: np.mean(
            [is_random_walk(autoregressive(np.random.default_rng(s), 600, correlation), session) for s in range(40)]
        )
        for correlation in (0.5, 0.9, 1)
    }
    assert shares[0.5] == shares[0.9] == 0
    assert shares[1] >= 0.9
    assert is_random_walk(np.arange(600.0), session)
    assert not is_random_walk(np.tile([0.0, 1.0], 300), session)
    assert is_random_walk(np.arange(20.0), np.zeros(20, int))


def test_each_session_is_tested_by_itself() -> None:
    session = np.repeat([1, 2, 3], 200)
    returning = [autoregressive(np.random.default_rng(s), 200, 0.5) + 100 * s for s in range(3)]
    assert not is_random_walk(np.concatenate(returning), session)
    walks = [autoregressive(np.random.default_rng(s), 200, 1) for s in range(3)]
    assert is_random_walk(np.concatenate(walks), session)


def test_moved_takes_the_value_of_a_later_point_of_the_same_session() -> None:
    values, session = np.arange(6.0), np.array([0, 0, 0, 0, 1, 1])
    np.testing.assert_array_equal(moved(values, 1, session, missing=np.nan), [1, 2, 3, np.nan, 5, np.nan])
    np.testing.assert_array_equal(moved(values, -2, session, missing=-1), [-1, -1, 0, 1, -1, -1])
    assert (moved(values, 6, session, missing=-1) == -1).all()
