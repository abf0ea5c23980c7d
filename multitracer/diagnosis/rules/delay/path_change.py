"""The path's own delay changed permanently: another route through the network, or another cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.finding import Finding, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

KIND = "path-change"
HELP = "The routing, or the handover, of that moment; nothing at the two ends."


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding for each permanent change of the path's minimum delay."""
    delays = None if diagnosis.is_link_logged else diagnosis.typical_delays
    if delays is None:
        return
    for at, step_ns in zip(delays.changes.tolist(), delays.steps_ns.tolist(), strict=True):
        time_ns = int(delays.time_ns[at])
        step_s = diagnosis.link_s(0, step_ns)
        way = "the way there" if delays.is_one_way else "the round trip"
        sentence = (
            f"The path changed {diagnosis.at_s(time_ns):.1f} s into the transfer: from then on {way} took "
            f"{abs(step_s):.3f} s {'longer' if step_s > 0 else 'less'}, without any queue."
        )
        evidence = rows("sender", delays.row[at - 1 : at + 1])
        yield Finding(KIND, time_ns, time_ns, 0.0, None, evidence, sentence, numbers={"step_s": step_s})
