"""How long a packet waited behind others of its own connection, at the least.

A bulk transfer fills its queue once and keeps it full: hardly a packet passes without waiting, and where a
capture lacks those few, nothing would tell the way's least delay. But the queue is made of packets that the
sending side's capture shows. A packet leaves the slowest link no earlier than any packet before it was sent,
plus the time for all bytes from there on (Lindley 1952).

That is a lower bound, and is kept one: only what certainly was carried counts, at the fastest rate that the
arrivals allow, and only the last `_REACH` packets, so that one mistake does no harm for long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.captured import Flag
from multitracer.clock.captures.ip_lengths import ip_lengths, unseen_bytes
from multitracer.clock.captures.matching import identities

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.capture import Capture
    from multitracer.clock.captures.serialization import Spacing
    from multitracer.tables import Array

    Zones = Sequence[tuple[int, int]]

_REACH = 12
"""More would carry one wrong match farther; fewer miss the queue of a burst. Not measured."""
_CAUTION = 0.002
"""On top of two standard errors of the rate, for bytes that are not seen (padding). Not measured."""
_FEW = 6
"""Packets that must agree before a delay counts as the least: one or two may be mistaken matches."""
_STRAY = 0.01  # share of mistaken matches that is tolerated. Not measured
_TILT = 0.02
"""Of the longest wait: an error of the rate tilts the delays of long waits. Not measured."""
_APART_NS = 1e6  # a host's own jitter: stamps 1 ms apart are no sign of a queue
_STRETCH = 2 * _REACH
"""Packets: a mistake reaches no farther than this."""
_ISOLATED = 5
"""A gap so many times as wide as those above it parts mistaken matches from delays. Not measured."""
_WITNESSES = 3  # two may be wrong together (a packet and its copy); three are not
_RANGE = ("seq", "payload_bytes")


def own_queue_ns(
    sender: Capture,
    receiver: Capture,
    matched: Array,
    spaced: Spacing,
    *,
    jumps: Zones = (),
    reach: int = _REACH,
) -> Array:
    """Return for each matched packet how long it waited behind packets of its host, at the least.

    Parameters
    ----------
    sender, receiver : Capture
        At the sending and at the receiving side of the direction.
    matched : ndarray of int64, shape (n_matched,)
        Rows in the sender's capture that arrived, ascending or not.
    spaced : Spacing
        What is known of the slowest link's rate.
    jumps : sequence of (int, int)
        First and last row at which the sender's clock may have jumped: times across a jump tell no wait.
    reach : int
        How many packets before each one count.

    Returns
    -------
    ndarray of float64, ns, shape (n_matched,)
    """
    segments = sender.segments
    rows = np.flatnonzero(np.isin(segments["flow"], np.unique(segments["flow"][matched])))
    arrived = np.zeros(len(segments), dtype=bool)
    arrived[matched] = True
    carried = arrived[rows] | _carried_once(sender, receiver, rows)
    size = ip_lengths(sender, rows)
    own = np.where(carried, size, 0.0)
    flow, seq, payload = (segments[name][rows] for name in ("flow", "seq", "payload_bytes"))
    total = np.cumsum(own + unseen_bytes(flow, seq, payload, size))
    rate = spaced.ns_per_byte * (1 - 2 * spaced.error - _CAUTION)
    side = np.sum([(rows >= row).astype(np.int64) for zone in jumps for row in zone] or [0 * rows], axis=0)
    wait = _longest_wait(segments["time_ns"][rows], total, own, rate, reach, side)
    for first, last in jumps:
        wait[(rows >= first) & (rows < last)] = 0.0
    place = np.searchsorted(rows, matched)
    result: Array = wait[place]
    return result


def _longest_wait(time_ns: Array, total: Array, own: Array, rate: float, reach: int, side: Array) -> Array:
    """Return how long each packet waits behind those before it, by the one that makes it wait longest."""
    wait = np.zeros(len(time_ns))
    for back in range(1, min(reach, len(time_ns) - 1) + 1):
        since = (time_ns[back:] - time_ns[:-back]).astype(np.float64)
        before = total[back:] - own[back:] - total[:-back] + own[:-back]
        counts = (own[:-back] > 0) & (side[back:] == side[:-back])
        behind = np.where(counts, before * rate - since, 0.0)
        wait[back:] = np.maximum(wait[back:], behind)
    return wait


def _carried_once(sender: Capture, receiver: Capture, rows: Array) -> Array:
    """Return which segments were sent once and never again, though the receiver's capture lacks them.

    TCP would have sent them again, had they been lost.
    """
    segments = sender.segments
    key = identities(segments, rows, _RANGE)
    _, number, count = np.unique(key, return_inverse=True, return_counts=True)
    there = np.isin(key, identities(receiver.segments, None, _RANGE))
    occupies = (segments["payload_bytes"][rows] > 0) | (segments["flags"][rows] & Flag.SYN > 0)
    requested = _requested_by_duplicates(sender, segments["seq"][rows]) | _requested_by_duplicates(
        receiver, segments["seq"][rows]
    )
    once: Array = (count[number] == 1) & ~there & occupies & ~requested
    return once


def _requested_by_duplicates(capture: Capture, seq: Array) -> Array:
    """Return which sequence numbers several pure ACKs requested: duplicate ACKs indicate a loss."""
    segments = capture.segments
    pure = (segments["payload_bytes"] == 0) & (segments["flags"] & Flag.ACK > 0)
    number, count = np.unique(segments["ack"][pure], return_counts=True)
    requested: Array = np.isin(seq, number[count > 1])
    return requested


def is_consistent(flat_ns: Array, waited_ns: Array) -> bool:
    """Return whether the delays agree with the waits that a rate implies.

    With a rate that is too slow, packets that should have waited long would have been the quicker the longer
    they should have waited: such spacing came from the sender or from jitter, not from the link.

    Parameters
    ----------
    flat_ns, waited_ns : ndarray of float64, ns, shape (n_packets,)
        Delays as packets of no length would have them; how long each waited, at the least (0 and more).
    """
    longest = float(waited_ns.max())
    rest = flat_ns - waited_ns
    long, short = rest[waited_ns > longest / 2], rest[waited_ns <= longest / 2]
    if longest <= 0 or len(long) < _FEW or len(short) < _FEW:
        return True
    rank = int(max(2, len(long) * _STRAY))
    low = np.partition(long, rank)[rank]
    least = np.sort(np.partition(short, _FEW - 1)[:_FEW])
    return bool(low > least[0] - 2 * (least[-1] - least[0]) - _TILT * longest)


def doubt_ns(flat_ns: Array, waited_ns: Array, usual_ns: float) -> float:
    """Return how much higher the least delay may be, if the few packets that give it were computed wrongly.

    A packet that was lost unseen and counted makes those behind it look quicker by what it would have needed.
    That happens here and there; the true level is told in several stretches of the transfer, or by packets
    that found the link empty.

    Parameters
    ----------
    flat_ns, waited_ns : ndarray, shape (n_packets,)
        As in `is_consistent`, in order of sending.
    usual_ns : float
        What the link needs for a usual packet; no mistake is much smaller.
    """
    stretches = np.array_split(flat_ns - waited_ns, max(1, len(flat_ns) // _STRETCH))
    least = np.sort([float(part.min()) for part in stretches])
    if len(least) < _WITNESSES:
        return 0.0
    apart = min(float(least[_WITNESSES - 1]), float(flat_ns.min())) - float(least[0])
    return apart if apart > usual_ns / 2 else 0.0


def without_mistakes(flat_ns: Array, waited_ns: Array) -> Array:
    """Return the waits, 0 for the few that cannot be: a segment that was lost had been counted.

    Parameters
    ----------
    flat_ns, waited_ns : ndarray of float64, ns, shape (n_packets,)
        Delays as packets of no length would have them; how long each waited, at the least.

    Returns
    -------
    ndarray of float64, ns, shape of `waited_ns`
        0 and more.
    """
    rest = np.sort(flat_ns - waited_ns)
    few = min(max(_FEW, int(_STRAY * len(rest))), len(rest) - _FEW - 1)
    for k in range(few, 0, -1):
        if rest[k] - rest[k - 1] > _ISOLATED * (rest[k + _FEW] - rest[k]) + _APART_NS:
            possible = flat_ns - waited_ns >= rest[k]
            return np.where(possible, waited_ns, 0.0)
    return waited_ns
