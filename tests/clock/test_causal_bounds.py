"""What causality allows is as wide as every skew that a quartz can have makes it."""

from __future__ import annotations

import numpy as np
import pytest

from multitracer.clock.model.skew_posterior import certain

MS, S = 1e6, 1e9
LARGEST = 500e-6


def bounds(at_s: list[float]) -> tuple[float, float]:
    """Return the bounds at time 0 of events both ways that allow 10 ms to each side when they happen."""
    times = np.array(at_s) * S
    return certain((times, np.full(len(times), 10 * MS)), (times, np.full(len(times), 10 * MS)), 0.0)


def test_far_from_the_events_a_clock_may_have_run_off() -> None:
    minimum, most = bounds([10.0])
    assert most == pytest.approx(10 * MS + LARGEST * 10 * S, abs=1000)
    assert minimum == pytest.approx(-most, abs=1000)


def test_events_on_both_sides_leave_no_room_for_that() -> None:
    minimum, most = bounds([-10.0, 10.0])
    assert (minimum, most) == pytest.approx((-10 * MS, 10 * MS), abs=1000)


def test_two_events_bound_the_skew() -> None:
    """Within 10 s they would allow 2,000 ppm, and a quartz is off by 500 at most; within 200 s 100 ppm."""
    minimum, most = bounds([100.0, 110.0])
    assert most == pytest.approx(10 * MS + LARGEST * 100 * S, abs=1000)
    assert bounds([100.0, 300.0])[1] == pytest.approx(10 * MS + 20 * MS / 200 * 100, abs=1000)
    assert minimum == pytest.approx(-most, abs=1000)
