"""The difference or ratio of two medians, with a 95 % interval; some values may be censored.

The method is the permutation test of `difference.py`: values change sides at random. A transaction that was given up
has no duration and cannot enter a mean. Here it counts as longer than any other (inf), so the statistic is the
difference of the medians divided by its standard error. Because of this division the level is also right where the two
sides have different variances, if there are many values (Chung and Romano 2013, Annals of Statistics 41).

A median and its error depend on four of the sorted values. The ranks of these four in the pooled sorted values depend
only on the drawn labels, not on the values. So they are drawn once, for all assumed differences.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from math import comb, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.comparison.difference import FIRST, SEED, end_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.tables import Array, Mask, Numbers

_STEPS = (-FIRST, FIRST)
MIN_VALUES = 4
"""The minimum number of values of a side: 3 and 3 values have 20 permutations, so even the most extreme p value is 10
%."""
_MOST_WORK, _FEWEST, _MOST = 4_000_000, 1_999, 3_999
"""The maximum of values times permutations (some hundredths of a second; a report has some hundred
intervals), and the minimum and maximum number of permutations.

A p value of 0.05 is then known to 0.005 to 0.003 (one standard deviation)."""
_CELLS = 1_000_000
"""The maximum number of labels processed together, 1 MB. Not measured."""
_MANY = 1_000
"""Above this number of values, `_errors` is 4 within 1 %."""
_FEW = 64
"""From this number of values on, permutations are drawn at random: there are too many to take each one."""
_TIE = 1e-9
"""Relative tolerance: statistics that differ by less are equal (rounding of float64)."""


class IntervalBounds(NamedTuple):
    """The two ends of a 95 % interval: it contains every difference that the test does not reject."""

    low: float
    high: float


NO_ENDS = IntervalBounds(float("nan"), float("nan"))
"""The result where there is no interval."""


def ratio_interval(ours: Array, theirs: Array) -> IntervalBounds:
    """Return the interval of median(ours) / median(theirs), if ours are theirs times a factor.

    Parameters
    ----------
    ours, theirs : ndarray of float64, shapes (n_ours,), (n_theirs,)
        Sorted, > 0; inf for a censored value.

    Returns
    -------
    IntervalBounds
        0 or inf for an end without a bound; both NaN if a side has fewer than four values or an infinite median.
    """
    test = _test(ours, theirs, np.log)
    if test is None:
        return NO_ENDS
    ratio = test.middles[0] / test.middles[1]
    low, high = (end_of(lambda by: test.p_value(theirs * (ratio * np.exp(by))), step) for step in _STEPS)
    return IntervalBounds(ratio * float(np.exp(low)), ratio * float(np.exp(high)))


def difference_interval(ours: Array, theirs: Array) -> IntervalBounds:
    """Return the interval of median(ours) - median(theirs), if ours are theirs plus a constant.

    Parameters and result are those of `ratio_interval`, but an end without a bound is -inf or inf.
    """
    test = _test(ours, theirs, np.asarray)
    if test is None:
        return NO_ENDS
    apart = test.middles[0] - test.middles[1]
    scale = float(test.middles.max())
    low, high = (end_of(lambda by: test.p_value(theirs + (apart + by)), step * scale) for step in _STEPS)
    return IntervalBounds(apart + low, apart + high)


def _test(ours: Array, theirs: Array, scale: Callable[[Array], Array]) -> _Medians | None:
    """Return the permutation test of two sides.

    It is None if a side has fewer than four values, or an infinite median.
    """
    if min(len(ours), len(theirs)) < MIN_VALUES or np.inf in (_middle(ours), _middle(theirs)):
        return None
    return _Medians(ours, theirs, scale)


def _middle(ordered: Array) -> float:
    return float(ordered[_four(len(ordered))[1:3]].mean())


class _Medians:
    """The permutation test of two medians; `scale` (for example log) is applied before subtraction."""

    def __init__(self, ours: Array, theirs: Array, scale: Callable[[Array], Array]) -> None:
        self._ours, self._scale = ours, scale
        sizes = len(ours), len(theirs)
        self._four = [_four(size) for size in sizes]
        self._errors = np.array([[_errors(size)] for size in sizes])
        self._places, self._is_every = _places(*sizes)
        self.middles = np.array([_middle(ours), _middle(theirs)])

    def p_value(self, theirs: Array) -> float:
        """Return the p value of the hypothesis that both sides have the same distribution, 0 to 1.

        It is the share of permutations whose medians differ at least as much as those of our values and
        `theirs`.
        """
        pooled = np.sort(np.concatenate([self._ours, theirs]))
        longest = pooled[np.isfinite(pooled)][-1]
        of_chance = self._statistic(pooled[self._places], longest)
        true = self._statistic(self._of_sides(theirs), longest)[0]
        reached = int((of_chance >= true * (1 - _TIE)).sum())
        first = 0 if self._is_every else 1  # drawn labels lack the true ones
        return (reached + first) / (len(of_chance) + first)

    def _of_sides(self, theirs: Array) -> Array:
        """Return the four values that determine median and error, for both sides: shape (2, 1, 4)."""
        sides = zip((self._ours, theirs), self._four, strict=True)
        return np.array([[side[four]] for side, four in sides])

    def _statistic(self, values: Array, longest: float) -> Array:
        """Return the squared test statistic of each row: (difference of the medians / standard error)^2.

        `values` has shape (2, n_rows, 4): four sorted values of both sides. In the standard error, an
        infinite value is replaced by `longest`, the longest finite one.
        """
        middle = values[..., 1:3].mean(axis=-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            low, high = (self._scale(np.minimum(values[..., each], longest)) for each in (0, 3))
            centre, width = self._scale(middle), high - low
            square = (centre[0] - centre[1]) ** 2 / ((width / self._errors) ** 2).sum(axis=0)
        square = np.where(np.isinf(middle).any(axis=0), np.inf, square)
        return np.nan_to_num(square, nan=0.0, posinf=np.inf)


def _four(count: int) -> Numbers:
    """Return four ranks, from 0, in a list of `count` sorted values.

    The two outer ranks give the error of the median, the two middle ones the median.
    """
    outer = max(1, round((count + 1) / 2 - sqrt(count)))
    return np.array([outer - 1, (count - 1) // 2, count // 2, count - outer])


@lru_cache(maxsize=256)
def _errors(count: int) -> float:
    """Return how many standard errors of the median lie between the outer two values of `_four`.

    The number follows from the sign test.
    """
    if count > _MANY:
        return 4.0
    below = sum(comb(count, each) for each in range(int(_four(count)[0]) + 1)) / 2**count
    return 2 * NormalDist().inv_cdf(1 - below)


@lru_cache(maxsize=8)
def _places(first: int, second: int) -> tuple[Numbers, bool]:
    """Return the ranks of each side's four values, and whether all permutations are included.

    The ranks have shape (2, n_rows, 4): one row for each permutation. With too many permutations, a random
    sample of them is used, and the second element is False.
    """
    number = first + second
    draws = int(np.clip(_MOST_WORK // number, _FEWEST, _MOST))
    is_every = number < _FEW and comb(number, first) <= draws
    chunks = _every(first, number) if is_every else _drawn(first, number, draws)
    return np.concatenate([_of_labels(chunk) for chunk in chunks], axis=1), is_every


def _of_labels(labels: Mask) -> Numbers:
    """Return the ranks, in the pooled values, of the four values of both sides: shape (2, n_rows, 4).

    Each row of `labels` is a permutation; True assigns a value to the first side.
    """
    sides = [np.nonzero(each)[1].reshape(len(labels), -1) for each in (labels, ~labels)]
    return np.array([side[:, _four(side.shape[1])] for side in sides])


def _every(first: int, number: int) -> Iterator[Mask]:
    chosen = np.array(list(combinations(range(number), first)))
    labels = np.zeros((len(chosen), number), dtype=bool)
    np.put_along_axis(labels, chosen, True, axis=1)
    yield labels


def _drawn(first: int, number: int, draws: int) -> Iterator[Mask]:
    chance = np.random.default_rng(SEED)
    rows = max(1, _CELLS // number)
    for begin in range(0, draws, rows):
        labels = np.tile(np.arange(number) < first, (min(rows, draws - begin), 1))
        yield chance.permuted(labels, axis=1)
