"""TCP sent again what the link was still recovering by itself (paper 004, 5.4)."""

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
    from multitracer.recording.join import Join
    from multitracer.tables import Array

KIND = "competing-retransmission"
HELP = "A longer retransmission timer, or a link that gives up its own recovery sooner."
_APART_S = 10
"""Link time: repetitions this far apart are two findings; an outage of ten seconds is one. Not measured."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding for each run of segments that both TCP and the link repeated at the same time."""
    joined = diagnosis.transfer.joined
    if joined is None or joined.delivery is None:
        return
    sender = diagnosis.transfer.sender
    again, earlier = _competing(diagnosis, joined)
    times = sender["time_ns"][again]
    apart_ns = round(_APART_S * NS_PER_S / diagnosis.transfer.speed)
    for first, last in episodes(times, apart_ns=apart_ns):
        run, before = again[first:last], earlier[first:last]
        began_ns, ended_ns = int(sender["time_ns"][before].min()), int(times[last - 1])
        until_ns = int(times[last]) if last < len(times) else None
        cost_s = diagnosis.limited_s((Limit.RECOVERY, LimitSubtype.NONE), begin_ns=began_ns, end_ns=until_ns)
        payload = int(sender["payload_bytes"][run].sum())
        sentence = (
            f"TCP sent {payload:,} bytes again {diagnosis.at_s(int(times[first])):.1f} s into the transfer "
            f"while the link "
            "was still repeating the frames of the first copies."
        )
        yield Finding(KIND, began_ns, ended_ns, cost_s, payload, rows("sender", run), sentence)


def _competing(diagnosis: Diagnosis, joined: Join) -> tuple[Array, Array]:
    """Return the retransmissions that left while the link recovered an earlier copy, and these copies."""
    near, verdicts = diagnosis.transfer.near, diagnosis.transfer.verdicts
    assert near is not None
    known = verdicts["earlier_row"] != NA
    again, earlier = verdicts["row"][known], verdicts["earlier_row"][known]
    carriage = joined.carriage_of[earlier]
    carried = carriage != NA
    again, earlier, carriage = again[carried], earlier[carried], carriage[carried]
    table = joined.carriages
    known = near.events["tick"] != NA  # the link's slot as each left: that of the last event before it
    left_ns = diagnosis.transfer.sender["time_ns"][again]
    place = np.searchsorted(near.events["time_ns"][known], left_ns, side="right") - 1
    tick = near.events["tick"][known][np.maximum(place, 0)]
    repeated = table["transmissions"][carriage] > table["frames"][carriage]
    sent, delivered = table["sent_tick"][carriage], table["delivered_tick"][carriage]
    under_way = (sent != NA) & (sent < tick) & (delivered != NA) & (tick < delivered)
    chosen = repeated & under_way & (table["fate"][carriage] == Fate.DELIVERED)
    return again[chosen], earlier[chosen]
