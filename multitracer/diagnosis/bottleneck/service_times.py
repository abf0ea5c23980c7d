"""How long the link had each full segment: the gaps between arrivals of segments that follow each other.

A sender hands over segments in pairs and more, so they stand behind each other in the queue of the slowest
link, and arrive as far apart as it takes for one. Others that share the link push some apart; the shorter
gaps stay what the link needs (packet pairs: Dovrolis, Ramanathan, Moore, INFOCOM 2001).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import span_minimum
from multitracer.diagnosis.held import stretches
from multitracer.diagnosis.limits.names import Limit, View
from multitracer.diagnosis.limits.spans import Spans
from multitracer.tables import NA
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.diagnosis.case import Case
    from multitracer.tables import Array

_FULL = 0.9
"""Part of the largest payload from which on a segment is of full size."""
_SHORTER = 0.25
"""Quantile of the gaps that is the link's own time for a segment."""
_PIECE = 32
_LEAST_PIECE = 8
_PIECES = 24
"""Pieces of so many gaps, smaller ones if there would be fewer than so many ..."""
_MOST_PIECES = 300
"""... and larger ones if there would be more: each is tried as the place of a step, against all others."""
_AROUND_NS = NS_PER_S
"""The least delay of so long before and after: a path may become longer."""


class Gaps(NamedTuple):
    """Gaps between arrivals of full segments that were sent one after the other."""

    time_ns: Array
    """When the later one was sent."""
    gap_ns: Array
    row: Array
    """Its row in `sender`."""
    waited_ns: Array
    """How long the later one waited, beyond the least around it; 0 where nobody knows."""


class Pieces(NamedTuple):
    """Gaps in pieces of as many each, in order."""

    time_ns: Array
    """When the middle one was sent."""
    service_ns: Array
    """The link's own time for a segment."""
    row: Array


def arrival_gaps(case: Case) -> Gaps | None:
    """Return the gaps; None where the arrivals were not captured, or nothing can be shown.

    A segment that was overtaken, or came with its follower at once, tells nothing of the link.
    """
    seen, came_ns = case.limited.seen, _came_ns(case)
    if seen is None or came_ns is None:
        return None
    sends = seen.sends
    arrived = came_ns[sends.row]
    known = (arrived != NA) & (sends.end - sends.begin >= _FULL * seen.mss_bytes)
    gap = np.diff(arrived, prepend=arrived[:1])
    after = np.append(gap[1:], 0)
    chosen = known & np.append(False, known[:-1])[: len(known)] & (gap > 0) & (after >= 0)
    place = np.flatnonzero(chosen)
    return Gaps(sends.time_ns[place], gap[place], sends.row[place], _waited_ns(case, sends.row[place]))


def _came_ns(case: Case) -> Array | None:
    """Return when the segment of each row of `sender` arrived, NA where that is not known."""
    transfer, view = case.transfer, case.limited.view
    if view is View.RECEIVER:
        return np.asarray(transfer.sender["time_ns"])
    pairs = transfer.data_pairs
    if view is not View.BOTH_ENDS or pairs is None or transfer.receiver is None:
        return None
    came = np.full(len(transfer.sender), NA, dtype=np.int64)
    both = (pairs.sent != NA) & (pairs.arrived != NA)
    came[pairs.sent[both]] = transfer.receiver_time(transfer.receiver["time_ns"])[pairs.arrived[both]]
    return came


def _waited_ns(case: Case, rows: Array) -> Array:
    delays = case.delays
    if delays is None or not delays.is_one_way:
        return np.zeros(len(rows), dtype=np.int64)
    time, queue_ns = delays.time_ns, delays.queue_ns
    first = np.searchsorted(time, time - _AROUND_NS)
    last = np.searchsorted(time, time + _AROUND_NS, side="right")
    above = queue_ns - span_minimum(queue_ns, first, last)
    at = np.minimum(np.searchsorted(delays.row, rows), len(delays.row) - 1)
    return np.where(delays.row[at] == rows, above[at], 0)


def busy_pieces(case: Case, gaps: Gaps) -> Pieces:
    """Return the link's time for a segment, piece by piece, while the link was the limit."""
    busy = Spans.of(*stretches(case.limited, Limit.LINK)).holds(gaps.time_ns)
    time, gap, row = gaps.time_ns[busy], gaps.gap_ns[busy], gaps.row[busy]
    width = int(np.clip(len(gap) // _PIECES, _LEAST_PIECE, max(_PIECE, len(gap) // _MOST_PIECES)))
    count = len(gap) // width
    service = np.quantile(in_pieces(gap, width), _SHORTER, axis=1) if count else np.empty(0)
    middle = in_pieces(np.arange(len(gap)), width)[:, width // 2]
    return Pieces(time[middle], service, row[middle])


def in_pieces(values: Array, width: int) -> Array:
    """Return values as rows of `width` each; what is left over at the end is left out."""
    return np.asarray(values[: len(values) // width * width].reshape(-1, width))
