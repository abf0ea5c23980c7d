"""The slowest link of each direction between two captures, from the packets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.captured import Flag
from multitracer.clock.captures.directions import MatchedDirection, Ways
from multitracer.clock.captures.matching import identities, ip_lengths, unseen_bytes
from multitracer.clock.captures.steps import ClockLabel, Step, certainly
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.capture import CaptureTables
    from multitracer.tables import Array

    Zones = Sequence[tuple[int, int]]

# How long the slowest link of a direction needs for a byte, by the arrivals that it spaced.
#
# Two segments that leave the sender while the queue is not empty arrive as far apart as the link needs for
# the second one (Keshav 1991, the packet pair). Bytes between two segments of one connection are counted by
# sequence numbers, so that packets that a capture lacks do not pass for time without traffic.


_GROUPS = 24  # a median over 24 groups, so that up to half of them may lie in disturbed times
_MIN_PAIRS = 12  # three groups of four: with fewer nothing tells how far groups differ
_MIN_ERROR = 0.003  # relative, for bytes that are not seen: 4 in 1,400. Not measured
_LARGEST_DIFFERENCE = 0.02
"""Maximum relative difference of the rate between groups of pairs: jitter or pacing causes more, a busy link less."""
_JITTER_NS = 1e8
"""Jitter of a link that retransmits frames and then delivers several packets at once, ns: some GSM slots. Not measured.
"""
_DEEP = 0.4
"""Share of the typical maximum wait: a packet with a shorter wait may have been late only because of jitter."""
_TYPICAL_LARGEST = 0.9  # quantile of the waits: the largest of all may be an outage. Not measured
_SIGMAS = 3  # standard errors by which the rate may be too slow
_BORROWED_PACKETS = 4
"""Maximum number of full-sized packets that a link may deliver late together. Not measured."""
_PAIRS_A_GROUP = 4  # so that a group has an average, and `_MIN_PAIRS` make three groups
_MAD_SIGMA = 1.4826  # standard deviation of a normal distribution by its median absolute deviation
_MEDIAN_ERROR = 1.25  # sqrt(pi / 2): standard error of a median over that of a mean


@dataclass(frozen=True, slots=True)
class Spacing:
    """Time per byte of a link, measured from packets that arrived while the link was busy."""

    ns_per_byte: float
    error: float
    """Relative standard error of the rate."""
    pairs: int


def spacing(way: MatchedDirection) -> Spacing | None:
    """Return the time per byte of the slowest link in one direction; None if the link was rarely busy."""
    order = np.argsort(way.row, kind="stable") if way.sign > 0 else np.argsort(way.sent_ns, kind="stable")
    sent, arrived = way.sent_ns[order], way.sent_ns[order] + way.delay_ns[order]
    carried = _carried_bytes(way, order)
    apart = np.diff(arrived)
    excess = arrived - sent - float(way.delay_ns.min())
    deep = _DEEP * float(np.quantile(excess, _TYPICAL_LARGEST))
    busy = (carried > 0) & (apart > 0) & (sent[1:] < arrived[:-1] - excess.min() - way.delay_ns.min())
    busy &= (excess[:-1] > deep) & (excess[1:] > deep)
    if int(busy.sum()) < _MIN_PAIRS:
        return None
    pooled = _pooled(apart, carried, busy)
    return pooled if pooled is not None and _bears(pooled, arrived, way.size_bytes[order]) else None


def _bears(spacing: Spacing, arrived: Array, size_bytes: Array) -> bool:
    """Return whether a link with this rate can have delivered all packets at their arrival times.

    In any interval the link needs at least the time of its bytes, except for jitter of some tenths of a second.
    """
    rate = spacing.ns_per_byte * (1 - _SIGMAS * spacing.error)
    order = np.argsort(arrived, kind="stable")
    ahead = np.cumsum(size_bytes[order]) * rate - arrived[order]
    borrowed = float((ahead - np.minimum.accumulate(ahead)).max())
    return borrowed <= _JITTER_NS + _BORROWED_PACKETS * rate * float(size_bytes.max())


def _pooled(apart: Array, carried: Array, busy: Array) -> Spacing | None:
    """Return the median time per byte of groups of packet pairs, with the spread of the groups as error.

    It is None if there are too few pairs. `apart` is the time between the two packets of a pair in ns,
    `carried` the bytes between them, `busy` selects the pairs during which the link was busy.
    """
    chosen = np.flatnonzero(busy)
    groups = np.array_split(chosen, min(_GROUPS, len(chosen) // _PAIRS_A_GROUP))
    rates = np.array([apart[g].sum() / carried[g].sum() for g in groups])
    rate = float(np.median(rates))
    differ = _MAD_SIGMA * float(np.median(np.abs(rates - rate))) / rate
    if differ > _LARGEST_DIFFERENCE:
        return None
    return Spacing(rate, float(max(_MIN_ERROR, _MEDIAN_ERROR * differ / np.sqrt(len(rates)))), len(chosen))


def _carried_bytes(way: MatchedDirection, order: Array) -> Array:
    """Return the bytes on the link from the end of one packet to the end of the next, with headers.

    It is 0 if unknown. The bytes between two segments of one connection are known, even if they were not captured.
    """
    flow, payload, size = way.flow[order], way.payload_bytes[order], way.size_bytes[order]
    known = (np.diff(flow) == 0) & (payload[1:] > 0) & (payload[:-1] > 0)
    unseen = unseen_bytes(flow, way.seq[order], payload, size)
    return np.where(known, size[1:] + unseen[1:], 0.0)


def slowest_ns_per_byte(arrived_ns: Array, size_bytes: Array) -> float:
    """Return the maximum time per byte, in ns, for which all packets can have arrived when they did.

    Parameters
    ----------
    arrived_ns, size_bytes : ndarray of int64 or float64, shape (n_packets,)
        Packets of one direction. Except for jitter, each interval is at least the transmission time of its bytes.
    """
    order = np.argsort(arrived_ns, kind="stable")
    arrived, total = arrived_ns[order], np.cumsum(size_bytes[order])
    slowest, count = np.inf, len(arrived) - 1
    while count >= _MIN_PAIRS:
        took = arrived[count:] - arrived[:-count] + _JITTER_NS / 2
        slowest = min(slowest, float((took / (total[count:] - total[:-count])).min()))
        count //= 2
    return slowest


# How long a packet waited behind others of its own connection, at the least.
#
# A bulk transfer fills its queue once and keeps it full: hardly a packet passes without waiting, and where a
# capture lacks those few, nothing would tell the way's least delay. But the queue is made of packets that the
# sending side's capture shows. A packet leaves the slowest link no earlier than any packet before it was
# sent, plus the time for all bytes from there on (Lindley 1952).
#
# That is a lower bound, and is kept one: only what certainly was carried counts, at the fastest rate that the
# arrivals allow, and only the last `_REACH` packets, so that one mistake does no harm for long.


_REACH = 12
"""Number of previous packets that are examined for each packet: more would spread a wrong match, fewer would miss the
queue of a burst. Not measured."""
_CAUTION = 0.002
"""Relative margin in addition to two standard errors of the rate, for bytes that are not captured (padding). Not
measured."""
_FEW = 6
"""Number of packets that must agree on a minimum delay: one or two may be wrong matches."""
_OUTLIER = 0.01  # share of mistaken matches that is tolerated. Not measured
_TILT = 0.02
"""Tolerance as a share of the longest wait: an error of the rate changes the delays of long waits. Not measured."""
_APART_NS = 1e6  # a host's own jitter: stamps 1 ms apart are no sign of a queue
_STRETCH = 2 * _REACH
"""Number of packets that one error can affect at most."""
_ISOLATED = 5
"""Wrong matches are separated from delays if the gap between them is this many times the gaps above. Not measured."""
_WITNESSES = 3  # two may be wrong together (a packet and its copy); three are not
_RANGE = ("seq", "payload_bytes")


def own_queue_ns(
    sender: CaptureTables,
    receiver: CaptureTables,
    matched: Array,
    spaced: Spacing,
    *,
    jumps: Zones = (),
    reach: int = _REACH,
) -> Array:
    """Return the minimum time that each matched packet waits behind earlier packets of its own host, ns.

    Parameters
    ----------
    sender, receiver : CaptureTables
        Captures at the sending and at the receiving side of the direction.
    matched : ndarray of int64, shape (n_matched,)
        Rows in the sender's capture that arrived, ascending or not.
    spaced : Spacing
        Rate of the slowest link.
    jumps : sequence of (int, int)
        First and last row at which the sender's clock may have jumped: times across a jump show no wait.
    reach : int
        Number of packets before each one that are considered.

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
    """Return for each packet its minimum time in the queue behind earlier packets, ns.

    Each earlier packet gives a lower bound of this time; the largest bound is used.
    """
    wait = np.zeros(len(time_ns))
    for back in range(1, min(reach, len(time_ns) - 1) + 1):
        since = (time_ns[back:] - time_ns[:-back]).astype(np.float64)
        before = total[back:] - own[back:] - total[:-back] + own[:-back]
        counts = (own[:-back] > 0) & (side[back:] == side[:-back])
        behind = np.where(counts, before * rate - since, 0.0)
        wait[back:] = np.maximum(wait[back:], behind)
    return wait


