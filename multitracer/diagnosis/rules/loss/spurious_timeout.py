"""The timer expired although nothing was lost: the ACK of the earlier copy came later (paper 004, 5.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.analysis.verdicts import Necessity, RetransmissionCause, VerdictEvidence
from multitracer.captured import Flag
from multitracer.diagnosis.clauses import lasted
from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.limits.names import Limit, LimitSubtype
from multitracer.tables import NA
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.tables import Array

KIND = "spurious-timeout"
HELP = "A timer that knows the queue (timestamps, F-RTO), less standing queue, or fewer lost ACKs."
_SHOWN_BY = {
    VerdictEvidence.RECEIVER: "the receiver's capture has the first copy",
    VerdictEvidence.LINK_LOG: "the link's log has the first copy",
    VerdictEvidence.D_SACK: "the receiver reported two copies (D-SACK)",
    VerdictEvidence.EIFEL: "the ACK echoes the time of the first copy",
    VerdictEvidence.EARLY_ACK: "the ACK came too soon for the second copy",
    VerdictEvidence.EARLY_STAMP: "the ACK was sent too soon for the second copy",
    VerdictEvidence.PASSED_BEFORE: "the ACK had passed the capture before",
}
"""What shows that the first copy arrived, the most certain first; the table of segments has all of it in code words."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding for each unneeded timeout, with the data that were sent again because of it.

    Those of the handshake are one finding: before its first sample TCP knows no round trip, and its timer is
    shorter than the round trip of a link with a deep queue.
    """
    transfer = diagnosis.transfer
    verdicts, sender = transfer.verdicts, transfer.sender
    spurious = verdicts["necessity"] == Necessity.SPURIOUS
    expired = np.flatnonzero(spurious & (verdicts["cause"] == RetransmissionCause.TIMEOUT))
    opens = has(sender["flags"][verdicts["row"][expired]], Flag.SYN)
    opening = diagnosis.opening
    before = opening.syns[opening.syns < opening.syn_acks[0]] if len(opening.syn_acks) else opening.syns
    came_sooner = len(before) > 0 and opening.answered_syn != int(before[-1])  # than its answer can
    if opens.any() and (diagnosis.is_link_logged or came_sooner):
        yield _set_up(diagnosis, expired[opens])
    expired = expired[~opens]
    for i, place in enumerate(expired):
        row, answer = int(verdicts["row"][place]), int(verdicts["answer_row"][place])
        until = expired[i + 1] if i + 1 < len(expired) else len(verdicts)
        resent = verdicts["row"][place:until][spurious[place:until]]
        began_ns = int(sender["time_ns"][row])
        ended_ns = int(sender["time_ns"][max(answer, int(resent[-1]))]) if answer != NA else began_ns
        drained_ns = int(sender["time_ns"][verdicts["row"][until]]) if until < len(verdicts) else None
        cost_s = _cost_s(diagnosis, resent, began_ns, drained_ns)
        payload = int(sender["payload_bytes"][resent].sum())
        shown = _shown_by(int(verdicts["evidence"][place]))
        sentence = (
            f"A timer of TCP expired {diagnosis.at_s(began_ns):.1f} s into the transfer though "
            f"the data had arrived; {payload:,} bytes were sent again needlessly{shown}."
        )
        # Told, but no cost of this finding: `slow-start-limited` and others have that of a small window.
        small_s = 0.0 if diagnosis.is_link_logged else _small_window_s(diagnosis, ended_ns, drained_ns)
        if small_s >= _MIN_S:
            sentence += f" It made the window small, which was the limit for at most {lasted(small_s)} after it."
        evidence = rows("sender", [row, *([answer] if answer != NA else [])])
        yield Finding(KIND, began_ns, ended_ns, cost_s, payload, evidence, sentence)


_MIN_S = 0.05  # less is 0.0 s
_AFTER_ROUNDS, _AFTER_NS = 10, NS_PER_S
"""Round trips, and at least ns, after a needless timeout for which a small window counts as its effect: slow start
needs fewer for a window of 1,000 segments. Not measured."""


def _small_window_s(diagnosis: Diagnosis, begin_ns: int, end_ns: int | None) -> float:
    """Return the time after a needless timeout in which the window was the limit that it reduced, in seconds."""
    seen = diagnosis.limited.seen
    after_ns = begin_ns + max(_AFTER_ROUNDS * (0 if seen is None else seen.floor_ns), _AFTER_NS)
    until_ns = after_ns if end_ns is None else min(after_ns, max(end_ns, begin_ns))
    return diagnosis.limited_s(Limit.SLOW_START, Limit.CONGESTION_WINDOW, begin_ns=begin_ns, end_ns=until_ns)


def _cost_s(diagnosis: Diagnosis, resent: Array, begin_ns: int, end_ns: int | None) -> float:
    """Return the link time that was lost by needless copies, until other data were sent again, in seconds.

    With the link's log it is the time of recovery. From packets, it is the link's time multiplied by the
    copies' share of the bytes.
    """
    if diagnosis.is_link_logged:
        return diagnosis.limited_s((Limit.RECOVERY, LimitSubtype.NONE), begin_ns=begin_ns, end_ns=end_ns)
    transfer = diagnosis.transfer
    time_ns = transfer.sender["time_ns"][transfer.data]
    within = (time_ns >= begin_ns) & (end_ns is None or time_ns < end_ns)
    sent_bytes = max(int(transfer.payload_bytes[within].sum()), 1)
    part = int(transfer.sender["payload_bytes"][resent].sum()) / sent_bytes
    return min(part, 1.0) * diagnosis.limited_s(Limit.LINK, begin_ns=begin_ns, end_ns=end_ns)


def _shown_by(evidence: int) -> str:
    """Return ": " and what shows that the first copy arrived; "" for evidence that needs a figure to be seen."""
    return next((f": {words}" for bit, words in _SHOWN_BY.items() if evidence & bit), "")


def _set_up(diagnosis: Diagnosis, expired: Array) -> Finding:
    """Return a finding for SYNs (or SYN-ACKs) sent again while the first one was still in transit."""
    transfer = diagnosis.transfer
    verdicts, sender = transfer.verdicts, transfer.sender
    again, answers = verdicts["row"][expired], verdicts["answer_row"][expired]
    first = int(verdicts["earlier_row"][expired].min())
    answer = int(answers[answers != NA].min(initial=len(sender)))
    began_ns = int(sender["time_ns"][first if first != NA else again[0]])
    ended_ns = int(sender["time_ns"][answer if answer < len(sender) else again[-1]])
    times = "once more" if len(again) == 1 else f"{len(again)} times more"
    sentence = (
        f"The set-up took {diagnosis.link_s(began_ns, ended_ns):.1f} s, longer than the timer that TCP "
        f"begins with: its first segment was sent {times} though it was on its way and nothing was lost."
    )
    evidence = rows("sender", [*again, *([answer] if answer < len(sender) else [])])
    return Finding(KIND, began_ns, ended_ns, 0.0, 0, evidence, sentence)
