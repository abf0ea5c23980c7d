"""How much one series tells about another, at each lag, and how surely: normalised mutual information.

Two series on one regular grid come in; a value, its baseline and its significance for each lag come out. The
value is estimated with bins that hold equally many points, or with nearest neighbours (Kraskov, Stögbauer and
Grassberger 2004). The baseline moves one series against the other, so that each keeps its autocorrelation: a
plain permutation destroys it, and takes chance for dependence. docs/analysis.md has the rules and their sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from multitracer.tables import Column, Schema, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.tables import Array, Numbers

Estimator = Literal["equal-count", "freedman-diaconis", "miller-madow", "ksg"]
Normaliser = Literal["min", "max", "mean", "sqrt", "joint"]
Baseline = Literal["shift", "block", "plain"]

NMI = Schema(
    "nmi",
    (
        Column("x", "U64", "name of the first series"),
        Column("y", "U64", "name of the second series"),
        Column("lag_s", "float64", "time from a point of x to its partner of y; above 0: y follows x", "s"),
        Column("nmi", "float64", "normalised mutual information of the two at this lag, 0 to 1"),
        Column("p95_permuted", "float64", "what chance alone exceeds at this lag in 5 % of the surrogates"),
        Column("p_value", "float64", "share of the surrogates that reach the value at this lag"),
        Column("p_corrected", "float64", "the same, corrected for the search over the lags"),
        Column(
            "q_value", "float64", "false discovery rate over the pairs of the table; at a pair's peak alone"
        ),
        Column("is_peak", "bool", "whether this lag is the pair's peak"),
        Column("bins", "int64", "bins of x", na=True),
        Column("bins_y", "int64", "bins of y", na=True),
        Column("n", "int64", "points that both series have at this lag"),
        Column("spearman", "float64", "rank correlation at this lag, -1 to 1"),
        Column("distance_correlation", "float64", "distance correlation at this lag, 0 to 1"),
        Column("conditional_nmi", "float64", "the same as nmi with the third series given; NA without one"),
        Column("given", "U64", "name of the third series; empty without one"),
        Column("estimator", "U24", "equal-count, freedman-diaconis, miller-madow, ksg"),
        Column("normaliser", "U8", "min, max, mean, sqrt, joint; linfoot with ksg"),
        Column("baseline", "U8", "how surrogates are made: shift, block, plain"),
        Column("permutations", "int64", "surrogates behind p95_permuted and the p values"),
        Column("is_differenced", "bool", "whether both series were differenced first"),
        Column("reason", "U128", "why the cells are NA; empty where they are not"),
    ),
)
"""One row for each pair and lag."""


@dataclass(frozen=True, slots=True)
class Dependence:
    """What two series tell about each other, at each lag.

    Attributes
    ----------
    lag_s : ndarray of float64, shape (n_lags,), s
        Time from a point of x to its partner of y; above 0: y follows x.
    nmi, p95_permuted, p_value, p_corrected : ndarray of float64, shape (n_lags,)
        Value, 95th percentile of the surrogates, p at this lag alone, p corrected for the search over lags.
        NaN where `reasons` says why.
    n, bins, bins_y : ndarray of int64, shape (n_lags,)
        Common points; bins of x and of y, NA without bins.
    spearman, distance_correlation : ndarray of float64, shape (n_lags,)
    conditional : ndarray of float64, shape (n_lags,), or None
        NMI with the third series given; None without one.
    reasons : tuple of str, length n_lags
        Why a lag has no value; empty where it has one.
    peak : int or None
        Which lag stands out most from its surrogates; None if no lag has a value.
    estimator, normaliser, baseline : str
    permutations : int
        Surrogates that were counted; fewer than wanted if the series has not so many different shifts.
    is_differenced : bool
    reason : str
        Why there is no value at any lag; empty otherwise.
    """

    lag_s: Array
    nmi: Array
    p95_permuted: Array
    p_value: Array
    p_corrected: Array
    n: Numbers
    bins: Numbers
    bins_y: Numbers
    spearman: Array
    distance_correlation: Array
    conditional: Array | None
    reasons: tuple[str, ...]
    peak: int | None
    estimator: str
    normaliser: str
    baseline: str
    permutations: int
    is_differenced: bool = False
    reason: str = ""

    @property
    def peak_lag_s(self) -> float:
        """The lag of the peak, NaN without one."""
        raise NotImplementedError

    @property
    def peak_nmi(self) -> float:
        """The value at the peak, NaN without one."""
        raise NotImplementedError

    @property
    def peak_p_value(self) -> float:
        """The p value of the peak, corrected for the search over the lags; NaN without one."""
        raise NotImplementedError


def dependence(  # noqa: PLR0913  # each is a choice that a result has to state
    x: Array,
    y: Array,
    *,
    step_s: float,
    lags: Numbers,
    session: Numbers | None = None,
    given: Array | None = None,
    estimator: Estimator = "equal-count",
    normaliser: Normaliser = "min",
    permutations: int = 999,
    baseline: Baseline = "shift",
    difference: bool = False,
    seed: int = 0,
) -> Dependence:
    """Return what two series tell about each other at each lag, and how surely.

    Parameters
    ----------
    x, y : ndarray of float64, shape (n_points,)
        On one regular grid; NaN where there is no value. Gaps stay gaps.
    step_s : float, s
        Width of the grid.
    lags : ndarray of int64, shape (n_lags,), steps
        Lag L pairs x[t] with y[t + L].
    session : ndarray of int64, shape (n_points,), optional
        Which session a point belongs to; its points are neighbours. No lag and no surrogate crosses a border.
    given : ndarray of float64, shape (n_points,), optional
        A third series, taken at the time of x.
    estimator : "equal-count", "freedman-diaconis", "miller-madow", "ksg"
    normaliser : "min", "max", "mean", "sqrt", "joint"
        Of the two entropies. KSG has none: there the value is Linfoot's, sqrt(1 - exp(-2 I)).
    permutations : int
    baseline : "shift", "block", "plain"
        "plain" ignores autocorrelation and is far too optimistic; it is there to show it.
    difference : bool
        Take the difference of neighbours first, of both series.
    seed : int
        Of the surrogates; the same seed gives the same result.

    Returns
    -------
    Dependence
        With a reason and NaN for a series that is constant, not stationary, or the other one in disguise, and
        for lags with fewer than 30 common points.

    Raises
    ------
    InputError
        If shapes differ, an option is unknown, or the extra `statistics` is not installed.
    """
    raise NotImplementedError


def not_known(
    lags: Numbers, *, step_s: float, reason: str, estimator: str = "equal-count", normaliser: str = "min"
) -> Dependence:
    """Return a result without a value, for a pair that cannot be compared: NaN at each lag, and the reason."""
    raise NotImplementedError


def table_of(
    results: Sequence[tuple[str, str, Dependence]],
    *,
    given: str = "",
    provenance: dict[str, object] | None = None,
) -> Table:
    """Return table NMI of the pairs: a row for each pair and lag, with q_value over all pairs.

    Parameters
    ----------
    results : sequence of (name of x, name of y, Dependence)
    given : str
        Name of the third series.
    provenance : dict, optional
    """
    raise NotImplementedError


def with_q_values(table: Table) -> Table:
    """Return table NMI with q_value at each pair's peak: Benjamini and Hochberg (1995) over p_corrected."""
    raise NotImplementedError
