"""A group of complete connections: the columns of their segments, direction after direction; and the bits of a segment.

The analysis runs group by group, so its temporary arrays are bounded by the size of a group (or of the
largest connection), never by the size of the capture.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import add_to_groups, places
from multitracer.captured import Flag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.analysis.connections import Partition
    from multitracer.capture import CaptureTables
    from multitracer.captured import CaptureMark
    from multitracer.tables import Array

GROUP_ROWS = 1 << 18
"""Maximum number of segments in a group, unless a single connection has more."""
_CONNECTION_ROWS = 4
"""Memory cost of a connection, in segments: with one SYN per connection, the connections take most of the memory."""

BEGIN_OR_END = np.uint16(Flag.SYN | Flag.FIN | Flag.RST)


class SegmentKind(IntFlag):
    """Bits of the column `kind` in tcp_segments; docs/analysis.md defines them.

    Examples
    --------
    >>> segments = session.tcp_segments()
    >>> int(((segments["kind"] & mt.SegmentKind.RETRANSMISSION) > 0).sum())
    83
    """

    __iter__ = None  # type: ignore[assignment]  # pandas takes what iterates for a column, not for a number

    DATA = 0x0001
    RETRANSMISSION = 0x0002
    PARTIAL_RETRANSMISSION = 0x0004
    """A retransmission that also carries new sequence numbers."""
    OUT_OF_ORDER = 0x0008
    CAPTURE_DUPLICATE = 0x0010
    """The same packet, captured twice; not a retransmission."""
    DUPLICATE_ACK = 0x0020
    ZERO_WINDOW = 0x0040
    ZERO_WINDOW_PROBE = 0x0080
    KEEP_ALIVE = 0x0100
    WINDOW_UPDATE = 0x0200
    SACK = 0x0400
    DSACK = 0x0800
    ACK_OF_UNSEEN = 0x1000


@dataclass(slots=True)
class SegmentGroup:
    """The segments of complete connections; direction d of the group is rows[bounds[d]:bounds[d + 1]].

    Directions 2 c and 2 c + 1 belong to the same connection. A *position* is an index into these columns,
    a *row* one into the segments of the capture.
    """

    first_direction: int
    """Number of the group's direction 0 in the partition."""
    bounds: Array
    rows: Array
    seq: Array
    ack: Array
    payload: Array
    flags: Array
    window: Array
    special: Array
    """Positions with SYN, FIN or RST."""
    units: Array
    """Sequence numbers that each segment occupies: its payload, plus one each for SYN and FIN (RFC 9293, 3.4).

    A RST occupies none: its payload, if any, is a diagnostic text that is never acknowledged (RFC 9293, 3.5.3)."""

    @classmethod
    def of(cls, capture: CaptureTables, partition: Partition, first: int, last: int) -> SegmentGroup:
        """Return the group of directions `first` to `last` - 1, which are complete connections."""
        bounds = partition.bounds[first : last + 1]
        rows = partition.rows_between(first, last)
        seq, ack, payload, flags, window = (
            capture.segments[name].take(rows) for name in ("seq", "ack", "payload_bytes", "flags", "window")
        )
        special = np.flatnonzero(flags & BEGIN_OR_END)
        units = payload
        if len(special):
            units = payload.copy()
            bits = flags[special]
            units[special] += has(bits, Flag.SYN).astype(np.int32) + has(bits, Flag.FIN)
            units[special[has(bits, Flag.RST)]] = 0
        return cls(first, bounds - bounds[0], rows, seq, ack, payload, flags, window, special, units)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def directions(self) -> int:
        """The number of directions, two for each connection."""
        return len(self.bounds) - 1

    @property
    def direction(self) -> Array:
        """The direction of every position.

        int64, shape (n_segments,), from 0; never NA.
        """
        return np.repeat(np.arange(self.directions), np.diff(self.bounds))

    def direction_of(self, position: Array) -> Array:
        """Return the direction of each position.

        Parameters
        ----------
        position : ndarray of int64, shape (n,)
            From 0 to n_segments - 1.

        Returns
        -------
        ndarray of int64, shape (n,)
            From 0; never NA.
        """
        return places(self.bounds, position, "right") - 1

    def plain(self, position: Array) -> Array:
        """Return which positions have none of the flags SYN, FIN and RST.

        Parameters
        ----------
        position : ndarray of int64, any shape
            From 0 to n_segments - 1.

        Returns
        -------
        ndarray of bool, shape of `position`
        """
        plain: Array = (self.flags[position] & BEGIN_OR_END) == 0
        return plain

    def count(self, position: Array) -> Array:
        """Return how many of the given positions each direction has.

        Parameters
        ----------
        position : ndarray of int64, shape (n,)
            From 0 to n_segments - 1.

        Returns
        -------
        ndarray of int64, shape (directions,)
        """
        return np.bincount(self.direction_of(position), minlength=self.directions)


@dataclass(slots=True)
class Timeline:
    """Items (for example ACKs) of each direction in capture order, to search the last one before a row."""

    bounds: Array
    key: Array
    span: int

    @classmethod
    def of(cls, rows: Array, bounds: Array) -> Timeline:
        """Return the timeline of items captured at `rows`; direction d has items bounds[d]:bounds[d + 1]."""
        span, key = int(rows.max(initial=0)) + 1, rows.copy()
        add_to_groups(key, np.arange(len(bounds) - 1) * span, bounds)
        return cls(bounds, key, span)

    def last_before(self, direction: Array, row: Array) -> Array:
        """Return the index of the direction's last item before `row`; -1 where there is none.

        Parameters
        ----------
        direction, row : ndarray of int64, shape (n,)
            A direction of the group, and a row of the capture's segments.

        Returns
        -------
        ndarray of int64, shape (n,)
        """
        last = places(self.key, direction * self.span + np.minimum(row, self.span)) - 1
        return np.where(last >= self.bounds[direction], last, -1)


def has(flags: Array, flag: Flag | CaptureMark | SegmentKind) -> Array:
    """Return which elements of `flags` have the bit of `flag`, or at least one of its bits.

    Parameters
    ----------
    flags : ndarray of uint16 or uint32, any shape
        Bits of `Flag`, `CaptureMark` or `SegmentKind`; never NA.
    flag : Flag, CaptureMark or SegmentKind

    Returns
    -------
    ndarray of bool, shape of `flags`
    """
    present: Array = (flags & flags.dtype.type(flag)) != 0
    return present


def groups(
    capture: CaptureTables, partition: Partition, rows: int = GROUP_ROWS, *, between: tuple[int, int] | None = None
) -> Iterator[SegmentGroup]:
    """Yield groups of complete connections, each with at most `rows` segments.

    A connection with more segments is a group of its own.

    Parameters
    ----------
    capture : CaptureTables
    partition : Partition
    rows : int
    between : (int, int), optional
        The first connection, and the last one plus 1; by default all.
    """
    cost = partition.bounds[::2] + _CONNECTION_ROWS * np.arange(partition.connections + 1)
    first, end = between or (0, partition.connections)
    while first < end:
        last = max(int(np.searchsorted(cost, cost[first] + rows, side="right")) - 1, first + 1)
        last = min(last, end)
        yield SegmentGroup.of(capture, partition, 2 * first, 2 * last)
        first = last
