"""Writes tables as Parquet or CSV files: connections, directions, tcp_segments, and tables of a drive.

In Parquet, the metadata of each column contain `unit` and `doc`, and the metadata of the file
`multitracer.schema`. Times are timestamp[ns, UTC]; a missing value is null, in CSV an empty cell. Connections
are numbered as in the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multitracer.report.replacing import replacing_folder
from multitracer.schemas.tcp import CONNECTIONS, DIRECTIONS, TCP_SEGMENTS
from multitracer.words import no_formula, portable

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pandas as pd
    import pyarrow.csv as pc

    from multitracer.recording.capture import Capture
    from multitracer.recording.recording import Recording
    from multitracer.tables import Array, Column, Numbers, Schema, Table

    Chosen = Sequence[tuple[Capture, list[int] | None]]
    """The numbers of the selected connections of each capture; None: all connections."""
    Form = Literal["parquet", "csv"]

_ROW_GROUP = 1 << 14
"""Number of rows that are encoded together (2 MB). With sixteen times as many rows, files of 1 to 9 million
segments are 7 % smaller, but encoding needs 16 to 30 MiB more memory."""
_CHUNK = 1 << 13
"""Number of rows that are analysed together. Twice as many rows need 2 MiB more memory."""
_SESSION_NUMBER = "number of the connection in the session, from 1"
_ENDS = {
    "capture": (pa.string(), "capture point: host of the session, or the path as it was given"),
    "path": (pa.string(), "file of the first segment"),
    "src": (pa.string(), "address of the initiator"),
    "sport": (pa.int32(), "TCP port of the initiator"),
    "dst": (pa.string(), "address of the responder"),
    "dport": (pa.int32(), "TCP port of the responder"),
}


def write_tables(folder: Path, chosen: Chosen, *, form: Form = "parquet") -> None:
    """Write connections, directions and tcp_segments of the selected connections into a folder."""
    captures = [(capture, _rows(capture, numbers)) for capture, numbers in chosen]
    text = no_formula if form == "csv" else str
    tables = (
        (CONNECTIONS, _connections_schema(), (_connections(*each, text) for each in captures)),
        (DIRECTIONS, _schema(DIRECTIONS), (_directions(*each) for each in captures)),
        (TCP_SEGMENTS, _segments_schema(), (t for each in captures for t in _tcp_segments(*each))),
    )
    for kind, schema, chunks in tables:
        with _writer(folder / f"{kind.name}.{form}", schema) as writer:
            _write(writer, schema, chunks)


def write_logged(folder: Path, tables: Mapping[str, pd.DataFrame], *, form: Form = "parquet") -> None:
    """Write each table that has rows to a file with the name of the table.

    Parameters
    ----------
    folder : Path
        An existing folder.
        tables : mapping of str to DataFrame
        Tables by name, as the session of `multitracer.open` returns them.
    form : "parquet" or "csv"
    """
    text = no_formula if form == "csv" else str
    for name, frame in tables.items():
        if len(frame):
            complete = pa.table(
                {column: _framed(frame[column], text) for column in frame}, metadata={"multitracer.schema": name}
            )
            schema = pa.schema(
                [_explained(complete.schema.field(column), frame) for column in frame],
                metadata=complete.schema.metadata,
            )
            with _writer(folder / f"{name}.{form}", schema) as writer:
                writer.write_table(complete.cast(schema))


def _framed(column: pd.Series[str], text: Callable[[str], str]) -> pa.Array:
    import pandas as pd  # noqa: PLC0415  # 40 MB that tables of connections do without

    if column.dtype == object or pd.api.types.is_string_dtype(column.dtype):
        missing = column.isna().tolist()
        words = [None if no else text(portable(str(each))) for each, no in zip(column, missing, strict=True)]
        return pa.array(words, pa.string())
    return pa.Array.from_pandas(column)


def _explained(field: pa.Field, frame: pd.DataFrame) -> pa.Field:
    facts = frame.attrs["columns"].get(field.name, {})
    words = {"unit": facts.get("unit", ""), "doc": facts.get("meaning", "")}
    return field.with_metadata(words)


def write_tables_into(folder: str | os.PathLike[str], recording: Recording, logged: Mapping[str, pd.DataFrame]) -> None:
    """Write the tables of all connections and of the drive into a folder, which is created if necessary."""
    with replacing_folder(folder) as temporary:
        write_tables(temporary, [(capture, None) for capture in recording.captures])
        write_logged(temporary, logged)


def write_table(path: Path, table: Table) -> None:
    """Write one small table as Parquet; the extension of the file name has no effect."""
    schema = _schema(table.schema)
    pq.write_table(pa.table(_columns(table), schema=schema), path, compression="zstd")


def _writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter | pc.CSVWriter:
    if path.suffix == ".csv":
        import pyarrow.csv as pc  # noqa: PLC0415  # Parquet needs none of it

        return pc.CSVWriter(path, schema)
    return pq.ParquetWriter(path, schema, compression="zstd")


def _rows(capture: Capture, numbers: list[int] | None) -> Numbers:
    return np.arange(len(capture)) if numbers is None else np.array(numbers) - 1


def _write(writer: pq.ParquetWriter | pc.CSVWriter, schema: pa.Schema, chunks: Iterator[pa.Table]) -> None:
    """Write the chunks; small chunks are joined, so that row groups are not too small."""
    empty = pa.Table.from_batches([], schema)
    waiting, rows = [empty], 0
    pa.default_memory_pool().release_unused()
    for chunk in chunks:
        waiting.append(chunk)
        rows += len(chunk)
        if rows >= _ROW_GROUP:
            writer.write_table(pa.concat_tables(waiting), _ROW_GROUP)
            waiting, rows = [empty], 0
    writer.write_table(pa.concat_tables(waiting), _ROW_GROUP)


def _connections(capture: Capture, rows: Numbers, text: Callable[[str], str]) -> pa.Table:
    table = capture.analysis.connections.take(rows)
    columns = {**_columns(table), "connection": _numbered(table, capture)}
    everything = len(rows) == len(capture)
    ends = capture.analysis.endpoints() if everything else [capture.analysis.ends(i + 1) for i in rows]
    paths = [text(portable(file.path)) for file in capture.tables.files]
    columns["capture"] = _texts([text(portable(capture.point.name))] * len(rows))
    columns["path"] = _texts([paths[i] for i in table["file"].tolist()])
    for name in ("src", "dst"):
        columns[name] = _texts([getattr(end, name) for end in ends])
    for name in ("sport", "dport"):
        columns[name] = _held(np.array([getattr(end, name) for end in ends], dtype=np.int32))
    return pa.table(columns, schema=_connections_schema())


def _directions(capture: Capture, rows: Numbers) -> pa.Table:
    table = capture.analysis.directions.take(np.stack([2 * rows, 2 * rows + 1], axis=1).ravel())
    return pa.table({**_columns(table), "connection": _numbered(table, capture)}, schema=_schema(DIRECTIONS))


def _tcp_segments(capture: Capture, rows: Numbers) -> Iterator[pa.Table]:
    for connections, table in capture.analysis.segments_in_chunks(rows, _CHUNK):
        numbers = (capture.offset + connections + 1).astype(np.int32)
        columns = {"connection": _held(numbers), **_columns(table)}
        yield pa.table(columns, schema=_segments_schema())


def _numbered(table: Table, capture: Capture) -> pa.Array:
    return _held(table["connection"] + np.int32(capture.offset))


def _columns(table: Table) -> dict[str, pa.Array]:
    return {column.name: _array(table, column) for column in table.schema}


def _array(table: Table, column: Column) -> pa.Array:
    values, missing = table[column.name], table.missing(column.name)
    if values.dtype.kind not in "biuf":  # words
        return pa.array(values, mask=missing).cast(_type(column))
    held = _held(values, missing)
    return held.view(_type(column)) if column.is_time else held


def _held(values: Array, missing: Array | None = None) -> pa.Array:
    """Return an Arrow array that shares the memory of the values.

    Pa.array would copy them and import pandas (40 MB).
    """
    there = _bits(~missing) if missing is not None and missing.any() else None
    held = _bits(values) if values.dtype == bool else pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [there, held])


def _bits(mask: Array) -> pa.Buffer:
    return pa.py_buffer(np.packbits(mask, bitorder="little"))


def _texts(words: list[str]) -> pa.Array:
    encoded = [word.encode() for word in words]
    ends = np.cumsum([0, *map(len, encoded)])
    texts = pa.Array.from_buffers(
        pa.large_string(), len(words), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    )
    return texts.cast(pa.string())


def _type(column: Column) -> pa.DataType:
    return pa.timestamp("ns", tz="UTC") if column.is_time else pa.from_numpy_dtype(np.dtype(column.dtype))


def _field(name: str, kind: pa.DataType, doc: str, unit: str = "") -> pa.Field:
    return pa.field(name, kind, metadata={"unit": unit, "doc": doc})


def _schema(kind: Schema, *, first: Sequence[pa.Field] = (), last: Sequence[pa.Field] = ()) -> pa.Schema:
    fields = [_field(c.name, _type(c), c.doc, "" if c.is_time else c.unit) for c in kind]
    return pa.schema([*first, *fields, *last], metadata={"multitracer.schema": kind.name})


def _connections_schema() -> pa.Schema:
    return _schema(CONNECTIONS, last=[_field(name, kind, doc) for name, (kind, doc) in _ENDS.items()])


def _segments_schema() -> pa.Schema:
    return _schema(TCP_SEGMENTS, first=[_field("connection", pa.int32(), _SESSION_NUMBER)])
