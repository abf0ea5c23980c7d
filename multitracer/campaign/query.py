"""SQL over a campaign, by DuckDB without any access to files.

The tables are registered as Arrow datasets, which Python reads; the engine itself may not open, load or write
any file, and its configuration is locked before it gets the user's text. A filter on the text would not be
sufficient: `WITH x AS (COPY …) SELECT` and `EXPLAIN ANALYZE COPY` write, too.

The module also finds which labels of the sessions a query reads, by DuckDB's syntax tree of the query. A join
copies the map of labels to each of its rows, and searches it there. If a query reads only single labels by
name, they can be read once per session, with the same result.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import duckdb
import pyarrow as pa

from multitracer.campaign.schemas import TABLES
from multitracer.errors import InputError
from multitracer.words import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.campaign.catalogue import Catalogue

Tree: TypeAlias = "dict[str, Tree] | list[Tree] | str | float | bool | None"
Node: TypeAlias = "dict[str, Tree]"

_MAP = "labels"
_PLAIN_SOURCES = {"BASE_TABLE", "JOIN"}
_ALL_COLUMNS = {"STAR", "POSITIONAL_REFERENCE"}


def labels_read(engine: duckdb.DuckDBPyConnection, sql: str) -> tuple[str, ...]:
    """Return the names of the labels that a query reads, each as `labels['name']`, in order.

    Parameters
    ----------
    engine : duckdb.DuckDBPyConnection
        Used to parse the text; it needs no table.
    sql : str

    Returns
    -------
    tuple of str
        Empty if the query may read `labels` in any other way, such as by `*`, if it is more than one
        SELECT over tables and joins, or if it is not valid.
    """
    parts = list(_parts(_tree(engine, sql)))
    nodes = [part for part in parts if isinstance(part, dict)]
    names = [name for node in nodes if (name := _label(node)) is not None]
    mentions = sum(isinstance(part, str) and part.casefold() == _MAP for part in parts)
    if mentions != len(names) or not _is_plain(nodes) or _reads_rows(nodes):
        return ()
    once = tuple(dict.fromkeys(names))
    return once if all(once) and len({name.casefold() for name in once}) == len(once) else ()


def _tree(engine: duckdb.DuckDBPyConnection, sql: str) -> Tree:
    try:
        rows = engine.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
        tree: Tree = json.loads(rows[0][0])
    except (duckdb.Error, RecursionError):  # of an engine without JSON, or a text nested too deeply
        return None
    return tree


def _parts(tree: Tree) -> Iterator[Tree]:
    """Yield a syntax tree and all its parts, in the order of the query's text."""
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, dict | list):
            waiting += reversed(list(part.values() if isinstance(part, dict) else part))


def _label(node: Node) -> str | None:
    """Return NAME if the node is the expression `labels['NAME']`; otherwise None."""
    match node:
        case {
            "type": "ARRAY_EXTRACT",
            "children": [{"class": "COLUMN_REF", "column_names": [*_, column]}, constant],
        } if str(column).casefold() == _MAP:
            return _text(constant)
    return None


def _text(constant: Tree) -> str | None:
    """Return the text of a text constant in the syntax tree; None for any other part."""
    match constant:
        case {"class": "CONSTANT", "literal": {"kind": "STRING", "text": str(text)}}:
            return text
        case {"class": "CONSTANT", "value": {"type": {"id": "VARCHAR"}, "value": str(text)}}:
            return text
    return None


def _is_plain(nodes: list[Node]) -> bool:
    """Return whether a query is one SELECT over tables and joins, without aliases for columns."""
    selects = [node for node in nodes if str(node.get("type")).endswith("_NODE")]
    sources = [node for node in nodes if "alias" in node and "class" not in node and "type" in node]
    return (
        [node["type"] for node in selects] == ["SELECT_NODE"]
        and all(source["type"] in _PLAIN_SOURCES for source in sources)
        and not any(source.get("column_name_alias") for source in sources)
        and not any(source.get("ref_type") == "NATURAL" for source in sources)
    )


def _reads_rows(nodes: list[Node]) -> bool:
    """Return whether a query reads all columns of a table: by `*`, by number, or by the table's name."""
    tables = {
        str(name).casefold()
        for node in nodes
        if node.get("type") == "BASE_TABLE"
        for name in (node["table_name"], node["alias"])
    }
    alone = (node["column_names"] for node in nodes if node.get("class") == "COLUMN_REF")
    return any(node.get("class") in _ALL_COLUMNS for node in nodes) or any(
        isinstance(names, list) and len(names) == 1 and str(names[0]).casefold() in tables for names in alone
    )


