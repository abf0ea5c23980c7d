"""SACK blocks of a middlebox that changes sequence numbers (a firewall that randomises them), but not SACK blocks.

The blocks of such a side name bytes that were never sent, and its peer ignores them. Two signs show it. The native
kernel knows the first one, too (`native/core/src/pass/sack_run.rs`), because it decides what counts as a D-SACK.

Rules of the file
-----------------
- *A D-SACK that grows*: three segments or more with one ACK number have a first block below it with one left edge,
  and right edges that ascend. A receiver reports each duplicate in at most one D-SACK (RFC 2883, section 4), while a
  block that reports data behind a hole grows with each segment that arrives.
- *Bytes that were never sent*: the first block of three segments or more in a row, with one ACK number, lies behind
  the last byte that was captured, or before the SYN, and so do most first blocks of that side. The capture must
  contain everything that this side acknowledges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import unwrapped
from multitracer.captured import Flag

if TYPE_CHECKING:
    from multitracer.analysis.segments.examination import Examination
    from multitracer.analysis.segments.outstanding import SackBlocks
    from multitracer.tables import Array, Table

FEWEST = 3
"""Minimum number of segments in a row: as many duplicate ACKs request a retransmission (RFC 5681, section 3.2)."""
_MOST = 0.5
"""Minimum share of a side's segments with SACK blocks that name bytes that were never sent: a capture may lack a few
packets, but a middlebox translates all blocks or none. Not measured."""


def firsts(row: Array) -> Array:
    """Return the index of the first block of each segment; `row` is the segment of each block, ascending."""
    return np.flatnonzero(np.diff(row, prepend=-1))


def with_growing_dsacks(blocks: Table, ack: Array, direction: Array) -> Array:
    """Return the directions that sent D-SACKs that grow: int64, ascending.

    Parameters
    ----------
    blocks : Table
        SACK_BLOCKS of a capture.
    ack : ndarray of uint32, shape (n_segments,)
        Acknowledgment number of each segment of the capture.
    direction : ndarray of int, shape (n_segments,)
        The direction of each segment.
    """
    first = firsts(blocks["row"])
    row, left, right = (blocks[name][first] for name in ("row", "left", "right"))
    below = np.flatnonzero((left - ack[row]).view(np.int32) < 0)
    if len(below) < FEWEST:
        return np.empty(0, dtype=np.int64)
    below = below[np.argsort(direction[row[below]], kind="stable")]
    row, left, right = row[below], left[below], right[below]
    step = (right[1:] - right[:-1]).view(np.int32)
    follows = (direction[row[1:]] == direction[row[:-1]]) & (ack[row[1:]] == ack[row[:-1]])
    follows &= (left[1:] == left[:-1]) & (step >= 0)
    run = np.append(0, np.cumsum(~follows))
    grown = np.bincount(run[1:], follows & (step > 0), minlength=int(run[-1]) + 1)
    return np.unique(direction[row[grown[run] >= FEWEST - 1]]).astype(np.int64)


def naming_unsent(examination: Examination, blocks: SackBlocks, ack: Array) -> Array:
    """Return the directions whose data never contained what the SACK blocks of the other side name.

    Parameters
    ----------
    examination : Examination
    blocks : SackBlocks
        All blocks of the group.
    ack : ndarray of int64, shape (n_blocks,)
        The ACK number of the segment of each block, on the axis.

    Returns
    -------
    ndarray of int64, ascending
        From 0.
    """
    none = np.empty(0, dtype=np.int64)
    group, axis, coverage = examination.group, examination.axis, examination.coverage
    first = firsts(blocks.moment)
    of, left, right = blocks.direction[first], blocks.left[first], blocks.right[first]
    lowest, highest = _sent(examination)
    unsent = (left >= highest[of]) | (right <= lowest[of])
    if np.count_nonzero(unsent) < FEWEST or not len(coverage.reach):
        return none
    lacking = np.zeros(group.directions, dtype=bool)
    lacking[examination.ack_progress.direction[examination.ack_progress.unseen]] = True
    many = np.bincount(of, minlength=group.directions)
    share = np.bincount(of, unsent, minlength=group.directions) / np.maximum(many, 1)
    unsent &= (~lacking & (share >= _MOST) & (np.diff(axis.chunks.bounds) > 0))[of]
    chosen = np.flatnonzero(unsent)
    order = chosen[np.argsort(of[chosen], kind="stable")]
    value = ack[first[order]]
    same = (of[order][FEWEST - 1 :] == of[order][: 1 - FEWEST]) & (value[FEWEST - 1 :] == value[: 1 - FEWEST])
    return np.unique(of[order][FEWEST - 1 :][same]) if len(order) >= FEWEST else none


def _sent(examination: Examination) -> tuple[Array, Array]:
    """Return the first byte and the byte after the last one of each direction, on the axis.

    Without a SYN the first one is unknown, and lies below all others.
    """
    group, chunks, reach = examination.group, examination.axis.chunks, examination.coverage.reach
    sends = np.flatnonzero(np.diff(chunks.bounds))
    highest = np.full(group.directions, np.iinfo(np.int64).max)
    highest[sends] = reach[chunks.bounds[1:][sends] - 1]
    lowest = highest.copy()
    syn = np.flatnonzero(group.flags[chunks.position] & np.uint16(Flag.SYN))
    np.minimum.at(lowest, group.direction_of(chunks.position[syn]), chunks.start[syn])
    lowest[lowest == highest] = np.iinfo(np.int64).min
    return lowest, highest


def may_hold_some(blocks: Table, segments: Table, rows: Array, side: Array) -> bool:
    """Return whether one connection may have untranslated blocks, by far less work than to know it.

    Parameters
    ----------
    blocks : Table
        SACK_BLOCKS of the connection; `row` is a row of `segments`.
    segments : Table
        SEGMENTS of the capture.
    rows : ndarray of uint32, shape (n,)
        The connection's rows, ascending.
    side : ndarray of int, shape (n,)
        0 or 1: which end sent each.
    """
    first = firsts(blocks["row"])
    if len(first) < FEWEST:
        return False
    place = np.searchsorted(rows, blocks["row"][first])
    for end in (0, 1):
        mine, other = np.flatnonzero(side == end), np.flatnonzero(side != end)
        own = first[side[place] == end]
        if len(own) < FEWEST or not len(other):
            continue
        acks, seq = segments["ack"][rows[mine]], segments["seq"][rows[other]]
        sent = unwrapped(seq, np.array([0, len(seq)]))
        upto = int((sent + segments["payload_bytes"][rows[other]]).max()) + 1
        acked = unwrapped(acks, np.array([0, len(acks)])) + int((acks[:1] - seq[:1]).view(np.int32)[0])
        at = np.searchsorted(mine, place[side[place] == end])
        left, right = (acked[at] + (blocks[name][own] - acks[at]).view(np.int32) for name in ("left", "right"))
        if np.count_nonzero((left >= upto) | (right <= int(sent.min())) | (left < acked[at])) >= FEWEST:
            return True
    return False
