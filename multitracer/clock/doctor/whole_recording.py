"""The clock doctor's round through a recording: each log by itself, then each clock against the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.clock.doctor.complaints import Complaint, Stamps
from multitracer.clock.doctor.examination import compare, compare_own, compare_spans, examine
from multitracer.clock.model.relation import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from multitracer.capture import Capture
    from multitracer.clock.model.graph import ClockGraph
    from multitracer.logs import LogSource, Point

_STAMPED = {"tcp": "tcp_state", "radio": "radio", "position": "position"}
"""Layer -> the table whose rows tell when its log was written."""


def examine_recording(
    source: LogSource,
    captures: Sequence[tuple[Point, Capture]],
    hosts: dict[str, str],
    graph: ClockGraph,
    reference: Clock,
) -> Iterator[Complaint]:
    """Yield what is wrong with the clocks of a recording.

    Parameters
    ----------
    source : LogSource
    captures : sequence of (Point, Capture)
    hosts : dict of str to str
        Capture point -> host.
    graph : ClockGraph
        How the clocks relate.
    reference : Clock
        Against which the others are held.
    """
    logs = [Stamps.of_capture(point.name, capture) for point, capture in captures]
    for log in logs:
        yield from examine(log)
    complaints: dict[tuple[str, str], Complaint] = {}
    for complaint in _of_clocks(graph, reference):
        complaints.setdefault((complaint.code, complaint.source), complaint)
    yield from complaints.values()
    own = next((log for log in logs if hosts[log.name] == reference.host), None)
    if own is not None and source.folder is not None:
        for log in logs:
            if Clock(hosts[log.name]) not in (reference, *graph.clocks):
                yield from compare_spans(log, own)
        at_host = {hosts[log.name]: log for log in logs}
        for host, log in _others(source):
            yield from compare_spans(log, at_host.get(host, own))


def _of_clocks(graph: ClockGraph, reference: Clock) -> Iterator[Complaint]:
    """Yield the faults between two clocks; those by a host's own readings come first."""
    for relation in graph.relations:
        if (relation.source.domain, relation.target.domain) == ("monotonic", "realtime"):
            yield from compare_own(relation, source=relation.target.host)
    for clock in graph.clocks:
        if clock.domain in {"realtime", "utc"} and clock != reference:
            yield from _against(clock, reference, graph)


def _against(clock: Clock, reference: Clock, graph: ClockGraph) -> Iterator[Complaint]:
    if reference.domain != "realtime":
        return
    direct = [r for r in graph.from_clock(reference) if r.target == clock]
    for relation in sorted(direct, key=lambda r: r.estimates[0].uncertainty_ns)[:1]:
        yield from compare(relation, source=clock.host or "UTC", reference=reference.host or "UTC")


def _others(source: LogSource) -> Iterator[tuple[str, Stamps]]:
    """Yield host and stamps of the logs that are no captures; they cover the same time."""
    for layer, name in _STAMPED.items():
        for log, tables in source.logs(layer):
            if name in tables and len(tables[name]):
                yield log.host, Stamps(log.path, tables[name]["time_ns"])
