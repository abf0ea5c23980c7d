"""`python -m tests.statistics`: how often `dependence` and `compare` find what is planted, or not there.

Prints the tables of docs/statistics.md and docs/compare.md; some minutes. Returns 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import sys

from tests.statistics import sides
from tests.statistics.judge import CORRELATIONS, PLANTED, SLOW, Judged, lags, level, power

_LEAST_POWER, _MOST_LEVEL = 0.95, 0.07
"""Of 200 seeds each, and of 1,000 pairs in all."""
_MIN_COVERED = 0.95
"""Of the intervals of a planted lag."""
_LEAST_SHOWN = 0.90
"""Of comparisons with a planted difference of 10 %."""


def main() -> int:
    """Judge what was chosen, print, and say whether the goals are met."""
    parser = argparse.ArgumentParser(prog="python -m tests.statistics", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--permutations", type=int, default=199)
    parser.add_argument("--splits", type=int, default=500)
    parser.add_argument("--planted", type=int, default=5_000, help="comparisons with a planted difference")
    parser.add_argument("--draws", type=int, default=999)
    parser.add_argument("--only", choices=("dependence", "compare"))
    options = parser.parse_args()
    of_pairs = options.only == "compare" or _dependence(options)
    of_sides = options.only == "dependence" or _compare(options.splits, options.planted, options.draws)
    return 0 if of_pairs and of_sides else 1


def _compare(splits: int, planted: int, draws: int) -> bool:
    print("| sessions | splits | any claim | throughput alone |\n|---|---|---|---|")
    met = True
    for name, network in sides.WORLDS.items():
        alarms = sides.false_alarms(network, splits, draws=draws)
        claimed, alone = (each / alarms.splits for each in alarms[1:])
        met &= max(claimed, alone) <= _MOST_LEVEL
        print(f"| {name} | {alarms.splits} | {claimed:.1%} | {alone:.1%} |", flush=True)
    for factor in (0.9, 1.1):
        shown = sides.power(factor, planted, draws=draws)
        met &= shown >= _LEAST_SHOWN
        print(f"throughput x {factor}, 100 and 100 sessions: shown in {shown:.1%} of {planted}", flush=True)
    return met


def _dependence(options: argparse.Namespace) -> bool:
    seeds, permutations = range(options.seeds), options.permutations
    print("| series | baseline | pairs | with a value | significant |\n|---|---|---|---|---|")
    ours = [_level(each, seeds, permutations, "shift") for each in CORRELATIONS]
    walks = _level(1.0, seeds, permutations, "shift")
    for baseline in ("block", "plain"):
        _level(0.9, seeds, permutations, baseline)
    planted = [
        _shown(f"{shape}, lag {lag} s", power(shape, lag, seeds, permutations=permutations)) for shape, lag in PLANTED
    ]
    pairs, wrong = (sum(getattr(each, name) for each in ours) for name in ("pairs", "significant"))
    print(f"\nindependent, shift: {wrong / pairs:.1%} of {pairs} pairs are significant at 5 %")
    return _lags(seeds, permutations) and (
        min(each.share for each in planted) >= _LEAST_POWER and wrong <= pairs * _MOST_LEVEL and not walks.significant
    )


def _lags(seeds: range, permutations: int) -> bool:
    met = True
    for correlation, bits in SLOW:
        of = lags(correlation, bits, seeds, permutations=permutations)
        met &= of.covered >= _MIN_COVERED * of.found
        print(
            f"lag 3 s in {bits:g} bit, r = {correlation:g}: found in {of.found}, the peak in {of.at_peak}, "
            f"in the interval in {of.covered}, {of.width_s:.1f} s wide",
            flush=True,
        )
    return met


def _level(correlation: float, seeds: range, permutations: int, baseline: str) -> Judged:
    name = "random walks" if correlation == 1 else f"independent, r = {correlation:g}"
    return _shown(name, level(correlation, seeds, permutations=permutations, baseline=baseline), baseline)


def _shown(name: str, of: Judged, baseline: str = "shift") -> Judged:
    print(f"| {name} | {baseline} | {of.pairs} | {of.with_value} | {of.share:.1%} |", flush=True)
    return of


if __name__ == "__main__":
    sys.exit(main())
