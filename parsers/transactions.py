"""transactions.csv of `multitracer measure run`: one line for each transaction.

Source: docs/measuring.md.
"""

from __future__ import annotations

import csv
import math
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from multitracer.errors import FormatError
from multitracer.schemas.transactions import LABEL, LOGGED, TRANSACTIONS
from multitracer.tables import NA, Column, Table
from parsers._format import Format, Match
from parsers._text.lines import LogLines
from parsers._text.times import decimal_of, natural

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEADER = ",".join(LOGGED[-1])
_LATEST_NS = (1 << 62) - 1
_MOST = 1 << 40
"""Largest count or length in bytes: 2^20 messages of 1 MiB. Products with what follows fit into 64 bits."""
_MIN_EFFICIENCY = 1e-6  # no link that repeats a message a million times delivers it. Not measured
_RANGES = {
    "efficiency": (_MIN_EFFICIENCY, 1.0),
    **dict.fromkeys(("timeout_s", "connect_s", "rtt_s", "server_rtt_s", "clock_uncertainty_s"), (0.0, 1e9)),
}
"""Smallest and largest possible value, by column; a duration is at most 30 years."""
_MOST_LABELS = 1000


def sniff(head: bytes) -> Match:
    """Return "yes" for a file that begins with the header."""
    return "yes" if head.startswith(_HEADER.encode()) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return the table `transactions`.

    Raises
    ------
    FormatError
        If the first line is not the header.
    """
    lines = LogLines(stream)
    plain, labels = _columns(next(iter(lines), ""), path)
    rows: list[tuple[object, ...]] = []
    for text in lines:
        try:
            rows.append(_row(next(csv.reader([text])), plain, labels, lines))
        except (ValueError, csv.Error, StopIteration):
            lines.skip("no transaction")
    values: Iterable[object] = zip(*rows, strict=True) if rows else [()] * len(TRANSACTIONS.names)
    columns = {
        column.name: np.array(cells, dtype=column.dtype) for column, cells in zip(TRANSACTIONS, values, strict=True)
    }
    return {"transactions": Table(TRANSACTIONS, columns, lines.provenance(path, FORMAT.name))}


def _columns(header: str, path: str) -> tuple[int, list[str]]:
    """Return how many columns are before the labels, and the names of the labels."""
    try:
        names = tuple(next(csv.reader([header]), []))
    except csv.Error:  # a carriage return within the line
        names = ()
    plain = next((len(known) for known in LOGGED if names[: len(known)] == known), None)
    rest = names[plain:]
    if plain is None or len(rest) > _MOST_LABELS or not all(name.startswith(LABEL) for name in rest):
        raise FormatError(path, "the first line is not the header of transactions.csv", line=1)
    return plain, [name.removeprefix(LABEL) for name in rest]


def _row(cells: list[str], plain: int, labels: list[str], lines: LogLines) -> tuple[object, ...]:
    if len(cells) != plain + len(labels):
        raise ValueError("the line does not have as many cells as the header")
    logged = TRANSACTIONS.columns[:-1]
    texts = cells[:plain] + [""] * (len(logged) - plain)
    values = [_value(column, cell, lines) for column, cell in zip(logged, texts, strict=True)]
    for at, (low, high) in _AT:
        value = values[at]
        if isinstance(value, float) and (value < low or value > high):  # neither is NaN
            values[at] = math.nan
            lines.drop(logged[at].name)
    words = (f"{name}={cell}" for name, cell in zip(labels, cells[plain:], strict=True) if cell)
    return (*values, ";".join(words))


_AT = [(TRANSACTIONS.names.index(name), bounds) for name, bounds in _RANGES.items()]


def _value(column: Column, cell: str, lines: LogLines) -> object:
    """Return the value of a cell; a number that may be missing and cannot be is missing, and counted."""
    if column.dtype == "float64":
        number = decimal_of(cell) if cell else math.nan
        if number is None:
            lines.drop(column.name)
            return math.nan
        return number
    if column.dtype != "int64":
        return cell
    if not cell and column.na:
        return NA
    try:
        return natural(cell, most=_LATEST_NS if column.name == "start_ns" else _MOST)
    except ValueError:
        if not column.na:
            raise
        lines.drop(column.name)
        return NA


FORMAT = Format(
    name="transactions",
    layer="transactions",
    description="request / reply / good-bye transactions of `measure run`",
    source="docs/measuring.md",
    sniff=sniff,
    parse=parse,
)
