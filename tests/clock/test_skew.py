"""Witnesses of the skew that contradict each other widen its interval; a wrong jump tilts nothing."""

from __future__ import annotations

import numpy as np
import pytest

from multitracer.clock.captures.bottleneck import sides_of
from multitracer.clock.captures.directions import MatchedDirection, Ways, both_ways
from multitracer.clock.captures.skew import _by_delays, disagreement, skew_of
from multitracer.clock.captures.steps import Step, find_steps
from multitracer.clock.captures.two_captures import relate
from multitracer.clock.model.skew_posterior import _Side
from tests.clock.paths import Case, Clock, Path, captures
from tests.clock.sweep import synthetic

PPM = 1e-6


def test_a_level_that_a_line_below_the_delays_bears_out_is_believed() -> None:
    assert disagreement(5 * PPM, 1 * PPM, [5.5 * PPM, 40 * PPM]) == 0.0


def test_a_level_that_no_line_bears_out_is_as_uncertain_as_they_are_apart() -> None:
    assert disagreement(5 * PPM, 1 * PPM, [0.0, -30 * PPM]) == 5 * PPM


def test_envelope_and_mode_that_disagree_widen_the_interval_of_a_whole_case() -> None:
    """Both lines below all delays of this case are right, and the densest level is 13 ppm off."""
    subject = synthetic(1001)
    (found,) = relate(subject.near, subject.far)
    assert abs(found.skew_ppm - subject.skew_ppm) < found.skew_uncertainty_ppm
    assert found.skew_uncertainty_ppm > 13


def test_windows_far_from_a_line_cost_no_underflow_and_change_no_likelihood() -> None:
    flat, width = np.array([[0.0, 3e3, 9e8], [0.0, -7e8, 5e4]]), np.array([2e3, 4e3, 3e3])
    side = _Side(flat, width, 0.12 / 2e9)
    levels = np.concatenate([flat - each * width for each in (0.3, 1.2)], axis=1)
    below = (levels[:, None, :] - flat[:, :, None]) / width[:, None]
    with np.errstate(under="ignore"):
        density = np.exp(np.minimum(below, -12 * below)) / (1.1 * width[:, None] / (1 - 0.12)) + side.floor
    expected = np.log(density.prod(axis=1).mean(axis=1))
    with np.errstate(under="raise"):
        likelihood = side.log_likelihood(np.arange(2))
    assert likelihood.tolist() == pytest.approx(expected.tolist(), rel=1e-12)


@pytest.mark.parametrize("windows", [3, 20, 72])
def test_skews_evaluated_together_have_exactly_the_likelihood_of_each_alone(windows: int) -> None:
    luck, skews = np.random.default_rng(windows), np.arange(50)
    flat = luck.exponential(1e6, windows) + np.outer(skews * 2e-6, luck.uniform(0, 10e9, windows))
    side = _Side(flat, luck.uniform(1e4, 3e5, windows), 0.12 / 2e9)
    alone = [side.log_likelihood(skews[[each]])[0] for each in skews]
    np.testing.assert_array_equal(side.log_likelihood(skews), alone)


def test_a_jump_that_is_measured_wrongly_does_not_tilt_the_skew() -> None:
    case = Case(
        up=Path(rate_bps=256_000, jitter_s=0.02), down=Path(rate_bps=256_000, jitter_s=0.02), duration_s=100,
        transfer_bytes=150_000, directions=(0, 1), fixed=Clock(skew_ppm=40, steps=((50.0, 2.0),)), seed=7,
    )  # fmt: skip
    near, far = captures(case)
    (step,), ways = find_steps(both_ways(near, far))
    wrong = Ways(_off(ways.out, step, 5e6), _off(ways.back, step, 5e6), ways.first_ns, ways.base_ns)
    right = skew_of(sides_of(near, far, ways, [step]), [step])
    other = skew_of(sides_of(near, far, wrong, [step]), [step])
    assert abs(other[0] - right[0]) < right[1]


def _off(way: MatchedDirection, step: Step, error_ns: float) -> MatchedDirection:
    rows = way.row if step.clock == "a" else way.other_row
    return way.shifted(way.delay_ns + way.sign * np.where(rows >= step.row, error_ns, 0.0))


@pytest.mark.parametrize("seed", [3, 5, 7])
def test_a_level_that_changes_within_the_recording_widens_the_interval(seed: int) -> None:
    """The least delay of each direction wanders by 0.15 ms in 5 s, as it does from cell to cell; the skew is 0."""
    luck, courses = np.random.default_rng(seed), []
    for sign in (1, -1):
        time = np.sort(luck.uniform(0, 100e9, 1500))
        levels = 30e6 + np.cumsum(luck.normal(0, 0.15e6, 20))
        queue = luck.exponential(20e6, len(time)) * (luck.random(len(time)) < 0.9)
        courses.append((sign, time, np.interp(time, np.linspace(0, 100e9, 20), levels) + queue))
    skew, alone = _by_delays(courses, with_error=False)
    again, error = _by_delays(courses, with_error=True)
    assert again == skew
    assert abs(skew) > 1.96 * alone, "minima of one block do not count as independent"
    assert abs(skew) < 1.96 * error


@pytest.mark.parametrize("seed", [1, 5])
def test_two_cells_that_agree_by_chance_do_not_narrow_the_interval(seed: int) -> None:
    """Each cell, of 10 to 35 s, has a least delay of its own, normal with 1 ms; the skew is 0.

    Two cells whose levels lie on one line by chance held the skew whichever block was left out: 0.9 and 2.3 ppm.
    """
    luck, courses = np.random.default_rng([seed, 77]), []
    ends = np.cumsum(luck.uniform(10e9, 35e9, 12))
    for sign in (1, -1):
        time = np.sort(luck.uniform(0, 100e9, 1500))
        levels = 30e6 + luck.normal(0, 1e6, 13)
        queue = luck.exponential(20e6, len(time)) * (luck.random(len(time)) < 0.9)
        courses.append((sign, time, levels[np.searchsorted(ends, time)] + queue))
    skew, error = _by_delays(courses, with_error=True)
    assert abs(skew) < 1.96 * error
