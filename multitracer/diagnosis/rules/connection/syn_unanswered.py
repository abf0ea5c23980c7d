"""The SYN had no answer: the connection was never opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.finding import Finding, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

KIND = "syn-unanswered"
HELP = "The address and the port, a firewall that drops silently, a path that was dead at that moment."
WHEN = "is_unopened"
_MIN_SYNS = 2
"""Minimum number of SYNs: the answer to a single one may have come after the end of the recording."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding if SYNs were sent repeatedly and nothing came back."""
    opening = diagnosis.opening
    if len(opening.syns) < _MIN_SYNS or len(opening.responder) or not opening.is_heard_only:
        return
    times = diagnosis.transfer.sender["time_ns"]
    began_ns, ended_ns = int(times[opening.syns[0]]), int(times[opening.syns[-1]])
    cost_s = diagnosis.link_s(began_ns, ended_ns)
    sentence = f"No answer: {len(opening.syns)} SYNs were sent within {cost_s:.1f} s and nothing came back."
    numbers = {"syn_sent": len(opening.syns), "waited_s": cost_s}
    evidence = rows("sender", opening.syns)
    yield Finding(KIND, began_ns, ended_ns, cost_s, 0, evidence, sentence, numbers=numbers)
