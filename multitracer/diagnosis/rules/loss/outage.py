"""Nothing arrived for a while, and retransmissions failed too; shorter than a blackout.

If the link was logged, its own findings name the reason (`link-reset`, `rlp-retransmission-burst`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.idle_gaps import BLACKOUT_S, dead_link

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.finding import Finding

KIND = "outage"
HELP = "Finding the part of the path that failed: the log of its router or modem shows why."


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding for each outage of less than ten seconds."""
    yield from (each for each in dead_link(diagnosis, KIND) if each.cost_s < BLACKOUT_S)
