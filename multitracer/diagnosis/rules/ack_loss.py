"""The data had arrived, but their ACKs were lost, and the sender timed out (paper 004, 5.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.verdicts import Cause, Evidence, Necessity
from multitracer.diagnosis.case import Case, Finding, episodes, rows
from multitracer.diagnosis.use import Use
from multitracer.tables import NA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Array

KIND = "ack-loss"


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each run of timeouts whose segments the receiver had already."""
    transfer = case.transfer
    verdicts, sender = transfer.verdicts, transfer.sender
    chosen = (verdicts["cause"] == Cause.TIMEOUT) & (verdicts["necessity"] == Necessity.ACK_LOST)
    picked = np.flatnonzero(chosen)
    begins = sender["seq_bytes"][verdicts["row"][picked]]
    for first, last in episodes(begins, apart_ns=0):
        run = picked[first:last]
        again = verdicts["row"][run]
        earlier = verdicts["earlier_row"][run]
        began_ns = int(sender["time_ns"][earlier[0] if earlier[0] != NA else again[0]])
        ended_ns = int(sender["time_ns"][again[-1]])
        cost_s = case.seconds(Use.IDLE_RTO, begin_ns=began_ns, end_ns=ended_ns)
        fate = _fate(verdicts["evidence"][run])
        sentence = (
            f"The receiver had the data, but its ACKs {fate}: {cost_s:.1f} s went by until "
            f"{'a timeout' if len(run) == 1 else f'{len(run)} timeouts'} asked again."
        )
        payload = int(sender["payload_bytes"][again].sum())
        yield Finding(KIND, began_ns, ended_ns, cost_s, payload, rows("sender", again), sentence)


def _fate(evidence: Array) -> str:
    """Return what became of the ACKs: TCP takes no notice of one whose header is wrong."""
    ignored = (evidence & np.uint32(Evidence.ACK_IGNORED)) != 0
    if ignored.all():
        return "arrived with wrong headers and were discarded"
    return "were lost or damaged on the way back" if ignored.any() else "were lost on the way back"
