"""The class `Table`, with which packages exchange data, and the schemas of captured segments.

A table is a set of NumPy columns of equal length (struct of arrays). Decoding and analysis never need
pandas; `Table.to_pandas` makes a DataFrame for the user. Column names contain the unit. Time is int64
nanoseconds since 1970 UTC.

The value of a missing cell is `NOT_A_TIME` in int64 columns with the unit ns, -1 in other signed integer
columns marked `na`, and NaN in float columns. `to_pandas` turns each into `pandas.NA` / `NaT`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import numpy as np

from multitracer.errors import SchemaError
from multitracer.schemas.schema import FLOWS as FLOWS  # noqa: PLC0414  # whoever makes a table needs its schema
from multitracer.schemas.schema import NA as NA  # noqa: PLC0414
from multitracer.schemas.schema import NOT_A_TIME as NOT_A_TIME  # noqa: PLC0414
from multitracer.schemas.schema import SACK_BLOCKS as SACK_BLOCKS  # noqa: PLC0414
from multitracer.schemas.schema import SEGMENTS as SEGMENTS  # noqa: PLC0414
from multitracer.schemas.schema import SYN_OPTIONS as SYN_OPTIONS  # noqa: PLC0414
from multitracer.schemas.schema import Column as Column  # noqa: PLC0414
from multitracer.schemas.schema import Document as Document  # noqa: PLC0414
from multitracer.schemas.schema import Json as Json  # noqa: PLC0414
from multitracer.schemas.schema import Row as Row  # noqa: PLC0414
from multitracer.schemas.schema import Schema as Schema  # noqa: PLC0414

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypedDict

    import pandas as pd
    from numpy.typing import NDArray

    Array = NDArray[Any]
    """An array of any dtype: a column, or a result computed from columns."""
    Times = NDArray[np.int64]
    """Times or durations in ns."""
    Numbers = NDArray[np.int64]
    """Row numbers, byte counts, or unwrapped sequence numbers."""
    Mask = NDArray[np.bool_]
    """A boolean for each row: whether the row is selected."""

    class DecodedPart(TypedDict):
        """Segments that the native kernel decoded from consecutive records.

        See `parsers/_packets/parts.py`.
        """

        in_ipv4: int
        udp: int
        segments: dict[str, Array]
        sack_blocks: dict[str, Array]
        syn_options: dict[str, Array]
        flows: dict[str, Array]
        record: Numbers
        rest: Numbers


_DTYPES: dict[str, np.dtype[np.generic]] = {}
"""Cache of dtypes by name, because the construction is slow."""


def _dtype(column: Column) -> np.dtype[np.generic]:
    return _DTYPES.get(column.dtype) or _DTYPES.setdefault(column.dtype, np.dtype(column.dtype))


@cache
def _no_values(dtype: str) -> Array:
    """Return a column without rows; all tables share it, as it holds nothing that can be changed."""
    return np.empty(0, dtype=dtype)


@dataclass(slots=True)
class Table:
    """Columns of equal length that follow a schema.

    Parameters
    ----------
    schema : Schema
        The exact set of columns.
    columns : mapping of str to ndarray, each of shape (n_rows,)
        The columns; they are cast to the dtypes of the schema if that is safe ("same_kind").
    provenance : dict
        Origin of the rows: source file, clock, and skipped data with the reason.

    Raises
    ------
    SchemaError
        If a column is missing or unknown, has another length, or has a dtype that cannot be cast.
    """

    schema: Schema
    columns: dict[str, Array]
    provenance: Document = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = {column.name for column in self.schema.columns}
        if names != self.columns.keys():
            unknown, missing = self.columns.keys() - names, names - self.columns.keys()
            raise SchemaError(
                f"table {self.schema.name}: the columns do not match the schema (unknown: "
                f"{sorted(unknown)}, missing: {sorted(missing)})"
            )
        rows = len(self)
        self.columns = {c.name: self._checked(c, rows) for c in self.schema.columns}

    def _checked(self, column: Column, rows: int) -> Array:
        values = np.asarray(self.columns[column.name])
        want = _dtype(column)
        if values.dtype == want and values.shape == (rows,):
            return values
        if values.ndim != 1 or len(values) != rows:
            raise SchemaError(
                f"table {self.schema.name}: column {column.name} must have "
                f"{rows} rows and one dimension, but has the shape {values.shape}"
            )
        if values.dtype != want and not np.can_cast(values.dtype, want, "same_kind"):
            raise SchemaError(
                f"table {self.schema.name}: column {column.name} must have the type {want}, but has {values.dtype}"
            )
        return values.astype(want, copy=False)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]

    @classmethod
    def empty(cls, schema: Schema) -> Table:
        """Return a table of `schema` without rows."""
        return cls._of_checked(schema, {c.name: _no_values(c.dtype) for c in schema}, {})

    @classmethod
    def concatenate(cls, schema: Schema, parts: list[Table]) -> Table:
        """Return the rows of all `parts`, in order."""
        if not parts:
            return cls.empty(schema)
        return cls(schema, {n: np.concatenate([p.columns[n] for p in parts]) for n in schema.names})

    def take(self, index: Array | slice) -> Table:
        """Return the rows that `index` (positions, a boolean mask or a slice) selects."""
        picked = {name: values[index] for name, values in self.columns.items()}
        return self._of_checked(self.schema, picked, dict(self.provenance))

    @classmethod
    def _of_checked(cls, schema: Schema, columns: dict[str, Array], provenance: Document) -> Table:
        """Return a table whose columns are known to follow the schema: checks take most of the time of a short one."""
        table = object.__new__(cls)
        table.schema, table.columns, table.provenance = schema, columns, provenance
        return table

    def within(self, begin_ns: int | None, end_ns: int | None, *, column: str = "time_ns") -> Table:
        """Return the rows between two times, the end not included; None: unbounded.

        If there is a bound, rows without a time in `column` are excluded.
        """
        time_ns = self[column]
        inside = np.ones(len(self), dtype=bool) if begin_ns is None else time_ns >= begin_ns
        if end_ns is not None:
            inside &= (time_ns < end_ns) & (time_ns != NOT_A_TIME)
        return self if inside.all() else self.take(inside)

    def missing(self, name: str) -> Array:
        """Return which cells of a column are missing: bool, shape (n_rows,)."""
        column = next(c for c in self.schema if c.name == name)
        return np.asarray(_is_missing(column, self.columns[name]), dtype=bool)

    def rows(self) -> Iterator[Row]:
        """Yield each row as a dict of Python values, with None for a missing cell; for small tables."""
        for i in range(len(self)):
            yield {c.name: _python_value(c, self.columns[c.name][i]) for c in self.schema}

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame: times as datetime64[ns, UTC], addresses as text, a missing cell NA or NaT."""
        import pandas as pd

        frame = pd.DataFrame({c.name: self._pandas_column(c) for c in self.schema})
        frame.attrs.update(self.provenance)
        return frame

    def _pandas_column(self, column: Column) -> Any:
        values = self.columns[column.name]
        if column.dtype == "V16":
            return _address_texts(values, self.columns["ip_version"])
        return _pandas_column(column, values)


