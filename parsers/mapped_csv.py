"""CSV logs with a map of the columns in a second file: `drive.csv` and `drive.csv.toml`.

A map names columns of the tables `radio` and `position`, and the columns of the log that hold their values;
docs/formats.md shows one. A CSV file has this format only if its map exists; the map must not be a symbolic link.
"""

from __future__ import annotations

import os
import tomllib
from typing import TYPE_CHECKING, BinaryIO

from multitracer.errors import FormatError
from parsers._format import Format, Match
from parsers._stream import has_map, map_of
from parsers._text.column_map import MapError, column_map
from parsers._text.mapped_log import read_mapped

if TYPE_CHECKING:
    from multitracer.tables import Table

_MOST_BYTES = 1 << 16
_AS_IT_IS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
"""Flags of `os.open`: no link is followed, and no child gets the descriptor. Windows has neither."""


def sniff(_head: bytes) -> Match:
    """Return "no": the content of a CSV does not identify this format, only the map does."""
    return "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return the tables that the map beside `path` describes.

    Raises
    ------
    FormatError
        If there is no map, or the map does not fit the log.
    """
    map_path = map_of(path)
    if not has_map(path):
        raise FormatError(
            path,
            f"this file has no column map; write the map to {os.path.basename(map_path)} in the same "  # noqa: PTH119
            "folder",
        )
    try:
        with open(os.open(map_path, os.O_RDONLY | _AS_IT_IS), "rb") as file:  # noqa: PTH123
            columns = column_map(tomllib.loads(file.read(_MOST_BYTES).decode()))
    except MapError as error:
        raise FormatError(map_path, str(error)) from error
    except (OSError, ValueError) as error:
        raise FormatError(map_path, f"the column map is not valid TOML: {type(error).__name__}") from error
    return read_mapped(stream, columns, path=path, name=FORMAT.name)


FORMAT = Format(
    name="mapped-csv",
    layer="radio",
    description="any CSV log with a column map beside it (NAME.toml)",
    source="docs/formats.md",
    sniff=sniff,
    parse=parse,
)
