"""Feeds broken captures to the readers for some time: `python -m tests.fuzz.run --minutes 10`.

An input that fails is written to out/fuzz, its path and seed are printed, and the run goes on.
"""

from __future__ import annotations

import argparse
import gzip
import io
import lzma
import random
import sys
import time
import traceback
from pathlib import Path

from multitracer.capture import CaptureTables
from multitracer.native import kernel
from tests.conftest import FIXTURES, SAMPLES
from tests.fuzz.captures import any_capture, check, parser_of, read_or_refuse
from tests.native.both import analyse_by_both, read_by_both

_LARGEST_SAMPLE = 60_000
_SLOWEST_S = 10.0
_OUT = Path("out") / "fuzz"


def samples() -> list[bytes]:
    """Return small real captures, unpacked: the bundled ones, and other projects' where they are there."""
    paths = [path for folder in (SAMPLES, FIXTURES) for path in sorted(folder.rglob("*.pcap*"))]
    return [_unpacked(p) for p in paths if p.is_file() and p.stat().st_size <= _LARGEST_SAMPLE]


def _unpacked(path: Path) -> bytes:
    unpack = {".gz": gzip.decompress, ".xz": lzma.decompress}.get(path.suffix, bytes)
    return unpack(path.read_bytes())[:_LARGEST_SAMPLE]


def fuzz_one(seed: int, known: list[bytes]) -> None:
    """Make one input from a seed, read it, and check what must hold.

    Raises
    ------
    AssertionError
        If something that must hold does not, if reading takes too long, or if the native kernel, where it is
        installed, reads or counts anything else than Python.
    """
    data = any_capture(random.Random(seed), known)
    start = time.monotonic()
    capture = read_or_refuse(data)
    assert time.monotonic() - start < _SLOWEST_S, "too slow"
    if capture is not None:
        check(capture)
    if kernel() is not None:
        both = read_by_both(lambda: parser_of(data)(io.BytesIO(data), path="fuzz"))
        if isinstance(both, CaptureTables):
            analyse_by_both(both)


def fuzz(seconds: float, *, first_seed: int, known: list[bytes]) -> tuple[int, list[int]]:
    """Fuzz for some time; return how many inputs were tried, and the seeds of those that failed."""
    end = time.monotonic() + seconds
    seed, failed = first_seed, []
    while time.monotonic() < end:
        try:
            fuzz_one(seed, known)
        except Exception:  # noqa: BLE001 - to find any is the purpose
            failed.append(seed)
            _keep(seed, known)
        seed += 1
    return seed - first_seed, failed


def _keep(seed: int, known: list[bytes]) -> None:
    _OUT.mkdir(parents=True, exist_ok=True)
    path = _OUT / f"seed-{seed}.bin"
    path.write_bytes(any_capture(random.Random(seed), known))
    sys.stderr.write(f"{path}: seed {seed}\n{traceback.format_exc()}\n")


def main() -> int:
    """Run from the command line."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--minutes", type=float, default=10.0)
    arguments.add_argument("--seed", type=int, default=time.time_ns() // 1000)
    chosen = arguments.parse_args()
    tried, failed = fuzz(60 * chosen.minutes, first_seed=chosen.seed, known=samples())
    sys.stdout.write(f"{tried} inputs from seed {chosen.seed} on, {len(failed)} failed\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
