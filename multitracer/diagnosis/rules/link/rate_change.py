"""The link's rate changed for good: another modulation, another cell, a limit that set in."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.bottleneck.service_times import arrival_gaps, busy_pieces, is_busy
from multitracer.diagnosis.case import Case, Finding, rows
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.bottleneck.service_times import Pieces
    from multitracer.tables import Array

KIND = "rate-change"
HELP = "What set in at that moment: the cell, its load and modulation, a quota or a shaper; not the two ends."
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
_BITS = 8  # in a byte


class _Step(NamedTuple):
    at: int
    """The first piece after it."""
    before_ns: float
    after_ns: float


def find(case: Case) -> Iterator[Finding]:
    """Yield at most one finding: the step that explains most, where the arrivals were captured.

    By the time that the link has a segment, not by what came through: others that share the link take from
    that, too, and do not change this. Behind a policer, which keeps nothing back, gaps are the sender's.
    """
    seen = case.limited.seen
    is_policed = seen is not None and seen.policer is not None
    gaps = None if case.is_link_logged or is_policed else arrival_gaps(case)
    if gaps is None:
        return
    busy = is_busy(case, gaps)
    pieces = busy_pieces(gaps, busy)
    step = _step(pieces, least_ns=_LEAST_S * NS_PER_S / case.transfer.speed)
    if step is not None and _was_busy(gaps.time_ns, busy, int(pieces.time_ns[step.at])):
        yield _finding(case, pieces, step)


def _was_busy(time_ns: Array, busy: Array, at_ns: int) -> bool:
    """Return whether the link delayed enough of the segments before and after a time to show its rate."""
    after = time_ns >= at_ns
    return bool(min(busy[after].mean(), busy[~after].mean()) >= _LEAST_BUSY)


def _step(pieces: Pieces, *, least_ns: float) -> _Step | None:
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
    return _Step(at, float(np.exp(before)), float(np.exp(after)))


def _varies(values: Array) -> float:
    return float(np.abs(values - np.median(values)).sum())


def _finding(case: Case, pieces: Pieces, step: _Step) -> Finding:
    seen = case.limited.seen
    assert seen is not None
    full_bits = seen.mss_bytes * _BITS * NS_PER_S / case.transfer.speed
    before, after = full_bits / step.before_ns, full_bits / step.after_ns
    at_ns = int(pieces.time_ns[step.at])
    sentence = (
        f"The link's rate {'fell' if after < before else 'rose'} from {before / 1e6:.3g} to "
        f"{after / 1e6:.3g} Mbit/s of payload {case.at_s(at_ns):.1f} s into the transfer, and stayed there."
    )
    numbers = {"rate_before_bps": before, "rate_after_bps": after}
    evidence = rows("sender", pieces.row[step.at - 1 : step.at + 1])
    return Finding(KIND, at_ns, at_ns, 0.0, None, evidence, sentence, numbers=numbers)
