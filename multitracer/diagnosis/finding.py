"""The result of a rule: findings, and the table rows that support them; and incidents, which merge findings.

Rules of incidents
------------------
- A hole is an interval without progress. Findings of holes whose intervals overlap are parts of one incident;
  its first cause, in the order of `FIRST_CAUSES`, names it.
- All findings about an oversized queue are one incident, and so are all findings about an aborted connection.
- Findings of both directions are separate incidents.
- Similar incidents of one kind with similar costs are one entry with a count.
- The cost of an incident is at most the sum of its parts, which may count the same wait twice. Within a hole
  the cost is also at most the stopped time between begin and end.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from multitracer.diagnosis.limits.names import Limit, LimitSubtype, RadioCause

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.tables import Array

MOST_EVIDENCE = 12
"""Maximum number of rows that a finding names; its interval contains all of them."""
ORDER_DIGITS = 3
"""Decimals of costs in seconds that determine the order of findings: costs equal to a millisecond are equal."""


class Finding(NamedTuple):
    """One occurrence of a problem, found by one rule."""

    kind: str
    begin_ns: int
    """Start on the sender's clock, in recorded time."""
    end_ns: int
    cost_s: float
    """Link time that the transfer lost by it, in seconds."""
    cost_bytes: int | None
    """Payload bytes that were sent again, or lost, because of it; None if not counted."""
    evidence: tuple[str, ...]
    """The rows that support it, as `table:row`."""
    sentence: str
    help: str = ""
    """A remedy in one sentence; the rule's `HELP` if empty."""
    numbers: Mapping[str, float] = MappingProxyType({})
    """Its numbers by name with unit, for example `added_delay_s`, `lost_packets`."""
    reverse: bool = False
    """Whose data it is about: False the initiator's, True the responder's; set where the rules are asked."""


def rows(table: str, numbers: Array | list[int]) -> tuple[str, ...]:
    """Return rows as evidence, `table:row` each; of many rows, only the first and the last few.

    Parameters
    ----------
    table : str
    numbers : ndarray of int64, shape (n,), or list of int
        Rows of the table.
    """
    return few([f"{table}:{int(number)}" for number in numbers])


def few(places: list[str]) -> tuple[str, ...]:
    """Return the strings unchanged; of many, only the first and the last few."""
    half = MOST_EVIDENCE // 2
    return tuple(places if len(places) <= MOST_EVIDENCE else places[:half] + places[-half:])


def episodes(times_ns: Array, *, apart_ns: int) -> list[tuple[int, int]]:
    """Return the runs of times without a gap above `apart_ns`, as pairs (first index, last index + 1).

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


# --- incidents ---

_WORTH_SAYING_S = 0.05
"""Minimum cost of an incident in s that its sentence names: less is 0.0."""
_OF_SIGNALLING = ("rejected", "radio-link-failure", "release", "secondary-leg", "promotion")
"""Kinds of what data waited for between phone and network, as the causes in `OF_SIGNALLING` are called."""
FIRST_CAUSES = (
    "dropped-call",
    "syn-unanswered",
    "connection-refused",
    "idle-timeout",
    "rst-injected",
    "reset-by-peer",
    "sack-not-translated",
    "path-mtu-black-hole",
    *_OF_SIGNALLING,
    "handover",
    "blackout",
    "outage",
    "link-reset",
    "header-decompressor-failure",
    "policer",
    "ack-loss",
    "exponential-back-off",
    "spurious-timeout",
    "competing-retransmission",
    "local-buffer-overflow",
    "congestion-loss",
    "random-loss",
    "rlp-retransmission-burst",
    "radio-limited",
    "link-flow-control",
    "bufferbloat",
    "overbuffered-link",
    "stale-data",
)
"""Kinds of findings, causes before consequences: the order of findings of equal cost. Others follow by name."""


def rank(kind: str) -> int:
    """Return the position of a kind of finding in `FIRST_CAUSES`; kinds that are not listed come last."""
    return FIRST_CAUSES.index(kind) if kind in FIRST_CAUSES else len(FIRST_CAUSES)


_HANDOVER = "handover"
HOLES = {
    *_OF_SIGNALLING,
    "dropped-call",
    _HANDOVER,
    "blackout",
    "outage",
    "link-reset",
    "header-decompressor-failure",
    "ack-loss",
    "exponential-back-off",
    "spurious-timeout",
    "competing-retransmission",
    "rlp-retransmission-burst",
    "path-mtu-black-hole",
    "idle-timeout",
}
"""Kinds that describe a hole, or a reaction of TCP or the link to one."""
INTERRUPTIONS = ("blackout", "outage", "exponential-back-off")
"""Kinds of holes whose sentence tells what stopped, and not why; the cause that the radio log shows comes first."""
LIMITS_OF = {"link-limited": (Limit.LINK,)}
"""Limits whose cause is that of a finding which describes no hole."""
_ONE_THING = ({"bufferbloat", "overbuffered-link"}, {"reset-by-peer", "stale-data"})
"""Sets of kinds that describe the same incident: an oversized queue, an aborted connection."""
_STOPPED = (
    Limit.HANDSHAKE,
    Limit.OUTAGE,
    Limit.RECOVERY,
    Limit.RECEIVER_WINDOW,
    Limit.SENDER_BUFFER,
    Limit.SLOW_START,
    Limit.CONGESTION_WINDOW,
    (Limit.LINK, LimitSubtype.ARQ),
    (Limit.LINK, LimitSubtype.XOFF),
)
"""Limits during which a transfer is slower than its link."""
_OF_A_LIMIT = {"link-limited"}
"""Kinds that repeat a limit, whose row already has their numbers."""
_ALIKE = 3.0
"""Factor above the median cost from which on an incident is an entry of its own."""
_MIN_ALIKE_SHARE = 0.02
"""Minimum share of the transfer's time for such an entry of its own."""
_REPEATED = 3
"""Minimum number of incidents of a kind that become one entry."""


