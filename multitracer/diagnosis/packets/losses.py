"""The cause of packet losses, a full queue or chance, from the delay of the packet before each loss.

A full queue drops a packet after others with the maximum delay. Chance drops any packet, mostly after packets without a
delay. A long delay alone does not separate the two causes: both the delay and its rank among all delays must agree. The
results did not depend on the exact thresholds on some ninety recordings of known cause, 1 to 20 Mbit/s.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.verdicts import Necessity
from multitracer.diagnosis.packets.packet_delays import MIN_HELD, data_delays, most_ahead, packets_ahead, train_rate
from multitracer.units import NS_PER_MS, NS_PER_S
from multitracer.words import count, duration, percent

if TYPE_CHECKING:
    from multitracer.diagnosis.packets.dead_times import DeadTime
    from multitracer.diagnosis.packets.packet_delays import PacketDelays, WireSegments
    from multitracer.recording.transfer import Transfer
    from multitracer.tables import Array

_FULL_RANK = 0.89  # among all delays: where the queue is seldom full, few are as long
_FULL_NS = 5 * NS_PER_MS  # less is no full queue: clocks and hosts make it too
_OFTEN_FULL_RANK = 0.6
"""Minimum rank if the queue is full most of the time, so that many packets have the longest delay."""
_FULLEST = 0.9
"""Minimum part of the longest delay that the packet before a loss must then have."""
_CHANCE_RANK = 0.75  # among all delays: the packets before losses by chance lie anywhere
_CHANCE_NS = 1.7 * NS_PER_MS  # less is noise of clocks and hosts
_CHANCE_SHARE = 0.5
"""Maximum part of the longest delay at which a queue was far from full (a slow link has steps of its own)."""
_QUARTILE = 0.25  # of the delays before losses: a quarter may be of another cause
_MIN_FULL = 3  # losses; fewer may be chance
_MIN_OFTEN_FULL = 8  # losses where the lower rank suffices
_MIN_CHANCE = 5
"""Minimum number of separate losses for a decision by quartiles."""
_MIN_CLEAR_CHANCE = 3
"""Minimum number of separate losses if none of the packets before them had waited."""
_LONGEST = 0.99  # quantile of the delays that is the longest: single ones are noise
_NEXT_TO_ALL, _AHEAD_RANK = 0.9, 0.89
"""A full queue shows if three in four lost packets had at least `_NEXT_TO_ALL` of the maximum number of
packets ahead, and this number has at least the rank `_AHEAD_RANK` among all packets."""
_FRESH = 1.5
"""Maximum age of a delay, in round trips, at which it shows the state of the queue."""


@dataclass(frozen=True)
class Carried:
    """The data segments of a transfer as they were on the wire, with losses and delays."""

    transfer: Transfer
    segments: WireSegments
    lost: Array
    """Indexes in `segments` of lost segments, without those lost in a dead time."""
    delays: PacketDelays | None
    """The delays of full segments; None if no capture shows them."""

    @cached_property
    def sent_ns(self) -> Array:
        """When each segment was sent, by the sender's clock: int64, ns, shape (n_segments,)."""
        return np.asarray(self.transfer.sender["time_ns"][self.segments.row])

    @cached_property
    def round_trip_ns(self) -> int:
        """The shortest round trip, in ns; the largest int64 if unknown."""
        return int(self.transfer.rtt_ns.min(initial=np.iinfo(np.int64).max))

    @cached_property
    def losses(self) -> Losses | None:
        """The lost packets, with the queueing delays of the packets before them; None without either."""
        lost, delays = self.lost, self.delays
        if delays is None or not len(lost):
            return None

        # the delay of the packet before each run of losses, and its rank among all delays
        first = lost[np.append(True, np.diff(lost) > 1)]
        at = np.searchsorted(delays.place, first) - 1
        before = np.maximum(at, 0)
        age_ns = self.sent_ns[first] - delays.time_ns[before]
        known = (at >= 0) & (age_ns <= _FRESH * (self.round_trip_ns + delays.queue_ns[before]))
        queue_ns = delays.queue_ns[at[known]]
        below, up_to = (np.searchsorted(delays.ordered_ns, queue_ns, side=side) for side in ("left", "right"))
        rank = (below + up_to) / (2 * len(delays.ordered_ns))
        if delays.is_one_way and 2 * len(queue_ns) < len(first):
            return None  # nothing is known of most losses

        # whether most had as many packets ahead of them as few others had
        held = False
        if delays.is_one_way:
            everywhere = np.sort(delays.ahead)
            ahead = float(np.quantile(packets_ahead(delays, first, self.sent_ns[first]), _QUARTILE))
            fewer, no_more = (np.searchsorted(everywhere, ahead, side=side) for side in ("left", "right"))
            among = (fewer + no_more) / (2 * len(everywhere))
            held = bool(ahead >= max(MIN_HELD, _NEXT_TO_ALL * most_ahead(delays)) and among >= _AHEAD_RANK)
        longest_ns = float(np.quantile(delays.queue_ns[_in_order(delays)], _LONGEST))
        return Losses(lost, queue_ns, rank, longest_ns, held)

    @cached_property
    def train_rate(self) -> float:
        """The highest rate of the link in bytes per second, from packets that arrived back to back."""
        return train_rate(self.transfer)


