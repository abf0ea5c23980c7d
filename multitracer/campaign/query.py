"""SQL over a campaign, by DuckDB without any access to files.

The tables are registered as Arrow datasets, which Python reads; the engine itself may not open, load or write
any file, and its configuration is locked before it gets the user's text. A filter on the text would not be
sufficient: `WITH x AS (COPY …) SELECT` and `EXPLAIN ANALYZE COPY` write, too.

A query of a user has bounds, which the engine cannot keep: it counts no text that a function makes, and an
expression over one row cannot be interrupted (`SELECT repeat('x', 4000000000)` took 24 s and 7.7 GB with 1 GB and
10 s allowed). So it runs in a process of its own, which has a limit of memory and is killed when its time is over.

The module also finds which labels of the sessions a query reads, by DuckDB's syntax tree of the query. A join
copies the map of labels to each of its rows, and searches it there. If a query reads only single labels by
name, they can be read once per session, with the same result.
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeAlias

import duckdb
import pyarrow as pa

from multitracer.campaign.schemas import TABLES
from multitracer.errors import InputError, MultiTracerError
from multitracer.words import count, printable, size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO, TypeVar

    from multitracer.campaign.catalogue import Catalogue

    Result = TypeVar("Result")

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
    "max_temp_directory_size": "0KiB",
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
    """Return the result of one SQL statement of this program, which is read in this process.

    Parameters
    ----------
    catalogue : Catalogue
    sql : str
        A statement for DuckDB on the tables of `TABLES`. One that a user wrote is for `bounded_query`.

    Returns
    -------
    pyarrow.Table
        Empty, without columns, if the statement returns no table.

    Raises
    ------
    InputError
        If the statement is not valid or not allowed, with the message of DuckDB.
    """
    with _engine_for(catalogue, sql) as engine:
        return answer(engine, sql)


@contextmanager
def _engine_for(catalogue: Catalogue, sql: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection for one statement; raise the errors of the engine as an `InputError`."""
    with connection(catalogue, question=sql) as engine:
        try:
            statements = len(duckdb.extract_statements(sql))
            if not statements:
                raise InputError("query: no SQL statement given; write for example SELECT * FROM sessions")
            if statements > 1:
                raise InputError(f"query: {statements} SQL statements given; give exactly one")
            yield engine
        except (duckdb.OutOfMemoryException, pa.ArrowMemoryError, MemoryError) as error:
            raise InputError(_OUT_OF_MEMORY) from error
        except (duckdb.Error, OSError, pa.ArrowInvalid) as error:
            raise InputError(_OUT_OF_MEMORY if _MEMORY_ERROR in str(error) else _words(error)) from error


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


# --- a query of a user, in a process of its own ---

_PROCESS_BYTES, _CORE_BYTES = 2 << 30, 32 << 20
"""Memory for data of the process of a query, in bytes: twice `MEMORY`, and for each core the stacks of its threads."""
_BATCH_BYTES, _BATCH_ROWS = 8 << 20, 10_000
"""Size at which a batch is sent; a row that is larger is a batch of its own."""
_REFUSED = os.EX_DATAERR
"""Exit status of the process if it has written a sentence for the user to standard error."""
_PROGRAM = "from multitracer.campaign.query import main; main()"
_SENTENCE_BYTES = 4096  # below what a pipe holds: it is read when the process has ended
_PR_SET_PDEATHSIG = 1  # prctl(2)
_OUT_OF_MEMORY = "query: the query needs more than 1 GB of memory; aggregate, or read fewer rows or columns"
_MEMORY_ERROR = "Out of Memory Error"
"""Beginning of DuckDB's message where pyarrow reads the rows, which makes another exception of it."""


class QueryBounds(NamedTuple):
    """What a query may take and return; None: no bound."""

    timeout_s: float = 60.0
    """Time in which the engine must answer, in s. Time in which the rows before are used does not count."""
    max_rows: int | None = None
    max_bytes: int | None = None
    """Size of all rows in memory (Arrow), in bytes."""


class QueryAnswer(NamedTuple):
    """The columns of a result, and its rows, which can be iterated once."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


@contextmanager
def bounded_query(catalogue: Catalogue, sql: str, bounds: QueryBounds) -> Iterator[QueryAnswer]:
    """Run one SQL statement of a user in a process of its own; during the `with` block its rows can be read.

    Parameters
    ----------
    catalogue : Catalogue
    sql : str
        A statement for DuckDB on the tables of `TABLES`.
    bounds : QueryBounds

    Raises
    ------
    InputError
        If the statement is not valid or not allowed, or exceeds a bound; also while rows are read.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "ARROW_DEFAULT_MEMORY_POOL": "system"}
    with subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM],  # -P: no module of the working folder
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C ends this program, which ends the process
    ) as process:
        try:
            assert process.stdin is not None
            with suppress(BrokenPipeError), process.stdin as stream:  # it ended: its status says why
                pickle.dump((os.getpid(), catalogue, sql, bounds), stream)
            yield _QueryProcess(process, bounds.timeout_s).answer()
        finally:
            process.kill()


