"""Moves IP packets between two TUN devices through link models, one per direction, at absolute deadlines."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections import deque
from typing import TYPE_CHECKING, Protocol

from multitracer.units import BITS_PER_BYTE, NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from multitracer.lab.rehearsal.idle import IdleGate
    from multitracer.lab.rehearsal.journey import Journey

_TUNSETIFF = 0x4004_54CA
_IFF_TUN_NO_PI = 0x1001
_LARGEST_PACKET = 65_536
_PATIENCE_NS = 1_000_000_000


class RelayDirection(Protocol):
    """Interface of one direction of a link; it reads no clock."""

    def accept(self, packet: bytes, *, now_ns: int) -> str | None:
        """Accept a packet; return None, or the reason for which the packet is dropped."""

    def next_ns(self) -> int | None:
        """Arrival time of the next packet at the other side; None if no packet is in transit."""

    def arrived(self, now_ns: int) -> list[bytes]:
        """Return the packets that have arrived by `now_ns`."""


class Pipe:
    """Base of the directions of a link: packets in transit, and the queue before them."""

    def __init__(self) -> None:
        self._queue: deque[tuple[int, int]] = deque()
        """Time at which each packet leaves the queue, and its length."""
        self._queued_bytes = 0
        self._flying: deque[tuple[int, bytes]] = deque()
        self._free_ns = 0

    def _leave_queue(self, now_ns: int) -> None:
        while self._queue and self._queue[0][0] <= now_ns:
            self._queued_bytes -= self._queue.popleft()[1]

    def _join_queue(self, until_ns: int, length_bytes: int) -> None:
        self._queue.append((until_ns, length_bytes))
        self._queued_bytes += length_bytes

    def next_ns(self) -> int | None:
        """Arrival time of the next packet at the other side; None if no packet is in transit."""
        return self._flying[0][0] if self._flying else None

    def arrived(self, now_ns: int) -> list[bytes]:
        """Return the packets that have arrived by `now_ns`."""
        out = []
        while self._flying and self._flying[0][0] <= now_ns:
            out.append(self._flying.popleft()[1])
        return out


def open_tun(name: str) -> int:
    """Make a TUN device and return its file descriptor; the device may move to another namespace."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN_NO_PI))
    return descriptor


class Relay:
    """Moves packets between two devices.

    Parameters
    ----------
    ways : mapping of int to Direction
        Direction for the packets of each of the two devices, by its descriptor.
    wait : callable
        Waits until a time of CLOCK_MONOTONIC or for a descriptor; returns False to end.
    on_drop : callable
        Called with descriptor, reason and packet for each dropped packet.
    zero_ns : int, optional
        Time 0 of the directions in ns; by default the time of the first packet.
    """

    def __init__(
        self,
        ways: Mapping[int, RelayDirection],
        wait: Callable[[int, list[int]], bool],
        on_drop: Callable[[int, str, bytes], None],
        *,
        zero_ns: int | None = None,
    ) -> None:
        first, second = ways
        self._ways = ways
        self._other = {first: second, second: first}
        self._wait = wait
        self._on_drop = on_drop
        self._zero_ns = zero_ns

    def run(self) -> None:
        """Relay packets until `wait` returns False."""
        while self._wait(self._due_ns(), list(self._ways)):
            now_ns = time.monotonic_ns()
            for descriptor in self._ways:
                self._read(descriptor, now_ns)
            self._deliver(now_ns)

    def _due_ns(self) -> int:
        due = [ns for way in self._ways.values() if (ns := way.next_ns()) is not None]
        if not due or self._zero_ns is None:
            return time.monotonic_ns() + _PATIENCE_NS
        return min(due) + self._zero_ns

    def _read(self, descriptor: int, now_ns: int) -> None:
        while True:
            try:
                packet = os.read(descriptor, _LARGEST_PACKET)
            except BlockingIOError:
                return
            if self._zero_ns is None:
                self._zero_ns = now_ns
            reason = self._ways[descriptor].accept(packet, now_ns=now_ns - self._zero_ns)
            if reason is not None:
                self._on_drop(descriptor, reason, packet)

    def _deliver(self, now_ns: int) -> None:
        if self._zero_ns is None:
            return
        for descriptor, way in self._ways.items():
            for packet in way.arrived(now_ns - self._zero_ns):
                os.write(self._other[descriptor], packet)