def carried(transfer: Transfer, segments: WireSegments, dead_times: list[DeadTime]) -> Carried:
    """Return the data segments as they were on the wire, with losses and delays.

    Losses in `dead_times` are left out.
    """
    lost = np.flatnonzero(segments.lost)
    stamps = transfer.sender["time_ns"][segments.row[lost]]
    round_trip_ns = int(transfer.rtt_ns.max(initial=0))
    failed = [(each.begin_ns - round_trip_ns, each.end_ns) for each in dead_times if each.failed]
    begin, end = np.array([each for each in failed if each[0] <= each[1]], dtype=np.int64).reshape(-1, 2).T
    begun, over = np.searchsorted(np.sort(begin), stamps, "right"), np.searchsorted(np.sort(end), stamps)
    lost = lost[begun <= over]  # in no dead time
    return Carried(transfer, segments, lost, data_delays(transfer, segments))


class Losses(NamedTuple):
    """The lost packets, with the delays of the packets before them."""

    place: Array
    """Indexes in the segments of all lost packets."""
    queue_ns: Array
    """Queueing delay of the packet before each run of losses, in ns, where it is known."""
    rank: Array
    """Rank of this delay among all delays, 0 to 1."""

    longest_ns: float
    """The longest queueing delay, in ns (99 % quantile)."""
    is_held_full: bool = False
    """Whether most lost packets had about the maximum number of packets ahead, whatever their delay."""

    @property
    def waited_s(self) -> float:
        """The median queueing delay of the packets before the losses, in seconds."""
        return float(np.median(self.queue_ns)) / NS_PER_S

    @property
    def is_congestion(self) -> bool:
        """Whether a full queue lost them."""
        if len(self.rank) < _MIN_FULL or np.quantile(self.queue_ns, _QUARTILE) < _FULL_NS:
            return False
        return self.waited_longest or self.is_held_full

    @property
    def waited_longest(self) -> bool:
        """Whether most packets before the losses had about the longest delay."""
        rank, queue_ns = (np.quantile(each, _QUARTILE) for each in (self.rank, self.queue_ns))
        often = len(self.rank) >= _MIN_OFTEN_FULL and rank >= _OFTEN_FULL_RANK
        return bool(rank >= _FULL_RANK or (often and queue_ns >= _FULLEST * self.longest_ns))

    @property
    def is_chance(self) -> bool:
        """Whether chance lost them: most packets before them had no delay."""
        if len(self.rank) < _MIN_CHANCE:
            clear = len(self.rank) >= _MIN_CLEAR_CHANCE and self.queue_ns.max() <= _CHANCE_NS
            return bool(clear and np.quantile(self.rank, _QUARTILE) <= _CHANCE_RANK)
        low_ns, waited_ns = np.quantile(self.queue_ns, (_QUARTILE, 0.5))
        far = low_ns <= _CHANCE_NS and waited_ns <= _CHANCE_SHARE * self.longest_ns
        return bool((waited_ns <= _CHANCE_NS or far) and np.quantile(self.rank, _QUARTILE) <= _CHANCE_RANK)


def _in_order(delays: PacketDelays) -> Array:
    """Return which packets no later packet overtook: bool.

    We assume that overtaken packets waited outside of the queue.
    """
    came_ns = delays.time_ns + delays.queue_ns
    later_ns = np.minimum.accumulate(came_ns[::-1])[::-1]
    return np.asarray((came_ns <= np.append(later_ns[1:], came_ns[-1])) | (not delays.is_one_way))


_MIN_COUNTED = 2  # packets sent again; a single one may have been needless. Not measured


def unexplained(of: Carried, *, at_receiver: bool) -> str:
    """Return a sentence that counts lost data, with the queue before them where it is known; "" without losses.

    It is for losses that no rule explains. `at_receiver`: the only capture is the receiver's.
    """
    needed = of.transfer.verdicts["necessity"] == Necessity.NECESSARY
    many, of_all = len(of.lost) or int(np.count_nonzero(needed)), len(of.segments)
    if many < _MIN_COUNTED:
        return ""
    if at_receiver:
        return (
            f"{count(many, 'data packet')} came late to fill a gap, because earlier copies were lost before this "
            "capture; a capture at the other end may show why."
        )
    how = "were lost" if of.transfer.receiver is not None else "were sent again"
    lost = f"{many:,} of {count(of_all, 'data packet')} ({percent(many / of_all)}) {how}"
    losses = of.losses
    runs = 1 + np.count_nonzero(np.diff(of.lost) > 1)
    if losses is None or len(losses.queue_ns) < max(_MIN_FULL, runs / 2) or losses.longest_ns < _FULL_NS:
        return f"{lost}, and no known fault explains why."
    waited, longest = (
        duration(ns) for ns in (losses.waited_s * NS_PER_S, max(losses.longest_ns, losses.queue_ns.max()))
    )
    return (
        f"{lost}: the packets before them had waited {waited} in a queue or on a longer path, others up to {longest}. "
        "A full queue, a managed one (AQM) or a radio may be the cause (weak)."
    )


def rounds(of: Carried, lost: Array) -> float:
    """Return the time from the first to the last loss, divided by the shortest round trip.

    `lost` are indexes in `of.segments`, int64, at least one.
    """
    return float(np.ptp(of.sent_ns[lost])) / of.round_trip_ns
