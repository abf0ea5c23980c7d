"""TCP sent data again that the link itself was still recovering (paper 004, 5.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.finding import Finding, episodes, rows
from multitracer.diagnosis.limits.names import Limit, LimitSubtype
from multitracer.recording.join import Fate
from multitracer.tables import NA
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

KIND = "competing-retransmission"
HELP = "A longer retransmission timer, or a link that gives up its own recovery sooner."
_APART_S = 10
"""Minimum link time between two findings, in s; an outage of ten seconds is one finding. Not measured."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding for each run of segments that TCP and the link repeated at the same time."""
    transfer, joined, near = diagnosis.transfer, diagnosis.transfer.joined, diagnosis.transfer.near
    if joined is None or joined.delivery is None or near is None:
        return

    # the retransmissions that left while the link recovered an earlier copy, and these copies
    sender, table, verdicts = transfer.sender, joined.carriages, transfer.verdicts
    again, earlier = (verdicts[name][verdicts["earlier_row"] != NA] for name in ("row", "earlier_row"))
    carried = joined.carriage_of[earlier] != NA
    again, earlier = again[carried], earlier[carried]
    carriage = joined.carriage_of[earlier]
    known = near.events["tick"] != NA  # the link's slot as each left: that of the last event before it
    place = np.searchsorted(near.events["time_ns"][known], sender["time_ns"][again], side="right") - 1
    tick = near.events["tick"][known][np.maximum(place, 0)]
    repeated = table["transmissions"][carriage] > table["frames"][carriage]
    sent, delivered = table["sent_tick"][carriage], table["delivered_tick"][carriage]
    under_way = (sent != NA) & (sent < tick) & (delivered != NA) & (tick < delivered)
    chosen = repeated & under_way & (table["fate"][carriage] == Fate.DELIVERED)
    again, earlier = again[chosen], earlier[chosen]

    times = sender["time_ns"][again]
    apart_ns = round(_APART_S * NS_PER_S / transfer.speed)
    for first, last in episodes(times, apart_ns=apart_ns):
        run, before = again[first:last], earlier[first:last]
        began_ns, ended_ns = int(sender["time_ns"][before].min()), int(times[last - 1])
        until_ns = int(times[last]) if last < len(times) else None
        cost_s = diagnosis.limited_s((Limit.RECOVERY, LimitSubtype.NONE), begin_ns=began_ns, end_ns=until_ns)
        payload = int(sender["payload_bytes"][run].sum())
        sentence = (
            f"TCP sent {payload:,} bytes again {diagnosis.at_s(int(times[first])):.1f} s into the transfer "
            "while the link was still repeating the frames of the first copies."
        )
        yield Finding(KIND, began_ns, ended_ns, cost_s, payload, rows("sender", run), sentence)
