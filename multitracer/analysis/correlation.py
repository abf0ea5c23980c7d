"""Statistical dependence between pairs of quantities, at each lag, as a table NMI.

For each pair, the quantities are resampled to bins of one width over the common time of each session, and the sessions
are concatenated. The result states the uncertainty of the lag that comes from the data, the bins and the clocks.

The measure is normalised mutual information (NMI) of two series on one regular grid. The result for each lag
is a value, its baseline and its significance. The value is estimated with bins that hold equally many points,
or with nearest neighbours (Kraskov, Stögbauer and Grassberger 2004). The baseline shifts one series against
the other, so each keeps its autocorrelation. A plain permutation destroys the autocorrelation and reports
dependence where there is only chance. docs/statistics.md has the rules and sources.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import numpy as np

from multitracer.analysis.common_grid import SessionQuantity, grid_of, on_grid, step_ns_of
from multitracer.errors import InputError
from multitracer.schemas.findings import NMI, SESSIONS_NMI
from multitracer.tables import NA, Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.analysis.statistics.entropy import Estimator, Normaliser
    from multitracer.analysis.statistics.surrogates import Baseline
    from multitracer.tables import Array, Numbers

try:
    from scipy.stats import false_discovery_control

    from multitracer.analysis.statistics.correlations import correlation_of_distances, rank_correlation
    from multitracer.analysis.statistics.curve import (
        Binned,
        SampleGrid,
        binned,
        by_neighbours,
        curve,
        lags_of_peak,
        moved,
        stratified,
    )
    from multitracer.analysis.statistics.entropy import Choices, Estimator
    from multitracer.analysis.statistics.surrogates import Baseline, block_length, is_random_walk, surrogate_orders
except ImportError as error:
    missing = str(error.name).partition(".")[0]
    raise InputError(f"statistics: {missing} is not installed; run pip install 'multitracer[statistics]'") from error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.analysis.statistics.curve import Curve
    from multitracer.analysis.statistics.entropy import Normaliser
    from multitracer.tables import Array, Document, Mask, Numbers

MIN_POINTS = 30
"""The minimum number of common points: with fewer, a bin would hold fewer than ten. Not measured."""
_ONE = 1 - 1e-9
"""A correlation above this value is 1, except for rounding."""
_LEVEL = 0.05
"""The significance level of a peak: up to it, the peak is significant and its lag has an interval; a convention."""


@dataclass(frozen=True, slots=True)
class Dependence:
    """The dependence between two series, at each lag.

    Attributes
    ----------
    lag_s : ndarray of float64, shape (n_lags,), s
        Time from a point of x to the paired point of y; > 0: y follows x.
    nmi, p95_permuted, p_value, p_corrected : ndarray of float64, shape (n_lags,)
        The NMI, the 95th percentile of the surrogates, the p value of this lag alone, and the p value
        corrected for the search over all lags. NaN where `reasons` is not empty.
    n, bins, bins_y : ndarray of int64, shape (n_lags,)
        Number of common points, and numbers of bins of x and of y; NA for an estimator without bins.
    spearman, distance_correlation : ndarray of float64, shape (n_lags,)
    conditional, conditional_p95 : ndarray of float64, shape (n_lags,), or None
        NMI conditional on the third series, in bins of equal counts, and the 95th percentile of its
        surrogates. NaN where fewer than 30 points have all three values; None without a third series.
    reasons : tuple of str, length n_lags
        Why a lag has no value; empty where it has one.
    peak : int or None
        Index of the lag that exceeds its surrogates most; None if no lag has a value.
    peak_low_s, peak_high_s : float, s
        95 % interval of the lag of the peak, from resampled pairs; the full range of lags if the peak is not
        significant (p_corrected above 5 %). NaN without a peak.
    estimator, normaliser, baseline : str
    permutations : int
        Number of surrogates; fewer than requested if the series has fewer different shifts.
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
        """The lag of the peak, s; NaN without a peak."""
        return self._at_peak(self.lag_s)

    @property
    def peak_nmi(self) -> float:
        """The NMI at the peak, NaN without a peak."""
        return self._at_peak(self.nmi)

    @property
    def peak_p_value(self) -> float:
        """The p value of the peak, corrected for the search over the lags; NaN without a peak."""
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
    """Return the normalised mutual information of two series at each lag, with its significance.

    Parameters
    ----------
    x, y : ndarray of float64, shape (n_points,)
        Values on one regular grid; NaN where there is no value. Gaps are not filled.
    step_s : float, s
        Width of the grid.
    lags : ndarray of int64, shape (n_lags,), steps
        Lag L pairs x[t] with y[t + L].
    session : ndarray of int64, shape (n_points,), optional
        Number of the session of each point; the points of a session are contiguous. No lag and no surrogate
        crosses the border between two sessions.
    given : ndarray of float64, shape (n_points,), optional
        A third series, taken at the time of x.
    estimator : "equal-count", "freedman-diaconis", "miller-madow", "ksg"
    normaliser : "min", "max", "mean", "sqrt", "joint"
        The function of the two entropies that divides the mutual information I. For "ksg" it is not used: the
        value is then Linfoot's coefficient sqrt(1 - exp(-2 I)).
    permutations : int
    baseline : "shift", "block", "plain"
        The kind of surrogates. "plain" ignores autocorrelation, so its p values are far too small; it exists
        for demonstration.
    difference : bool
        First replace both series by the differences of neighbouring points.
    seed : int
        Seed of the surrogates; the same seed gives the same result.

    Returns
    -------
    Dependence
        NaN and a reason if a series is constant or not stationary, if one series is a function of the other,
        and for lags with fewer than 30 common points.

    Raises
    ------
    InputError
        If shapes differ, an option is unknown, or the extra `statistics` is not installed.
    """
    choices = Choices(estimator, normaliser, permutations, baseline, seed)
    lags = np.asarray(lags)
    choices.check(lags, step_s)
    grid = SampleGrid.of(x, y, given, session)
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
    """Return the reason why each lag has no value; empty for a lag with a value."""
    if not n.any() and not meet:
        return ("the two series have no point in common",) * len(n)
    return tuple(_lag_reason(lag, points) for lag, points in zip(lags.tolist(), n.tolist(), strict=True))


