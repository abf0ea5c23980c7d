"""The result of a packet reader: tables of TCP segments, and properties of the files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from multitracer.tables import FLOWS, SACK_BLOCKS, SEGMENTS, SYN_OPTIONS, Table

if TYPE_CHECKING:
    from multitracer.captured import SourceFile
    from multitracer.tables import Array, DecodedPart, Mask, Numbers, Times


@dataclass(slots=True)
class CaptureTables:
    """The TCP segments of one or more files of one capture point, with their provenance."""

    files: list[SourceFile]
    segments: Table = field(default_factory=lambda: Table.empty(SEGMENTS))
    flows: Table = field(default_factory=lambda: Table.empty(FLOWS))
    sack_blocks: Table = field(default_factory=lambda: Table.empty(SACK_BLOCKS))
    syn_options: Table = field(default_factory=lambda: Table.empty(SYN_OPTIONS))

    @property
    def first_ns(self) -> int | None:
        """Smallest packet time of all files in ns; None if no packet has a time."""
        return min((f.first_ns for f in self.files if f.first_ns is not None), default=None)

    def where(self, chosen: Mask) -> CaptureTables:
        """Return the segments that a mask selects (bool, shape (n_segments,)), with SACK blocks and options.

        The files (and therefore the index `file`) and the flows do not change.
        """
        row = np.cumsum(chosen) - 1
        return CaptureTables(
            self.files,
            self.segments.take(chosen),
            self.flows,
            _follow(self.sack_blocks, chosen, row),
            _follow(self.syn_options, chosen, row),
        )

    def between(self, begin_ns: int | None, end_ns: int | None) -> CaptureTables:
        """Return the segments with begin <= time < end; None: unbounded."""
        time_ns = self.segments["time_ns"]
        chosen = np.ones(len(time_ns), dtype=bool)
        if begin_ns is not None:
            chosen &= time_ns >= begin_ns
        if end_ns is not None:
            chosen &= time_ns < end_ns
        return self if chosen.all() else self.where(chosen)

    def of_files(self, indexes: list[int]) -> CaptureTables:
        """Return the segments of the files at `indexes`, as if only these files had been read."""
        number = np.full(len(self.files), -1, dtype=np.int64)
        number[indexes] = np.arange(len(indexes))
        renumbered = number[self.segments["file"]]
        part = self.where(renumbered >= 0)
        part.segments.columns["file"] = renumbered[renumbered >= 0].astype(np.uint16)
        part.files = [self.files[i] for i in indexes]
        return part


def of_kernel(time_ns: Times, part: DecodedPart, before: CaptureTables) -> CaptureTables:
    """Return segments of one file that the native kernel decoded, with the files and flows of `before`.

    The record numbers of `part` become frame numbers.
    """
    columns: dict[str, Array] = {
        "time_ns": time_ns,
        "frame": part["record"].astype(np.uint32),
        "file": np.broadcast_to(np.uint16(0), len(time_ns)),
        **part["segments"],
    }
    return CaptureTables(
        before.files,
        Table(SEGMENTS, columns),
        before.flows,
        Table(SACK_BLOCKS, part["sack_blocks"]),
        Table(SYN_OPTIONS, part["syn_options"]),
    )


def joined(captures: list[CaptureTables]) -> CaptureTables:
    """Return the concatenation of captures of the same files, with the flows of the last capture."""
    rows = np.cumsum([0, *(len(capture.segments) for capture in captures)]).tolist()
    sides = {}
    for name, schema in (("sack_blocks", SACK_BLOCKS), ("syn_options", SYN_OPTIONS)):
        tables = [getattr(capture, name) for capture in captures]
        sides[name] = Table.concatenate(schema, tables)
        shifted = [table["row"] + before for table, before in zip(tables, rows, strict=False)]
        sides[name].columns["row"] = np.concatenate(shifted)
    segments = Table.concatenate(SEGMENTS, [capture.segments for capture in captures])
    return CaptureTables(captures[-1].files, segments, captures[-1].flows, **sides)


def _follow(table: Table, chosen: Mask, row: Numbers) -> Table:
    """Return the rows of a dependent table whose segment is selected, with new segment row numbers."""
    kept = table.take(chosen[table["row"]])
    kept.columns["row"] = row[kept["row"]]
    return kept
