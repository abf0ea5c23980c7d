"""Algorithms on arrays of ranges: unwrapping, painting, minima over spans. They are independent of TCP.

Every function is linear or n log n in the number of rows and works on all rows at once, so that a capture
made to be slow (a hundred thousand holes, a million connections) costs what any other capture costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from multitracer.native import kernel

if TYPE_CHECKING:
    from multitracer.tables import Array

Side = Literal["left", "right"]
"""Which end of equal values a search finds (numpy.searchsorted)."""

IMPLAUSIBLE = 1 << 30
"""Distance in sequence units that no segment has from its neighbours: the largest window (RFC 7323, 2.3)."""

_MANY = 1_000
"""Values from which on the kernel looks them up: to ask it takes as long as to look up some. Not measured."""
_FEW_GROUPS = 8
"""Up to so many groups, a slice each is cheaper than a column as long as all."""


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

    It sorts: the hash table of np.unique takes 20 times as long on a million stamps, and times of packets are
    nearly in order, which a stable sort makes use of.

    Parameters
    ----------
    values : ndarray of any dtype that sorts, shape (n,)
        NA counts as a value like others.

    Returns
    -------
    ndarray, dtype of `values`, shape (n_distinct,)
    """
    ordered = np.sort(values, kind="stable")
    first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def places(ordered: Array, values: Array, side: Side = "left") -> Array:
    """Return what np.searchsorted does; where the values are about in order too, a tenth of its time.

    Parameters
    ----------
    ordered : ndarray of int64, shape (n,), ascending
    values : ndarray of int64, shape (n_values,)
        Times, bytes or rows; NA is a number like others.
    side : {"left", "right"}
        Before, or after, what is equal.

    Returns
    -------
    ndarray of int64, shape (n_values,)
    """
    if len(values) >= _MANY and ordered.dtype == values.dtype == np.int64 and (native := kernel()):
        index = native.places(np.ascontiguousarray(ordered), np.ascontiguousarray(values), side == "right")
        if index is not None:
            return index
    return np.searchsorted(ordered, values, side=side)


def reduce_groups(ufunc: np.ufunc, values: Array, bounds: Array, *, empty: object) -> Array:
    """Return `ufunc` over each group of `values`, `empty` for a group without rows.

    Parameters
    ----------
    ufunc : numpy.ufunc
        add, minimum or maximum.
    values : ndarray of any number type, shape (n,)
        Rows, group after group. NA is not left out: it counts as its number.
    bounds : ndarray of int64, shape (n_groups + 1,)
        Group g is values[bounds[g]:bounds[g + 1]]; the first bound is 0, the last n.
    empty : scalar
        The result for an empty group.

    Returns
    -------
    ndarray, shape (n_groups,)
        int64 for add, else of the dtype of `values`; in their unit.
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
    """Return for each row the value of the last item at or before it in its group.

    Parameters
    ----------
    value : ndarray of any dtype, shape (n_items,)
    position : ndarray of int64, shape (n_items,), ascending
        The row of each item.
    bounds : ndarray of int64, shape (n_groups + 1,)
        Group g has the rows bounds[g]:bounds[g + 1]; the first bound is 0.
    before : ndarray, dtype of `value`, shape (n_groups,)
        What the rows of a group have that lie before its first item.

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
    """Return the rows of the chosen groups, in the order of `chosen`, and the bounds of each among them.

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
        Where groups start, as of `group_starts`.

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
    """Return 32-bit circular numbers as int64 distances from the first number of their group.

    A number lies within 2 GiB of the one before it (RFC 9293, section 3.4). A number that is
    implausibly far both from the one before and from the one after it is stray: it is placed relative
    to the one before it and does not carry the others along.

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
        return _unwrapped_without_strays(values, distance, bounds)
    return _accumulated(distance, bounds)


def _accumulated(distance: Array, bounds: Array) -> Array:
    total = np.cumsum(distance, dtype=np.int64)
    if len(bounds) > 2 and len(total):
        add_to_groups(total, -total[np.minimum(bounds[:-1], len(total) - 1)], bounds)
    return total


def _unwrapped_without_strays(values: Array, distance: Array, bounds: Array) -> Array:
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
    """Return for each cell the lowest index of a painter whose span covers it, or the number of painters.

    Painter i covers the cells left[i] to right[i] - 1, at least one. Spans are cut into two overlapping
    powers of two, written at the level of their size, then passed down level by level: O(n log n).

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
    """Return the minimum of values[low[i]:high[i]] for each i; every span holds at least one value.

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
        least = native.span_minimum(*map(np.ascontiguousarray, (values, low, high)))
        if least is not None:
            return least
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
