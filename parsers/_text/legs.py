"""The second leg of a dual connection, where a log names the cells of both technologies in one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.tables import NOT_A_TIME

if TYPE_CHECKING:
    from multitracer.tables import Mask, Numbers, Table

_MOSTLY = 0.5
"""From this share of times with both on, a log has a line for each cell; a log of one cell a line may have
both in one second, when the cell changes (a drive of the UCC data set: 1 of 524). Not measured on others."""


def name_legs(radio: Table) -> None:
    """Make the NR cell of a statement that has a serving LTE cell, too, a secondary one, in place.

    A phone with both has its anchor in LTE (EN-DC: TS 37.340, 4.1.2). Taken for two serving cells, they would
    be a change of the cell, and back, with each statement.

    Parameters
    ----------
    radio : Table
        RADIO of one log. Rows of one line are of one statement, and rows of one time, if most times with NR
        have LTE, too.
    """
    serving = np.isin(radio["role"], ("serving", ""))
    lte, nr = (serving & (radio["rat"] == rat) for rat in ("LTE", "NR"))
    legs = _together(nr, lte, radio["line"].astype(np.int64))
    timed = radio["time_ns"] != NOT_A_TIME
    at_one_time = _together(nr & timed, lte & timed, radio["time_ns"])
    if at_one_time.sum() >= _MOSTLY * max(int(nr.sum()), 1):
        legs |= at_one_time
    radio["role"][legs] = "secondary"


def _together(nr: Mask, lte: Mask, statement: Numbers) -> Mask:
    """Return which rows of NR are of a statement that has LTE, too."""
    return np.asarray(nr & np.isin(statement, statement[lte]))
