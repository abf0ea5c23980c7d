"""How exact the alignment of two captures is: `python -m tests.clock.sweep [CASES] [--first SEED]`.

Three families of seeded cases, each with an offset of up to 30 s, a skew of up to 100 ppm, every third with a
step of 2 s, every second with 30 % of the packets missing at both ends: a synthetic path (queues,
serialization, jitter of some 20 ms, losses, rates from 9.6 kb/s, up to 8 times as fast one way), the GSM link
in virtual time, and a real recording. `tests/clock/test_cases.py` judges some of each.

`--asymmetric` runs another family: paths whose two ways differ by up to seconds and in their rates. There
the stated interval, which takes the two ways for equally long, may miss the truth; the bounds of causality
may not, ever.

`--drives FOLDER` judges recorded drives instead (`make drives DRIVES_ARGS="FOLDER --seeds 7000-7039"`), a folder
each by its seed: the fixed host's capture gets another clock, up to 3 s off and up to 60 ppm fast or slow.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path as Folder
from typing import TYPE_CHECKING, Any

import numpy as np

from multitracer.clock.captures.two_captures import relate
from tests.clock.altered import both_ends, error_ns, thinned, virtual, with_clock
from tests.clock.paths import DOWN, UP, Case, Clock, Path, captures, true_offset_ns
from tests.narrowed import known

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from multitracer.capture import CaptureTables

RECORDING = Folder("sample_traces/cellular_upload")
SCENARIOS = ("clean-bulk", "download", "fig5-typical", "fig4-slow-start", "clock-shift")
RATES_BPS = (9_600, 19_200, 64_000, 256_000, 1_000_000, 4_000_000)
JITTERS = ("uniform", "exponential", "half-normal", "normal", "none")
SLOW_BPS = 60_000
_HEAD = (
    "cases", "n", "error ≤ max(2 ms, 3 σ)", "inside 95 %", "median ±, ms", "median error, ms",
    "skew inside 95 %", "median ±, ppm", "causal", "steps",
)  # fmt: skip


def clock_of(luck: Any, *, stepped: bool, seconds: float) -> Clock:
    """Return a clock with the errors that every family has."""
    steps = ((float(luck.uniform(0.2, 0.8)) * seconds, float(luck.choice([-2.0, 2.0]))),) if stepped else ()
    return Clock(offset_s=float(luck.uniform(-30, 30)), skew_ppm=float(luck.uniform(-100, 100)), steps=steps)


def case(seed: int) -> Case:
    """Return a case: rates, asymmetry, jitter, losses, missing packets and the clock's error by the seed."""
    luck = np.random.default_rng([seed, 4711])
    slow = RATES_BPS[seed % len(RATES_BPS)]
    ratio = float(luck.choice([1, 1, 2, 4, 8]))
    jitter = JITTERS[int(luck.integers(len(JITTERS)))]
    mss = 460 if slow < 64_000 else 1448
    propagation = float(0.02 + 0.2 * luck.random())
    ways = [
        Path(
            rate_bps=rate, propagation_s=propagation,
            jitter=jitter, jitter_s=0.0 if jitter == "none" else (0.02 if jitter == "uniform" else 0.008),
            loss=float(luck.choice([0, 0.001, 0.01])),
            queue_bytes=60_000,
        )
        for rate in (slow, slow * ratio)
    ]  # fmt: skip
    if luck.random() < 0.3:
        ways.reverse()
    clock = clock_of(luck, stepped=seed % 3 == 0, seconds=200)
    pattern = int(luck.integers(3))
    return Case(
        up=ways[0], down=ways[1], duration_s=200, mss=mss, window=int(luck.integers(6, 30)),
        transfer_bytes=int([1 << 40, slow / 8 * 20, slow / 8 * 8][pattern]),
        directions=((UP,), (DOWN,), (UP, DOWN))[int(luck.integers(3))],
        delayed_acks=int(luck.integers(1, 3)), fixed=clock,
        missing=0.3 if seed % 2 else 0.0, seed=seed,
    )  # fmt: skip


