"""Data of a transfer that the user had aborted still drained through the queue (paper 004, 5.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.captured import Flag
from multitracer.diagnosis.finding import Finding, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis

KIND = "stale-data"
HELP = "A shorter queue before the link: data that wait in it cannot be withdrawn."
_MIN_SEGMENTS = 2  # one more segment may cross the reset on its way. Not measured


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield one finding if data still arrived after the receiver had aborted the connection."""
    transfer = diagnosis.transfer
    if transfer.receiver is None:
        return
    receiver = transfer.receiver
    is_reset = has(receiver["flags"], Flag.RST) & (receiver["reverse"] != transfer.reverse)
    if not is_reset.any():
        return
    gave_up = int(np.argmax(is_reset))
    arrived = (receiver["reverse"] == transfer.reverse) & (receiver["payload_bytes"] > 0)
    stale = np.flatnonzero(arrived & (np.arange(len(receiver)) > gave_up))
    if len(stale) < _MIN_SEGMENTS:
        return
    stamps = transfer.receiver_time(receiver["time_ns"][[gave_up, stale[-1]]])
    began_ns, ended_ns = (int(stamp) for stamp in stamps)
    payload = int(receiver["payload_bytes"][stale].sum())
    cost_s = diagnosis.link_s(began_ns, ended_ns)
    sentence = (
        f"The receiver gave the connection up {diagnosis.at_s(began_ns):.1f} s into the transfer, yet "
        f"{payload:,} bytes of it still came through the queue for {cost_s:.1f} s and kept others waiting."
    )
    yield Finding(KIND, began_ns, ended_ns, cost_s, payload, rows("receiver", [gave_up, *stale]), sentence)
