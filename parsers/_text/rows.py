"""The common part of readers of a sender's state: endpoints, exact numbers from text, sparse tables."""

from __future__ import annotations

import functools
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any

import numpy as np

from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from multitracer.tables import Array, Column, Schema

_LATEST_S = 1 << 33
_CHUNK_ROWS = 1 << 16


@functools.lru_cache(maxsize=4096)
def address(text: str) -> tuple[int, bytes]:
    """Return the IP version and 16 bytes of an address as in a table, without its zone.

    Raises
    ------
    ValueError
        If it is none: a name, for example.
    """
    parsed = ip_address(text.partition("%")[0].strip("[]"))
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped:
        parsed = parsed.ipv4_mapped
    return parsed.version, parsed.packed.ljust(16, b"\0")


def decimal_ns(seconds: str, fraction: str = "") -> int:
    """Return a time of decimal seconds in nanoseconds, exactly; digits beyond the ninth are dropped.

    Raises
    ------
    ValueError
        If it lies beyond the year 2242, or is no number.
    """
    whole = int(seconds[:12])
    if whole >= _LATEST_S:
        raise ValueError(f"{seconds} seconds is no time")
    return whole * NS_PER_S + int(fraction[:9].ljust(9, "0"))


class Rows:
    """Rows that all have the same columns of a schema; the other columns become NA.

    Parameters
    ----------
    schema : Schema
        Of the table to make.
    names : sequence of str
        The columns that `append` is given values for, in this order.
    """

    def __init__(self, schema: Schema, names: Sequence[str]) -> None:
        self._schema = schema
        self._columns = [column for name in names for column in schema if column.name == name]
        self._rows: list[tuple[object, ...]] = []
        self._chunks: list[list[Array]] = []

    def __len__(self) -> int:
        return sum(len(chunk[0]) for chunk in self._chunks) + len(self._rows)

    def append(self, *values: object) -> None:
        """Add one row."""
        self._rows.append(values)
        if len(self._rows) >= _CHUNK_ROWS:
            self._pack()

    def extend(self, columns: Mapping[str, Array]) -> None:
        """Add many rows, given as one array for each of the columns."""
        self._pack()
        self._chunks.append([columns[c.name].astype(c.dtype, copy=False) for c in self._columns])

    def _pack(self) -> None:
        values = zip(*self._rows, strict=True) if self._rows else [()] * len(self._columns)
        self._chunks.append([_array(c, v) for c, v in zip(self._columns, values, strict=True)])
        self._rows = []

    def columns(self) -> dict[str, Array]:
        """Return the columns collected, by name: each of shape (len(self),), dtype of its column."""
        self._pack()
        joined = map(np.concatenate, zip(*self._chunks, strict=True))
        return dict(zip((c.name for c in self._columns), joined, strict=True))

    def table(self, provenance: Mapping[str, object]) -> Table:
        """Return the table."""
        return filled(self._schema, self.columns(), provenance)


def filled(schema: Schema, columns: Mapping[str, Array], provenance: Mapping[str, object]) -> Table:
    """Return a table in order of time; columns that are not given are NA.

    Parameters
    ----------
    schema : Schema
    columns : mapping of str to ndarray, each of shape (n_rows,)
        Some columns of the schema; `time_ns` (int64, ns since 1970) must be among them.
    provenance : mapping
    """
    order = np.argsort(columns["time_ns"], kind="stable")
    full = {c.name: columns[c.name][order] if c.name in columns else _missing(c, len(order)) for c in schema}
    return Table(schema, full, dict(provenance))


def times(factors: Array, values: Array) -> Array:
    """Return a product in which a missing factor makes a missing value.

    Parameters
    ----------
    factors, values : ndarray of int64, same shape
        NA (-1) where missing.

    Returns
    -------
    ndarray of int64, same shape
        NA where one of both is.
    """
    return np.where((factors == NA) | (values == NA), NA, factors * values)


def scaled_ns(values: Array, unit_ns: int) -> Array:
    """Return durations in nanoseconds; NA becomes NOT_A_TIME.

    Parameters
    ----------
    values : ndarray of int64, any shape
        Durations in units of `unit_ns`; NA (-1) where missing.
    unit_ns : int

    Returns
    -------
    ndarray of int64, ns, shape of `values`
    """
    return np.where(values == NA, NOT_A_TIME, values * unit_ns)


def _array(column: Column, values: Sequence[Any]) -> Array:
    if column.dtype.startswith("V"):
        return np.frombuffer(b"".join(values), dtype=column.dtype)
    return np.array(values, dtype=column.dtype)


def _missing(column: Column, length: int) -> Array:
    if column.unit.startswith("ns"):
        return np.full(length, NOT_A_TIME, dtype=column.dtype)
    return np.full(length, NA, dtype=column.dtype) if column.na else np.zeros(length, dtype=column.dtype)
