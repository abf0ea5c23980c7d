"""The clocks of a recording: every relation that its data show, their faults, and the reference clock.

Users enter no offsets. Captures of the same packets, slots of a link and clock readings each give relations.
Two different paths between the same clocks are compared with each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.captures.directions import both_ways, with_packets
from multitracer.clock.captures.two_captures import relate
from multitracer.clock.doctor.examination import examine_recording
from multitracer.clock.model.relation import DOMAINS, Clock, ClockGraph, Placement, Relation
from multitracer.clock.sources.logs_without_capture import relations_of_logs
from multitracer.clock.sources.one_way import free_running_clocks, relate_gps
from multitracer.clock.sources.paired_stamps import (
    ONE_KERNEL,
    UTC,
    relate_slots,
    relations_of_readings,
    relations_of_remote_clocks,
    relations_of_transactions,
)
from multitracer.clock.sources.sync_probes import SYNC_PROBES, probes_in, relations_of_sync_probes, written
from multitracer.errors import ClockError, InputError
from multitracer.manifest import Role
from multitracer.native import kernel
from multitracer.schemas.radio import CLOCK_READINGS, REMOTE_CLOCK
from multitracer.tables import NOT_A_TIME, Table
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from multitracer.capture import CaptureTables
    from multitracer.clock.doctor.faults import Complaint
    from multitracer.clock.model.estimate import Estimate
    from multitracer.logs import LogSource, Point, PointTables
    from multitracer.tables import Array


_MOST_POINTS = 8
"""Maximum number of capture points of which all pairs are examined: each pair takes as long as reading the two
captures."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks of a recording and their relations.

    Attributes
    ----------
    graph : ClockGraph
    reference : Clock
        The clock that times are converted to by default: the wall clock of the TCP sender.
    complaints : tuple of Complaint
        The faults that the doctor found.
    hosts : dict of str to str
        For each capture point the host whose clock it uses.
    warnings : tuple of str
        Relations that contradict each other, a sentence each.
    """

    graph: ClockGraph
    reference: Clock
    complaints: tuple[Complaint, ...] = ()
    hosts: dict[str, str] | None = None
    warnings: tuple[str, ...] = ()

    def of_point(self, name: str) -> Clock:
        """Return the clock of a capture point."""
        return Clock((self.hosts or {}).get(name, name))

    def place(
        self, stamps: Array, source: Clock, target: Clock | None = None, *, with_bounds: bool = True
    ) -> Placement:
        """Return times of a clock converted to the reference or another clock, with their uncertainties.

        Parameters
        ----------
        stamps : ndarray of int64, ns since 1970, shape (n,)
            In the order of their records; NOT_A_TIME is not converted.
        source : Clock
        target : Clock, optional
            The reference by default.
        with_bounds : bool
            Whether to compute the uncertainties, which takes most of the time; otherwise they are NaN.
        """
        return self.graph.place(stamps, source, target or self.reference, with_bounds=with_bounds)

    def path_along(self, stamps: Array, source: Clock, target: Clock) -> tuple[Relation, ...]:
        """Return the path of relations that `place` uses for these times.

        Parameters
        ----------
        stamps : ndarray of int64, ns since 1970, shape (n,)
            None is NOT_A_TIME.
        source, target : Clock

        Raises
        ------
        ClockError
            If nothing connects the two clocks.
        """
        return self.graph.path(source, target, at_ns=[int(stamps.min()), int(stamps.max())] if len(stamps) else ())


def clocks_of(
    source: LogSource,
    captures: Sequence[PointTables],
    *,
    reference: str | None = None,
    thorough: bool = True,
    evidence: bool = False,
) -> Clocks:
    """Return the clocks of a recording and their relations.

    Parameters
    ----------
    source : LogSource
        The logs of the recording.
    captures : sequence of PointTables
        All of its captures, in any order.
    reference : str, optional
        HOST or HOST:DOMAIN; by default the wall clock of the TCP sender.
    thorough : bool
        Determine all relations, and search for faults. Otherwise only relations that are needed to convert
        the times of the captures are determined, which is faster.
    evidence : bool
        Store the packets of each estimate, for a figure.

    Raises
    ------
    InputError
        If the reference is none of the session's clocks.
    """
    hosts = {each.point.name: host_of(source, each.point) for each in captures}
    graph = ClockGraph()
    graph.relations += _of_readings(source, [each.point for each in captures], hosts, probes=thorough)
    graph.relations += relations_of_transactions(source, graph.refused)
    largest = _largest(captures, hosts)
    warnings = part_false_kernels(graph, largest)
    if thorough or not _all_related(graph, largest):
        _add_links(source, graph)
    _add_captures(largest, graph, thorough=thorough, evidence=evidence)
    if thorough:
        _add_positions(source, graph)
        graph.relations += relations_of_logs(source, largest, graph.refused)
    warnings += contradictions(graph)
    chosen = _reference(reference, graph, hosts) if reference else _sender(source, captures, hosts, graph)
    complaints = tuple(examine_recording(source, captures, hosts, graph, chosen)) if thorough else ()
    if thorough and source.folder is not None:
        sender = _sender(source, captures, hosts, graph).host
        graph.relations += free_running_clocks(source, largest, sender, graph.refused)
    return Clocks(graph, chosen, complaints, hosts, tuple(warnings))


def host_of(source: LogSource, point: Point) -> str:
    """Return the name of the host at which a capture was made.

    Several captures of one host have the same clock.
    """
    if source.folder is None:
        return point.name
    parent = Path(point.paths[0]).parent
    return point.name if parent == source.folder else parent.name


def _of_readings(source: LogSource, points: Sequence[Point], hosts: dict[str, str], *, probes: bool) -> list[Relation]:
    """Return the relations that follow from logs of clock readings and from sync probes.

    Captures are searched for sync probes only with `probes`.
    """
    readings, sync_probes = [], []
    for log, tables in source.logs("clock"):
        if CLOCK_READINGS.name in tables:
            table = tables[CLOCK_READINGS.name]
            in_folder = source.folder is not None and log.host != str(source.folder)
            named = (table["host"] != "") & (not in_folder)  # in a host's folder, that host is meant
            host = np.where(named, table["host"], log.host).astype("U64")
            table = Table(table.schema, table.columns | {"host": host}, table.provenance)
            readings.append(table)
            sync_probes += written(table)
    if sync_probes and probes:
        sync_probes += probes_in(points, hosts, sync_probes)
    relations = list(relations_of_readings(Table.concatenate(CLOCK_READINGS, readings)))
    for log, tables in source.logs("radio"):
        if remote := tables.get(REMOTE_CLOCK.name):
            relations += relations_of_remote_clocks(log.host, remote)
    return [*relations, *relations_of_sync_probes(Table.concatenate(SYNC_PROBES, sync_probes))]


def _add_links(source: LogSource, graph: ClockGraph) -> None:
    """Add the relations between the logs of the two sides of a link to the graph, in place."""
    logs = []
    for log, tables in source.logs("link"):
        if frames := tables.get("link_frames"):
            domain = frames.provenance.get("header", {}).get("clock", "realtime")
            logs.append((Clock(log.host, domain if domain in DOMAINS else "realtime"), frames))
    for (one, near), (other, far) in combinations(logs, 2):
        if one.host != other.host:
            _add(graph, one, other, partial(relate_slots, near, far))


def _add_positions(source: LogSource, graph: ClockGraph) -> None:
    """Add the relations between GPS time and the clocks of hosts with a GPS receiver, in place."""
    for log, tables in source.logs("position"):
        if positions := tables.get("position"):
            _add(graph, Clock(log.host), UTC, partial(relate_gps, positions))


def _largest(captures: Sequence[PointTables], hosts: dict[str, str]) -> dict[str, CaptureTables]:
    """Return the largest capture of each host, without segments that have no time."""
    largest: dict[str, CaptureTables] = {}
    for each in captures:
        host = hosts[each.point.name]
        if len(each.tables.segments) > (len(largest[host].segments) if host in largest else 0):
            largest[host] = each.tables
    return {host: capture.between(NOT_A_TIME + 1, None) for host, capture in largest.items()}


def _add_captures(largest: dict[str, CaptureTables], graph: ClockGraph, *, thorough: bool, evidence: bool) -> None:
    """Add the relations that captures of each pair of hosts give, in place.

    Unless `thorough`, captures are compared only if there is no other relation between their hosts.
    """
    for one, other in combinations([Clock(host) for host in largest][:_MOST_POINTS], 2):
        if thorough or not _related(graph, one, other):
            near, far = largest[one.host], largest[other.host]
            _add(graph, one, other, partial(_of_packets, near, far, evidence=evidence))


def _all_related(graph: ClockGraph, hosts: Iterable[str]) -> bool:
    return all(_related(graph, one, other) for one, other in combinations(map(Clock, hosts), 2))


def _related(graph: ClockGraph, one: Clock, other: Clock) -> bool:
    try:
        graph.path(one, other)
    except ClockError:
        return False
    return True


def _of_packets(near: CaptureTables, far: CaptureTables, *, evidence: bool) -> list[Estimate]:
    estimates = relate(near, far)
    return with_packets(estimates, near, far) if evidence else estimates


def _add(graph: ClockGraph, one: Clock, other: Clock, estimates: Callable[[], list[Estimate]]) -> None:
    """Add a relation to the graph, or the reason why it cannot be determined, in place."""
    try:
        graph.relations.append(Relation(one, other, tuple(estimates())))
    except ClockError as error:
        graph.refused.append(f"{one.host} and {other.host or other}: {error}")


# --- the reference ---


def _reference(text: str, graph: ClockGraph, hosts: dict[str, str]) -> Clock:
    clock = Clock.parse(text)
    known = dict.fromkeys([*(Clock(host) for host in hosts.values()), *graph.clocks])
    if clock not in known:
        names = ", ".join(map(str, known))
        raise InputError(f"this recording has no clock {str(clock)!r}; the clocks are {names or 'none'}")
    return clock


def _sender(source: LogSource, captures: Sequence[PointTables], hosts: dict[str, str], graph: ClockGraph) -> Clock:
    """Return the wall clock of the TCP sender.

    The manifest gives the sender; else it is the host where ACKs come late after data. Without a capture, the
    result is the first wall clock.
    """
    stated = source.manifest.hosts if source.manifest else {}
    named = [name for name, host in stated.items() if host.role is Role.SENDER]
    if named and (named[0] in hosts.values() or not captures):
        return Clock(named[0])
    waits = [(_wait_ns(each.tables), -i) for i, each in enumerate(captures)]
    if not waits:
        wall = [clock for clock in graph.clocks if clock.domain == "realtime"]
        return wall[0] if wall else Clock(next(iter(stated), source.name))
    return Clock(hosts[captures[-max(waits)[1]].point.name])


def _first_of_each(values: Array) -> tuple[Array, Array]:
    """Return the distinct values in ascending order, and the first index of each value.

    Only values that do not exceed all earlier ones are sorted; in a mostly ascending array these are few.
    """
    rises = np.ones(len(values), dtype=bool)
    np.greater(values[1:], np.maximum.accumulate(values)[:-1], out=rises[1:])
    first = np.flatnonzero(rises)
    rest = np.flatnonzero(~rises)
    if not len(rest):
        return values[first], first
    rest = rest[np.argsort(values[rest], kind="stable")]
    late, high = values[rest], values[first]
    at = np.searchsorted(high, late)
    is_new = high[np.minimum(at, len(high) - 1)] != late
    is_new[1:] &= late[1:] != late[:-1]
    index = np.insert(first, at[is_new], rest[is_new])
    return values[index], index


def _wait_ns(capture: CaptureTables) -> float:
    """Return the median time from a data segment to the ACK of exactly its last byte, ns.

    Only the direction with more data is used.
    """
    table = capture.segments
    if not len(table):
        return -1.0
    carries = np.flatnonzero(table["payload_bytes"] > 0)
    sender = table["flow"][carries]
    flow = int(np.argmax(np.bincount(sender, weights=table["payload_bytes"][carries], minlength=1)))
    data = carries[sender == flow]
    acks = np.flatnonzero(table["flow"] == flow ^ 1)
    end = table["seq"][data] + table["payload_bytes"][data].astype(np.uint32)  # wraps around at 2^32
    ends, first = _first_of_each(end.astype(np.int64))
    numbers, answer = _first_of_each(table["ack"][acks].astype(np.int64))
    native = kernel()
    at = None if native is None else native.places(ends, numbers, False)  # not the right side
    at = np.searchsorted(ends, numbers) if at is None else at
    then = np.flatnonzero(np.append(ends, -1)[at] == numbers)
    at = at[then]
    waited = table["time_ns"][acks[answer[then]]] - table["time_ns"][data[first[at]]]
    return float(np.median(waited)) if len(waited) else -1.0


# Relations that check each other: two paths between the same clocks must lead to the same time.


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
