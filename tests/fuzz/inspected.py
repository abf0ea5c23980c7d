"""Gives damaged captures and hostile logs of all formats to `inspect`: `python -m tests.fuzz.inspected --inputs 1000`.

Each file follows from its seed alone: an odd one is a capture (`tests.fuzz.commands`), an even one a log
(`tests.fuzz.logs`). The variable MULTITRACER_NATIVE=0 chooses the path without the native kernel. A traceback, a
warning of Python or NumPy, or an answer that takes longer than 60 s of processor time is a failure: the file is
written to out/fuzz, its seed is printed, and the run goes on.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from multitracer.native import state
from tests.fuzz import commands
from tests.fuzz.logs import hostile


def made(seed: int) -> bytes:
    """Return the file of a seed."""
    return commands.damaged(seed) if seed % 2 else hostile(seed)[1]


def run(first_seed: int, inputs: int) -> tuple[int, list[int]]:
    """Give the files of consecutive seeds to `inspect`; return the next seed, and those that failed."""
    with tempfile.TemporaryDirectory(prefix="multitracer-") as folder:
        path = Path(folder) / "damaged"

        def failures_of(data: bytes, _: int) -> list[str]:
            path.write_bytes(data)
            return [wrong] if (wrong := commands.failure(["inspect", str(path)])) else []

        return commands.run(first_seed, inputs, made=made, failures_of=failures_of, kept_as="inspected")


def main() -> int:
    """Run from the command line; exit status 1 if a file failed."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--inputs", type=int, default=1000)
    arguments.add_argument("--seed", type=int, default=time.time_ns() // 1000)
    chosen = arguments.parse_args()
    following, failed = run(chosen.seed, chosen.inputs)
    tried = following - chosen.seed
    sys.stdout.write(f"{tried:,} files from seed {chosen.seed} on, {state()}: {len(failed)} failed\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
