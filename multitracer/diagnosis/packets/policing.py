"""Whether a policer lost the packets: it lets a rate and a burst pass, and drops the rest without delay.

After Flach et al. (SIGCOMM 2016): the bucket is empty at each loss and (nearly) never otherwise. Tokens
come at a rate until the bucket is full, each packet that passes takes its size, and one that finds too few
is dropped. So it holds less than one packet at each loss, and between two losses as many bytes pass as
tokens come, to within a packet. Fewer pass if the bucket was full meanwhile: as many as it holds, and those
that come from then on. This is true between any two losses next to each other, whatever the sender did, and
needs no rate that is exact for minutes. A drop-tail queue gives the same picture; that losses come without
delay, and the link is faster (the rate of short trains of packets), parts them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.packets.losses import rounds
from multitracer.diagnosis.packets.packet_delays import HEADERS_BYTES, train_rate
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.diagnosis.packets.losses import Carried, Losses
    from multitracer.tables import Array

MIN_LOSSES = 15
"""Of a policer that is told, as of one that is there by the truth of the corpus."""
_MIN_SUSPECTED = 5  # losses: of fewer no quartile can be taken. Not measured
_MIN_STRETCHES = 5
"""Between losses: one bucket explains up to four of them at many full queues, and by chance."""
_EXPLAINED = 0.85
"""Part of the stretches: 0.88 to 1 at 29 policers, 0.67 at most where chance lost the packets."""
_LIKELY = 0.75
"""The same for a suspicion: between chance and a policer nothing is asserted."""
_TOO_MANY = 0.25
"""Part of the packets that passed an empty bucket: 0.18 at most at policers."""
_SPREAD_SUSPECTED = 3
"""Between the quartiles of the tokens at losses, in segments, for a suspicion: of few losses chance leaves 4
to 15, and the first 5 to 14 of policers 0.5. Only where both captures tell what was lost: by repairs alone a
policer's losses spread, too."""
_BELOW_SUSPECTED = 0.22
"""Part of the packets that passed with fewer tokens than at the median loss, for a suspicion: 0.04 to 0.14 at
policers, 0.25 to 0.56 where chance lost them."""
_MANY, _BELOW_OF_MANY = 100, 0.15
"""Of many losses that part alone decides: over a long time a rate that is 2 % wrong spreads the tokens."""
_CERTAIN_ROWS, _CERTAIN_SPREAD = 30, 1.0
"""Of so many rows of losses an even spread, in segments, is no chance, whatever else is seen, and in however
few round trips: 0.2 to 0.8 at 31 of 32 policers (a pacing sender like BBR loses all the time, leaves few
stretches, and its packets pass a bucket that is nearly empty), 16 and more where chance lost them, 2.6 at a
queue whose rate changed."""
_QUEUE_NS = 10 * NS_PER_MS  # what waited for less stood in no queue that loses packets. Not measured
_QUEUE_SHARE = 0.25
"""Of the round trip."""
_FULL_SHARE, _NOISE_NS = 0.8, 1.7 * NS_PER_MS
"""What waited before losses for so much of the longest wait stood in a full queue, however short it is. Round
trips are measured too seldom between losses to tell."""
_FULLEST, _FULL_NS = 0.9, 5 * NS_PER_MS
"""Part of the longest wait at which a queue is full, and the least of it, as in `losses`."""
_MOST_AT_QUEUE = 0.3
"""Part of the rows of losses: of more the link's own queue is the bottleneck. Not measured"""
_MIN_ROUNDS = 20
"""From the first loss to the last: 54 and more at 28 of 29 policers, 8 where slow start overshot a queue."""
_FASTER = 1.5
"""Times the rate that passes: where the link is no faster, its own queue would tell, not a policer ..."""
_FASTER_BY_ACKS = 2.5
"""... and at the sender alone: an ACK covers one segment or two, so trains of them seem twice as fast."""


class Policer(NamedTuple):
    """A policer that was found."""

    rate_bytes_per_s: float
    """What it lets pass, with headers."""
    link_bytes_per_s: float
    """What the link can do."""
    lost: Array
    """Places in the segments of what it dropped."""
    empty_ns: tuple[Array, Array]
    """When its bucket held less than two segments, on the sender's clock; they may overlap."""


