"""What a run of the testbed at the link's own speed takes of a core.

`python -m tests.benchmarks.testbed`, as root: median of some runs, of 30 s each; starting and ending is not
counted.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from tests.lab.testbed.cost import share_of_a_core

GOAL = 0.05


def main() -> None:
    """Print the median."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--runs", type=int, default=3)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shares = [share_of_a_core(Path(folder) / str(run), window_s=30.0) for run in range(chosen.runs)]
    share = statistics.median(shares)
    sys.stdout.write(
        f"testbed run at 1x: {share:.1%} of a core; goal (under {GOAL:.0%}): {'met' if share < GOAL else 'missed'}\n"
    )


if __name__ == "__main__":
    main()
