"""A queue on the way was full and dropped packets: that is how most senders find out what the link can do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.queue_at_losses import loss_finding, losses_of, lost_behind_queue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.case import Case, Finding
    from multitracer.diagnosis.packets.losses import Losses

KIND = "congestion-loss"
HELP = "Nothing is broken: an AQM that marks (ECN) or another congestion control loses less at the same rate."


def find(case: Case) -> Iterator[Finding]:
    """Yield at most one finding, of the whole transfer."""
    lost = losses_of(case)
    if lost is not None and lost.is_congestion and not _is_behind_queue(case, lost):
        most = "{count:,} packets ({share:.2%}) were lost, most of them to a full queue: "
        why = f"those before had waited {lost.waited_s:.3f} s, as long as any."
        if not lost.waited_longest:
            why = f"as many packets as ever were ahead of them, which took {lost.waited_s:.3f} s."
        yield loss_finding(case, KIND, lost, most + why)


def _is_behind_queue(case: Case, lost: Losses) -> bool:
    """Return whether the link had served most of them: then no queue dropped them, however long it was."""
    served = lost_behind_queue(case)
    return served is not None and 2 * len(served.place) > len(lost.place)
