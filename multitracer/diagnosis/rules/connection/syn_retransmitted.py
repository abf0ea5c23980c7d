"""The SYN, or the SYN-ACK, had to be sent again: the handshake took one or several timeouts longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.packets.opening_and_end import HandshakeAndResets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.tables import Array

KIND = "syn-retransmitted"
HELP = "A connection that is kept open and used again; look at the path and at the server's backlog."


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding if the SYN was sent again, and one if the SYN-ACK was.

    Of several captures, the one with more copies is used, because packets lost before a capture are not in
    it. A SYN that was sent again while its answer was in transit is a `spurious-timeout`.
    """
    transfer = diagnosis.transfer
    openings = {"sender": diagnosis.opening}
    if transfer.receiver is not None:
        openings["receiver"] = HandshakeAndResets(transfer, transfer.receiver)
    syns, syn_acks = {}, {}
    lost = max(each.lost_syn_acks for each in openings.values())
    for name, each in openings.items():
        is_answered = len(each.needed_syns) <= lost + 1  # but for lost answers, which are the other finding
        syns[name] = each.needed_syns[:0] if lost and is_answered else each.needed_syns
        is_each_answer = len(each.syns) >= len(each.syn_acks) and not each.lost_syn_acks  # of a further SYN
        syn_acks[name] = each.syn_acks[:0] if is_each_answer else each.syn_acks
    for what, needed in (("SYN", syns), ("SYN-ACK", syn_acks)):
        name, sent = max(needed.items(), key=lambda capture: len(capture[1]))
        if len(sent) > 1:
            yield _finding(diagnosis, name, sent, what)


def _finding(diagnosis: Diagnosis, capture: str, sent: Array, what: str) -> Finding:
    transfer = diagnosis.transfer
    if capture == "receiver" and transfer.receiver is not None:
        times = transfer.receiver_time(transfer.receiver["time_ns"][sent])
    else:
        times = transfer.sender["time_ns"][sent]
    began_ns, ended_ns = int(times[0]), int(times[-1])
    cost_s = diagnosis.link_s(began_ns, ended_ns)
    times_more = "once more" if len(sent) == 2 else f"{len(sent) - 1} times more"
    sentence = (
        f"The {what} that opens the connection was not answered and had to be sent {times_more}: "
        f"{cost_s:.1f} s went by before the set-up could go on."
    )
    numbers = {"syn_sent": len(sent), "waited_s": cost_s}
    return Finding(KIND, began_ns, ended_ns, cost_s, 0, rows(capture, sent), sentence, numbers=numbers)
