"""A reset came in the name of an endpoint that did not send it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.rules.connection import idle_timeout
from multitracer.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.packets.injected_resets import InjectedReset

KIND = "rst-injected"
HELP = "Look for a firewall, an intrusion prevention system or a filter of the network: the endpoint sent no reset."
WHEN = "injected_resets"


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding for each reset that a device on the path made.

    One that ended an idle connection is an `idle-timeout`.
    """
    for reset in diagnosis.injected_resets:
        if len(reset.later_rows) or not any(idle_timeout.find(diagnosis)):
            yield _finding(diagnosis, reset)


def _finding(diagnosis: Diagnosis, reset: InjectedReset) -> Finding:
    transfer, table = diagnosis.transfer, diagnosis.transfer.sender
    at_ns = int(table["time_ns"][reset.row])
    who = "sender" if table["reverse"][reset.row] == transfer.reverse else "receiver"
    signs, numbers = [], {"later_segments": len(reset.later_rows)}
    if reset.hop_limit is not None and reset.other_hop_limit is not None:
        signs.append(f"its TTL is {reset.hop_limit}, that of all packets around it {reset.other_hop_limit}")
        numbers |= {"hop_limit": reset.hop_limit, "other_hop_limit": reset.other_hop_limit}
    if len(reset.later_rows):
        signs.append(f"that end sent {count(len(reset.later_rows), 'more segment')} after it")
    sentence = (
        f"A device on the path reset the connection {diagnosis.at_s(at_ns):.1f} s into the transfer in the name of the "
        f"{who} of the data, which did not send this reset: {', and '.join(signs)}."
    )
    end_ns = int(table["time_ns"][reset.later_rows[-1]]) if len(reset.later_rows) else at_ns
    evidence = rows("sender", [reset.row, *reset.later_rows.tolist()])
    return Finding(KIND, at_ns, max(end_ns, at_ns), 0.0, None, evidence, sentence, numbers=numbers)
