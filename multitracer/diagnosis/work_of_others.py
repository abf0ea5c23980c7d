"""The waits of packets for cross traffic: the queue of the own packets is computed from packet to packet.

A packet waits for the rest of the one before it: that packet's wait plus the link's time for it, minus the
time between both (D. V. Lindley, The theory of queues with a single server, 1952). A longer wait is due to
cross traffic. The method is used only for links that need the same time for nearly each segment: a radio, or
a changing rate, makes waits of any length.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.service_times import in_chunks
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.packets.packet_delays import PacketDelays
    from multitracer.tables import Array

_CHUNK, _MIN_CHUNKS = 16, 20
"""Number of segments in a chunk, as in `competing_traffic`, and minimum number of chunks: with fewer, chunks
with cross traffic cannot be distinguished from others."""
_SURELY = 0.98
"""Factor for the link's own time, slightly below 1, so that its error does not add up over many segments."""
_LARGE, _SMALL = 0.5, 0.2
"""Minimum wait that is due to cross traffic (`_LARGE`), and maximum wait that is noise of clocks and hosts
(`_SMALL`), as multiples of the time that the link needs for a segment."""
_MOST_JOINED = 16  # segments in one: of more the error of the link's own time is one of theirs. Not measured
_MOST = 4
"""Maximum number of segments of cross traffic counted before one own segment: a longer path makes one long wait."""
_SOME, _SHARED_CHUNKS = 0.15, 0.1
"""A chunk has cross traffic if at least `_SOME` of its segments waited for it. At least `_SHARED_CHUNKS` of
the chunks must have it: with random losses, reordering and steps of the delay, up to 0.08 of them seem to."""
_CLEAN, _CLEAN_CHUNKS = 0.9, 0.6
"""A chunk has no cross traffic if at least `_CLEAN` of its segments did not wait for it. At least
`_CLEAN_CHUNKS` of the chunks must have none: with jitter as on a radio, less than 0.1 of them do."""
_COMPLETE, _COMPLETE_CHUNKS = 0.8, 0.25
"""A chunk shows a slower link if more than this share of its segments waited, all for a similar time.
`_COMPLETE_CHUNKS` is the maximum share of such chunks among the shared ones."""
_EVEN = 0.125
"""Maximum median distance of the waits from whole segments, half of that by chance: waits after a path change
are not whole segments."""
_MIN_WORK, _MOST_WAITING = 0.025, 0.3
"""Minimum share of the time that cross traffic used, and maximum share of segments that waited for it."""
_NEGATIVE = 0.02
"""Maximum share of segments that waited less than the own packets explain: with more, the link's own time is unknown.
"""


class WorkOfOthers(NamedTuple):
    """Chunks of the transfer in which cross traffic used the link; arrays of shape (n,)."""

    time_ns: Array
    """When the middle segment was sent, by the sender's clock."""
    row: Array
    """Row of the middle segment in `sender`."""
    took_ns: Array
    """Time from the first segment of a chunk to its last."""
    others_ns: Array
    """The part of this time that cross traffic used."""


class Joined(NamedTuple):
    """Segments that hosts joined before the capture, for each delay sample after the first.

    Arrays have shape (n - 1,).
    """

    many: Array
    """Number of segments since the previous delay sample; 0 if some are missing."""
    first_ns: Array
    """When the first of these segments was sent."""


class Waits(NamedTuple):
    """Each segment's wait for cross traffic, as a multiple of the link's time for a segment."""

    beyond: Array
    known: Array
    """Whether the segment before it was also observed."""


def work_of_others(diagnosis: Diagnosis) -> WorkOfOthers | None:
    """Return the chunks of the transfer in which cross traffic used the link; None if there are none.

    It is also None for a link whose rate is not steady.
    """
    delays, gaps = diagnosis.delays, diagnosis.arrival_gaps
    if delays is None or gaps is None or not delays.is_one_way or len(delays.changes):
        return None

    # how many segments each delay speaks of: devices show several of them as one packet
    segments, place = diagnosis.segments, delays.place
    missing = np.cumsum(segments.arrived == NA)[place]
    many = np.where(np.diff(missing) == 0, np.diff(place), 0)
    joined = Joined(many, diagnosis.transfer.sender["time_ns"][segments.row[place[:-1] + 1]])
    served = np.cumsum(~segments.lost)[place]
    for own_ns in (gaps.mean_ns, diagnosis.own_time_ns):
        work = beside_ours(not_kept_back(delays, own_ns, served), own_ns, joined) if own_ns else None
        if work is not None:
            return work
    return None


