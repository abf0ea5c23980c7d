"""The SYN, or its answer, had to be sent again: the set-up took one timer longer, or several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.case import Case, Finding, rows
from multitracer.diagnosis.opening import Opening
from multitracer.tables import NA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Array

KIND = "syn-retransmitted"
HELP = "A connection that is kept open and used again; look at the path and at the server's backlog."


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for the SYN, and one for the SYN-ACK, that was sent again and needed it.

    What was sent again while its answer was on its way is a `spurious-timeout`.
    """
    opening = Opening(case.transfer)
    if len(opening.syn_acks) and len(opening.syns):
        sent = opening.syns[opening.syns < opening.syn_acks[0]]
        answered = opening.answered_syn
        needed = sent if answered == NA else sent[sent <= answered]
        if len(needed) > 1:
            yield _finding(case, needed, "SYN")
    if len(opening.syn_acks) > 1 and not _again(opening):
        yield _finding(case, opening.syn_acks, "SYN-ACK")


def _again(opening: Opening) -> bool:
    """Return whether each further SYN-ACK answers a further SYN."""
    return len(opening.syns) >= len(opening.syn_acks)


def _finding(case: Case, sent: Array, what: str) -> Finding:
    times = case.transfer.sender["time_ns"][sent]
    began_ns, ended_ns = int(times[0]), int(times[-1])
    cost_s = case.link_s(began_ns, ended_ns)
    times_more = "once more" if len(sent) == 2 else f"{len(sent) - 1} times more"
    sentence = (
        f"The {what} that opens the connection was not answered and had to be sent {times_more}: "
        f"{cost_s:.1f} s went by before the set-up could go on."
    )
    numbers = {"syn_sent": len(sent), "waited_s": cost_s}
    return Finding(KIND, began_ns, ended_ns, cost_s, 0, rows("sender", sent), sentence, numbers=numbers)
