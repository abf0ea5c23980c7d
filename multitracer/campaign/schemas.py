"""The tables of a campaign's catalogue: their columns, and their Arrow and Parquet form.

Every table begins with `session`, a hash of the session's content. Missing values and empty texts are null.
The metadata of a file contain `multitracer.schema` (the table), `multitracer.catalogue` (the version) and
`doc`; those of a column `unit` and `doc`.

A spool is a file with all rows of one session, written by a worker for the committer. Layout: 8 bytes that
identify the format, the SHA-256 of the rest, then an Arrow IPC stream for each table of the catalogue in its
order. A spool with a wrong hash was truncated by a crash: its session is analysed again.
"""

from __future__ import annotations

import hashlib
import io
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from multitracer.clock.model.edges import CLOCK_EDGES
from multitracer.diagnosis.limits.names import Limit
from multitracer.schemas.findings import FINDINGS
from multitracer.schemas.mobility import CELLS, JUDGED_HANDOVERS, SECONDS
from multitracer.schemas.signalling import PROCEDURES
from multitracer.schemas.tcp import CONNECTIONS
from multitracer.schemas.transactions import TRANSACTIONS
from multitracer.tables import Column, Schema, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from multitracer.tables import Row

    Tables = dict[str, pa.Table]

VERSION = 1
"""Version of the catalogue; a reader raises an error for a higher one."""
MAP = "map"
"""The dtype of a column with a map of names to values, both text."""

SESSION = Column("session", "U", "identifier of the session: first 16 hexadecimal digits of `content`")
_INPUT = Column("input", "U", "identifier of the input: first 16 hexadecimal digits of the SHA-256 of its path")
_HOST = Column("host", "U", "capture point or host of this row")
_TRANSFER = (
    Column("connection", "int64", "number of the connection in the session, from 1"),
    Column("reverse", "bool", "direction of the data: False from the initiator, True from the responder"),
)


def _text(*rows: tuple[str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, "U", doc) for name, doc in rows)


def _reals(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, "float64", doc, unit) for name, doc, unit in rows)


def _counts(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, "int64", doc, unit, na=True) for name, doc, unit in rows)


def _times(*rows: tuple[str, str]) -> tuple[Column, ...]:
    return tuple(Column(name, "int64", doc, "ns since 1970") for name, doc in rows)


