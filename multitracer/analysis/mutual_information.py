"""How much one series tells about another, at each lag, and how surely: normalised mutual information.

Two series on one regular grid come in; a value, its baseline and its significance for each lag come out. The
value is estimated with bins that hold equally many points, or with nearest neighbours (Kraskov, Stögbauer and
Grassberger 2004). The baseline moves one series against the other, so that each keeps its autocorrelation: a
plain permutation destroys it, and takes chance for dependence. docs/statistics.md has the rules and sources.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from multitracer.errors import InputError
from multitracer.findings import NMI
from multitracer.tables import NA, Table

try:
    from scipy.stats import false_discovery_control

    from multitracer.analysis.statistics.binned import Binned, binned, stratified
    from multitracer.analysis.statistics.choices import Choices, Estimator
    from multitracer.analysis.statistics.correlations import correlation_of_distances, rank_correlation
    from multitracer.analysis.statistics.curve import by_neighbours, curve
    from multitracer.analysis.statistics.grid import Grid
    from multitracer.analysis.statistics.pairs import moved
    from multitracer.analysis.statistics.resampled import lags_of_peak
    from multitracer.analysis.statistics.stationarity import is_random_walk
    from multitracer.analysis.statistics.surrogates import (
        Baseline,
        block_length,
        surrogate_orders,
    )
except ImportError as error:
    missing = str(error.name).partition(".")[0]
    raise InputError(
        f"statistics: {missing} is not installed; pip install 'multitracer[statistics]'"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.analysis.statistics.curve import Curve
    from multitracer.analysis.statistics.entropy import Normaliser
    from multitracer.tables import Array, Document, Mask, Numbers

LEAST_POINTS = 30
"""With fewer common points nothing is said; a bin would hold fewer than ten (not measured)."""
_ONE = 1 - 1e-9
"""From here on a correlation is 1 but for rounding."""
_LEVEL = 0.05
"""Up to it a peak is beyond chance, and has a lag of its own; a convention."""


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
    conditional, conditional_p95 : ndarray of float64, shape (n_lags,), or None
        NMI with the third series given, in bins of equal counts, and what 5 % of the surrogates of y exceed;
        NaN where fewer than 30 points have all three; None without a third series.
    reasons : tuple of str, length n_lags
        Why a lag has no value; empty where it has one.
    peak : int or None
        Which lag stands out most from its surrogates; None if no lag has a value.
    peak_low_s, peak_high_s : float, s
        Between which lags it is in 95 % of resampled pairs; all lags where the peak is not beyond chance
        (p_corrected above 5 %). NaN without a peak.
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
    conditional_p95: Array | None
    reasons: tuple[str, ...]
    peak: int | None
    estimator: str
    normaliser: str
    baseline: str
    permutations: int
    is_differenced: bool = False
    reason: str = ""
    peak_low_s: float = math.nan
    peak_high_s: float = math.nan

    @property
    def peak_lag_s(self) -> float:
        """The lag of the peak, NaN without one."""
        return self._at_peak(self.lag_s)

    @property
    def peak_nmi(self) -> float:
        """The value at the peak, NaN without one."""
        return self._at_peak(self.nmi)

    @property
    def peak_p_value(self) -> float:
        """The p value of the peak, corrected for the search over the lags; NaN without one."""
        return self._at_peak(self.p_corrected)

    def _at_peak(self, values: Array) -> float:
        return float("nan") if self.peak is None else float(values[self.peak])


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
    choices = Choices(estimator, normaliser, permutations, baseline, seed)
    lags = np.asarray(lags)
    choices.check(lags, step_s)
    grid = Grid.of(x, y, given, session)
    grid = grid.differenced() if difference else grid
    meet = bool(np.any(np.isfinite(grid.x) & np.isfinite(grid.y)))
    grid, n = grid.paired(lags)
    reasons = _lag_reasons(lags, n, meet=meet)
    blank = replace(
        not_known(lags, step_s=step_s, reason="", estimator=estimator, normaliser=normaliser),
        n=n, reasons=reasons, baseline=baseline, is_differenced=difference,
    )  # fmt: skip
    usable = np.array([not reason for reason in reasons])
    if not usable.any():
        return _without(blank, reasons[int(np.argmax(n))])
    return _measured(blank, grid, lags, usable, choices)


def _lag_reasons(lags: Numbers, n: Numbers, *, meet: bool) -> tuple[str, ...]:
    """Return why nothing can be said at each lag, empty where something can."""
    if not n.any() and not meet:
        return ("the two series have no point in common",) * len(n)
    return tuple(_lag_reason(lag, points) for lag, points in zip(lags.tolist(), n.tolist(), strict=True))


def _lag_reason(lag: int, points: int) -> str:
    if points >= LEAST_POINTS:
        return ""
    if not points and lag:
        return "the lag is longer than the overlap of the two series"
    return f"fewer than {LEAST_POINTS} common points: {points}"


def _without(blank: Dependence, reason: str) -> Dependence:
    """Return a result without a value, with its reason at each lag that has none of its own."""
    return replace(blank, reason=reason, reasons=tuple(each or reason for each in blank.reasons))


def _measured(blank: Dependence, grid: Grid, lags: Numbers, usable: Mask, choices: Choices) -> Dependence:
    """Return the result at the lags that have points enough."""
    used = lags[usable].tolist()
    blank = _with_correlations(blank, grid, used, usable)
    bins = binned(grid, used, choices, points=int(blank.n.max()))
    reason = _unfit(blank, grid, bins, choices)
    if reason:
        return _without(blank, reason)
    at, block = np.flatnonzero(np.isfinite(grid.y)), block_length(grid.x, grid.y, grid.session)
    orders = partial(
        surrogate_orders, grid.session[at], choices.baseline,
        count=choices.permutations, block=block, seed=choices.seed,
    )  # fmt: skip
    if grid.given is not None:
        parts = stratified(grid, grid.given, used, choices, least=LEAST_POINTS)
        known = curve(parts.measure, parts.partners, parts.y, orders())
        blank = replace(
            blank, conditional=_spread(known.values, usable), conditional_p95=_spread(known.p95, usable)
        )
    if choices.estimator == "ksg":
        partners = [moved(grid.x, -lag, grid.session, missing=np.nan)[at] for lag in used]
        of = curve(by_neighbours, partners, grid.y[at], orders())
    else:
        of = curve(bins.measure, bins.partners, bins.y, orders())
    result = _filled(blank, usable, of, bins, choices)
    return _with_lags(result, of, bins, grid.session[at], block=block, seed=choices.seed)


def _with_lags(
    result: Dependence, of: Curve, bins: Binned, session: Numbers, *, block: int, seed: int
) -> Dependence:
    """Return the result with the lags at which its peak may be; KSG's by the bins, too."""
    lag_s = result.lag_s[np.isfinite(result.nmi)]
    if of.p_corrected[of.peak] > _LEVEL:
        return replace(result, peak_low_s=float(lag_s[0]), peak_high_s=float(lag_s[-1]))
    usual = 0.0 if result.estimator == "ksg" else of.usual
    low, high = lags_of_peak(bins, usual, session, block=block, seed=seed)
    return replace(
        result,
        peak_low_s=float(lag_s[min(low, of.peak)]),
        peak_high_s=float(lag_s[max(high, of.peak)]),
    )


