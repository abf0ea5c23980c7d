"""The serving cell as a coloured strip, and what a cell is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.figures.series import Series
from multitracer.figures.stack import Panel, Unit
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.analysis.mobility.cells import Stays
    from multitracer.tables import Mask, Row

_COLOURS = 6
"""Roles cell_1 to cell_6 of the palette; a seventh is for all other cells."""
_MOST_NAMED = 12
"""Cells with a line of the legend: those that served longest."""


def cell_name(cell: Row) -> str:
    """Return a row of CELLS or STAYS in words: technology, network, and what identifies the cell."""
    names = {"cell_id": "cell", "physical_cell_id": "PCI", "channel": "channel"}
    facts = [f"{word} {cell[name]}" for name, word in names.items() if cell[name] not in (None, NA)]
    return " ".join(filter(None, (cell["rat"], cell["plmn"], ", ".join(facts) or "cell not identified")))


def cell_strip(stays: Stays) -> Panel | None:
    """Return the strip of the serving cell over time; None of a phone that never names one."""
    if not stays.cells:
        return None
    seconds = np.bincount(stays.table["cell"], weights=stays.table["seconds"], minlength=stays.cells)
    ranked = np.argsort(-seconds, kind="stable")
    names = {int(row["cell"]): cell_name(row) for row in stays.table.rows()}
    of_piece = stays.table["cell"][stays.stay]
    series = [
        _strip(stays, np.isin(of_piece, cell), names[int(cell)], f"cell_{rank % _COLOURS + 1}")
        for rank, cell in enumerate(ranked[:_MOST_NAMED])
    ]
    if len(ranked) > _MOST_NAMED:
        others = np.isin(of_piece, ranked[_MOST_NAMED:])
        series.append(_strip(stays, others, f"{len(ranked) - _MOST_NAMED} other cells", "cell_7"))
    drawn = [each for each in series if len(each)]
    return Panel("cell", "Serving cell", Unit(1, "", ""), 0.22, drawn, shades=True) if drawn else None


def _strip(stays: Stays, chosen: Mask, name: str, role: str) -> Series:
    """Return a series that is 1 while one of the chosen pieces lasts; pieces that touch are one."""
    begin, end = stays.begin_ns[chosen], stays.end_ns[chosen]
    apart = begin[1:] > end[:-1]
    first, last = np.append(True, apart)[: len(begin)], np.append(apart, True)[: len(end)]
    times = np.column_stack([begin[first], end[last]]).ravel()
    value = np.tile([1, 0], len(times) // 2).astype(np.int64)
    return Series(name, role, times, value, doc="serving cell, as the phone named it")