def _carried_once(sender: CaptureTables, receiver: CaptureTables, rows: Array) -> Array:
    """Return which segments were sent only once and arrived, although the receiver's capture lacks them.

    We assume that they arrived, because TCP would have retransmitted them otherwise.
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


def _requested_by_duplicates(capture: CaptureTables, seq: Array) -> Array:
    """Return which sequence numbers `seq` duplicate ACKs requested; such ACKs indicate a loss."""
    segments = capture.segments
    pure = (segments["payload_bytes"] == 0) & (segments["flags"] & Flag.ACK > 0)
    number, count = np.unique(segments["ack"][pure], return_counts=True)
    requested: Array = np.isin(seq, number[count > 1])
    return requested


def is_consistent(flat_ns: Array, waited_ns: Array) -> bool:
    """Return whether the delays are consistent with the waits that a rate implies.

    If the assumed rate is too low, packets with a long computed wait seem to have shorter delays than the
    others. The measured spacing then came from the sender or from jitter, not from the link.

    Parameters
    ----------
    flat_ns, waited_ns : ndarray of float64, ns, shape (n_packets,)
        Delays minus the transmission time of the packet, and the minimum wait of each packet (at least 0).
    """
    longest = float(waited_ns.max())
    rest = flat_ns - waited_ns
    long, short = rest[waited_ns > longest / 2], rest[waited_ns <= longest / 2]
    if longest <= 0 or len(long) < _FEW or len(short) < _FEW:
        return True
    rank = int(max(2, len(long) * _OUTLIER))
    low = np.partition(long, rank)[rank]
    minimum = np.sort(np.partition(short, _FEW - 1)[:_FEW])
    return bool(low > minimum[0] - 2 * (minimum[-1] - minimum[0]) - _TILT * longest)


def uncertainty_ns(flat_ns: Array, waited_ns: Array, typical_ns: float) -> float:
    """Return by how much the true minimum delay may exceed the measured one, ns.

    The packets with the lowest delays may be wrong: if a packet was lost but is counted, the packets behind
    it seem faster by its transmission time. We assume that such errors are isolated, and that the true
    minimum appears in several parts of the transfer, or in packets that found the link empty.

    Parameters
    ----------
    flat_ns, waited_ns : ndarray, shape (n_packets,)
        As in `is_consistent`, sorted by send time.
    typical_ns : float
        Transmission time of a typical packet; no error is much smaller.
    """
    stretches = np.array_split(flat_ns - waited_ns, max(1, len(flat_ns) // _STRETCH))
    minimum = np.sort([float(part.min()) for part in stretches])
    if len(minimum) < _WITNESSES:
        return 0.0
    apart = min(float(minimum[_WITNESSES - 1]), float(flat_ns.min())) - float(minimum[0])
    return apart if apart > typical_ns / 2 else 0.0


def without_mistakes(flat_ns: Array, waited_ns: Array) -> Array:
    """Return the waits in the host's own queue, with impossible ones replaced by 0.

    A few waits are impossible, because a lost segment was counted.

    Parameters
    ----------
    flat_ns, waited_ns : ndarray of float64, ns, shape (n_packets,)
        Delays minus the transmission time of the packet, and the minimum wait of each packet.

    Returns
    -------
    ndarray of float64, ns, shape of `waited_ns`
        At least 0.
    """
    rest = np.sort(flat_ns - waited_ns)
    few = min(max(_FEW, int(_OUTLIER * len(rest))), len(rest) - _FEW - 1)
    for k in range(few, 0, -1):
        if rest[k] - rest[k - 1] > _ISOLATED * (rest[k + _FEW] - rest[k]) + _APART_NS:
            possible = flat_ns - waited_ns >= rest[k]
            return np.where(possible, waited_ns, 0.0)
    return waited_ns


# The time raster on which a radio link hands over what it carried.
#
# Arrivals of a slotted link (20 ms of a GSM data call) are multiples of the slot apart. A packet waits for
# its slot, up to a slot long, and where the sender answers arrivals, each packet waits equally long: equal
# delays then look exact and are not. So a raster is looked for in the arrivals.


_SHORTEST_NS, _LONGEST_NS = 4 * NS_PER_MS, 125 * NS_PER_MS
"""Minimum and maximum slot of a link, ns: the minimum is just below a TDMA frame of GSM (4.615 ms, TS 45.002); the slot
of GSM data is 20 ms."""
_FARTHEST_NS = 3 * NS_PER_S
"""Maximum time between two compared arrivals, ns: with a drift of 0.1 %, they still fit the slots."""
_MIN_ARRIVALS = 12  # with fewer, some raster fits any arrivals
_MOST = 2_000  # enough for a raster of any rate; later arrivals only refine it. Bounds the time
_ALIKE_NS = NS_PER_MS / 4
"""Maximum difference of equal distances, ns: a sixteenth of the shortest slot; times of hosts vary less. Not measured.
"""
_TOLERANCE, _SHARE = 0.06, 0.9
"""Tolerance as a share of a slot, and minimum share of the distances within it: 12 % of random distances are within
±0.06 of a multiple, but nearly all in a link with slots."""


def raster_ns(arrived_ns: Array, *, spaced_ns: Array) -> float:
    """Return the slot length of the link in ns, from the arrival times; 0 if the link has no slots.

    A link with slots delivers packets only at multiples of the slot length.

    Parameters
    ----------
    arrived_ns : ndarray of float64, shape (n_packets,)
        Arrival times of the packets of one direction.
    spaced_ns : ndarray of float64
        Transmission times of typical packets; multiples of these are not slots.
    """
    apart = np.diff(np.sort(arrived_ns))
    apart = apart[(apart > _SHORTEST_NS / 2) & (apart < _FARTHEST_NS)][:_MOST]
    if len(apart) < _MIN_ARRIVALS:
        return 0.0
    unlike = np.unique(np.rint(apart / _ALIKE_NS)) * _ALIKE_NS
    for rough in _candidates(apart):
        slot = _refined(rough, apart)
        if abs(slot / rough - 1) > _TOLERANCE:
            continue
        off = np.abs(unlike / slot - np.rint(unlike / slot))
        if (off < _TOLERANCE).mean() >= _SHARE and not _serialization(slot, spaced_ns):
            return float(slot)
    return 0.0


def _refined(slot: float, apart: Array) -> float:
    """Return the slot length that fits best near `slot`, ns: for short distances, then for long ones."""
    for reach in (4, 16, 64):
        near = apart[apart < reach * slot]
        complete = np.rint(near / slot)
        if complete.sum() > 0:
            slot = float(near[complete > 0].sum() / complete.sum())
    return slot


def _candidates(apart: Array) -> list[float]:
    """Return candidates for the slot length, ns, in descending order.

    They are the differences between frequent distances of arrivals.
    """
    rounded, count = np.unique(np.rint(apart / _ALIKE_NS), return_counts=True)
    typical = rounded[np.argsort(-count)[:24]] * _ALIKE_NS
    differences = np.abs(typical[:, None] - typical[None, :]).ravel()
    kept = differences[(differences >= _SHORTEST_NS) & (differences <= _LONGEST_NS)]
    return sorted(set(kept.tolist()), reverse=True)


def _serialization(slot: float, spaced_ns: Array) -> bool:
    """Return whether `slot` equals a typical packet's transmission time, or a half or a third of it.

    Then it is not the length of a slot.
    """
    parts = spaced_ns / slot
    complete = np.rint(parts)
    return bool(((complete >= 1) & (complete <= 3) & (np.abs(parts - complete) < _TOLERANCE / 2 * complete)).any())


_LONG_REACH = 64
"""Number of packets before each one whose queue is subtracted, if only the place of a step is searched."""


@dataclass(frozen=True, slots=True)
class Side:
    """One direction and the data of its link; delays are without the queue of the host's own packets."""

    way: MatchedDirection
    spaced: Spacing | None
    guess_ns_per_byte: float
    slot_ns: float
    arrived_ns: Array
    slowest_ns_per_byte: float
    """Maximum time per byte of the link, ns: at a slower one, the data of the busiest time would not have arrived."""
    uncertainty_ns: float = 0.0
    """By how much the minimum delay may be higher if the host's own queue was computed wrongly, ns (`own_queue_ns`)."""

    @property
    def flat_ns(self) -> Array:
        """Delays minus the transmission time of the packets: float64, ns, shape (n_packets,)."""
        return self.way.delay_ns - self.guess_ns_per_byte * self.way.size_bytes


