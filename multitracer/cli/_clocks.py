"""Output of `multitracer align`: clock relations as text, JSON and tables."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from multitracer.cli._output import replacing
from multitracer.clock.captures.two_captures import TWO_CAPTURES
from multitracer.clock.model.edges import edges_table, mapping_table
from multitracer.errors import ClockError
from multitracer.manifest import inside
from multitracer.recording.inputs import find_inputs, loose_inputs
from multitracer.recording.read import Need, read
from multitracer.words import clock_offset, no_formula, portable, time_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from multitracer.cli._output import Page
    from multitracer.clock.model.estimate import Estimate
    from multitracer.clock.model.relation import Clock, Relation
    from multitracer.clock.session_clock import Clocks
    from multitracer.recording.recording import Recording
    from multitracer.tables import Table

SCHEMA = "multitracer.align/1"
_TABLES = "tables"
_HEADER = ("from", "to", "offset", "drift", "±", "method", "evidence")


@dataclass(frozen=True, slots=True)
class Aligned:
    """A recording with the relations of its clocks."""

    recording: Recording
    clocks: Clocks
    order: tuple[str, ...] = ()
    """Names of the inputs as the user gave them."""

    @property
    def loose(self) -> bool:
        """Whether the inputs are single files instead of a folder."""
        return self.recording.folder is None


def aligned(inputs: Sequence[str], *, reference: str | None, evidence: bool) -> Aligned:
    """Read the inputs, and compute the relations of their clocks.

    Raises
    ------
    ClockError
        If there are several clocks, and the data do not relate any two of them.
    """
    is_folder = len(inputs) == 1 and os.path.isdir(inputs[0])  # noqa: PTH112  # a name may hold NUL
    recording = read(find_inputs(inputs[0]) if is_folder else loose_inputs(inputs), need=Need.PACKETS)
    clocks = recording.align(reference=reference, evidence=evidence)
    if not clocks.graph.relations and clocks.graph.refused:
        ill = "".join(f"; {each.code} in {portable(each.source)}" for each in clocks.complaints)
        raise ClockError(f"{clocks.graph.refused[0]}{ill and f'; the clock check found these faults: {ill[2:]}'}")
    return Aligned(recording, clocks, tuple(inputs))


# --- text ---


def show(sheet: Page, alignment: Aligned) -> None:
    """Write the clock relations as a table, the unrelated clocks, and the faults of clocks."""
    clocks = alignment.clocks
    rows = [_row(alignment, relation, e) for relation in _as_given(alignment) for e in relation.estimates]
    if rows:
        sheet.table(_HEADER, rows, right=(2, 3, 4, 6), dispensable=(6,))
    else:
        sheet.line("There is only one clock, so there is no relation between clocks to estimate.")
    for relation in _as_given(alignment):
        for line in _causality(alignment, relation):
            sheet.line(line)
    sheet.line(f"Reference: {_name(alignment, clocks.reference)}")
    for row in mapping_table(clocks.graph, clocks.reference).rows():
        if row["reason"]:
            sheet.line(f"Not related to the reference: {row['reason']}")
    for sentence in clocks.graph.refused:
        sheet.line(f"No relation: {portable(sentence)}")
    sheet.line(f"Faults found by the clock doctor: {len(clocks.complaints) or 'none'}", bold=True)
    for complaint in clocks.complaints:
        named = "" if complaint.source in complaint.sentence else f"{portable(complaint.source)}: "
        sentence = portable(complaint.sentence)
        sheet.line(f"  - {complaint.code}: {named}{sentence}. Repair: {complaint.repair}.")


def _row(alignment: Aligned, relation: Relation, estimate: Estimate) -> tuple[str, ...]:
    wide = estimate.skew_uncertainty_ppm
    drift = f"{estimate.skew_ppm:+.2f} ± {wide:.2f} ppm" if wide < 10 else f"{estimate.skew_ppm:+.0f} ± {wide:.0f} ppm"
    return (
        _name(alignment, relation.source),
        _name(alignment, relation.target),
        clock_offset(estimate.offset_ns),
        drift if estimate.skew_ppm or estimate.skew_uncertainty_ppm else "none",
        time_error(estimate.uncertainty_ns),
        estimate.method,
        f"{estimate.evidence:,}",
    )


def _causality(alignment: Aligned, relation: Relation) -> Iterator[str]:
    """Yield a sentence for each pair of captures: the clock offsets with which all delays are positive."""
    names = f"{_name(alignment, relation.source)} to {_name(alignment, relation.target)}"
    for e in relation.estimates:
        if relation.method == TWO_CAPTURES and e.lower_ns is not None and e.upper_ns is not None:
            yield (
                f"{names}: the error (±) assumes equal delay in both directions; for any delays, "
                f"the offset lies between {clock_offset(e.lower_ns)} and "
                f"{clock_offset(e.upper_ns)}"
            )


def _name(alignment: Aligned, clock: Clock) -> str:
    """Return the name of a clock for the output; for a single input file, only the file's path."""
    plain = alignment.loose and clock.domain == "realtime"
    return portable(clock.host) if plain else portable(str(clock))


