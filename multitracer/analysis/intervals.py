"""Algorithms on arrays of ranges, independent of TCP: unwrapping, painting, minima over spans.

Every function is linear or n log n in the number of rows and works on all rows at once. So a malicious
capture (a hundred thousand holes, a million connections) costs no more than another one of its size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from multitracer.native import kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Array

Side = Literal["left", "right"]
"""The `side` of numpy.searchsorted: the position before or after equal values."""

IMPLAUSIBLE = 1 << 30
"""Minimum implausible distance between the sequence numbers of neighbouring segments: the largest window (RFC 7323,
2.3)."""

_MANY = 1_000
"""Number of values from which the native kernel searches; for fewer, the call costs more than the search. Not measured.
"""
BLOCK_ROWS = 1 << 16
"""Rows of a long column that are computed at a time, so that what is only passed through stays small. Not measured."""
_FEW_GROUPS = 8
"""Up to this number of groups, one slice per group is faster than a column over all rows."""


def group_starts(bounds: Array) -> Array:
    """Return the first position of each group that is not empty; group g is bounds[g]:bounds[g + 1].

    Parameters
    ----------
    bounds : ndarray of int64, shape (n_groups + 1,)
        Positions, ascending from 0.

    Returns
    -------
    ndarray of int64, shape (n_filled_groups,), ascending
    """
    return bounds[:-1][bounds[1:] > bounds[:-1]]


def distinct(values: Array) -> Array:
    """Return the distinct values in ascending order, like np.unique but without its import of numpy.ma.

    The function sorts, since the hash table of np.unique takes 20 times as long for a million time stamps.
    Packet times are nearly sorted, and a stable sort is fast on them.

    Parameters
    ----------
    values : ndarray of any dtype that sorts, shape (n,)
        NA counts as an ordinary value.

    Returns
    -------
    ndarray, dtype of `values`, shape (n_distinct,)
    """
    ordered = np.sort(values, kind="stable")
    return ordered[_is_new(ordered)]


def _is_new(ordered: Array) -> Array:
    """Return which of the ordered values differ from the one before them: bool, shape (n,)."""
    new = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return new


def median(values: Array) -> float:
    """Return np.median(values), but faster where values are few, or many of them equal.

    Parameters
    ----------
    values : ndarray of any number type without NaN, shape (n,)
        At least one.
    """
    ordered = np.sort(values)
    return float((ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2)


def tallied(values: Array) -> tuple[Array, Array]:
    """Return the distinct values in ascending order, and how often each occurs; like `distinct`, see there.

    Parameters
    ----------
    values : ndarray of any dtype that sorts, shape (n,)

    Returns
    -------
    values : ndarray, dtype of `values`, shape (n_distinct,)
    many : ndarray of int64, shape (n_distinct,)
    """
    ordered = np.sort(values, kind="stable")
    begin = indexes(_is_new(ordered))
    many = np.empty(len(begin), dtype=np.int64)
    np.subtract(begin[1:], begin[:-1], out=many[:-1])
    many[-1:] = len(ordered) - begin[-1:]
    return ordered[begin], many


def first_of_each(values: Array) -> tuple[Array, Array]:
    """Return the distinct values in ascending order, and the index at which each occurs first; like `distinct`.

    Parameters
    ----------
    values : ndarray of any dtype that sorts, shape (n,)

    Returns
    -------
    values : ndarray, dtype of `values`, shape (n_distinct,)
    index : ndarray of int64, shape (n_distinct,)
    """
    order = values.argsort(kind="stable")
    ordered = values[order]
    first = _is_new(ordered)
    return ordered[first], order[first]


def indexes(mask: Array) -> Array:
    """Return the indexes at which a mask is true: np.flatnonzero(mask), but four times as fast for few.

    Parameters
    ----------
    mask : ndarray of bool, shape (n,)

    Returns
    -------
    ndarray of int64, ascending
    """
    return mask.nonzero()[0]


def extended(values: Array, last: int) -> Array:
    """Return the values with one more behind them: np.append(values, last), but three times as fast for few.

    Parameters
    ----------
    values : ndarray of int64 or bool, shape (n,)
    last : int

    Returns
    -------
    ndarray, dtype of `values`, shape (n + 1,)
    """
    longer = np.empty(len(values) + 1, dtype=values.dtype)
    longer[:-1], longer[-1] = values, last
    return longer


def in_blocks(values: Array) -> Iterator[int]:
    """Yield the elements of a column of integers as Python's, which take 40 bytes each, a block at a time."""
    for first in range(0, len(values), BLOCK_ROWS):
        yield from values[first : first + BLOCK_ROWS].tolist()


