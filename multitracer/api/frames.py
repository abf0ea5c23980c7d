"""Converts tables to DataFrames with a column `host` and column descriptions.

`frame.attrs["columns"]` maps each column to a dict of `unit`, `meaning` and `source`.

The module also lists all tables and columns of the API, of `export` and of plug-ins, with unit and meaning.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from multitracer import tables, wtcp
from multitracer.clock.model.edges import CLOCK_EDGES, CLOCK_MAPPING
from multitracer.errors import InputError
from multitracer.schemas import application, link, mobility, radio, sender, signalling, tcp, transactions
from multitracer.schemas.cross_layer import FAIRNESS, SHARES
from multitracer.schemas.findings import COMPARED, FINDINGS, LIMITS, LINK_USE, SESSIONS_NMI, UTILIZATION
from multitracer.tables import Column, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from multitracer.tables import Schema

HOST = Column("host", "U128", "capture point or host of this row")


class HostTable(NamedTuple):
    """A table of one host."""

    host: str
    table: Table
    source: str
    """File from which the table was read, and the method."""
    offset: int = 0
    """Offset to add to the connection numbers of the table."""


def framed(schema: Schema, chunks: Sequence[HostTable], *, sort: str = "") -> pd.DataFrame:
    """Return the tables of several hosts as one DataFrame.

    Parameters
    ----------
    schema : Schema
        Schema of all tables; the result has all its columns even without rows.
    chunks : sequence of HostTable
    sort : str
        Column by which the rows are sorted; by default they are grouped by host.
    """
    frames = [_frame(chunk) for chunk in chunks]
    complete = pd.concat(frames or [_frame(HostTable("", Table.empty(schema), ""))], ignore_index=True)
    if sort:
        complete = complete.sort_values(sort, kind="stable", ignore_index=True)
    source = ", ".join(dict.fromkeys(chunk.source for chunk in chunks if chunk.source))
    complete.attrs = {"table": schema.name, "columns": explained([*schema, HOST], source=source)}
    return complete


def _frame(chunk: HostTable) -> pd.DataFrame:
    frame = chunk.table.to_pandas()
    frame.attrs = {}
    if chunk.offset and "connection" in frame:
        frame["connection"] += chunk.offset
    host = frame.pop(HOST.name).replace("", chunk.host) if HOST.name in frame else chunk.host
    frame.insert(0, HOST.name, host)
    return frame


def explained(columns: Iterable[Column], *, source: str) -> dict[str, dict[str, str]]:
    """Return unit, meaning and source of each column, by the name of the column."""
    return {each.name: {"unit": each.unit, "meaning": each.doc, "source": source} for each in columns}


def described(frame: pd.DataFrame, name: str, columns: Mapping[str, Column], *, source: str) -> pd.DataFrame:
    """Add descriptions of the columns to a DataFrame without a schema, and return the DataFrame."""
    frame.attrs = {"table": name, "columns": explained(columns.values(), source=source)}
    return frame


_SCHEMAS = (
    tcp.CONNECTIONS,
    tcp.DIRECTIONS,
    tables.SEGMENTS,
    tcp.TCP_SEGMENTS,
    tcp.RTT_SAMPLES,
    tcp.SEGMENT_VERDICTS,
    sender.TCP_STATE,
    sender.TCP_EVENTS,
    sender.TCP_PHASES,
    sender.SERIES,
    link.LINK_FRAMES,
    link.LINK_EVENTS,
    radio.RADIO,
    radio.POSITION,
    radio.GAPS,
    radio.MARKERS,
    signalling.SIGNALLING,
    signalling.HANDOVERS,
    mobility.JUDGED_HANDOVERS,
    mobility.CELLS,
    mobility.CELL_VISITS,
    mobility.STRETCHES,
    mobility.ROUTE,
    mobility.ROUTE_GAPS,
    mobility.AROUND,
    mobility.AROUND_LIMITS,
    mobility.EPOCHS,
    transactions.TRANSACTIONS,
    transactions.EFFICIENCY,
    wtcp.WTCP_FLOWS,
    application.APPLICATION_RATE,
    application.APPLICATION_SUMS,
    application.PINGS,
    CLOCK_EDGES,
    CLOCK_MAPPING,
    FINDINGS,
    LIMITS,
    LINK_USE,
    UTILIZATION,
    SESSIONS_NMI,
    FAIRNESS,
    SHARES,
    COMPARED,
)


@cache
def schemas() -> dict[str, Schema]:
    """Return the schema of every table by its name."""
    return {schema.name: schema for schema in _SCHEMAS}


def columns(table: str | None = None) -> pd.DataFrame:
    """List the columns of a table, or of all tables.

    Parameters
    ----------
    table : str, optional
        Name of the table, such as "segments"; by default all tables.

    Returns
    -------
    DataFrame
        A row for each column: table, column, dtype, unit, meaning.

    Raises
    ------
    InputError
        If no table has this name.

    Examples
    --------
    >>> mt.columns("position")[["column", "unit"]].head(3)
            column           unit
    0      time_ns  ns since 1970
    1  fix_time_ns  ns since 1970
    2         line
    """
    known = schemas()
    if table is not None and table not in known:
        raise InputError(f"there is no table {table!r}; the tables are {', '.join(known)}")
    chosen = known.values() if table is None else [known[table]]
    rows = [(schema.name, c.name, c.dtype, c.unit, c.doc) for schema in chosen for c in schema]
    return pd.DataFrame(rows, columns=["table", "column", "dtype", "unit", "meaning"])
