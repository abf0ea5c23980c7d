"""Range algorithms equal their definitions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from multitracer.analysis.intervals import (
    carried_on,
    distinct,
    extended,
    first_of_each,
    first_painters,
    increases,
    indexes,
    median,
    reduce_groups,
    span_minimum,
    taken,
    tallied,
    unwrapped,
)
from tests.analysis import oracle

spans = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), max_size=30)


@given(spans)
def test_the_first_painter_of_a_cell_is_the_lowest_that_covers_it(painters: list[tuple[int, int]]) -> None:
    left = np.array([low for low, _ in painters], dtype=np.int64)
    right = left + np.array([size for _, size in painters], dtype=np.int64)
    owner = first_painters(left, right, 60)
    for cell in range(60):
        covers = [i for i in range(len(painters)) if left[i] <= cell < right[i]]
        assert owner[cell] == min(covers, default=len(painters))


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=50), st.data())
def test_a_span_minimum_is_the_minimum_of_the_span(values: list[int], data: st.DataObject) -> None:
    values *= data.draw(st.sampled_from([1, 40]))  # few are searched in another way than many
    ends = st.integers(0, len(values))
    chosen = data.draw(st.lists(st.tuples(ends, ends).filter(lambda e: e[0] != e[1]), max_size=20))
    low = np.array([min(pair) for pair in chosen], dtype=np.int64)
    high = np.array([max(pair) for pair in chosen], dtype=np.int64)
    found = span_minimum(np.array(values, dtype=np.int64), low, high)
    assert found.tolist() == [min(values[a:b]) for a, b in zip(low, high, strict=True)]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=50))
def test_distinct_values_are_those_of_a_set_in_order(values: list[int]) -> None:
    assert distinct(np.array(values, dtype=np.int64)).tolist() == sorted(set(values))


@given(st.lists(st.integers(-5, 5), max_size=30))
def test_what_is_faster_for_few_values_equals_numpy(values: list[int]) -> None:
    array = np.array(values, dtype=np.int64)
    assert [each.tolist() for each in tallied(array)] == [
        each.tolist() for each in np.unique(array, return_counts=True)
    ]
    assert [each.tolist() for each in first_of_each(array)] == [
        each.tolist() for each in np.unique(array, return_index=True)
    ]
    assert indexes(array > 0).tolist() == np.flatnonzero(array > 0).tolist()
    assert extended(array, 7).tolist() == [*values, 7]
    index = np.arange(-1, len(values))
    for copies in (1, 1_000):  # few are taken in another way than many
        many = np.tile(array, copies)
        assert taken(many, index, 7).tolist() == np.append(many, 7)[index].tolist()
        chosen = taken(many > 0, index, before=False)
        assert chosen.dtype == bool, "the values of few, and of many, have one type"
        assert chosen.tolist() == np.append(many > 0, False)[index].tolist()


@given(st.lists(st.integers(-(2**50), 2**50), min_size=1, max_size=20), st.booleans())
def test_medians_and_increases_are_those_of_numpy(values: list[int], is_float: bool) -> None:
    array = np.array(values, dtype=np.float64 if is_float else np.int64)
    assert median(array) == np.median(array)
    for before in (array[:1], -1):
        assert (increases(array, before) == (np.diff(array, prepend=before) > 0)).all()
    assert not len(increases(array[:0], array[:0]))


numbers = st.one_of(st.integers(0, 2**32 - 1), st.integers(2**32 - 50, 2**32 - 1), st.integers(0, 50), st.just(2**31))


@given(st.lists(st.lists(numbers, max_size=12), max_size=5))
def test_circular_numbers_unwrap_group_by_group(groups: list[list[int]]) -> None:
    bounds = np.cumsum([0, *(len(group) for group in groups)])
    flat = np.array([n for group in groups for n in group], dtype=np.uint32)
    expected = [n for group in groups for n in oracle.unwrap(group)]
    assert unwrapped(flat, bounds).tolist() == expected


def test_a_transfer_of_many_gibibytes_unwraps_without_a_jump() -> None:
    sent = np.arange(0, 3 * 2**33, 2**29, dtype=np.int64)
    wire = (sent + 2**32 - 77).astype(np.uint32)
    assert unwrapped(wire, np.array([0, len(wire)])).tolist() == sent.tolist()


def test_a_stray_number_does_not_carry_the_others_along() -> None:
    """Opposite in sequence space, then back below where it was: by differences alone this gains 2**32."""
    wire = np.array([1000, 1000 + 2**31 - 10, 980, 990], dtype=np.uint32)
    assert unwrapped(wire, np.array([0, 4])).tolist() == [0, 2**31 - 10, -20, -10]


@given(st.lists(st.lists(st.integers(-9, 9), max_size=4), min_size=1, max_size=6))
def test_groups_without_rows_give_the_empty_value(groups: list[list[int]]) -> None:
    bounds = np.cumsum([0, *(len(group) for group in groups)])
    flat = np.array([n for group in groups for n in group], dtype=np.int64)
    assert reduce_groups(np.maximum, flat, bounds, empty=-99).tolist() == [max(g, default=-99) for g in groups]
    assert reduce_groups(np.add, flat, bounds, empty=0).tolist() == [sum(g) for g in groups]


@given(st.lists(st.lists(st.none() | st.integers(), max_size=8), min_size=1, max_size=4))
def test_each_row_carries_on_the_last_value_of_its_group(groups: list[list[int | None]]) -> None:
    bounds = np.cumsum([0, *map(len, groups)])
    rows = [value for group in groups for value in group]
    position = [row for row, value in enumerate(rows) if value is not None]
    expected: list[object] = []
    for number, group in enumerate(groups):
        last: object = f"before {number}"
        for value in group:
            last = last if value is None else value
            expected.append(last)
    items = np.array([rows[at] for at in position], dtype=object)
    before = np.array([f"before {number}" for number in range(len(groups))], dtype=object)
    carried = carried_on(items, np.array(position, dtype=np.int64), bounds, before)
    assert carried.tolist() == expected