def not_kept_back(delays: PacketDelays, own_ns: float, served: Array) -> PacketDelays:
    """Return the delays without the time for which hosts held segments back.

    The link needs its own time for each later segment. A segment that arrives closer to the next one was held
    back by a host, which waits for more segments to join (offload), for its next interrupt or for its turn.

    Parameters
    ----------
    delays : PacketDelays
    own_ns : float
        The link's own time for a segment.
    served : ndarray of int64, shape (n,)
        Number of segments that the link had served up to each.
    """
    left_ns = served * (_SURELY * own_ns)
    latest_ns = np.minimum.accumulate((delays.time_ns + delays.queue_ns - left_ns)[::-1])[::-1] + left_ns
    queue_ns = np.maximum(latest_ns - delays.time_ns, 0).astype(np.int64)
    return replace(delays, queue_ns=queue_ns)


def beside_ours(delays: PacketDelays, own_ns: float, joined: Joined | None = None) -> WorkOfOthers | None:
    """Return the chunks in which packets waited for cross traffic; None if there are none.

    Parameters
    ----------
    delays : PacketDelays
        One-way delays of segments of one size.
    own_ns : float
        The link's own time for one of them.
    joined : Joined, optional
        Segments that hosts joined.
    """
    if len(delays.time_ns) <= _CHUNK * _MIN_CHUNKS:
        return None
    waits = waits_beyond_ours(delays, own_ns, joined)
    shared = _shared_chunks(waits)
    if shared is None or not _is_of_packets(waits):
        return None
    work = np.where(waits.beyond >= _LARGE, np.minimum(waits.beyond, _MOST), 0)
    others_ns = in_chunks(work, _CHUNK).sum(axis=1) * own_ns
    if others_ns.sum() < _MIN_WORK * np.ptp(delays.time_ns):
        return None
    time, row = in_chunks(delays.time_ns[1:], _CHUNK)[shared], in_chunks(delays.row[1:], _CHUNK)[shared]
    took_ns = np.maximum(np.ptp(time, axis=1), others_ns[shared])
    return WorkOfOthers(time[:, _CHUNK // 2], row[:, _CHUNK // 2], took_ns, others_ns[shared])


def waits_beyond_ours(delays: PacketDelays, own_ns: float, joined: Joined | None = None) -> Waits:
    """Return how long each segment after the first waited for cross traffic.

    The unit is the time that the link needs for a segment.
    """
    wait_ns, time_ns = delays.queue_ns.astype(np.float64), delays.time_ns
    many, first_ns = (np.diff(delays.place), time_ns[1:]) if joined is None else joined
    behind_ns = wait_ns[:-1] + many * own_ns - np.diff(time_ns)
    left_ns = np.maximum(0, np.maximum(behind_ns, (many - 1) * own_ns - (time_ns[1:] - first_ns)))
    known = (many >= 1) & (many <= (1 if joined is None else _MOST_JOINED))
    return Waits(np.where(known, (wait_ns[1:] - left_ns) / own_ns, 0), known)


def _shared_chunks(waits: Waits) -> Array | None:
    """Return which chunks contain cross traffic: bool.

    It is None unless some chunks contain none, and few contain only packets that waited for it.
    """
    known = in_chunks(waits.known, _CHUNK)
    beyond = in_chunks(waits.beyond, _CHUNK)
    many = np.maximum(1, known.sum(axis=1))
    large = (beyond >= _LARGE) & known
    part = large.sum(axis=1) / many
    clean = ((np.abs(beyond) <= _SMALL) | ~known).mean(axis=1) >= _CLEAN
    shared = part >= _SOME
    if clean.mean() < _CLEAN_CHUNKS or shared.mean() < _SHARED_CHUNKS:
        return None

    # in which pieces all that waited did so for about the same time, as behind a slower link
    low, high = (np.where(large, beyond, without) for without in (np.inf, -np.inf))
    complete = (part > _COMPLETE) & (high.max(axis=1) - low.min(axis=1) <= _LARGE)
    return shared if complete[shared].mean() <= _COMPLETE_CHUNKS else None


def _is_of_packets(waits: Waits) -> bool:
    """Return whether the additional waits look like those for packets of cross traffic.

    They must be whole multiples of the link's time for a segment, and concern only some segments. Almost none
    may be shorter than the waits that the own packets explain.
    """
    beyond = waits.beyond[waits.known]
    large = beyond[beyond >= _LARGE]
    uneven = float(np.median(np.abs(large - np.round(large))))
    few = len(large) <= _MOST_WAITING * len(beyond)
    return bool(few and uneven <= _EVEN and (beyond <= -_LARGE).mean() <= _NEGATIVE)
