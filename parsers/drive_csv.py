"""Drive-test logs as CSV whose columns are known: each is one map in `parsers/maps/`.

A map beside the file (`drive.csv.toml`) wins over all of these. docs/formats.md lists them, and how certain each is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from parsers._format import Format, Match
from parsers._text.mapped_log import read_bundled, sniff_layer

if TYPE_CHECKING:
    from multitracer.tables import Table


def sniff(head: bytes) -> Match:
    """Return "yes" for a first line that has the columns of one of the maps with values of the radio."""
    return sniff_layer(head, "radio")


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `radio`, and `position` where the log has places.

    Raises
    ------
    FormatError
        If no map fits, two maps fit alike, or no line has a time.
    """
    return read_bundled(stream, path=path, name=FORMAT.name)


FORMAT = Format(
    name="drive-csv",
    layer="radio",
    description="drive tests as CSV with known columns (`formats --maps` lists the maps)",
    source="parsers/maps; docs/formats.md",
    sniff=sniff,
    parse=parse,
)
