"""Full-size segments are lost, smaller ones arrive: a router drops large packets without an ICMP message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.finding import Finding, rows
from multitracer.diagnosis.idle_gaps import idle_gaps, is_smaller_after
from multitracer.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.idle_gaps import ReceiverIdleGap
    from multitracer.diagnosis.packets.dead_times import DeadTime

KIND = "path-mtu-black-hole"
HELP = "Let ICMP pass, clamp the MSS at the tunnel, lower the MTU, or probe (RFC 4821, tcp_mtu_probing)."


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding for each interval without arrivals in which only full-size segments were lost.

    A receiver's capture alone does not show them. It shows that full-size segments arrived before an idle
    gap, and only smaller ones after it.
    """
    if not diagnosis.is_link_logged:
        yield from (_finding(diagnosis, dead) for dead in diagnosis.mtu_holes)
        yield from (_at_receiver(diagnosis, each) for each in idle_gaps(diagnosis) if is_smaller_after(diagnosis, each))


def _finding(diagnosis: Diagnosis, dead: DeadTime) -> Finding:
    table = diagnosis.transfer.sender
    full = diagnosis.largest_bytes
    lasted_s = diagnosis.link_s(dead.begin_ns, dead.end_ns)
    sentence = (
        f"Every segment of {full:,} bytes vanished for {lasted_s:.1f} s, "
        f"{count(dead.failed, 'retransmission')} among them, "
        "while smaller packets passed: the path carries less than its ends assume, and no message says so."
    )
    numbers = {"vanished_bytes": full, "tries": dead.failed, "dead_s": lasted_s}
    payload = int(table["payload_bytes"][dead.tries].sum())
    evidence = rows("sender", dead.tries)
    return Finding(KIND, dead.begin_ns, dead.end_ns, lasted_s, payload, evidence, sentence, numbers=numbers)


def _at_receiver(diagnosis: Diagnosis, idle_gap: ReceiverIdleGap) -> Finding:
    lasted_s = diagnosis.link_s(idle_gap.begin_ns, idle_gap.end_ns)
    payload, time = (diagnosis.transfer.sender[name] for name in ("payload_bytes", "time_ns"))
    data = diagnosis.transfer.data
    largest, smaller = (int(payload[data].max()), int(payload[data[time[data] >= idle_gap.end_ns]].max(initial=0)))
    sentence = (
        f"After {lasted_s:.1f} s in which no data came, no segment was larger than {smaller:,} bytes, where "
        f"{largest:,} had been usual: the path carries less than its ends assumed, and no message said so."
    )
    numbers = {"vanished_bytes": largest, "passed_bytes": smaller, "dead_s": lasted_s}
    around = np.clip(np.searchsorted(time, [idle_gap.begin_ns, idle_gap.end_ns]), 0, len(time) - 1)
    evidence = rows("sender", around)
    return Finding(KIND, idle_gap.begin_ns, idle_gap.end_ns, lasted_s, None, evidence, sentence, numbers=numbers)
