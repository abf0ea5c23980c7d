"""The native kernel and Python find the same packets in two captures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer import native
from multitracer.clock.captures.matching import EXACT, REWRITTEN, copies, identities, join, match, shared
from tests.analysis.test_engine_equals_oracle import exchanges
from tests.analysis.traffic import Segment, capture
from tests.native.both import python_only

if TYPE_CHECKING:
    from random import Random

    from multitracer.tables import Array, Table

pytestmark = pytest.mark.skipif(native.kernel() is None, reason=f"captures are read by {native.state()}")


def keys(numbers: list[int]) -> Array:
    return np.array(numbers, dtype=np.uint64)


few = st.lists(st.integers(0, 5) | st.integers(0, 2**64 - 1), max_size=60).map(keys)


def named(segments: Table, rows: Array | None, fields: tuple[str, ...]) -> tuple[Array, Array, Array]:
    key = identities(segments, rows, fields)
    return key, *copies(key)


@given(exchanges(), st.sampled_from((EXACT, REWRITTEN)), st.booleans())
def test_packets_have_the_same_names(segments: list[Segment], fields: tuple[str, ...], complete: bool) -> None:
    table = capture(segments).segments
    rows = None if complete else np.arange(len(table))[::-2]
    fast = named(table, rows, fields)
    with python_only():
        slow = named(table, rows, fields)
    for one, other in zip(fast, slow, strict=True):
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()


@given(few, few)
def test_packets_find_the_same_partners(near: Array, far: Array) -> None:
    sides = near, copies(near)[0], far, copies(far)[0]
    fast = join(*sides)
    with python_only():
        slow = join(*sides)
    assert [each.tolist() for each in fast] == [each.tolist() for each in slow]
    assert all(each.dtype == np.int64 for each in fast)


@given(few, st.lists(few, max_size=3))
def test_as_many_packets_are_shared(key: Array, others: list[Array]) -> None:
    with python_only():
        slow = shared(key, others)
    assert shared(key, others) == slow == [len({*key.tolist()} & {*each.tolist()}) for each in others]


@given(exchanges(), exchanges(), st.randoms(use_true_random=False), st.booleans())
def test_captures_hold_the_same_packets(
    seen: list[Segment], others: list[Segment], luck: Random, shuffled: bool
) -> None:
    """Some are lost between the two, some doubled, and some overtake others."""
    there = [each for each in seen for _ in range(luck.choice((0, 1, 1, 1, 2)))] + others
    if shuffled:
        luck.shuffle(there)
    near, far = capture(seen), capture(there or others)
    fast = match(near, far)
    with python_only():
        slow = match(near, far)
    assert [each.tolist() for each in fast] == [each.tolist() for each in slow]


@pytest.mark.parametrize("lost", [1, 2, 5])
def test_long_runs_of_packets_find_their_partners_where_some_overtake(lost: int) -> None:
    luck = np.random.default_rng(lost)
    near = luck.integers(0, 2**64, 5_000, dtype=np.uint64)
    order = np.argsort(np.arange(5_000) + luck.uniform(0, 20, 5_000))
    far = near[order[luck.integers(0, lost, 5_000) < 1]]
    none = np.zeros(5_000, dtype=np.int64)
    left, right = join(near, none, far, none[: len(far)])
    assert (near[left] == far[right]).all()
    assert len(left) == len(far)


def test_many_keys_that_share_their_upper_bits_are_counted_at_once() -> None:
    key = keys([number << 8 for number in range(300_000)])
    number, total = copies(np.concatenate([key, key]))
    assert number.tolist() == [0] * len(key) + [1] * len(key)
    assert (total == 2).all()
