"""More data wait before the link than it needs to be busy, which makes round trips long (paper 004, 5.2).

The capacity of the pipe is the bottleneck's rate times the unloaded round trip; more data in flight wait in
the queue. This costs the transfer itself nothing, but it delays all other traffic, and every recovery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.finding import Finding, rows
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

KIND = "overbuffered-link"
HELP = "A shorter queue before the link, or an AQM (CoDel, PIE); a smaller window at the receiver."
_INFLATION = 4.0
"""Minimum ratio of a long round trip to the unloaded one."""
_QUEUE_S = 3.0
"""Minimum time in s that a deep queue takes to drain: the initial timeout of RFC 2988, section 2.1 (the paper
uses 6 s, today's value is 1 s)."""
_SHARE = 0.25
"""Minimum share of samples with a deep queue: a short outage is not a deep queue."""
_MIN_SAMPLES = 5  # a share of fewer says nothing. Not measured
_MIN_SEGMENTS = 3
"""Minimum number of full segments in flight: the slow answer to a single one shows no queue of this transfer."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding, if far more data waited before the link than it needs to be busy."""
    transfer = diagnosis.transfer
    sampled = np.flatnonzero(transfer.sender["rtt_ns"] > 0)
    mine = (transfer.sender["reverse"] == transfer.reverse) & (transfer.sender["payload_bytes"] > 0)
    sampled = sampled[mine[sampled]]
    rtt_s = transfer.sender["rtt_ns"][sampled] * transfer.speed / NS_PER_S
    if not len(rtt_s):
        return
    unloaded_s = float(rtt_s.min())
    flight = transfer.sender["flight_bytes"][sampled]
    waiting = flight >= _MIN_SEGMENTS * int(transfer.sender["payload_bytes"][sampled].max())
    deep = waiting & (rtt_s >= _INFLATION * unloaded_s) & (rtt_s - unloaded_s >= _QUEUE_S)
    if np.count_nonzero(deep) < max(_SHARE * len(rtt_s), _MIN_SAMPLES):
        return
    worst = int(np.argmax(rtt_s))
    began, ended = (int(transfer.sender["time_ns"][sampled[np.flatnonzero(deep)[i]]]) for i in (0, -1))
    sentence = (
        f"Up to {int(flight[deep].max()):,} bytes were on their way: the round trip grew from "
        f"{unloaded_s:.1f} s to "
        f"{rtt_s[worst]:.1f} s, and all other traffic on this link waits behind them."
    )
    evidence = rows("sender", [int(sampled[np.argmin(rtt_s)]), int(sampled[worst])])
    yield Finding(KIND, began, ended, 0.0, None, evidence, sentence)
