"""What the native kernel saves: `python -m tests.benchmarks.native CAPTURE…` measures this alone.

Each capture is read, and analysed, with the kernel and without it in turn; the figures are medians.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from multitracer.native import VARIABLE, kernel, state
from tests.benchmarks import peers
from tests.benchmarks.measure import median, paired

if TYPE_CHECKING:
    from collections.abc import Iterator

_RUNS = 7
_READ = "import sys; from parsers._read import read_capture; read_capture(sys.argv[1:])"


def rows(captures: list[str], *, runs: int = _RUNS) -> Iterator[tuple[str, ...]]:
    """Yield for each capture what reading and analysing cost by both paths, and how much less that is."""
    for path in captures:
        works = {"read": [sys.executable, "-c", _READ, path], "`analyze`": peers.multitracer("analyze", path)}
        for what, command in works.items():
            pairs = paired(["env", f"{VARIABLE}=1", *command], ["env", f"{VARIABLE}=0", *command], runs=runs)
            native, python = (median(list(side)) for side in zip(*pairs, strict=True))
            times = (f"{each:.2f} s" for each in (native.cpu_s, python.cpu_s, native.wall_s, python.wall_s))
            less = python.cpu_s / native.cpu_s, python.wall_s / native.wall_s
            yield what, path, *times, *(f"{each:.2f} ×" for each in less)


if __name__ == "__main__":
    if kernel() is None:
        sys.exit(f"captures are read by {state()}: make native")
    print("| what | capture | CPU, native | CPU, Python | wall, native | wall, Python | CPU | wall |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows(sys.argv[1:]):
        print(f"| {' | '.join(row)} |", flush=True)
