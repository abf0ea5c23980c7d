"""A series: one labelled line of a figure, with integer values; each point refers to a frame of a file.

Labels follow docs/figures.md (paper 004, section 4.5). Times are int64 nanoseconds, values are int64 in the
base unit of the panel (bytes, nanoseconds, bit/s), and points are in order of time.

`thin` reduces the number of points without changing the picture, and keeps all rare events. Its method, M4,
keeps the first, last, lowest and highest point of each time bin, so that a line through these points covers
the same pixels as the line through all points (Jugel et al., "M4: a visualization-oriented time series data
aggregation", VLDB 2014). It uses NumPy, because tsdownsample 0.1.5 panics on some times that a malicious
capture can contain, and is not faster here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.tables import Array, Mask

BREAK = -(1 << 50)
"""Value of a point that interrupts a line: no line is drawn to this point or from it.

`points/decoder.js` has the same constant. The zigzag encoding needs twice the difference of two values; with
this constant, a double represents it exactly."""


@dataclass(frozen=True, slots=True)
class Series:
    """One labelled series.

    Parameters
    ----------
    label : str
        Name of the series in the legend, for example ``TcpSnd_data``.
    role : str
        Key of the style in `palette.LOOKS`.
    time_ns : ndarray of int64, shape (n,)
        Times of the points, not decreasing.
    value : ndarray of int64, shape (n,)
        Values in the base unit of the panel; BREAK interrupts a line.
    until : ndarray of int64, shape (n,), optional
        The other end of each bar; None for points and lines.
    frame, file : ndarray of int, shape (n,), optional
        The packet of each point: frame number in the file, and index of the file.
    answer : ndarray of int, shape (n,), optional
        Frame number of the acknowledging packet, for points that come from two packets.
    rare : bool
        Whether the points are rare events, which thinning must not remove.
    bound : bool
        Whether the series is a bound, such as a window. A bound far above the other series is cut off, so
        that these use the full height.
    doc : str
        Meaning and source of the series, in a sentence.
    """

    label: str
    role: str
    time_ns: Array
    value: Array
    until: Array | None = None
    frame: Array | None = None
    file: Array | None = None
    answer: Array | None = None
    rare: bool = False
    bound: bool = False
    doc: str = ""

    def __len__(self) -> int:
        return len(self.time_ns)

    @property
    def is_drawn(self) -> Mask:
        """Mask of the drawn points: all except those with the value BREAK."""
        return np.asarray(self.value != BREAK)

    def take(self, index: Array | slice) -> Series:
        """Return the series with the selected points; `index` is an array of positions, a mask or a slice."""
        until, frame, file, answer = (
            None if column is None else column[index] for column in (self.until, self.frame, self.file, self.answer)
        )
        return replace(
            self,
            time_ns=self.time_ns[index],
            value=self.value[index],
            until=until,
            frame=frame,
            file=file,
            answer=answer,
        )

    def between(self, from_ns: int | None, to_ns: int | None) -> Series:
        """Return the series with the points for which from_ns <= time <= to_ns; None: unbounded."""
        first = 0 if from_ns is None else np.searchsorted(self.time_ns, from_ns, "left")
        last = len(self) if to_ns is None else np.searchsorted(self.time_ns, to_ns, "right")
        return self if (first, last) == (0, len(self)) else self.take(slice(first, last))

    def states_between(self, from_ns: int | None, to_ns: int | None) -> Series:
        """Return a series of states (1 at the begin of each, 0 at its end), cut at both times; None: unbounded."""
        if from_ns is None and to_ns is None:
            return self
        begin_ns, end_ns = (np.clip(self.time_ns[first::2], from_ns, to_ns) for first in (0, 1))
        lasting = np.repeat(end_ns > begin_ns, 2)
        return replace(self, time_ns=np.column_stack([begin_ns, end_ns]).ravel()).take(lasting)


def in_order(series: Series) -> Series:
    """Return the series sorted by time (stable), without points whose time is missing."""
    timed = series.time_ns != NOT_A_TIME
    if not bool(np.all(timed)):
        series = series.take(timed)
    if bool(np.all(series.time_ns[1:] >= series.time_ns[:-1])):
        return series
    return series.take(np.argsort(series.time_ns, kind="stable"))


def seconds_since(time_ns: Array, origin_ns: int) -> Array:
    """Return seconds after `origin_ns`, exact to the ns for the first 100 days.

    Parameters
    ----------
    time_ns : ndarray of int64, ns since 1970, shape (n,)
        Ascending; never NA.
    origin_ns : int

    Returns
    -------
    ndarray of float64, s, shape of `time_ns`
    """
    if len(time_ns) and max(abs(int(time_ns[0]) - origin_ns), abs(int(time_ns[-1]) - origin_ns)) >= 2**63:
        return (time_ns.astype(np.float64) - origin_ns) / NS_PER_S  # clocks that are centuries apart
    return (time_ns - origin_ns) / NS_PER_S


BINS = 1024
"""Default number of time bins: about one for each pixel of a wide screen."""

RARE_LIMIT = 20_000
"""Maximum number of points of a series of rare events; a series with more points is thinned."""

_PER_BIN = 4
_SPAN_BITS = 41
"""Maximum bits of the time span for binning: with up to 2^21 bins the products stay below 2^62."""


def thin(series: Series, *, bins: int = BINS) -> Series:
    """Return the series thinned by M4: at most 4 points (8 for bars) in each of `bins` time bins.

    A rare series of up to `RARE_LIMIT` points is returned unchanged.
    """
    points = len(series)
    if points <= max(_PER_BIN * bins, RARE_LIMIT * series.rare):
        return series
    since = (series.time_ns - series.time_ns[0]).view(np.uint64)
    if span := int(since[-1]):
        shift = max(0, span.bit_length() - _SPAN_BITS)
        edges = np.arange(bins, dtype=np.int64) * (span >> shift) // bins
        starts = np.searchsorted(since >> np.uint64(shift), edges.astype(np.uint64))
        starts = starts[np.append(True, starts[1:] != starts[:-1])]  # of the bins that have points
    else:  # points of one moment are cut into bins by position
        starts = np.arange(bins) * points // bins
    ends = np.append(starts[1:], points)
    breaks, value = np.flatnonzero(~series.is_drawn), series.value
    if len(breaks):  # each counts as the point before it
        value = value.copy()
        value[breaks] = value[np.maximum(breaks - 1, 0)]
    kept = [starts, ends - 1, breaks]
    for column in [value] if series.until is None else [value, series.until]:
        for extreme in (np.minimum, np.maximum):
            at_extreme = np.flatnonzero(column == np.repeat(extreme.reduceat(column, starts), ends - starts))
            kept.append(at_extreme[np.searchsorted(at_extreme, starts)])  # the first of each bin
    rows = np.sort(np.concatenate(kept))
    # numpy.unique hashes, which costs five times as much
    return series.take(rows[np.append(True, rows[1:] != rows[:-1])])
