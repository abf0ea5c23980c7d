"""The timestamps option as a clock (RFC 7323, section 5.4): how fast it ticks, and when a segment left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.analysis.intervals import reduce_groups
from multitracer.captured import Mark
from multitracer.tables import NA
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from typing import Self

    from multitracer.analysis.verdicts.copies import Copies
    from multitracer.analysis.verdicts.talks import Talks
    from multitracer.tables import Array

_RATES_HZ = np.array([1, 2, 10, 100, 250, 1000, 1_000_000])
"""RFC 7323, 5.4, allows 1 to 1000; in use are 2 (BSD of old), 10, 100, 250 and 1000, and 10^6 (Linux 6.7)."""
_APART = 0.1
"""So far a measured rate may be from one of these: delays of the first and the last packet."""
_LEAST_NS = NS_PER_S
"""Over so long a rate can be told."""
_DRIFT = 2e-4
"""Of a host's clock, at most: 100 ppm each for it and that of the capture."""
_TICKS_APART = 1 << 33
"""Between two talks: more than timestamps can be apart."""


def since(stamps: Array, origin: Array) -> Array:
    """Return how many ticks timestamps are after another; less than 2^31 lie between (RFC 7323, 5.2).

    Parameters
    ----------
    stamps, origin : ndarray of uint32, same shape
        Timestamp values in ticks; they wrap around at 2^32.

    Returns
    -------
    ndarray of int64, ticks, same shape
        From -2^31 to 2^31 - 1.
    """
    ticks: Array = (stamps - origin).view(np.int32).astype(np.int64)
    return ticks


@dataclass(frozen=True, slots=True)
class Stamped:
    """The segments with timestamps that one side of each talk sent."""

    talks: Talks
    rows: Array
    bounds: Array
    """Talk t has rows[bounds[t]:bounds[t + 1]]."""

    @classmethod
    def of(cls, talks: Talks, side: Array) -> Self:
        """Return the segments with timestamps among the rows of a mask.

        Parameters
        ----------
        talks : Talks
        side : ndarray of bool, shape (n_segments,)
            What one side of each talk sent.
        """
        rows = np.flatnonzero(side & has(talks.segments["marks"], Mark.HAS_TIMESTAMPS))
        return cls(talks, rows, np.searchsorted(rows, talks.bounds))

    @property
    def talk(self) -> Array:
        """The talk of each of `rows`: int64, shape (n_rows,)."""
        return np.repeat(np.arange(len(self.talks)), np.diff(self.bounds))

    @property
    def first(self) -> Array:
        """The first of `rows` of each talk: int64, shape (n_talks,); no meaning for a talk that has none."""
        first: Array = np.append(self.rows, 0)[self.bounds[:-1]]
        return first

    @property
    def last(self) -> Array:
        """The last of `rows` of each talk: int64, shape (n_talks,); no meaning for a talk that has none."""
        last: Array = np.append(self.rows, 0)[self.bounds[1:] - 1]
        return last

    def since_first(self, stamps: Array, talk: Array) -> Array:
        """Return by how many ticks timestamps follow the first one of their talk; talks are kept apart.

        Parameters
        ----------
        stamps : ndarray of uint32, ticks, shape (n,)
            Timestamp values; they wrap around at 2^32.
        talk : ndarray of int64, shape (n,)
            The talk of each.

        Returns
        -------
        ndarray of int64, ticks, shape (n,)
            Those of talk t lie around t * 2^33.
        """
        origin = self.talks.segments["tsval"][self.first]
        apart: Array = since(stamps, origin[talk]) + talk * _TICKS_APART
        return apart


def tick_ns(stamped: Stamped) -> Array:
    """Return per talk how long a tick of the host that sent them is; NA if that is unknown.

    Returns
    -------
    ndarray of int64, ns, shape (n_talks,)
    """
    segments, first, last = stamped.talks.segments, stamped.first, stamped.last
    ticks = since(segments["tsval"][last], segments["tsval"][first])
    span_ns = segments["time_ns"][last] - segments["time_ns"][first]
    measurable = (np.diff(stamped.bounds) > 1) & (ticks > 0) & (span_ns >= _LEAST_NS)
    rate = np.where(measurable, ticks, 1) * NS_PER_S / np.where(measurable, span_ns, 1)
    nearest = _RATES_HZ[np.argmin(np.abs(np.log(_RATES_HZ[:, None] / rate)), axis=0)]
    measurable &= np.abs(rate / nearest - 1) < _APART
    return np.where(measurable, NS_PER_S // nearest, NA)


def left_before(copies: Copies, least_ns: Array | int) -> Array:
    """Return which were reported by an ACK that left the receiver before they could have come there.

    By the ACK's own timestamp. The fastest ACK shows the receiver's clock at the time when it was captured.

    Parameters
    ----------
    least_ns : int, or ndarray of float64 of shape (n_copies,)
        How long, at least, after a retransmission an answer to it is captured.

    Returns
    -------
    ndarray of bool, shape (n_copies,)
    """
    segments, back = copies.segments, Stamped.of(copies.talks, copies.back)
    tick, talk = tick_ns(back), back.talk
    if not (tick != NA).any():
        return np.zeros(len(copies), dtype=bool)
    time_ns = segments["time_ns"][back.rows]
    left_ns = since(segments["tsval"][back.rows], segments["tsval"][back.first][talk]) * tick[talk]
    fastest_ns = left_ns + reduce_groups(np.minimum, time_ns - left_ns, back.bounds, empty=0)[talk]
    error_ns = tick + _DRIFT * (segments["time_ns"][back.last] - segments["time_ns"][back.first])
    place = np.minimum(np.searchsorted(back.rows, copies.report), len(back.rows) - 1)
    there = (
        (back.rows[place] == copies.report) & (copies.report > copies.row) & (copies.report < copies.nowhere)
    )
    sent_ns = segments["time_ns"][copies.row]
    early: Array = there & (fastest_ns[place] + error_ns[copies.talk] < sent_ns + least_ns)
    early &= tick[copies.talk] != NA
    return early
