"""Detects a policer, which passes a rate and a burst, and drops all other packets without delaying any.

The method follows Flach et al. (SIGCOMM 2016): the bucket is empty at each loss and (nearly) never otherwise. Tokens
are added at a constant rate until the bucket is full. Each packet that passes takes tokens of its size; a packet that
finds too few is dropped. So the bucket holds less than one packet at each loss, and between two losses the bytes that
pass equal the new tokens, to within a packet. If the bucket was full meanwhile, fewer bytes pass: the bucket size, plus
the tokens after that time. This holds between any two successive losses, whatever the sender did, and the rate need not
be exact for minutes. A drop-tail queue gives the same picture. Two facts distinguish a policer: losses come without
delay, and the link (the rate of short trains of packets) is faster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.packets.losses import rounds
from multitracer.diagnosis.packets.packet_delays import FASTEST, HEADERS_BYTES, TRAIN, train_rate
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.diagnosis.packets.losses import Carried, Losses
    from multitracer.tables import Array

MIN_LOSSES = 15
"""Minimum number of losses for a policer, also in the truth of the corpus."""
_MIN_SUSPECTED = 5  # losses: of fewer no quartile can be taken. Not measured
_MIN_STRETCHES = 5
"""Minimum number of intervals between losses: at many full queues, and by chance, one bucket explains up to four."""
_EXPLAINED = 0.85
"""Minimum share of the intervals that the bucket explains: 0.88 to 1 for 29 policers, at most 0.67 for chance losses.
"""
_LIKELY = 0.75
"""The same share for a suspected policer: between the two thresholds no policer is reported."""
_TOO_MANY = 0.25
"""Maximum share of the packets that passed an empty bucket: at most 0.18 for policers."""
_SPREAD_SUSPECTED = 3
"""Maximum interquartile range of the tokens at losses, in segments, for a suspected policer: 4 to 15 for few
chance losses, 0.5 for the first 5 to 14 losses of policers. It is used only if both captures show the losses:
losses inferred from retransmissions spread more."""
_BELOW_SUSPECTED = 0.22
"""Maximum share of the packets that passed with fewer tokens than at the median loss, for a suspected
policer: 0.04 to 0.14 for policers, 0.25 to 0.56 for chance losses."""
_MANY, _BELOW_OF_MANY = 100, 0.15
"""From `_MANY` losses on, the share of packets below the median tokens decides alone, with the maximum
`_BELOW_OF_MANY`: over a long time, a rate that is wrong by 2 % spreads the tokens."""
_CERTAIN_ROWS, _CERTAIN_SPREAD = 30, 1.0
"""Many losses with even tokens prove a policer, in however few round trips: at least `_CERTAIN_ROWS` runs of losses,
with an interquartile range of the tokens of at most `_CERTAIN_SPREAD` segments. The range is 0.2 to 0.8 at 31 of 32
policers, at least 16 for chance losses, and 2.6 at a queue whose rate changed. A pacing sender like BBR loses packets
all the time, so that intervals are few and packets pass a nearly empty bucket."""
_QUEUE_NS = 10 * NS_PER_MS  # what waited for less stood in no queue that loses packets. Not measured
_QUEUE_SHARE = 0.25
"""Maximum wait without a queue, as part of the round trip."""
_FULL_SHARE, _NOISE_NS = 0.8, 1.7 * NS_PER_MS
"""Packets waited in a full queue if their delay is at least this part of the longest delay, and at least `_NOISE_NS`,
however short the queue is. Round trips are not used: they are measured too seldom between losses."""
_FULLEST, _FULL_NS = 0.9, 5 * NS_PER_MS
"""Minimum delay at which a queue is full, as part of the longest delay, and in ns; as in `losses`."""
_MOST_AT_QUEUE = 0.3
"""Maximum share of the runs of losses at a full queue: with more, the link's own queue is the bottleneck. Not measured.
"""
_MIN_ROUNDS = 20
"""Minimum time from the first loss to the last, in round trips: at least 54 at 28 of 29 policers, 8 for a
slow start that overshot a queue."""
_FASTER = 1.5
"""Minimum ratio of the link's rate to the policer's rate: otherwise the link's own queue may drop the packets."""
_FASTER_BY_ACKS = 2.5
"""The same ratio at the sender alone: an ACK covers one segment or two, so ACK trains seem twice as fast."""
_MUCH_FASTER, _CLEAR = 1.75, 0.95
"""Ratio of the link's rate to the minimum, and share of explained intervals, from which on delays are
not asked: behind a queue at the rate of the bucket no train is so fast. At least 1.9 at five policers whose delays are
unknown, or are those of delayed ACKs."""
_FASTER_WITHOUT_DELAY = 1.2
"""The ratio where one-way delays show that the packets before the losses found no queue."""


