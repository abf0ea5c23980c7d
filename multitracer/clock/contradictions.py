"""Relations that check each other: two paths between the same clocks must lead to the same time."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.captures.directions import both_ways
from multitracer.clock.sources.paired_stamps import ONE_KERNEL
from multitracer.errors import ClockError
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.capture import CaptureTables
    from multitracer.clock.model.relation import ClockGraph, Relation

_STAMPING_NS = NS_PER_MS
"""Tolerance for the difference between a host's timestamp and the time on the link, ns."""
_TOLERANCE = 1.5
"""Factor on intervals: two 95 % intervals that just do not overlap are not rare."""


def contradictions(graph: ClockGraph) -> list[str]:
    """Return a sentence for each pair of relations between the same two clocks that contradict each other."""
    sentences = []
    for one, other in combinations(graph.relations, 2):
        if {one.source, one.target} == {other.source, other.target}:
            sentences += _contradiction(one, other if other.source == one.source else other.inverse())
    return sentences


def _contradiction(one: Relation, other: Relation) -> list[str]:
    estimate = min((one.estimates[0], other.estimates[0]), key=lambda e: e.last_ns - e.first_ns)
    at = np.array([estimate.first_ns + (estimate.last_ns - estimate.first_ns) // 2], dtype=np.int64)
    here, there = one.place(at), other.place(at)
    apart = abs(int(here.time_ns[0]) - int(there.time_ns[0]))
    allowed = float(here.bound_ns[0] + there.bound_ns[0])
    if apart <= _TOLERANCE * allowed:
        return []
    differ, allow = (f"{ns / NS_PER_MS:,.3f} ms" for ns in (apart, allowed))
    methods = f"{one.method} and {other.method}"
    return [f"{one.source} and {one.target}: {methods} differ by {differ}; their errors allow {allow}"]


def part_false_kernels(graph: ClockGraph, captures: dict[str, CaptureTables]) -> list[str]:
    """Remove relations that claim that two hosts have the same kernel clock, if packets exclude it.

    Return a sentence for each removed relation. Such a relation is inferred from the records of a recorder.
    It is excluded if a packet arrives before it was sent.
    """
    claims = [r for r in graph.relations if r.method == ONE_KERNEL and r.source.domain == "realtime"]
    parted = []
    for claim in claims:
        hosts = claim.source.host, claim.target.host
        if set(hosts) <= captures.keys() and (lead_ns := _earliest(*(captures[host] for host in hosts))) > 0:
            graph.relations[:] = [r for r in graph.relations if not _claims(r, hosts)]
            parted.append(
                f"{hosts[0]} and {hosts[1]}: their readings of clocks are the same, as of one kernel, but "
                f"packets arrive up to {lead_ns / NS_PER_MS:,.3f} ms before they are sent; not believed"
            )
    return parted


def _claims(relation: Relation, hosts: tuple[str, str]) -> bool:
    return relation.method == ONE_KERNEL and (relation.source.host, relation.target.host) == hosts


def _earliest(one: CaptureTables, other: CaptureTables) -> int:
    """Return the maximum time by which a packet arrives before it was sent, ns; 0 if no packet does."""
    try:
        ways = both_ways(one, other)
    except ClockError:  # too few packets to contradict anything
        return 0
    minimum = min(float(way.delay_ns.min()) + way.sign * ways.base_ns for way in (ways.out, ways.back))
    return round(-minimum) if minimum < -_STAMPING_NS else 0