def repeated(value: int, rows: int) -> Array:
    """Return a column with one value in all rows: int64, shape (rows,). Of many rows it is read-only, and one value."""
    if rows < _MANY:
        return np.full(rows, value, dtype=np.int64)
    return np.broadcast_to(np.int64(value), rows)


def taken(values: Array, index: Array, before: int) -> Array:
    """Return values[index], and `before` where the index is -1: np.append(values, before)[index].

    It needs no copy where the values are many, and is faster where they are few.

    Parameters
    ----------
    values : ndarray of int64 or bool, shape (n,)
    index : ndarray of int64, shape (n_chosen,)
        From -1 to n - 1.
    before : int or bool

    Returns
    -------
    ndarray, dtype of `values`, shape (n_chosen,)
    """
    if len(values) < _MANY:
        return extended(values, before)[index]
    chosen = values.take(index, mode="clip")
    chosen[index < 0] = before
    return chosen


def increases(values: Array, before: Array | int) -> Array:
    """Return which values are greater than the one before them: bool, shape (n,); `before` precedes the first one.

    It is np.diff(values, prepend=before) > 0, but faster where values are few.
    """
    greater = np.empty(len(values), dtype=bool)
    greater[:1] = values[:1] > before
    greater[1:] = values[1:] > values[:-1]
    return greater


def places(ordered: Array, values: Array, side: Side = "left") -> Array:
    """Return np.searchsorted(ordered, values, side): the index at which each value would be inserted.

    If the values are nearly sorted, this function is ten times as fast.

    Parameters
    ----------
    ordered : ndarray of int64, shape (n,), ascending
    values : ndarray of int64, shape (n_values,)
        Times, bytes or rows; NA counts as an ordinary number.
    side : {"left", "right"}
        The position before or after equal values.

    Returns
    -------
    ndarray of int64, shape (n_values,)
    """
    if len(values) >= _MANY and ordered.dtype == values.dtype == np.int64 and (native := kernel()):
        index = native.places(np.ascontiguousarray(ordered), np.ascontiguousarray(values), side == "right")
        if index is not None:
            return index
    return np.asarray(ordered.searchsorted(values, side))


def reduce_groups(ufunc: np.ufunc, values: Array, bounds: Array, *, empty: object) -> Array:
    """Return `ufunc` reduced over each group of `values`; `empty` for a group without rows.

    Parameters
    ----------
    ufunc : numpy.ufunc
        add, minimum or maximum.
    values : ndarray of any number type, shape (n,)
        Rows, group after group. NA is not skipped; it counts as an ordinary number.
    bounds : ndarray of int64, shape (n_groups + 1,)
        Group g is values[bounds[g]:bounds[g + 1]]; the first bound is 0, the last n.
    empty : scalar
        The result for an empty group.

    Returns
    -------
    ndarray, shape (n_groups,)
        int64 for add, else the dtype of `values`; same unit as `values`.
    """
    dtype = np.int64 if ufunc is np.add else values.dtype
    result = np.full(len(bounds) - 1, empty, dtype=dtype)
    filled = bounds[1:] > bounds[:-1]
    if filled.any():
        result[filled] = ufunc.reduceat(values, bounds[:-1][filled], dtype=dtype)
    return result


