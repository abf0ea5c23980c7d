"""The clock graph as tables: `clock_edges` has a row for each interval of each relation.

`clock_mapping` has, for each clock, the conversion of its times to the reference, with all relations of the
path combined, or the reason why there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.model.estimate import PPM, Estimate
from multitracer.clock.model.relation import Clock, Relation
from multitracer.errors import ClockError
from multitracer.tables import NOT_A_TIME, Column, Schema, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from multitracer.clock.model.relation import ClockGraph, ClockPath
    from multitracer.tables import Row

_LINE = (
    Column("first_ns", "int64", "first stamp of `from` for which it holds", "ns since its clock's zero"),
    Column("last_ns", "int64", "last stamp", "ns since its clock's zero"),
    Column("offset_ns", "int64", "`to` - `from` at first_ns; positive where `to` is ahead", "ns"),
    Column("skew_ppm", "float64", "how much faster `to` runs", "ppm"),
    Column("uncertainty_ns", "float64", "half-width of the 95 % interval of the offset at first_ns", "ns"),
    Column("skew_uncertainty_ppm", "float64", "half-width of the 95 % interval of the skew", "ppm"),
    Column("pivot_ns", "int64", "where errors of offset and skew are independent", "ns since its clock's zero"),
)
CLOCK_EDGES = Schema(
    "clock_edges",
    (
        Column("from_host", "U128", "host or file of the clock `from`"),
        Column("from_domain", "U16", "which of its clocks: realtime, monotonic, ..."),
        Column("to_host", "U128", "host or file of the clock `to`; empty for UTC"),
        Column("to_domain", "U16", "which of its clocks"),
        *_LINE,
        Column("lower_ns", "int64", "causality: the offset at first_ns is at least this", "ns"),
        Column("upper_ns", "int64", "causality: the offset at first_ns is at most this", "ns"),
        Column("method", "U64", "how it was found"),
        Column("evidence", "int64", "observations that it rests on"),
        Column("notes", "U512", "what the reader should know"),
    ),
)
"""The schema of relations of two clocks, one interval a row: to = from + offset_ns + skew_ppm * 1e-6 * (from -
first_ns)."""

CLOCK_MAPPING = Schema(
    "clock_mapping",
    (
        Column("host", "U128", "host or file of the clock"),
        Column("domain", "U16", "which of its clocks"),
        Column("reference", "U160", "the clock that it is mapped onto"),
        *_LINE,
        Column("path", "U512", "the methods of the hops, first to last"),
        Column("reason", "U512", "why it cannot be mapped; empty if it can"),
    ),
)
"""The schema of conversions to the reference; a clock without a conversion has a row with the reason."""


def edges_table(relations: Iterable[Relation]) -> Table:
    """Return CLOCK_EDGES of the relations."""
    return _table(CLOCK_EDGES, [_edge(relation, e) for relation in relations for e in relation.estimates])


def _edge(relation: Relation, estimate: Estimate) -> Row:
    bounds = {name: getattr(estimate, name) for name in ("lower_ns", "upper_ns")}
    return {
        "from_host": relation.source.host,
        "from_domain": relation.source.domain,
        "to_host": relation.target.host,
        "to_domain": relation.target.domain,
        **_line(estimate),
        **{name: NOT_A_TIME if value is None else value for name, value in bounds.items()},
        "method": estimate.method,
        "evidence": estimate.evidence,
        "notes": "; ".join(estimate.notes),
    }


def _line(estimate: Estimate) -> Row:
    names = [column.name for column in _LINE[:-1]]
    return {name: getattr(estimate, name) for name in names} | {"pivot_ns": estimate.pivot}


def _table(schema: Schema, rows: list[Row]) -> Table:
    return Table(schema, {c.name: np.array([row[c.name] for row in rows], dtype=c.dtype) for c in schema})


def relations_of(table: Table) -> list[Relation]:
    """Return the relations in CLOCK_EDGES, without their evidence."""
    estimates_of: dict[tuple[Clock, Clock, str], list[Estimate]] = {}
    for row in table.rows():
        ends = Clock(row["from_host"], row["from_domain"]), Clock(row["to_host"], row["to_domain"])
        fields = {c.name: row[c.name] for c in CLOCK_EDGES.columns[4:-1]}
        notes = tuple(filter(None, row["notes"].split("; ")))
        estimates_of.setdefault((*ends, row["method"]), []).append(Estimate(**fields, notes=notes))
    return [Relation(source, target, tuple(parts)) for (source, target, _), parts in estimates_of.items()]


def mapping_table(graph: ClockGraph, reference: Clock) -> Table:
    """Return CLOCK_MAPPING to a reference clock."""
    rows = [row for clock in graph.clocks if clock != reference for row in _mapped(graph, clock, reference)]
    return _table(CLOCK_MAPPING, rows)


def _mapped(graph: ClockGraph, clock: Clock, reference: Clock) -> Iterator[Row]:
    known = {"host": clock.host, "domain": clock.domain, "reference": str(reference)}
    try:
        path = graph.path(clock, reference)
    except ClockError as error:
        lost: Row = {c.name: NOT_A_TIME if c.dtype == "int64" else np.nan for c in _LINE}
        yield {**known, **lost, "path": "", "reason": str(error)}
        return
    methods = "; ".join(f"{relation.method} to {relation.target}" for relation in path)
    for estimate in put_together(path):
        yield {**known, **_line(estimate), "path": methods, "reason": ""}


def put_together(path: ClockPath) -> list[Estimate]:
    """Return estimates from the first clock of a path to its last, one for each interval between steps."""
    joined = list(path[0].estimates)
    for relation in path[1:]:
        joined = [
            _chained(one, other, *common)
            for i, one in enumerate(joined)
            for k, other in enumerate(relation.estimates)
            if (common := _common(joined, i, relation.estimates, k)) is not None
        ]
    return joined


def _reach(estimates: Iterable[Estimate], at: int) -> tuple[int, int]:
    """Return the first and the last time at which the estimate at index `at` is used, ns.

    A gap between two estimates belongs to the earlier one.
    """
    parts = list(estimates)
    first = -(1 << 60) if at == 0 else parts[at].first_ns
    last = (1 << 61) if at == len(parts) - 1 else parts[at + 1].first_ns - 1
    return first, max(first, last)


def _common(ones: list[Estimate], i: int, others: tuple[Estimate, ...], k: int) -> tuple[int, int] | None:
    """Return the time range in which estimate i of `ones` and estimate k of `others` are both valid.

    Times are those of the first clock. It is None if the range is empty.
    """
    one, other = ones[i], others[k]
    back = one.inverse()
    evident = max(one.first_ns, int(back.at(other.first_ns))), min(one.last_ns, int(back.at(other.last_ns)))
    if evident[0] <= evident[1]:
        return evident
    reach, target = _reach(ones, i), _reach(others, k)
    first, last = max(reach[0], int(back.at(target[0]))), min(reach[1], int(back.at(target[1])))
    if first > last:
        return None
    alone = max(first, one.first_ns), min(last, one.last_ns)
    return alone if alone[0] <= alone[1] else None


def _chained(one: Estimate, other: Estimate, first: int, last: int) -> Estimate:
    """Return the estimate from the first to the third clock, from estimates first-second and second-third.

    The uncertainties are added as squares.
    """
    rates = np.array([one.skew_uncertainty_ppm, other.skew_uncertainty_ppm]) * PPM
    pivots = np.array([one.pivot - first, int(one.inverse().at(other.pivot)) - first], dtype=np.float64)
    total = float(np.sum(rates**2))
    pivot = float(np.sum(rates**2 * pivots)) / total if total else 0.0
    apart = float(np.prod(rates)) ** 2 / total * float(np.diff(pivots)[0]) ** 2 if total else 0.0
    at_pivot = np.sqrt(one.at_pivot_ns**2 + other.at_pivot_ns**2 + apart)
    return Estimate.around(
        first + round(pivot),
        float(at_pivot),
        first_ns=first,
        last_ns=last,
        offset_ns=int(other.at(one.at(first))) - first,
        skew_ppm=((1 + one.skew_ppm * PPM) * (1 + other.skew_ppm * PPM) - 1) / PPM,
        skew_uncertainty_ppm=float(np.sqrt(total)) / PPM,
        method=f"{one.method}, {other.method}",
        evidence=min(one.evidence, other.evidence),
    )