class Policer(NamedTuple):
    """A detected policer."""

    rate_bytes_per_s: float
    """Its rate, with headers: what it passed between losses without a full bucket."""
    link_bytes_per_s: float
    """The rate of the link."""
    row: Array
    """Row of `sender` of each packet that it dropped; in a receiver's capture, of what arrived before it."""
    lost_bytes: int
    """Payload of all packets that it dropped."""
    used_ns: tuple[Array, Array]
    """Start and end times of the intervals between neighbouring losses, and after the last, in which nearly all tokens
    were used, on the sender's clock."""


class Policing:
    """The test whether a policer lost the packets of a transfer; the result is cached."""

    def __init__(self, carried: Carried) -> None:
        self._carried = carried

    @cached_property
    def _mine(self) -> Carried | None:
        """The segments with those losses that a policer may have caused: not at a full queue of the link.

        It is None if these losses are few.
        """
        causes = self._carried.losses if len(self._carried.lost) >= _MIN_SUSPECTED else None
        if causes is None or causes.is_congestion:
            return None
        return replace(self._carried, lost=self._carried.lost[~_at_full_queue(self._carried)])

    @cached_property
    def _waited(self) -> bool:
        """Whether the packets before the losses had a queueing delay.

        A link behind a policer queues what a full bucket passes at once: then only even tokens show the policer.
        """
        causes = self._carried.losses
        return causes is None or not _is_without_delay(self._carried, causes)

    @cached_property
    def _stream(self) -> ArrivedStream | None:
        return None if self._mine is None else _stream(self._mine)

    @cached_property
    def _bucket(self) -> TokenBucket | None:
        return None if self._stream is None else bucket(self._stream)

    @cached_property
    def policer(self) -> Policer | None:
        """The policer; None if the packets show none."""
        mine = self._mine
        if mine is None or len(mine.lost) < MIN_LOSSES:
            return None
        stream, of = self._stream, self._bucket
        if stream is None or of is None or of.explained < _LIKELY:
            return None
        even, fits = is_even(stream), of.explained >= _EXPLAINED and rounds(mine, mine.lost) >= _MIN_ROUNDS
        link, is_one_way = _link_rate(mine), mine.delays is not None and mine.delays.is_one_way
        faster = _FASTER if mine.transfer.data_pairs is not None else _FASTER_BY_ACKS
        if self._waited:
            fits = fits and (even or (not is_one_way and _is_clear(stream, of, link / (faster * of.rate))))
        else:
            fits = even or (fits and of.stretches >= _MIN_STRETCHES and of.too_many <= _TOO_MANY)
            faster = _FASTER_WITHOUT_DELAY if is_one_way and even else faster
        if not fits or link <= faster * of.rate:
            return None
        speed, first_ns = mine.transfer.speed, int(mine.sent_ns[mine.lost[0]])
        segments, last = mine.segments, int(mine.lost[-1])
        after = segments.payload_bytes[last + 1 :][~segments.lost[last + 1 :]] + HEADERS_BYTES
        tail = (float(mine.sent_ns[-1] - mine.sent_ns[last]) * speed / NS_PER_S, float(after.sum()))
        begin, end = ((first_ns + each * NS_PER_S / speed).astype(np.int64) for each in used(stream, of, tail))
        lost_bytes = int(segments.payload_bytes[mine.lost].sum())
        return Policer(own_rate(stream, of), link, segments.row[mine.lost], lost_bytes, (begin, end))

    @cached_property
    def is_suspected(self) -> bool:
        """Whether a policer may have lost the packets, with fewer losses or uncertain tokens."""
        mine = self._mine
        if mine is None or self._waited or len(mine.lost) < _MIN_SUSPECTED:
            return False
        stream, of = self._stream, self._bucket
        if stream is None:
            return False
        is_likely = of is not None and of.stretches >= _MIN_STRETCHES and of.explained >= _LIKELY
        if is_likely or is_even(stream):
            return True
        rate = _slope(stream.time_s[stream.is_lost], stream.passed[stream.is_lost])
        if _link_rate(mine) <= _FASTER * rate:
            return False
        spread, below = _spread_and_below(stream, rate)
        is_sure = len(mine.lost) >= _MANY and below < _BELOW_OF_MANY
        is_near = is_sure or spread <= _SPREAD_SUSPECTED or mine.transfer.data_pairs is None
        return below < _BELOW_SUSPECTED and is_near


