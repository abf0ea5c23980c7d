"""Thinning: nothing that matters to the eye is lost, and nothing that matters to the engineer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.figures.series import BINS, RARE_LIMIT, Series, in_order, seconds_since, thin
from multitracer.tables import NOT_A_TIME
from tests.examples import examples


def series(times: np.ndarray, values: np.ndarray, *, rare: bool = False) -> Series:
    frames = np.arange(1, len(times) + 1, dtype=np.uint32)
    return Series("TcpSnd_data", "data", times.astype(np.int64), values.astype(np.int64), frame=frames, rare=rare)


def noisy(points: int, *, seed: int = 1, rare: bool = False) -> Series:
    random = np.random.default_rng(seed)
    times = np.sort(random.integers(0, 60_000_000_000, points))
    return series(times, random.integers(-(10**12), 10**12, points), rare=rare)


def test_a_short_series_is_kept_whole() -> None:
    few = noisy(4 * BINS)
    assert thin(few) is not None
    np.testing.assert_array_equal(thin(few).frame, few.frame)


def test_a_long_series_keeps_first_last_lowest_and_highest_of_every_bin() -> None:
    many = noisy(200_000)
    kept = thin(many, bins=64)
    assert many.frame is not None
    assert kept.frame is not None
    assert len(kept) <= 4 * 64
    span = many.time_ns[-1] - many.time_ns[0]
    bins = np.minimum((many.time_ns - many.time_ns[0]) * 64 // span, 63)
    for number in range(2, 62):  # the outermost bins' edges are a matter of taste
        inside = np.flatnonzero(bins == number)
        wanted = {inside[0], inside[-1], inside[many.value[inside].argmin()], inside[many.value[inside].argmax()]}
        assert set(many.frame[list(wanted)].tolist()) <= set(kept.frame.tolist())


@examples(60)
@given(
    st.lists(st.tuples(st.integers(0, 2**62), st.integers(-(2**40), 2**40)), min_size=1, max_size=300),
    st.integers(1, 40),
)
def test_extremes_and_ends_survive_in_any_bins(points: list[tuple[int, int]], bins: int) -> None:
    ordered = sorted(points)
    complete = series(np.array([t for t, _ in ordered]), np.array([v for _, v in ordered]))
    kept = thin(complete, bins=bins)
    assert kept.frame is not None
    assert kept.value.min() == complete.value.min()
    assert kept.value.max() == complete.value.max()
    assert kept.frame[0] == 1
    assert kept.time_ns[-1] == complete.time_ns[-1]
    assert np.all(np.diff(kept.frame.astype(np.int64)) > 0)


@examples(40)
@given(st.integers(0, RARE_LIMIT), st.integers(0, 2**32))
def test_rare_events_are_never_dropped(points: int, seed: int) -> None:
    events = noisy(points, seed=seed, rare=True)
    np.testing.assert_array_equal(thin(events, bins=1).frame, events.frame)


def test_events_that_are_not_rare_still_show_in_every_bin_that_has_one() -> None:
    events = noisy(RARE_LIMIT + 50_000, rare=True)
    kept = thin(events, bins=512)
    span = events.time_ns[-1] - events.time_ns[0]
    wide = (events.time_ns - events.time_ns[0]) * 256 // (span + 1)
    left = (kept.time_ns - events.time_ns[0]) * 256 // (span + 1)
    assert set(wide.tolist()) == set(left.tolist())


def test_bars_keep_the_extremes_of_both_ends() -> None:
    low = noisy(50_000)
    bars = Series("s", "sack", low.time_ns, low.value, until=noisy(50_000, seed=9).value + 10**13)
    kept = thin(bars, bins=16)
    assert kept.value.min() == bars.value.min()
    assert kept.until is not None
    assert bars.until is not None
    assert kept.until.max() == bars.until.max()


@pytest.mark.parametrize("value", [0, 1_700_000_000_000_000_000, 2**63 - 1])
def test_points_at_one_moment_are_thinned_by_position(value: int) -> None:
    same = series(np.full(100_000, value), np.arange(100_000))
    kept = thin(same)
    assert 0 < len(kept) <= 4 * BINS
    assert kept.value.max() == 99_999


def test_clocks_centuries_apart_do_not_overflow() -> None:
    times = np.repeat(np.array([-(2**63) + 1, 2**63 - 1]), 50_000)
    kept = thin(series(times, np.arange(100_000)))
    assert {times[0], times[-1]} <= set(kept.time_ns.tolist())
    seconds = seconds_since(times, 0)
    assert seconds[0] < -9e9
    assert seconds[-1] > 9e9


def test_points_are_put_in_order_and_those_without_time_left_out() -> None:
    mixed = series(np.array([30, NOT_A_TIME, 10, 20, 10]), np.arange(5))
    np.testing.assert_array_equal(in_order(mixed).frame, [3, 5, 4, 1])


def test_an_interval_keeps_both_ends() -> None:
    ten = series(np.arange(10), np.arange(10))
    np.testing.assert_array_equal(ten.between(3, 6).value, [3, 4, 5, 6])
    np.testing.assert_array_equal(ten.between(None, 2).value, [0, 1, 2])
    assert len(ten.between(20, None)) == 0
