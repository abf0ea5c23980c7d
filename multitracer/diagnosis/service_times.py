"""The link's time for each full segment: the gaps between arrivals of successive segments.

A sender sends segments in pairs or more, so they wait one behind the other in the queue of the slowest link.
They arrive as far apart as the link needs for one. Cross traffic increases some gaps; the shorter gaps still
show what the link needs (packet pairs: Dovrolis, Ramanathan, Moore, INFOCOM 2001).

Segments that a host held back count as one arrival, at the time of the last one, which was held back least. A
device with segmentation offload waits for more segments to join, a driver for its next interrupt, a busy host
for its turn; a link cannot deliver two segments closer than its own time for one. If that time changed once,
and stayed, the link's rate made a step (`rate_step`).
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
"""Minimum part of the largest payload for a segment of full size."""
_MIN_QUEUED = 16  # known gaps that are enough. Not measured
_SHORTER = 0.25
"""Quantile of the gaps that is taken for the link's own time for a segment."""
_GRAIN = 0.2
"""Maximum part of a segment's time by which a wait may be shorter than the gap before it."""
_JOINED, _GRAIN_JOINED, _MEANT = 1.5, 1.0, 4
"""Offload is assumed for arrivals of this many segments; then `_GRAIN_JOINED` replaces `_GRAIN`, and gaps are
means over `_MEANT` segments, because devices hold back some segments longer than others."""
_MOST_GRAIN = 0.5
"""Maximum tolerance of a wait, as part of the gap itself: a sender that spaces its packets makes long gaps."""
_OFTEN = 0.05
"""Minimum share of joined arrivals from which on offload is assumed: a host that was busy once also joins
some. Not measured."""
_CHUNK = 16  # gaps: a step of the rate shows once three pieces, 48 gaps, lie behind it
_MIN_CHUNK = 8  # of 8 gaps a quartile rests on two. Not measured
_CHUNKS = 24
"""Minimum number of chunks; with fewer gaps the chunks are smaller."""
_MOST_CHUNKS = 300
"""Maximum number of chunks; with more gaps the chunks are larger, because each chunk is tried as the place of a step.
"""
_AROUND_NS = NS_PER_S
"""Time before and after a segment, in ns, over which the minimum delay is taken: a path may become longer."""


class ArrivalGaps(NamedTuple):
    """Gaps between arrivals of full segments that were sent one after the other."""

    time_ns: Array
    """When the later segment was sent."""
    gap_ns: Array
    """Gap per full segment, in ns: segments joined before the capture have one arrival time."""
    row: Array
    """Row of the later segment in `sender`."""
    many: Array
    """Number of full segments over which the gap is the mean."""
    queued: Array
    """Whether the later segment is known to have waited for the whole gap, behind the earlier one."""
    mean_ns: float = 0.0
    """The link's own time for a segment, in ns, from means over arrivals that all waited; 0 if unknown."""

    @property
    def own_time_ns(self) -> float:
        """The time that the link itself needs for a segment, in ns; 0 if unknown.

        It is measured with segments that certainly waited in the queue, if there are enough of them.
        """
        queued = self.gap_ns[self.queued]
        return float(np.quantile(queued if len(queued) >= _MIN_QUEUED else self.gap_ns, _SHORTER))


class BusyChunks(NamedTuple):
    """Chunks of equal numbers of gaps at which the link was busy, in order."""

    time_ns: Array
    """When the middle segment of each chunk was sent."""
    service_ns: Array
    """The link's own time for a segment in each chunk."""
    row: Array
    is_busy: Array
    """For each gap, whether the link was the limit, or the segment had waited: bool, shape (n_gaps,)."""