def _lag_reason(lag: int, points: int) -> str:
    if points >= MIN_POINTS:
        return ""
    if not points and lag:
        return "the lag is longer than the overlap of the two series"
    return f"fewer than {MIN_POINTS} common points: {points}"


def _without(blank: Dependence, reason: str) -> Dependence:
    """Return a result without values; a lag without a reason gets `reason`."""
    return replace(blank, reason=reason, reasons=tuple(each or reason for each in blank.reasons))


def _measured(blank: Dependence, grid: SampleGrid, lags: Numbers, usable: Mask, choices: Choices) -> Dependence:
    """Return `blank` with its values filled in at the lags that have enough points (`usable`)."""
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
        parts = stratified(grid, grid.given, used, choices, minimum=MIN_POINTS)
        known = curve(parts.measure, parts.partners, parts.y, orders())
        blank = replace(blank, conditional=_spread(known.values, usable), conditional_p95=_spread(known.p95, usable))
    if choices.estimator == "ksg":
        partners = [moved(grid.x, -lag, grid.session, missing=np.nan)[at] for lag in used]
        of = curve(by_neighbours, partners, grid.y[at], orders())
    else:
        of = curve(bins.measure, bins.partners, bins.y, orders())
    result = _filled(blank, usable, of, bins, choices)
    return _with_lags(result, of, bins, grid.session[at], block=block, seed=choices.seed)


def _with_lags(result: Dependence, of: Curve, bins: Binned, session: Numbers, *, block: int, seed: int) -> Dependence:
    """Return the result with the 95 % interval of the lag at its peak.

    For the estimator "ksg", the interval is computed from the NMI of equal-count bins.
    """
    lag_s = result.lag_s[np.isfinite(result.nmi)]
    if of.p_corrected[of.peak] > _LEVEL:
        return replace(result, peak_low_s=float(lag_s[0]), peak_high_s=float(lag_s[-1]))
    typical = 0.0 if result.estimator == "ksg" else of.typical
    low, high = lags_of_peak(bins, typical, session, block=block, seed=seed)
    return replace(result, peak_low_s=float(lag_s[min(low, of.peak)]), peak_high_s=float(lag_s[max(high, of.peak)]))


