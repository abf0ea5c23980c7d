"""Data in the SYN (TCP Fast Open, RFC 7413) were not accepted, and had to be sent again after the handshake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.finding import Finding, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

KIND = "fast-open-refused"
HELP = (
    "Fast Open at the server (tcp_fastopen), one key on all servers of a name; or look for a box that drops such SYNs."
)
WHEN = "refused_data_syns"


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding if the SYN-ACK acknowledges the SYN without its data."""
    table, opening = diagnosis.transfer.sender, diagnosis.opening
    syn, answer = int(diagnosis.refused_data_syns[-1]), int(opening.syn_acks[0])
    mine = np.flatnonzero((table["reverse"] == table["reverse"][syn]) & (table["payload_bytes"] > 0))
    again = mine[(mine > answer) & (table["seq_bytes"][mine] == table["ack_bytes"][answer])][:1]
    last = int(again[0]) if len(again) else answer
    begin_ns, end_ns = int(table["time_ns"][syn]), int(table["time_ns"][last])
    cost_s, payload = diagnosis.link_s(begin_ns, end_ns), int(table["payload_bytes"][syn])
    sentence = (
        f"The SYN carried {payload:,} bytes (TCP Fast Open), but the answer acknowledged the SYN alone; they were sent "
        f"again {cost_s:.3f} s after it: the round trip that Fast Open saves was lost."
    )
    evidence = rows("sender", [syn, answer, *again.tolist()])
    yield Finding(KIND, begin_ns, end_ns, cost_s, payload, evidence, sentence)
