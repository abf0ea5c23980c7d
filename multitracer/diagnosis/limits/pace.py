"""Whose clock data leave on: that of the application, of the ACKs, or of a queue in the sender's own host.

A sender that is limited by a window, or by the link behind it, sends when an ACK arrives. A sender whose application
produces data steadily sends at other times, and its writes seldom end with a full segment. This also shows where the
delay of the path varies, so that delays alone seem to show a queue. The facts are taken in blocks of time.

Data that wait in a queue of the sender's own host (a shaper, a modem) leave late: TCP stamps a segment before that
queue (RFC 7323), and the capture sees it behind it. The kernel's round trips include that queue, captured ones do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import increases, indexes, median, places, span_minimum
from multitracer.diagnosis.limits.gaps import unfinished_writes, within_writes
from multitracer.diagnosis.limits.names import Viewpoint
from multitracer.diagnosis.limits.observed import NEVER_NS
from multitracer.diagnosis.limits.spans import Spans
from multitracer.tables import NA
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.link import Busy
    from multitracer.diagnosis.limits.observed import Observed
    from multitracer.tables import Array

_APART_NS = NS_PER_MS
"""A longer gap ends a burst: TCP sends what one ACK allows within less."""
_AT_ONCE_NS = NS_PER_MS // 2
"""Maximum time from an ACK to the segments that it released (limits.md); with 0.2 or 1 ms little changes."""
_TICKS = 1.5
"""A receiver knows the sender's times by ticks of its timestamps: so many ticks apart are certainly apart."""
_SMALL_ENDS = 0.05
"""Share of bursts that end with a segment which is not full, from which on each of the gaps is a writer's. Bulk data
have 0 to 0.02, steady writers 0.06 to 1; the answer is the same from 0.03 to 0.07."""
_HALF = 0.5
"""Share of the time, or of the readings, from which on a fact holds for a block; with 0.3 to 0.7 little changes."""
_SAME_ECHO = 0.05
"""Minimum share of time before bursts that echo no new ACK, from which on a receiver trusts late bursts."""
_OFTEN, _LATE_TICKS = 0.1, 2.5
"""Bounds of bursts that ACKs release at the receiver: the share that echoes no new ACK (0 to 0.03 at full send buffers,
0.1 to 0.8 at most writers), and the lower quartile of the time since the echoed one arrived, in ticks (at most 2, and
2.2 to 72)."""
_MOST_BY_CHANCE = 0.7
"""Maximum chance of an ACK just before a write: with more ACKs, too few gaps would speak for all. Not measured."""
_GREW = 0.01
"""Growth of the kernel's count of a full send buffer, as part of the time, that excludes the application."""
_NEAR_RATE = 0.8
"""Part of the link's time from which on a steady writer fills the link (limits.md, `link` by its rate)."""
_CALM_NS = NS_PER_MS // 2  # as in `link`: where neighbours' delays differ by more, a radio or a busy host delays
_TRAIN = 3
"""Minimum number of segments in a burst whose dispersion shows the link's rate; two may be delivered together."""
_FEWEST_TRAINS = 5  # for a quartile; not measured
_QUARTILE = 0.25
"""Quantile of the trains' dispersion: what others' packets spread is above it, what a radio joined is below it."""
_SHORT_QUEUE_NS, _SHORT_QUEUE = 3 * NS_PER_MS, 0.25
"""Delay above the least, in ns and as part of the round trip, that a quarter of the segments has without a standing
queue. Not measured alone."""
_TAIL, _NEARLY_ALL = 0.1, 0.8
"""Of bursts, at least `_NEARLY_ALL` end with the same amount in flight, to within a segment, if the send buffer is the
limit: 0.8 to 1 of 13 recordings. `_TAIL` is what is left out at each end of a distribution."""
_MOVED_SEGMENTS = 3
"""The round trips must vary so much that at a writer's rate the flight varies by this: 5 segments and more for 8 small
buffers, 0 to 2 for writers whose flight is even."""
_NEVER_EMPTY = 0.25
"""Minimum part of that amount that is in flight before a burst: a third of a buffer must be free before it is filled.
"""
_WOKEN_NS = 5 * NS_PER_MS  # as in `windows`: or a program is woken within this time by what frees its buffer
_CLAIM = 2.0
"""Factor by which a link may seem busy longer than its own rate explains: short queues have idle gaps. Not measured."""
_BLOCK_NS = NS_PER_S
_BLOCK_ROUNDS, _BLOCK_GAPS = 10, 20
"""Minimum length of a block, in ns, in round trips, and in gaps: 5 % of 20 gaps is one. Not measured."""
_MOST_BLOCKS = 4096
"""Bound of the number of blocks, for hostile captures that last years."""


