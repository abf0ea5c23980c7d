"""Captures with the error of another clock, and with packets missing: the truth is then known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import parsers
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.simulator.run import record_virtual
from multitracer.recording.read import read

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.capture import CaptureTables
    from tests.clock.paths import Clock


def both_ends(folder: Path | str) -> tuple[CaptureTables, CaptureTables]:
    """Return what was captured at the mobile and at the fixed host of a session folder."""
    captures = {each.point.name: each.tables for each in read(str(folder)).captures}
    return captures["mobile"], captures["fixed"]


def one(path: Path | str) -> CaptureTables:
    return parsers.read_capture([str(path)])


def virtual(name: str, folder: Path, *, seed: int) -> tuple[CaptureTables, CaptureTables]:
    """Run a bundled scenario; return what was captured at both ends."""
    record_virtual(load_scenario(name), folder, seed=seed)
    return both_ends(folder)


def error_ns(clock: Clock, times_ns: Any, begin_ns: int) -> Any:
    """Return the error of a clock at true times, float64 ns; its steps count from `begin_ns`."""
    elapsed = (np.asarray(times_ns, dtype=np.int64) - begin_ns).astype(np.float64)
    error = clock.offset_s * 1e9 + clock.skew_ppm * 1e-6 * elapsed
    for when, jump in clock.steps:
        error = error + np.where(elapsed >= when * 1e9, jump * 1e9, 0.0)
    return error


def with_clock(capture: CaptureTables, clock: Clock, begin_ns: int) -> CaptureTables:
    """Return the capture as a host with that clock would have stamped it."""
    changed = capture.where(np.ones(len(capture.segments), dtype=bool))
    time = changed.segments["time_ns"]
    changed.segments.columns["time_ns"] = time + np.rint(error_ns(clock, time, begin_ns)).astype(np.int64)
    return changed


def thinned(capture: CaptureTables, missing: float, *, seed: int) -> CaptureTables:
    """Return the capture without a share of its packets."""
    luck = np.random.default_rng(seed)
    return capture.where(luck.random(len(capture.segments)) >= missing)