def _is_clear(stream: ArrivedStream, of: TokenBucket, ratio: float) -> bool:
    """Return whether a bucket explains nearly all, and the link is far too fast for a queue at the bucket's rate.

    `ratio` is that of both rates, divided by the minimum of a policer whose losses come without delay.
    """
    fits = of.stretches >= _MIN_STRETCHES or is_even(stream)
    return fits and of.explained >= _CLEAR and of.too_many <= _TOO_MANY and ratio > _MUCH_FASTER


def policer_of_arrivals(
    arrived: ArrivedStream, row: Array, queue_ns: Array | None, round_trip_ns: int, begin_ns: int
) -> Policer | None:
    """Return the policer that a receiver's capture shows; None if it shows none.

    Parameters
    ----------
    arrived : ArrivedStream
        What arrived, and what did not: each lost packet just behind the last one before it that arrived.
    row : ndarray of int64, shape (n,)
        Row of `sender` of each packet, of a lost one that of the packet before it.
    queue_ns : ndarray of int64, ns, shape (n,), or None
        Queueing delay of each packet, of a lost one that of the packet before it; None if it is unknown.
    round_trip_ns : int
    begin_ns : int
        The time 0 of `arrived`, by the sender's clock.
    """
    lost = arrived.lost
    if len(lost) < MIN_LOSSES or arrived.is_lost.all():
        return None
    within = slice(lost[0], lost[-1] + 1)
    first_s = float(arrived.time_s[lost[0]])
    stream = ArrivedStream(arrived.time_s[within] - first_s, arrived.size[within], arrived.is_lost[within])
    if queue_ns is not None and float(np.median(queue_ns[lost])) >= max(_QUEUE_NS, _QUEUE_SHARE * round_trip_ns):
        return None
    of, even, link = bucket(stream), is_even(stream), _fastest_train(arrived)
    if of is None or of.explained < _EXPLAINED or link <= _FASTER * of.rate:
        return None
    lasts = float(stream.time_s[-1]) * NS_PER_S >= _MIN_ROUNDS * max(round_trip_ns, 1)
    if not even and not (lasts and of.stretches >= _MIN_STRETCHES and of.too_many <= _TOO_MANY):
        return None
    if queue_ns is None and not _is_clear(stream, of, link / (_FASTER * of.rate)):
        return None
    tail = (float(arrived.time_s[-1] - arrived.time_s[lost[-1]]), float(arrived.size[lost[-1] + 1 :].sum()))
    begin, end = ((begin_ns + (first_s + each) * NS_PER_S).astype(np.int64) for each in used(stream, of, tail))
    lost_bytes = int((arrived.size[lost] - HEADERS_BYTES).sum())
    return Policer(own_rate(stream, of), link, row[lost], lost_bytes, (begin, end))


