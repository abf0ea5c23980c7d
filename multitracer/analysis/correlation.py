"""Which quantity tells of which, at which lag: pairs of quantities, put on common grids, as a table NMI.

The statistics are those of `multitracer.analysis.mutual_information`; here is what comes before and after:
one width of bins for a pair, the common time of each session, sessions one behind the other, and what the
data, the bins and the clocks leave open of a lag.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import numpy as np

from multitracer.analysis.common_grid import Quantity, grid_of, on_grid, step_ns_of
from multitracer.analysis.mutual_information import dependence, not_known, table_of
from multitracer.errors import InputError
from multitracer.findings import SESSIONS_NMI
from multitracer.tables import Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.analysis.mutual_information import Dependence
    from multitracer.analysis.statistics.choices import Estimator
    from multitracer.analysis.statistics.entropy import Normaliser
    from multitracer.analysis.statistics.surrogates import Baseline
    from multitracer.tables import Array, Numbers

LONGEST_S = 86_400.0
"""A lag of more than a day, or a bin of it, is none of cause and effect."""
LEAST_STEP_S = 1e-3  # below it stamps of most captures and logs mean nothing; not measured
LEAST_PERMUTATIONS, MOST_PERMUTATIONS = 19, 100_000
"""Of fewer than 19 surrogates none lies beyond 95 %; more than the second take minutes. Not measured."""
MOST_LAGS = 1001
"""Of a pair: 50 s each way in bins of a tenth. Each costs as much as all surrogates. Not measured."""


class _OfValue(TypedDict):
    estimator: Estimator
    normaliser: Normaliser


@dataclass(frozen=True)
class Settings:
    """How quantities are compared.

    Attributes
    ----------
    lags_s : (float, float)
        First and last lag, s; y follows x by a positive lag.
    step_s : float, optional
        Width of the bins; by default that of the slowest quantity of a pair (`step_ns_of`).
    difference : bool
        Compare changes from bin to bin.
    estimator, normaliser, baseline : str
        As `dependence` has them.
    permutations, seed : int
        Surrogates, and the seed of their chance.

    Raises
    ------
    InputError
        If lags, width or permutations cannot be.
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
                f"lags {low:g} to {high:g} s: give the first and the last, within a day, such as -10 and 10"
            )
        if self.step_s is not None and not LEAST_STEP_S <= self.step_s <= LONGEST_S:
            raise InputError(f"bins of {self.step_s:g} s: give a width from {LEAST_STEP_S:g} s to a day")
        if not LEAST_PERMUTATIONS <= self.permutations <= MOST_PERMUTATIONS:
            raise InputError(
                f"{self.permutations:,} permutations: give {LEAST_PERMUTATIONS} to {MOST_PERMUTATIONS:,}"
            )

    @property
    def of_value(self) -> _OfValue:
        """What says how a value is estimated."""
        return {"estimator": self.estimator, "normaliser": self.normaliser}


class Together(NamedTuple):
    """The quantities of a pair in one session."""

    x: Quantity
    y: Quantity
    given: Quantity | None = None

    @property
    def all(self) -> list[Quantity]:
        """All of them."""
        return [self.x, self.y] if self.given is None else [self.x, self.y, self.given]

    @property
    def bound_s(self) -> float:
        """Half-width of the 95 % interval of the two clocks against each other; 0 of one clock."""
        if self.x.host == self.y.host:
            return 0.0
        return float(np.hypot(self.x.bound_ns, self.y.bound_ns)) / NS_PER_S


@dataclass(frozen=True)
class Pair:
    """Two quantities to compare.

    Attributes
    ----------
    x, y, given : str
        Their names; `given` is empty without a third.
    sessions : list of Together
        Of each session that has all of them.
    reason : str
        Why no session has.
    """

    x: str
    y: str
    sessions: list[Together] = field(default_factory=list)
    reason: str = ""
    given: str = ""


class _Pooled(NamedTuple):
    """The values of a pair, sessions one behind the other; shape (n_bins,)."""

    values: list[Array]
    """x, y, and the third quantity if there is one."""
    session: Numbers
    left_out: tuple[str, ...]
    """Why sessions are not among them."""


def correlated(pairs: Sequence[Pair], settings: Settings) -> Table:
    """Return how much the quantities of pairs tell of each other, at each lag.

    Returns
    -------
    Table
        SESSIONS_NMI: a row for each pair and lag; one row, with the reason, of a pair that has no number. The
        provenance has `left_out`: sessions that are in no pool, a sentence each.

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
        f"{each.pair.x} and {each.pair.y}: a session left out: {why}"
        for each in compared
        for why in each.left_out
    ]
    return table


class _Compared(NamedTuple):
    """A pair with its result."""

    pair: Pair
    step_s: float
    result: Dependence
    reason: str = ""
    """Why there was nothing to compare."""
    sessions: int = 0
    """How many were pooled."""
    left_out: tuple[str, ...] = ()
    """Why sessions were not."""


def _compared(pair: Pair, settings: Settings) -> _Compared:
    step_ns = _step_ns(pair, settings)
    pooled, reason = None, pair.reason or _too_many(settings, step_ns)
    lags = np.zeros(1, dtype=np.int64) if reason else _lags(settings, step_ns)
    if not reason:
        margin_ns = int(np.abs(lags).max()) * step_ns
        pooled, reason = _pooled(pair, step_ns, margin_ns=margin_ns)
    step_s = step_ns / NS_PER_S
    if pooled is None:
        return _Compared(
            pair, step_s, not_known(lags[:1], step_s=step_s, reason=reason, **settings.of_value), reason
        )
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
    """Return SESSIONS_NMI of NMI: with what is left open of a lag, and whole reasons."""
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
    """Return why a pair has no number, with the names of its quantities."""
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
    """Return why there are too many lags; empty if there are not."""
    lags = (settings.lags_s[1] - settings.lags_s[0]) * NS_PER_S / step_ns
    if lags <= MOST_LAGS:
        return ""
    return f"{lags:,.0f} lags of {step_ns / NS_PER_S:g} s, at most {MOST_LAGS:,}: choose wider bins"


def _lags(settings: Settings, step_ns: int) -> Numbers:
    """Return the lags in bins, at least 0 or the nearest to what was asked for."""
    low, high = (each * NS_PER_S / step_ns for each in settings.lags_s)
    lags = np.arange(np.ceil(low - 1e-9), np.floor(high + 1e-9) + 1, dtype=np.int64)
    return lags if len(lags) else np.array([round((low + high) / 2)], dtype=np.int64)


def _pooled(pair: Pair, step_ns: int, *, margin_ns: int) -> tuple[_Pooled | None, str]:
    """Return the values of all sessions that have a common time; or why none has."""
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