def add_to_groups(values: Array, shift: Array, bounds: Array) -> None:
    """Add shift[g] to each row of group g, in place.

    Parameters
    ----------
    values : ndarray of int64, shape (n,)
        Rows, group after group; never NA.
    shift : ndarray of int64, shape (n_groups,)
        In the unit of `values`; may be negative.
    bounds : ndarray of int64, shape (n_groups + 1,)
        Group g is values[bounds[g]:bounds[g + 1]].
    """
    if len(shift) <= _FEW_GROUPS:
        for group, amount in enumerate(shift.tolist()):
            values[bounds[group] : bounds[group + 1]] += amount
    else:
        values += np.repeat(shift, np.diff(bounds))


def carried_on(value: Array, position: Array, bounds: Array, before: Array) -> Array:
    """Return for each row the value of the last item at or before this row, within its group.

    Parameters
    ----------
    value : ndarray of any dtype, shape (n_items,)
    position : ndarray of int64, shape (n_items,), ascending
        The row of each item.
    bounds : ndarray of int64, shape (n_groups + 1,)
        Group g has the rows bounds[g]:bounds[g + 1]; the first bound is 0.
    before : ndarray, dtype of `value`, shape (n_groups,)
        The value for rows of the group before its first item.

    Returns
    -------
    ndarray, dtype of `value`, shape (n_rows,)
    """
    begins, rows = bounds[:-1], int(bounds[-1])
    index = np.searchsorted(position, begins)
    blank = np.minimum(np.append(position, rows)[index], bounds[1:]) - begins
    ends = np.cumsum(blank)
    leading = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(begins - (ends - blank), blank)
    if not len(position):
        carried = np.empty(rows, dtype=value.dtype)
    else:
        position = position.copy()
        position[0] = 0
        carried = np.repeat(value, np.diff(position, append=rows))
    carried[leading] = np.repeat(before, blank)
    return carried


def spans(bounds: Array, chosen: Array) -> tuple[Array, Array]:
    """Return all rows of the chosen groups, in the order of `chosen`, and where each group begins among them.

    Parameters
    ----------
    bounds : ndarray of int64, shape (n_groups + 1,)
        Group g has the rows bounds[g]:bounds[g + 1].
    chosen : ndarray of int64, shape (n_chosen,)
        Numbers of groups.

    Returns
    -------
    rows : ndarray of int64, shape (n_rows,)
    bounds : ndarray of int64, shape (n_chosen + 1,)
        Positions in `rows`, from 0.
    """
    sizes = np.diff(bounds)[chosen]
    ends = np.cumsum(sizes)
    return np.arange(sizes.sum()) + np.repeat(bounds[chosen] - (ends - sizes), sizes), np.append(0, ends)


def steps(values: Array, starts: Array) -> Array:
    """Return the signed distance of each 32-bit number from the previous one; 0 where a group starts.

    Parameters
    ----------
    values : ndarray of uint32, shape (n,)
        Sequence numbers, group after group; they wrap around at 2^32.
    starts : ndarray of int64, shape (n_filled_groups,)
        First position of each group, as returned by `group_starts`.

    Returns
    -------
    ndarray of int32, shape of `values`
        From -2^31 to 2^31 - 1.
    """
    distance = np.zeros(len(values), dtype=np.int32)
    np.subtract(values[1:], values[:-1], out=distance[1:].view(np.uint32))
    distance[starts] = 0
    return distance


def unwrapped(values: Array, bounds: Array) -> Array:
    """Return wrapping 32-bit sequence numbers as int64 distances from the first number of their group.

    A number lies within 2 GiB of the one before it (RFC 9293, section 3.4). A number that is implausibly far
    from both of its neighbours is an outlier: its distance is computed from the number before it, and it does
    not change the distances of the numbers after it.

    Parameters
    ----------
    values : ndarray of uint32, shape (n,)
    bounds : ndarray of int64, shape (n_groups + 1,)

    Returns
    -------
    ndarray of int64, shape (n,)
    """
    starts = group_starts(bounds)
    distance = steps(values, starts)
    if len(distance) and max(int(distance.max()), -int(distance.min())) >= IMPLAUSIBLE:
        return _unwrapped_without_outliers(values, distance, bounds)
    return _accumulated(distance, bounds)


