"""Which of several copies that look alike arrived: the latest that left early enough.

Nothing in them tells the copies of a segment apart (no IP identification in IPv6, no timestamps; bytes that a
device cut or joined). TCP repeats what was lost, so of more copies than arrived the first were lost, unless
the last left too late to be what arrived: then it was not needed, or was lost itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.tables import Array

_GRAIN_NS = NS_PER_MS
"""By so much a delay may fall short of the least that is certain: clocks drift and are stepped."""


class Copies(NamedTuple):
    """Packets, or pieces of them, at one point in the order of its capture.

    Attributes
    ----------
    key : ndarray of int64 or uint64, shape (n,)
        What each holds: copies of one have the same.
    time_ns : ndarray of int64, shape (n,)
        When it left, or arrived, by the clock of that point.
    """

    key: Array
    time_ns: Array


def arrivals(sent: Copies, came: Copies) -> tuple[Array, Array]:
    """Return the indexes into both of the copies that are the same one, in order of `sent`.

    A packet that was sent once and arrived once is certain: these give the least delay, and no other may be
    shorter.

    Returns
    -------
    left, arrived : ndarray of int64, shape (n_pairs,)
    """
    (left, arrived), repeated = _certain(sent, came)
    delays_ns = came.time_ns[arrived] - sent.time_ns[left]
    soonest_ns = sent.time_ns + int(delays_ns.min()) - _GRAIN_NS if len(left) else None
    groups = _groups(sent, came, repeated)
    pairs = [pair for group in groups for pair in _latest(*group, soonest_ns, came.time_ns)]
    more = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    left, arrived = np.concatenate([left, more[:, 0]]), np.concatenate([arrived, more[:, 1]])
    order = np.argsort(left, kind="stable")
    return left[order], arrived[order]


def _certain(sent: Copies, came: Copies) -> tuple[tuple[Array, Array], Array]:
    """Return the indexes of what was sent once and arrived once, and the other keys that both have."""
    keys, first, many = np.unique(sent.key, return_index=True, return_counts=True)
    keys_came, first_came, many_came = np.unique(came.key, return_index=True, return_counts=True)
    _, at, at_came = np.intersect1d(keys, keys_came, assume_unique=True, return_indices=True)
    once = (many[at] == 1) & (many_came[at_came] == 1)
    return (first[at[once]], first_came[at_came[once]]), keys[at[~once]]


def _groups(sent: Copies, came: Copies, keys: Array) -> list[tuple[list[int], list[int]]]:
    """Return for each key the indexes of its copies at both points, in order."""
    sides = []
    for key in (sent.key, came.key):
        order = np.argsort(key, kind="stable")
        begin, end = (np.searchsorted(key[order], keys, side=side) for side in ("left", "right"))
        bounds = zip(begin.tolist(), end.tolist(), strict=True)
        sides.append([order[a:b].tolist() for a, b in bounds])
    return list(zip(*sides, strict=True))


def _latest(of: list[int], at: list[int], soonest_ns: Array | None, came_ns: Array) -> list[tuple[int, int]]:
    """Return for each arrival, the last first, the latest copy left that could be it."""
    left, pairs = list(of), []
    for arrival in reversed(at):
        while left and soonest_ns is not None and soonest_ns[left[-1]] > came_ns[arrival]:
            left.pop()
        if left:
            pairs.append((left.pop(), arrival))
    return pairs
