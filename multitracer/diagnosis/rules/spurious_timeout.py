"""The timer went off though nothing was lost: the ACK of the earlier copy came later (paper 004, 5.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.verdicts import Cause, Necessity, evidence_words
from multitracer.diagnosis.case import Case, Finding, rows
from multitracer.diagnosis.use import Use
from multitracer.tables import NA

if TYPE_CHECKING:
    from collections.abc import Iterator

KIND = "spurious-timeout"


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each timeout that was not needed, with what it made be sent again."""
    transfer = case.transfer
    verdicts, sender = transfer.verdicts, transfer.sender
    spurious = verdicts["necessity"] == Necessity.SPURIOUS
    expired = np.flatnonzero(spurious & (verdicts["cause"] == Cause.TIMEOUT))
    for i, place in enumerate(expired):
        row, answer = int(verdicts["row"][place]), int(verdicts["answer_row"][place])
        until = expired[i + 1] if i + 1 < len(expired) else len(verdicts)
        resent = verdicts["row"][place:until][spurious[place:until]]
        began_ns = int(sender["time_ns"][row])
        ended_ns = int(sender["time_ns"][max(answer, int(resent[-1]))]) if answer != NA else began_ns
        drained_ns = int(sender["time_ns"][verdicts["row"][until]]) if until < len(verdicts) else None
        cost_s = case.seconds(Use.REDUNDANT, begin_ns=began_ns, end_ns=drained_ns)
        payload = int(sender["payload_bytes"][resent].sum())
        words = evidence_words(int(verdicts["evidence"][place]))
        sentence = (
            f"The retransmission timer went off {case.at_s(began_ns):.1f} s into the transfer though "
            f"nothing was lost; {payload:,} bytes were sent again in vain (evidence: {words})."
        )
        evidence = rows("sender", [row, *([answer] if answer != NA else [])])
        yield Finding(KIND, began_ns, ended_ns, cost_s, payload, evidence, sentence)
