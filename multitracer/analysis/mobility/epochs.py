"""A quantity laid over all handovers: mean and median per bin of the time since them, with intervals.

The mean's interval is the percentile bootstrap over handovers (Efron 1979): a whole handover is drawn or not,
so that neighbouring bins of one handover stay together. The median's is that of order statistics: the pair of
values, equally far from both ends, that holds the median of the population with at least 95 %, whatever its
distribution is. Below six handovers there is no such pair.
"""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.mobility.handovers import bounds_ns
from multitracer.analysis.mobility.series import Samples, Steps, medians
from multitracer.errors import InputError
from multitracer.mobility import EPOCHS
from multitracer.tables import Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.tables import Array, Times

BEFORE_S, AFTER_S, BIN_S = 10.0, 10.0, 0.5
"""A bin of half a second holds an interruption of 30 to 50 ms and the stall that TCP makes of it. Not
measured."""
CERTAIN_S = 2.0
"""Handovers whose time is less certain than this are left out: they would blur four bins into one. Not
measured."""
CONFIDENCE = 0.95  # the usual level; not measured
DRAWS = 1_000
"""The end of a 95 % interval is then the 25th of 1,000 draws; its own error is some 0.7 % in rank."""
_MOST_BINS = 10_000  # a window of an hour and a half in half seconds; more is a slip of the units
_LEAST_COVERED = 0.5  # of a bin, so that its mean is one of that bin; not measured


def epochs(
    handovers: Table,
    series: Steps | Samples,
    *,
    seed: int,
    window_s: tuple[float, float] = (BEFORE_S, AFTER_S),
    bin_s: float = BIN_S,
    certain_s: float = CERTAIN_S,
) -> Table:
    """Return a quantity by the time since the handovers.

    Parameters
    ----------
    handovers : Table
        JUDGED_HANDOVERS.
    series : Steps or Samples
        The quantity. A bin of Steps has their mean, one of Samples their median.
    seed : int
        Of the draws: the same seed gives the same intervals.
    window_s : tuple of two float
        How far the bins reach before and after a handover.
    bin_s : float
        Width of a bin.
    certain_s : float
        Handovers whose time is known worse are left out and counted.

    Returns
    -------
    Table
        EPOCHS, in the unit of the series. A handover without a value in a bin is not in its `n`. Provenance:
        `handovers`, `left_out` by reason, `certain_s`, `seed`.

    Raises
    ------
    InputError
        If the bins are too many, or have no width.
    """
    count = _bins(window_s, bin_s)
    low, high = bounds_ns(handovers)
    certain = (high - low) <= round(certain_s * NS_PER_S)
    instants = (low + (high - low) // 2)[certain]
    edges = np.rint((np.arange(count + 1) * bin_s - window_s[0]) * NS_PER_S).astype(np.int64)
    values = np.empty((len(instants), count))
    ready = series.known() if isinstance(series, Samples) else series
    for number in range(count):
        values[:, number] = _values(ready, instants + edges[number], instants + edges[number + 1])
    columns: dict[str, Array] = {
        "begin_s": edges[:-1] / NS_PER_S, "end_s": edges[1:] / NS_PER_S,
        "n": np.isfinite(values).sum(axis=0), **_means(values, seed), **_medians(values),
    }  # fmt: skip
    left_out = {"time not known well enough": int((~certain).sum())}
    facts = {"handovers": len(instants), "left_out": left_out, "certain_s": certain_s, "seed": seed}
    return Table(EPOCHS, columns, facts)


def _bins(window_s: tuple[float, float], bin_s: float) -> int:
    if not (0 < bin_s < np.inf and 0 < sum(window_s) < np.inf):
        raise InputError(f"epochs: {bin_s} s is no width of a bin in {window_s}; give seconds above 0")
    count = round(sum(window_s) / bin_s)
    if not 1 <= count <= _MOST_BINS:
        raise InputError(f"epochs: {count} bins; give a bin_s that makes 1 to {_MOST_BINS}")
    return count


def _values(series: Steps | Samples, begin: Times, end: Times) -> Array:
    """Return the value of one bin for each handover, NaN where it has none; samples are in order."""
    if isinstance(series, Steps):
        mean, covered = series.mean(begin, end)
        return np.asarray(np.where(covered >= _LEAST_COVERED, mean, np.nan))
    return medians(series, begin, end)[0]


def _means(values: Array, seed: int) -> dict[str, Array]:
    number, bins = values.shape
    known = np.isfinite(values)
    mean = _ratio(np.where(known, values, 0.0).sum(axis=0), known.sum(axis=0))
    if number < 2:
        unknown = np.full(bins, np.nan)
        return {"mean": mean, "mean_low": unknown, "mean_high": unknown}
    random = np.random.default_rng(seed)
    weights = random.multinomial(number, np.full(number, 1 / number), size=DRAWS).astype(np.float64)
    drawn = _ratio(weights @ np.where(known, values, 0.0), weights @ known)
    drawn[:, known.sum(axis=0) < 2] = np.nan
    ends = np.full((2, bins), np.nan)
    some = np.flatnonzero(np.isfinite(drawn).any(axis=0))
    tail = (1 - CONFIDENCE) / 2
    ends[:, some] = np.nanquantile(drawn[:, some], [tail, 1 - tail], axis=0)
    return {"mean": mean, "mean_low": ends[0], "mean_high": ends[1]}


def _ratio(total: Array, count: Array) -> Array:
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def _medians(values: Array) -> dict[str, Array]:
    bins = values.shape[1]
    result = np.full((3, bins), np.nan)
    for number in range(bins):
        ordered = np.sort(values[np.isfinite(values[:, number]), number])
        if len(ordered):
            result[0, number] = np.median(ordered)
        rank = order_statistic(len(ordered))
        if rank:
            result[1:, number] = ordered[rank - 1], ordered[-rank]
    return dict(zip(("median", "median_low", "median_high"), result, strict=True))


def order_statistic(number: int) -> int:
    """Return the rank, from 1, of the median's lower bound; the upper bound has the same rank from above.

    Parameters
    ----------
    number : int
        How many values there are.

    Returns
    -------
    int
        The largest k with P(fewer than k of n values are below the median) <= 2.5 %, by the binomial
        distribution; 0 if there is none (n < 6).
    """
    tail, rank, below = (1 - CONFIDENCE) / 2, 0, 0
    limit = tail * 2**number if number < 1_000 else 0.0
    if number >= 1_000:  # as the normal distribution: 1.96 standard deviations
        return int(number / 2 - 1.96 * number**0.5 / 2)
    for k in range(number):
        below += comb(number, k)
        if below > limit:
            break
        rank = k + 1
    return rank
