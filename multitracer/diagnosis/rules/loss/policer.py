"""A policer let a rate and a burst pass and dropped the rest: no queue, many losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.bottleneck.loss_causes import repair_s
from multitracer.diagnosis.case import Case, Finding, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

KIND = "policer"
HELP = "The contract's rate; shaping (a queue) instead of policing; pacing or BBR at the sender."
_BITS = 8  # in a byte


def find(case: Case) -> Iterator[Finding]:
    """Yield at most one finding, of the whole transfer."""
    seen = case.limited.seen
    policing = None if case.is_link_logged or seen is None else seen.policer
    if policing is None:
        return
    sent = case.segments.row[policing.lost]
    began_ns, ended_ns = (int(case.transfer.sender["time_ns"][sent[i]]) for i in (0, -1))
    rate, link = (each * _BITS / 1e6 for each in (policing.rate_bytes_per_s, policing.link_bytes_per_s))
    sentence = (
        f"A policer passes {rate:.2f} Mbit/s and drops what exceeds its burst, without delay: "
        f"{len(policing.lost):,} packets were lost whenever it had nothing left; the link itself can do "
        f"{link:.1f} Mbit/s."
    )
    numbers = {
        "policed_bytes_per_s": policing.rate_bytes_per_s,
        "link_bytes_per_s": policing.link_bytes_per_s,
        "lost_packets": len(policing.lost),
    }
    payload = int(case.segments.payload_bytes[policing.lost].sum())
    cost_s = repair_s(case, began_ns)
    evidence = rows("sender", np.unique(sent))
    yield Finding(KIND, began_ns, ended_ns, cost_s, payload, evidence, sentence, numbers=numbers)
