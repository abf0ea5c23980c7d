"""What the radio of a journey lets through: a stated map from SINR and cell to a rate, and a queue before it.

A class of SINR has the efficiency of a CQI of TS 36.213, table 7.2.3-1, in a narrow carrier of which the
other users of the cell leave a part. During a hole and during the break of a handover nothing passes:
packets wait, and those that wait too long for service are discarded, as the PDCP of TS 36.323 does. A link
that is slow only makes them wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.lab.rehearsal.relay import Pipe
from multitracer.units import BITS_PER_BYTE, NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.lab.rehearsal.journey import Journey

BANDWIDTH_HZ = 90_000
"""Half a resource block of LTE: the packets of minutes fit into a small log."""
CLASSES = ((20.0, 5.1152), (15.0, 3.3223), (10.0, 2.4063), (5.0, 1.1758), (0.0, 0.6016), (-5.0, 0.2344))
"""From which SINR on (dB), and the efficiency then (bit/s per Hz): CQI 14, 11, 9, 6, 4 and 2. Which
SINR a CQI needs depends on the receiver, so these steps are a choice. Not measured."""
NO_SERVICE_DBM = -118.0
"""Below this RSRP nothing passes: the cell is not suitable (Srxlev of TS 36.304, 5.2.3.2) if the operator
sets this Qrxlevmin. Not measured."""
_SLOT_NS = 10 * NS_PER_MS
"""The radio is asked once in so long; a radio frame of LTE (TS 36.211, 4.1)."""
_QUEUE_BYTES = 12_000
"""Half a second at a usual rate. Not measured."""
_DELAY_NS = 35 * NS_PER_MS
_DISCARD_NS = 1500 * NS_PER_MS
"""The longest finite discardTimer of TS 36.331, 6.3.2."""


def rate_bps(journey: Journey, at_s: float) -> float:
    """Return what the link carries at a time of a journey, in bit/s; 0 without service."""
    event = journey.event(at_s)
    if event is not None and event.kind in ("hole", "handover"):
        return 0.0
    values = journey.radio(at_s)
    rsrp, sinr, busy = (float(str(values[name])) for name in ("rsrp_dbm", "sinr_db", "cell_busy_pct"))
    if rsrp < NO_SERVICE_DBM:
        return 0.0
    efficiency = next((bits for least, bits in CLASSES if sinr >= least), 0.0)
    return BANDWIDTH_HZ * efficiency * (1 - busy / 100)


class Way(Pipe):
    """One direction of the link: packets in, and out when their time has come. Reads no clock.

    Parameters
    ----------
    rate_bps : callable
        From seconds of the journey to bit/s.
    """

    def __init__(self, rate_bps: Callable[[float], float]) -> None:
        super().__init__()
        self._rate_bps = rate_bps

    def accept(self, packet: bytes, *, now_ns: int) -> str | None:
        """Take a packet at a time of the journey; return why it is dropped, None if it is not."""
        self._leave_queue(now_ns)
        if self._queued_bytes + len(packet) > _QUEUE_BYTES:
            return "queue"
        sent_ns = self._sent_ns(len(packet) * BITS_PER_BYTE, now_ns)
        self._join_queue(now_ns + _DISCARD_NS if sent_ns is None else sent_ns, len(packet))
        if sent_ns is None:
            return "outage"
        self._free_ns = sent_ns
        self._flying.append((sent_ns + _DELAY_NS, packet))
        return None

    def _sent_ns(self, bits: float, now_ns: int) -> int | None:
        """Return when the last bit is sent; None if the packet is discarded before."""
        at_ns, waited_ns = max(now_ns, self._free_ns), 0
        while waited_ns < _DISCARD_NS:
            rate = self._rate_bps(at_ns / NS_PER_S)
            slot_ns = _SLOT_NS - at_ns % _SLOT_NS
            if rate * slot_ns >= bits * NS_PER_S:
                return at_ns + round(bits * NS_PER_S / rate)
            bits -= rate * slot_ns / NS_PER_S
            at_ns += slot_ns
            waited_ns += 0 if rate else slot_ns
        return None
