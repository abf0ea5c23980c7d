"""Sequence space as a grid of cells, so that each stretch of it is looked at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import first_painters, places

if TYPE_CHECKING:
    from multitracer.tables import Array


Cells = tuple["Array", "Array"]
"""The first cell of some rows, and the one behind their last: int64, shape (n,)."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Sequence space cut where anything sent begins or ends; a cell is the stretch between two edges."""

    edges: Array

    def cell(self, unit: Array) -> Array:
        """Return the cell that holds each unit; -1 for a unit that no segment sent.

        Parameters
        ----------
        unit : ndarray of int64, any shape

        Returns
        -------
        ndarray of int64, shape of `unit`
        """
        cell = np.searchsorted(self.edges, unit, side="right") - 1
        return np.where((cell >= 0) & (cell < len(self.edges) - 1), cell, -1)

    def first(self, rows: Array, begin: Array, end: Array, *, nobody: int) -> Array:
        """Return for each cell, and for the cell -1, the first of `rows` that covers it, else `nobody`.

        Parameters
        ----------
        rows : ndarray of int64, shape (n,), ascending
        begin, end : ndarray of int64, units, shape (n,)
            What each row covers; all are edges of the grid.
        nobody : int
            The row of a cell that none covers.

        Returns
        -------
        ndarray of int64, shape (n_cells + 1,)
        """
        return self.first_over(rows, self.cells(begin, end), nobody=nobody)

    def cells(self, begin: Array, end: Array) -> Cells:
        """Return the first cell of each range of units, and the one behind its last; they are edges."""
        return places(self.edges, begin), places(self.edges, end)

    def first_over(self, rows: Array, cells: Cells, *, nobody: int) -> Array:
        """Return what `first` does of rows of which the cells are known."""
        painter = first_painters(*cells, max(len(self.edges) - 1, 0))
        first = np.full(len(painter) + 1, nobody, dtype=np.int64)
        np.take(np.append(rows, nobody), painter, out=first[:-1], mode="clip")
        return first