def sides_of(near: CaptureTables, far: CaptureTables, ways: Ways, steps: list[Step]) -> list[Side]:
    """Return both directions between two captures, with the properties of their links that packets show."""
    both = (ways.out, ways.back)
    measured = [spacing(way) for way in both]
    guesses = [_guess(measured[0], measured[1]), _guess(measured[1], measured[0])]
    typical = np.array([g * float(np.median(way.size_bytes)) for g, way in zip(guesses, both, strict=True)])
    sides = []
    for way, spaced, guess in zip(both, measured, guesses, strict=True):
        arrived = way.sent_ns + way.delay_ns
        slot = raster_ns(arrived, spaced_ns=typical)
        slowest = slowest_ns_per_byte(arrived, way.size_bytes)
        delay = way.delay_ns
        if spaced is not None:
            ends = (near, far, way.row) if way.sign > 0 else (far, near, way.other_row)
            waited = own_queue_ns(*ends, spaced, jumps=_zones(way, steps))
            flat = delay - spaced.ns_per_byte * way.size_bytes
            if is_consistent(flat, waited):
                waited = without_mistakes(flat, waited)
                order = np.argsort(way.row if way.sign > 0 else way.other_row)
                typical_ns = spaced.ns_per_byte * float(np.median(way.size_bytes))
                caveat = uncertainty_ns(flat[order], waited[order], typical_ns)
                shorter = way.shifted(delay - waited)
                sides.append(Side(shorter, spaced, guess, slot, arrived, slowest, caveat))
                continue
        sides.append(Side(way, None, guess, slot, arrived, slowest))
    return sides


