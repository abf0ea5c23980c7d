"""Times that came from another clock are known to an error: the band in which a series may lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.figures.series import Series
from multitracer.tables import NOT_A_TIME
from multitracer.words import time_error

if TYPE_CHECKING:
    from multitracer.clock.moved_table import Moved

_MOST_TRIPLED = 20_000
"""Of more points only one bar each is drawn: they lie closer together than any error that matters."""


def time_error_band(series: Series, clock: Moved) -> Series | None:
    """Return bars from the least to the most that a growing series may have reached at each time.

    At a time t these are its values at t - error and t + error. They are drawn at each point and at the ends
    of its error, so that zooming in shows how far a point may move.

    Parameters
    ----------
    series : Series
        On the clock of another host.
    clock : Moved
        How it came there.

    Returns
    -------
    Series or None
        None if the times are exact, or their error is not known.
    """
    known = clock.table["time_ns"] != NOT_A_TIME
    if not len(series) or not clock.placed or not np.any(clock.bound_ns[known] > 0):
        return None
    order = np.argsort(clock.table["time_ns"][known], kind="stable")
    at, bound = clock.table["time_ns"][known][order], clock.bound_ns[known][order]
    first = int(series.time_ns[0])
    time = series.time_ns - first
    error = np.rint(np.interp(time, at - first, bound)).astype(np.int64)
    if len(series) <= _MOST_TRIPLED:
        time = np.sort(np.concatenate([time - error, time, time + error]))
        error = np.rint(np.interp(time, at - first, bound)).astype(np.int64)
    reached = np.maximum.accumulate(series.value)
    low, high = (_reached(series.time_ns - first, reached, time + sign * error) for sign in (-1, 1))
    label = f"{series.label} ± {time_error(float(np.median(bound)))}"
    doc = f"where {series.label} may lie: {clock.sentence}"
    return Series(label, "received_band", first + time, low, until=high, doc=doc)


def _reached(time: np.ndarray, reached: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return the value that was reached at some times; before the first, the first."""
    return np.asarray(reached[np.maximum(np.searchsorted(time, at, "right") - 1, 0)])
