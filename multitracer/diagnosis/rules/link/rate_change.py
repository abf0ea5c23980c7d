"""The link's rate changed permanently: another modulation, another cell, or a new limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.limits.link import delivered_at_most
from multitracer.diagnosis.limits.names import Viewpoint
from multitracer.diagnosis.service_times import FACTOR, rate_step
from multitracer.units import NS_PER_S
from multitracer.words import rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

KIND = "rate-change"
HELP = "What set in at that moment: the cell, its load and modulation, a quota or a shaper; not the two ends."
_BITS = 8  # in a byte
_COMPANY = 0.05
"""Minimum bytes of other connections, as part of the own bytes, whose begin or end may look like a step. Not measured.
"""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding, for the permanent change of the link's rate that explains most.

    The rate follows from the link's time for a segment, not from the throughput: cross traffic reduces the
    throughput, but not this time. A receiver's capture alone does not show which packets waited, so cross
    traffic may change the time. Then there is no finding if the capture contains other connections to this
    host. With a policer, which delays nothing, the sender determines the gaps. No rate is above what was delivered: a
    device that joins packets shortens their gaps.
    """
    seen = diagnosis.limited.seen
    is_policed = seen is not None and seen.policer is not None
    gaps = None if diagnosis.is_link_logged or is_policed else diagnosis.arrival_gaps
    if gaps is None:
        return
    step = rate_step(diagnosis.limited, gaps)
    if seen is None or step is None or not step.is_proved:
        return
    if diagnosis.limited.view is not Viewpoint.BOTH_ENDS and _has_company(diagnosis):
        return
    full_bits = seen.mss_bytes * _BITS * NS_PER_S / diagnosis.transfer.speed
    scale = _BITS / diagnosis.transfer.speed
    sides = (step.before_ns, seen.opened_ns, step.time_ns), (step.after_ns, step.time_ns, seen.end_ns)
    before, after = (
        min(full_bits / each_ns, delivered_at_most(seen, begin_ns, end_ns) * scale)
        for each_ns, begin_ns, end_ns in sides
    )
    if max(before, after) < FACTOR * min(before, after):
        return
    at_s = diagnosis.at_s(step.time_ns)
    sentence = (
        f"The link's rate {'fell' if after < before else 'rose'} from {rate(before)} to "
        f"{rate(after)} of payload {at_s:.1f} s into the transfer, and stayed there."
    )
    numbers = {"rate_before_bps": before, "rate_after_bps": after}
    evidence = rows("sender", step.row)
    yield Finding(KIND, step.time_ns, step.time_ns, 0.0, None, evidence, sentence, numbers=numbers)


def _has_company(diagnosis: Diagnosis) -> bool:
    """Return whether other connections of the capture carried data to the same host at the same time."""
    transfer = diagnosis.transfer
    analysis, flows = transfer.at_sender.capture.analysis, transfer.at_sender.capture.tables.flows
    table, own = analysis.connections, transfer.at_sender.connection - 1
    meets = (table["start_ns"] <= table["end_ns"][own]) & (table["end_ns"] >= table["start_ns"][own])
    flow = table["forward_flow"]
    turned = (flow & 1)[:, np.newaxis].astype(bool)
    one, other = flows["address_a"][flow >> 1], flows["address_b"][flow >> 1]
    to = np.stack([np.where(turned, one, other), np.where(turned, other, one)], axis=1)
    payload = analysis.directions["unique_bytes"].reshape(-1, 2)
    is_there = (to == to[own, int(diagnosis.transfer.reverse)]).all(axis=2) & meets[:, np.newaxis]
    ours = int(payload[own, int(diagnosis.transfer.reverse)])
    return int(payload[is_there].sum()) - ours > _COMPANY * ours
