"""What the data leave open of a peak's lag: where the peak of the same pair lies in resampled time."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.analysis.statistics.binned import Binned
    from multitracer.tables import Array, Numbers

_COUNT = 199
"""Resamples: the interval leaves out four or five at each end. Not measured."""
_ROWS = 20
"""Resamples that are made at once: 12 MB for an hour of seconds and 21 lags."""
_ENDS = (0.025, 0.975)
"""Of 95 %, as all intervals here; a convention."""


def lags_of_peak(
    bins: Binned, usual: Array | float, session: Numbers, *, block: int, seed: int
) -> tuple[int, int]:
    """Return the first and the last lag at which the peak may be: 95 % of the peaks of resampled pairs.

    A resample is made of blocks of time, drawn with replacement within each session (a circular block
    bootstrap: Politis and Romano 1992). The points of all lags move together, so that neighbouring lags
    of a slow series stay as alike as they are.

    Parameters
    ----------
    bins : Binned
    usual : ndarray of float64, shape (n_lags,), or float
        What is subtracted from the values before the largest is taken, as for the peak itself.
    session : ndarray of int64, shape (n_held,)
        Of each point of `bins.y`; those of a session are neighbours.
    block : int
        Points of a block.
    seed : int

    Returns
    -------
    tuple of int
        Positions among the lags.
    """
    peaks = [
        np.argmax(bins.measure([x[rows] for x in bins.partners], bins.y[rows]).T - usual, axis=1)
        for rows in _resampled(session, block, np.random.default_rng(seed))
    ]
    low, high = np.quantile(np.concatenate(peaks), _ENDS, method="inverted_cdf")
    return int(low), int(high)


def _resampled(session: Numbers, block: int, chance: np.random.Generator) -> Iterator[Numbers]:
    """Yield positions of points, shape (some rows, n_points)."""
    edges = np.flatnonzero(np.diff(session, prepend=session[0] - 1, append=session[-1] + 1))
    for begin in range(0, _COUNT, _ROWS):
        rows = min(_ROWS, _COUNT - begin)
        drawn = (_drawn(rows, high - low, block, chance) + low for low, high in pairwise(edges.tolist()))
        yield np.concatenate(list(drawn), axis=1)


def _drawn(rows: int, points: int, block: int, chance: np.random.Generator) -> Numbers:
    """Return the points of one session in blocks that begin anywhere, shape (rows, points)."""
    length = min(block, points)
    begins = chance.integers(0, points, (rows, -(-points // length), 1))
    drawn: Numbers = (begins + np.arange(length)) % points
    return drawn.reshape(rows, -1)[:, :points]
