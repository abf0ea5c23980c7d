"""`python -m tests.statistics`: how often `dependence` finds what is planted, and what is not there.

Prints a table for docs/analysis.md; some minutes. Returns 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import sys

from tests.statistics.judge import CORRELATIONS, PLANTED, Judged, level, power

_LEAST_POWER, _MOST_LEVEL = 0.95, 0.07
"""Of 200 seeds each, and of 1,000 pairs in all."""


def main() -> int:
    """Judge, print, and say whether the goals are met."""
    parser = argparse.ArgumentParser(prog="python -m tests.statistics", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--permutations", type=int, default=199)
    options = parser.parse_args()
    seeds, permutations = range(options.seeds), options.permutations
    print("| series | baseline | pairs | with a value | significant |\n|---|---|---|---|---|")
    ours = [_level(each, seeds, permutations, "shift") for each in CORRELATIONS]
    walks = _level(1.0, seeds, permutations, "shift")
    for baseline in ("block", "plain"):
        _level(0.9, seeds, permutations, baseline)
    planted = [
        _shown(f"{shape}, lag {lag} s", power(shape, lag, seeds, permutations=permutations))
        for shape, lag in PLANTED
    ]
    pairs, wrong = (sum(getattr(each, name) for each in ours) for name in ("pairs", "significant"))
    print(f"\nindependent, shift: {wrong / pairs:.1%} of {pairs} pairs are significant at 5 %")
    met = (
        min(each.share for each in planted) >= _LEAST_POWER
        and wrong <= pairs * _MOST_LEVEL
        and not walks.significant
    )
    return 0 if met else 1


def _level(correlation: float, seeds: range, permutations: int, baseline: str) -> Judged:
    name = "random walks" if correlation == 1 else f"independent, r = {correlation:g}"
    return _shown(name, level(correlation, seeds, permutations=permutations, baseline=baseline), baseline)


def _shown(name: str, of: Judged, baseline: str = "shift") -> Judged:
    print(f"| {name} | {baseline} | {of.pairs} | {of.with_value} | {of.share:.1%} |", flush=True)
    return of


if __name__ == "__main__":
    sys.exit(main())
