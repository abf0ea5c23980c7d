"""Evidence by D-SACK (RFC 2883): the receiver itself says that a copy arrived which it did not need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.verdicts.answers import SURELY_EARLY
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.analysis.verdicts.copies import Copies
    from multitracer.tables import Array, Table


_MOST_COPIES = 64
"""Of one range, those that are looked at for a D-SACK: TCP gives up long before."""


def dsacked(copies: Copies, sacks: Table) -> Array:
    """Return for each retransmission the row of the D-SACK that reports it, `nowhere` without one.

    A D-SACK reports the last copy of its range that was sent at least the shortest round trip before, and
    of which no later D-SACK is left; so of several copies each has its own.
    """
    reported = np.full(len(copies), copies.nowhere, dtype=np.int64)
    segments = copies.segments
    mine = np.flatnonzero(sacks["dsack"] & (segments["reverse"][sacks["row"]] != copies.reverse))
    if not len(mine) or not len(copies):
        return reported
    order = np.lexsort((copies.row, copies.begin))
    starts, rows = copies.begin[order], copies.row[order]
    time_ns, least_ns = segments["time_ns"], SURELY_EARLY * max(copies.min_rtt_ns, 0)
    for block in mine[::-1].tolist():
        left, at = int(sacks["left_bytes"][block]), int(sacks["row"][block])
        first, last = (int(np.searchsorted(starts, left, side=side)) for side in ("left", "right"))
        if first == last:  # the receiver had only a part of it: it begins before
            first = max(int(np.searchsorted(starts, starts[first - 1])), 0) if first else 0
        last = first + int(np.searchsorted(rows[first:last], at))
        near = order[max(first, last - _MOST_COPIES) : last]
        near = near[(copies.end[near] > left) & (reported[near] == copies.nowhere)]
        ripe = near[time_ns[copies.row[near]] + least_ns <= time_ns[at]]
        chosen = ripe if len(ripe) else near
        if len(chosen):
            reported[chosen[-1]] = at
    return reported


def peer_sends_sack(copies: Copies, sacks: Table) -> bool:
    """Return whether the receiver of a direction was seen to send SACK blocks."""
    return bool((copies.segments["reverse"][sacks["row"]] != copies.reverse).any())


def undisputed(copies: Copies, reported: Array, *, sends_sack: bool) -> Array:
    """Return which were answered, late enough, by a receiver that would have called them duplicates.

    A SYN or a FIN alone is never called one: a block reports data.
    """
    if not sends_sack or copies.min_rtt_ns == NA:
        return np.zeros(len(copies), dtype=bool)
    answered = (copies.answer < copies.nowhere) & (copies.answer > copies.row)
    answered &= copies.of_rows("payload_bytes", copies.row) > 0
    late = copies.after_ns(copies.answer) >= copies.min_rtt_ns
    undisputed: Array = answered & late & (reported == copies.nowhere)
    return undisputed


def answered_in_vain(copies: Copies, reported: Array) -> Array:
    """Return of which the first ACK answers a copy in vain: this one, or a later copy of its range."""
    in_vain = (reported == copies.answer) & (reported < copies.nowhere)
    _, which = np.unique(np.stack([copies.begin, copies.answer]), axis=1, return_inverse=True)
    last = np.full(len(copies), -1)
    np.maximum.at(last, which.reshape(-1)[in_vain], copies.row[in_vain])
    answered: Array = copies.row <= last[which.reshape(-1)]
    return answered