INPUTS = Schema(
    "inputs",
    (
        SESSION,
        _INPUT,
        *_text(
            ("path", "path of the folder or file, with bytes that are not UTF-8 as \\xNN"),
            ("state", "SHA-256 of the names, sizes and modification times of its files"),
            ("outcome", "done, or failed"),
        ),
    ),
)
SESSIONS = Schema(
    "sessions",
    (
        SESSION,
        *_text(
            ("name", "name in the manifest, else name of the folder or of the first file; not unique"),
            ("path", "path from which the session was first read"),
            ("content", "SHA-256 of the contents and names of its logs and its manifest"),
            ("version", "version of MultiTracer that wrote the rows"),
            ("title", "title of the scenario or the measurement"),
            ("link", "name of the modelled link; null for a real link"),
            ("hosts", "names of its hosts, separated by commas"),
        ),
        Column("labels", MAP, "experiment variables: names and values"),
        *_times(
            ("begin_ns", "time of the first packet, else of the first log record"),
            ("end_ns", "time of the last packet, else of the last log record"),
        ),
        *_counts(
            ("bytes", "size of its logs as stored (compressed)", "bytes"),
            ("captures", "capture points", ""),
            ("connections", "TCP connections, counted at each capture point", ""),
            ("packets", "captured TCP segments", ""),
            ("phones", "phones or modems whose radio was logged", ""),
            ("not_explained", "connections with data that were not explained, because the session has too many", ""),
            ("warnings", "number of warnings about unusable data", ""),
        ),
        *_reals(
            (
                "speed",
                "simulated seconds per recorded second; rates and times of all tables refer to recorded time",
                "",
            ),
            ("lat_deg", "median latitude of the route, WGS 84", "degrees"),
            ("lon_deg", "median longitude of the route, WGS 84", "degrees"),
            ("distance_m", "length of the route", "m"),
        ),
        *_text(
            ("trust", "lowest trust of all captures: good, caution, poor"),
            ("headline", "sentence that states what limited the longest transfer"),
            ("warning", "text of the first warning"),
        ),
    ),
)
LIMIT_COLUMNS = {each: f"{each.label.replace('-', '_')}_s" for each in Limit}
"""Column of `transfers` with the time of a limit, by limit."""
TRANSFERS = Schema(
    "transfers",
    (
        SESSION,
        _HOST,
        *_TRANSFER,
        *_text(("sender", "sender of the data, HOST:PORT"), ("receiver", "receiver of the data, HOST:PORT")),
        *_times(("begin_ns", "first segment of the direction"), ("end_ns", "last segment of the direction")),
        *_counts(
            ("unique_bytes", "payload; each byte counts once", "bytes"),
            ("retransmitted_bytes", "retransmitted payload", "bytes"),
            ("data_segments", "segments with payload, including retransmissions", ""),
            ("rtt_count", "RTT samples", ""),
        ),
        *_reals(
            ("goodput_bps", "rate of new payload between the first and the last delivery", "bit/s"),
            (
                "efficiency",
                "unique payload over payload that arrived at the receiver; null without a capture there",
                "",
            ),
            ("efficiency_sent", "unique payload over payload that the sender sent; null without a capture there", ""),
            ("utilization", "use of the channel, 0 to 1 (docs/lost_time.md); null without a log of the link", ""),
            ("link_limited_share", "share of limits_total_s in which the link was the limit, 0 to 1", ""),
            ("rtt_min_ns", "smallest RTT sample", "ns"),
            ("rtt_p50_ns", "median of the RTT samples", "ns"),
            ("rtt_p95_ns", "95th percentile of the RTT samples", "ns"),
        ),
        *_text(
            ("limited_by", "limit with the longest time (docs/limits.md); null if the transfer was not explained"),
            ("view", "source of the evidence: link-log, both-ends, sender-state, sender, receiver, nowhere"),
        ),
        *_reals(
            ("limits_total_s", "sum of the times of all limits, in link time", "s"),
            *((name, f"time limited by {each.label}, in link time", "s") for each, name in LIMIT_COLUMNS.items()),
            ("lost_time_s", "total cost of its findings, in link time; findings may overlap", "s"),
        ),
    ),
)
FAILURES = Schema(
    "failures",
    (
        SESSION,
        _INPUT,
        *_text(("path", "the folder or file"), ("sentence", "why the input is not in the campaign, and what to do")),
    ),
)


def _of_session(schema: Schema, *first: Column, without: Sequence[str] = ()) -> Schema:
    """Return the schema of a table about sessions: `session`, the columns `first`, then those of `schema`.

    Columns named in `without` are left out.
    """
    kept = (each for each in schema if each.name not in {*without, *(each.name for each in first)})
    return Schema(schema.name, (SESSION, *first, *kept))


CONNECTIONS_OF = _of_session(
    CONNECTIONS,
    _HOST,
    Column("connection", "int64", "number of the connection in the session, from 1"),
    *_text(("initiator", "endpoint that opened the connection, HOST:PORT"), ("responder", "other endpoint, HOST:PORT")),
    without=("file", "forward_flow"),
)
HANDOVERS_OF = Schema("handovers", _of_session(JUDGED_HANDOVERS, _HOST).columns)