def _fastest_train(arrived: ArrivedStream) -> float:
    """Return the 98 % quantile of the rates of packets that arrived directly after each other, in bytes/s."""
    time_s, octets = arrived.time_s[~arrived.is_lost], np.cumsum(arrived.size[~arrived.is_lost])
    gone_s = time_s[TRAIN:] - time_s[:-TRAIN]
    rates = (octets[TRAIN:] - octets[:-TRAIN])[gone_s > 0] / gone_s[gone_s > 0]
    return float(np.quantile(rates, FASTEST)) if len(rates) else 0.0


def is_even(stream: ArrivedStream) -> bool:
    """Return whether the numbers of tokens at the losses are more equal than chance explains.

    A policer drops a packet when its token bucket is nearly empty, so the numbers are about equal.
    """
    rows = 1 + np.count_nonzero(np.diff(np.flatnonzero(stream.is_lost)) > 1)
    if rows < _CERTAIN_ROWS:
        return False
    rate = _slope(stream.time_s[stream.is_lost], stream.passed[stream.is_lost])
    return _spread_and_below(stream, rate)[0] <= _CERTAIN_SPREAD


def _at_full_queue(carried: Carried) -> Array:
    """Return which lost packets met a full queue of the link, so that no policer dropped them: bool.

    We assume that the delay of a full queue is constant: the packet before had (nearly) the longest delay of all.
    """
    delays, lost = carried.delays, carried.lost
    if delays is None or not delays.is_one_way:
        return np.zeros(len(lost), dtype=bool)
    opens = np.append(True, np.diff(lost) > 1)
    before = np.searchsorted(delays.place, lost[opens]) - 1
    is_next = (before >= 0) & (delays.place[before] == lost[opens] - 1)
    full = is_next & (delays.queue_ns[before] >= max(_FULL_NS, _FULLEST * delays.queue_ns.max()))
    return np.asarray(full[np.cumsum(opens) - 1] & (np.mean(full) <= _MOST_AT_QUEUE))


def _stream(carried: Carried) -> ArrivedStream | None:
    """Return the packets from the first loss to the last.

    It is None if all of them were lost, or if no time passed between them.
    """
    segments, lost = carried.segments, carried.lost
    within = slice(lost[0], lost[-1] + 1)
    time_ns = carried.sent_ns[within]
    time_s = (time_ns - time_ns[0]) * carried.transfer.speed / NS_PER_S
    is_lost = np.zeros(len(time_ns), dtype=bool)
    is_lost[lost - lost[0]] = True
    if time_s[-1] <= 0 or is_lost.all():
        return None
    return ArrivedStream(time_s, segments.payload_bytes[within].astype(np.float64) + HEADERS_BYTES, is_lost)


def _is_without_delay(carried: Carried, causes: Losses) -> bool:
    """Return whether the packets before the losses had no queueing delay."""
    if carried.delays is None or not len(causes.queue_ns):
        return False
    waited_ns = causes.waited_s * NS_PER_S
    if carried.delays.is_one_way and waited_ns >= max(_NOISE_NS, _FULL_SHARE * causes.longest_ns):
        return False
    return bool(waited_ns < max(_QUEUE_NS, _QUEUE_SHARE * carried.round_trip_ns))


def _link_rate(carried: Carried) -> float:
    """Return the rate of the link in bytes per second: the fastest packets that arrived back to back.

    It is the larger of two values: from all packets, and from those before the first loss. A pacing sender
    that has found the policer's rate sends no faster trains afterwards.
    """
    first_ns = int(carried.sent_ns[carried.lost[0]])
    return max(carried.train_rate, train_rate(carried.transfer, until_ns=first_ns))


