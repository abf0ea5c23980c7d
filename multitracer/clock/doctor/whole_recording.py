"""The clock doctor's round through a recording: each log by itself, then each clock against the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.doctor.complaints import Complaint, Stamps
from multitracer.clock.doctor.examination import apart, compare, compare_own, compare_spans, examine
from multitracer.clock.doctor.faults_alone import OF_LOGS
from multitracer.clock.doctor.faults_of_lines import EFFECT_FIRST
from multitracer.clock.doctor.no_service import no_service
from multitracer.clock.model.relation import Clock
from multitracer.radio import RADIO

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from multitracer.capture import Capture
    from multitracer.clock.model.graph import ClockGraph
    from multitracer.logs import LogSource, Point
    from multitracer.tables import Table, Times

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
    alone = [complaint for log in logs for complaint in examine(log)]
    yield from alone
    complaints: dict[tuple[str, str], Complaint] = {}
    set_back = frozenset(hosts[each.source] for each in alone if each.code == "steps-back")
    for complaint in _of_clocks(graph, reference, set_back):
        complaints.setdefault((complaint.code, complaint.source), complaint)
    yield from (each for each in complaints.values() if each.code != EFFECT_FIRST or not alone)
    if source.folder is None:
        return
    own = next((log for log in logs if hosts[log.name] == reference.host), None)
    for log in logs:
        if own is not None and Clock(hosts[log.name]) not in (reference, *graph.clocks):
            named = compare_spans(log, own)
            yield from named or filter(None, [apart(log, [own])])
    captured: dict[str, list[Stamps]] = {}
    for log in logs:
        captured.setdefault(hosts[log.name], []).append(log)
    others = list(_others(source))
    for _, _, log in others:
        yield from examine(log, OF_LOGS)
    yield from _of_others(others, captured, own, graph)
    yield from _of_silences(source, captured)


def _of_silences(source: LogSource, captured: dict[str, list[Stamps]]) -> Iterator[Complaint]:
    """Yield what the radio logs say of hosts whose captures contradict it."""
    for log, tables in source.logs("radio"):
        radio = tables.get(RADIO.name)
        pairs = [(at.name, at.capture) for at in captured.get(log.host, ()) if radio is not None]
        complaints = (
            no_service(log.path, name, radio, capture) for name, capture in pairs if radio and capture
        )
        yield from list(filter(None, complaints))[:1]


def _of_others(
    others: Sequence[tuple[str, str, Stamps]],
    captured: dict[str, list[Stamps]],
    own: Stamps | None,
    graph: ClockGraph,
) -> Iterator[Complaint]:
    """Yield what is wrong with the times of the logs that are no captures.

    Parameters
    ----------
    others : sequence of (str, str, Stamps)
        Host, layer and stamps of each.
    captured : dict of str to list of Stamps
        Host -> its captures.
    own : Stamps, optional
        The capture on the reference clock.
    graph : ClockGraph
        How the clocks relate.
    """
    everywhere = [log for logs in captured.values() for log in logs]
    positions = [log for _, layer, log in others if layer == "position"]
    overlapping, lonely = set(), {}
    for host, layer, log in others:
        overlapped = captured.get(host, everywhere if Clock(host) not in graph.clocks else [])
        named = list(compare_spans(log, captured[host][-1] if host in captured else own)) if own else []
        yield from named
        complaint = apart(log, overlapped or (positions if layer == "radio" and not captured else []))
        if complaint is None:
            overlapping.add((host, layer))
        elif not named:
            lonely[host, layer, log.name] = complaint
    for (host, layer, _), complaint in lonely.items():
        if (host, layer) not in overlapping:  # a file of several that follow each other
            yield complaint


def _of_clocks(graph: ClockGraph, reference: Clock, set_back: frozenset[str]) -> Iterator[Complaint]:
    """Yield the faults between two clocks; those by a host's own readings come first."""
    for relation in graph.relations:
        if (relation.source.domain, relation.target.domain) == ("monotonic", "realtime"):
            yield from compare_own(relation, source=relation.target.host)
    for clock in graph.clocks:
        if clock.domain in {"realtime", "utc"} and clock != reference:
            yield from _against(clock, reference, graph, set_back)


def _against(
    clock: Clock, reference: Clock, graph: ClockGraph, set_back: frozenset[str]
) -> Iterator[Complaint]:
    if reference.domain != "realtime":
        return
    direct = [r for r in graph.from_clock(reference) if r.target == clock]
    for relation in sorted(direct, key=lambda r: r.estimates[0].uncertainty_ns)[:1]:
        source, other = clock.host or "UTC", reference.host or "UTC"
        yield from compare(relation, source=source, reference=other, set_back=set_back)


def _others(source: LogSource) -> Iterator[tuple[str, str, Stamps]]:
    """Yield host, layer and stamps of the logs that are no captures; they cover the same time."""
    for layer, name in _STAMPED.items():
        for log, tables in source.logs(layer):
            if name in tables and len(tables[name]):
                yield log.host, layer, Stamps(log.path, _as_written(tables[name]))


def _as_written(table: Table) -> Times:
    """Return the time of each line of a log that has several rows of one, in the order of the lines."""
    if "line" not in table.columns:
        return table["time_ns"]
    _, first = np.unique(table["line"], return_index=True)
    return np.asarray(table["time_ns"][first])
