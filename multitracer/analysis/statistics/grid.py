"""Two or three series on one regular grid, and the pairs of their points at a lag, within a session."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.errors import InputError

if TYPE_CHECKING:
    from multitracer.tables import Array, Mask, Numbers


def moved(values: Array, lag: int, session: Numbers, *, missing: float) -> Array:
    """Return, for each point t, the value at t + lag; `missing` if t + lag is not in the same session.

    Parameters
    ----------
    values : ndarray, shape (n_points,)
    lag : int, steps
    session : ndarray of int64, shape (n_points,)
    missing : float

    Returns
    -------
    ndarray of the dtype of `values`, shape (n_points,)
    """
    result = np.full(len(values), missing, dtype=values.dtype)
    if abs(lag) >= len(values):
        return result
    to, source = slice(max(0, -lag), len(values) - max(0, lag)), slice(max(0, lag), len(values) + min(0, lag))
    same = session[to] == session[source]
    result[to][same] = values[source][same]
    return result


def paired(x: Array, y: Array, lags: Numbers, session: Numbers) -> tuple[Mask, Mask, Numbers]:
    """Return which points of x and of y have a partner at any lag, and the number of pairs at each lag.

    Parameters
    ----------
    x, y : ndarray of float64, shape (n_points,)
        NaN where missing.
    lags : ndarray of int64, shape (n_lags,), steps
    session : ndarray of int64, shape (n_points,)

    Returns
    -------
    tuple of ndarray of bool, shape (n_points,), twice, and ndarray of int64, shape (n_lags,)
    """
    of_x, of_y = np.isfinite(x), np.isfinite(y)
    has_x, has_y, counts = np.zeros(len(x), bool), np.zeros(len(y), bool), []
    for lag in lags.tolist():
        with_y = of_x & moved(of_y, lag, session, missing=False)
        has_x |= with_y
        has_y |= of_y & moved(of_x, -lag, session, missing=False)
        counts.append(int(with_y.sum()))
    return has_x, has_y, np.array(counts, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class SampleGrid:
    """The series on their grid; float64, shape (n_points,), NaN where missing.

    Attributes
    ----------
    x, y : ndarray
    given : ndarray or None
        A third series, at the time of x.
    session : ndarray of int64, shape (n_points,)
        Session of each point; the points of a session are contiguous.
    """

    x: Array
    y: Array
    given: Array | None
    session: Numbers

    @classmethod
    def of(cls, x: Array, y: Array, given: Array | None, session: Numbers | None) -> SampleGrid:
        """Return the series as a grid: scaled to the range -1 to 1, with infinite values replaced by NaN.

        Raises
        ------
        InputError
            If shapes differ, there is no point, or the points of a session are not contiguous.
        """
        shape = np.shape(x)
        for name, values in (("y", y), ("given", given), ("session", session)):
            if values is not None and np.shape(values) != shape:
                raise InputError(
                    f"{name}: the array must have the same shape as x, {shape}, but has "
                    f"{np.shape(values)}; use the same grid for all arrays"
                )
        if len(shape) != 1 or not shape[0]:
            raise InputError(f"x: the array must have one dimension and at least one point, but has the shape {shape}")
        members = np.zeros(shape, np.int64) if session is None else np.asarray(session)
        if np.count_nonzero(np.diff(members)) + 1 != len(np.unique(members)):
            raise InputError(
                "session: the points of each session must be contiguous; sort the points by session, then by time"
            )
        return cls(_scaled(x), _scaled(y), None if given is None else _scaled(given), members)

    def differenced(self) -> SampleGrid:
        """Return x and y as differences from the previous point; NaN at gaps and at borders of sessions."""
        return replace(self, x=self.x - self._before(self.x), y=self.y - self._before(self.y))

    def _before(self, values: Array) -> Array:
        return moved(values, -1, self.session, missing=np.nan)

    def paired(self, lags: Numbers) -> tuple[SampleGrid, Numbers]:
        """Return the grid without points that have no partner at any lag, and the pairs at each lag.

        The second element has the number of pairs at each lag: int64, shape (n_lags,).
        """
        has_x, has_y, n = paired(self.x, self.y, lags, self.session)
        return replace(self, x=np.where(has_x, self.x, np.nan), y=np.where(has_y, self.y, np.nan)), n


def _scaled(values: Array) -> Array:
    """Return the values scaled to -1 to 1, so that their squares do not overflow."""
    scaled = np.array(values, dtype=np.float64)
    scaled[~np.isfinite(scaled)] = np.nan
    most = float(np.nanmax(np.abs(scaled), initial=0.0))
    return scaled / most if most > 0 else scaled
