"""Whether a policer lost the packets: it lets a rate and a burst pass, and drops the rest without delay.

After Flach et al. (SIGCOMM 2016): with tokens that come at the rate at which packets passed between losses, a
bucket is empty at each loss and (nearly) never otherwise. A full drop-tail queue gives the
same picture; that losses come without delay parts the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.packets.losses import losses, rounds
from multitracer.diagnosis.packets.train_rate import HEADERS_BYTES, train_rate
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.diagnosis.packets.losses import Carried
    from multitracer.tables import Array

_LEAST_LOSSES = 15
_LEAST_SUSPECTED = 5
_SPREAD_SEGMENTS = 5
"""Between the quartiles of the tokens at losses: 1 to 3 at policers, 6 and more where chance lost them."""
_SPREAD_SUSPECTED = 3
"""The same of a suspicion: of few losses chance leaves 4 to 15, and the first 5 to 14 of policers 0.5. Only
where both captures tell what was lost: by repairs alone a policer's losses spread, too."""
_BELOW = 0.25
"""Part of the packets that passed with fewer tokens than at the median loss."""
_BELOW_SUSPECTED = 0.22
"""The same of a suspicion: 0.04 to 0.14 at policers, 0.25 to 0.56 where chance lost them."""
_MANY, _BELOW_OF_MANY = 100, 0.15
"""Of many losses that part alone decides: over a long time a rate that is 2 % wrong spreads the tokens."""
_QUEUE_NS = 10 * NS_PER_MS
_QUEUE_SHARE = 0.25
"""Of the round trip."""
_FULL_SHARE, _NOISE_NS, _LONGEST = 0.8, 1.7 * NS_PER_MS, 0.99
"""What waited before losses for so much of the longest wait stood in a full queue, however short it is. Round
trips are measured too seldom between losses to tell."""
_LEAST_ROUNDS = 20
"""From the first loss to the last: 80 and more at policers, 8 where a slow start overshot a queue of 5 ms."""
_FASTER = 1.5
"""Times the rate that passes: where the link is no faster, its own queue would tell, not a policer."""


class Policer(NamedTuple):
    """A policer that was found."""

    rate_bytes_per_s: float
    """What it lets pass, with headers."""
    link_bytes_per_s: float
    """What the link can do."""
    lost: Array
    """Places in the segments of what it dropped."""


def policer(carried: Carried, *, suspected: bool = False) -> Policer | None:
    """Return the policer that lost the packets of a transfer; None if nothing shows one.

    Parameters
    ----------
    suspected : bool
        Whether a suspicion is enough: fewer losses, and how many tokens were left is uncertain.
    """
    least_losses = _LEAST_SUSPECTED if suspected else _LEAST_LOSSES
    transfer, segments, lost, _ = carried
    if len(lost) < least_losses:
        return None
    causes = losses(carried)
    if causes is None or causes.is_congestion or not _without_delay(carried):
        return None
    within = np.arange(lost[0], lost[-1] + 1)
    is_lost = np.isin(within, lost)
    time_ns = carried.sent_ns[within]
    time_s = (time_ns - time_ns[0]) * transfer.speed / NS_PER_S
    size = segments.payload_bytes[within].astype(np.float64) + HEADERS_BYTES
    passed = np.where(is_lost, 0.0, size)
    if time_s[-1] <= 0 or is_lost.all():
        return None
    rate = _slope(time_s[is_lost], np.cumsum(passed)[is_lost])
    tokens = rate * time_s - np.cumsum(passed)
    link = train_rate(transfer)
    spread, below = _bucket(tokens, is_lost, float(size.max()))
    is_sure = len(lost) >= _MANY and below < _BELOW_OF_MANY
    is_empty = below < _BELOW and (is_sure or spread <= _SPREAD_SEGMENTS)
    if suspected:
        is_empty = below < _BELOW_SUSPECTED
        is_empty &= is_sure or spread <= _SPREAD_SUSPECTED or transfer.data_pairs is None
    if not is_empty or link <= _FASTER * rate or not (suspected or rounds(carried, lost) >= _LEAST_ROUNDS):
        return None
    return Policer(rate, link, lost)


def _slope(time_s: Array, octets: Array) -> float:
    """Return octets a second between losses half of them apart, the median: pauses do not lower it."""
    half = len(time_s) // 2
    gone_s, passed = time_s[half:] - time_s[:-half], octets[half:] - octets[:-half]
    apart = gone_s > 0
    return float(np.median(passed[apart] / gone_s[apart])) if apart.any() else 0.0


def _bucket(tokens: Array, is_lost: Array, full: float) -> tuple[float, float]:
    """Return the spread of the tokens left at losses, in segments, and the part of the others with fewer."""
    low, middle, high = np.quantile(tokens[is_lost], (0.25, 0.5, 0.75))
    return float((high - low) / full), float(np.mean(tokens[~is_lost] < middle - full / 2))


def _without_delay(carried: Carried) -> bool:
    """Return whether nothing waited when packets were lost."""
    delays, lost = carried.delays, carried.lost
    if delays is None:
        return False
    at = np.searchsorted(delays.place, lost) - 1
    waited_ns = np.median(delays.queue_ns[at[at >= 0]]) if (at >= 0).any() else np.inf
    full_ns = max(_NOISE_NS, _FULL_SHARE * float(np.quantile(delays.queue_ns, _LONGEST)))
    if delays.is_one_way and waited_ns >= full_ns:
        return False
    return bool(waited_ns < max(_QUEUE_NS, _QUEUE_SHARE * carried.round_trip_ns))
