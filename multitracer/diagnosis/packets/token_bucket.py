"""Whether a token bucket lost the packets, and when it was empty: from times and sizes of packets alone.

A policer has a bucket: tokens come at a rate until it is full, each packet that passes takes its size, and
one that finds too few is dropped. So the bucket holds less than one packet at each loss, and between two
losses as many bytes pass as tokens come, to within a packet. Fewer pass if the bucket was full meanwhile: as
many as it holds, and those that come from then on. This is true between any two losses next to each other,
whatever the sender did, and needs no rate that is exact for minutes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.once import Once, kept
from multitracer.native import kernel

if TYPE_CHECKING:
    from multitracer.tables import Array

_LEAST_PASSED = 8
"""Least packets of a stretch between two losses: within a run of losses few pass."""
_BELOW, _ABOVE, _STEP = 0.95, 1.3, 0.01
"""Rates that are tried, as parts of what passed between losses, the median: it is less than the policer's
rate where the bucket was full meanwhile (by 26 % at most of 29 policers)."""
_MOST_WORK = 4_000_000
"""Packets times rates; of more packets fewer rates are tried. Not measured."""
_PACKETS_OFF = 1.5
"""A bucket holds 0 to 1 packets at a loss, so two losses differ by 1 at most; the rest is for clocks."""
_LEAST_SIZE = 5
"""Packets. A smaller bucket explains any losses of a sender of even pace: it is full all the time."""
_EMPTY_PACKETS = 2.0
"""With fewer tokens the next pair of segments, which is how a TCP sends, loses one."""

_MANY = 1_000
"""Packets from which on the kernel follows the bucket, as in `intervals`. Not measured."""


@dataclass(frozen=True)
class ArrivedStream(Once):
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

    @kept
    def passed(self) -> Array:
        """Octets that had passed up to each packet, itself included: float64, shape (n,)."""
        return np.cumsum(self.passing)

    @kept
    def passing(self) -> Array:
        """Octets of each packet that passed, 0 of the others: float64, shape (n,)."""
        return np.where(self.is_lost, 0.0, self.size)

    @kept
    def lost(self) -> Array:
        """Which packets were lost: int64, ascending."""
        return np.flatnonzero(self.is_lost)

    @kept
    def last_loss(self) -> Array:
        """The last lost packet up to each packet; the first packet before any: int64, shape (n,)."""
        return np.maximum.accumulate(np.where(self.is_lost, np.arange(len(self.is_lost)), 0))

    @kept
    def full(self) -> float:
        """Octets of the largest packet."""
        return float(self.size.max())


class Bucket(NamedTuple):
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


def bucket(stream: ArrivedStream) -> Bucket | None:
    """Return the bucket that explains most stretches between losses; None without any."""
    lost, passed = stream.lost, stream.passed
    some = np.diff(passed[lost]) >= _LEAST_PASSED * stream.full
    gone_s = np.diff(stream.time_s[lost])
    some &= gone_s > 0
    if not some.any():
        return None
    usual = float(np.median(np.diff(passed[lost])[some] / gone_s[some]))
    step = max(_STEP, (_ABOVE - _BELOW) * len(passed) / _MOST_WORK)
    tried = [_at_rate(stream, usual * part, some) for part in np.arange(_BELOW, _ABOVE, step)]
    return max(tried, key=lambda each: (each.explained, -each.too_many))


def _at_rate(stream: ArrivedStream, rate: float, some: Array) -> Bucket:
    """Return the bucket of a rate, with the size that explains most of some stretches between losses."""
    (most, short), lost = _levels(stream, rate), stream.lost
    most = most[:-1][some]
    left = (rate * np.diff(stream.time_s[lost]) - np.diff(stream.passed[lost]))[some]
    off = _PACKETS_OFF * stream.full
    fallen = np.sort((most - left)[left > off])
    fallen = fallen[fallen >= _LEAST_SIZE * stream.full]
    size = np.inf
    if len(fallen):
        near = np.searchsorted(fallen, fallen + 2 * off, side="right") - np.arange(len(fallen))
        size = float(fallen[near.argmax()] + off)
    left_of_full = left - np.maximum(most - size, 0.0)
    explained = float(np.mean(np.abs(left_of_full) <= off))
    too_many = short / (len(stream.is_lost) - len(lost))
    return Bucket(rate, size, len(left), explained, too_many)


def _levels(stream: ArrivedStream, rate: float) -> tuple[Array, int]:
    """Return the most tokens from each loss on, and how many packets passed with none left for them."""
    least = -stream.full / 2
    if len(stream.is_lost) >= _MANY and (native := kernel()):
        columns = [np.ascontiguousarray(each) for each in (stream.time_s, stream.passed, stream.passing)]
        return native.bucket_levels(columns, np.ascontiguousarray(stream.is_lost), rate, least)
    tokens = _since_loss(stream, rate)
    short = (tokens < least) & ~stream.is_lost
    return np.maximum.reduceat(tokens + stream.passing, stream.lost), int(np.count_nonzero(short))


def empty(stream: ArrivedStream, of: Bucket) -> tuple[Array, Array]:
    """Return when the bucket held less than two packets, as stretches that may overlap; both float64, s."""
    tokens = np.maximum(_since_loss(stream, of.rate), 0.0) + stream.full / 2  # 0 to 1 packets at the loss
    missing = _EMPTY_PACKETS * stream.full - tokens
    low = missing > 0
    return stream.time_s[low], stream.time_s[low] + missing[low] / of.rate


def _since_loss(stream: ArrivedStream, rate: float) -> Array:
    """Return how many tokens more there are after each packet than after the loss before it."""
    tokens = rate * stream.time_s - stream.passed
    return np.asarray(tokens - tokens[stream.last_loss])