def between_ns(earlier_ns: Array, later_ns: Array) -> Array:
    """Return the differences of two columns of times in ns; NOT_A_TIME where a time is missing.

    Parameters
    ----------
    earlier_ns, later_ns : ndarray of int64, ns, same shape
        NOT_A_TIME where missing.

    Returns
    -------
    ndarray of int64, ns, same shape
    """
    unknown = (earlier_ns == NOT_A_TIME) | (later_ns == NOT_A_TIME)
    between: Array = later_ns - earlier_ns
    between[unknown] = NOT_A_TIME
    return between


def _is_missing(column: Column, values: Any) -> Any:
    kind = np.dtype(column.dtype).kind
    if kind == "i" and column.unit.startswith("ns") and column.dtype == "int64":
        return values == NOT_A_TIME
    if kind == "i" and column.na:
        return values == NA
    return values != values if kind == "f" else np.zeros_like(values, dtype=bool)  # noqa: PLR0124


def _python_value(column: Column, value: Any) -> object:
    if _is_missing(column, value):
        return None
    return value.item() if hasattr(value, "item") else value


def _address_texts(values: Array, versions: Array) -> list[str]:
    pairs = list(zip(values.tolist(), versions.tolist(), strict=True))
    texts = {(raw, v): str(ip_address(raw[:4] if v == 4 else raw)) for raw, v in set(pairs)}
    return [texts[pair] for pair in pairs]


def _pandas_column(column: Column, values: Array) -> Any:
    import pandas as pd

    if column.is_time:  # NOT_A_TIME has the bits of NaT
        return pd.Series(values.view("datetime64[ns]")).dt.tz_localize("UTC")
    missing = _is_missing(column, values)
    if np.dtype(column.dtype).kind == "i" and (column.na or column.unit.startswith("ns")):
        return pd.arrays.IntegerArray(values.copy(), np.asarray(missing, dtype=bool))
    return values
