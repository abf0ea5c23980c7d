"""The link's rate changed for good: another modulation, another cell, a limit that set in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.bottleneck.rate_steps import rate_step
from multitracer.diagnosis.bottleneck.service_times import arrival_gaps
from multitracer.diagnosis.case import Case, Finding, rows
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.bottleneck.rate_steps import RateStep

KIND = "rate-change"
HELP = "What set in at that moment: the cell, its load and modulation, a quota or a shaper; not the two ends."
_BITS = 8  # in a byte


def find(case: Case) -> Iterator[Finding]:
    """Yield at most one finding: the step that explains most, where the arrivals were captured.

    By the time that the link has a segment, not by what came through: others that share the link take from
    that, too, and do not change this. Behind a policer, which keeps nothing back, gaps are the sender's.
    """
    seen = case.limited.seen
    is_policed = seen is not None and seen.policer is not None
    gaps = None if case.is_link_logged or is_policed else case.once(arrival_gaps)
    if gaps is None:
        return
    step = rate_step(case, gaps)
    if step is not None:
        yield _finding(case, step)


def _finding(case: Case, step: RateStep) -> Finding:
    seen = case.limited.seen
    assert seen is not None
    full_bits = seen.mss_bytes * _BITS * NS_PER_S / case.transfer.speed
    before, after = full_bits / step.before_ns, full_bits / step.after_ns
    at_s = case.at_s(step.time_ns)
    sentence = (
        f"The link's rate {'fell' if after < before else 'rose'} from {before / 1e6:.3g} to "
        f"{after / 1e6:.3g} Mbit/s of payload {at_s:.1f} s into the transfer, and stayed there."
    )
    numbers = {"rate_before_bps": before, "rate_after_bps": after}
    evidence = rows("sender", step.row)
    return Finding(KIND, step.time_ns, step.time_ns, 0.0, None, evidence, sentence, numbers=numbers)