def arrival_gaps(limited: Limited, carried: Carried, full_bytes: int) -> ArrivalGaps | None:
    """Return the gaps between arrivals of full segments; None if no capture shows the arrivals.

    A segment that was overtaken is left out; segments that arrived at once count as one arrival.
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
    """Return gaps that are means over a few segments, because offload changes each single gap."""
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
    return AggregatedArrivals(number, number, sends.row, sends.time_ns, came_ns, np.where(full >= _FULL, full, 0))


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
    """Return the time that the link needs for a segment, in chunks of gaps while the link was busy."""
    busy = Spans.of(*stretches(limited, Limit.LINK)).holds(gaps.time_ns) | gaps.queued
    time, gap, row = gaps.time_ns[busy], gaps.gap_ns[busy], gaps.row[busy]
    width = int(np.clip(len(gap) // _CHUNKS, _MIN_CHUNK, max(_CHUNK, len(gap) // _MOST_CHUNKS)))
    count = len(gap) // width
    service = np.quantile(in_chunks(gap, width), _SHORTER, axis=1) if count else np.empty(0)
    middle = in_chunks(np.arange(len(gap)), width)[:, width // 2]
    return BusyChunks(time[middle], service, row[middle], busy)


def in_chunks(values: Array, width: int) -> Array:
    """Return the values as a two-dimensional array with rows of `width`; a rest at the end is left out."""
    return np.asarray(values[: len(values) // width * width].reshape(-1, width))


_SHORT = 0.5
"""Part of the link's own time for a segment below which a gap shows that a host held segments back: clocks
and hosts are more exact."""
_MEANT_ARRIVALS = 8  # arrivals in a mean: only its first and its last, kept back, still move it. Not measured
_ALL = 0.8  # of a gap that the later one waited, as in `service_times`: the rest is noise
_BLOCK = 32  # means that show it together, with those of both sides: a link's rate may change. Not measured


class AggregatedArrivals(NamedTuple):
    """Segments that hosts joined, so that they arrived as one; in order of sending, shape (n,)."""

    first: Array
    """Index of the first segment of each arrival, in order of sending."""
    last: Array
    """Index of the last segment of each arrival, in order of sending."""
    row: Array
    """Row of the last segment in `sender`."""
    sent_ns: Array
    """When the last segment was sent."""
    came_ns: Array
    many: Array
    """Number of full segments; 0 if one has another size."""

    @property
    def follows(self) -> Array:
        """Whether each arrival after the first and the one before it are full-sized segments: bool, (n-1,)."""
        full = self.many > 0
        return np.asarray((self.first[1:] == self.last[:-1] + 1) & full[1:] & full[:-1])


def queued_means(came: AggregatedArrivals, waited_ns: Array) -> Array:
    """Return the mean time per segment over some successive arrivals that all waited.

    If one of them had not waited, the sender made the gap, not the link.

    Parameters
    ----------
    came : AggregatedArrivals
    waited_ns : ndarray of int64, ns, shape (n,)
        How long the last segment of each waited; 0 if unknown.

    Returns
    -------
    ndarray of float64, ns, shape (max(n - 8, 0),)
        Infinite if one of the arrivals did not wait.
    """
    broken = np.append(0, np.cumsum(~came.follows | (waited_ns[1:] < _ALL * np.diff(came.came_ns))))
    took = came.came_ns[_MEANT_ARRIVALS:] - came.came_ns[:-_MEANT_ARRIVALS]
    before = np.append(0, np.cumsum(came.many))
    many = before[_MEANT_ARRIVALS + 1 :] - before[1 : max(len(before) - _MEANT_ARRIVALS, 1)]
    complete = (broken[_MEANT_ARRIVALS:] == broken[:-_MEANT_ARRIVALS]) & (took > 0)
    return np.where(complete, took / np.maximum(many, 1), np.inf)


def own_ns(means: Array) -> float:
    """Return the time that the link itself needs for a segment, in ns: a low quantile of `means`.

    It is 0 if `means` has no finite value.
    """
    known = means[np.isfinite(means)]
    return float(np.quantile(known, _SHORTER)) if len(known) else 0.0


def joined(came: AggregatedArrivals, means: Array) -> AggregatedArrivals:
    """Return the arrivals; those that came closer together than the link allows are merged.

    Parameters
    ----------
    came : AggregatedArrivals
    means : ndarray of float64, ns
        The result of `queued_means` for them.
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
"""Minimum number of chunks on both sides of a step."""
_MIN_S = 0.5
"""Minimum link time in s on both sides of a step."""
_MIN_BUSY = 0.02
"""Minimum share of segments on either side that the link delayed: at least 0.06 at known steps. On a link
that nearly always has room, a busy host causes the few delays: 0.003 of the segments."""
FACTOR = 1.3
"""Minimum factor of a step: links vary by less."""
_CONSISTENT = 0.9
"""Minimum share of the chunks on either side that lie on their side of the middle."""
_EXPLAINED = 0.8
"""Minimum share of the variation of the chunks that one step explains: at least 0.97 at steps, at most 0.5 elsewhere.
"""


_MIN_ALIKE, _MOST_MEAN = 0.4, 3.0
"""On either side of a step at least the share `_MIN_ALIKE` of the gaps at which the link was busy must have its own
time, within `FACTOR`, and their mean may be at most `_MOST_MEAN` times it, as with cross traffic for two thirds of the
time. At steps the shares were 0.58 or more and the means 1.4 or less; of bursts that a device held back, the shares
were 0.3 and the means 7.6."""


class RateStep(NamedTuple):
    """The permanent change of the link's time for a segment that explains most of its variation."""

    time_ns: int
    """When the middle segment of the first chunk after it was sent."""
    row: Array
    """Rows in `sender` of the middle segments of the chunks before and after it."""
    before_ns: float
    after_ns: float
    is_proved: bool
    """Whether the gaps on both sides show the link's rate, not how a device or a sender bunched the segments."""


def rate_step(limited: Limited, gaps: ArrivalGaps) -> RateStep | None:
    """Return the permanent change of the link's time for a segment; None without one clear change."""
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
    if abs(after - before) < np.log(FACTOR) or not consistent or left > 1 - _EXPLAINED:
        return None

    # the link must have delayed enough of the segments before and after to show its rate
    is_after = gaps.time_ns >= time[at]
    if min(chunks.is_busy[is_after].mean(), chunks.is_busy[~is_after].mean()) < _MIN_BUSY:
        return None
    of_sides = ((~is_after, before), (is_after, after))
    is_proved = all(_is_own(gaps, chunks.is_busy & side, float(np.exp(own))) for side, own in of_sides)
    around = chunks.row[at - 1 : at + 1]
    return RateStep(int(time[at]), around, float(np.exp(before)), float(np.exp(after)), is_proved)


def _is_own(gaps: ArrivalGaps, chosen: Array, own_ns: float) -> bool:
    """Return whether the chosen gaps show a link's own time: most have about this length, and their mean is near it."""
    gap, many = gaps.gap_ns[chosen], gaps.many[chosen]
    alike = np.mean((gap >= own_ns / FACTOR) & (gap <= own_ns * FACTOR))
    return bool(alike >= _MIN_ALIKE and (gap * many).sum() <= _MOST_MEAN * own_ns * many.sum())


def _varies(values: Array) -> float:
    return float(np.abs(values - np.median(values)).sum())
