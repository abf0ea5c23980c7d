"""Evidence by D-SACK (RFC 2883): the receiver itself reports that a copy arrived which it did not need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.verdicts.answers import SURELY_EARLY
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.analysis.verdicts.copies import Copies
    from multitracer.tables import Array


_MOST_COPIES = 64
"""Of one range, those that are looked at for a D-SACK: TCP gives up long before."""


def dsacked(copies: Copies) -> Array:
    """Return for each retransmission the row of the D-SACK that reports it, at `nowhere` without one.

    A D-SACK reports the last copy of its range that was sent at least the shortest round trip before, and
    of which no later D-SACK is left; so of several copies each has its own.

    Returns
    -------
    ndarray of int64, shape (n_copies,)
    """
    reported, sacks = copies.nowhere.copy(), copies.talks.sacks
    mine = np.flatnonzero(sacks["dsack"] & copies.back[sacks["row"]])
    if not len(mine) or not len(copies):
        return reported
    order = np.lexsort((copies.row, copies.begin))
    starts, ends, rows = copies.begin[order], copies.end[order], copies.row[order]
    time_ns, least_ns = copies.segments["time_ns"], SURELY_EARLY * np.maximum(copies.min_rtt_ns, 0)
    ripe_ns = time_ns[rows] + least_ns[order]
    left, ack_rows = sacks["left_bytes"][mine], sacks["row"][mine]
    firsts, lasts = (np.searchsorted(starts, left, side=side) for side in ("left", "right"))
    partly = (firsts == lasts) & (firsts > 0)  # the receiver had only a part of it: it begins before
    firsts[partly] = np.searchsorted(starts, starts[firsts[partly] - 1])
    free = np.ones(len(copies), dtype=bool)
    for i in range(len(mine) - 1, -1, -1):
        first, at = int(firsts[i]), int(ack_rows[i])
        last = first + int(np.searchsorted(rows[first : lasts[i]], at))
        near = np.arange(max(first, last - _MOST_COPIES), last)
        near = near[(ends[near] > left[i]) & free[near]]
        ripe = near[ripe_ns[near] <= time_ns[at]]
        chosen = ripe if len(ripe) else near
        if len(chosen):
            free[chosen[-1]] = False
            reported[order[chosen[-1]]] = at
    return reported


def reported_ranges(copies: Copies, reported: Array) -> tuple[Array, Array]:
    """Return the first unit of each retransmission that its D-SACK reports, and the first behind.

    Where segments are joined before they are captured (offload) that is one of several, and the others may
    have been needed. Of a retransmission without D-SACK, all of it.

    Parameters
    ----------
    reported : ndarray of int64, shape (n_copies,)
        From `dsacked`.

    Returns
    -------
    ndarrays of int64, shape (n_copies,)
    """
    sacks = copies.talks.sacks
    mine = sacks["dsack"] & copies.back[sacks["row"]]
    rows, left, right = (sacks[name][mine] for name in ("row", "left_bytes", "right_bytes"))
    if not len(rows):
        return copies.begin, copies.end
    at = np.minimum(np.searchsorted(rows, reported), len(rows) - 1)
    known = rows[at] == reported
    return np.where(known, left[at], copies.begin), np.where(known, right[at], copies.end)


def peers_send_sack(copies: Copies) -> Array:
    """Return per talk whether the receiver of its data was seen to send SACK blocks.

    Returns
    -------
    ndarray of bool, shape (n_talks,)
    """
    rows = copies.talks.sacks["row"]
    return copies.talks.have(rows[copies.back[rows]])


def undisputed(copies: Copies, reported: Array) -> Array:
    """Return which were answered, late enough, by a receiver that would have called them duplicates.

    A SYN or a FIN alone is never called one: a block reports data.

    Parameters
    ----------
    copies : Copies
    reported : ndarray of int64, shape (n_copies,)
        Row of the D-SACK that reports each copy; `copies.nowhere` without one.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    answered = peers_send_sack(copies)[copies.talk] & (copies.min_rtt_ns != NA)
    answered &= (copies.answer < copies.nowhere) & (copies.answer > copies.row)
    answered &= copies.of_rows("payload_bytes", copies.row) > 0
    late = copies.after_ns(copies.answer) >= copies.min_rtt_ns
    undisputed: Array = answered & late & (reported == copies.nowhere)
    return undisputed


def answered_in_vain(copies: Copies, reported: Array) -> Array:
    """Return for which the first ACK answers an unneeded copy: this one, or a later copy of its range.

    Parameters
    ----------
    copies : Copies
    reported : ndarray of int64, shape (n_copies,)
        Row of the D-SACK that reports each copy; `copies.nowhere` without one.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    in_vain = (reported == copies.answer) & (reported < copies.nowhere)
    _, which = np.unique(np.stack([copies.begin, copies.answer]), axis=1, return_inverse=True)
    last = np.full(len(copies), -1)
    np.maximum.at(last, which.reshape(-1)[in_vain], copies.row[in_vain])
    answered: Array = copies.row <= last[which.reshape(-1)]
    return answered
