"""Two transports compared, size by size: ratio and difference of their RTT, and of its distribution.

The ratio is that of the medians; its interval holds every ratio that the test of all comparisons here does
not refuse (`multitracer.analysis.comparison`): chance is what happens when transactions change sides. A ratio
below 1 is a valid result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.comparison.medians import LEAST_VALUES, difference_interval, ratio_interval
from multitracer.analysis.transactions.bootstrap import Interval, median
from multitracer.tables import Column, Schema, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.analysis.transactions.arms import Arm
    from multitracer.tables import Array


def _interval(name: str, doc: str, unit: str = "") -> tuple[Column, ...]:
    return (
        Column(name, "float64", doc, unit),
        Column(f"{name}_low", "float64", f"95 % interval: {doc}; NA with fewer than four a side", unit),
        Column(f"{name}_high", "float64", f"95 % interval: {doc}; NA as the other end; inf: no bound", unit),
    )


COMPARISON = Schema(
    "transport_comparison",
    (
        Column("size_bytes", "int64", "of the message that is varied", "bytes"),
        Column("count", "int64", "transactions of the first"),
        Column("dropped", "int64", "of them"),
        Column("other_count", "int64", "transactions of the second"),
        Column("other_dropped", "int64", "of them"),
        *_interval("ratio", "median RTT of the first over that of the second"),
        *_interval("difference", "median RTT of the first less that of the second", "s"),
        *_interval("setup_ratio", "the ratio where the first also sets up its connection"),
        Column("cdf_gap", "float64", "farthest distance of the CDFs; below 0 where the first is faster"),
        Column("cdf_gap_at_s", "float64", "RTT at which they are so far apart", "s"),
        Column("why", "U128", "why there is no ratio, or no interval"),
    ),
)
"""One row is one size that both arms have."""


def pairs(arms: Sequence[Arm]) -> list[tuple[Arm, Arm]]:
    """Return which arms are compared: each of TCP with each other protocol's arm of the same task.

    Arms of one protocol alone are compared with the first of them.
    """
    compared = []
    for number, arm in enumerate(arms):
        for other in arms[number + 1 :]:
            alike = (arm.vary, arm.other_bytes) == (other.vary, other.other_bytes)
            if alike and set(arm.sizes) & set(other.sizes) and _worth(arm, other, arms):
                compared.append((arm, other))
    return compared


def _worth(arm: Arm, other: Arm, arms: Sequence[Arm]) -> bool:
    if arm.protocol != other.protocol:
        same = [each for each in arms if each.protocol == other.protocol and each.vary == arm.vary]
        twins = [each for each in same if _labels(each) == _labels(arm)]
        return _labels(arm) == _labels(other) or not twins
    alike = [each for each in arms if (each.vary, each.other_bytes) == (arm.vary, arm.other_bytes)]
    return {each.protocol for each in alike} == {arm.protocol} and alike[0] is arm


def _labels(arm: Arm) -> tuple[str, ...]:
    """Return place and link of an arm: what transports that are compared should share."""
    facts = arm.source.facts
    return str(arm.table["labels"][0]), facts.get("link", ""), facts.get("time", "")


def compare(first: Arm, second: Arm) -> Table:
    """Return a row for each size that both have; see `COMPARISON`.

    Parameters
    ----------
    first, second : Arm
        The ratio is first over second, so above 1 where the second is faster.
    """
    rows = [_row(first, second, size) for size in sorted(set(first.sizes) & set(second.sizes))]
    columns = {c.name: np.array([row[c.name] for row in rows], dtype=c.dtype) for c in COMPARISON}
    return Table(COMPARISON, columns, {"first": first.name, "second": second.name})


def _row(first: Arm, second: Arm, size: int) -> dict[str, object]:
    tables = first.at(size), second.at(size)
    ours, theirs = np.sort(first.rtt_s(tables[0])), np.sort(second.rtt_s(tables[1]))
    with_setup = first.with_setup_s(tables[0])
    gap, at_s = cdf_gap(ours, theirs)
    setup = Interval(*[float("nan")] * 3) if with_setup is None else _ratio(np.sort(with_setup), theirs)
    values = (
        ("ratio", _ratio(ours, theirs)),
        ("difference", _difference(ours, theirs)),
        ("setup_ratio", setup),
    )
    numbers = {f"{name}{end}": n for name, estimate in values for end, n in zip(_ENDS, estimate, strict=True)}
    return numbers | {
        "size_bytes": size,
        "count": len(ours),
        "dropped": int(np.isinf(ours).sum()),
        "other_count": len(theirs),
        "other_dropped": int(np.isinf(theirs).sum()),
        "cdf_gap": gap,
        "cdf_gap_at_s": at_s,
        "why": _why(first, second, ours, theirs),
    }


_ENDS = ("", "_low", "_high")


def _ratio(ours: Array, theirs: Array) -> Interval:
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(np.divide(median(ours), median(theirs)))
    return Interval(value, *ratio_interval(ours, theirs))


def _difference(ours: Array, theirs: Array) -> Interval:
    return Interval(median(ours) - median(theirs), *difference_interval(ours, theirs))


def _why(first: Arm, second: Arm, ours: Array, theirs: Array) -> str:
    lost = [arm.name for arm, rtts in ((first, ours), (second, theirs)) if np.isinf(median(rtts))]
    if lost:
        return f"half or more were dropped: {' and '.join(lost)}"[:128]
    if min(len(ours), len(theirs)) < LEAST_VALUES:
        return f"no interval: {len(ours)} and {len(theirs)} transactions, {LEAST_VALUES} each are the fewest"
    return ""


def cdf_gap(ours: Array, theirs: Array) -> tuple[float, float]:
    """Return the farthest distance of two CDFs, and where (Kolmogorov and Smirnov's D, with its sign).

    Parameters
    ----------
    ours, theirs : ndarray of float64, s, shapes (n_ours,), (n_theirs,)
        Sorted; inf for what was dropped.

    Returns
    -------
    float
        Share of theirs less share of ours that is done by then: below 0 where ours are faster.
    float
        The RTT, s; NaN if neither has any.
    """
    at = np.union1d(ours[np.isfinite(ours)], theirs[np.isfinite(theirs)])
    if not len(at):
        return 0.0, float("nan")
    shares = [np.searchsorted(values, at, "right") / len(values) for values in (ours, theirs)]
    gap = shares[1] - shares[0]
    place = int(np.argmax(np.abs(gap)))
    return float(gap[place]), float(at[place])
