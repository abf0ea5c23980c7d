"""Small tables of readings, written as rows; what a row does not name is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from multitracer.tables import NA, NOT_A_TIME, Schema, Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterable

BEGIN_NS = 1_700_000_000 * NS_PER_S


def at_ns(seconds: float) -> int:
    return BEGIN_NS + round(seconds * NS_PER_S)


def table_of(schema: Schema, rows: Iterable[dict[str, Any]]) -> Table:
    """Return a table; `at` is a row's time in seconds after the begin."""
    rows = [({"time_ns": at_ns(row["at"])} | row if "at" in row else row) for row in rows]
    columns = {}
    for column in schema:
        dtype = np.dtype(column.dtype)
        empty = {"f": np.nan, "U": "", "b": False}.get(dtype.kind, NA if dtype.kind == "i" else 0)
        if dtype.kind == "i" and column.unit.startswith("ns"):
            empty = NOT_A_TIME
        columns[column.name] = np.array([row.get(column.name, empty) for row in rows], dtype=dtype)
    return Table(schema, columns)