def _with_correlations(blank: Dependence, grid: SampleGrid, used: list[int], usable: Mask) -> Dependence:
    """Return the result with Spearman's and the distance correlation filled in at the lags in `used`."""
    partners = [moved(grid.y, lag, grid.session, missing=np.nan) for lag in used]
    return replace(
        blank,
        spearman=_spread([rank_correlation(grid.x, y) for y in partners], usable),
        distance_correlation=_spread([correlation_of_distances(grid.x, y) for y in partners], usable),
    )


def _unfit(blank: Dependence, grid: SampleGrid, bins: Binned, choices: Choices) -> str:
    """Return the reason why the two series cannot be compared at any lag; empty if they can."""
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
    """Return whether more than a tenth of the points share their value with another point (our rule)."""
    held = values[np.isfinite(values)]
    return len(np.unique(held)) < 0.9 * len(held)


def _filled(blank: Dependence, usable: Mask, of: Curve, bins: Binned, choices: Choices) -> Dependence:
    """Return the result with NMI, p values and surrogates of the computed curve at the usable lags."""
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
    """Return an array over all lags with `values` at the usable lags and NaN at the others."""
    spread = np.full(len(usable), np.nan)
    spread[usable] = values
    return spread


def not_known(
    lags: Numbers, *, step_s: float, reason: str, estimator: str = "equal-count", normaliser: str = "min"
) -> Dependence:
    """Return a result for a pair that cannot be compared: NaN and the same reason at each lag.

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
    """Return table NMI: a row for each pair and lag; q_value is corrected over all pairs.

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
    """Return the rows of table NMI for one pair; the column `q_value` is NaN."""
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

    A pair is one hypothesis, since p_corrected already accounts for the search over its lags. All other lags have NaN.
    """
    tested = table["is_peak"] & np.isfinite(table["p_corrected"])
    q_value = np.full(len(table), np.nan)
    if tested.any():
        q_value[tested] = false_discovery_control(table["p_corrected"][tested])
    return Table(table.schema, table.columns | {"q_value": q_value}, dict(table.provenance))


LONGEST_S = 86_400.0
"""The maximum lag and the maximum width of a bin, s: a lag of more than a day cannot be cause and effect."""
MIN_STEP_S = 1e-3  # below it stamps of most captures and logs mean nothing; not measured
MIN_PERMUTATIONS, MOST_PERMUTATIONS = 19, 100_000
"""Minimum and maximum number of surrogates: with fewer than 19 no value can exceed 95 % of them; more than the maximum
take minutes. Not measured."""
MOST_LAGS = 1001
"""The maximum number of lags of a pair: 50 s in each direction in bins of 0.1 s. Each lag costs as much as all its
surrogates. Not measured."""


class _OfValue(TypedDict):
    estimator: Estimator
    normaliser: Normaliser


@dataclass(frozen=True)
class Settings:
    """The settings of a comparison of quantities.

    Attributes
    ----------
    lags_s : (float, float)
        First and last lag, s; at a positive lag, y follows x.
    step_s : float, optional
        Width of the bins; by default that of the slowest quantity of a pair (`step_ns_of`).
    difference : bool
        Compare the changes from bin to bin instead of the values.
    estimator, normaliser, baseline : str
        The parameters of `dependence`.
    permutations, seed : int
        Number of surrogates, and their seed.

    Raises
    ------
    InputError
        If lags, width or permutations are out of range.
    """

    lags_s: tuple[float, float] = (-10.0, 10.0)
    step_s: float | None = None
    difference: bool = False
    estimator: Estimator = "equal-count"
    normaliser: Normaliser = "min"
    baseline: Baseline = "shift"
    permutations: int = 999
    seed: int = 0

    def __post_init__(self) -> None:
        low, high = self.lags_s
        if not (math.isfinite(low) and math.isfinite(high)) or low > high or max(-low, high) > LONGEST_S:
            raise InputError(
                "the lags must be two numbers of seconds in ascending order, at most one day, but "
                f"are {low:g} and {high:g}; give for example -10 and 10"
            )
        if self.step_s is not None and not MIN_STEP_S <= self.step_s <= LONGEST_S:
            raise InputError(
                f"the width of the time bins must be {MIN_STEP_S:g} s to one day, but is {self.step_s:g} s"
            )
        if not MIN_PERMUTATIONS <= self.permutations <= MOST_PERMUTATIONS:
            raise InputError(
                f"the number of permutations must be {MIN_PERMUTATIONS} to {MOST_PERMUTATIONS:,}, but "
                f"is {self.permutations:,}"
            )

    @property
    def of_value(self) -> _OfValue:
        """The two settings, estimator and normaliser, that determine how an NMI is computed."""
        return {"estimator": self.estimator, "normaliser": self.normaliser}


class Together(NamedTuple):
    """The two quantities of a pair (and the third one, if given) in one session."""

    x: SessionQuantity
    y: SessionQuantity
    given: SessionQuantity | None = None

    @property
    def all(self) -> list[SessionQuantity]:
        """All quantities of the pair: x, y, and the third one if there is one."""
        return [self.x, self.y] if self.given is None else [self.x, self.y, self.given]

    @property
    def bound_s(self) -> float:
        """Half-width of the 95 % interval of the offset between the two clocks, s; 0 for a common clock."""
        if self.x.host == self.y.host:
            return 0.0
        return float(np.hypot(self.x.bound_ns, self.y.bound_ns)) / NS_PER_S


@dataclass(frozen=True)
class Pair:
    """Two quantities to compare, and optionally a third one.

    Attributes
    ----------
    x, y, given : str
        Names of the quantities; `given` is empty without a third one.
    sessions : list of Together
        The quantities of each session that has all of them.
    reason : str
        Why no session has all of them; empty if one has.
    """

    x: str
    y: str
    sessions: list[Together] = field(default_factory=list)
    reason: str = ""
    given: str = ""


class _Pooled(NamedTuple):
    """The values of a pair, with all sessions concatenated; shape (n_bins,)."""

    values: list[Array]
    """x, y, and the third quantity if there is one."""
    session: Numbers
    left_out: tuple[str, ...]
    """For each session that was left out, the reason."""


def correlated(pairs: Sequence[Pair], settings: Settings) -> Table:
    """Return the dependence between the quantities of each pair, at each lag.

    Returns
    -------
    Table
        SESSIONS_NMI: a row for each pair and lag; for a pair without a value one row with the reason. The
        provenance has `left_out`: one sentence for each session that was not used.

    Raises
    ------
    InputError
        As `dependence` does.
    """
    compared = [_compared(pair, settings) for pair in pairs]
    results = [(each.pair.x, each.pair.y, each.result) for each in compared]
    given = pairs[0].given if pairs else ""
    plain = table_of(results, given=given)
    of_pair = np.repeat(np.arange(len(compared)), [len(each.result.lag_s) for each in compared])
    table = _of_sessions(plain, compared, of_pair)
    table.provenance["left_out"] = [
        f"{each.pair.x} and {each.pair.y}: a session left out: {why}" for each in compared for why in each.left_out
    ]
    return table


class _Compared(NamedTuple):
    """A pair of quantities, and the dependence that was computed for it."""

    pair: Pair
    step_s: float
    result: Dependence
    reason: str = ""
    """Why the pair has no value; empty if it has one."""
    sessions: int = 0
    """Number of sessions that were used."""
    left_out: tuple[str, ...] = ()
    """For each session that was left out, the reason."""


def _compared(pair: Pair, settings: Settings) -> _Compared:
    step_ns = _step_ns(pair, settings)
    pooled, reason = None, pair.reason or _too_many(settings, step_ns)
    lags = np.zeros(1, dtype=np.int64) if reason else _lags(settings, step_ns)
    if not reason:
        margin_ns = int(np.abs(lags).max()) * step_ns
        pooled, reason = _pooled(pair, step_ns, margin_ns=margin_ns)
    step_s = step_ns / NS_PER_S
    if pooled is None:
        return _Compared(pair, step_s, not_known(lags[:1], step_s=step_s, reason=reason, **settings.of_value), reason)
    x, y, *given = pooled.values
    result = dependence(
        x,
        y,
        step_s=step_s,
        lags=lags,
        session=pooled.session,
        given=given[0] if given else None,
        permutations=settings.permutations,
        baseline=settings.baseline,
        difference=settings.difference,
        seed=settings.seed,
        **settings.of_value,
    )
    return _Compared(pair, step_s, result, sessions=len(np.unique(pooled.session)), left_out=pooled.left_out)


def _of_sessions(plain: Table, compared: Sequence[_Compared], of_pair: Numbers) -> Table:
    """Return table SESSIONS_NMI: the rows of NMI, with lag uncertainties and the reasons of each pair."""
    step_s = np.array([each.step_s for each in compared])
    bound_s = np.array([max((each.bound_s for each in c.pair.sessions), default=0.0) for c in compared])
    sessions = np.array([each.sessions for each in compared], dtype=np.int64)
    reasons = np.array([_reason(each) for each in compared], dtype=object)
    without = np.array([each.result.peak is None for each in compared], dtype=bool)
    lag_s = np.where(without[of_pair], np.nan, plain["lag_s"])
    open_s = step_s[of_pair] / 2 + bound_s[of_pair]
    low_s, high_s = (
        np.where(plain["is_peak"], np.array([getattr(c.result, name) for c in compared])[of_pair], lag_s)
        for name in ("peak_low_s", "peak_high_s")
    )
    reason = np.where(without[of_pair], reasons[of_pair], plain["reason"].astype(object)).astype("U400")
    table = Table(
        SESSIONS_NMI,
        plain.columns
        | {
            "lag_s": lag_s,
            "reason": reason,
            "lag_low_s": low_s - open_s,
            "lag_high_s": high_s + open_s,
            "step_s": step_s[of_pair],
            "sessions": sessions[of_pair],
        },
    )
    first = np.append(True, np.diff(of_pair) > 0)[: len(of_pair)]
    return table.take(np.flatnonzero(~without[of_pair] | first))


def _reason(compared: _Compared) -> str:
    """Return the reason why a pair has no value, with the names of its quantities."""
    reason = compared.reason or compared.result.reason
    for letter, name in (("x", compared.pair.x), ("y", compared.pair.y)):
        if reason.startswith(f"{letter} "):
            return f"{name}{reason[1:]}"
    return reason


def _step_ns(pair: Pair, settings: Settings) -> int:
    if settings.step_s is not None:
        return max(round(settings.step_s * NS_PER_S), 1)
    return step_ns_of([each for together in pair.sessions for each in together.all])


def _too_many(settings: Settings, step_ns: int) -> str:
    """Return an error message if the settings need too many lags; empty otherwise."""
    lags = (settings.lags_s[1] - settings.lags_s[0]) * NS_PER_S / step_ns
    if lags <= MOST_LAGS:
        return ""
    return f"{lags:,.0f} lags of {step_ns / NS_PER_S:g} s, at most {MOST_LAGS:,}: choose wider bins"


def _lags(settings: Settings, step_ns: int) -> Numbers:
    """Return the requested lags, in bins: int64, shape (n_lags,).

    If the requested range contains no multiple of the bin width, the nearest multiple is returned.
    """
    low, high = (each * NS_PER_S / step_ns for each in settings.lags_s)
    lags = np.arange(np.ceil(low - 1e-9), np.floor(high + 1e-9) + 1, dtype=np.int64)
    return lags if len(lags) else np.array([round((low + high) / 2)], dtype=np.int64)


def _pooled(pair: Pair, step_ns: int, *, margin_ns: int) -> tuple[_Pooled | None, str]:
    """Return the values of a pair, with all sessions that have a common time concatenated, and a reason.

    If no session has a common time, the first element is None and the second one says why; otherwise the
    second element is empty.
    """
    reasons, values, numbers = [], [], []
    for number, together in enumerate(pair.sessions):
        grid, reason = grid_of(together.all, step_ns, margin_ns=margin_ns)
        if grid is None:
            reasons.append(reason)
            continue
        values.append([on_grid(each, grid) for each in together.all])
        numbers.append(np.full(grid.bins, number, dtype=np.int64))
    if not values:
        return None, "; ".join(dict.fromkeys(reasons))
    joined = [np.concatenate(each) for each in zip(*values, strict=True)]
    return _Pooled(joined, np.concatenate(numbers), tuple(reasons)), ""
