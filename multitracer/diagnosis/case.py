"""What a rule works on: a transfer, what limited it, its link's account; and what it concludes: findings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.limits.at_sender import offered_bytes
from multitracer.diagnosis.packets.dead_times import DeadTime, dead_times
from multitracer.diagnosis.packets.losses import Carried, carried
from multitracer.diagnosis.packets.mtu_holes import mtu_holes
from multitracer.diagnosis.packets.opening_and_end import HandshakeAndResets
from multitracer.diagnosis.packets.packet_delays import PacketDelays, WireSegments, all_delays, wire_segments
from multitracer.diagnosis.packets.policing import Policing
from multitracer.diagnosis.service_times import ArrivalGaps, arrival_gaps, own_time_ns
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.diagnosis.account.link_account import LinkAccount
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.diagnosis.limits.names import Limit, LimitSubtype
    from multitracer.diagnosis.transfer import Transfer
    from multitracer.tables import Array

MOST_EVIDENCE = 12
"""Rows that a finding names; the interval holds all of them."""


class Finding(NamedTuple):
    """One occurrence of one diagnosis."""

    kind: str
    begin_ns: int
    """By the sender's clock, recorded time."""
    end_ns: int
    cost_s: float
    """Link time that the transfer lost by it."""
    cost_bytes: int | None
    """Payload that had to be sent again, or was lost, because of it."""
    evidence: tuple[str, ...]
    """Rows it rests on, as `table:row`."""
    sentence: str
    help: str = ""
    """What would help, one sentence; the rule's `HELP` if a finding brings none."""
    numbers: Mapping[str, float] = MappingProxyType({})
    """Numbers of it by name with unit: `added_delay_s`, `lost_packets`."""


