"""A radio log that says that no network served, while packets were answered.

Its clock is off, or it is of another modem: a phone whose modem searches for a network gets no packet. Only
data that were sent and acknowledged inside such a time count: a host goes on to send into a hole, but nothing
answers. That needs one stretch of the log, where relating two clocks by stalls needs five. It asks for the
state of the connection alone: a modem that is not registered for circuits may carry packets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.captured import Flag
from multitracer.clock.doctor.complaints import Complaint
from multitracer.radio import SEARCHES
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_MS, NS_PER_S
from multitracer.words import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.capture import Capture
    from multitracer.tables import Array, Table

_FEWEST_READINGS = 3
"""One reading may be late, or its answer a moment's."""
_LONGEST_BETWEEN_NS = 5 * NS_PER_S
"""Readings farther apart do not tell what was between them. Not measured."""
_MARGIN_NS = NS_PER_S
"""Off both ends: a modem takes up to a second to answer, and answers what it last knew. Not measured."""
_FEWEST_ANSWERS = 5
"""Acknowledgments in one such time: one or two may be a mistaken pair. Not measured."""
_FARTHEST_S, _STEP_NS = 60, 500 * NS_PER_MS
"""Shifts that are tried: as in `stalls`, by half of the usual distance of readings."""


class Contradiction(NamedTuple):
    """A time without service in which packets were answered, on the log's clock."""

    begin_ns: int
    end_ns: int
    answers: int


def contradiction(radio: Table, capture: Capture) -> Contradiction | None:
    """Return the first time in which a radio log says that no network served, while packets were answered.

    Parameters
    ----------
    radio : Table
        RADIO of one host, on the clock of its captures as far as is known.
    capture : Capture
        Made at that host.
    """
    spans = list(_searching(radio))
    if not spans:  # it spares the sorting of a capture
        return None
    answered = _Answered(capture)
    for begin, end in spans:
        count = answered.within(begin + _MARGIN_NS, end - _MARGIN_NS)
        if count >= _FEWEST_ANSWERS:
            return Contradiction(begin, end, count)
    return None


def no_service(name: str, point: str, radio: Table, capture: Capture) -> Complaint | None:
    """Return the complaint about a radio log whose times without service cannot be those of the packets.

    Parameters
    ----------
    name, point : str
        The log and the capture, as the user knows them.
    radio : Table
    capture : Capture
        Of the log's host.
    """
    contradicted = contradiction(radio, capture)
    if contradicted is None:
        return None
    begin_ns, end_ns, answers = contradicted
    begin_s = (begin_ns - _Answered(capture).span_ns[0]) / NS_PER_S
    return Complaint(
        "no-service",
        name,
        f"{name} says that no network served for {duration(end_ns - begin_ns)}, {begin_s:,.1f} s after "
        f"{point} begins, but {answers:,} answers to packets of that time were captured there: its clock is "
        "off, or it is of another modem than the one that carried them",
        f"check the log's clock against that of {point}{_where_it_fits(radio, capture)}, or record with "
        "`multitracer capture`, whose logs share a clock",
    )


def _where_it_fits(radio: Table, capture: Capture) -> str:
    """Return in words by which shifts all times without service have no answer; empty if that is open."""
    answered, spans = _Answered(capture), list(_searching(radio))
    first, last = answered.span_ns
    reach = _FARTHEST_S * NS_PER_S // _STEP_NS
    fits = [
        step
        for step in range(-reach, reach + 1)
        if all(
            first <= begin + step * _STEP_NS
            and end + step * _STEP_NS <= last
            and not answered.within(begin + step * _STEP_NS + _MARGIN_NS, end + step * _STEP_NS - _MARGIN_NS)
            for begin, end in spans
        )
    ]
    if not fits or fits[-1] - fits[0] >= len(fits):
        return ""
    low, high = (step * _STEP_NS / NS_PER_S for step in (fits[0], fits[-1]))
    by = f"{low:+.1f}" if low == high else f"{low:+.1f} to {high:+.1f}"
    return f" (moved by {by} s, it fits their pauses)"


def _searching(radio: Table) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each run of readings that all say that no network serves."""
    if len(np.unique(radio["modem"])) > 1:  # one of two cards may serve
        return
    rows = np.flatnonzero(
        (radio["time_ns"] != NOT_A_TIME) & (radio["state"] != "") & (radio["role"] != "neighbour")
    )
    rows = rows[np.argsort(radio["time_ns"][rows], kind="stable")]
    time, out = radio["time_ns"][rows], np.isin(radio["state"][rows], SEARCHES)
    if not len(rows):
        return
    parted = (out[1:] != out[:-1]) | (np.diff(time) > _LONGEST_BETWEEN_NS)
    for run in np.split(np.arange(len(rows)), np.flatnonzero(parted) + 1):
        if out[run[0]] and len(run) >= _FEWEST_READINGS:
            yield int(time[run[0]]), int(time[run[-1]])


class _Answered:
    """When which flow of a capture sent data, and acknowledged those of its counterpart."""

    def __init__(self, capture: Capture) -> None:
        segments = capture.segments
        rows = np.flatnonzero(segments["time_ns"] != NOT_A_TIME)
        self._rows = rows[np.argsort(segments["time_ns"][rows], kind="stable")]
        self._time = segments["time_ns"][self._rows]
        self._segments = segments

    @property
    def span_ns(self) -> tuple[int, int]:
        """The first time of a segment, and the last; some may carry none."""
        return int(self._time[0]), int(self._time[-1])

    def within(self, begin_ns: int, end_ns: int) -> int:
        """Return how many acknowledgments of data came, both between two times."""
        if end_ns <= begin_ns:
            return 0
        rows = self._rows[slice(*np.searchsorted(self._time, [begin_ns, end_ns]).tolist())]
        flow, payload = self._segments["flow"][rows], self._segments["payload_bytes"][rows]
        count = 0
        for each in np.unique(flow[payload > 0]).tolist():
            data = np.flatnonzero((flow == each) & (payload > 0))
            count += self._acknowledged(rows[data], rows[data[0] :][flow[data[0] :] == each ^ 1])
        return count

    def _acknowledged(self, data: Array, answers: Array) -> int:
        """Return how many different numbers of ACKs cover the first data or more."""
        segments = self._segments
        answers = answers[(segments["flags"][answers] & Flag.ACK.value) != 0]
        first = int(segments["seq"][data[0]]) + int(segments["payload_bytes"][data[0]])
        beyond = (segments["ack"][answers].astype(np.int64) - first) & 0xFFFFFFFF
        return len(np.unique(beyond[beyond < 1 << 31]))
