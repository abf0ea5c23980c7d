"""Where the clock of a log was set back: its rows before and after have no order in time.

A clock is corrected by seconds, or by an hour of daylight saving that the logger writes into local time. What
was read before and after belongs to two pieces; nothing is joined, interpolated or compared across them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.tables import Mask, Numbers, Table, Times

BACK_NS = 5 * NS_PER_S
"""As for the messages of a diagnostic log: loggers write some rows of one second in another order."""
_MOST = 5
"""A log with more of them has rows in no order, not a clock that was set so often. Not measured."""


def pieces_of(table: Table) -> Numbers:
    """Return the number of the piece of each row, which rises where the time goes back from line to line.

    Parameters
    ----------
    table : Table
        With `time_ns` and `line`, in any order. One without the path of its log in its provenance may be of
        several, whose lines have no order: it is one piece.

    Returns
    -------
    ndarray of int64, shape (n_rows,)
    """
    piece = np.zeros(len(table), dtype=np.int64)
    timed = np.flatnonzero(table["time_ns"] != NOT_A_TIME)
    timed = timed[np.argsort(table["line"][timed], kind="stable")]
    back = np.diff(table["time_ns"][timed]) < -BACK_NS
    if is_newest_first(table["time_ns"][timed]):
        return piece
    if "path" in table.provenance and 0 < int(back.sum()) <= _MOST:
        piece[timed[1:]] = np.cumsum(back)
    return piece


def is_newest_first(time_ns: Times) -> bool:
    """Return whether a log was written, or exported, with its newest line first.

    Parameters
    ----------
    time_ns : ndarray of int64, ns since 1970, shape (n_rows,)
        In the order of its lines.
    """
    steps = np.diff(time_ns)
    return int((steps < 0).sum()) > int((steps > 0).sum())


def overtaken(time_ns: Times, piece: Numbers) -> Mask:
    """Return which rows lie in the time of a later piece: of two rows of one time the later one counts.

    Parameters
    ----------
    time_ns : ndarray of int64, ns since 1970, shape (n_rows,)
        NOT_A_TIME lies in none.
    piece : ndarray of int64, shape (n_rows,)
    """
    result = np.zeros(len(time_ns), dtype=bool)
    for later in range(1, int(piece.max(initial=0)) + 1):
        times = time_ns[(piece == later) & (time_ns != NOT_A_TIME)]
        result |= (piece < later) & (time_ns >= times.min()) & (time_ns <= times.max())
    return result
