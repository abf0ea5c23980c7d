"""A policer passed a rate and a burst and dropped the rest: many losses without a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.queue_at_losses import repair_s
from multitracer.words import count, rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

KIND = "policer"
HELP = "A higher rate in the contract. Shaping (a queue), or a sender that paces, loses fewer packets."
_BITS = 8  # in a byte
_OF_HOSTS_BPS = 1e9
"""Maximum rate of a policed link in bit/s: no policed access link is faster. Not measured."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding, if a policer (a rate limiter without a queue) dropped packets."""
    seen = diagnosis.limited.seen
    policing = None if diagnosis.is_link_logged or seen is None else seen.policer
    if policing is None:
        return
    sent = policing.row
    began_ns, ended_ns = (int(diagnosis.transfer.sender["time_ns"][sent[i]]) for i in (0, -1))
    policed_bps, link_bps = (each * _BITS for each in (policing.rate_bytes_per_s, policing.link_bytes_per_s))
    # of short trains: of ACKs, which come in bunches, and of what stood in a buffer of the receiver's host it
    # is none of the link
    is_links = diagnosis.transfer.data_pairs is not None and link_bps < _OF_HOSTS_BPS
    can = f"can do {rate(link_bps)} or more" if is_links else "is faster"
    sentence = (
        f"A policer passes {rate(policed_bps)} and drops what exceeds its burst, without delay: "
        f"{count(len(sent), 'packet')} were lost whenever it had no token left; the link itself {can}."
    )
    numbers = {"policed_bytes_per_s": policing.rate_bytes_per_s, "lost_packets": len(sent)}
    if is_links:
        numbers["link_bytes_per_s"] = policing.link_bytes_per_s
    cost_s = repair_s(diagnosis, began_ns)
    evidence = rows("sender", np.unique(sent))
    yield Finding(KIND, began_ns, ended_ns, cost_s, policing.lost_bytes, evidence, sentence, numbers=numbers)
