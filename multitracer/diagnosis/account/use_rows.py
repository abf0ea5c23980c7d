"""Rows of the account while it is made: what each rule hands over, and the table they become."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.findings import LINK_USE
from multitracer.tables import NA, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, DTypeLike

    from multitracer.diagnosis.use import Use
    from multitracer.tables import Array

_KINDS: dict[str, tuple[DTypeLike, object]] = {
    "cause": (np.uint8, 0),
    "back_off": (np.int16, NA),
    "payload": (np.float64, 0.0),
    "source": ("U11", ""),
    "row": (np.int64, NA),
    "ended_row": (np.int64, NA),
}
"""Columns that a rule may leave out: dtype, and what stands there then."""


class Uses(NamedTuple):
    """Intervals of one rule; columns as in LINK_USE, times as places on an axis of the account's own."""

    begin: Array
    end: Array
    use: Array
    seconds: Array
    cause: Array
    back_off: Array
    payload: Array
    source: Array
    row: Array
    ended_row: Array

    @classmethod
    def of(cls, begin: Array, end: Array, use: Array | Use, seconds: Array, **more: ArrayLike) -> Uses:
        """Return rows; a column that is left out, or given as one value, is the same for all."""
        shape = np.shape(begin)
        rest = {
            name: np.broadcast_to(np.asarray(more.get(name, usual), dtype=dtype), shape)
            for name, (dtype, usual) in _KINDS.items()
        }
        return cls(
            np.asarray(begin, dtype=np.float64),
            np.asarray(end, dtype=np.float64),
            np.broadcast_to(np.asarray(use, dtype=np.uint8), shape),
            np.asarray(seconds, dtype=np.float64),
            **rest,
        )

    def where(self, chosen: Array) -> Uses:
        """Return the rows that a mask or positions choose."""
        count = int(np.count_nonzero(chosen)) if chosen.dtype == bool else len(chosen)
        if chosen.dtype == bool and count == len(chosen):
            return self
        return Uses(*(np.broadcast_to(c[:1], count) if _is_constant(c) else c[chosen] for c in self))

    @classmethod
    def together(cls, parts: list[Uses]) -> Uses:
        """Return the rows of all parts in order of time."""
        joined = cls(*(_joined(columns) for columns in zip(*parts, strict=True)))
        return joined.where(np.lexsort((joined.end, joined.begin)))

    def runs(self) -> Uses:
        """Return the rows with neighbours of the same event and use made one; rows are in order of time."""
        if not len(self.begin):
            return self
        differs = np.ones(len(self.begin), dtype=bool)
        differs[1:] = self.begin[1:] > self.end[:-1]
        for column in (self.use, self.cause, self.source, self.row, self.ended_row):
            differs[1:] |= column[1:] != column[:-1]
        starts = np.flatnonzero(differs)
        last = np.append(starts[1:], len(differs)) - 1
        return self.where(starts)._replace(
            end=self.end[last],
            seconds=np.add.reduceat(self.seconds, starts),
            payload=np.add.reduceat(self.payload, starts),
        )

    def table(self, stamps: Callable[[Array], Array]) -> Table:
        """Return LINK_USE; `stamps` turns places (float64) into stamps of the sender's clock (int64, ns)."""
        columns = self._asdict() | {"begin_ns": stamps(self.begin), "end_ns": stamps(self.end)}
        columns["payload_bytes"] = columns.pop("payload")
        return Table(LINK_USE, {name: columns[name] for name in LINK_USE.names})


def _is_constant(column: Array) -> bool:
    """Return whether a column is one value for all of its rows, as `Uses.of` makes it, and has rows."""
    return len(column) > 0 and column.strides == (0,)


def _joined(columns: Sequence[Array]) -> Array:
    """Return columns one behind the other; one value in all of them stays one value."""
    filled = [column for column in columns if len(column)]
    if filled and all(map(_is_constant, filled)) and len({column[0].item() for column in filled}) == 1:
        return np.broadcast_to(filled[0][:1], sum(map(len, filled)))
    return np.concatenate(columns)