class Pace(NamedTuple):
    """The intervals in which it is known on whose clock data left, and what this says of the link."""

    writes: Spans
    """The application wrote at its own pace, and the link had time to spare."""
    at_rate: Spans
    """There was a writer, and the link needed nearly all of the time for its data."""
    refuted: Spans
    """Delays show no queue: the application or the receiver's window set the pace; the link needed far less time."""
    doubtful: Spans
    """Delays may show no queue: there is a writer, no queue stands on a path whose delay varies by itself, or only a
    rate shows the link, which is a steady writer's as well."""
    buffer: Spans
    """A full send buffer set the pace: the same amount was in flight, however long the round trip."""
    acks: Spans
    """ACKs waited in a queue on their way back, for longer than the shortest round trip."""
    host: Spans
    """Data waited in a queue of the sender's own host."""
    even: Spans
    """Where the amount in flight was constant, but ACKs did not release the data: a writer's, or a shaper's."""


@dataclass(frozen=True)
class _Bursts:
    """New segments grouped by gaps of more than `_APART_NS`; the arrays have one element per burst."""

    first: Array
    last: Array
    """Indexes of its first and its last segment among the new ones."""
    begin: Array
    end: Array
    """Times of these, in ns."""
    octets: Array
    is_small: Array
    """Whether its last segment is not full."""


class _Clock(NamedTuple):
    """For each block, on which clock data left: bool, shape (n_blocks,)."""

    writes: Array
    """That of a writer."""
    writer: Array
    """There is a writer whose data are seldom full segments, or seldom wait."""


def pace(seen: Observed, window: Spans, buffer: Spans, steady: Spans, link: Busy) -> Pace:
    """Return on whose clock data left.

    Parameters
    ----------
    seen : Observed
    window, buffer : Spans
        When the advertised window, or the send buffer, was full: what ends such an interval is not the application.
    steady : Spans
        When the amount in flight was constant in each round trip.
    link : Busy
        When the link seems to be busy.
    """
    acks, host, none = ack_queue(seen), own_queue(seen), Spans.none()
    if len(seen.fresh) <= _BLOCK_GAPS or seen.coarse or seen.end_ns <= seen.opened_ns:
        filled = Spans.of(np.array([seen.opened_ns]), np.array([seen.end_ns]))
        filled = filled if seen.coarse and _bursts_of_a_round(seen) else none
        return Pace(none, none, filled, none, filled, acks, host, none)
    bursts = _bursts(seen)
    if len(bursts.first) <= _BLOCK_GAPS:
        return Pace(none, none, none, none, none, acks, host, none)
    released = seen.view is not Viewpoint.RECEIVER or _released(seen, bursts)
    constant, blocks = _constant_flight(seen, bursts), _blocks(seen, bursts)
    clock = _clock(seen, bursts, blocks, window.union(buffer).union(constant))

    # the part of each block that the link needs for its data
    per_octet, fresh = _per_octet(seen, bursts), seen.fresh
    sums = np.concatenate([[0], np.cumsum((seen.sends.end - seen.sends.begin)[fresh])])
    sent = np.diff(sums[np.searchsorted(seen.sends.time_ns[fresh], np.append(blocks.begin, blocks.end[-1:]))])
    needed_ns = sent * (per_octet or 0.0)
    share = needed_ns / blocks.length_ns
    spare = share < _HALF
    too_long, refuted, doubtful = spare & (link.spans.overlap_ns(*blocks) > _CLAIM * needed_ns), none, none
    if too_long.any():
        returns, is_full = _returns(seen, blocks), window.total_ns >= _HALF * (seen.end_ns - seen.opened_ns)
        if link.by_queue.total_ns:  # else no delay could show a queue, or answers hid it
            returns |= link.by_queue.overlap_ns(*blocks) < _HALF * link.spans.overlap_ns(*blocks)
        full = (window.union(constant) if is_full else constant).union(buffer)
        if seen.view is Viewpoint.RECEIVER and released:  # it does not know the flight exactly
            full = full.union(steady)
        is_even = returns & (full.overlap_ns(*blocks) >= _HALF * blocks.length_ns)
        refuted = Spans.of(*blocks.where(too_long & (clock.writes | is_even)))
        is_doubtful = (clock.writer & (per_octet is not None)) | (returns & _varies(seen, bursts))
        doubtful = Spans.of(*blocks.where(too_long & is_doubtful))
    doubtful = doubtful.union(_by_rate_alone(seen, link).without(Spans.of(*blocks.where(share >= _NEAR_RATE))))
    return Pace(
        writes=Spans.of(*blocks.where(clock.writes & spare)).without(_waiting(seen)),
        at_rate=Spans.of(*blocks.where((clock.writes | clock.writer) & (share >= _NEAR_RATE))),
        refuted=refuted,
        doubtful=doubtful,
        buffer=constant,
        acks=acks,
        host=host,
        even=none if released else steady,
    )


