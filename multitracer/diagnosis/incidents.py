"""Findings as incidents: what one cause brought about is one entry, and what repeats itself is one, too.

Rules of the file
-----------------
- A hole is an interval in which nothing went forward. Findings that tell of holes and whose intervals
  overlap are parts of one incident; its first cause, in the order of `rules.FIRST_CAUSES`, names it.
- A queue that is too long, and a connection that was given up, are one thing, however many findings say so.
- Incidents of one kind that cost much the same are one entry with a count: their number tells more than
  each of them.
- What an incident cost is at most the sum of its parts, for these may count the same wait; within a hole it
  is for how long it was held back from its begin to its end, if that is less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from multitracer.diagnosis.limits.names import Limit, LimitSubtype
from multitracer.diagnosis.rules import rank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.diagnosis.case import Case, Finding
    from multitracer.tables import Document

_HANDOVER = "handover"
_HOLE = {
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
"""Kinds that tell of a hole, or of what TCP and the link did because of one."""
_ONE_THING = ({"bufferbloat", "overbuffered-link"}, {"reset-by-peer", "stale-data"})
"""Kinds that tell of one and the same: a queue that is too long, a connection that was given up."""
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
"""Limits while which a transfer does not go forward as fast as its link."""
_OF_A_LIMIT = {"link-limited"}
"""Kinds that repeat a limit, whose row has their numbers."""
_ALIKE = 3.0
"""Times the median cost, beyond which an incident is worth an entry of its own."""
_LEAST_ALIKE_SHARE = 0.02
"""Of the transfer's time: below that nobody looks for the dearest one."""
_REPEATED = 3
"""Incidents of a kind from which on they are one entry."""
_DIGITS = 6  # microseconds, as in `diagnose`


@dataclass(frozen=True)
class Incident:
    """One cause and what it brought about; or several of one kind that are alike.

    Attributes
    ----------
    kind : str
        Of the first cause.
    begin_ns, end_ns : int
        By the sender's clock; from the first to the last of several.
    cost_s : float
        Link time that the transfer lost, each wait counted once.
    count : int
        How many there were.
    parts : tuple of int
        Places in `Diagnosis.findings`: the first cause first, then the others by cause and time.
    sentence, help : str
        Of the first cause.
    """

    kind: str
    begin_ns: int
    end_ns: int
    cost_s: float
    count: int
    parts: tuple[int, ...]
    sentence: str
    help: str

    @property
    def is_listed(self) -> bool:
        """Whether text and pages show it: not if it repeats a limit at no cost of its own."""
        return self.cost_s > 0 or self.kind not in _OF_A_LIMIT


def incidents(case: Case, findings: Sequence[Finding]) -> list[Incident]:
    """Return the incidents of a transfer, largest cost first; each finding is part of exactly one."""
    single = [_incident(case, findings, group) for group in _groups(findings)]
    kinds = dict.fromkeys(each.kind for each in single)
    folded = [each for kind in kinds for each in _folded(case, [one for one in single if one.kind == kind])]
    return sorted(folded, key=lambda each: (-each.cost_s, rank(each.kind), each.begin_ns))


def _groups(findings: Sequence[Finding]) -> list[list[int]]:
    """Return the places of findings that are one incident each."""
    places = range(len(findings))
    holes = [place for place in places if _tells_of_a_hole(findings[place])]
    same = [[place for place in places if findings[place].kind in kinds] for kinds in _ONE_THING]
    grouped = {*holes, *(place for group in same for place in group)}
    alone = [[place] for place in places if place not in grouped]
    return [*_overlapping(findings, holes), *filter(None, same), *alone]


def _tells_of_a_hole(finding: Finding) -> bool:
    """Return whether a finding is of a hole: a change of cell that cost nothing is not."""
    return finding.kind in _HOLE and (finding.kind != _HANDOVER or finding.cost_s > 0)


def _overlapping(findings: Sequence[Finding], places: list[int]) -> list[list[int]]:
    """Return runs of findings of which each begins before those ahead of it have ended."""
    groups: list[list[int]] = []
    until = 0
    for place in sorted(places, key=lambda at: findings[at].begin_ns):
        if not groups or findings[place].begin_ns > until:
            groups.append([])
        groups[-1].append(place)
        until = max(until, findings[place].end_ns)
    return groups


def _incident(case: Case, findings: Sequence[Finding], group: list[int]) -> Incident:
    parts = sorted(group, key=lambda at: (rank(findings[at].kind), findings[at].begin_ns))
    first = findings[parts[0]]
    begin_ns, end_ns = min(findings[at].begin_ns for at in parts), max(findings[at].end_ns for at in parts)
    costs = [findings[at].cost_s for at in parts]
    cost_s = sum(costs)
    if len(parts) > 1:
        stopped_s = case.limited_s(*_STOPPED, begin_ns=begin_ns, end_ns=end_ns)
        cost_s = min(cost_s, max(stopped_s, *costs))
    return Incident(first.kind, begin_ns, end_ns, cost_s, 1, tuple(parts), first.sentence, first.help)


def _folded(case: Case, alike: list[Incident]) -> list[Incident]:
    """Return incidents of one kind, those that cost much the same as one entry."""
    costs = sorted(each.cost_s for each in alike)
    most_s = max(_ALIKE * costs[len(costs) // 2], _LEAST_ALIKE_SHARE * case.limited.total_s)
    near = [each for each in alike if each.cost_s <= most_s]
    if len(near) < _REPEATED:
        return alike
    return [*(each for each in alike if each.cost_s > most_s), _one_of(case, near)]


def _one_of(case: Case, several: list[Incident]) -> Incident:
    dearest = max(several, key=lambda each: each.cost_s)
    begin_ns, end_ns = min(each.begin_ns for each in several), max(each.end_ns for each in several)
    cost_s = min(sum(each.cost_s for each in several), case.link_s(begin_ns, end_ns))
    order = sorted(several, key=lambda each: (each is not dearest, each.begin_ns))
    sentence = (
        f"{dearest.sentence} This happened {len(several)} times from {case.at_s(begin_ns):.1f} s to "
        f"{case.at_s(end_ns):.1f} s and cost {cost_s:.1f} s in all."
    )
    parts = tuple(part for each in order for part in each.parts)
    return Incident(dearest.kind, begin_ns, end_ns, cost_s, len(several), parts, sentence, dearest.help)


def document(case: Case, incident: Incident) -> Document:
    """Return an incident as `multitracer diagnose --json` writes it."""
    return {
        "kind": incident.kind,
        "begin_ns": incident.begin_ns,
        "end_ns": incident.end_ns,
        "begin_s": round(case.since_own_syn_s(incident.begin_ns), _DIGITS),
        "end_s": round(case.since_own_syn_s(incident.end_ns), _DIGITS),
        "cost_s": round(incident.cost_s, _DIGITS),
        "count": incident.count,
        "parts": list(incident.parts),
        "sentence": incident.sentence,
        "help": incident.help,
    }
