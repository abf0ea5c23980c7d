"""The packets behind an estimate, for a figure: each with its two stamps and the way it went."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.estimate import BACKWARD, FORWARD, Evidence
from multitracer.clock.ways import both_ways

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.capture import Capture
    from multitracer.clock.estimate import Array, Estimate


def with_packets(estimates: Sequence[Estimate], near: Capture, far: Capture) -> list[Estimate]:
    """Return estimates of two captures with the packets that each covers, where they have none yet."""
    if all(estimate.points is not None for estimate in estimates):
        return list(estimates)
    ways = both_ways(near, far)
    rows = np.concatenate([ways.out.row, ways.back.row])
    order = np.argsort(rows, kind="stable")  # as captured: a clock that was set back repeats its stamps
    others = np.concatenate([ways.out.other_row, ways.back.other_row])
    direction = np.repeat(np.array([FORWARD, BACKWARD], dtype=np.int8), [len(ways.out), len(ways.back)])
    start, end = near.segments["time_ns"][rows[order]], far.segments["time_ns"][others[order]]
    return [replace(e, points=_covered(e, start, end, direction[order])) for e in estimates]


def _covered(estimate: Estimate, start: Array, end: Array, direction: Array) -> Evidence:
    """Return the packets of an interval; where two claim a stamp, those that its line fits better."""
    here = np.flatnonzero(estimate.covers(start))
    return Evidence(start[here], end[here], direction[here])
