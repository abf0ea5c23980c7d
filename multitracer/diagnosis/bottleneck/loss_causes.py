"""What losses cost, and what is known of them where no log of the link tells more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.case import Case, Finding, rows
from multitracer.diagnosis.packets.losses import losses
from multitracer.diagnosis.use import Use, UseCause

if TYPE_CHECKING:
    from multitracer.diagnosis.packets.losses import Losses


def losses_of(case: Case) -> Losses | None:
    """Return what is known of a transfer's losses; None without delays, or if the link was logged."""
    return None if case.is_link_logged else case.carried.once(losses)


def loss_finding(case: Case, kind: str, lost: Losses, sentence: str) -> Finding:
    """Return a finding of all losses of a transfer; the sentence takes their `count` and `share`."""
    sent = case.segments.row[lost.place]
    began_ns, ended_ns = (int(case.transfer.sender["time_ns"][sent[i]]) for i in (0, -1))
    count = len(lost.place)
    share = count / len(case.segments)
    numbers = {"lost_packets": count, "lost_share": share, "queue_before_s": lost.waited_s}
    payload = int(case.segments.payload_bytes[lost.place].sum())
    cost_s = repair_s(case, began_ns)
    words = sentence.format(count=count, share=share)
    evidence = rows("sender", np.unique(sent))
    return Finding(kind, began_ns, ended_ns, cost_s, payload, evidence, words, numbers=numbers)


def repair_s(case: Case, begin_ns: int) -> float:
    """Return the link time that a transfer waited for repairs from a stamp on, dead times left out."""
    uses = case.uses
    timer = uses["use"] == Use.IDLE_RTO
    repair = (uses["use"] == Use.IDLE_CWND) & (uses["cause"] == UseCause.RECOVERY)
    chosen = (timer | repair) & (uses["begin_ns"] >= begin_ns)
    for dead in case.dead_times:
        if dead.failed:
            chosen &= (uses["end_ns"] <= dead.begin_ns) | (uses["begin_ns"] >= dead.end_ns)
    return float(uses["seconds"][chosen].sum())
