"""Evidence of what arrived: by the receiver's trace, or by another log of the fate of each segment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.two_points.packets import match
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.analysis.verdicts.copies import Copies
    from multitracer.tables import Array, Table


def had_before(copies: Copies, arrived: Array) -> tuple[Array, Array]:
    """Return which retransmissions the receiver did not need, and of which that is known.

    Parameters
    ----------
    arrived : ndarray of int8, shape (n_segments,)
        Per row of `segments`: 1 it reached the receiving TCP intact, 0 it did not, NA unknown.

    Returns
    -------
    had, known : ndarray of bool, shape (n_copies,)
    """
    of_sent = arrived[copies.sent]
    had = copies.covered_before(of_sent == 1)
    might_have = copies.covered_before(of_sent != 0)
    return had, had | ~might_have


def came_at(segments: Table, receiver: Table, *, reverse: bool) -> Array:
    """Return per row of `segments` its row in the receiver's trace; NA if it is not there.

    Parameters
    ----------
    segments, receiver : Table
        TCP_SEGMENTS of one connection at both ends.
    reverse : bool
        The direction; rows of the other one are NA.

    Returns
    -------
    ndarray of int64, shape (n_segments,)
        From 0, or NA.
    """
    own, there = (np.flatnonzero(t["reverse"] == reverse) for t in (segments, receiver))
    near, far = match(segments, own, receiver, there)
    came = np.full(len(segments), NA, dtype=np.int64)
    came[own[near]] = there[far]
    return came


def arrived_at(segments: Table, came: Array, *, reverse: bool) -> Array:
    """Return per row of `segments` whether the receiver's trace shows it.

    Parameters
    ----------
    came : ndarray of int64, shape (n_segments,)
        As of `came_at`: rows of the receiver's trace, or NA.

    Returns
    -------
    ndarray of int8, shape (n_segments,)
        1 it does, 0 it does not, NA beyond the ends of that trace and in the other direction.
    """
    there = came != NA
    arrived = np.full(len(segments), NA, dtype=np.int8)
    if there.any():
        known = slice(int(there.argmax()), len(there) - int(there[::-1].argmax()))
        arrived[known][segments["reverse"][known] == reverse] = 0
        arrived[there] = 1
    return arrived


def acknowledged_in_time(copies: Copies, came: Array, back: Array, there: int) -> Array:
    """Return for which an ACK that reached the sender had left the receiver before the retransmission came.

    One that never came counts as coming with the next copy of its first unit that did.

    Parameters
    ----------
    copies : Copies
    came, back : ndarray of int64, shape (n_segments,)
        As of `came_at`: row of each segment in the receiver's trace, or NA; of this direction, of the other.
    there : int
        Rows of that trace.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    came = np.where(came == NA, there, came)
    near = np.flatnonzero(back != NA)
    reached = np.zeros(there, dtype=np.int64)
    reached[back[near]] = np.maximum.accumulate(copies.segments["ack_bytes"][near])
    highest = np.maximum.accumulate(reached)
    before = np.maximum(_with_later_copies(copies, came) - 1, 0)
    in_time: Array = highest[before] >= copies.end
    return in_time


def _with_later_copies(copies: Copies, came: Array) -> Array:
    """Return the row at which each retransmission came, or the next copy from its first unit that came.

    The path keeps the order: of the copies behind, the one that came first is the next.
    """
    order = np.lexsort((copies.row, copies.begin))[::-1]
    group = np.zeros(len(order), dtype=np.int64)
    np.cumsum(np.diff(copies.begin[order]) != 0, out=group[1:])
    # a minimum that begins anew with each group: earlier groups lie above by whole spans
    span = int(came.max(initial=0)) + 1
    lowered = np.minimum.accumulate(came[copies.row[order]] - group * span) + group * span
    first = np.empty(len(order), dtype=np.int64)
    first[order] = lowered
    return first