def _with_correlations(blank: Dependence, grid: Grid, used: list[int], usable: Mask) -> Dependence:
    """Return the result with the correlations at the lags that are used."""
    partners = [moved(grid.y, lag, grid.session, missing=np.nan) for lag in used]
    return replace(
        blank,
        spearman=_spread([rank_correlation(grid.x, y) for y in partners], usable),
        distance_correlation=_spread([correlation_of_distances(grid.x, y) for y in partners], usable),
    )


def _unfit(blank: Dependence, grid: Grid, bins: Binned, choices: Choices) -> str:
    """Return why the two series as a whole cannot be compared, empty if they can."""
    for name, values in (("x", grid.x), ("y", grid.y)):
        if np.nanmin(values) == np.nanmax(values):
            return f"{name} is constant"
    equal = np.flatnonzero(np.abs(blank.spearman) >= _ONE)
    if len(equal) or bins.is_one_to_one:
        where = f" at lag {blank.lag_s[equal[0]]:g} s" if len(equal) else ""
        return f"one series is the other one in disguise: each follows from the other{where}"
    for name, values in (("x", grid.x), ("y", grid.y)):
        if choices.estimator == "ksg" and _has_levels(values):
            return f"{name} has equal values, and ksg needs different ones; use equal-count bins"
        if is_random_walk(values, grid.session):
            return f"{name} is not stationary: it cannot be told from a random walk; take differences"
    return ""


