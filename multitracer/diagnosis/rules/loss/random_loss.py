"""Packets were lost, but not in a queue: the link itself lost them, such as a radio or a bad cable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.packets.losses import rounds
from multitracer.diagnosis.queue_at_losses import loss_finding, lost_at_empty_queue, lost_behind_queue
from multitracer.units import NS_PER_MS, NS_PER_S
from multitracer.words import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.finding import Finding
    from multitracer.diagnosis.packets.losses import Losses

KIND = "random-loss"
HELP = "A better signal, cable or port; a congestion control that does not slow down for each loss (BBR)."
_SERVED = "{lost} were lost behind the queue: what came next had waited as if the link had carried them, too."
_MIN_WAIT_S = 1e-4
"""Minimum wait, in s, that is told as a number: clocks of captures are seldom better."""
_MIN_ROUNDS = 5
"""Minimum number of round trips from the first loss to the last: in a slow start that overfills a short
queue, losses last two or three."""
_DEEP_NS = 5 * NS_PER_MS
"""Longest delay, in ns, from which on a queue is deep. Packets that did not wait were not lost in a deep
queue, so that `_MIN_ROUNDS` is not needed."""
_HIGH, _DEEPER, _NOISE_NS = 0.9, 5, 1.7 * NS_PER_MS
"""A queue is also deep if its longest delay is at least `_DEEPER` times the delay before the losses (at the
quantile `_HIGH`), and more than the noise of clocks in ns."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding, for losses without a full queue.

    These are all losses if chance explains them, else those that no queue explains.
    """
    lost = None if diagnosis.is_link_logged else diagnosis.carried.losses
    if lost is None or not lost.is_chance:  # not all: those with next to nothing ahead
        lost = lost_at_empty_queue(diagnosis)
    if lost is not None:
        high_ns = float(np.quantile(lost.queue_ns, _HIGH))
        is_deep = lost.longest_ns >= _DEEP_NS or lost.longest_ns >= max(_NOISE_NS, _DEEPER * high_ns)
        lost = lost if is_deep or rounds(diagnosis.carried, lost.place) >= _MIN_ROUNDS else None
    lost, served = (_unless_probes(diagnosis, each) for each in (lost, lost_behind_queue(diagnosis)))
    seen = diagnosis.limited.seen
    is_policed = seen is not None and seen.policer is not None
    if (lost is None and served is None) or is_policed or diagnosis.policing.is_suspected:
        return
    if lost is not None and (served is None or len(served.place) <= len(lost.place)):
        what = "{lost} were lost though no queue was full: "
        waited = duration(lost.waited_s * NS_PER_S) if lost.waited_s >= _MIN_WAIT_S else "less than 0.1 ms"
        why = f"those before them had waited {waited}."
        yield loss_finding(diagnosis, KIND, lost, what + why)
    elif served is not None:
        yield loss_finding(diagnosis, KIND, served, _SERVED)


def _unless_probes(diagnosis: Diagnosis, lost: Losses | None) -> Losses | None:
    """Return the losses; None if they are lost probes for the packet size after a path MTU black hole.

    Probes of a size are lost at least as often as they arrive, because of their size (RFC 4821, section 7).
    """
    if lost is None or not diagnosis.mtu_holes:
        return lost
    sizes, closes = diagnosis.segments.payload_bytes, diagnosis.segments.closes
    size, times = np.unique(sizes[lost.place], return_counts=True)
    arrived = np.array([np.count_nonzero(closes & (sizes == each)) for each in size])
    return None if (arrived <= times).all() else lost
