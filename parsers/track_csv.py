"""CSV logs of positions with known columns; `parsers/maps/` has a map for each type of log.

A map in the folder of the log (`track.csv.toml`) takes precedence. docs/formats.md lists the maps and their
reliability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from parsers._format import Format, Match
from parsers._text.mapped_log import read_bundled, sniff_layer

if TYPE_CHECKING:
    from multitracer.tables import Table


def sniff(head: bytes) -> Match:
    """Return "yes" if the first line has the columns of a bundled map that gives only positions."""
    return sniff_layer(head, "position")


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return the table `position`.

    Raises
    ------
    FormatError
        If no map fits, two maps fit equally well, or no line has a time.
    """
    return read_bundled(stream, path=path, name=FORMAT.name)


FORMAT = Format(
    name="track-csv",
    layer="position",
    description="positions as CSV with known columns (`formats --maps` lists the maps)",
    source="parsers/maps; docs/formats.md",
    sniff=sniff,
    parse=parse,
)