def _has_levels(values: Array) -> bool:
    """Return whether more than a tenth of the points have a value that another one has (ours)."""
    held = values[np.isfinite(values)]
    return len(np.unique(held)) < 0.9 * len(held)


def _filled(blank: Dependence, usable: Mask, of: Curve, bins: Binned, choices: Choices) -> Dependence:
    """Return the result with its values at the lags that are used."""
    has_bins = choices.estimator != "ksg"
    return replace(
        blank,
        nmi=_spread(of.values, usable),
        p95_permuted=_spread(of.p95, usable),
        p_value=_spread(of.p_value, usable),
        p_corrected=_spread(of.p_corrected, usable),
        bins=np.where(usable & has_bins, bins.of_x, NA),
        bins_y=np.where(usable & has_bins, bins.of_y, NA),
        peak=int(np.flatnonzero(usable)[of.peak]),
        permutations=of.permutations,
    )


def _spread(values: Sequence[float] | Array, usable: Mask) -> Array:
    """Return values among the lags that have none."""
    spread = np.full(len(usable), np.nan)
    spread[usable] = values
    return spread


def not_known(
    lags: Numbers, *, step_s: float, reason: str, estimator: str = "equal-count", normaliser: str = "min"
) -> Dependence:
    """Return a result without a value, for a pair that cannot be compared: NaN and the reason at each lag.

    Parameters
    ----------
    lags : ndarray of int64, shape (n_lags,), steps
    step_s : float, s
    reason : str
    estimator, normaliser : str
    """
    missing, none = np.full(len(lags), np.nan), np.full(len(lags), NA, dtype=np.int64)
    return Dependence(
        lag_s=np.asarray(lags) * step_s,
        nmi=missing, p95_permuted=missing, p_value=missing, p_corrected=missing,
        n=np.zeros(len(lags), dtype=np.int64), bins=none, bins_y=none,
        spearman=missing, distance_correlation=missing, conditional=None, conditional_p95=None,
        reasons=(reason,) * len(lags), peak=None,
        estimator=estimator, normaliser="linfoot" if estimator == "ksg" else normaliser,
        baseline="shift", permutations=0, reason=reason,
    )  # fmt: skip


def table_of(
    results: Sequence[tuple[str, str, Dependence]], *, given: str = "", provenance: Document | None = None
) -> Table:
    """Return table NMI of the pairs: a row for each pair and lag, with q_value over all pairs.

    Parameters
    ----------
    results : sequence of (name of x, name of y, Dependence)
    given : str
        Name of the third series.
    provenance : dict, optional
    """
    parts = [_rows(x, y, result, given) for x, y, result in results]
    table = Table.concatenate(NMI, parts)
    table.provenance.update(provenance or {})
    return with_q_values(table)


def _rows(x: str, y: str, of: Dependence, given: str) -> Table:
    """Return a pair's rows, q_value missing."""
    count = len(of.lag_s)
    peak = np.zeros(count, dtype=bool)
    if of.peak is not None:
        peak[of.peak] = True
    missing = np.full(count, np.nan)
    columns = {name: getattr(of, name) for name in _BY_LAG} | {
        "q_value": missing, "is_peak": peak, "reason": np.array(of.reasons),
        "conditional_nmi": missing if of.conditional is None else of.conditional,
        "conditional_p95": missing if of.conditional_p95 is None else of.conditional_p95,
    }  # fmt: skip
    stated = {"x": x, "y": y, "given": given} | {name: getattr(of, name) for name in _FOR_ALL_LAGS}
    return Table(NMI, columns | {name: np.full(count, value) for name, value in stated.items()})


_BY_LAG = (
    "lag_s", "nmi", "p95_permuted", "p_value", "p_corrected",
    "bins", "bins_y", "n", "spearman", "distance_correlation",
)  # fmt: skip
_FOR_ALL_LAGS = ("estimator", "normaliser", "baseline", "permutations", "is_differenced")


def with_q_values(table: Table) -> Table:
    """Return table NMI with q_value at each pair's peak: Benjamini and Hochberg (1995) over p_corrected.

    A pair is one hypothesis, since p_corrected has paid for the search over its lags; other lags have NaN.
    """
    tested = table["is_peak"] & np.isfinite(table["p_corrected"])
    q_value = np.full(len(table), np.nan)
    if tested.any():
        q_value[tested] = false_discovery_control(table["p_corrected"][tested])
    return Table(table.schema, table.columns | {"q_value": q_value}, dict(table.provenance))