# --- JSON ---


def write_json(stream: TextIO, alignment: Aligned) -> None:
    """Write the document that docs/clock.md describes."""
    document = {
        "schema": SCHEMA,
        "reference": _name(alignment, alignment.clocks.reference),
        "edges": list(_edges(alignment)),
        "mapping": list(mapping_table(alignment.clocks.graph, alignment.clocks.reference).rows()),
        "refused": [portable(sentence) for sentence in alignment.clocks.graph.refused],
        "warnings": [portable(sentence) for sentence in alignment.clocks.warnings],
        "doctor": [
            {
                "code": each.code,
                "source": portable(each.source),
                "sentence": portable(each.sentence),
                "repair": portable(each.repair),
                "shift_ns": each.shift_ns,
            }
            for each in alignment.clocks.complaints
        ],
    }
    json.dump(document, stream, indent=1, allow_nan=False)
    stream.write("\n")


def _edges(alignment: Aligned) -> Iterator[dict[str, object]]:
    """Yield a record for each interval of each clock relation.

    For single files, offsets are those at the first time stamp.
    """
    first = {alignment.clocks.of_point(each.point.name): each.tables.first_ns for each in alignment.recording.captures}
    for relation in _as_given(alignment):
        for i, each in enumerate(relation.estimates):
            start = first.get(relation.source) if i == 0 and alignment.loose else None
            estimate = each if start is None else each.from_stamp(start)
            yield {
                "from": _name(alignment, relation.source),
                "to": _name(alignment, relation.target),
                "offset_ns": estimate.offset_ns,
                "skew_ppm": estimate.skew_ppm,
                "uncertainty_ns": estimate.uncertainty_ns,
                "skew_uncertainty_ppm": estimate.skew_uncertainty_ppm,
                "method": estimate.method,
                "evidence": estimate.evidence,
                "first_ns": estimate.first_ns,
                "last_ns": estimate.last_ns,
                "lower_ns": estimate.lower_ns,
                "upper_ns": estimate.upper_ns,
                "notes": list(estimate.notes),
            }


def _as_given(alignment: Aligned) -> list[Relation]:
    """Return the clock relations; for single files, in the order in which the user gave the files.

    A relation then leads from the earlier file to the later one.
    """
    relations = alignment.clocks.graph.relations
    if not alignment.loose:
        return relations
    place = {name: i for i, name in enumerate(alignment.order)}

    def at(clock: Clock) -> int:
        return place.get(clock.host, len(place))

    turned = [r if at(r.source) <= at(r.target) else r.inverse() for r in relations]
    return sorted(turned, key=lambda r: (at(r.source), at(r.target)))


# --- tables ---


def keep_tables(alignment: Aligned) -> list[Path]:
    """Write the tables clock_edges and clock_mapping into the session's folder `tables`; return their paths.

    The files are Parquet, or CSV without pyarrow.

    Raises
    ------
    InputError
        If `tables` leads out of the session, or cannot be written.
    """
    folder = alignment.recording.folder
    assert folder is not None
    inside(folder, _TABLES).mkdir(exist_ok=True)
    graph = alignment.clocks.graph
    tables = (edges_table(graph.relations), mapping_table(graph, alignment.clocks.reference))
    return [_keep(folder, table) for table in tables]


def _keep(folder: Path, table: Table) -> Path:
    try:
        from multitracer.api.files import write_table
    except ModuleNotFoundError:
        ending, write_table = "csv", _write_csv
    else:
        ending = "parquet"
    path = inside(folder, f"{_TABLES}/{table.schema.name}.{ending}")
    with replacing(path) as temporary:
        write_table(temporary, table)
    return path


def _write_csv(path: Path, table: Table) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(table.schema.names)
        for row in table.rows():
            writer.writerow([no_formula(cell) if isinstance(cell, str) else cell for cell in row.values()])
