"""The SYN was answered by a reset: no program listens at that port, or a firewall refuses connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.finding import Finding, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

KIND = "connection-refused"
HELP = "Start the server, or use the right port; a firewall may also refuse in its name."
WHEN = "is_unopened"


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding if a SYN was reset and the handshake was not completed."""
    opening = diagnosis.opening
    table = diagnosis.transfer.sender
    back = opening.resets[table["reverse"][opening.resets]]
    back = back[back > opening.syns[0]]
    refusals = back[table["ack_bytes"][back] == 1]  # of the responder, and they acknowledge a SYN
    if not len(refusals):
        return
    times = table["time_ns"]
    began_ns, ended_ns = int(times[opening.syns[0]]), int(times[refusals[-1]])
    after_s = diagnosis.link_s(int(times[opening.syns[opening.syns < refusals[0]][-1]]), int(times[refusals[0]]))
    cost_s = diagnosis.link_s(began_ns, ended_ns)
    sentence = (
        f"The connection was refused: the other end reset it {after_s:.3f} s after the SYN "
        f"({len(refusals)} {'time' if len(refusals) == 1 else 'times'})."
    )
    numbers = {"syn_sent": len(opening.syns), "resets": len(refusals), "answered_after_s": after_s}
    evidence = rows("sender", np.sort(np.concatenate([opening.syns, refusals])))
    yield Finding(KIND, began_ns, ended_ns, cost_s, 0, evidence, sentence, numbers=numbers)