def asymmetric_case(seed: int) -> Case:
    """Return a case whose ways differ in propagation, by up to 3 s, in rate, queue, jitter and loss.

    A jump before which, or behind which, hardly a packet was captured is seen by nobody: none is there.
    """
    luck = np.random.default_rng([seed, 2711])
    rates = luck.choice(RATES_BPS, 2)
    ways = [
        Path(
            rate_bps=float(rate), propagation_s=float(3 * luck.random() ** 2),
            jitter=str(luck.choice(JITTERS[:-1])), jitter_s=float(luck.choice([0.0, 0.02, 0.1])),
            loss=float(luck.choice([0, 0.001, 0.03])), queue_bytes=60_000,
        )
        for rate in rates
    ]  # fmt: skip
    seconds = float(luck.choice([60, 120, 200]))
    clock = clock_of(luck, stepped=seed % 3 == 0, seconds=seconds)
    return Case(
        up=ways[0], down=ways[1], duration_s=seconds, mss=460 if rates.min() < SLOW_BPS else 1448,
        window=int(luck.integers(4, 24)), transfer_bytes=int(luck.choice([1 << 40, 20_000])),
        directions=((UP,), (DOWN,), (UP, DOWN))[int(luck.integers(3))],
        mobile=Clock(offset_s=float(luck.uniform(-5, 5)), skew_ppm=float(luck.uniform(-100, 100))),
        fixed=clock, missing=0.3 if seed % 2 else 0.0, seed=seed,
    )  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """Two captures and the truth of their clocks."""

    name: str
    family: str
    near: CaptureTables
    far: CaptureTables
    truth: Callable[[Any], Any]
    """Far less near clock at a stamp of the near one, ns."""
    skew_ppm: float
    intervals: int


def asymmetric(seed: int) -> Subject:
    one = asymmetric_case(seed)
    apart = abs(one.up.propagation_s - one.down.propagation_s)
    family = "ways up to 0.5 s apart" if apart < 0.5 else "ways 0.5 to 3 s apart"
    near, far = captures(one)
    skew = (1 + one.fixed.skew_ppm * 1e-6) / (1 + one.mobile.skew_ppm * 1e-6) - 1
    return Subject(
        f"{family} {seed}: {one.up} {one.down} missing {one.missing} {one.fixed.steps} {one.directions}",
        family, near, far, lambda stamp: true_offset_ns(one, stamp), skew * 1e6, 1 + len(one.fixed.steps),
    )  # fmt: skip


def synthetic(seed: int) -> Subject:
    one = case(seed)
    near, far = captures(one)
    slow = min(one.up.rate_bps, one.down.rate_bps)
    family = f"path, {slow / 1000:g} kb/s" if slow < SLOW_BPS else "path, 64 kb/s and more"
    clock = one.fixed
    return Subject(
        f"{family} {seed}: up {one.up.rate_bps:.0f} down {one.down.rate_bps:.0f} {one.up.jitter} "
        f"missing {one.missing} directions {one.directions} bytes {one.transfer_bytes:.1e} "
        f"window {one.window} loss {one.up.loss}",
        family, near, far, lambda stamp: true_offset_ns(one, stamp), clock.skew_ppm, 1 + len(clock.steps),
    )  # fmt: skip


@cache
def _recorded(name: str, seed: int) -> tuple[CaptureTables, CaptureTables]:
    if name == str(RECORDING):
        return both_ends(RECORDING)
    with tempfile.TemporaryDirectory() as folder:
        return virtual(name, Folder(folder) / "session", seed=seed)


def altered(name: str, family: str, seed: int) -> Subject:
    """Return a recording with another clock at its far end, besides the error that it has itself."""
    luck = np.random.default_rng([seed, 815])
    near, far = _recorded(name, 1 + seed % 5)
    begin = int(near.segments["time_ns"][0])
    seconds = float(np.ptp(near.segments["time_ns"])) / 1e9
    clock = clock_of(luck, stepped=seed % 3 == 0, seconds=seconds)
    own = Clock(offset_s=0.8, skew_ppm=30.0) if name == "clock-shift" else Clock()
    share = 0.3 if seed % 2 else 0.0
    changed = with_clock(far, clock, begin)

    def truth(stamp: Any) -> Any:
        first = error_ns(own, stamp, begin)
        return error_ns(clock, np.asarray(stamp) + np.rint(first).astype(np.int64), begin) + first

    return Subject(
        f"{family} {seed}: {name} missing {share} {clock}", family,
        thinned(near, share, seed=seed), thinned(changed, share, seed=seed + 1_000),
        truth,
        clock.skew_ppm + own.skew_ppm, 1 + len(clock.steps),
    )  # fmt: skip


def gsm(seed: int) -> Subject:
    return altered(SCENARIOS[seed % len(SCENARIOS)], "GSM link in virtual time, 9.6 kb/s", seed)


def recording(seed: int) -> Subject:
    return altered(str(RECORDING), "recording, 2 Mb/s", seed)


def drive(folder: Folder) -> Subject:
    """Return a recorded drive, whose hosts share one clock, with another clock at the fixed host."""
    luck = np.random.default_rng([int(folder.name), 6011])
    clock = Clock(offset_s=float(luck.uniform(-3, 3)), skew_ppm=float(luck.uniform(-60, 60)))
    near, far = both_ends(folder)
    begin = int(near.segments["time_ns"][0])
    return Subject(
        f"drive {folder.name}: {clock}", "rehearsed drive", near, with_clock(far, clock, begin),
        lambda stamp: error_ns(clock, stamp, begin), clock.skew_ppm, 1,
    )  # fmt: skip


