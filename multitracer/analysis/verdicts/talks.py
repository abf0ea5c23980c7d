"""What is judged: directions of connections, one behind the other on one axis of units and one of time.

Each talk is a connection and the direction of it whose data are judged. Its rows, its units and its times lie
above those of all talks before it. So cumulative maxima and searches run over many talks at once, as if they
were one: what a search does not find in its own talk it finds at or behind the end of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import reduce_groups, spans
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Array

_MOST_ROWS = 1 << 18
"""Of talks side by side, unless one alone has more: it bounds the memory."""
_MOST_UNITS = 1 << 42  # 1,024 sequence spaces of 2^32
_MOST_NS = 1 << 60
"""Lengths of the axes: all sums of rules stay within 64 bits. A talk that has more is judged alone."""
_APART = 2
"""Units between two talks."""
_APART_NS = 60 * NS_PER_S
"""Time between two talks, beside as much as each takes: no rule looks farther ahead or back."""
_UNITS = ("seq_bytes", "end_bytes", "ack_bytes")


@dataclass(frozen=True, slots=True)
class Talks:
    """Connections, each with a direction whose data are judged."""

    segments: Table
    """TCP_SEGMENTS, talk after talk."""
    sacks: Table
    """TCP_SACK_BLOCKS, by rows of `segments`."""
    own: Array
    """Per row: the sender of the judged data sent it."""
    bounds: Array
    """Talk t has rows bounds[t]:bounds[t + 1]."""
    zero: Array
    """Per talk: where its unit 0 lies."""

    @classmethod
    def one(cls, segments: Table, sacks: Table, *, reverse: bool) -> Talks:
        """Return a direction of one connection; units and times are its own."""
        bounds = np.array([0, len(segments)])
        return cls(segments, sacks, segments["reverse"] == reverse, bounds, np.zeros(1, dtype=np.int64))

    @classmethod
    def side_by_side(
        cls, segments: Table, sacks: Table, bounds: Array, side: Array
    ) -> Iterator[tuple[Array, Talks]]:
        """Yield directions of connections, as many at once as axes and memory hold.

        Parameters
        ----------
        segments, sacks : Table
            TCP_SEGMENTS and TCP_SACK_BLOCKS of connections, one after the other.
        bounds : ndarray of int64, shape (n_connections + 1,)
            Connection c has rows bounds[c]:bounds[c + 1].
        side : ndarray of int64, shape (n_directions,)
            Which are judged: 2 c for what the initiator of c sent, 2 c + 1 for what came back.

        Yields
        ------
        rows : ndarray of int64, shape (n_rows,)
            The rows of `segments` that these talks hold.
        talks : Talks
        """
        blocks = np.searchsorted(sacks["row"], bounds)
        stretches = [_units_of(segments, sacks, bounds, blocks), _times_of(segments, bounds)]
        connection = side >> 1
        shares = [each.length / most for each, most in zip(stretches, (_MOST_UNITS, _MOST_NS), strict=True)]
        for cut in _cuts(np.stack([np.diff(bounds) / _MOST_ROWS, *shares])[:, connection]):
            chosen, reverse = connection[cut], (side[cut] & 1).astype(bool)
            rows, ends = spans(bounds, chosen)
            if len(chosen) == 1:
                own_blocks = sacks.take(slice(*blocks[chosen[0] :][:2]))
                own_blocks.columns["row"] = own_blocks["row"] - rows[0]
                own = segments.take(slice(rows[0], rows[-1] + 1))
                yield rows, cls.one(own, own_blocks, reverse=bool(reverse[0]))
                continue
            units, times_ns = (each.shifts(chosen) for each in stretches)
            moved = _moved(segments.take(rows), units, times_ns, np.diff(ends))
            own_blocks = _moved_blocks(sacks, blocks, chosen, ends[:-1] - bounds[chosen], units)
            yield (
                rows,
                cls(moved, own_blocks, moved["reverse"] == np.repeat(reverse, np.diff(ends)), ends, units),
            )

    def __len__(self) -> int:
        return len(self.zero)

    def of(self, row: Array) -> Array:
        """Return the talk of each row.

        Parameters
        ----------
        row : ndarray of int64, any shape
            Rows of `segments`.

        Returns
        -------
        ndarray of int64, shape of `row`
        """
        talk: Array = np.searchsorted(self.bounds, row, side="right") - 1
        return talk

    def per_row(self, values: Array) -> Array:
        """Return for each row the value of its talk.

        Parameters
        ----------
        values : ndarray of any dtype, shape (n_talks,)

        Returns
        -------
        ndarray of the same dtype, shape (n_segments,)
        """
        if len(values) == 1:
            return np.broadcast_to(values, len(self.segments))
        return np.repeat(values, np.diff(self.bounds))

    def have(self, rows: Array) -> Array:
        """Return which talks have one of `rows`.

        Parameters
        ----------
        rows : ndarray of int64, shape (n,)

        Returns
        -------
        ndarray of bool, shape (n_talks,)
        """
        return np.bincount(self.of(rows), minlength=len(self)) > 0

    def shortest_ns(self, names: tuple[str, ...], rows: Array) -> Array:
        """Return per talk the shortest time above 0 in some columns; NA without one.

        Parameters
        ----------
        names : tuple of str
            Columns of TCP_SEGMENTS in ns.
        rows : ndarray of bool, shape (n_segments,)
            Which rows count.

        Returns
        -------
        ndarray of int64, ns, shape (n_talks,)
        """
        never = np.iinfo(np.int64).max
        shortest = np.full(len(self), never)
        for name in names:
            times = self.segments[name]
            known = np.where(rows & (times > 0), times, never)
            shortest = np.minimum(shortest, reduce_groups(np.minimum, known, self.bounds, empty=never))
        return np.where(shortest == never, NA, shortest)


@dataclass(frozen=True, slots=True)
class _Stretches:
    """What each connection takes of an axis, with what is free around it."""

    first: Array
    length: Array

    def shifts(self, chosen: Array) -> Array:
        """Return by how much some must move: each to where the one before it ends, the first one to 0."""
        length = self.length[chosen]
        shifts: Array = np.cumsum(length) - length - self.first[chosen]
        return shifts


def _units_of(segments: Table, sacks: Table, bounds: Array, of_blocks: Array) -> _Stretches:
    """Return the units that each connection mentions."""
    lowest, highest = np.zeros((2, len(bounds) - 1), dtype=np.int64)
    for name in _UNITS:
        lowest = np.minimum(lowest, reduce_groups(np.minimum, segments[name], bounds, empty=0))
        highest = np.maximum(highest, reduce_groups(np.maximum, segments[name], bounds, empty=0))
    for name in ("left_bytes", "right_bytes"):
        lowest = np.minimum(lowest, reduce_groups(np.minimum, sacks[name], of_blocks, empty=0))
        highest = np.maximum(highest, reduce_groups(np.maximum, sacks[name], of_blocks, empty=0))
    return _Stretches(lowest - _APART, highest - lowest + 2 * _APART)


def _times_of(segments: Table, bounds: Array) -> _Stretches:
    """Return the time that each connection takes: too much to share the axis if a time is not known."""
    first, last = (
        reduce_groups(ufunc, segments["time_ns"], bounds, empty=0) for ufunc in (np.minimum, np.maximum)
    )
    half_ns = last // 2 - first // 2  # the whole may be beyond 64 bits
    sane = (first != NOT_A_TIME) & (half_ns < _MOST_NS // 8)
    clearance_ns = np.where(sane, 2 * half_ns + 1, 0) + _APART_NS
    return _Stretches(first - clearance_ns, np.where(sane, 3 * clearance_ns, 2 * _MOST_NS))


def _cuts(sizes: Array) -> Iterator[slice]:
    """Yield stretches of columns of which no row adds up to more than 1, but of one column at least."""
    total = np.cumsum(np.column_stack([np.zeros(len(sizes)), sizes]), axis=1)
    begin, n = 0, sizes.shape[1]
    while begin < n:
        ends = [int(np.searchsorted(row, row[begin] + 1, side="right")) - 1 for row in total]
        end = max(min(ends), begin + 1)
        yield slice(begin, end)
        begin = end


def _moved(table: Table, units: Array, times_ns: Array, sizes: Array) -> Table:
    """Return the same segments, moved by so much in each talk."""
    shift = np.repeat(units, sizes)
    columns = table.columns | {name: table[name] + shift for name in _UNITS}
    columns["ack_bytes"][table["ack_bytes"] == NA] = NA
    columns["time_ns"] = table["time_ns"] + np.repeat(times_ns, sizes)
    return Table(table.schema, columns)


def _moved_blocks(sacks: Table, bounds: Array, chosen: Array, rows: Array, units: Array) -> Table:
    """Return the SACK blocks of the chosen connections, moved by so many rows and units."""
    index, ends = spans(bounds, chosen)
    table, sizes = sacks.take(index), np.diff(ends)
    shifts = {"row": rows, "left_bytes": units, "right_bytes": units}
    columns = {name: table[name] + np.repeat(shift, sizes) for name, shift in shifts.items()}
    return Table(table.schema, table.columns | columns)
