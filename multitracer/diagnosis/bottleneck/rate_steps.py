"""A step of the link's rate: its time for a segment changed once, and stayed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.bottleneck.service_times import busy_pieces, is_busy
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.diagnosis.bottleneck.service_times import ArrivalGaps, BusyPieces
    from multitracer.diagnosis.case import Case
    from multitracer.tables import Array

_LEAST_PIECES = 3
"""On both sides: it lasts ..."""
_LEAST_S = 0.5
"""... and so long."""
_LEAST_BUSY = 0.02
"""Part of the segments on either side that the link delayed: at known steps 0.06 and more. On a link that has
nearly always room a busy host makes the few waits: 0.003 of them."""
_FACTOR = 1.3
"""Less is how links vary."""
_CONSISTENT = 0.9
"""Part of the pieces on either side that lie on their side of the middle."""
_EXPLAINED = 0.8
"""Part of what the pieces vary that one step explains: 0.97 and more at steps, 0.5 and less elsewhere."""


class RateStep(NamedTuple):
    """The step of the link's time for a segment that explains most."""

    time_ns: int
    """When the middle segment of the first piece after it was sent."""
    row: Array
    """Rows in `sender` of the segments in the middle of the pieces before and after it."""
    before_ns: float
    after_ns: float


def rate_step(case: Case, gaps: ArrivalGaps) -> RateStep | None:
    """Return the step of the link's rate; None if there is none, or another picture."""
    busy = is_busy(case, gaps)
    pieces = busy_pieces(gaps, busy)
    step = _step(pieces, least_ns=_LEAST_S * NS_PER_S / case.transfer.speed)
    return step if step is not None and _was_busy(gaps.time_ns, busy, step.time_ns) else None


def _was_busy(time_ns: Array, busy: Array, at_ns: int) -> bool:
    """Return whether the link delayed enough of the segments before and after a time to show its rate."""
    after = time_ns >= at_ns
    return bool(min(busy[after].mean(), busy[~after].mean()) >= _LEAST_BUSY)


def _step(pieces: BusyPieces, *, least_ns: float) -> RateStep | None:
    """Return the step of the link's time for a segment; None if there is none, or another picture."""
    time, size = pieces.time_ns, np.log(np.maximum(pieces.service_ns, 1))
    places = range(_LEAST_PIECES, len(size) - _LEAST_PIECES + 1)
    lasting = [at for at in places if min(time[at] - time[0], time[-1] - time[at]) >= least_ns]
    if not lasting:
        return None
    at = min(lasting, key=lambda each: _varies(size[:each]) + _varies(size[each:]))
    before, after = float(np.median(size[:at])), float(np.median(size[at:]))
    above = (size - (before + after) / 2) * np.sign(after - before) > 0
    consistent = min(np.mean(~above[:at]), np.mean(above[at:])) >= _CONSISTENT
    left = (_varies(size[:at]) + _varies(size[at:])) / max(_varies(size), 1e-9)
    if abs(after - before) < np.log(_FACTOR) or not consistent or left > 1 - _EXPLAINED:
        return None
    around = pieces.row[at - 1 : at + 1]
    return RateStep(int(time[at]), around, float(np.exp(before)), float(np.exp(after)))


def _varies(values: Array) -> float:
    return float(np.abs(values - np.median(values)).sum())