def _bursts_of_a_round(seen: Observed) -> bool:
    """Return whether equal amounts arrived in short bursts, one in each round trip, where no send time is known.

    A link that is busy has data in each moment, and one that collects data for a burst gives unequal amounts, at its
    own times. What a window or a buffer allows is the same each time, and comes when the ACKs of the burst before do.
    """
    fresh = seen.fresh
    came, size = _arrivals(seen)[fresh], (seen.sends.end - seen.sends.begin)[fresh]
    if len(came) <= _BLOCK_GAPS or (came == NA).any() or not seen.floor_ns:
        return False
    breaks = indexes(np.diff(came) > _APART_NS)
    if len(breaks) <= _BLOCK_GAPS:
        return False
    first, last = np.append(0, breaks + 1), np.append(breaks, len(came) - 1)
    apart, octets = np.diff(came[first]), np.add.reduceat(size, first)
    is_round = np.abs(apart - seen.floor_ns) <= _QUARTILE * seen.floor_ns
    is_alike = np.abs(octets - np.median(octets)) <= seen.mss_bytes
    is_short = (came[last] - came[first]).sum() < _HALF * apart.sum()
    return bool(is_short and is_round.mean() >= _NEARLY_ALL and is_alike.mean() >= _NEARLY_ALL)


def _arrivals(seen: Observed) -> Array:
    """Return when each send arrived at the receiver, in ns; NA if that is not known."""
    came = np.full(len(seen.sends), NA, dtype=np.int64)
    samples = seen.delays.where(seen.delays.place < len(came))  # not of probes, which are no sends
    came[samples.place] = samples.time_ns + samples.way_ns
    return came


def _by_rate_alone(seen: Observed, link: Busy) -> Spans:
    """Return the intervals in which the link seems busy by a rate alone, where delays show a queue for less than half.

    A program that writes steadily has one rate, too: where it met a queue for a moment, it seems to have the link's
    rate all the time. A router that marks had a queue, however short.
    """
    shown = link.by_queue.union(link.by_bucket)
    if shown.total_ns >= _HALF * link.spans.total_ns or seen.answers.marked.any():
        return Spans.none()
    return link.spans.without(shown)


def _constant_flight(seen: Observed, bursts: _Bursts) -> Spans:
    """Return the intervals in which a full send buffer set the pace; empty if another limit did.

    A writer that is woken late sends as if in its own time, but what is in flight behind it is always the same. What a
    program writes in its own time is in flight for a round trip: the more, the longer that is.
    """
    over = places(seen.answers.ack, seen.sends.end[seen.fresh][bursts.last])
    known = over < len(seen.answers)
    if not known.any() or (seen.state is not None and _mostly_unsent(seen)):
        return Spans.none()
    trips = seen.answers.time_ns[over[known]] - bursts.end[known]
    rate = float(bursts.octets.sum()) / max(seen.end_ns - seen.opened_ns, 1)
    if rate * int(trips.max() - trips.min()) < _MOVED_SEGMENTS * seen.mss_bytes:
        return Spans.none()  # nor do most of them vary so much
    flight, before = seen.outstanding(bursts.end), seen.outstanding(bursts.begin, side="left")
    low, top = np.quantile(flight, (_TAIL, 1 - _TAIL))
    moved = rate * float(np.diff(np.quantile(trips, (_TAIL, 1 - _TAIL)))[0])  # by so much a writer's data in flight
    is_constant = float((np.abs(flight - top) <= seen.mss_bytes).mean()) >= _NEARLY_ALL
    is_constant &= moved >= _MOVED_SEGMENTS * seen.mss_bytes and top - low < _HALF * moved
    last = np.maximum(seen.last_answer(bursts.begin), 0)
    filled = (bursts.begin - seen.answers.time_ns[last] <= _WOKEN_NS) | (before >= _NEVER_EMPTY * top)
    filled &= seen.answers.payload[last] <= 0  # else it answers a request
    if not is_constant or float(filled.mean()) < _HALF:
        return Spans.none()
    parts = []
    for each in seen.moments():
        is_full = each.sent - np.maximum(each.acknowledged, 1) >= _NEVER_EMPTY * top
        is_full &= each.until_ns < NEVER_NS
        parts.append(Spans.of(each.time_ns[is_full], each.until_ns[is_full]))
    return _clipped(Spans.all_of(parts), seen)


