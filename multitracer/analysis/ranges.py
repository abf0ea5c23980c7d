"""Arithmetic of ranges for `two_points` and others; every function works on all rows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import distinct, first_painters, places

if TYPE_CHECKING:
    from multitracer.tables import Array


def spread(first: Array, last: Array) -> tuple[Array, Array]:
    """Return all pairs (i, j) with first[i] <= j < last[i] as two arrays, in order of i, then j.

    Parameters
    ----------
    first, last : ndarray of int64, shape (n,)

    Returns
    -------
    i, j : ndarray of int64, shape (n_pairs,)

    Examples
    --------
    >>> spread(np.array([0, 2]), np.array([2, 3]))
    (array([0, 0, 1]), array([0, 1, 2]))
    """
    count = np.maximum(last - first, 0)
    which = np.repeat(np.arange(len(first)), count)
    begins = np.cumsum(count) - count
    return which, np.arange(len(which)) - begins[which] + first[which]


def first_covered(begin: Array, end: Array) -> Array:
    """Return how many elements of each range no earlier range contains.

    Parameters
    ----------
    begin, end : ndarray of int64, shape (n,)
        Ranges [begin, end), in their order of arrival.

    Returns
    -------
    ndarray of int64, shape (n,)
        From 0 to the length of the range.

    Examples
    --------
    >>> first_covered(np.array([0, 5, 0]), np.array([10, 15, 20]))
    array([10,  5,  5])
    """
    covered = np.zeros(len(begin), dtype=np.int64)
    some = np.flatnonzero(end > begin)
    if not len(some):
        return covered
    if (begin[some[1:]] >= np.maximum.accumulate(end[some])[:-1]).all():  # none overlaps one before it
        covered[some] = (end - begin)[some]
        return covered
    edges = distinct(np.concatenate([begin[some], end[some]]))
    left, right = places(edges, begin[some]), places(edges, end[some])
    owner = first_painters(left, right, len(edges) - 1)
    owned = owner < len(some)
    sums = np.bincount(owner[owned], weights=np.diff(edges)[owned], minlength=len(some))
    covered[some] = np.rint(sums).astype(np.int64)
    return covered


def merged(begin: Array, end: Array) -> tuple[Array, Array]:
    """Return the union of ranges as disjoint ranges in ascending order; empty ranges are left out.

    Parameters
    ----------
    begin, end : ndarray of int64, shape (n,)
        Ranges [begin, end), in any order.

    Returns
    -------
    begin, end : ndarray of int64, shape (n_disjoint,)

    Examples
    --------
    >>> merged(np.array([5, 0, 7]), np.array([8, 2, 9]))
    (array([0, 5]), array([2, 9]))
    """
    if not len(begin) or (len(begin) == 1 and end[0] > begin[0]):
        return begin, end
    some = end > begin
    if not some.all():
        begin, end = begin[some], end[some]
    if (begin[1:] < begin[:-1]).any():
        order = np.argsort(begin, kind="stable")
        begin, end = begin[order], end[order]
    reach = np.maximum.accumulate(end)
    opens = np.ones(len(begin), dtype=bool)
    opens[1:] = begin[1:] > reach[:-1]
    closes = np.ones(len(begin), dtype=bool)
    closes[:-1] = opens[1:]
    return begin[opens], reach[closes]


def within(points: Array, begin: Array, end: Array) -> Array:
    """Return the index of the disjoint range [begin, end) that contains each point; -1 for none.

    Parameters
    ----------
    points : ndarray of int64, shape (n_points,)
    begin, end : ndarray of int64, shape (n_ranges,)
        Disjoint and ascending.

    Returns
    -------
    ndarray of int64, shape of `points`
    """
    edges = np.empty(2 * len(begin), dtype=np.int64)
    edges[::2], edges[1::2] = begin, end
    passed = places(edges, points, "right")
    return np.where(passed & 1, passed >> 1, -1)
