"""Runs the commands on damaged captures: `python -m tests.fuzz.commands --inputs 100000 --seed 1`.

Each capture follows from its seed alone (`tests.native.mutated`). A command may answer or refuse; a traceback, "this is
a bug", a warning of Python or NumPy, or an answer that takes longer than 60 s of processor time is a failure: the
capture is written to out/fuzz, its seed is printed, and the run goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from multitracer.cli import _program
from tests.fuzz.captures import overwritten
from tests.fuzz.run import samples
from tests.native.mutated import mutated

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST_S = 60
"""Processor time of one command: the slowest input takes two seconds."""
_TOLD_EVERY_S = 60.0
_RECORDED_IN = 40
"""One input in so many is a capture of up to 60 kB: its connections are long, and its commands take a second."""
_OUT = Path("out") / "fuzz"


def damaged(seed: int) -> bytes:
    """Return the capture of a seed: a small one, or every fortieth a recorded one with damage all over it."""
    if seed % _RECORDED_IN:
        return mutated(seed)
    rng = random.Random(seed)
    data = rng.choice(_known())
    for _ in range(rng.randint(1, 20)):
        data = overwritten(rng, data)
    return data


@lru_cache(1)
def _known() -> list[bytes]:
    return samples()


def commands(capture: Path, folder: Path, seed: int) -> list[list[str]]:
    """Return the command lines that a capture is given to; of those of `export` one, by turns."""
    path = str(capture)
    exports = [
        ["series", path, "-o", str(folder / "series")],
        ["wireshark", path, "-o", str(folder / "out.pcapng")],
        ["perfetto", path, "-o", str(folder / "out.perfetto-trace")],
        ["xplot", path, "-o", str(folder / "xplot")],
        ["tables", path, "-o", str(folder / "tables")],
        ["segments", path],
    ]
    return [
        ["diagnose", path] if seed % 2 else ["diagnose", "--json", "--intervals", path],
        ["report", path, "-o", str(folder / "report.html"), "--assets", "shared"],
        ["plot", path, "-o", str(folder / "plot.html")],
        ["export", *exports[seed % len(exports)]],
    ]


def failures(data: bytes, seed: int = 0) -> list[str]:
    """Return what went wrong with a capture: the words of a command and its traceback for each failure."""
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="multitracer-") as name:
        capture = Path(name) / "damaged.pcap"
        capture.write_bytes(data)
        lines = commands(capture, Path(name), seed)
        wrong += [f"{' '.join(line)}: {found}" for line in lines if (found := failure(line))]
    return wrong


def failure(arguments: list[str]) -> str | None:
    """Return the traceback of a command that ended in a bug, or what it told of a wrong command line; else None."""
    found: list[str] = []

    def note(error: Exception, _: object) -> int:
        found.append("".join(traceback.format_exception(error)))
        return 1

    signal.signal(signal.SIGVTALRM, _too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, _LONGEST_S)
    try:
        with (
            patch.object(_program, "_report_bug", note),
            contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")),
            contextlib.redirect_stderr(io.StringIO()) as told,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("error")
            status = _program.run(arguments)
            if status == 2:  # the command line above is wrong, or a damaged capture made a sane one so
                found.append(told.getvalue())
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return found[0] if found else None


def _too_long(*_: object) -> None:
    raise TimeoutError(f"it takes longer than {_LONGEST_S} s")


def run(
    first_seed: int,
    inputs: int,
    *,
    made: Callable[[int], bytes] = damaged,
    failures_of: Callable[[bytes, int], list[str]] = failures,
    kept_as: str = "commands",
) -> tuple[int, list[int]]:
    """Give the files of consecutive seeds to the commands; return the next seed, and those that failed."""
    failed, told_s, seed = [], time.monotonic(), first_seed
    try:
        for seed in range(first_seed, first_seed + inputs):
            data = made(seed)
            if wrong := failures_of(data, seed):
                failed.append(seed)
                _OUT.mkdir(parents=True, exist_ok=True)
                (_OUT / f"{kept_as}-{seed}.bin").write_bytes(data)
                sys.stderr.write(f"seed {seed}:\n" + "\n".join(wrong) + "\n")
            if time.monotonic() - told_s > _TOLD_EVERY_S:
                told_s = time.monotonic()
                sys.stderr.write(f"{len(failed)} failed; next seed {seed + 1}\n")
    except KeyboardInterrupt:
        return seed, failed
    return first_seed + inputs, failed


def main() -> int:
    """Run from the command line; exit status 1 if a command failed."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--inputs", type=int, default=1000)
    arguments.add_argument("--seed", type=int, default=time.time_ns() // 1000)
    chosen = arguments.parse_args()
    following, failed = run(chosen.seed, chosen.inputs)
    words = f"{following - chosen.seed:,} captures from seed {chosen.seed} on, {len(failed)} failed"
    sys.stdout.write(f"{words}; next seed {following}\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
