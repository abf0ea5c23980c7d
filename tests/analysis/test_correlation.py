"""Pairs of quantities as a table: the planted lag, what clocks leave open of it, reasons for no number."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.analysis.common_grid import QuantityKind, SessionQuantity
from multitracer.analysis.correlation import MOST_LAGS, Pair, Settings, Together, correlated
from multitracer.errors import InputError
from multitracer.schemas.findings import SESSIONS_NMI
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.tables import Table

FAST = Settings((-5.0, 5.0), permutations=99)
LAG_S = 3


def noise(seed: int, count: int = 400) -> np.ndarray:
    """Return a series whose neighbours are a little alike."""
    white = np.random.default_rng(seed).normal(size=count + 4)
    return np.convolve(white, [0.4, 0.7, 1.0, 0.7, 0.4], "valid")[:count]


def quantity(name: str, value: np.ndarray, *, begin_s: float = 0.0, **further: object) -> SessionQuantity:
    time_ns = np.round((begin_s + np.arange(len(value))) * NS_PER_S).astype(np.int64)
    return SessionQuantity(name, QuantityKind.READING, time_ns, value, **further)  # type: ignore[arg-type]


def planted(seed: int = 1, *, begin_s: float = 0.0, **further: object) -> Together:
    """Return a radio that the rate follows after three seconds."""
    x = noise(seed)
    y = np.concatenate([noise(seed + 100)[:LAG_S], x[:-LAG_S]]) + 0.3 * noise(seed + 200)
    return Together(quantity("rsrp_dbm", x, begin_s=begin_s, **further), quantity("throughput", y, begin_s=begin_s))


def peak(table: Table) -> dict[str, object]:
    (row,) = table.take(table["is_peak"]).rows()
    return row


def pair(*sessions: Together, **further: str) -> Pair:
    return Pair("rsrp_dbm", "throughput", list(sessions), **further)


def test_planted_lag_is_the_peak_and_half_a_bin_stays_open() -> None:
    table = correlated([pair(planted())], FAST)
    row = peak(table)
    assert table.schema is SESSIONS_NMI
    assert table["lag_s"].tolist() == list(range(-5, 6))
    assert (row["lag_s"], row["lag_low_s"], row["lag_high_s"]) == (3.0, 2.5, 3.5)
    assert row["q_value"] == row["p_corrected"] == 0.01
    assert (row["step_s"], row["sessions"], row["reason"]) == (1.0, 1, "")
    assert float(str(row["nmi"])) > float(str(row["p95_permuted"]))


def test_error_of_the_clocks_widens_the_lag_and_one_clock_has_none() -> None:
    apart = planted(host="phone", bound_ns=0.3e9)
    row = peak(correlated([pair(apart)], FAST))
    assert (row["lag_low_s"], row["lag_high_s"]) == (pytest.approx(2.2), pytest.approx(3.8))
    both = Together(apart.x, quantity("throughput", apart.y.value, host="phone", bound_ns=0.3e9))
    row = peak(correlated([pair(both)], FAST))
    assert (row["lag_low_s"], row["lag_high_s"]) == (2.5, 3.5)


def test_sessions_are_pooled_and_no_lag_leads_from_one_to_the_other() -> None:
    sessions = [planted(seed, begin_s=10_000.0 * seed) for seed in (1, 2)]
    row = peak(correlated([pair(*sessions)], FAST))
    assert (row["lag_s"], row["sessions"], row["n"]) == (3.0, 2, 2 * (400 - LAG_S))


def test_a_pair_without_a_number_is_one_row_with_its_reason() -> None:
    long = "its clock and the session's cannot be related: " + "why " * 59 + "why"
    constant = Together(quantity("cqi", np.full(400, 9.0)), planted().y)
    short = Together(*(quantity(each.name, each.value[:20]) for each in planted()[:2]))
    pairs = [pair(planted()), pair(reason=long), Pair("cqi", "throughput", [constant]), pair(short)]
    table = correlated(pairs, FAST)
    without = list(table.take(np.isnan(table["lag_s"])).rows())
    reasons = [str(row["reason"]) for row in without]
    assert [len(table) - len(without), len(without)] == [11, 3]
    assert reasons[0] == long
    assert reasons[1] == "cqi is constant"
    assert reasons[2].startswith("fewer than 30 common points: ")
    assert all(row["nmi"] is row["p_value"] is row["q_value"] is row["lag_low_s"] is None for row in without)
    assert not any(row["is_peak"] for row in without)


def test_times_apart_have_no_number() -> None:
    later = Together(planted().x, quantity("throughput", noise(5), begin_s=5000.0))
    (row,) = correlated([pair(later)], FAST).rows()
    assert "no time in common" in str(row["reason"])
    both = correlated([pair(planted(), later)], FAST)
    assert peak(both)["sessions"] == 1
    assert both.provenance["left_out"] == ["rsrp_dbm and throughput: a session left out: " + str(row["reason"])]


def test_walk_is_compared_by_its_changes_alone() -> None:
    walks = Together(quantity("x", np.cumsum(noise(1))), quantity("y", np.cumsum(noise(2))))
    (row,) = correlated([Pair("x", "y", [walks])], FAST).rows()
    assert "not stationary" in str(row["reason"])
    assert str(row["reason"]).startswith(("x is", "y is"))
    changes = correlated([Pair("x", "y", [walks])], replace(FAST, difference=True))
    assert changes["is_differenced"].all()
    assert peak(changes)["p_corrected"] is not None


def test_what_a_third_quantity_explains_is_gone_when_it_is_known() -> None:
    cause = noise(9, 2000)
    x, y = (cause + 0.3 * noise(seed, 2000) for seed in (10, 11))
    together = Together(quantity("x", x), quantity("y", y), quantity("cause", cause))
    row = peak(correlated([Pair("x", "y", [together], given="cause")], FAST))
    assert row["given"] == "cause"
    assert float(str(row["conditional_nmi"])) < 0.5 * float(str(row["nmi"]))


def test_lags_that_fit_no_bin_are_the_nearest_one_and_too_many_are_refused() -> None:
    table = correlated([pair(planted())], Settings((2.6, 3.4), permutations=19))
    assert table["lag_s"].tolist() == [3.0]
    (row,) = correlated([pair(planted())], Settings((-80_000, 80_000), step_s=0.001)).rows()
    assert f"at most {MOST_LAGS:,}" in str(row["reason"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"lags_s": (1.0, -1.0)},
        {"lags_s": (float("nan"), 1.0)},
        {"lags_s": (-1e9, 0.0)},
        {"step_s": 0.0},
        {"step_s": float("nan")},
        {"permutations": 5},
        {"permutations": 10**9},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Settings(**wrong)  # type: ignore[arg-type]
