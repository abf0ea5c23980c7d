"""The native kernel looks values up as NumPy does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer import native
from multitracer.analysis import intervals
from multitracer.analysis.intervals import places

pytestmark = pytest.mark.skipif(native.kernel() is None, reason=f"captures are read by {native.state()}")

EXTREMES = np.iinfo(np.int64)
number = st.integers(-5, 60) | st.integers(EXTREMES.min, EXTREMES.max)
numbers = st.lists(number, max_size=80)


@given(numbers, numbers, st.sampled_from(("left", "right")), st.sampled_from(("both", "one", "none")))
def test_values_have_the_same_places(column: list[int], values: list[int], side: intervals.Side, in_order: str) -> None:
    ordered, sought = (np.array(each, dtype=np.int64) for each in (column, values))
    ordered = ordered if in_order == "none" else np.sort(ordered)
    sought = np.sort(sought) if in_order == "both" else sought
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "_MANY", 0)
        found = places(ordered, sought, side)
    assert found.dtype == np.int64
    assert found.tolist() == np.searchsorted(ordered, sought, side=side).tolist()


@pytest.mark.parametrize("step", [1, 7, 1_000])
def test_far_steps_and_falls(step: int) -> None:
    ordered = np.arange(0, 100_000, 3)
    values = np.arange(0, 100_000, step) - 7
    values[1::20] -= 500
    assert (places(ordered, values) == np.searchsorted(ordered, values)).all()


def test_other_numbers_are_left_to_numpy() -> None:
    halves = np.arange(2_000) / 2
    assert (places(np.arange(1_000), halves) == np.searchsorted(np.arange(1_000), halves)).all()
