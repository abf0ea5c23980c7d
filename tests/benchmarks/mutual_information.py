"""What an hour of dependence costs: `python -m tests.benchmarks.mutual_information` measures this alone.

One variable against eleven, each with 3,600 points (an hour at 1 s), 21 lags and 999 surrogates, by the
default estimator; the start of Python and the import of scipy are part of it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.benchmarks import goals
from tests.benchmarks.measure import cost, median

if TYPE_CHECKING:
    from collections.abc import Iterator

POINTS, VARIABLES, LONGEST_LAG, PERMUTATIONS = 3600, 11, 10, 999
_AT_MOST_S, _AT_MOST_MB = 10.0, 500
_ONE_HOUR = """
import sys
import numpy as np
from multitracer.analysis.correlation import dependence, table_of
from tests.statistics.planted import autoregressive
points, variables, longest, permutations = map(int, sys.argv[1:])
chance = np.random.default_rng(1)
x, *others = (autoregressive(chance, points, 0.8) for _ in range(variables + 1))
lags = np.arange(-longest, longest + 1)
each = [dependence(x, y, step_s=1.0, lags=lags, permutations=permutations) for y in others]
assert len(table_of([("x", "y", of) for of in each])) == variables * len(lags)
assert not any(of.reason for of in each)
"""


def argv(points: int = POINTS, variables: int = VARIABLES, permutations: int = PERMUTATIONS) -> list[str]:
    """Return the command that compares one variable with the others."""
    numbers = (points, variables, LONGEST_LAG, permutations)
    return [sys.executable, "-c", _ONE_HOUR, *map(str, numbers)]


def an_hour_of_dependence(_: object = None, *, runs: int) -> Iterator[goals.Row]:
    """Wall time and peak memory of the whole process."""
    used = median([cost(argv()) for _ in range(min(runs, 3))])
    what, on = "`dependence`, 1 h at 1 s", f"1 against {VARIABLES}, 21 lags"
    yield goals.Row(
        f"{what}, wall", on, f"{used.wall_s:.1f} s ({used.cpu_s:.1f} s CPU)", "",
        f"{used.wall_s:.1f} s", f"≤ {_AT_MOST_S:.0f} s", used.wall_s <= _AT_MOST_S,
    )  # fmt: skip
    peak_mb = used.peak_bytes / 1e6
    yield goals.Row(
        f"{what}, peak memory", on, f"{peak_mb:.0f} MB", "",
        f"{peak_mb:.0f} MB", f"≤ {_AT_MOST_MB} MB", peak_mb <= _AT_MOST_MB,
    )  # fmt: skip


ALL: tuple[goals.Goal, ...] = (an_hour_of_dependence,)


if __name__ == "__main__":
    for _row in an_hour_of_dependence(runs=1):
        print(_row.what, _row.ours, _row.goal, "met" if _row.met else "missed")
