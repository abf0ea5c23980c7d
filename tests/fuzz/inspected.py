"""Gives damaged captures and hostile logs of all formats to `inspect`: `python -m tests.fuzz.inspected --inputs 1000`.

Each file follows from its seed alone: an odd one is a capture (`tests.fuzz.commands`), an even one a log
(`tests.fuzz.logs`). The variable MULTITRACER_NATIVE=0 chooses the path without the native kernel. A traceback, a
warning of Python or NumPy, or an answer that takes longer than 60 s of processor time is a failure: the file is
written to out/fuzz, its seed is printed, and the run goes on.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from multitracer.native import state
from tests.fuzz.commands import damaged, failure
from tests.fuzz.logs import hostile

_TOLD_EVERY_S = 60.0
_OUT = Path("out") / "fuzz"


def made(seed: int) -> bytes:
    """Return the file of a seed."""
    return damaged(seed) if seed % 2 else hostile(seed)[1]


def run(first_seed: int, inputs: int) -> tuple[int, list[int]]:
    """Give the files of consecutive seeds to `inspect`; return the next seed, and those that failed."""
    failed, told_s, seed = [], time.monotonic(), first_seed
    with tempfile.TemporaryDirectory(prefix="multitracer-") as folder:
        path = Path(folder) / "damaged"
        for seed in range(first_seed, first_seed + inputs):
            path.write_bytes(made(seed))
            if wrong := failure(["inspect", str(path)]):
                failed.append(seed)
                _OUT.mkdir(parents=True, exist_ok=True)
                shutil.move(path, _OUT / f"inspected-{seed}.bin")
                sys.stderr.write(f"seed {seed}:\n{wrong}\n")
            if time.monotonic() - told_s > _TOLD_EVERY_S:
                told_s = time.monotonic()
                sys.stderr.write(f"{len(failed)} failed; next seed {seed + 1}\n")
    return first_seed + inputs, failed


def main() -> int:
    """Run from the command line; exit status 1 if a file failed."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--inputs", type=int, default=1000)
    arguments.add_argument("--seed", type=int, default=time.time_ns() // 1000)
    chosen = arguments.parse_args()
    _, failed = run(chosen.seed, chosen.inputs)
    sys.stdout.write(f"{chosen.inputs:,} files from seed {chosen.seed} on, {state()}: {len(failed)} failed\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
