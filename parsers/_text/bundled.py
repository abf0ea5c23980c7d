"""The column maps that come with MultiTracer, `parsers/maps/NAME.toml`, chosen by a log's first line.

A map fits if all columns that it needs are there, in any order, in small or capital letters. Of several that
fit, the one with most of its columns in the log is taken; a tie is an error that names both.
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from multitracer.errors import FormatError
from parsers._format import HEAD_BYTES
from parsers._text.column_map import ColumnMap, Header, column_map, delimiter_of
from parsers._text.first_line import first_line, names_in
from parsers._text.mapped_log import read_mapped

if TYPE_CHECKING:
    from typing import BinaryIO

    from multitracer.tables import Table
    from parsers._format import Match


@dataclass(frozen=True, slots=True)
class BundledMap:
    """One map that comes with MultiTracer."""

    name: str
    """Of its file, without the ending."""
    description: str
    source: str
    """Where its columns are written down."""
    certain: str
    """What of it is known, and how."""
    needs: tuple[str, ...]
    """Columns without which a log is not this one."""
    columns: ColumnMap

    @property
    def layer(self) -> str:
        """The layer of its tables: position if that is all that it gives, otherwise radio."""
        return "radio" if any(row.table == "radio" for row in self.columns.rows) else "position"

    def matched(self, header: Header) -> int:
        """Return how many of its columns a log has; 0 if one that it needs is not there."""
        if not all(header.find(column) is not None for column in self.needs):
            return 0
        return sum(header.find(column) is not None for column in self.columns.columns)


@functools.cache
def bundled_maps() -> tuple[BundledMap, ...]:
    """Return every map that comes with MultiTracer, by name."""
    folder = resources.files("parsers") / "maps"
    paths = sorted((path for path in folder.iterdir() if path.name.endswith(".toml")), key=lambda p: p.name)
    return tuple(_read(path.name.removesuffix(".toml"), path.read_text("utf-8")) for path in paths)


def _read(name: str, text: str) -> BundledMap:
    data = tomllib.loads(text)
    about = data["map"]
    return BundledMap(
        name,
        about["description"],
        about["source"],
        about["certain"],
        tuple(about["needs"]),
        column_map(data),
    )


def _best(header: Header) -> list[BundledMap]:
    """Return the map that fits a header best; several if they fit alike, none if no map fits."""
    matched = [(each.matched(header), each) for each in bundled_maps()]
    most = max((count for count, _ in matched), default=0)
    return [each for count, each in matched if count == most and most]


def sniff_layer(head: bytes, layer: str) -> Match:
    """Return "yes" for a first line that has the columns of a bundled map of a layer."""
    text = head.decode("utf-8-sig", "replace")
    is_cut = len(head) >= HEAD_BYTES
    whole = text if is_cut else text[: text.rfind("\n") + 1]
    line = first_line(whole.splitlines())
    best = _best(Header(names_in(line, delimiter_of(line)))) if line else []
    return "yes" if best and best[0].layer == layer else "no"


def read_bundled(stream: BinaryIO, *, path: str, name: str) -> dict[str, Table]:
    """Return the tables of a log by the bundled map that fits it best.

    Raises
    ------
    FormatError
        If no map fits, several fit alike, or no line has a time.
    """
    chosen: list[BundledMap] = []

    def choose(header: Header) -> ColumnMap:
        chosen.extend(_best(header))
        if not chosen:
            raise FormatError(
                path, "no bundled map fits the names of its columns; write one beside it", line=1
            )
        if len(chosen) > 1:
            names = " and ".join(each.name for each in chosen)
            raise FormatError(path, f"fits the maps {names} alike; put one beside it as {path}.toml", line=1)
        return chosen[0].columns

    tables = read_mapped(stream, choose, path=path, name=name)
    for table in tables.values():
        table.provenance["map"] = chosen[0].name
    return tables
