"""The native kernel looks at stretches of columns as NumPy does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer import native
from multitracer.analysis import intervals
from multitracer.analysis.intervals import first_painters, span_minimum

pytestmark = pytest.mark.skipif(native.kernel() is None, reason=f"captures are read by {native.state()}")

EXTREMES = np.iinfo(np.int64)
number = st.integers(-5, 60) | st.integers(EXTREMES.min, EXTREMES.max)
spans = st.lists(st.tuples(st.integers(0, 29), st.integers(1, 30)), max_size=60)


def _both(patch: pytest.MonkeyPatch, call: object, *arguments: object) -> list[list[int]]:
    """Return what a function of `intervals` returns with the kernel, and without."""
    assert callable(call)
    answers = []
    for many in (0, 1 << 40):
        patch.setattr(intervals, "_MANY", many)
        answers.append(call(*arguments))
    assert answers[0].dtype == answers[1].dtype == np.int64
    return [each.tolist() for each in answers]


@given(st.lists(number, min_size=30, max_size=30), spans, st.booleans())
def test_stretches_have_the_same_minimum(values: list[int], stretches: list[tuple[int, int]], ascend: bool) -> None:
    low = np.array([begin for begin, _ in stretches], dtype=np.int64)
    high = np.minimum(low + [length for _, length in stretches], 30).astype(np.int64)
    if ascend:
        low, high = np.sort(low), np.sort(high)
    with pytest.MonkeyPatch.context() as patch:
        by_kernel, by_numpy = _both(patch, span_minimum, np.array(values, dtype=np.int64), low, high)
    assert by_kernel == by_numpy == [min(values[a:b]) for a, b in zip(low, high, strict=True)]


@given(spans)
def test_cells_have_the_same_first_painter(stretches: list[tuple[int, int]]) -> None:
    left = np.array([begin for begin, _ in stretches], dtype=np.int64)
    right = left + np.array([length for _, length in stretches], dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        by_kernel, by_numpy = _both(patch, first_painters, left, right, 60)
    assert by_kernel == by_numpy
    for cell, painter in enumerate(by_kernel):
        covers = [at for at in range(len(left)) if left[at] <= cell < right[at]]
        assert painter == min(covers, default=len(left))
