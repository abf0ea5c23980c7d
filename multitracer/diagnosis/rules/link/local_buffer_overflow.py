"""The interface queue, shorter than TCP's window, dropped packets of the transfer (paper 004, 5.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.verdicts import RetransmissionCause, VerdictEvidence
from multitracer.diagnosis.finding import Finding, episodes, few
from multitracer.diagnosis.limits.names import Limit
from multitracer.tables import NA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

KIND = "local-buffer-overflow"
HELP = "A queue at the interface that holds the window, a smaller window, or an AQM that marks."
_WAITS = (Limit.RECOVERY, Limit.SLOW_START, Limit.CONGESTION_WINDOW)
"""Limits during which TCP keeps the link idle."""
_MIN_S = 0.05
"""Minimum time in s that is printed with one decimal."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding for each run of packets that the interface queue dropped.

    One run contains all drops that one recovery of TCP repaired.
    """
    transfer, table = diagnosis.transfer, diagnosis.transfer.sender
    joined, verdicts = transfer.joined, transfer.verdicts

    # the rows of `sender` that the host dropped, in order, and the row that tells so of each. Or refused:
    # where the link was logged, such a copy never came to its queue; else the kernel must have said so
    local = (verdicts["cause"] == RetransmissionCause.LOCAL_DROP) & (verdicts["earlier_row"] != NA)
    if joined is None:
        local &= (verdicts["evidence"] & np.uint32(VerdictEvidence.KERNEL_EVENT)) != 0
    else:
        never_came = joined.carriage_of[verdicts["earlier_row"]] == NA
        local &= never_came & ~np.isin(verdicts["earlier_row"], joined.dropped)
    dropped, places = verdicts["earlier_row"][local], [f"sender:{row}" for row in verdicts["row"][local]]
    if joined is not None:
        dropped = np.concatenate([joined.dropped, dropped])
        places = [f"near.events:{row}" for row in joined.dropped_rows] + places
    if not len(dropped):
        return
    order = np.argsort(dropped, kind="stable")
    dropped, places = dropped[order], [places[at] for at in order]
    covered = np.maximum.accumulate(table["ack_bytes"][transfer.acks])
    place = np.searchsorted(covered, table["end_bytes"][dropped])
    place = np.maximum(place, np.searchsorted(transfer.acks, dropped))
    repaired = np.append(table["time_ns"][transfer.acks], transfer.end_ns)[place]  # or never
    times, longest_rtt_ns = table["time_ns"][dropped], int(table["rtt_ns"].max(initial=0))
    for first, last in episodes(times, apart_ns=longest_rtt_ns):
        lost = dropped[first:last]
        begin_ns, end_ns = int(times[first]), int(repaired[first:last].max())
        cost_s = diagnosis.limited_s(*_WAITS, begin_ns=begin_ns, end_ns=end_ns)
        payload = int(table["payload_bytes"][lost].sum())
        count = last - first
        what = "a packet" if count == 1 else f"{count} packets"
        idle = f"stood idle for {cost_s:.1f} s" if cost_s >= _MIN_S else "had enough to do"
        sentence = (
            f"The queue of the interface was full {diagnosis.at_s(begin_ns):.1f} s into the transfer and "
            f"dropped {what} of ours; until the repair the link {idle}."
        )
        yield Finding(KIND, begin_ns, end_ns, cost_s, payload, few(places[first:last]), sentence)
