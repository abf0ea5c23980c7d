"""How long the link had each full segment: the gaps between arrivals of segments that follow each other.

A sender hands over segments in pairs and more, so they stand behind each other in the queue of the slowest
link, and arrive as far apart as it takes for one. Others that share the link push some apart; the shorter
gaps stay what the link needs (packet pairs: Dovrolis, Ramanathan, Moore, INFOCOM 2001).

What a host kept back counts as one arrival of several segments, at the time of the last: that one was kept
back least. A device with segmentation offload waits a while for more to join, a driver for its next
interrupt, a busy host for its turn; a link cannot deliver two segments nearer than its own time for one.
Where that time changed once, and stayed, the link's rate made a step (`rate_step`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import places, span_minimum
from multitracer.diagnosis.limits.limited import stretches
from multitracer.diagnosis.limits.names import Limit, Viewpoint
from multitracer.diagnosis.limits.spans import Spans
from multitracer.tables import NA
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.diagnosis.limits.observed import Observed
    from multitracer.diagnosis.packets.losses import Carried
    from multitracer.recording.transfer import Transfer
    from multitracer.tables import Array

_FULL = 0.9
"""Part of the largest payload from which on a segment is of full size."""
_MIN_QUEUED = 16  # known gaps that are enough. Not measured
_SHORTER = 0.25
"""Quantile of the gaps that is the link's own time for a segment."""
_GRAIN = 0.2
"""Of a segment's time, by which a wait may fall short of the gap before it ..."""
_JOINED, _GRAIN_JOINED, _MEANT = 1.5, 1.0, 4
"""... and where devices join segments before they are captured: they hold back some longer than others."""
_MOST_GRAIN = 0.5
"""Of the gap itself: of a sender that spaces its packets out the gaps are long, and so would be the grain."""
_OFTEN = 0.05
"""Part of the arrivals that must be joined for that: a host that was busy once joins some. Not measured"""
_CHUNK = 16  # gaps: a step of the rate shows once three pieces, 48 gaps, lie behind it
_MIN_CHUNK = 8  # of 8 gaps a quartile rests on two. Not measured
_CHUNKS = 24
"""Pieces of so many gaps, smaller ones if there would be fewer than so many ..."""
_MOST_CHUNKS = 300
"""... and larger ones if there would be more: each is tried as the place of a step, against all others."""
_AROUND_NS = NS_PER_S
"""The least delay of so long before and after: a path may become longer."""


class ArrivalGaps(NamedTuple):
    """Gaps between arrivals of full segments that were sent one after the other."""

    time_ns: Array
    """When the later one was sent."""
    gap_ns: Array
    """For each full segment: what was joined before it was captured has one time of arrival."""
    row: Array
    """Row of the later one in `sender`."""
    many: Array
    """Full segments: of what was joined, all that the gap is the mean of."""
    queued: Array
    """Whether the later one is known to have waited for all of the gap, behind the earlier one."""
    mean_ns: float = 0.0
    """The link's own time for a segment by the means over some that all waited; 0 if not known."""

    @property
    def own_time_ns(self) -> float:
        """The link's own time for a segment: of those known to have waited, if they are enough."""
        queued = self.gap_ns[self.queued]
        return float(np.quantile(queued if len(queued) >= _MIN_QUEUED else self.gap_ns, _SHORTER))


class BusyChunks(NamedTuple):
    """The gaps at which the link was busy in pieces of as many each, in order."""

    time_ns: Array
    """When the middle one was sent."""
    service_ns: Array
    """The link's own time for a segment."""
    row: Array
    is_busy: Array
    """At which gaps the link was the limit, or the segment had waited: bool, shape (n_gaps,)."""