@dataclass(frozen=True)
class Incident:
    """A finding together with its consequences, or several similar findings of one kind.

    Attributes
    ----------
    kind : str
        Kind of the first cause.
    begin_ns, end_ns : int
        Interval on the sender's clock; from the first to the last of several.
    cost_s : float
        Link time that the transfer lost, in seconds, each wait counted once.
    count : int
        Number of incidents.
    parts : tuple of int
        Indexes in `Diagnosis.findings`: the first cause first, then the others by cause and time.
    sentence, help : str
        Texts of the first cause.
    cause : RadioCause
        What the radio log shows as the cause; unknown without one.
    """

    kind: str
    begin_ns: int
    end_ns: int
    cost_s: float
    count: int
    parts: tuple[int, ...]
    sentence: str
    help: str
    reverse: bool = False
    """Whose data it is about: False the initiator's, True the responder's."""
    cause: RadioCause = RadioCause.UNKNOWN

    is_weak: bool = False
    """Whether its cost is only an upper bound: most of that time may be another limit's."""

    @property
    def is_listed(self) -> bool:
        """Whether text and pages show the incident: False if it only repeats a limit and lost no time."""
        return self.cost_s > 0 or self.kind not in _OF_A_LIMIT


COST_LIMITS: dict[str, Limit] = {
    "application-limited": Limit.APPLICATION,
    "client-think-time": Limit.APPLICATION,
    "link-limited": Limit.LINK,
    "nagle-delayed-ack": Limit.APPLICATION,
    "receiver-limited": Limit.RECEIVER_WINDOW,
    "send-buffer-limited": Limit.SENDER_BUFFER,
    "server-think-time": Limit.APPLICATION,
    "slow-start-limited": Limit.SLOW_START,
    "zero-window": Limit.RECEIVER_WINDOW,
}
"""The limit whose time a kind of finding costs; others cost the time of repairs and outages, as `STOPS` has them."""


BY_PACKETS = "by_packets_alone"
"""Number of a finding that packets suggest and nothing proves: its cost is an upper bound."""


def cost_of(words: str, *, is_weak: bool) -> str:
    """Return a cost in words: "at most 2.2 s" if it is only an upper bound."""
    return f"at most {words}" if is_weak else words


class Transferred(Protocol):
    """What is asked of the diagnosis of a transfer: its limits, and its times in seconds."""

    @property
    def limited(self) -> Limited:
        """Its limits."""

    def limited_s(
        self, *limits: Limit | tuple[Limit, LimitSubtype], begin_ns: int | None = None, end_ns: int | None = None
    ) -> float:
        """Return the link time in seconds, within an interval, in which one of these limits was in effect."""

    def is_weak(self, finding: Finding) -> bool:
        """Return whether its cost is only an upper bound."""

    def link_s(self, begin_ns: int, end_ns: int) -> float:
        """Return the link time in seconds between two times."""

    def at_s(self, time_ns: int) -> float:
        """Return a time as seconds since the first SYN."""


