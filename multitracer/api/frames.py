"""Converts tables to DataFrames with a column `host` and column descriptions.

`frame.attrs["columns"]` maps each column to a dict of `unit`, `meaning` and `source`.

The module also lists all tables and columns of the API, of `export` and of plug-ins, with unit and meaning.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from multitracer import tables, wtcp
from multitracer.clock.model.edges import CLOCK_EDGES, CLOCK_MAPPING
from multitracer.errors import InputError
from multitracer.schemas import application, link, mobility, quic, radio, sender, signalling, tcp, transactions
from multitracer.schemas.findings import COMPARED, FINDINGS, LIMITS, LINK_USE, SESSIONS_NMI, UTILIZATION
from multitracer.schemas.link import FAIRNESS, SHARES
from multitracer.tables import Column, Schema, Table
from multitracer.words import as_html, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from multitracer.tables import Array

HOST = Column("host", "U128", "capture point or host of this row")


class HostTable(NamedTuple):
    """A table of one host."""

    host: str
    table: Table
    source: str
    """File from which the table was read, and the method."""
    offset: int = 0
    """Offset to add to the connection numbers of the table."""


class ResultFrame(pd.DataFrame):
    """A DataFrame that shows, below its rows, why values are missing.

    `attrs["absent"]` has the reasons: by the name of a column, by direction (`reverse`), or as `ROWS` for a
    table without rows. A reason is shown as long as what it explains is missing. They explain the complete table:
    what a selection, a join or a pivot leaves out has no reason.
    """

    @property
    def _constructor(self) -> type[ResultFrame]:
        return ResultFrame

    def __repr__(self) -> str:
        return "\n".join([super().__repr__(), *(printable(each) for each in self._reasons())])

    def _repr_html_(self) -> str | None:
        shown: str | None = super()._repr_html_()  # type: ignore[misc]  # pandas-stubs do not know it
        return None if shown is None else shown + "".join(f"<p>{as_html(each)}</p>" for each in self._reasons())

    def _reasons(self) -> list[str]:
        names: dict[str, list[str]] = {}
        for name, reason in self.attrs.get("absent", {}).items():
            if self._is_missing(name):
                names.setdefault(reason, []).append(f"reverse={name}" if isinstance(name, bool) else name)
        return [f"{_listed(each)}: {reason}" for reason, each in names.items()]

    def _is_missing(self, name: object) -> bool:
        if name == ROWS:
            return not len(self)
        if isinstance(name, bool):
            directions = self._named("reverse")
            return bool(directions.shape[1]) and not bool(directions.isin([name]).to_numpy().any())
        return bool(self._named(name).isna().to_numpy().any())

    def _named(self, name: object) -> pd.DataFrame:
        """Return the columns of this name: several after a concatenation, none where labels are tuples."""
        labels: Sequence[object] = self.columns.tolist()
        return self.iloc[:, [i for i, label in enumerate(labels) if isinstance(label, str) and label == name]]


def put_reasons(complete: ResultFrame, absent: Mapping[str, str]) -> None:
    """Keep in `attrs["absent"]` the reasons for what is missing in a complete table."""
    complete.attrs["absent"] = {name: reason for name, reason in absent.items() if complete._is_missing(name)}


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}"


_MOST_NAMES = 6
"""Maximum number of columns that are listed with one reason."""
ROWS = "no rows"
"""Key of the reason why a table has no rows."""


def framed(
    schema: Schema, chunks: Sequence[HostTable], *, sort: str = "", absent: Mapping[str, str] | None = None
) -> ResultFrame:
    """Return the tables of several hosts as one DataFrame.

    Parameters
    ----------
    schema : Schema
        Schema of all tables; the result has all its columns even without rows.
    chunks : sequence of HostTable
    sort : str
        Column by which the rows are sorted; by default they are grouped by host.
    absent : mapping of str to str, optional
        Reasons for missing values by column, and for missing rows as `ROWS`.
    """
    frames = [_frame(chunk) for chunk in chunks]
    complete = ResultFrame(pd.concat(frames or [_frame(HostTable("", Table.empty(schema), ""))], ignore_index=True))
    if sort:
        complete = ResultFrame(complete.sort_values(sort, kind="stable", ignore_index=True))
    source = ", ".join(dict.fromkeys(chunk.source for chunk in chunks if chunk.source))
    complete.attrs = {"table": schema.name, "columns": explained([*schema, HOST], source=source)}
    if absent:
        put_reasons(complete, absent)
    return complete


def of_columns(schema: Schema, columns: Mapping[str, Array | list[object]], *, source: str) -> ResultFrame:
    """Return columns as a DataFrame: arrays as those of a Table, and lists in which a missing value is None."""
    frame = ResultFrame({column.name: _series(column, columns[column.name]) for column in schema})
    frame.attrs = {"table": schema.name, "columns": explained(schema, source=source)}
    return frame


def _series(column: Column, values: Array | list[object]) -> object:
    if isinstance(values, list):
        return pd.Series(values, dtype="boolean" if column.dtype == "bool" else "string")
    return Table(Schema(column.name, (column,)), {column.name: values}).to_pandas()[column.name]


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
    """Return a DataFrame without a schema, with descriptions of the columns, and None for a missing text.

    None is false where a program asks `if row.damaged`; NA raises there, and NaN is true.
    """
    texts = [str(name) for name in frame if np.dtype(columns[str(name)].dtype).kind == "U"]
    frame = frame.astype(dict.fromkeys(texts, object))
    frame[texts] = frame[texts].where(frame[texts].notna(), None)
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
    radio.PHONE_STATE,
    radio.PHONE_EVENTS,
    radio.REMOTE_LOG,
    radio.APP_BYTES,
    radio.REMOTE_CLOCK,
    radio.DISH,
    radio.DISH_OUTAGES,
    signalling.SIGNALLING,
    signalling.HANDOVERS,
    signalling.PROCEDURES,
    signalling.PROCEDURE_STATISTICS,
    signalling.SIGNALLING_STATES,
    mobility.JUDGED_HANDOVERS,
    mobility.CELLS,
    mobility.CELL_VISITS,
    mobility.STRETCHES,
    mobility.ROUTE,
    mobility.ROUTE_GAPS,
    mobility.AROUND,
    mobility.AROUND_LIMITS,
    mobility.EPOCHS,
    mobility.SECONDS,
    transactions.TRANSACTIONS,
    transactions.EFFICIENCY,
    wtcp.WTCP_FLOWS,
    quic.QUIC_CONNECTIONS,
    quic.QUIC_PACKETS,
    quic.QUIC_STATE,
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
        near = [name for name in known if table in name.split("_")] or get_close_matches(table, known, 3)
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        raise InputError(f"there is no table {table!r}{meant}; the tables are {', '.join(known)}")
    chosen = known.values() if table is None else [known[table]]
    rows = [(schema.name, c.name, c.dtype, c.unit, c.doc) for schema in chosen for c in schema]
    return pd.DataFrame(rows, columns=["table", "column", "dtype", "unit", "meaning"])
