"""By how many bits the windows of each direction are scaled, also where its SYN was not captured.

The scale is announced in SYNs alone (RFC 7323, section 2.2). Without it a window of 64 kB may be one of
64 MB, and an unscaled one makes any transfer look as if its receiver held it back. But no TCP sends more
than was offered: what the other side sent tells the least scale at which it fitted the windows that it had
seen. It had seen what its timestamp echoes; without timestamps, at most what was captured before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.captured import CaptureMark, Flag
from multitracer.schemas.tcp import WindowScaleBy

if TYPE_CHECKING:
    from multitracer.analysis.group import SegmentGroup
    from multitracer.analysis.segments.examination import Examination
    from multitracer.capture import CaptureTables
    from multitracer.tables import Array

LARGEST_SHIFT = 14
"""A larger window scale counts as this (RFC 7323, section 2.3)."""
FEWEST_DATA = 30
"""Data segments that tell a scale; fewer have seldom filled a window."""
_AT_ONCE = 1 << 14
"""Segments looked at together, so that a long transfer needs no more memory for this."""


def announced_shift(columns: dict[str, Array]) -> Array:
    """Return by how many bits each direction's windows are scaled as announced (RFC 7323, section 2.2).

    Scaling needs the option in both SYNs; where one of them was not captured, the other is believed.

    Parameters
    ----------
    columns : dict of str to ndarray, each of shape (n_directions,)
        `window_scale` (NA without the option) and `syn` of DIRECTIONS.

    Returns
    -------
    ndarray of int64, bits, shape (n_directions,)
        0 to 14.
    """
    scale = columns["window_scale"].astype(np.int64)
    partner = scale.reshape(-1, 2)[:, ::-1].ravel()
    partner_syn = columns["syn"].reshape(-1, 2)[:, ::-1].ravel() > 0
    agreed = (scale >= 0) & ((partner >= 0) | ~partner_syn)
    return np.where(agreed, np.minimum(scale, LARGEST_SHIFT), 0)


def put_window_shift(examination: Examination, rows: dict[str, Array], capture: CaptureTables) -> None:
    """Write the shift of each direction of a group, and how it is known, into its rows, in place.

    Parameters
    ----------
    examination : Examination
    rows : dict of str to ndarray, each of shape (n_directions_of_group,)
        The group's part of the columns of DIRECTIONS.
    capture : CaptureTables
    """
    group = examination.group
    syn = group.special[has(group.flags[group.special], Flag.SYN)]
    whole = syn[~has(capture.segments["marks"][group.rows[syn]], CaptureMark.HEADER_CUT)]
    for direction in put_announced_shift(rows, group.count(whole) > 0).tolist():
        pieces = examination.axis.pieces.position
        rows["window_shift"][direction] = least_shift(group, pieces, capture, direction)
        rows["window_shift_by"][direction] = WindowScaleBy.SENT


def put_announced_shift(rows: dict[str, Array], has_options: Array) -> Array:
    """Write the shifts that are announced, in place; return the directions that data may tell it of.

    Parameters
    ----------
    rows : dict of str to ndarray, each of shape (n_directions,)
        Columns of DIRECTIONS.
    has_options : ndarray of bool, shape (n_directions,)
        Whether a SYN of the direction was captured with all its options.

    Returns
    -------
    ndarray of int64, shape (n_untold,), ascending
    """
    shift = announced_shift(rows)
    there = np.flatnonzero(shift)
    rows["window_shift"][there] = shift[there]
    refused = (has_options & (rows["window_scale"] < 0)).reshape(-1, 2)[:, ::-1].ravel()
    unknown = np.flatnonzero(~has_options & ~refused & (rows["packets"] > 0))
    rows["window_shift_by"][unknown] = WindowScaleBy.UNKNOWN
    data = rows["data_segments"].reshape(-1, 2)[:, ::-1].ravel()
    untold: Array = unknown[data[unknown] >= FEWEST_DATA]
    return untold


def least_shift(group: SegmentGroup, pieces: Array, capture: CaptureTables, direction: int) -> int:
    """Return the least shift of a direction's windows at which all that the other side sent fitted them.

    Parameters
    ----------
    group : SegmentGroup
    pieces : ndarray of int64, shape (n_pieces,)
        Positions that occupy sequence units, ascending.
    capture : CaptureTables
    direction : int
        Of the group, from 0.
    """
    offers = np.arange(group.bounds[direction], group.bounds[direction + 1], dtype=np.int32)
    offers = offers[has(group.flags[offers], Flag.ACK) & ~has(group.flags[offers], Flag.SYN)]
    begin, end = np.searchsorted(pieces, group.bounds[direction ^ 1 : (direction ^ 1) + 2]).tolist()
    if not len(offers):
        return 0
    seen = _Seen(offers, group.rows, capture)
    times = 1.0
    for first in range(begin, end, _AT_ONCE):
        sent = pieces[first : min(first + _AT_ONCE, end)]
        times = max(times, _most_times(sent, seen.last_known(sent), group))
    return min(int(np.ceil(np.log2(times))), LARGEST_SHIFT)


def _most_times(sent: Array, offer: Array, group: SegmentGroup) -> float:
    """Return how many times the unscaled window the farthest of some segments reached."""
    known = np.flatnonzero(offer >= 0)
    sent, offer = sent[known], offer[known]
    window = group.window[offer].astype(np.int64)
    reached = (group.seq[sent] + group.units[sent].astype(np.uint32) - group.ack[offer]).view(np.int32)
    is_open = window > 0
    return float(np.max(reached[is_open] / (window[is_open] + 1), initial=1.0))


class _Seen:
    """Which of a direction's segments, `offers`, the other side had seen when it sent something."""

    def __init__(self, offers: Array, rows: Array, capture: CaptureTables) -> None:
        self._offers, self._rows, self._segments = offers, rows, capture.segments
        own = rows[offers]
        self._captured = own
        self._first = capture.segments["tsval"][own[0]]
        self._is_stamped = bool(has(capture.segments["marks"][own], CaptureMark.HAS_TIMESTAMPS).all())
        self._received = np.maximum.accumulate((capture.segments["tsval"][own] - self._first).view(np.int32))

    def last_known(self, sent: Array) -> Array:
        """Return for each segment the position of the last one that its sender had seen, -1 for none."""
        rows = self._rows[sent]
        last = np.searchsorted(self._captured, rows) - 1
        if self._is_stamped and has(self._segments["marks"][rows], CaptureMark.HAS_TIMESTAMPS).all():
            echoed = (self._segments["tsecr"][rows] - self._first).view(np.int32)
            last = np.minimum(last, np.searchsorted(self._received, echoed, side="right") - 1)
        return np.where(last < 0, -1, self._offers[np.maximum(last, 0)])