def incidents_of(diagnosis: Transferred, findings: Sequence[Finding]) -> list[Incident]:
    """Return the incidents of a transfer, those with the most lost time first.

    Each finding is part of exactly one incident.
    """
    single = []
    for group in _groups(findings):
        parts = sorted(group, key=lambda at: (rank(findings[at].kind), findings[at].begin_ns))
        first, own = findings[parts[0]], [findings[at] for at in parts]
        begin_ns, end_ns = min(each.begin_ns for each in own), max(each.end_ns for each in own)
        cost_s = sum(each.cost_s for each in own)
        if len(parts) > 1:
            stopped_s = diagnosis.limited_s(*_STOPPED, begin_ns=begin_ns, end_ns=end_ns)
            cost_s = min(cost_s, max(stopped_s, *(each.cost_s for each in own)))
        words = first.sentence, first.help, first.reverse
        is_weak = any(diagnosis.is_weak(each) for each in own)
        single.append(Incident(first.kind, begin_ns, end_ns, cost_s, 1, tuple(parts), *words, is_weak=is_weak))
    by_kind: dict[str, list[Incident]] = {}
    for incident in single:
        by_kind.setdefault(incident.kind, []).append(incident)
    aggregated = []
    for alike in by_kind.values():  # those of one kind that cost much the same are one entry
        costs = sorted(each.cost_s for each in alike)
        most_s = max(_ALIKE * costs[len(costs) // 2], _MIN_ALIKE_SHARE * diagnosis.limited.total_s)
        near = [each for each in alike if each.cost_s <= most_s]
        if len(near) < _REPEATED:
            aggregated += alike
            continue
        dearest = max(near, key=lambda each: round(each.cost_s, ORDER_DIGITS))  # of equal costs the first
        begin_ns, end_ns = min(each.begin_ns for each in near), max(each.end_ns for each in near)
        cost_s = min(sum(each.cost_s for each in near), diagnosis.link_s(begin_ns, end_ns))
        near.sort(key=lambda each: each.begin_ns)
        ordered = [dearest, *(each for each in near if each is not dearest)]
        is_weak = any(each.is_weak for each in near)
        cost = f" and cost {cost_of(f'{cost_s:.1f} s', is_weak=is_weak)} in all" if cost_s >= _WORTH_SAYING_S else ""
        sentence = (
            f"{dearest.sentence} This happened {len(near)} times from {diagnosis.at_s(begin_ns):.1f} s to "
            f"{diagnosis.at_s(end_ns):.1f} s{cost}."
        )
        places = tuple(part for each in ordered for part in each.parts)
        words = sentence, dearest.help, dearest.reverse
        one = Incident(dearest.kind, begin_ns, end_ns, cost_s, len(near), places, *words, is_weak=is_weak)
        aggregated += [*(each for each in alike if each.cost_s > most_s), one]
    return sorted(aggregated, key=dearest_first)


def dearest_first(incident: Incident) -> tuple[float, int, int]:
    """Return the key by which incidents are in order."""
    return -round(incident.cost_s, ORDER_DIGITS), rank(incident.kind), incident.begin_ns


def _groups(findings: Sequence[Finding]) -> list[list[int]]:
    """Return a list of indexes in `findings` for each incident; each finding is in exactly one list."""
    places = range(len(findings))
    holes: list[list[int]] = []
    until = 0
    for place in sorted(places, key=lambda at: findings[at].begin_ns):
        each = findings[place]
        if each.kind not in HOLES or (each.kind == _HANDOVER and each.cost_s <= 0):
            continue  # a change of cell that cost nothing is no hole
        if not holes or each.begin_ns > until:
            holes.append([])
        holes[-1].append(place)
        until = max(until, each.end_ns)
    same = [[place for place in places if findings[place].kind in kinds] for kinds in _ONE_THING]
    grouped = {place for group in (*holes, *same) for place in group}
    alone = [[place] for place in places if place not in grouped]
    return [*holes, *filter(None, same), *alone]