MEMORY = "1GB"
"""Maximum memory of a query, which does not spill to disk. A typical query over 10^7 seconds needs less."""
_SETTINGS = {
    "temp_directory": "",
    "disabled_optimizers": "join_order,build_side_probe_side",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
    "python_enable_replacements": "false",
    "python_scan_all_frames": "false",
    "TimeZone": "UTC",
}
"""Settings of DuckDB.

Arrow tables have no row counts for DuckDB, so in a join it hashed all `seconds` instead of `sessions`. With
two optimizers disabled, joins are executed as written: the table after JOIN is hashed."""

_STORED = "stored_sessions"
_PULLUP = "projection_pullup"
"""The optimizer of DuckDB 2 that would read the labels after the join again."""


def connection(catalogue: Catalogue, *, memory: str = MEMORY, question: str = "") -> duckdb.DuckDBPyConnection:
    """Return a DuckDB connection that can only read the tables of a catalogue.

    Parameters
    ----------
    catalogue : Catalogue
    memory : str
        Memory that its queries may use, as DuckDB writes it.
    question : str
        The query that follows, if known; the connection is optimized for it, which changes no result. For a
        join the session of each second is read by its code, so that each session is looked up once (for 10^7
        seconds 0.12 s instead of 0.43 s; but a single session is no longer found by the statistics of the
        files, 0.9 s instead of 0.1 s). Single labels are read once a session (0.8 s instead of 1.5 s).

    Raises
    ------
    InputError
        If a part is missing or is not a Parquet file.
    """
    made = duckdb.connect(":memory:")
    for name, value in {"memory_limit": memory, **_SETTINGS}.items():
        made.execute(f"SET {name} = '{value}'")
    with suppress(duckdb.InvalidInputException):  # in a notebook without ipywidgets, where there is no bar
        made.execute("SET enable_progress_bar = false")  # it is drawn on standard output, before the answer
    joins = "join" in question.casefold()
    labels = labels_read(made, question) if joins else ()
    for name in TABLES:
        dataset = catalogue.dataset(name, coded="session" if joins and name == "seconds" else "")
        made.register(_STORED if labels and name == "sessions" else name, dataset)
    if labels:
        _take_before_joins(made, labels)
    made.execute("SET enable_external_access = false")
    made.execute("SET lock_configuration = true")
    return made


def _take_before_joins(engine: duckdb.DuckDBPyConnection, labels: tuple[str, ...]) -> None:
    """Replace the view `sessions` by a table that has only these labels, each read once per session."""
    own = ", ".join(f"{literal(name)}: labels[{literal(name)}]" for name in labels)
    view = f"SELECT * REPLACE ({{{own}}} AS labels) FROM {_STORED}"  # noqa: S608  (`literal`)
    engine.execute(f"CREATE VIEW sessions AS {view}")
    optimizers = {name for (name,) in engine.execute("FROM duckdb_optimizers()").fetchall()}
    if _PULLUP in optimizers:
        engine.execute(f"SET disabled_optimizers = '{_SETTINGS['disabled_optimizers']},{_PULLUP}'")


def query(catalogue: Catalogue, sql: str) -> pa.Table:
    """Return the result of one SQL statement.

    Parameters
    ----------
    catalogue : Catalogue
    sql : str
        A statement for DuckDB on the tables of `TABLES`.

    Returns
    -------
    pyarrow.Table
        Empty, without columns, if the statement returns no table.

    Raises
    ------
    InputError
        If the statement is not valid or not allowed, with the message of DuckDB.
    """
    with connection(catalogue, question=sql) as engine:
        try:
            if not duckdb.extract_statements(sql):
                raise InputError("query: no SQL statement given; write for example SELECT * FROM sessions")
            return answer(engine, sql)
        except (duckdb.Error, OSError, pa.ArrowInvalid) as error:
            raise InputError(_words(error)) from error


def literal(text: str) -> str:
    """Return a text as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def answer(engine: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    """Return the result of a query as a table; if this thread is interrupted, the query is stopped.

    Raises
    ------
    duckdb.Error, OSError, pyarrow.ArrowInvalid
        Errors of the engine and of the reader of the tables.
    """
    with ThreadPoolExecutor(1) as asking:  # the engine itself lets Ctrl-C and SIGTERM wait for its answer
        future = asking.submit(_table, engine, sql)
        try:
            return future.result()
        except BaseException:
            engine.interrupt()
            raise


def _table(engine: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    relation = engine.sql(sql)
    return pa.table({}) if relation is None else relation.to_arrow_table()


def _words(error: Exception) -> str:
    """Return the message of an engine error on one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"query: {printable(' '.join(lines))}"
