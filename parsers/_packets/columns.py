"""Arrays and tables that grow block by block, without a second copy at the end.

Reserved memory costs nothing until it is written, so the size is set from the expected rest of the input, and
is otherwise doubled.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from multitracer.tables import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.tables import Array, Schema

_FIRST_ROOM = 1024
_MARGIN = 1.05


@cache
def _none(dtype: str) -> Array:
    return np.empty(0, dtype)


class GrowingArray:
    """An array to which values are appended; memory is reserved ahead."""

    def __init__(self, dtype: str) -> None:
        self._array = _none(dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> Array:
        """The values appended so far, as a view: shape (len(self),)."""
        return self._array[: self._count]

    def append(self, values: Array, *, share: float | None = None) -> None:
        """Append values, one-dimensional; they are converted to the dtype of the array.

        `share` is how much of the input has been read, from 0 to 1; None if that is unknown.
        """
        after = self._count + len(values)
        if after > len(self._array):
            expected = int(after / share * _MARGIN) if share else 0
            larger = np.empty(max(expected, 2 * len(self._array), after, _FIRST_ROOM), self._array.dtype)
            larger[: self._count] = self.values
            self._array = larger
        self._array[self._count : after] = values
        self._count = after


class GrowingTable:
    """A table to which rows are appended; memory is reserved ahead."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._columns = {c.name: GrowingArray(c.dtype) for c in schema}

    def __len__(self) -> int:
        return len(self._columns[self._schema.names[0]])

    def append(self, columns: Mapping[str, Array], *, share: float | None = None) -> None:
        """Append rows; `columns` must have all columns of the table.

        `share` is the fraction of the input that has been read, 0 to 1; None if unknown.
        """
        for name, column in self._columns.items():
            column.append(columns[name], share=share)

    def values(self, name: str) -> Array:
        """Return the values appended to a column so far, as a view: shape (len(self),)."""
        return self._columns[name].values

    def finish(self) -> Table:
        """Return the complete table; nothing can be appended afterwards."""
        return Table(self._schema, {name: column.values for name, column in self._columns.items()})