# What the radio of a journey lets through: a stated map from SINR and cell to a rate, and a queue before it.
#
# A class of SINR has the efficiency of a CQI of TS 36.213, table 7.2.3-1, in a narrow carrier of which the
# other users of the cell leave a part. During a hole and during the break of a handover nothing passes:
# packets wait, and those that wait too long for service are discarded, as the PDCP of TS 36.323 does. A link
# that is slow only makes them wait.


BANDWIDTH_HZ = 90_000
"""Bandwidth of the link, half a resource block of LTE: so the log of some minutes is small."""
CLASSES = ((20.0, 5.1152), (15.0, 3.3223), (10.0, 2.4063), (5.0, 1.1758), (0.0, 0.6016), (-5.0, 0.2344))
"""Minimum SINR (dB) and efficiency (bit/s per Hz) of CQI 14, 11, 9, 6, 4 and 2.

The SINR that a CQI needs depends on the receiver, so these steps are our choice (not measured)."""
NO_SERVICE_DBM = -118.0
"""RSRP below which no packet passes (not measured).

The cell is not suitable (Srxlev of TS 36.304, 5.2.3.2) if the operator sets this Qrxlevmin."""
_SLOT_NS = 10 * NS_PER_MS
"""Interval at which the radio is evaluated: a radio frame of LTE (TS 36.211, 4.1)."""
_QUEUE_BYTES = 12_000
"""Queue size: half a second at a typical rate. Not measured."""
_DELAY_NS = 35 * NS_PER_MS
_DISCARD_NS = 1500 * NS_PER_MS
"""Maximum time in the queue: the longest finite discardTimer of TS 36.331, 6.3.2."""


def rate_bps(journey: Journey, at_s: float) -> float:
    """Return the rate of the simulated link at a time of a drive in bit/s; 0 without service."""
    event = journey.event(at_s)
    if event is not None and event.kind in ("hole", "handover"):
        return 0.0
    values = journey.radio(at_s)
    rsrp, sinr, busy = (float(str(values[name])) for name in ("rsrp_dbm", "sinr_db", "cell_busy_pct"))
    if rsrp < NO_SERVICE_DBM:
        return 0.0
    efficiency = next((bits for minimum, bits in CLASSES if sinr >= minimum), 0.0)
    return BANDWIDTH_HZ * efficiency * (1 - busy / 100)


class RelayQueue(Pipe):
    """One direction of the link with its queue; it reads no clock.

    Parameters
    ----------
    rate_bps : callable
        Returns the rate in bit/s at a number of seconds of the journey.
    gate : IdleGate, optional
        Of a phone that becomes idle; both directions share it.
    """

    def __init__(self, rate_bps: Callable[[float], float], gate: IdleGate | None = None) -> None:
        super().__init__()
        self._rate_bps = rate_bps
        self._gate = gate

    def accept(self, packet: bytes, *, now_ns: int) -> str | None:
        """Accept a packet; return None, or the reason for which the packet is dropped."""
        self._leave_queue(now_ns)
        if self._queued_bytes + len(packet) > _QUEUE_BYTES:
            return "queue"
        ready_ns = now_ns if self._gate is None else self._gate.ready_ns(now_ns)
        sent_ns = self._sent_ns(len(packet) * BITS_PER_BYTE, ready_ns)
        self._join_queue(now_ns + _DISCARD_NS if sent_ns is None else sent_ns, len(packet))
        if sent_ns is None:
            return "outage"
        self._free_ns = sent_ns
        if self._gate is not None:
            self._gate.used(sent_ns)
        self._flying.append((sent_ns + _DELAY_NS, packet))
        return None

    def _sent_ns(self, bits: float, now_ns: int) -> int | None:
        """Return the time in ns at which the last bit of a packet is sent.

        None if the packet is discarded before.
        """
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
