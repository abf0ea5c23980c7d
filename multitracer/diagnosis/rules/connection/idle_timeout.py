"""After a long silence the connection was dead: an end, or a box between them, had forgotten it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.capture import Flag
from multitracer.diagnosis.case import Case, Finding, rows
from multitracer.diagnosis.opening import Opening
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

KIND = "idle-timeout"
HELP = "Keep-alives more often than the timeout (NAT boxes: minutes), or a new connection after a pause."
IDLE_S = 5.0
"""Silence from which on a reset is a matter of the pause: servers and mobile NAT boxes begin with 5 s (the
default of common web servers) to 30 s."""


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding if the connection was reset during a pause, or by the first data after it."""
    opening, table = Opening(case.transfer), case.transfer.sender
    if not len(opening.resets) or not (table["payload_bytes"] > 0).any():
        return
    row = int(opening.resets[0])
    asked = _asked(case, row)
    fins = np.flatnonzero(has(table["flags"][:row], Flag.FIN))
    if (table["reverse"][fins] != table["reverse"][row]).any():
        return
    paused_until = min([row, *([] if asked is None else [asked]), *fins[:1].tolist()])
    idle_ns = opening.idle_ns(paused_until)
    idle_s = idle_ns * case.transfer.speed / NS_PER_S
    if idle_s < IDLE_S:
        return
    at_ns, began_ns = int(table["time_ns"][row]), int(table["time_ns"][paused_until]) - idle_ns
    how = "during the pause" if asked is None else "in answer to the first data after it"
    who = "receiver" if table["reverse"][row] != case.transfer.reverse else "sender"
    sentence = (
        f"Nothing was sent for {idle_s:.1f} s, then the connection was reset {how}, in the name of the "
        f"{who} of the data: a timeout for idle connections had ended it."
    )
    evidence = rows("sender", [row] if asked is None else [asked, row])
    yield Finding(KIND, began_ns, at_ns, 0.0, None, evidence, sentence, numbers={"idle_s": idle_s})


def _asked(case: Case, row: int) -> int | None:
    """Return the first of the segments with data that the reset answers; None if it answers none."""
    table = case.transfer.sender
    other = table["reverse"][:row] != table["reverse"][row]
    mine, theirs = np.flatnonzero(other & (table["payload_bytes"][:row] > 0)), np.flatnonzero(~other)
    covered = int(table["ack_bytes"][theirs].max(initial=0))
    open_rows = mine[table["end_bytes"][mine] > covered]
    return int(open_rows[0]) if len(open_rows) else None