@dataclass(frozen=True)
class Case:
    """A transfer with what limited it, and what is measured of its packets, each once."""

    limited: Limited

    @property
    def transfer(self) -> Transfer:
        """The transfer in every log."""
        return self.limited.transfer

    @property
    def account(self) -> LinkAccount:
        """The account of its link; empty where the link was not logged."""
        return self.limited.account

    def measure_shared(self) -> None:
        """Measure what several rules ask for, before they run side by side.

        From Python 3.12 on a cached property does not wait for the thread that measures it.
        """
        self.transfer.joined, self.transfer.verdicts, self.opening, self.carried  # noqa: B018
        if not self.is_link_logged:
            self.usual_delays, self.own_time_ns, self.mtu_holes, self.carried.losses  # noqa: B018

    @property
    def is_link_logged(self) -> bool:
        """Whether a log of the link tells what was lost, and when: packets have nothing to add to it."""
        return self.account.is_logged

    @cached_property
    def dead_times(self) -> list[DeadTime]:
        """When nothing came back though data were outstanding, by the packets."""
        seen = self.limited.seen
        known = None if seen is None else seen.dead_times
        return dead_times(self.transfer) if known is None else known

    @cached_property
    def opening(self) -> HandshakeAndResets:
        """How the connection was opened, and its resets."""
        return HandshakeAndResets(self.transfer)

    @cached_property
    def mtu_holes(self) -> list[DeadTime]:
        """The dead times in which only segments of full size vanished."""
        dead = self.dead_times
        return mtu_holes(self.transfer, self.segments, dead, self.largest_bytes) if dead else []

    @property
    def largest_bytes(self) -> int:
        """Payload of the largest segment on the path: what is larger than was offered is cut."""
        largest = int(self.transfer.payload_bytes.max())
        offered = offered_bytes(self.transfer)
        return largest if offered is None else min(largest, offered)

    @cached_property
    def arrival_gaps(self) -> ArrivalGaps | None:
        """How long the link had each full segment; None where nothing shows it."""
        seen = self.limited.seen
        return None if seen is None else arrival_gaps(self.limited, self.carried, self.full_bytes)

    @cached_property
    def own_time_ns(self) -> float:
        """The link's own time for a full segment; 0 where nothing shows it."""
        return 0.0 if self.arrival_gaps is None else own_time_ns(self.arrival_gaps)

    @cached_property
    def policing(self) -> Policing:
        """Whether a policer lost packets."""
        seen = self.limited.seen
        known = None if seen is None else seen.policing
        return Policing(self.carried) if known is None else known

    @property
    def delays(self) -> PacketDelays | None:
        """How long the data waited; None if no capture shows it."""
        return self.carried.delays

    @cached_property
    def usual_delays(self) -> PacketDelays | None:
        """The same; of segments of all sizes where most are not full and both ends were captured."""
        full = self.delays
        if full is None or not full.is_one_way or 2 * len(full.row) >= len(self.segments):
            return full
        return all_delays(self.transfer, self.segments)

    @cached_property
    def segments(self) -> WireSegments:
        """The data as the path carried them."""
        seen = self.limited.seen
        if seen is not None and seen.carried is not None:
            return seen.carried.segments
        if seen is not None and seen.segments is not None:
            return seen.segments
        return wire_segments(self.transfer, self.full_bytes, offered_bytes(self.transfer))

    @cached_property
    def full_bytes(self) -> int:
        """Payload of a full segment; what devices cut or joined is larger."""
        if self.limited.seen is not None:
            return self.limited.seen.mss_bytes
        return max(int(self.transfer.payload_bytes.max(initial=0)), 1)

    @property
    def lost(self) -> Array:
        """Indexes in `segments` of what was lost on its way, but not in a dead time: int64, ascending."""
        return self.carried.lost

    @cached_property
    def carried(self) -> Carried:
        """The data, with what was lost and how long the others waited."""
        seen = self.limited.seen
        known = None if seen is None else seen.carried
        return carried(self.transfer, self.segments, self.dead_times) if known is None else known

    def limited_s(
        self,
        *limits: Limit | tuple[Limit, LimitSubtype],
        begin_ns: int | None = None,
        end_ns: int | None = None,
    ) -> float:
        """Return the link time that some limits, or parts of limits, held within an interval."""
        cells = self.limited.cells
        chosen = np.zeros(len(cells.begin), dtype=bool)
        for each in limits:
            limit, part = each if isinstance(each, tuple) else (each, None)
            chosen |= (cells.limit == limit) & (part is None or cells.part == part)
        begin = cells.begin if begin_ns is None else np.maximum(cells.begin, begin_ns)
        end = cells.end if end_ns is None else np.minimum(cells.end, end_ns)
        return self.link_s(0, int(np.maximum(end - begin, 0)[chosen].sum()))

    def link_s(self, begin_ns: int, end_ns: int) -> float:
        """Return the link time between two stamps."""
        return (end_ns - begin_ns) * self.transfer.speed / NS_PER_S

    def at_s(self, time_ns: int) -> float:
        """Return a stamp as link seconds since the connection's first SYN, as T begins."""
        return self.link_s(self._begin_ns, time_ns)

    def since_own_syn_s(self, time_ns: int) -> float:
        """Return a stamp as link seconds since the data sender's SYN, as documents count."""
        return self.link_s(self.transfer.begin_ns, time_ns)

    @property
    def _begin_ns(self) -> int:
        """When T began: before the data's own SYN, if that answered another."""
        known = len(self.limited.cells.begin) > 0
        return min(self.limited.begin_ns, self.transfer.begin_ns) if known else self.transfer.begin_ns


def rows(table: str, numbers: Array | list[int]) -> tuple[str, ...]:
    """Return rows as evidence; of many the first and the last few.

    Parameters
    ----------
    table : str
    numbers : ndarray of int64, shape (n,), or list of int
        Rows of the table.
    """
    return few([f"{table}:{int(number)}" for number in numbers])


def few(places: list[str]) -> tuple[str, ...]:
    """Return rows named already as evidence; of many the first and the last few."""
    half = MOST_EVIDENCE // 2
    return tuple(places if len(places) <= MOST_EVIDENCE else places[:half] + places[-half:])


def episodes(times_ns: Array, *, apart_ns: int) -> list[tuple[int, int]]:
    """Return where runs of sorted stamps begin and end, as [first, last + 1): a longer gap parts them.

    Parameters
    ----------
    times_ns : ndarray of int64, ns, shape (n,)
        Ascending; never NA.
    apart_ns : int
        The longest gap within a run.
    """
    if not len(times_ns):
        return []
    breaks = np.flatnonzero(np.diff(times_ns) > apart_ns) + 1
    starts = [0, *breaks.tolist()]
    return list(zip(starts, [*breaks.tolist(), len(times_ns)], strict=True))
