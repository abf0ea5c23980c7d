"""Series on one grid: what a bin holds of each kind, that gaps stay gaps, and which width bins have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.analysis.common_grid import (
    MIN_STEP_NS,
    MOST_BINS,
    QuantityKind,
    SessionQuantity,
    TimeBins,
    grid_of,
    on_grid,
    step_ns_of,
)
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S

NAN = float("nan")


def quantity(kind: QuantityKind, points: list[tuple[float, float]], *, hold_s: float | None = None) -> SessionQuantity:
    time_ns = np.array([round(at * NS_PER_S) for at, _ in points], dtype=np.int64)
    hold_ns = None if hold_s is None else round(hold_s * NS_PER_S)
    return SessionQuantity("x", kind, time_ns, np.array([value for _, value in points]), hold_ns=hold_ns)


def bins(of: SessionQuantity, count: int, *, step_s: float = 1.0, begin_s: float = 0.0) -> list[float]:
    grid = TimeBins(round(begin_s * NS_PER_S), round(step_s * NS_PER_S), count)
    return on_grid(of, grid).tolist()


def test_reading_holds_in_bins_narrower_than_its_interval_until_its_time_is_over() -> None:
    radio = quantity(QuantityKind.READING, [(0.2, -90), (2.2, -92), (4.2, -80), (13.5, -70)], hold_s=3)
    held = [-90, -90, -92, -92, -80, -80, -80, -80, NAN, NAN, NAN, NAN, NAN, -70]
    assert bins(radio, 14) == pytest.approx(held, nan_ok=True)


def test_gap_between_readings_stays_empty() -> None:
    radio = quantity(QuantityKind.READING, [(0.2, -90), (0.7, -92), (1.5, -80), (4.5, -70)], hold_s=3)
    assert bins(radio, 6) == pytest.approx([-91, -80, NAN, NAN, -70, NAN], nan_ok=True)


def test_step_is_averaged_over_time() -> None:
    window = quantity(QuantityKind.STEPS, [(0.0, 10), (1.25, 30), (3.0, 30)])
    assert bins(window, 4) == pytest.approx([10, 25, 30, NAN], nan_ok=True)


def test_samples_are_averaged_and_not_held() -> None:
    rtt = quantity(QuantityKind.SAMPLES, [(0.1, 4), (0.9, 6), (3.5, 9)])
    assert bins(rtt, 4) == pytest.approx([5, NAN, NAN, 9], nan_ok=True)


def test_amounts_are_summed_per_second_and_a_stall_is_zero() -> None:
    bytes_ = quantity(QuantityKind.AMOUNTS, [(0.0, 100), (0.5, 50), (4.5, 10), (6.0, 1)])
    assert bins(bytes_, 4, step_s=2) == pytest.approx([75, 0, 5, NAN], nan_ok=True)  # the last is not whole


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 1500)), min_size=2, max_size=60))
def test_no_amount_is_counted_twice_or_lost(packets: list[tuple[int, int]]) -> None:
    of = quantity(QuantityKind.AMOUNTS, [(at / 1000, size) for at, size in packets])
    first, last = min(at for at, _ in packets), max(at for at, _ in packets)
    per_bin = np.array(bins(of, 11, begin_s=first / 1000 - 1e-9))
    complete = {at: size for at, size in enumerate(per_bin) if not np.isnan(size)}
    for bin_, total in complete.items():
        begin = first + 1000 * bin_
        assert begin + 1000 <= last + 1
        assert total == sum(size for at, size in packets if begin <= at < begin + 1000)


def test_counter_rises_evenly_between_readings_and_not_over_a_gap_or_a_new_start() -> None:
    total = [(0.0, 0.0), (1.5, 300.0), (2.5, 500.0), (9.0, 900.0), (10.0, 1000.0), (11.0, 0.0), (13.0, 20.0)]
    rises = bins(quantity(QuantityKind.COUNTER, total, hold_s=5), 14)
    expected = [200, 200, NAN, NAN, NAN, NAN, NAN, NAN, NAN, 100, NAN, 10, 10, NAN]
    assert rises == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("intervals", "step_s"),
    [([1.0, 0.05], 1), ([1.04], 1), ([1.2], 2), ([0.001], MIN_STEP_NS / NS_PER_S), ([3.0, 8.0], 10)],
)
def test_width_of_bins_is_that_of_the_slowest_as_a_round_number(intervals: list[float], step_s: float) -> None:
    of = [quantity(QuantityKind.READING, [(i * apart, 1.0) for i in range(50)]) for apart in intervals]
    assert step_ns_of(of) == step_s * NS_PER_S


def test_grid_is_the_common_time_and_its_edges_agree_with_those_of_others() -> None:
    one = quantity(QuantityKind.SAMPLES, [(0.4, 1), (60.2, 1)])
    other = quantity(QuantityKind.SAMPLES, [(20.7, 1), (90.0, 1)])
    grid, reason = grid_of([one, other], NS_PER_S, margin_ns=5 * NS_PER_S)
    assert reason == ""
    assert grid == (15 * NS_PER_S, NS_PER_S, 51)


def test_readings_that_are_a_little_early_or_late_leave_no_bin_empty() -> None:
    jitter = np.random.default_rng(1).uniform(-0.2, 0.2, 300)
    of = quantity(QuantityKind.READING, [(1000 + at + late, at) for at, late in enumerate(jitter)], hold_s=5)
    grid, _ = grid_of([of], NS_PER_S)
    assert grid is not None
    assert np.isfinite(on_grid(of, grid)[:300]).all()
    assert grid.origin_ns == pytest.approx(999.5 * NS_PER_S, abs=0.05 * NS_PER_S)


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([(200.0, 1.0), (300.0, 1.0)], "no time in common"),
        ([(1.0, NAN)], "no value with a time"),
        ([(0.0, 1.0), (9e6, 1.0)], f"at most {MOST_BINS:,}"),
    ],
)
def test_what_has_no_grid_says_why(points: list[tuple[float, float]], words: str) -> None:
    long = quantity(QuantityKind.SAMPLES, [(0.0, 1.0), (100.0 if points[0][0] else 9e6, 1.0)])
    grid, reason = grid_of([long, quantity(QuantityKind.SAMPLES, points)], NS_PER_S)
    assert grid is None
    assert words in reason


@pytest.mark.parametrize("kind", QuantityKind)
def test_rows_without_a_time_or_a_value_count_for_nothing(kind: QuantityKind) -> None:
    time_ns = np.array([NOT_A_TIME, 0, NS_PER_S], dtype=np.int64)
    nothing = SessionQuantity("x", kind, time_ns, np.array([1.0, NAN, NAN]))
    assert np.isnan(on_grid(nothing, TimeBins(0, NS_PER_S, 3))).all()
    assert kind.words