def arrival_gaps(limited: Limited, carried: Carried, full_bytes: int) -> ArrivalGaps | None:
    """Return the gaps; None where the arrivals were not captured, or nothing can be shown.

    A segment that was overtaken tells nothing of the link; those that came at once count as one arrival.
    """
    seen = limited.seen
    if seen is None:
        return None
    came = None
    if limited.view is Viewpoint.RECEIVER:
        came = _at_receiver(seen, carried.transfer)
    elif limited.view is Viewpoint.BOTH_ENDS:
        came = _at_both_points(carried, full_bytes)
    if came is None or len(came.row) < 2:
        return None

    # how long each segment waited; 0 where that is not known
    delays, waited_ns = carried.delays, np.zeros(int(came.last[-1]) + 1, dtype=np.int64)
    if delays is not None and delays.is_one_way:
        waited_ns = np.zeros(max(len(waited_ns), int(delays.place[-1]) + 1), dtype=np.int64)
        around = [places(delays.time_ns, delays.time_ns - _AROUND_NS)]
        around.append(places(delays.time_ns, delays.time_ns + _AROUND_NS, "right"))
        waited_ns[delays.place] = delays.queue_ns - span_minimum(delays.queue_ns, *around)
    means = queued_means(came, waited_ns[came.last])
    came = joined(came, means)
    gap = np.diff(came.came_ns)
    falls = np.append(gap[1:], 0) < 0
    later = 1 + np.flatnonzero(came.follows & (gap > 0) & ~falls)
    if not len(later):
        return None
    gap, many = gap[later - 1], came.many[later]
    is_joined = bool((many >= _JOINED).mean() > _OFTEN)
    grain_ns = (_GRAIN_JOINED if is_joined else _GRAIN) * float(np.quantile(gap / many, _SHORTER))
    queued = waited_ns[came.last[later]] >= gap - np.minimum(grain_ns, _MOST_GRAIN * gap)
    gaps = ArrivalGaps(came.sent_ns[later], gap / many, came.row[later], many, queued, own_ns(means))
    gaps = _meant(gaps, later) if is_joined else gaps
    return gaps if len(gaps.gap_ns) else None


def _meant(gaps: ArrivalGaps, place: Array) -> ArrivalGaps:
    """Return the means over a few segments: how long a device waited to join more is in each single gap."""
    segments = np.cumsum(gaps.many) - gaps.many
    run = np.append(0, np.cumsum(np.diff(place) > 1))
    first_of_run = np.append(True, np.diff(run) > 0)
    origin = np.maximum.accumulate(np.where(first_of_run, segments, 0))
    group = run * (len(run) + 1.0) + (segments - origin) // _MEANT
    begin = np.flatnonzero(np.append(True, np.diff(group) != 0))
    many = np.add.reduceat(gaps.many, begin)
    took = np.add.reduceat(gaps.gap_ns * gaps.many, begin)
    queued = np.logical_and.reduceat(gaps.queued, begin)
    last = np.append(begin[1:], len(run)) - 1
    complete = many >= _MEANT
    last, many, took = last[complete], many[complete], took[complete]
    return ArrivalGaps(gaps.time_ns[last], took / many, gaps.row[last], many, queued[complete], gaps.mean_ns)


def _at_receiver(seen: Observed, transfer: Transfer) -> AggregatedArrivals:
    sends, number = seen.sends, np.arange(len(seen.sends))
    full = (sends.end - sends.begin) / seen.mss_bytes
    came_ns = transfer.sender["time_ns"][sends.row]
    return AggregatedArrivals(
        number, number, sends.row, sends.time_ns, came_ns, np.where(full >= _FULL, full, 0)
    )


def _at_both_points(carried: Carried, full_bytes: int) -> AggregatedArrivals | None:
    segments, transfer = carried.segments, carried.transfer
    last = np.flatnonzero(segments.closes)
    if transfer.receiver is None or not len(last):
        return None
    opens = segments.arrived != np.append(NA, segments.arrived[:-1])
    first = np.maximum.accumulate(np.where(opens, np.arange(len(segments)), 0))[last]
    is_full = segments.payload_bytes >= _FULL * full_bytes
    full = np.append(0, np.cumsum(is_full))
    many = full[last + 1] - full[first]
    row = segments.row[last]
    came_ns = transfer.came_ns[segments.arrived[last]]
    complete = np.where(many == last + 1 - first, many, 0)
    return AggregatedArrivals(first, last, row, transfer.sender["time_ns"][row], came_ns, complete)


