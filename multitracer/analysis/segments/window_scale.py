"""Window scale of each direction in bits, also where its SYN was not captured.

Only SYNs announce the scale (RFC 7323, section 2.2). Without it, a window of 64 kB may be one of 64 MB, and an unscaled
window makes any transfer look limited by its receiver. But no TCP sends more than the advertised window. So the data
that the other side sent give a minimum scale, at which they fit into the windows that the sender had seen. The sender
had seen the segment whose timestamp it echoes; without timestamps, at most what was captured before.
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
"""Maximum window shift: a larger announced one counts as this (RFC 7323, section 2.3)."""
FEWEST_DATA = 30
"""Minimum number of data segments for an inferred scale; fewer seldom fill a window."""
_AT_ONCE = 1 << 14
"""Number of segments that are examined together, to bound the memory for a long transfer."""


def announced_shift(columns: dict[str, Array]) -> Array:
    """Return the announced window shift of each direction (RFC 7323, section 2.2).

    Scaling requires the option in both SYNs; if only one SYN was captured, its option decides.

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
    """Write the window shift of each direction of a group, and its source, into its rows, in place.

    Parameters
    ----------
    examination : Examination
    rows : dict of str to ndarray, each of shape (n_directions_of_group,)
        The rows of the group in the columns of DIRECTIONS.
    capture : CaptureTables
    """
    group = examination.group
    syn = group.special[has(group.flags[group.special], Flag.SYN)]
    complete = syn[~has(capture.segments["marks"][group.rows[syn]], CaptureMark.HEADER_CUT)]
    for direction in put_announced_shift(rows, group.count(complete) > 0).tolist():
        chunks = examination.axis.chunks.position
        rows["window_shift"][direction] = min_shift(group, chunks, capture, direction)
        rows["window_shift_by"][direction] = WindowScaleBy.SENT


def put_announced_shift(rows: dict[str, Array], has_options: Array) -> Array:
    """Write the announced window shifts, in place; return the directions without an announced shift.

    For the returned directions, a shift can be inferred from the data.

    Parameters
    ----------
    rows : dict of str to ndarray, each of shape (n_directions,)
        Columns of DIRECTIONS.
    has_options : ndarray of bool, shape (n_directions,)
        Whether a SYN of the direction was captured with all its options.

    Returns
    -------
    ndarray of int64, shape (n_unknown_scale,), ascending
    """
    shift = announced_shift(rows)
    there = np.flatnonzero(shift)
    rows["window_shift"][there] = shift[there]
    refused = (has_options & (rows["window_scale"] < 0)).reshape(-1, 2)[:, ::-1].ravel()
    unknown = np.flatnonzero(~has_options & ~refused & (rows["packets"] > 0))
    rows["window_shift_by"][unknown] = WindowScaleBy.UNKNOWN
    data = rows["data_segments"].reshape(-1, 2)[:, ::-1].ravel()
    unexplained: Array = unknown[data[unknown] >= FEWEST_DATA]
    return unexplained


def min_shift(group: SegmentGroup, chunks: Array, capture: CaptureTables, direction: int) -> int:
    """Return the minimum window shift of a direction at which no data of the other side exceed its windows.

    Parameters
    ----------
    group : SegmentGroup
    chunks : ndarray of int64, shape (n_chunks,)
        Positions of the segments that occupy sequence numbers, ascending.
    capture : CaptureTables
    direction : int
        Number of the direction in the group, from 0.
    """
    offers = np.arange(group.bounds[direction], group.bounds[direction + 1], dtype=np.int32)
    offers = offers[has(group.flags[offers], Flag.ACK) & ~has(group.flags[offers], Flag.SYN)]
    begin, end = np.searchsorted(chunks, group.bounds[direction ^ 1 : (direction ^ 1) + 2]).tolist()
    if not len(offers):
        return 0
    seen = _Seen(offers, group.rows, capture)
    times = 1.0
    for first in range(begin, end, _AT_ONCE):
        sent = chunks[first : min(first + _AT_ONCE, end)]
        times = max(times, _most_times(sent, seen.last_known(sent), group))
    return min(int(np.ceil(np.log2(times))), LARGEST_SHIFT)


def _most_times(sent: Array, offer: Array, group: SegmentGroup) -> float:
    """Return the maximum of: data sent divided by the unscaled window; at least 1."""
    known = np.flatnonzero(offer >= 0)
    sent, offer = sent[known], offer[known]
    window = group.window[offer].astype(np.int64)
    reached = (group.seq[sent] + group.units[sent].astype(np.uint32) - group.ack[offer]).view(np.int32)
    is_open = window > 0
    return float(np.max(reached[is_open] / (window[is_open] + 1), initial=1.0))


class _Seen:
    """The last segment of a direction that the other side had received when it sent each of its segments."""

    def __init__(self, offers: Array, rows: Array, capture: CaptureTables) -> None:
        self._offers, self._rows, self._segments = offers, rows, capture.segments
        own = rows[offers]
        self._captured = own
        self._first = capture.segments["tsval"][own[0]]
        self._is_stamped = bool(has(capture.segments["marks"][own], CaptureMark.HAS_TIMESTAMPS).all())
        self._received = np.maximum.accumulate((capture.segments["tsval"][own] - self._first).view(np.int32))

    def last_known(self, sent: Array) -> Array:
        """Return for each segment the position of the last one that its sender had received; -1 for none."""
        rows = self._rows[sent]
        last = np.searchsorted(self._captured, rows) - 1
        if self._is_stamped and has(self._segments["marks"][rows], CaptureMark.HAS_TIMESTAMPS).all():
            echoed = (self._segments["tsecr"][rows] - self._first).view(np.int32)
            last = np.minimum(last, np.searchsorted(self._received, echoed, side="right") - 1)
        return np.where(last < 0, -1, self._offers[np.maximum(last, 0)])
