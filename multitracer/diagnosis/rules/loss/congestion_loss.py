"""A full queue on the path dropped packets: this is how most senders find the rate of the link."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.queue_at_losses import loss_finding, lost_behind_queue
from multitracer.units import NS_PER_S
from multitracer.words import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.finding import Finding

KIND = "congestion-loss"
HELP = (
    "This is no fault: TCP fills a queue until packets are lost. "
    "A queue that marks instead of dropping (ECN), or another congestion control, loses less at the same rate."
)


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding, if a full queue on the path dropped packets."""
    lost = None if diagnosis.is_link_logged else diagnosis.carried.losses
    if lost is None or not lost.is_congestion:
        return
    served = lost_behind_queue(diagnosis)
    if served is not None and 2 * len(served.place) > len(lost.place):
        return  # the link had served most of them: no queue dropped these, however long it was
    waited = duration(lost.waited_s * NS_PER_S)
    most = "{lost} were lost, most of them by a queue that was full or managed (AQM): "
    why = f"the packets before them had waited in it for {waited}, the longest wait of all."
    if not lost.waited_longest:
        why = f"as many packets as ever were ahead of them, which took {waited}."
    yield loss_finding(diagnosis, KIND, lost, most + why)