class Policing:
    """Whether a policer lost the packets of a transfer: measured once, however many ask."""

    def __init__(self, carried: Carried) -> None:
        self._carried = carried

    @cached_property
    def _mine(self) -> Carried | None:
        """The data with what was lost without delay; None if a queue lost them."""
        causes = self._carried.losses if len(self._carried.lost) >= _MIN_SUSPECTED else None
        if causes is None or causes.is_congestion or not _is_without_delay(self._carried, causes):
            return None
        return replace(self._carried, lost=self._carried.lost[~_at_full_queue(self._carried)])

    @cached_property
    def _stream(self) -> ArrivedStream | None:
        return None if self._mine is None else _stream(self._mine)

    @cached_property
    def _bucket(self) -> TokenBucket | None:
        return None if self._stream is None else bucket(self._stream)

    @cached_property
    def policer(self) -> Policer | None:
        """The policer; None if nothing shows one."""
        mine = self._mine
        if mine is None or len(mine.lost) < MIN_LOSSES:
            return None
        stream, of = self._stream, self._bucket
        if stream is None or of is None or of.explained < _EXPLAINED:
            return None
        fits = of.stretches >= _MIN_STRETCHES and of.too_many <= _TOO_MANY
        fits &= rounds(mine, mine.lost) >= _MIN_ROUNDS
        link = _link_rate(mine)
        faster = _FASTER if mine.transfer.data_pairs is not None else _FASTER_BY_ACKS
        if not (fits or is_even(stream)) or link <= faster * of.rate:
            return None
        speed, first_ns = mine.transfer.speed, int(mine.sent_ns[mine.lost[0]])
        begin, end = ((first_ns + each * NS_PER_S / speed).astype(np.int64) for each in empty(stream, of))
        return Policer(of.rate, link, mine.lost, (begin, end))

    @cached_property
    def is_suspected(self) -> bool:
        """Whether a policer may have lost the packets: fewer losses, and the tokens left are uncertain."""
        mine = self._mine
        if mine is None or len(mine.lost) < _MIN_SUSPECTED:
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


def is_even(stream: ArrivedStream) -> bool:
    """Return whether so many losses, again and again, found as many tokens that no chance explains it."""
    rows = 1 + np.count_nonzero(np.diff(np.flatnonzero(stream.is_lost)) > 1)
    if rows < _CERTAIN_ROWS:
        return False
    rate = _slope(stream.time_s[stream.is_lost], stream.passed[stream.is_lost])
    return _spread_and_below(stream, rate)[0] <= _CERTAIN_SPREAD