def busy_chunks(limited: Limited, gaps: ArrivalGaps) -> BusyChunks:
    """Return the link's time for a segment, piece by piece, of the gaps at which it was busy."""
    busy = Spans.of(*stretches(limited, Limit.LINK)).holds(gaps.time_ns) | gaps.queued
    time, gap, row = gaps.time_ns[busy], gaps.gap_ns[busy], gaps.row[busy]
    width = int(np.clip(len(gap) // _CHUNKS, _MIN_CHUNK, max(_CHUNK, len(gap) // _MOST_CHUNKS)))
    count = len(gap) // width
    service = np.quantile(in_chunks(gap, width), _SHORTER, axis=1) if count else np.empty(0)
    middle = in_chunks(np.arange(len(gap)), width)[:, width // 2]
    return BusyChunks(time[middle], service, row[middle], busy)


def in_chunks(values: Array, width: int) -> Array:
    """Return values as rows of `width` each; what is left over at the end is left out."""
    return np.asarray(values[: len(values) // width * width].reshape(-1, width))


_SHORT = 0.5
"""Of the link's own time for a segment: what comes nearer was kept back. Clocks and hosts are more exact."""
_MEANT_ARRIVALS = 8  # arrivals in a mean: only its first and its last, kept back, still move it. Not measured
_ALL = 0.8  # of a gap that the later one waited, as in `service_times`: the rest is noise
_BLOCK = 32  # means that show it together, with those of both sides: a link's rate may change. Not measured


class AggregatedArrivals(NamedTuple):
    """What came as one at the receiver, in order of sending; arrays of shape (n,)."""

    first: Array
    """Number of its first segment ..."""
    last: Array
    """... and of its last, in order of sending."""
    row: Array
    """Row of the last in `sender`."""
    sent_ns: Array
    """When the last was sent."""
    came_ns: Array
    many: Array
    """Full segments; 0 where one of another size is among them."""

    @property
    def follows(self) -> Array:
        """Whether each but the first came right behind the one before, both full: bool, shape (n - 1,)."""
        full = self.many > 0
        return np.asarray((self.first[1:] == self.last[:-1] + 1) & full[1:] & full[:-1])


def queued_means(came: AggregatedArrivals, waited_ns: Array) -> Array:
    """Return what a segment took over some arrivals in a row, of which each had waited all the time.

    Of others the sender made the gap, not the link.

    Parameters
    ----------
    came : AggregatedArrivals
    waited_ns : ndarray of int64, ns, shape (n,)
        How long the last segment of each waited; 0 where that is not known.

    Returns
    -------
    ndarray of float64, ns, shape (max(n - 8, 0),)
        Infinite where that is not so.
    """
    broken = np.append(0, np.cumsum(~came.follows | (waited_ns[1:] < _ALL * np.diff(came.came_ns))))
    took = came.came_ns[_MEANT_ARRIVALS:] - came.came_ns[:-_MEANT_ARRIVALS]
    before = np.append(0, np.cumsum(came.many))
    many = before[_MEANT_ARRIVALS + 1 :] - before[1 : max(len(before) - _MEANT_ARRIVALS, 1)]
    complete = (broken[_MEANT_ARRIVALS:] == broken[:-_MEANT_ARRIVALS]) & (took > 0)
    return np.where(complete, took / np.maximum(many, 1), np.inf)


def own_ns(means: Array) -> float:
    """Return the link's own time for a segment, as most queued means show it; 0 if there are none."""
    known = means[np.isfinite(means)]
    return float(np.quantile(known, _SHORTER)) if len(known) else 0.0


def joined(came: AggregatedArrivals, means: Array) -> AggregatedArrivals:
    """Return the arrivals, those in one that came nearer to each other than the link lets them.

    Parameters
    ----------
    came : AggregatedArrivals
    means : ndarray of float64, ns
        What `queued_means` returns of them.
    """
    gap = np.diff(came.came_ns)
    if not np.isfinite(means).any():
        return came

    # the link's own time for a segment at each gap: of the means around, or of all; 0 without. The least of
    # all would be that of a burst that was kept back as a whole
    padded = np.append(means, np.full(-len(means) % _BLOCK, np.inf))
    of_block = np.quantile(padded.reshape(-1, _BLOCK), _SHORTER, axis=1, method="lower")
    block = np.minimum(np.arange(len(gap)) // _BLOCK, len(of_block) - 1)
    near = [of_block[np.clip(block + step, 0, len(of_block) - 1)] for step in (-1, 0, 1)]
    minimum = np.min(near, axis=0)
    typical = np.where(np.isfinite(minimum), np.minimum(minimum, own_ns(means)), 0)
    short = came.follows & (gap >= 0) & (gap < _SHORT * typical * came.many[1:])
    begin = np.flatnonzero(np.append(True, ~short))
    last = np.append(begin[1:], len(came.row)) - 1
    many = np.add.reduceat(came.many, begin)
    row, sent_ns, came_ns = (each[last] for each in (came.row, came.sent_ns, came.came_ns))
    return AggregatedArrivals(came.first[begin], came.last[last], row, sent_ns, came_ns, many)


_MIN_CHUNKS = 3
"""On both sides: it lasts ..."""
_MIN_S = 0.5
"""... and so long."""
_MIN_BUSY = 0.02
"""Part of the segments on either side that the link delayed: at known steps 0.06 and more. On a link that has
nearly always room a busy host makes the few waits: 0.003 of them."""
_FACTOR = 1.3
"""Less is how links vary."""
_CONSISTENT = 0.9
"""Part of the pieces on either side that lie on their side of the middle."""
_EXPLAINED = 0.8
"""Part of what the pieces vary that one step explains: 0.97 and more at steps, 0.5 and less elsewhere."""


class RateStep(NamedTuple):
    """The step of the link's time for a segment that explains most."""

    time_ns: int
    """When the middle segment of the first piece after it was sent."""
    row: Array
    """Rows in `sender` of the segments in the middle of the pieces before and after it."""
    before_ns: float
    after_ns: float


def rate_step(limited: Limited, gaps: ArrivalGaps) -> RateStep | None:
    """Return the step of the link's time for a segment; None if there is none, or another picture."""
    chunks, min_ns = busy_chunks(limited, gaps), _MIN_S * NS_PER_S / limited.transfer.speed
    time, size = chunks.time_ns, np.log(np.maximum(chunks.service_ns, 1))
    places = range(_MIN_CHUNKS, len(size) - _MIN_CHUNKS + 1)
    lasting = [at for at in places if min(time[at] - time[0], time[-1] - time[at]) >= min_ns]
    if not lasting:
        return None
    at = min(lasting, key=lambda each: _varies(size[:each]) + _varies(size[each:]))
    before, after = float(np.median(size[:at])), float(np.median(size[at:]))
    above = (size - (before + after) / 2) * np.sign(after - before) > 0
    consistent = min(np.mean(~above[:at]), np.mean(above[at:])) >= _CONSISTENT
    left = (_varies(size[:at]) + _varies(size[at:])) / max(_varies(size), 1e-9)
    if abs(after - before) < np.log(_FACTOR) or not consistent or left > 1 - _EXPLAINED:
        return None

    # the link must have delayed enough of the segments before and after to show its rate
    is_after = gaps.time_ns >= time[at]
    if min(chunks.is_busy[is_after].mean(), chunks.is_busy[~is_after].mean()) < _MIN_BUSY:
        return None
    around = chunks.row[at - 1 : at + 1]
    return RateStep(int(time[at]), around, float(np.exp(before)), float(np.exp(after)))


def _varies(values: Array) -> float:
    return float(np.abs(values - np.median(values)).sum())