DOCS = {
    INPUTS: "A path that was read, and its session; a run uses this table to skip known inputs.",
    SESSIONS: "A session.",
    CONNECTIONS_OF: "A TCP connection at one capture point.",
    TRANSFERS: "A direction of a connection with data, at the capture point nearest to its sender, and its limits.",
    _of_session(FINDINGS, *_TRANSFER): "A diagnosis of one transfer, one row per occurrence.",
    _of_session(SECONDS): "A second of a session: throughput, limit, radio and position.",
    HANDOVERS_OF: "A change of the serving cell.",
    _of_session(CELLS, _HOST): "A cell that served in a session.",
    _of_session(PROCEDURES, _HOST): "A procedure between phone and network, from a diagnostic log.",
    _of_session(TRANSACTIONS, _HOST): "A transaction of `measure run`.",
    _of_session(CLOCK_EDGES): "Relation of two clocks of a session, between two steps.",
    FAILURES: "An input that could not be read.",
}
"""Meaning of a row of each table."""
TABLES = {schema.name: schema for schema in DOCS}
"""The schemas by name, `inputs` first; a spool contains the tables in this order."""


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of a table, with version, units and meanings in its metadata."""
    fields = [pa.field(c.name, _type(c), metadata={"unit": "" if c.is_time else c.unit, "doc": c.doc}) for c in schema]
    facts = {"multitracer.schema": schema.name, "multitracer.catalogue": str(VERSION), "doc": DOCS[schema]}
    return pa.schema(fields, metadata=facts)


def _type(column: Column) -> pa.DataType:
    if column.dtype == MAP:
        return pa.map_(pa.string(), pa.string())
    if np.dtype(column.dtype).kind == "U":
        return pa.string()
    return pa.timestamp("ns", tz="UTC") if column.is_time else pa.from_numpy_dtype(np.dtype(column.dtype))


ARROW = {name: arrow_schema(schema) for name, schema in TABLES.items()}
"""The Arrow schema of each table."""


def up_to_date(table: pa.Table, name: str) -> pa.Table:
    """Return rows of an earlier version with the columns of this version; columns that it lacked are null."""
    for field in ARROW[name]:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(len(table), field.type))
    return table.select(ARROW[name].names).cast(ARROW[name])


def of_rows(name: str, rows: Sequence[Row]) -> pa.Table:
    """Return rows as a table of the catalogue.

    Parameters
    ----------
    name : str
        Name of the table.
    rows : sequence of dict
        Rows; absent columns are null, and texts may contain any characters.
    """
    columns = [pa.array([_cell(row.get(column.name)) for row in rows], _type(column)) for column in TABLES[name]]
    return pa.Table.from_arrays(columns, schema=ARROW[name])


def of_columns(name: str, columns: Mapping[str, object], rows: int) -> pa.Table:
    """Return columns as a table of the catalogue.

    Parameters
    ----------
    name : str
        Name of the table.
    columns : mapping of str to ndarray, list, or a value of all rows
        Columns; missing values are the column's NA, NaN, NOT_A_TIME, None, or an empty text.
    rows : int
        Number of rows.
    """
    cells = [_array(column, columns[column.name], rows) for column in TABLES[name]]
    return pa.Table.from_arrays(cells, schema=ARROW[name])


def of_tables(name: str, tables: Iterable[tuple[Table, Mapping[str, object]]]) -> pa.Table:
    """Return tables of one session as a table of the catalogue.

    Parameters
    ----------
    name : str
        Name of the table.
    tables : iterable of (Table, mapping of str to object)
        Tables, each with the additional columns, such as `session` and `host`, in the form of `of_columns`.
    """
    chunks = [of_columns(name, {**table.columns, **added}, len(table)) for table, added in tables]
    return pa.concat_tables([ARROW[name].empty_table(), *chunks]).combine_chunks()


def _array(column: Column, values: object, rows: int) -> pa.Array:
    if not isinstance(values, np.ndarray):
        cells = values if isinstance(values, list) else [values] * rows
        return pa.array([_cell(each) for each in cells], _type(column))
    if values.dtype.kind == "U":
        return pa.array([_cell(each) for each in values.tolist()], pa.string())
    table = Table(Schema("column", (column,)), {column.name: values})
    return pa.array(table[column.name], mask=table.missing(column.name)).cast(_type(column))


def _cell(value: object) -> object:
    """Return a value in the form for Arrow: an empty text becomes null, invalid characters are replaced."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8") or None
    if isinstance(value, float) and value != value:  # noqa: PLR0124  # NaN
        return None
    return value.item() if isinstance(value, np.generic) else value


_MAGIC = b"MTSPOOL" + bytes([VERSION])
_SUM_BYTES = 32
"""Size of a SHA-256 in bytes."""


def packed(tables: Mapping[str, pa.Table]) -> bytes:
    """Return the tables of one session as bytes of a spool; a table that is not given has no rows."""
    rest = io.BytesIO()
    for name, schema in ARROW.items():
        with pa.ipc.new_stream(rest, schema) as writer:
            if name in tables:
                writer.write_table(tables[name])
    return _MAGIC + hashlib.sha256(rest.getbuffer()).digest() + rest.getvalue()


def unpacked(content: bytes) -> Tables | None:
    """Return the tables in the bytes of a spool by name; None if it is damaged or of another version."""
    head = len(_MAGIC) + _SUM_BYTES
    rest = memoryview(content)[head:]
    if content[: len(_MAGIC)] != _MAGIC or hashlib.sha256(rest).digest() != content[len(_MAGIC) : head]:
        return None
    source = pa.BufferReader(pa.py_buffer(rest))
    tables: Tables = {}
    try:
        for name, schema in ARROW.items():
            with pa.ipc.open_stream(source) as stream:
                tables[name] = stream.read_all()
            if not tables[name].schema.equals(schema):
                return None
    except pa.ArrowInvalid:
        return None
    return tables
