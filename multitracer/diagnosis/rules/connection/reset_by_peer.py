"""An endpoint reset the connection before it was closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.rules.connection import idle_timeout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

KIND = "reset-by-peer"
HELP = "The log of the program at that end: it ended or ran into a limit; or a box on the way sent the reset."


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding for the first reset of an open connection without a FIN.

    After a FIN, many programs close with a reset. A reset after a long idle time is an `idle-timeout`, one that no
    endpoint sent is `rst-injected`.
    """
    resets = diagnosis.opening.resets_when_open
    if not len(resets):
        return
    made = {each.row for each in diagnosis.injected_resets}
    own = [row for row in resets.tolist() if row not in made]
    if not own or any(idle_timeout.find(diagnosis)):
        return
    yield _finding(diagnosis, own[0])


def _finding(diagnosis: Diagnosis, row: int) -> Finding:
    transfer, table = diagnosis.transfer, diagnosis.transfer.sender
    by_receiver = bool(table["reverse"][row] != transfer.reverse)
    data = transfer.data
    sent = int(table["end_bytes"][data[data < row]].max(initial=0))
    acked = int(table["ack_bytes"][transfer.acks[transfer.acks <= row]].max(initial=0))
    missing = max(sent - acked, 0) if len(data) else 0
    at_ns = int(table["time_ns"][row])
    who = "receiver" if by_receiver else "sender"
    sentence = (
        f"The {who} of the data reset the connection {diagnosis.at_s(at_ns):.1f} s into the transfer; "
        f"{missing:,} bytes that had been sent were not acknowledged, and nothing more could follow."
    )
    numbers = {"unacknowledged_bytes": missing}
    return Finding(KIND, at_ns, at_ns, 0.0, missing, rows("sender", [row]), sentence, numbers=numbers)
