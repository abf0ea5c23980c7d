"""Records rehearsed drives and judges the program by them.

`python -m tests.drives FOLDER [--seeds 0-20] [--seconds 230] [--beside 4]`. FOLDER gets the drives, a folder
each by its seed; what is there is not recorded again. Seed 0 is the control, on which nothing happens.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tests.drives.judge import judge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.drives.judge import Drive

ERRORS = {
    "begin of the cause (s)": "begin_error_s",
    "end of the cause (s)": "end_error_s",
    "places of both (m)": "place_error_m",
    "begin of the effect (s)": "effect_begin_error_s",
    "end of the effect (s)": "effect_end_error_s",
}
"""Magnitudes of the errors that are printed for each kind of event."""
LEFT_OUT = ("tcp_probe", "rlp")
"""They record what is no part of a drive; the tracing sees all connections of the machine."""


def record(seeds: Sequence[int], folder: Path, *, seconds: float, beside: int) -> None:
    """Record drives, some at a time, each in a network of its own."""
    missing = [seed for seed in seeds if not (folder / str(seed) / "truth" / "drive.json").exists()]
    for at in range(0, len(missing), beside):
        children = [_started(seed, folder / str(seed), seconds) for seed in missing[at : at + beside]]
        for child in children:
            if child.wait():
                raise SystemExit(f"{' '.join(map(str, child.args))}: exit {child.returncode}")  # type: ignore[arg-type]


def _started(seed: int, drive: Path, seconds: float) -> subprocess.Popen[bytes]:
    shutil.rmtree(drive, ignore_errors=True)
    drive.parent.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "multitracer", "capture", "-o", str(drive), "--rehearse", "--seed", str(seed)]
    argv += ["--plain", "--duration", str(seconds), *(word for name in LEFT_OUT for word in ("--without", name))]
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def tell(drives: Sequence[Drive]) -> None:
    """Print a line for each event, and what they are together."""
    for drive in drives:
        for v in drive.verdicts:
            errors = f"{v.begin_error_s:+.2f} s, {v.end_error_s:+.2f} s, {v.place_error_m:.1f} m"
            effect = f"effect {v.effect_begin_error_s:+.2f} s, {v.effect_end_error_s:+.2f} s"
            word = "found" if v.found else "MISSED"
            event = f"{v.kind:12} {v.begin_s:6.1f} s {v.length_s:5.2f} s"
            print(f"{drive.seed:3} {event} {word:6} {v.cause:12} {errors}; {effect}")
        for words in drive.false:
            print(f"{drive.seed:3} FALSE {words}")
    verdicts = [verdict for drive in drives for verdict in drive.verdicts]
    for kind in sorted({verdict.kind for verdict in verdicts}):
        of_kind = [verdict for verdict in verdicts if verdict.kind == kind]
        print(f"{kind}: {sum(v.found for v in of_kind)} of {len(of_kind)} found")
        for what, name in ERRORS.items():
            sizes = np.abs([getattr(v, name) for v in of_kind])
            if np.isfinite(sizes).any():  # a short break makes no stretch
                middle, most = np.nanquantile(sizes, [0.5, 0.95])
                print(f"    {what}: median {middle:.2f}, 95 % {most:.2f}, at most {np.nanmax(sizes):.2f}")
    false, right = sum(len(drive.false) for drive in drives), sum(drive.is_right for drive in drives)
    print(f"false: {false}; {right} of {len(drives)} drives right")


def _seeds(text: str) -> list[int]:
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def main() -> None:
    """Record what is missing, and judge all."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--seeds", type=_seeds, default=_seeds("0-20"))
    options.add_argument("--seconds", type=float, default=230.0, help="of each drive; default 230")
    options.add_argument("--beside", type=int, default=4, help="drives at a time; default 4")
    chosen = options.parse_args()
    record(chosen.seeds, chosen.folder, seconds=chosen.seconds, beside=chosen.beside)
    tell([judge(chosen.folder / str(seed)) for seed in chosen.seeds])


if __name__ == "__main__":
    main()
