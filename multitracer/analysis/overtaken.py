"""Segments that other segments of their sender overtook on the way, and that were not sent again.

A capture away from the sender shows a segment that fills a hole: a repair of a loss, or the first transmission, which
came late. It is the first transmission if it left before a segment that was captured before it. A sender's timestamps
never decrease (RFC 7323, section 5.4), and most senders number the packets of a connection in the IPv4 identification.
After a longer time than a round trip, a number that is lower is no proof: the sender has repaired the hole by then.
Where neither of both tells, a segment that comes sooner after the hole than the shortest round trip is no repair,
because the sender cannot know of the hole yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.group import SegmentKind, has
from multitracer.analysis.intervals import unwrapped
from multitracer.captured import CaptureMark, Flag

if TYPE_CHECKING:
    from multitracer.tables import Array, Table

_COUNTED = 0.8
"""Minimum share of successive numbers that are neighbours if a sender numbers its packets in the IP identification;
as in `multitracer.diagnosis.packets.requests`. Not measured."""
_MOST_APART = 1 << 12
"""Maximum distance of two such numbers: a larger one is a reset of the counter, as no path mixes so many packets."""
_SOONEST = 0.8
"""Minimum part of the shortest round trip between the first segment behind a hole and its repair: a round trip varies.
Not measured."""


_LATEST = 1.3
"""From so many shortest round trips on, what fills a hole is a repair, unless timestamps show otherwise: a sender knows
of the hole then. As `ROUND` in `multitracer.diagnosis.limits.gaps`."""


class Overtaken(NamedTuple):
    """Segments that were overtaken; arrays of int64, shape (n,)."""

    row: Array
    """Rows of the table, ascending."""
    before: Array
    """For each, the row of the first segment that overtook it."""

    def in_order(self, rows: Array, seq_bytes: Array) -> Array:
        """Return the order in which segments were sent.

        Parameters
        ----------
        rows : ndarray of int64, shape (n_rows,)
            Rows of the table, ascending.
        seq_bytes : ndarray of int64, bytes, shape (n_rows,)
            Where each begins.

        Returns
        -------
        ndarray of int64, shape (n_rows,)
            Index in `rows` of each segment, the one that was sent first at the beginning.
        """
        key = 2 * rows
        at = np.searchsorted(rows, self.row)
        there = at < len(rows)
        there[there] = rows[at[there]] == self.row[there]
        key[at[there]] = 2 * self.before[there] - 1
        return np.lexsort((seq_bytes, key))


def overtaken(segments: Table, sent: Array, shortest_ns: int) -> Overtaken:
    """Return the segments of one sender that were overtaken on the way.

    Parameters
    ----------
    segments : Table
        TCP_SEGMENTS of a connection, captured away from this sender.
    sent : ndarray of int64, shape (n,)
        Rows of what it sent, in capture order.
    shortest_ns : int
        Shortest round trip; 0 if unknown.
    """
    none = np.empty(0, dtype=np.int64)
    sent = sent[~has(segments["flags"][sent], Flag.SYN)]
    fills = has(segments["kind"][sent], SegmentKind.OUT_OF_ORDER) & (segments["payload_bytes"][sent] > 0)
    late = np.flatnonzero(fills)
    if not len(late):
        return Overtaken(none, none)
    reach = np.maximum.accumulate(segments["end_bytes"][sent])
    before = np.minimum(np.searchsorted(reach, segments["seq_bytes"][sent[late]], side="right"), late - 1)
    stamps, numbers = _stamps(segments, sent), _numbers(segments, sent)
    earlier, later = _left_before(stamps, late)
    waited_ns = segments["time_ns"][sent[late]] - segments["time_ns"][sent[before]]
    if numbers is not None:
        near = np.abs(numbers[late] - np.maximum.accumulate(numbers)[late - 1]) < _MOST_APART
        by_number = _left_before(numbers, late)
        near &= (waited_ns < _LATEST * shortest_ns) | (shortest_ns == 0)
        undecided = ~earlier & ~later & near
        earlier, later = earlier | undecided & by_number[0], later | undecided & by_number[1]
    earlier |= ~later & (waited_ns < _SOONEST * shortest_ns)
    return Overtaken(sent[late][earlier], sent[before][earlier])


def _left_before(values: Array | None, late: Array) -> tuple[Array, Array]:
    """Return which segments left before, and which left after all segments captured before them: bool.

    `values` never decrease in the order of sending; None if the sender has no such values.
    """
    if values is None:
        return np.zeros(len(late), dtype=bool), np.zeros(len(late), dtype=bool)
    highest = np.maximum.accumulate(values)[late - 1]
    return values[late] < highest, values[late] > highest


def _stamps(segments: Table, sent: Array) -> Array | None:
    """Return the timestamp of each row, without wrap-around; None if not all have one."""
    if not has(segments["marks"][sent], CaptureMark.HAS_TIMESTAMPS).all():
        return None
    return unwrapped(segments["tsval"][sent], np.array([0, len(sent)]))


def _numbers(segments: Table, sent: Array) -> Array | None:
    """Return the number of each packet by its IPv4 identification, without wrap-around; None without a counter."""
    ip_id = segments["ip_id"][sent].astype(np.int64)
    if len(sent) < 2:
        return None
    steps = ((np.diff(ip_id) + (1 << 15)) & 0xFFFF) - (1 << 15)
    numbers = np.concatenate([ip_id[:1], ip_id[0] + np.cumsum(steps)])
    in_order = np.diff(np.sort(numbers))
    return numbers if (in_order == 1).mean() >= _COUNTED else None
