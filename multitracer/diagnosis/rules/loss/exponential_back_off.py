"""Several timeouts in a row, each with a doubled timer (RFC 6298, 5.5; paper 004, 5.3 and Figure 10)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.limits.names import Limit
from multitracer.diagnosis.packets.dead_times import timeouts
from multitracer.words import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

KIND = "exponential-back-off"
HELP = "The cause of the losses before; a sender that probes sooner (RFC 8985) shortens the wait."


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding for each series of at least two timeouts of one segment."""
    sender = diagnosis.transfer.sender
    again, step = timeouts(diagnosis.transfer)
    starts = np.append(np.flatnonzero(step == 1), len(again))
    for first, last in pairwise(starts.tolist()):
        if last - first < 2:
            continue
        run = again[first:last]
        times = sender["time_ns"][run]
        last_ns = int(times[-1] - times[-2]) * diagnosis.transfer.speed
        began_ns = int(times[0])
        ended_ns = int(times[-1])
        cost_s = diagnosis.limited_s(Limit.RECOVERY, Limit.OUTAGE, begin_ns=began_ns, end_ns=ended_ns)
        sentence = (
            f"{len(run)} timeouts in a row, {diagnosis.at_s(began_ns):.1f} s into the transfer: the timer "
            f"backed off, and the last wait was {duration(last_ns)}."
        )
        payload = int(sender["payload_bytes"][run].sum())
        yield Finding(KIND, began_ns, ended_ns, cost_s, payload, rows("sender", run), sentence)
