"""After a long idle time the connection was dead: an endpoint, or a device between them, had forgotten it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.captured import Flag
from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.packets.opening_and_end import IDLE_S, first_unanswered, is_forgotten, paused_s
from multitracer.units import NS_PER_S
from multitracer.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.packets.dead_times import DeadTime

KIND = "idle-timeout"
HELP = "Keep-alives more often than the timeout (NAT boxes: minutes), or a new connection after a pause."


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield a finding if an idle time ended in a reset, or in data without any answer."""
    if not diagnosis.is_link_logged:
        yield from (_silent(diagnosis, dead) for dead in diagnosis.dead_times if is_forgotten(diagnosis.opening, dead))
    opening, table = diagnosis.opening, diagnosis.transfer.sender
    if not len(opening.resets) or not (table["payload_bytes"] > 0).any():
        return
    row = int(opening.resets[0])
    request = _request(diagnosis, row)
    fins = np.flatnonzero(has(table["flags"][:row], Flag.FIN))
    if (table["reverse"][fins] != table["reverse"][row]).any():
        return
    paused_until = min([row, *([] if request is None else [request]), *fins[:1].tolist()])
    idle_ns = opening.idle_ns(paused_until)
    idle_s = idle_ns * diagnosis.transfer.speed / NS_PER_S
    if idle_s < IDLE_S:
        return
    at_ns, began_ns = int(table["time_ns"][row]), int(table["time_ns"][paused_until]) - idle_ns
    how = "while it was idle" if request is None else "in answer to the first data after it"
    who = "receiver" if table["reverse"][row] != diagnosis.transfer.reverse else "sender"
    sentence = (
        f"Nothing was sent for {idle_s:.1f} s, then the connection was reset {how}, in the name of the "
        f"{who} of the data: a timeout for idle connections had ended it."
    )
    evidence = rows("sender", [row] if request is None else [request, row])
    yield Finding(KIND, began_ns, at_ns, 0.0, None, evidence, sentence, numbers={"idle_s": idle_s})


def _silent(diagnosis: Diagnosis, dead: DeadTime) -> Finding:
    idle_s = paused_s(diagnosis.opening, first_unanswered(diagnosis.transfer, dead))
    sentence = (
        f"Nothing was sent for {idle_s:.1f} s; then {dead.unanswered} packets, "
        f"{count(dead.failed, 'retransmission')} among them, were never acknowledged, as if a middlebox on the path "
        "had forgotten the idle connection."
    )
    cost_s = diagnosis.link_s(dead.begin_ns, dead.end_ns)
    evidence = rows("sender", dead.tries)
    numbers = {"idle_s": idle_s, "unanswered_packets": dead.unanswered}
    return Finding(KIND, dead.begin_ns, dead.end_ns, cost_s, None, evidence, sentence, numbers=numbers)


def _request(diagnosis: Diagnosis, row: int) -> int | None:
    """Return the row of the first data segment to which the reset is the answer; None without one."""
    table = diagnosis.transfer.sender
    other = table["reverse"][:row] != table["reverse"][row]
    mine, theirs = np.flatnonzero(other & (table["payload_bytes"][:row] > 0)), np.flatnonzero(~other)
    covered = int(table["ack_bytes"][theirs].max(initial=0))
    open_rows = mine[table["end_bytes"][mine] > covered]
    return int(open_rows[0]) if len(open_rows) else None