def _accumulated(distance: Array, bounds: Array) -> Array:
    total = np.cumsum(distance, dtype=np.int64)
    if len(bounds) > 2 and len(total):
        add_to_groups(total, -total[np.minimum(bounds[:-1], len(total) - 1)], bounds)
    return total


def _unwrapped_without_outliers(values: Array, distance: Array, bounds: Array) -> Array:
    far = np.abs(distance.astype(np.int64)) >= IMPLAUSIBLE
    far_after = np.ones(len(far), dtype=bool)
    far_after[:-1] = far[1:]
    far_after[bounds[1:][bounds[1:] > bounds[:-1]] - 1] = True
    kept = np.flatnonzero(~(far & far_after))
    kept_bounds = np.searchsorted(kept, bounds)
    chain = _accumulated(steps(values[kept], group_starts(kept_bounds)), kept_bounds)
    before = np.searchsorted(kept, np.arange(len(values)), side="right") - 1
    return chain[before] + (values - values[kept[before]]).view(np.int32)


def first_painters(left: Array, right: Array, cells: int) -> Array:
    """Return for each cell the lowest index i whose range left[i] to right[i] - 1 contains the cell.

    If no range contains a cell, the result is the number of ranges. Method: each range is the union of two
    overlapping ranges whose length is a power of two. They are stored in an array for that length, and the
    arrays are merged from the longest length to the shortest: O(n log n).

    Parameters
    ----------
    left, right : ndarray of int64, shape (n_painters,)
        0 <= left < right <= cells.
    cells : int

    Returns
    -------
    ndarray of int64, shape (cells,)
        From 0 to n_painters.
    """
    nobody = len(left)
    if nobody >= _MANY and (native := kernel()):
        owner = native.first_painters(np.ascontiguousarray(left), np.ascontiguousarray(right), cells)
        if owner is not None:
            return owner
    size = right - left
    level = np.frexp(size)[1] - 1
    owner = np.full(cells, nobody, dtype=np.int64)
    for k in range(int(level.max(initial=0)), -1, -1):
        half = 1 << k
        if half < cells:
            np.minimum(owner[half:], owner[:-half].copy(), out=owner[half:])
        at_level = np.flatnonzero(level == k)
        np.minimum.at(owner, left[at_level], at_level)
        np.minimum.at(owner, right[at_level] - half, at_level)
    return owner


def span_minimum(values: Array, low: Array, high: Array) -> Array:
    """Return the minimum of values[low[i]:high[i]] for each i; every span contains at least one value.

    Parameters
    ----------
    values : ndarray of any number type, shape (n,)
    low, high : ndarray of int64, shape (n_spans,)
        0 <= low < high <= n.

    Returns
    -------
    ndarray, dtype of `values`, shape of `low`
    """
    if len(low) >= _MANY and values.dtype == low.dtype == np.int64 and (native := kernel()):
        minimum = native.span_minimum(*map(np.ascontiguousarray, (values, low, high)))
        if minimum is not None:
            return minimum
    if max(len(values), len(low)) < _MANY:  # one span after the other: 4 to 16 times as fast
        edges = np.empty(2 * len(low), dtype=np.int64)
        edges[::2], edges[1::2] = low, high
        return np.minimum.reduceat(np.concatenate((values, values[-1:])), edges)[::2]
    level = np.frexp(high - low)[1] - 1
    result = np.empty(len(low), dtype=values.dtype)
    table = values.copy()
    for k in range(int(level.max(initial=-1)) + 1):
        chosen = np.flatnonzero(level == k)
        result[chosen] = np.minimum(table[low[chosen]], table[high[chosen] - (1 << k)])
        half = 1 << k
        if half < len(table):
            table = np.minimum(table[:-half], table[half:])
    return result
