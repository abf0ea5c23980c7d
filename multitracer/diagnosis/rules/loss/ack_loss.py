"""The data had arrived, but their ACKs were lost, and the sender timed out (paper 004, 5.3).

A finding needs proof of both. The proof is the link's log; or both captures, if more ACKs than data were lost
in that time; or the sender's capture, if the first ACK after it covers more than was sent again; or the
receiver's capture, if delivered data arrived again and again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.verdicts import Necessity, RetransmissionCause, VerdictEvidence
from multitracer.diagnosis.finding import Finding, episodes, rows
from multitracer.diagnosis.idle_gaps import idle_gaps, repeated_in
from multitracer.diagnosis.limits.names import Limit, LimitSubtype
from multitracer.tables import NA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.idle_gaps import ReceiverIdleGap
    from multitracer.diagnosis.packets.dead_times import DeadTime
    from multitracer.tables import Array

KIND = "ack-loss"
_SHORTEST_S = 0.15
"""Minimum wait, in s, that the sender's packets alone prove: timers wait 0.2 s at least, probes less. Not measured."""
HELP = "Look at the path of the ACKs: queue, radio, header compression; more ACKs make one lost ACK harmless."


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding for each run of timeouts that resent only data which the receiver already had."""
    if not diagnosis.is_link_logged:
        yield from (_by_packets(diagnosis, dead) for dead in diagnosis.dead_times if _is_sure(diagnosis, dead))
        for idle_gap in idle_gaps(diagnosis):
            if idle_gap.part is LimitSubtype.ACKS:
                yield _at_receiver(diagnosis, idle_gap)
        return
    transfer = diagnosis.transfer
    verdicts, sender = transfer.verdicts, transfer.sender
    chosen = (verdicts["cause"] == RetransmissionCause.TIMEOUT) & (verdicts["necessity"] == Necessity.ACK_LOST)
    picked = np.flatnonzero(chosen)
    begins = sender["seq_bytes"][verdicts["row"][picked]]
    for first, last in episodes(begins, apart_ns=0):
        run = picked[first:last]
        again = verdicts["row"][run]
        earlier = verdicts["earlier_row"][run]
        began_ns = int(sender["time_ns"][earlier[0] if earlier[0] != NA else again[0]])
        ended_ns = int(sender["time_ns"][again[-1]])
        cost_s = diagnosis.limited_s((Limit.RECOVERY, LimitSubtype.TIMER), begin_ns=began_ns, end_ns=ended_ns)
        sentence = _sentence(_fate(verdicts["evidence"][run]), cost_s, len(run))
        payload = int(sender["payload_bytes"][again].sum())
        yield Finding(KIND, began_ns, ended_ns, cost_s, payload, rows("sender", again), sentence)


def _is_sure(diagnosis: Diagnosis, dead: DeadTime) -> bool:
    """Return whether ACKs were lost; one end alone shows it only of a wait that is as long as a timer's."""
    lasted_s = diagnosis.link_s(dead.begin_ns, dead.end_ns)
    return dead.is_ack_loss and (dead.lost_data != NA or lasted_s >= _SHORTEST_S)


def _by_packets(diagnosis: Diagnosis, dead: DeadTime) -> Finding:
    cost_s = diagnosis.link_s(dead.begin_ns, dead.end_ns)
    payload = int(diagnosis.transfer.sender["payload_bytes"][dead.tries].sum())
    numbers = {} if dead.lost_acks == NA else {"lost_acks": dead.lost_acks, "lost_packets": dead.lost_data}
    sentence = _sentence("were lost on the way back", cost_s, len(dead.tries))
    answer = [] if dead.answer == NA else [dead.answer]
    evidence = rows("sender", [*dead.tries.tolist(), *answer])
    return Finding(KIND, dead.begin_ns, dead.end_ns, cost_s, payload, evidence, sentence, numbers=numbers)


def _at_receiver(diagnosis: Diagnosis, idle_gap: ReceiverIdleGap) -> Finding:
    """Return a finding for an idle gap of a receiver's capture: the same data arrived again and again."""
    cost_s = diagnosis.link_s(idle_gap.begin_ns, idle_gap.end_ns)
    again = repeated_in(diagnosis, idle_gap)
    payload = int(diagnosis.transfer.sender["payload_bytes"][again].sum())
    evidence = rows("sender", again)
    sentence = _sentence("were lost on the way back", cost_s, len(again))
    numbers = {"repeated_packets": len(again)}
    return Finding(KIND, idle_gap.begin_ns, idle_gap.end_ns, cost_s, payload, evidence, sentence, numbers=numbers)


def _sentence(fate: str, cost_s: float, timeouts: int) -> str:
    again = "a timeout" if timeouts == 1 else f"{timeouts} timeouts"
    return f"The receiver had the data, but its ACKs {fate}: {cost_s:.1f} s until {again} asked again."


def _fate(evidence: Array) -> str:
    """Return a text about what happened to the ACKs: lost, or ignored because of a wrong header."""
    ignored = (evidence & np.uint32(VerdictEvidence.ACK_IGNORED)) != 0
    if ignored.all():
        return "arrived with wrong headers and were discarded"
    return "were lost or damaged on the way back" if ignored.any() else "were lost on the way back"
