"""Search for the records of a window in many lanes at once.

Records form a chain: each states only where the next one begins, and a loop over them in Python costs more
than all later steps. So the window is divided into lanes, a likely record is searched near the start of each,
and all lanes advance together. The result is still exact: a lane is used only if the lane before it ends
exactly where it began, and so back to the first lane, which begins at a true record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from parsers._packets.layers import rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from multitracer.tables import Mask, Numbers
    from parsers._packets.layers import Bytes

    Following = Callable[[Numbers], Numbers]

_RECORDS_PER_LANE = 24
_SMALLEST_LANE_BYTES = 4096
_FEWEST_LANES = 16
_LARGEST_SPAN_BYTES = 16_384
"""Maximum distance from the start of a lane at which a record is searched, bytes."""


class RecordLayout(Protocol):
    """Interface of the functions that find records of one format."""

    def following(self, data: Bytes) -> Following:
        """Return a function that converts positions of records to positions of the next records.

        If there is no next record, the position is far behind the data.
        """

    def plausible(self, data: Bytes, at: Numbers) -> Mask:
        """Return a mask of the positions `at` (int64, shape (n,)) at which a record may begin."""

    def likely(self, chunks: NDArray[np.uint8]) -> Mask:
        """Return a mask of the bytes in each row at which a record may begin; shape (lanes, bytes - 8).

        This test is fast, and less strict than `plausible`.
        """


def walk_lanes(data: Bytes, begin: int, end: int, layout: RecordLayout, *, sample: list[int]) -> tuple[Numbers, int]:
    """Return the positions of complete records from `begin` on, and the position after the last one.

    Parameters
    ----------
    sample : list of int
        Positions of some records just before `begin`; their lengths decide how far to search.

    Returns
    -------
    starts : ndarray of int64, shape (n_records,), ascending
        Positions in `data`.
    next : int

    Notes
    -----
    The search may stop at any record, even at `begin`: the caller must read the rest.
    """
    lengths = np.diff([*sample, begin])
    if not len(lengths):
        return np.empty(0, np.int64), begin
    lanes = int((end - begin) // max(_SMALLEST_LANE_BYTES, _RECORDS_PER_LANE * lengths.mean()))
    span = min(2 * int(lengths.max()), _LARGEST_SPAN_BYTES)
    if lanes < _FEWEST_LANES:
        return np.empty(0, np.int64), begin
    near = begin + np.arange(lanes) * ((end - begin) // lanes)
    first = _first_plausible(data, near[near + span + 8 <= end], span, end, layout)
    first = np.concatenate([[begin], first[first > begin]])
    most = 4 * (end - begin) // lanes // int(lengths.min()) + _RECORDS_PER_LANE
    return _walk_in_step(first, end, layout.following(data), most)


def _first_plausible(data: Bytes, near: Numbers, span: int, end: int, layout: RecordLayout) -> Numbers:
    """Return for each position in `near` where the first plausible record begins.

    The search ends after `span` bytes; 0 if it finds none.
    """
    chunks = rows(data, near, span + 8)
    likely = layout.likely(chunks.view(np.uint8).reshape(len(near), span + 8))
    lane, offset = np.divmod(np.flatnonzero(likely), span)
    at = near[lane] + offset
    good = layout.plausible(data, at)
    following = np.where(good, layout.following(data)(at), 0)
    good &= (following > at) & (following + 8 <= end)
    good[good] = layout.plausible(data, following[good])
    first = np.zeros(len(near), np.int64)
    first[lane[good][::-1]] = at[good][::-1]  # of several the first is written last
    return first


def _walk_in_step(first: Numbers, end: int, following: Following, most: int) -> tuple[Numbers, int]:
    """Follow the records of all lanes together.

    Return the positions of the records, and the position after them.

    Each lane begins at its position in `first`, and must end exactly where the next lane begins.
    The records after the first lane that does not are left out.
    """
    target = np.append(first[1:], end)
    steps = [first]
    while len(steps) <= most and (len(steps) % 8 or (steps[-1] < target).any()):
        steps.append(np.minimum(following(steps[-1]), end + 1))  # end + 1: there is no whole record
    position = np.stack(steps, axis=1)
    complete = (position[:, :-1] < target[:, None]) & (position[:, 1:] <= end)
    count = np.count_nonzero(complete, axis=1)
    arrival = position[np.arange(len(first)), count]
    missed = np.flatnonzero(arrival[:-1] != target[:-1])
    lanes = int(missed[0]) + 1 if len(missed) else len(first)
    return position[:lanes, :-1][complete[:lanes]], int(arrival[lanes - 1])
