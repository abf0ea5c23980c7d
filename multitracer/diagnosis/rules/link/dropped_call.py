"""The call ended during the transfer (paper 004, 5.5): such runs are counted, but not in the utilization."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.finding import Finding, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

KIND = "dropped-call"
HELP = "Better coverage along the way, and a transfer that can be resumed."
WHEN = "is_incomplete"


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding if one side of the link logged a dropped call during the transfer."""
    transfer = diagnosis.transfer
    for name, side in (("near", transfer.near), ("far", transfer.far)):
        if side is None or not len(dropped := side.rows("call_dropped")):
            continue
        row = int(dropped[0])
        at_ns = int(side.events["time_ns"][row])
        if name == "far":
            at_ns = int(transfer.receiver_time(side.events["time_ns"][row : row + 1])[0])
        end_ns = max(transfer.end_ns, at_ns)
        cost_s = diagnosis.limited.total_s  # the user has to begin again, and pays for the air time
        highest = int(transfer.sender["end_bytes"][transfer.data].max(initial=0))
        missing = max(0, highest - int(transfer.sender["ack_bytes"][transfer.acks].max(initial=0)))
        sentence = (
            f"The call was dropped {diagnosis.at_s(at_ns):.1f} s after the transfer began; {missing:,} bytes "
            f"that had "
            "been sent were never acknowledged."
        )
        yield Finding(KIND, at_ns, end_ns, cost_s, missing, rows(f"{name}.events", [row]), sentence)
        return