def _zones(way: MatchedDirection, steps: list[Step]) -> list[tuple[int, int]]:
    """Return the ranges (first row, last row) in which the sending side's clock may have stepped."""
    clock: ClockLabel = "a" if way.sign > 0 else "b"
    return [step.zone for step in steps if step.clock == clock]


def unqueued(
    near: CaptureTables, far: CaptureTables, ways: Ways, sides: list[Side], steps: list[Step]
) -> tuple[Ways, Ways]:
    """Return the packets with reduced delays, twice: minus transmission time, and also minus queue time.

    The first element has delays without the transmission time of each packet. In the second one, the time in
    the queue of the sending host is subtracted as well.
    """
    flat, free = [], []
    for way, side in zip((ways.out, ways.back), sides, strict=True):
        delay = way.delay_ns - side.guess_ns_per_byte * way.size_bytes
        flat.append(way.shifted(delay))
        if side.spaced is not None:
            ends = (near, far, way.row) if way.sign > 0 else (far, near, way.other_row)
            delay = delay - own_queue_ns(*ends, side.spaced, jumps=_zones(way, steps), reach=_LONG_REACH)
        free.append(way.shifted(delay))
    first, base = ways.first_ns, ways.base_ns
    return Ways(flat[0], flat[1], first, base), Ways(free[0], free[1], first, base)


def _guess(own: Spacing | None, other: Spacing | None) -> float:
    if own is not None:
        return own.ns_per_byte
    return other.ns_per_byte if other is not None else 0.0


def arrivals_without_jump(side: Side, steps: list[Step]) -> Array:
    """Return the arrival times of one direction in the longest interval without a clock step.

    Only steps of the receiving clock count.

    Returns
    -------
    ndarray of float64, ns, shape (n_packets,)
    """
    clock: ClockLabel = "b" if side.way.sign > 0 else "a"
    number = np.zeros(len(side.way), dtype=np.int64)
    known = np.ones(len(side.way), dtype=bool)
    for step in steps:
        if step.clock == clock:
            before, later = certainly(side.way, step)
            number, known = number + later, known & (before | later)
    arrived: Array = side.arrived_ns[known & (number == np.argmax(np.bincount(number[known], minlength=1)))]
    return arrived