class _QueryProcess:
    """The process of a query, which is killed when it has been waited for too long."""

    def __init__(self, process: subprocess.Popen[bytes], timeout_s: float) -> None:
        self._process = process
        self._timeout_s = self._left_s = timeout_s
        self._is_late = False

    def answer(self) -> QueryAnswer:
        """Wait for the columns of the result."""
        try:
            reader = self._wait(partial(pa.ipc.open_stream, self._process.stdout))
        except (pa.ArrowInvalid, OSError):
            self._fail()
        return QueryAnswer(reader.schema, self._batches(reader))

    def _batches(self, reader: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            while (batch := self._wait(partial(next, reader, None))) is not None:
                yield batch
        except (pa.ArrowInvalid, OSError):
            self._fail()
        if self._wait(self._process.wait):  # a stream that breaks off between two batches looks complete
            self._fail()

    def _wait(self, step: Callable[[], Result]) -> Result:
        """Return the result of a step that waits for the process."""
        timer = threading.Timer(max(self._left_s, 0.0), self._expire)
        timer.daemon = True
        begin_s = time.monotonic()
        timer.start()
        try:
            return step()
        finally:
            timer.cancel()
            self._left_s -= time.monotonic() - begin_s

    def _expire(self) -> None:
        self._is_late = True
        self._process.kill()

    def _fail(self) -> NoReturn:
        """Raise the reason why the process ended without a complete result."""
        status = self._wait(self._process.wait)
        if self._is_late:
            raise InputError(
                f"query: no complete result after {self._timeout_s:g} s; simplify the query, or raise --timeout"
            )
        assert self._process.stderr is not None
        words = self._process.stderr.read(_SENTENCE_BYTES).decode("utf-8", "replace")
        if status == _REFUSED:
            raise InputError(words)
        if status < 0:
            name = signal.Signals(-status).name
            raise InputError(f"query: the engine ended by {name}, as without memory; simplify the query")
        raise RuntimeError(words)


def main() -> None:
    """Run the query that standard input describes; write its rows to standard output as a stream of Arrow."""
    parent, catalogue, sql, bounds = pickle.load(sys.stdin.buffer)  # noqa: S301  (from the process that started this)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    most_bytes = _PROCESS_BYTES + _CORE_BYTES * (os.cpu_count() or 1)
    resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    status = 0
    if os.getppid() == parent:  # else it is gone already
        try:
            with _engine_for(catalogue, sql) as engine:
                _send(engine, sql, bounds, sys.stdout.buffer)
        except BrokenPipeError:
            pass
        except MultiTracerError as error:
            status = _REFUSED
            os.write(sys.stderr.fileno(), str(error).encode()[:_SENTENCE_BYTES])
    os._exit(status)  # threads of the engine may still be at work


def _send(engine: duckdb.DuckDBPyConnection, sql: str, bounds: QueryBounds, stream: IO[bytes]) -> None:
    """Write the rows of a result; raise an error when they exceed their bounds."""
    relation = engine.sql(sql)
    reader = relation.to_arrow_reader(_BATCH_ROWS) if relation is not None else pa.table({}).to_reader()
    rows = sent_bytes = 0
    with pa.ipc.new_stream(stream, reader.schema) as writer:
        for batch in reader:
            step = max(1, min(_BATCH_ROWS, _BATCH_BYTES * len(batch) // max(batch.nbytes, 1)))
            for begin in range(0, len(batch), step):
                part = batch.slice(begin, step)
                rows += len(part)
                sent_bytes += part.nbytes
                _check_bounds(rows, sent_bytes, bounds)
                writer.write_batch(part)
    stream.flush()


def _check_bounds(rows: int, sent_bytes: int, bounds: QueryBounds) -> None:
    if bounds.max_rows is not None and rows > bounds.max_rows:
        most, option = count(bounds.max_rows, "row"), "--max-rows"
    elif bounds.max_bytes is not None and sent_bytes > bounds.max_bytes:
        most, option = size(bounds.max_bytes), "--max-bytes"
    else:
        return
    raise InputError(f"query: the result has more than {most}; add LIMIT, or raise {option}")


def _words(error: Exception) -> str:
    """Return the message of an engine error on one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"query: {printable(' '.join(lines))}"
