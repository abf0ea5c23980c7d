"""The table `radio` as CSV, its columns named as they are in the table: what an anonymous copy holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from multitracer.radio import RADIO
from parsers._columns import names_own_columns, own_map, read_mapped
from parsers._format import Format, Match

if TYPE_CHECKING:
    from multitracer.tables import Table


def sniff(head: bytes) -> Match:
    """Return "yes" for a first line that names columns of the table and no others."""
    return "yes" if names_own_columns(head, RADIO, needed={"source", "rat"}) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `radio`.

    Raises
    ------
    FormatError
        If the first line does not name the columns.
    """
    return read_mapped(stream, own_map(RADIO), path=path, name=FORMAT.name)


FORMAT = Format(
    name="radio-table",
    layer="radio",
    description="readings of the radio as CSV, with the columns of the table radio",
    source="docs/formats.md",
    sniff=sniff,
    parse=parse,
)
