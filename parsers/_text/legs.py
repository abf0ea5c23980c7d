"""The second leg of a dual connection, where a log names the cells of both technologies in one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from multitracer.tables import Table


def name_legs(radio: Table) -> None:
    """Make the NR cell of a statement that has a serving LTE cell, too, a secondary one, in place.

    A phone with both has its anchor in LTE (EN-DC: TS 37.340, 4.1.2). Taken for two serving cells, they would
    be a change of the cell, and back, with each statement.

    Parameters
    ----------
    radio : Table
        RADIO of one log; rows of one `line` and time are of one statement.
    """
    rat, role = radio["rat"], radio["role"]
    serving = (role == "serving") | (role == "")
    statement = np.column_stack([radio["line"].astype(np.int64), radio["time_ns"]])
    _, number = np.unique(statement, axis=0, return_inverse=True)
    number = number.reshape(-1)
    anchored = np.zeros(len(radio), dtype=bool)
    anchored[number[serving & (rat == "LTE")]] = True
    role[serving & (rat == "NR") & anchored[number]] = "secondary"