@dataclass(frozen=True)
class Result:
    """What one case came to; of several intervals the worst."""

    family: str
    error_ns: float
    half_ns: float
    skew_error_ppm: float
    skew_half_ppm: float
    causal: bool
    steps_found: bool
    seconds: float
    bounds_ns: float
    """How wide the bounds of causality are, of several intervals the widest."""

    @property
    def good(self) -> bool:
        return self.error_ns <= max(2e6, 3 * self.half_ns / 1.96)

    @property
    def inside(self) -> bool:
        return self.error_ns <= self.half_ns


def judge(subject: Subject) -> Result:
    """Align one case's captures and compare with the truth."""
    begin = time.process_time()
    found = relate(subject.near, subject.far)
    seconds = time.process_time() - begin
    truths = [float(subject.truth(e.first_ns)) for e in found]
    worst = max(range(len(found)), key=lambda k: abs(truths[k] - found[k].offset_ns) / found[k].uncertainty_ns)
    causal = all(known(e.lower_ns) <= t <= known(e.upper_ns) for e, t in zip(found, truths, strict=True))
    e = found[worst]
    return Result(
        subject.family, abs(truths[worst] - e.offset_ns), e.uncertainty_ns,
        abs(e.skew_ppm - subject.skew_ppm), e.skew_uncertainty_ppm, causal,
        len(found) == subject.intervals, seconds, max(known(e.upper_ns) - known(e.lower_ns) for e in found),
    )  # fmt: skip


def table(results: Iterable[Result]) -> str:
    """Return the table of docs/clock_accuracy.md."""
    done = list(results)
    lines = ["| " + " | ".join(_HEAD) + " |", "|---" * len(_HEAD) + "|"]
    for family in [*sorted({r.family for r in done}), "all"]:
        chosen = [r for r in done if family in (r.family, "all")]
        share = [
            f"{100 * np.mean(values):.1f} %"
            for values in (
                [r.good for r in chosen], [r.inside for r in chosen],
                [r.skew_error_ppm <= r.skew_half_ppm for r in chosen],
                [r.causal for r in chosen], [r.steps_found for r in chosen],
            )
        ]  # fmt: skip
        middle = [
            f"{np.median(values):.2f}"
            for values in (
                [r.half_ns / 1e6 for r in chosen], [r.error_ns / 1e6 for r in chosen],
                [r.skew_half_ppm for r in chosen],
            )
        ]  # fmt: skip
        cells = [family, str(len(chosen)), *share[:2], *middle[:2], share[2], middle[2], *share[3:]]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


_BOUNDS_HEAD = (
    "cases", "n", "inside the bounds of causality", "median width of the bounds, s", "largest, s",
    "inside the stated interval", "steps",
)  # fmt: skip


def table_of_bounds(results: Iterable[Result]) -> str:
    """Return the table of asymmetric paths of docs/clock_accuracy.md."""
    done = list(results)
    lines = ["| " + " | ".join(_BOUNDS_HEAD) + " |", "|---" * len(_BOUNDS_HEAD) + "|"]
    for family in [*sorted({r.family for r in done}), "all"]:
        chosen = [r for r in done if family in (r.family, "all")]
        causal, inside, steps = (
            f"{100 * np.mean(v):.1f} %"
            for v in ([r.causal for r in chosen], [r.inside for r in chosen], [r.steps_found for r in chosen])
        )
        widths = [r.bounds_ns / 1e9 for r in chosen]
        cells = [family, len(chosen), causal, f"{np.median(widths):.2f}", f"{max(widths):.2f}", inside, steps]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("cases", nargs="?", type=int, default=200)
    asked.add_argument("--first", type=int, default=0, help="the first seed")
    asked.add_argument("--asymmetric", action="store_true")
    asked.add_argument("--drives", type=Folder, help="a folder of recorded drives")
    asked.add_argument("--each", action="store_true", help="print every case")
    options = asked.parse_args()
    kinds = [asymmetric] if options.asymmetric else [synthetic] * 14 + [gsm] * 4 + [recording] * 2
    seeds = range(options.first, options.first + options.cases)
    subjects = (kinds[seed % len(kinds)](seed) for seed in seeds)
    if options.drives:
        subjects = (drive(folder) for folder in sorted(options.drives.glob("[0-9]*")))
    results = []
    for subject in subjects:
        result = judge(subject)
        results.append(result)
        fine = result.causal and (options.asymmetric or (result.good and result.inside and result.steps_found))
        if options.each or not fine:
            print(f"{subject.name}: {result}", flush=True)  # noqa: T201
    print((table_of_bounds if options.asymmetric else table)(results))  # noqa: T201
    print(f"{sum(r.seconds for r in results):.1f} s of CPU")  # noqa: T201


if __name__ == "__main__":
    main()
