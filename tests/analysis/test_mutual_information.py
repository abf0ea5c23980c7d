"""What two series tell about each other: found at its lag where it is, NA with a reason where it is not."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from multitracer.analysis.correlation import Dependence, dependence, not_known, table_of
from multitracer.errors import InputError
from multitracer.tables import NA
from tests.statistics.judge import PLANTED, lags, level, power
from tests.statistics.planted import autoregressive, planted

LAGS = np.arange(-5, 6)


def _pair(seed: int = 1, points: int = 300, lag: int = 2) -> tuple[np.ndarray, np.ndarray]:
    return planted("linear", np.random.default_rng(seed), points=points, lag=lag, bits=0.5)


def _dependence(x: np.ndarray, y: np.ndarray, **options: object) -> Dependence:
    return dependence(x, y, step_s=1.0, **({"lags": LAGS, "permutations": 99} | options))  # type: ignore[arg-type]


@pytest.mark.parametrize(("shape", "lag"), PLANTED)
def test_a_planted_dependence_is_found_at_its_lag(shape: str, lag: int) -> None:
    assert power(shape, lag, range(8), permutations=99).significant == 8


@pytest.mark.slow
def test_slow_independent_series_are_seldom_significant_and_a_plain_permutation_calls_them_so() -> None:
    held = level(0.9, range(24), permutations=99)
    plain = level(0.9, range(24), permutations=99, baseline="plain")
    assert held.with_value == 24
    assert held.significant <= 4  # 5 % of 24 are 1.2; more than 4 have a chance of 0.6 %
    assert plain.significant >= 12


def test_random_walks_are_never_significant_and_their_differences_have_a_value() -> None:
    assert level(1.0, range(30), permutations=99).significant == 0
    x, y = (autoregressive(np.random.default_rng(seed), 600, 1) for seed in (1, 2))
    assert "x is not stationary" in _dependence(x, y).reason
    differenced = _dependence(x, y, difference=True)
    assert not differenced.reason
    assert differenced.is_differenced
    assert differenced.n.max() == 599


def test_lag_is_above_0_where_y_follows() -> None:
    x, y = _pair(lag=2)
    of = dependence(x, y, step_s=0.5, lags=LAGS, permutations=99)
    assert of.peak_lag_s == 1.0
    assert of.peak_p_value == 0.01
    assert of.nmi[of.peak] > of.p95_permuted[of.peak]
    turned = _dependence(y, x)
    np.testing.assert_allclose(turned.nmi, of.nmi[::-1])


def test_the_lag_of_a_slow_series_stays_open_and_the_interval_holds_it() -> None:
    quick, slow = (lags(*of, range(12), permutations=99) for of in ((0.5, 0.3), (0.95, 0.1)))
    assert (quick.at_peak, quick.covered, quick.width_s) == (12, 12, 0)
    assert slow.at_peak < slow.found, "a peak alone would mislead"
    assert slow.covered == slow.found >= 10
    assert slow.width_s > 5


def test_a_peak_within_chance_may_be_at_any_lag() -> None:
    of = _dependence(*(autoregressive(np.random.default_rng(seed), 600, 0.5) for seed in (1, 2)))
    assert of.peak_p_value > 0.05
    assert (of.peak_low_s, of.peak_high_s) == (of.lag_s[0], of.lag_s[-1])


def test_the_same_seed_gives_the_same_result() -> None:
    x, y = _pair(points=100, lag=0)
    first, again, other = (_dependence(x, y, seed=seed).p95_permuted for seed in (3, 3, 4))
    assert (first == again).all()
    assert (first != other).any()


def test_gaps_stay_gaps() -> None:
    x, y = _pair(lag=2)
    y[100:150] = np.nan
    x[::10] = np.inf
    of = _dependence(x, y)
    assert of.n[LAGS == 2] == np.isfinite(x[:-2] + y[2:]).sum()
    assert of.peak_lag_s == 2
    y[:] = np.nan
    assert _dependence(x, y).reason == "the two series have no point in common"


def test_no_lag_and_no_surrogate_crosses_the_border_of_a_session() -> None:
    x, y = _pair(points=400, lag=2)
    session = np.repeat([7, 3, 5], [100, 200, 100])
    of = _dependence(x, y, session=session)
    assert (of.n == 400 - 3 * np.abs(LAGS)).all()
    assert of.peak_lag_s == 2
    level_of = np.repeat([0.0, 50.0, 100.0], [100, 200, 100])
    chance = np.random.default_rng(5)
    apart = _dependence(*(level_of + chance.standard_normal(400) for _ in range(2)), session=session)
    assert apart.nmi.min() > 0.35  # that one session is higher in both is no dependence within any
    assert apart.peak_p_value > 0.05


def test_a_third_series_that_explains_both_leaves_nothing() -> None:
    chance = np.random.default_rng(2)
    cause = chance.standard_normal(2000)
    x, y = (cause + 0.5 * chance.standard_normal(2000) for _ in range(2))
    of = _dependence(x, y, given=cause, lags=np.array([0]))
    assert of.conditional is not None
    assert of.conditional_p95 is not None
    assert of.conditional[0] < 0.3 * of.nmi[0]
    assert of.conditional[0] < 1.5 * of.conditional_p95[0]
    unrelated = _dependence(x, y, given=chance.standard_normal(2000), lags=np.array([0]))
    assert unrelated.conditional is not None
    assert unrelated.conditional_p95 is not None
    assert unrelated.conditional[0] > 10 * unrelated.conditional_p95[0]
    assert unrelated.conditional[0] > 0.9 * of.nmi[0]
    assert _dependence(x, y, lags=np.array([0])).conditional is None


def test_levels_are_not_torn_apart() -> None:
    chance = np.random.default_rng(3)
    cqi = chance.integers(3, 8, 500).astype(float)
    of = _dependence(cqi, cqi + chance.normal(0, 0.5, 500), lags=np.array([0]))
    assert (of.bins[0], of.bins_y[0]) == (5, 7)


@pytest.mark.parametrize("estimator", ["freedman-diaconis", "miller-madow", "ksg"])
def test_other_estimators_find_it_too(estimator: str) -> None:
    x, y = _pair(lag=2)
    of = _dependence(x, y, estimator=estimator, lags=np.array([0, 2]), permutations=19)
    assert (of.peak_lag_s, of.peak_p_value) == (2, 0.05)
    assert (of.normaliser, of.bins[0] == NA) == (("linfoot", True) if estimator == "ksg" else ("min", False))


@pytest.mark.parametrize(
    ("y", "reason"),
    [
        ("constant", "y is constant"),
        ("short", "fewer than 30 common points: 20"),
        ("bytes", "one series is the other one in disguise: each follows from the other at lag 0 s"),
        ("walk", "y is not stationary: it cannot be told from a random walk; take differences"),
        ("trend", "y is not stationary: it cannot be told from a random walk; take differences"),
    ],
)
def test_what_cannot_be_compared_is_na_with_its_reason(y: str, reason: str) -> None:
    x, follower = _pair(points=300)
    other = {
        "constant": np.full(300, 7.0),
        "short": np.where(np.arange(300) < 20, follower, np.nan),
        "bytes": np.exp(x) / 8,
        "walk": autoregressive(np.random.default_rng(4), 300, 1),
        "trend": np.arange(300.0),
    }[y]
    of = _dependence(x, other, lags=np.array([-1, 0, 1]))
    assert of.reason == reason
    assert of.reasons[1] == reason
    assert of.peak is None
    assert np.isnan(of.nmi).all()
    assert np.isnan(of.peak_p_value)


def test_states_under_other_numbers_are_the_same_states() -> None:
    states = np.random.default_rng(6).integers(0, 5, 200)
    names = np.array([3.0, 1.0, 4.0, 0.0, 2.0])
    of = _dependence(states.astype(float), names[states])
    assert np.abs(of.spearman).max() < 0.9
    assert of.reason == "one series is the other one in disguise: each follows from the other"


def test_a_lag_longer_than_the_overlap_is_na_and_the_others_are_not() -> None:
    x, y = _pair(points=100, lag=0)
    of = _dependence(x, y, lags=np.array([0, 80, 100]))
    assert of.reasons == ("", "fewer than 30 common points: 20", "the lag is longer than the overlap of the two series")
    assert not of.reason
    assert np.isfinite(of.nmi).tolist() == [True, False, False]
    assert _dependence(x, y, lags=np.array([100, 120])).reason == of.reasons[-1]


def test_the_table_has_a_row_for_each_lag_and_one_hypothesis_for_each_pair() -> None:
    x, y = _pair(lag=2)
    noise = np.random.default_rng(9).standard_normal(300)
    unknown = not_known(LAGS, step_s=1.0, reason="no edge between the clocks of a and d")
    table = table_of([("a", "b", _dependence(x, y)), ("a", "c", _dependence(x, noise)), ("a", "d", unknown)])
    assert len(table) == 33
    peaks = table.take(table["is_peak"])
    assert peaks["y"].tolist() == ["b", "c"]
    minimum, other = sorted(peaks["p_corrected"].tolist())
    np.testing.assert_allclose(peaks["q_value"], [min(2 * minimum, other), other])
    assert np.isfinite(table["q_value"]).sum() == 2
    assert set(table["reason"][22:]) == {"no edge between the clocks of a and d"}
    assert len(table_of([])) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimator": "kde"}, "estimator: 'kde' is not known; choose one of equal-count, "),
        ({"normaliser": "median"}, "normaliser: 'median' is not known"),
        ({"baseline": "none"}, "baseline: 'none' is not known"),
        ({"lags": np.array([0.5])}, "lags: the lags must be a list of"),
        ({"lags": np.array([], int)}, "lags: the lags must be a list of"),
        ({"seed": -1}, "seed: the seed must be a whole number of at least 0, but is -1"),
        ({"permutations": 0}, "permutations: the number of .* must be 1 to .*, but is 0"),
        ({"permutations": 10**9}, "permutations: the number of .* must be 1 to .*, but is 1000000000"),
        ({"session": np.tile([1, 2], 150)}, "session: the points of each session must be contiguous"),
        ({"given": np.zeros(3)}, r"given: the array must have the same shape as x, \(300,\), but has \(3,\)"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, object], message: str) -> None:
    x, y = _pair()
    with pytest.raises(InputError, match=message):
        _dependence(x, y, **options)


def test_a_missing_extra_is_named_with_what_installs_it() -> None:
    program = "import sys; sys.modules['scipy'] = None; import multitracer.analysis.correlation"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert last.endswith("InputError: statistics: scipy is not installed; run pip install 'multitracer[statistics]'")


def test_large_numbers_and_nothing_but_gaps_do_no_harm() -> None:
    x, y = _pair(lag=2)
    np.testing.assert_allclose(_dependence(1e307 * x, -1e-300 * y).nmi, _dependence(x, -y).nmi)
    assert _dependence(np.full(40, np.nan), np.full(40, np.nan)).reason == "the two series have no point in common"
    with pytest.raises(InputError, match="at least one point"):
        _dependence(np.zeros(0), np.zeros(0))