def _slope(time_s: Array, octets: Array) -> float:
    """Return the median arrival rate between losses, in bytes per second.

    Each rate is measured between two losses that are half of all losses apart. Idle gaps do not lower the median.
    """
    half = len(time_s) // 2
    gone_s, passed = time_s[half:] - time_s[:-half], octets[half:] - octets[:-half]
    apart = gone_s > 0
    return float(np.median(passed[apart] / gone_s[apart])) if apart.any() else 0.0


def _spread_and_below(stream: ArrivedStream, rate: float) -> tuple[float, float]:
    """Return two measures of how well a token bucket with this rate explains the losses.

    The first is the interquartile range of the tokens at losses, in segments. The second is the share of the
    delivered packets that had fewer tokens than the median loss.
    """
    tokens, is_lost = rate * stream.time_s - stream.passed, stream.is_lost
    low, middle, high = np.quantile(tokens[is_lost], (0.25, 0.5, 0.75))
    return float((high - low) / stream.full), float(np.mean(tokens[~is_lost] < middle - stream.full / 2))


_MIN_PASSED = 8
"""Minimum number of packets in an interval between two losses: within a run of losses few pass."""
_BELOW, _ABOVE, _STEP = 0.95, 1.3, 0.01
"""Range and step of the tried rates, as factors of the median rate between losses, which is below the
policer's rate if the bucket was full meanwhile (by at most 26 % at 29 policers)."""
_MOST_WORK = 4_000_000
"""Maximum of packets times rates: with more packets, fewer rates are tried. Not measured."""
_PACKETS_OFF = 1.5
"""Maximum error of the tokens between two losses, in packets. The bucket holds 0 to 1 packets at a loss, so
two losses differ by at most 1; the rest allows for errors of the clocks."""
_MIN_SIZE = 5
"""Minimum size of a bucket in packets: a smaller one explains all losses of a sender with a constant rate."""
_USED = 0.8
"""Minimum part of the tokens that came between two losses and were used: with less, a larger window would have brought
more."""


@dataclass(frozen=True)
class ArrivedStream:
    """Packets in order of sending, from the first loss to the last.

    Attributes
    ----------
    time_s : ndarray of float64, shape (n,)
        Link time since the first loss.
    size : ndarray of float64, octets, shape (n,)
    is_lost : ndarray of bool, shape (n,)
    """

    time_s: Array
    size: Array
    is_lost: Array

    @cached_property
    def passed(self) -> Array:
        """Bytes of all packets delivered up to and including each packet: float64, shape (n,)."""
        return np.cumsum(self.passing)

    @cached_property
    def passing(self) -> Array:
        """Bytes of each delivered packet, 0 for lost ones: float64, shape (n,)."""
        return np.where(self.is_lost, 0.0, self.size)

    @cached_property
    def lost(self) -> Array:
        """Indexes of the lost packets: int64, ascending."""
        return np.flatnonzero(self.is_lost)

    @cached_property
    def last_loss(self) -> Array:
        """Index of the last lost packet at or before each packet, else 0: int64, shape (n,)."""
        return np.maximum.accumulate(np.where(self.is_lost, np.arange(len(self.is_lost)), 0))

    @cached_property
    def full(self) -> float:
        """Octets of the largest packet."""
        return float(self.size.max())


class TokenBucket(NamedTuple):
    """The token bucket that explains most intervals between losses, with its quality."""

    rate: float
    """Octets per second."""
    size: float
    """Octets; infinite if the bucket was never full."""
    stretches: int
    """Number of intervals between successive losses with enough packets."""
    explained: float
    """Share of these intervals at whose end the bucket was empty."""
    too_many: float
    """Share of the packets that passed without enough tokens."""


