"""Rates of one direction over time: goodput, throughput and wire rate; share of unique bytes.

The series are moving averages, by default over the time of 16 segments at the mean rate (paper 002 used 100
ms). A moving average changes only when bytes enter or leave the window. So each series is exact as a step
function: it is not sampled, and a stall appears as zero.

`trendline` fits a least-squares line to a series over an interval; its slope is a rate (paper 004, section
4.5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.captured import Flag
from multitracer.errors import InputError
from multitracer.schemas.tcp import RATES
from multitracer.tables import NA, Table
from multitracer.units import NS_PER_S
from multitracer.wtcp import DELIVERIES

if TYPE_CHECKING:
    from multitracer.tables import Array

WINDOW_SEGMENTS = 16
"""Number of data segments in a window of default length: enough to smooth single segments. Not measured."""
MIN_HEADERS_BYTES = 40
"""Minimum length of the IPv4 and TCP headers (without options), bytes."""


def default_window_ns(segments: Table, *, reverse: bool) -> int:
    """Return the time that 16 data segments of a direction take at their mean rate; at least 1 ns."""
    time_ns = segments["time_ns"][_with_payload(segments, reverse=reverse)]
    if len(time_ns) < 2:
        return NS_PER_S
    mean_ns = (int(time_ns.max()) - int(time_ns.min())) / (len(time_ns) - 1)
    return max(round(WINDOW_SEGMENTS * mean_ns), 1)


def goodput(segments: Table, *, reverse: bool, window_ns: int | None = None) -> Table:
    """Return RATES of the payload bytes that were seen for the first time; near the receiver, goodput.

    Parameters
    ----------
    segments : Table
        TCP_SEGMENTS of one connection.
    reverse : bool
        False: the initiator's data; True: the responder's.
    window_ns : int, optional
        Length of the moving window, > 0; `default_window_ns` if not given.
    """
    rows = _with_payload(segments, reverse=reverse)
    return _rate(segments, rows, segments["new_bytes"][rows], window_ns, reverse=reverse)


def delivered(segments: Table, *, reverse: bool, window_ns: int | None = None) -> Table:
    """Return RATES of the payload bytes that ACKs and SACK blocks report for the first time.

    An ACK that fills a hole counts only bytes that no SACK block had reported. Parameters are those of
    `goodput`.
    """
    rows, new_bytes = _reported(segments, reverse=reverse)
    return _rate(segments, rows, new_bytes, window_ns, reverse=reverse)


def reported(segments: Table, *, reverse: bool) -> Table:
    """Return DELIVERIES of payload bytes that ACKs and SACK blocks report for the first time.

    Parameters
    ----------
    segments : Table
        TCP_SEGMENTS of one connection.
    reverse : bool
        False: the initiator's data; True: the responder's.
    """
    rows, new_bytes = _reported(segments, reverse=reverse)
    return Table(DELIVERIES, {"time_ns": segments["time_ns"][rows], "new_bytes": new_bytes.astype(np.int64)})


def _reported(segments: Table, *, reverse: bool) -> tuple[Array, Array]:
    """Return the rows of segments that report new bytes, and the number of new bytes of each.

    Bytes are new if no earlier ACK or SACK block reported them.
    """
    flags, no_ack = segments["flags"], segments["ack_bytes"] == NA
    rows = np.flatnonzero((segments["reverse"] != reverse) & ~no_ack & ((flags & Flag.RST) == 0))
    ack = np.maximum.accumulate(segments["ack_bytes"][rows]) if len(rows) else segments["ack_bytes"][rows]
    empty = segments["end_bytes"][rows] == segments["seq_bytes"][rows]
    sacked = np.where(empty, segments["flight_bytes"][rows] - segments["flight_sack_bytes"][rows], 0)
    begin, end = _payload_range(segments, reverse=reverse)
    got = np.maximum.accumulate(np.clip(ack + sacked, begin, end)) if len(rows) else ack
    return rows, np.diff(got, prepend=begin)


def _payload_range(segments: Table, *, reverse: bool) -> tuple[int, int]:
    rows = _with_payload(segments, reverse=reverse)
    if not len(rows):
        return 0, 0
    flags = segments["flags"][rows]
    begin = segments["seq_bytes"][rows] + ((flags & Flag.SYN) != 0)
    return int(begin.min()), int((begin + segments["payload_bytes"][rows]).max())


def throughput(segments: Table, *, reverse: bool, window_ns: int | None = None) -> Table:
    """Return RATES of payload bytes including retransmissions; parameters are those of `goodput`."""
    rows = _with_payload(segments, reverse=reverse)
    return _rate(segments, rows, segments["payload_bytes"][rows], window_ns, reverse=reverse)


def wire_rate(
    segments: Table, *, reverse: bool, window_ns: int | None = None, headers_bytes: int = MIN_HEADERS_BYTES
) -> Table:
    """Return RATES of all bytes that one direction sent: all segments with their headers.

    Parameters
    ----------
    headers_bytes : int
        Header bytes of each segment. The table has no link headers and options, so the default is the minimum
        of IPv4 and TCP. Other parameters are those of `goodput`.
    """
    rows = np.flatnonzero(segments["reverse"] == reverse)
    carried = segments["payload_bytes"][rows] + headers_bytes
    return _rate(segments, rows, carried, window_ns, reverse=reverse)


def unique_share(unique_bytes: Array, payload_bytes: Array) -> Array:
    """Return for each direction the unique bytes divided by all payload bytes; NaN without payload.

    From a receiver's capture it is the efficiency of paper 000, from a sender's what is called `efficiency_sent`; 1 is
    ideal.

    Parameters
    ----------
    unique_bytes, payload_bytes : ndarray of int64, shape (n_directions,)
        Columns of DIRECTIONS.

    Returns
    -------
    ndarray of float64, shape (n_directions,)
        Above 0, at most 1; or NaN.
    """
    payload = payload_bytes.astype(np.float64)
    payload[payload == 0] = np.nan
    share: Array = unique_bytes / payload
    return share


def _with_payload(segments: Table, *, reverse: bool) -> Array:
    return np.flatnonzero((segments["reverse"] == reverse) & (segments["payload_bytes"] > 0))


def _rate(segments: Table, rows: Array, carried: Array, window_ns: int | None, *, reverse: bool) -> Table:
    window = window_ns if window_ns is not None else default_window_ns(segments, reverse=reverse)
    time_ns, carried = segments["time_ns"].take(rows), carried.astype(np.int64)
    if not bool(np.all(time_ns[1:] >= time_ns[:-1])):
        order = np.argsort(time_ns, kind="stable")
        time_ns, carried = time_ns[order], carried[order]
    moments = np.concatenate([time_ns, time_ns + window])
    merged = np.argsort(moments, kind="stable")  # two sorted runs: linear
    moments, inside = moments.take(merged), np.concatenate([carried, -carried]).take(merged)
    np.cumsum(inside, out=inside)
    last = np.ones(len(moments), dtype=bool)
    np.not_equal(moments[1:], moments[:-1], out=last[:-1])
    if not last.all():
        moments, inside = moments[last], inside[last]
    rate = inside * (NS_PER_S / window)
    return Table(RATES, {"time_ns": moments, "bytes_per_s": rate}, {"window_ns": window})


@dataclass(frozen=True, slots=True)
class Trendline:
    """A line: value = at_begin + slope_per_s * (time - begin)."""

    begin_ns: int
    """First point used, ns since 1970."""
    end_ns: int
    """Last point used, ns since 1970."""
    slope_per_s: float
    """Units of the series per second; bytes per second for a sequence series."""
    at_begin: float
    """Value of the line at `begin_ns`."""
    r_squared: float
    """Share of the variance of the series that the line explains; NaN for a constant series."""
    points: int

    def at(self, time_ns: int) -> float:
        """Return the value of the line at a time."""
        return self.at_begin + self.slope_per_s * (time_ns - self.begin_ns) / NS_PER_S


def trendline(time_ns: Array, value: Array, *, begin_ns: int | None = None, end_ns: int | None = None) -> Trendline:
    """Return the least-squares line through the points with begin <= time <= end.

    Parameters
    ----------
    time_ns : ndarray of int64, shape (n,)
    value : ndarray, shape (n,)
    begin_ns, end_ns : int, optional
        The interval; None leaves a side open.

    Raises
    ------
    InputError
        If the interval has fewer than two different times: they do not determine a line.
    """
    chosen = np.ones(len(time_ns), dtype=bool)
    if begin_ns is not None:
        chosen &= time_ns >= begin_ns
    if end_ns is not None:
        chosen &= time_ns <= end_ns
    times, values = time_ns[chosen], np.asarray(value)[chosen].astype(np.float64)
    if not len(times) or times.min() == times.max():
        raise InputError(
            f"trendline: cannot fit a line to {len(times)} points that have the same time; choose a longer interval"
        )
    first = int(times.min())
    seconds = (times - first) / NS_PER_S
    slope, at_begin, r_squared = _least_squares(seconds, values)
    return Trendline(first, int(times.max()), slope, at_begin, r_squared, len(times))


def _least_squares(x: Array, y: Array) -> tuple[float, float, float]:
    """Return three numbers of the least-squares line: slope, value at x = 0, explained share of variance."""
    dx, dy = x - x.mean(), y - y.mean()
    slope = float(dx @ dy / (dx @ dx))
    total = float(dy @ dy)
    explained = slope * float(dx @ dy)
    return slope, float(y.mean() - slope * x.mean()), explained / total if total else float("nan")
