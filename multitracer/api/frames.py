"""Tables as DataFrames: the host in front, connections numbered through, every column with its meaning.

`frame.attrs["columns"]` maps each column to a dict of `unit`, `meaning` and `source`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from multitracer.tables import Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from multitracer.tables import Schema

HOST = Column("host", "U128", "capture point or host that the row is of")


class Piece(NamedTuple):
    """A table of one host."""

    host: str
    table: Table
    source: str
    """File that it was read of, and how."""
    offset: int = 0
    """What is added to its connection numbers."""


def framed(schema: Schema, pieces: Sequence[Piece], *, sort: str = "") -> pd.DataFrame:
    """Return the tables of several hosts as one DataFrame.

    Parameters
    ----------
    schema : Schema
        Of all of them; its columns are there without any row, too.
    pieces : sequence of Piece
    sort : str
        Column by which the rows of all hosts are ordered; by default they stay host by host.
    """
    frames = [_frame(piece) for piece in pieces]
    whole = pd.concat(frames or [_frame(Piece("", Table.empty(schema), ""))], ignore_index=True)
    if sort:
        whole = whole.sort_values(sort, kind="stable", ignore_index=True)
    source = ", ".join(dict.fromkeys(piece.source for piece in pieces if piece.source))
    whole.attrs = {"table": schema.name, "columns": explained([*schema, HOST], source=source)}
    return whole


def _frame(piece: Piece) -> pd.DataFrame:
    frame = piece.table.to_pandas()
    frame.attrs = {}
    if piece.offset and "connection" in frame:
        frame["connection"] += piece.offset
    host = frame.pop(HOST.name).replace("", piece.host) if HOST.name in frame else piece.host
    frame.insert(0, HOST.name, host)
    return frame


def explained(columns: Iterable[Column], *, source: str) -> dict[str, dict[str, str]]:
    """Return unit, meaning and source of each column by its name."""
    return {each.name: {"unit": each.unit, "meaning": each.doc, "source": source} for each in columns}


def described(frame: pd.DataFrame, name: str, columns: Mapping[str, Column], *, source: str) -> pd.DataFrame:
    """Add explanations of its columns to a DataFrame that is none of our tables."""
    frame.attrs = {"table": name, "columns": explained(columns.values(), source=source)}
    return frame
