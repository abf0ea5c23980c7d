"""Which labels a question reads of the sessions, by the syntax tree that DuckDB makes of its text.

A join carries the map of labels to each of its rows, and searches it there. When a question reads single
labels by their names and nothing else of the map, they can be taken once a session, with the same answer.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

import duckdb

if TYPE_CHECKING:
    from collections.abc import Iterator

Tree: TypeAlias = "dict[str, Tree] | list[Tree] | str | float | bool | None"
Node: TypeAlias = "dict[str, Tree]"

_MAP = "labels"
_PLAIN_SOURCES = {"BASE_TABLE", "JOIN"}
_ALL_COLUMNS = {"STAR", "POSITIONAL_REFERENCE"}


def labels_read(engine: duckdb.DuckDBPyConnection, sql: str) -> tuple[str, ...]:
    """Return the names of the labels that a question reads, each as `labels['name']`, in order.

    Parameters
    ----------
    engine : duckdb.DuckDBPyConnection
        Only to read the text; it needs no table.
    sql : str

    Returns
    -------
    tuple of str
        None if the question may read `labels` in any other way, such as by `*`, if it is more than one
        SELECT over tables and joins, or if it is wrong.
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
    """Return all parts of a tree, itself too, in the order of its text."""
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, dict | list):
            waiting += reversed(list(part.values() if isinstance(part, dict) else part))


def _label(node: Node) -> str | None:
    """Return NAME of `labels['NAME']`."""
    match node:
        case {
            "type": "ARRAY_EXTRACT",
            "children": [{"class": "COLUMN_REF", "column_names": [*_, column]}, constant],
        } if str(column).casefold() == _MAP:
            return _text(constant)
    return None


def _text(constant: Tree) -> str | None:
    """Return the text of a constant: DuckDB 2 writes it as a literal, 1.5 as a value."""
    match constant:
        case {"class": "CONSTANT", "literal": {"kind": "STRING", "text": str(text)}}:
            return text
        case {"class": "CONSTANT", "value": {"type": {"id": "VARCHAR"}, "value": str(text)}}:
            return text
    return None


def _is_plain(nodes: list[Node]) -> bool:
    """Tell whether a tree is one SELECT over tables and joins, without other names for their columns."""
    selects = [node for node in nodes if str(node.get("type")).endswith("_NODE")]
    sources = [node for node in nodes if "alias" in node and "class" not in node and "type" in node]
    return (
        [node["type"] for node in selects] == ["SELECT_NODE"]
        and all(source["type"] in _PLAIN_SOURCES for source in sources)
        and not any(source.get("column_name_alias") for source in sources)
        and not any(source.get("ref_type") == "NATURAL" for source in sources)
    )


def _reads_rows(nodes: list[Node]) -> bool:
    """Tell whether a question reads all columns of a table: by `*`, by a number, or by the table's name."""
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