def _mostly_unsent(seen: Observed) -> bool:
    """Return whether the kernel had a segment unsent in most readings."""
    everything = Spans.of(np.array([seen.opened_ns]), np.array([seen.end_ns]))
    return bool(len(everything.begin)) and bool(_unsent(seen, everything)[0][0])


def _returns(seen: Observed, blocks: Spans) -> Array:
    """Return in which blocks a quarter of the delays is near the least: no queue stands there, or a short one."""
    way = seen.delays.way_ns
    if not len(way):
        return np.zeros(len(blocks.begin), dtype=bool)
    is_near = way - way.min() <= max(_SHORT_QUEUE_NS, _SHORT_QUEUE * seen.floor_ns)
    block = blocks.which(seen.delays.time_ns)
    many = np.bincount(block[block >= 0], minlength=len(blocks.begin))
    near = np.bincount(block[(block >= 0) & is_near], minlength=len(blocks.begin))
    return np.asarray((many > 0) & (near >= _QUARTILE * many))


def _varies(seen: Observed, bursts: _Bursts) -> bool:
    """Return whether delays change by more between neighbouring bursts than a queue of data explains."""
    chosen = np.isin(seen.delays.place, seen.fresh[bursts.first])
    way = seen.delays.way_ns[chosen] if seen.one_way else seen.delays.way_ns
    service_ns = seen.mss_bytes * (seen.end_ns - seen.opened_ns) / max(int(bursts.octets.sum()), 1)
    return len(way) > 1 and median(np.abs(np.diff(way))) > min(service_ns, _APART_NS) + _CALM_NS


def _bursts(seen: Observed) -> _Bursts:
    fresh = seen.fresh
    time, size = seen.sends.time_ns[fresh], (seen.sends.end - seen.sends.begin)[fresh]
    apart_ns = max(_APART_NS, int(_TICKS * seen.stamp_tick_ns)) if seen.view is Viewpoint.RECEIVER else _APART_NS
    breaks = indexes(np.diff(time) > apart_ns)
    first, last = np.append(0, breaks + 1), np.append(breaks, len(time) - 1)
    sums = np.concatenate([[0], np.cumsum(size)])
    is_small = size[last] < seen.mss_bytes
    return _Bursts(first, last, time[first], time[last], sums[last + 1] - sums[first], is_small)


def _blocks(seen: Observed, bursts: _Bursts) -> Spans:
    """Return the transfer in intervals of equal length, each with enough round trips and gaps."""
    total = seen.end_ns - seen.opened_ns
    gaps_ns = _BLOCK_GAPS * total // len(bursts.first)
    return _even_blocks(seen, max(_BLOCK_NS, _BLOCK_ROUNDS * seen.floor_ns, gaps_ns))


