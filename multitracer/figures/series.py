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
    from collections.abc import Sequence

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
        Name of the series for code and options, for example ``TcpSnd_data``; `names` has it in words.
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


TREND_ROLES = ("trend", "trend_2", "trend_3", "trend_4")
"""Roles of the trendlines of a figure in order: each has another dash, and the fifth is as the first."""

_NAMES = {
    "data": "sent",
    "ack": "acknowledged",
    "window_edge": "end of the window",
    "retransmission": "retransmitted",
    "out_of_order": "filled a hole",
    "capture_duplicate": "captured twice",
    "duplicate_ack": "duplicate ACK",
    "sack": "arrived out of order",
    "dsack": "arrived twice",
    "zero_window": "window closed",
    "probe": "window probe",
    "handshake": "SYN or FIN",
    "reset": "reset",
    "flight": "in flight",
    "flight_sack": "in flight without SACKed data",
    "window": "advertised window",
    "rtt": "round trip",
    "rtt_timestamp": "round trip by timestamp",
    "rtt_sack": "round trip by SACK",
    "srtt": "smoothed round trip",
    "rto": "timeout",
    "goodput": "delivered",
    "throughput": "sent, with retransmissions",
    "capacity": "link's rate",
    "one_way": "delay of a segment",
    "cwnd": "congestion window",
    "ssthresh": "slow-start threshold",
    "received": "arrived",
    "received_band": "arrived, within the error of the clock",
    "receiver_ack": "acknowledged, at the receiver",
    "link_data": "link frames",
    "link_received": "link frames arrived",
    "link_again": "link frames retransmitted",
    "link_lost": "link frames lost",
    "link_request": "link frames requested",
    "link_stop": "link: stop",
    "link_go": "link: resume",
    "link_reset": "link reset",
    "radio_rssi": "RSSI",
    "radio_rsrp": "RSRP",
    "radio_rscp": "RSCP",
    "radio_rsrq": "RSRQ",
    "radio_sinr": "SINR",
    "radio_ecio": "Ec/Io",
    "radio_bler": "lost blocks",
    "radio_busy": "busy cell",
    "radio_cqi": "CQI",
    "zero_level": "no signal",
    "rate_down": "download",
    "rate_up": "upload",
    "speed": "speed",
    "travelled": "distance",
    "assigned_rate": "assigned rate",
}
"""Name of a series by its role; a role without an entry uses the label of the series, which is in words then."""

_NAMES_BY_LABEL = {"RlpRcv_dup": "link frames arrived twice", "Link_queue": "bytes waiting"}
_AT_RECEIVER = {"data": "arrived", "ack": "acknowledged, leaving", "retransmission": "arrived again"}
_SIDES = {"Snd": "sender", "Rcv": "receiver"}


def names(panel: Sequence[Series]) -> list[str]:
    """Return the name in words of each series of a panel, for legends; labels such as ``TcpSnd_data`` are for code.

    Names that would be equal also have the side of the link or the connection; then, at last, the label.
    """
    words = [_name(series, panel) for series in panel]
    words = [
        f"{name}, at the {_SIDES[side]}" if words.count(name) > 1 and (side := series.label[3:6]) in _SIDES else name
        for name, series in zip(words, panel, strict=True)
    ]
    return [
        name if words.count(name) == 1 or name == series.label else f"{name} ({series.label})"
        for name, series in zip(words, panel, strict=True)
    ]


def _name(series: Series, panel: Sequence[Series]) -> str:
    if series.role in TREND_ROLES:  # "TcpSnd_data trend: 844 B/s"
        label, _, more = series.label.partition(" trend")
        fitted = next((each for each in panel if each.label == label), None)
        return f"{label if fitted is None else _name(fitted, panel)}, trend{more}"
    if series.label.startswith("TcpRcv") and series.role in _AT_RECEIVER:
        return _AT_RECEIVER[series.role]
    return _NAMES_BY_LABEL.get(series.label) or _NAMES.get(series.role, series.label)
