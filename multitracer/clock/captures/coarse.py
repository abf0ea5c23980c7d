"""Captures whose stamps come in coarse steps: of a program that cut the fraction off, or of a slow tick.

A stamp that was cut off is late by up to a step, and so is the least delay; the estimators take stamps for
exact. The error of what they find grows by a step of each capture.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.model.estimate import PPM
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.capture import Capture
    from multitracer.clock.model.estimate import Estimate

_FEW = 20  # the distances of fewer stamps may have a common divisor by chance
_LOOK = 10_000  # bounds the time: what so many stamps have in common, all have
_DECIMAL_NS = (NS_PER_MS, 10 * NS_PER_MS)  # what programs that print three or two decimals leave
_COARSE_NS = 50 * NS_PER_MS
"""From here on steps are no slots: in virtual time all happens in those of the link, of 5 and 20 ms."""
_NOTE = "stamps come in steps of {:,.0f} ms, which the error holds"


def tick_ns(capture: Capture) -> int:
    """Return the step in which a capture's stamps come, if it is a cut decimal or coarse; otherwise 0."""
    time_ns = capture.segments["time_ns"][:_LOOK]
    time_ns = time_ns[time_ns != NOT_A_TIME]
    if len(time_ns) < _FEW:
        return 0
    tick = int(np.gcd.reduce(np.diff(time_ns)))
    return tick if tick in _DECIMAL_NS or tick >= _COARSE_NS else 0


def widened(estimate: Estimate, coarse_ns: int) -> Estimate:
    """Return an estimate whose error holds that of coarse stamps, too."""
    if not coarse_ns:
        return estimate
    lower, upper = estimate.lower_ns, estimate.upper_ns
    tilt = estimate.skew_uncertainty_ppm * PPM * (estimate.first_ns - estimate.pivot)
    return replace(
        estimate,
        uncertainty_ns=math.hypot(estimate.at_pivot_ns + coarse_ns, tilt),
        lower_ns=None if lower is None else lower - coarse_ns,
        upper_ns=None if upper is None else upper + coarse_ns,
        crossed_ns=max(estimate.crossed_ns - coarse_ns, 0),
        notes=(*estimate.notes, _NOTE.format(coarse_ns / NS_PER_MS)),
    )