def _even_blocks(seen: Observed, length: int) -> Spans:
    """Return the transfer in intervals of equal length, at least the given one in ns."""
    total = seen.end_ns - seen.opened_ns
    many = min(max(total // length, 1), _MOST_BLOCKS, total)
    edges = seen.opened_ns + total * np.arange(many + 1) // many
    return Spans(edges[:-1], edges[1:])


def _clock(seen: Observed, bursts: _Bursts, blocks: Spans, full: Spans) -> _Clock:
    """Return on which clock data left in each block.

    It is the writer's if for half of the time what came next was released by no ACK, and the writer shows: in small
    segments, or in the kernel's unsent bytes.
    """
    begin, end = bursts.end[:-1], bursts.begin[1:]
    untriggered, by_chance = _untriggered(seen, bursts, blocks)
    untriggered &= ~full.holds(end - 1)
    half_ns = _HALF * (1 - by_chance) * blocks.length_ns

    # how many bursts end small, and what the kernel had unsent
    in_block = blocks.which(np.minimum(end, seen.end_ns - 1))
    known = in_block >= 0
    many = np.bincount(in_block[known], minlength=len(blocks.begin))
    small = np.bincount(in_block[known & bursts.is_small[1:]], minlength=len(blocks.begin))
    unsent, empty = _unsent(seen, blocks)
    writer = ((small >= _SMALL_ENDS * many) & (small > 0)) | empty
    own = untriggered & (bursts.is_small[:-1] | bursts.is_small[1:] | writer[in_block])
    wrote = Spans.of(begin[own], end[own]).overlap_ns(*blocks) >= half_ns
    if buffer_was_full(seen):
        wrote[:] = False
    return _Clock(wrote & ~unsent, writer & ~unsent)


def _untriggered(seen: Observed, bursts: _Bursts, blocks: Spans) -> tuple[Array, Array]:
    """Return which bursts (but the first) no ACK released, and per block the chance of an ACK just before any time."""
    answers, end = seen.answers, bursts.begin[1:]
    moves = increases(answers.ack, -1) | increases(answers.edge, -1) | (answers.payload > 0)
    came = answers.time_ns[moves]
    if not len(came):
        return np.ones(len(end), dtype=bool), np.zeros(len(blocks.begin))
    if seen.view is Viewpoint.RECEIVER:
        untriggered, near_ns = _unechoed(seen, bursts)
    else:
        last, near_ns = np.searchsorted(came, end, side="right") - 1, _AT_ONCE_NS
        untriggered = (last < 0) | (end - came[np.maximum(last, 0)] > near_ns)
    chance = Spans.of(came, came + near_ns).overlap_ns(*blocks) / np.maximum(blocks.length_ns, 1)
    return untriggered, np.minimum(chance, _MOST_BY_CHANCE)


def _unechoed(seen: Observed, bursts: _Bursts) -> tuple[Array, int]:
    """Return which bursts (but the first) no ACK released, by the timestamps that they echo.

    They echo the same one as the burst before. If such bursts are frequent, those count too that left well after the
    echoed one had arrived; the second value is by how much, in ns, else 0.
    """
    here, before = _echoes(seen, bursts)
    same = (here != NA) & (here == before)
    took_ns = bursts.begin[1:] - bursts.end[:-1]
    if int(took_ns[same].sum()) < _SAME_ECHO * (seen.end_ns - seen.opened_ns):
        return same, 0
    late_ns = int(_TICKS * seen.stamp_tick_ns)
    return same | ((here != NA) & (bursts.begin[1:] - here > late_ns)), late_ns


def _echoes(seen: Observed, bursts: _Bursts) -> tuple[Array, Array]:
    """Return when the ACKs that each burst (but the first), and the one before it, echo had arrived, in ns.

    They are NA where that is not known.
    """
    if seen.echoed_ns is None or not seen.stamp_tick_ns:
        unknown = np.full(len(bursts.first) - 1, NA, dtype=np.int64)
        return unknown, unknown
    echoed = seen.echoed_ns[seen.fresh]
    return echoed[bursts.first[1:]], echoed[bursts.last[:-1]]


def _released(seen: Observed, bursts: _Bursts) -> bool:
    """Return whether ACKs released the bursts, by the timestamps that they echo; True if nothing shows it."""
    here, before = _echoes(seen, bursts)
    known = here != NA
    if not known.any():
        return True
    late_ns = np.quantile((bursts.begin[1:] - here)[known], _QUARTILE)
    return bool((here == before)[known].mean() < _OFTEN and late_ns <= _LATE_TICKS * seen.stamp_tick_ns)


def _unsent(seen: Observed, blocks: Spans) -> tuple[Array, Array]:
    """Return in which blocks at least half of the kernel's readings had a segment unsent, and in which fewer had."""
    none = np.zeros(len(blocks.begin), dtype=bool)
    if seen.state is None:
        return none, none
    known = seen.state["notsent_bytes"] != NA
    time, octets = seen.state["time_ns"][known], seen.state["notsent_bytes"][known]
    block = blocks.which(time)
    many = np.bincount(block[block >= 0], minlength=len(none))
    full = np.bincount(block[(block >= 0) & (octets >= seen.mss_bytes)], minlength=len(none))
    return full > _HALF * many, (many > 0) & (full <= _HALF * many)


def _waiting(seen: Observed) -> Spans:
    """Return the intervals in which a segment was unsent, by the PSH flag or by two readings of the kernel."""
    writes = unfinished_writes(seen)
    if seen.state is None:
        return writes
    read = indexes(seen.state["notsent_bytes"] != NA)
    read = read[np.argsort(seen.state["time_ns"][read], kind="stable")]
    time, much = seen.state["time_ns"][read], seen.state["notsent_bytes"][read] >= seen.mss_bytes
    both = much[1:] & much[:-1]
    return writes.union(Spans.of(time[:-1][both], time[1:][both]))


def buffer_was_full(seen: Observed) -> bool:
    """Return whether the kernel counted time in which a full send buffer blocked the application."""
    if seen.state is None:
        return False
    counted = seen.state["sndbuf_limited_ns"][seen.state["sndbuf_limited_ns"] >= 0]
    grew = float(counted.max()) - float(counted.min()) if len(counted) else 0.0
    return grew >= _GREW * (seen.end_ns - seen.opened_ns) > 0


def _per_octet(seen: Observed, bursts: _Bursts) -> float | None:
    """Return the time that the link needs for an octet, in ns, by trains of segments; None if there are too few."""
    if seen.view in (Viewpoint.BOTH_ENDS, Viewpoint.RECEIVER):
        dispersion = _of_arrivals(seen, bursts)
    else:
        dispersion = _of_answers(seen, bursts)
    return float(np.quantile(dispersion, _QUARTILE)) if len(dispersion) >= _FEWEST_TRAINS else None


def _of_arrivals(seen: Observed, bursts: _Bursts) -> Array:
    """Return the time per octet between the arrivals of the first and the last segment of each train."""
    sends, fresh = seen.sends, seen.fresh
    came = _arrivals(seen)[fresh]
    long = bursts.last - bursts.first + 1 >= _TRAIN
    first, last = came[bursts.first[long]], came[bursts.last[long]]
    size = (sends.end - sends.begin)[fresh]
    octets = bursts.octets[long] - size[bursts.first[long]]
    known = (first != NA) & (last != NA) & (last >= first) & (octets > 0)
    return np.asarray((last - first)[known] / octets[known])


def _of_answers(seen: Observed, bursts: _Bursts) -> Array:
    """Return the time per octet between the first and the last immediate ACK of each train.

    An ACK for more than one segment was not delayed by the receiver (RFC 9293, section 3.8.6.3). A train that one ACK
    covers arrived at once.
    """
    sends, fresh, ack = seen.sends, seen.fresh, seen.answers.ack
    delivered = np.diff(seen.answers.delivered, prepend=seen.answers.delivered[:1])
    some = indexes((np.diff(ack, prepend=ack[:1]) > seen.mss_bytes) & (delivered > seen.mss_bytes))
    if not len(some):
        return np.empty(0)
    before, delivered = np.append(0, ack)[some], delivered[some]
    ack, came = ack[some], seen.answers.time_ns[some]
    long = bursts.last - bursts.first + 1 >= _TRAIN
    begin, end = sends.begin[fresh][bursts.first[long]], sends.end[fresh][bursts.last[long]]
    first, last = places(ack, begin + 1), places(ack, end, "right") - 1
    covering = np.minimum(first, len(ack) - 1)
    at_once = (before[covering] <= begin) & (ack[covering] >= end) & (delivered[covering] >= end - begin)
    several = (last > first) & ~at_once
    first, last = first[several], last[several]
    apart = (came[last] - came[first]) / np.maximum(ack[last] - ack[first], 1)
    return np.concatenate([apart, np.zeros(int(at_once.sum()))])


_LASTING_NS = 20 * NS_PER_MS  # as in `link`: a radio sends bursts a few milliseconds apart
_LASTING_ROUNDS = 5
"""Round trips that a queue of ACKs must last: after a stall of the path, many come late at once. Not measured."""
_QUEUE_SPREAD = 0.1
"""Minimum spread of the delays of a queue of ACKs, as part of their median: that of a longer path is 0.02."""
_LONG_QUEUE_NS = 10 * NS_PER_MS  # of ACKs, and a round trip: jitter of Wi-Fi and steps of satellites stay below
_OWN_NS, _OWN_SEGMENTS = NS_PER_MS, 1.5
"""Minimum excess of the kernel's smoothed round trip over the captured one, in ns and in segments."""
_BRIDGED = 4.0
"""Gaps that a segment with PSH leaves between two parts of a burst: two typical ones. Not measured."""
_FEWEST_UNSENT, _FEWEST_BURSTS = 10, 3
"""Minimum number of readings with unsent data, or of bursts, that are no chance. Not measured."""
_GAIN = 8
"""Weight of the smoothed round trip: a new one counts one eighth (RFC 6298)."""


def ack_queue(seen: Observed) -> Spans:
    """Return the intervals in which a queue on the way of the ACKs made round trips twice as long, or longer.

    Only the part of a delay that lasts for a round trip counts, as for data (`link`).
    """
    time, lag_ns = _echo_lags(seen) if seen.view is Viewpoint.RECEIVER else (seen.answers.time_ns, seen.answers.lag_ns)
    if not lag_ns.any() or seen.end_ns <= seen.opened_ns:
        return Spans.none()
    here, width = np.arange(len(time)), max(seen.floor_ns, _LASTING_NS)
    after = np.maximum(places(time, time + width, "right"), here + 1)
    before = np.minimum(places(time, time - width), here)
    queue_ns = np.maximum(span_minimum(lag_ns, here, after), span_minimum(lag_ns, before, here + 1))
    above = queue_ns > max(_LONG_QUEUE_NS, seen.floor_ns)
    both = above[1:] & above[:-1]
    queued = Spans.of(time[:-1][both], time[1:][both])
    queued = queued.where(queued.length_ns >= _LASTING_ROUNDS * width)
    edges = zip(*(np.searchsorted(time, edge) for edge in queued), strict=True)
    grows = [_spread(lag_ns[first : last + 1]) >= _QUEUE_SPREAD for first, last in edges]
    return _clipped(queued.where(np.array(grows, dtype=bool)), seen)


def _echo_lags(seen: Observed) -> tuple[Array, Array]:
    """Return when the first segment that echoes each ACK was sent, and how much later than that ACK was due; in ns."""
    if seen.echoed_ns is None:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    first = indexes((seen.echoed_ns != NA) & (np.diff(seen.echoed_ns, prepend=NA) != 0) & ~seen.sends.again)
    time = seen.sends.time_ns[first]
    return time, np.maximum(time - seen.echoed_ns[first], 0)


def _spread(values: Array) -> float:
    """Return by how much the outer tenths of values differ, as part of the median."""
    low, middle, high = np.quantile(values, (_TAIL, _HALF, 1 - _TAIL))
    return float((high - low) / max(middle, 1))


def own_queue(seen: Observed) -> Spans:
    """Return the intervals in which data waited in a queue of the sender's own host, by stamps or by the kernel."""
    if seen.end_ns <= seen.opened_ns:
        return Spans.none()
    return _clipped(_delayed_by_stamps(seen).union(_delayed_by_kernel(seen)), seen)


def _clipped(spans: Spans, seen: Observed) -> Spans:
    return Spans.of(np.maximum(spans.begin, seen.opened_ns), np.minimum(spans.end, seen.end_ns))


def _delayed_by_stamps(seen: Observed) -> Spans:
    """Return the intervals in which segments were stamped and not captured yet: half of a block, or of a burst.

    A step of the capture's clock delays the answers as well: what the fastest answer of a block lags is subtracted.
    """
    if seen.host_delay_ns is None or not seen.host_delay_ns.any():
        return Spans.none()
    blocks = _even_blocks(seen, max(_BLOCK_NS, _BLOCK_ROUNDS * seen.floor_ns))
    at, of = seen.sends.time_ns, blocks.which(seen.sends.time_ns)
    minimum_ns = np.full(len(blocks.begin) + 1, np.iinfo(np.int64).max)
    np.minimum.at(minimum_ns, blocks.which(seen.answers.time_ns), seen.answers.lag_ns)
    delay_ns = np.where(of >= 0, np.maximum(seen.host_delay_ns - minimum_ns[of], 0), 0)
    spans = _clipped(Spans.of(at - delay_ns, at), seen)
    most = indexes(spans.overlap_ns(*blocks) >= _HALF * blocks.length_ns)
    return spans.without(spans.without(blocks.where(most))).union(_delayed_bursts(seen, seen.host_delay_ns, blocks))


def _delayed_bursts(seen: Observed, delay_ns: Array, blocks: Spans) -> Spans:
    """Return the bursts of one write, shorter than a block, that are held as long as a round trip or longer.

    What a burst after an idle time sends first finds no queue, so that its delay is the minimum. A long write may have
    segments with PSH in between.
    """
    writes, at = within_writes(seen), seen.sends.time_ns
    gap_ns = np.diff(at)[writes.holds(at[1:] - 1)]
    writes = writes.bridged(_BRIDGED * float(np.median(gap_ns))) if len(gap_ns) else writes
    is_short = writes.length_ns < blocks.length_ns.min()
    writes = writes.where(is_short & (writes.length_ns >= max(seen.floor_ns, seen.stamp_tick_ns)))
    of = writes.which(at)
    inside = indexes(of >= 0)
    first = np.searchsorted(at, writes.begin)
    held_ns = np.maximum(delay_ns[inside] - delay_ns[first[of[inside]]], 0)
    spans = Spans.of(at[inside] - held_ns, at[inside])
    return writes.where(spans.overlap_ns(*writes) >= _HALF * writes.length_ns)


def _delayed_by_kernel(seen: Observed) -> Spans:
    """Return the intervals between readings with unsent data, room in the window, and a round trip above the captured.

    Only what lasts for a round trip counts. They are empty unless most readings with unsent data are such, and there
    are enough of these, or of the intervals.
    """
    state, answers, sends = seen.state, seen.answers, seen.sends
    if state is None or not len(sends):
        return Spans.none()
    chosen = (state["notsent_bytes"] != NA) & (state["srtt_ns"] != NA) & (state["cwnd_segments"] != NA)
    chosen &= (state["time_ns"] >= seen.opened_ns) & (state["time_ns"] <= seen.end_ns)
    read = indexes(chosen)
    before = np.concatenate([[1], np.maximum.accumulate(answers.ack)])[:-1]
    oldest = np.searchsorted(seen.highest, before, side="right")  # the first segment that each answer covers
    new = indexes((answers.ack > before) & (oldest < len(sends)))
    new = new[~sends.again[oldest[new]]]
    if len(read) < 2 or not len(new):
        return Spans.none()
    smoothed = _smoothed(answers.time_ns[new] - sends.time_ns[oldest[new]])
    at = np.searchsorted(answers.time_ns[new], state["time_ns"][read], side="right") - 1
    above_ns = state["srtt_ns"][read] - smoothed[np.maximum(at, 0)]
    is_unsent = state["notsent_bytes"][read] >= seen.mss_bytes
    busy_ns = (seen.end_ns - seen.opened_ns) * float(is_unsent.mean())  # a burst leaves its host in this time
    rate = float((sends.end - sends.begin)[seen.fresh].sum()) / max(busy_ns, 1)
    is_own = is_unsent & (at >= 0) & (above_ns > max(_OWN_NS, _OWN_SEGMENTS * seen.mss_bytes / max(rate, 1 / NS_PER_S)))
    is_own &= state["unacked_segments"][read] < state["cwnd_segments"][read]
    if is_own.sum() <= _HALF * is_unsent.sum():
        return Spans.none()
    time, both = state["time_ns"][read], is_own[1:] & is_own[:-1]
    own = Spans.of(time[:-1][both], time[1:][both])
    lasting = own.bridged(seen.floor_ns)
    lasting = lasting.where(lasting.length_ns >= seen.floor_ns)
    if is_unsent.sum() < _FEWEST_UNSENT and len(lasting.begin) < _FEWEST_BURSTS:
        return Spans.none()
    return own.without(own.without(lasting))


def _smoothed(trips_ns: Array) -> Array:
    """Return the smoothed round trip after each sample, as RFC 6298 defines it: float64, ns."""
    smoothed, value = np.empty(len(trips_ns)), float(trips_ns[0])
    for i, trip in enumerate(trips_ns.tolist()):
        value += (trip - value) / _GAIN
        smoothed[i] = value
    return smoothed