def bucket(stream: ArrivedStream) -> TokenBucket | None:
    """Return the token bucket that explains most intervals between losses; None without an interval."""
    lost, passed = stream.lost, stream.passed
    some = np.diff(passed[lost]) >= _MIN_PASSED * stream.full
    gone_s = np.diff(stream.time_s[lost])
    some &= gone_s > 0
    if not some.any():
        return None
    typical = float(np.median(np.diff(passed[lost])[some] / gone_s[some]))
    step = max(_STEP, (_ABOVE - _BELOW) * len(passed) / _MOST_WORK)
    tried = [_at_rate(stream, typical * part, some) for part in np.arange(_BELOW, _ABOVE, step)]
    return max(tried, key=lambda each: (each.explained, -each.too_many))


def _at_rate(stream: ArrivedStream, rate: float, some: Array) -> TokenBucket:
    """Return the token bucket with a given rate, and with the size that explains most intervals.

    Only the intervals between losses in `some` are used.
    """
    (most, short), lost = _levels(stream, rate), stream.lost
    most = most[:-1][some]
    left = (rate * np.diff(stream.time_s[lost]) - np.diff(stream.passed[lost]))[some]
    off = _PACKETS_OFF * stream.full
    fallen = np.sort((most - left)[left > off])
    fallen = fallen[fallen >= _MIN_SIZE * stream.full]
    size = np.inf
    if len(fallen):
        near = np.searchsorted(fallen, fallen + 2 * off, side="right") - np.arange(len(fallen))
        size = float(fallen[near.argmax()] + off)
    left_of_full = left - np.maximum(most - size, 0.0)
    explained = float(np.mean(np.abs(left_of_full) <= off))
    too_many = short / (len(stream.is_lost) - len(lost))
    return TokenBucket(rate, size, len(left), explained, too_many)


def _levels(stream: ArrivedStream, rate: float) -> tuple[Array, int]:
    """Return the maximum number of tokens after each loss, and how many packets passed without tokens."""
    minimum = -stream.full / 2
    tokens = _since_loss(stream, rate)
    short = (tokens < minimum) & ~stream.is_lost
    return np.maximum.reduceat(tokens + stream.passing, stream.lost), int(np.count_nonzero(short))


def used(stream: ArrivedStream, of: TokenBucket, tail: tuple[float, float] = (0.0, 0.0)) -> tuple[Array, Array]:
    """Return begin and end, in s, of the intervals between neighbouring losses in which the tokens were used.

    A bucket holds 0 to 1 packets at a loss, so one packet more may have passed. Both are float64. `tail` has the
    seconds and the octets after the last loss: BBR finds the policer's rate by the first ones, and keeps to it.
    """
    time_s = np.append(stream.time_s[stream.lost], stream.time_s[stream.lost[-1]] + tail[0])
    passed = np.append(stream.passed[stream.lost], stream.passed[stream.lost[-1]] + tail[1])
    is_used = np.diff(passed) + stream.full >= _USED * of.rate * np.diff(time_s)
    return time_s[:-1][is_used], time_s[1:][is_used]


def own_rate(stream: ArrivedStream, of: TokenBucket) -> float:
    """Return the policer's rate in octets per second: what passed between two losses, if the bucket was never full.

    `of.rate` is one of the rates that explain the losses; it may be 3 % too high.
    """
    lost = stream.lost
    most, _ = _levels(stream, of.rate)
    passed, gone_s = np.diff(stream.passed[lost]), np.diff(stream.time_s[lost])
    chosen = (most[:-1] < of.size) & (passed >= _MIN_PASSED * stream.full) & (gone_s > 0)
    return float(passed[chosen].sum() / gone_s[chosen].sum()) if chosen.any() else of.rate


def _since_loss(stream: ArrivedStream, rate: float) -> Array:
    """Return for each packet how the number of tokens changed since the last loss: float64, bytes."""
    tokens = rate * stream.time_s - stream.passed
    return np.asarray(tokens - tokens[stream.last_loss])
