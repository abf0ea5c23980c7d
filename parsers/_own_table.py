"""One of our tables as CSV, with the table's column names: the content of an anonymous copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from parsers._format import Format, Match
from parsers._text.column_map import ColumnMap, ColumnSource, RowMap
from parsers._text.mapped_log import read_mapped

if TYPE_CHECKING:
    from multitracer.tables import Schema, Table


def own_table(schema: Schema, *, needed: frozenset[str], description: str) -> Format:
    """Return the format of a table as CSV.

    Parameters
    ----------
    schema : Schema
        Schema of the table; its name is also that of the layer.
    needed : frozenset of str
        Columns without which a CSV is not taken for this table.
    description : str
        One line.
    """
    cells = {name: ColumnSource(name) for name in schema.names if name not in ("time_ns", "line")}
    columns = ColumnMap(("time_ns",), "epoch_ns", None, (RowMap(schema.name, cells, {}),))
    name = f"{schema.name}-table"

    def sniff(head: bytes) -> Match:
        """Return "yes" for a first line that names columns of the table and no others."""
        first, newline, _ = head.partition(b"\n")
        names = first.rstrip(b"\r").decode("utf-8", "replace").split(",")
        is_own = newline and names[0] == "time_ns" and needed <= set(names) <= set(schema.names)
        return "yes" if is_own else "no"

    def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
        return read_mapped(stream, columns, path=path, name=name)

    return Format(name, schema.name, description, "docs/formats.md", sniff, parse)