def _at_full_queue(carried: Carried) -> Array:
    """Return which of the lost found the link's own queue full: a policer had let them pass.

    A full queue takes as long each time: the packet before waited (nearly) as long as any.
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
    """Return the packets from the first loss to the last; None if all were lost, or no time passed."""
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
    """Return whether nothing waited when packets were lost."""
    if carried.delays is None or not len(causes.queue_ns):
        return False
    waited_ns = causes.waited_s * NS_PER_S
    if carried.delays.is_one_way and waited_ns >= max(_NOISE_NS, _FULL_SHARE * causes.longest_ns):
        return False
    return bool(waited_ns < max(_QUEUE_NS, _QUEUE_SHARE * carried.round_trip_ns))


def _link_rate(carried: Carried) -> float:
    """Return octets a second of the fastest trains, of all or before the first loss.

    A sender that paces has trains of no other rate than its own once it knows the policer's.
    """
    first_ns = int(carried.sent_ns[carried.lost[0]])
    return max(carried.train_rate, train_rate(carried.transfer, until_ns=first_ns))


def _slope(time_s: Array, octets: Array) -> float:
    """Return octets a second between losses half of them apart, the median: pauses do not lower it."""
    half = len(time_s) // 2
    gone_s, passed = time_s[half:] - time_s[:-half], octets[half:] - octets[:-half]
    apart = gone_s > 0
    return float(np.median(passed[apart] / gone_s[apart])) if apart.any() else 0.0


def _spread_and_below(stream: ArrivedStream, rate: float) -> tuple[float, float]:
    """Return the spread of the tokens left at losses, in segments, and the part of the others with fewer."""
    tokens, is_lost = rate * stream.time_s - stream.passed, stream.is_lost
    low, middle, high = np.quantile(tokens[is_lost], (0.25, 0.5, 0.75))
    return float((high - low) / stream.full), float(np.mean(tokens[~is_lost] < middle - stream.full / 2))


_MIN_PASSED = 8
"""Least packets of a stretch between two losses: within a run of losses few pass."""
_BELOW, _ABOVE, _STEP = 0.95, 1.3, 0.01
"""Rates that are tried, as parts of what passed between losses, the median: it is less than the policer's
rate where the bucket was full meanwhile (by 26 % at most of 29 policers)."""
_MOST_WORK = 4_000_000
"""Packets times rates; of more packets fewer rates are tried. Not measured."""
_PACKETS_OFF = 1.5
"""A bucket holds 0 to 1 packets at a loss, so two losses differ by 1 at most; the rest is for clocks."""
_MIN_SIZE = 5
"""Packets. A smaller bucket explains any losses of a sender of even pace: it is full all the time."""
_EMPTY_PACKETS = 2.0
"""With fewer tokens the next pair of segments, which is how a TCP sends, loses one."""


@dataclass(frozen=True)
class ArrivedStream:
    """Packets in order of sending, from the first loss to the last.

    Attributes
    ----------
    time_s : ndarray of float64, shape (n,)
    size : ndarray of float64, octets, shape (n,)
    is_lost : ndarray of bool, shape (n,)
    """

    time_s: Array
    size: Array
    is_lost: Array

    @cached_property
    def passed(self) -> Array:
        """Octets that had passed up to each packet, itself included: float64, shape (n,)."""
        return np.cumsum(self.passing)

    @cached_property
    def passing(self) -> Array:
        """Octets of each packet that passed, 0 of the others: float64, shape (n,)."""
        return np.where(self.is_lost, 0.0, self.size)

    @cached_property
    def lost(self) -> Array:
        """Which packets were lost: int64, ascending."""
        return np.flatnonzero(self.is_lost)

    @cached_property
    def last_loss(self) -> Array:
        """The last lost packet up to each packet; the first packet before any: int64, shape (n,)."""
        return np.maximum.accumulate(np.where(self.is_lost, np.arange(len(self.is_lost)), 0))

    @cached_property
    def full(self) -> float:
        """Octets of the largest packet."""
        return float(self.size.max())


class TokenBucket(NamedTuple):
    """The bucket that explains most stretches between losses, and how well it does."""

    rate: float
    """Octets a second."""
    size: float
    """Octets; infinite if it was never full."""
    stretches: int
    """Between losses next to each other, with enough packets in each."""
    explained: float
    """Part of them at whose end the bucket was empty."""
    too_many: float
    """Part of the packets that passed with no token left for them."""


def bucket(stream: ArrivedStream) -> TokenBucket | None:
    """Return the bucket that explains most stretches between losses; None without any."""
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
    """Return the bucket of a rate, with the size that explains most of some stretches between losses."""
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
    """Return the most tokens from each loss on, and how many packets passed with none left for them."""
    minimum = -stream.full / 2
    tokens = _since_loss(stream, rate)
    short = (tokens < minimum) & ~stream.is_lost
    return np.maximum.reduceat(tokens + stream.passing, stream.lost), int(np.count_nonzero(short))


def empty(stream: ArrivedStream, of: TokenBucket) -> tuple[Array, Array]:
    """Return when the bucket held less than two packets, as stretches that may overlap; both float64, s."""
    tokens = np.maximum(_since_loss(stream, of.rate), 0.0) + stream.full / 2  # 0 to 1 packets at the loss
    missing = _EMPTY_PACKETS * stream.full - tokens
    low = missing > 0
    return stream.time_s[low], stream.time_s[low] + missing[low] / of.rate


def _since_loss(stream: ArrivedStream, rate: float) -> Array:
    """Return how many tokens more there are after each packet than after the loss before it."""
    tokens = rate * stream.time_s - stream.passed
    return np.asarray(tokens - tokens[stream.last_loss])
