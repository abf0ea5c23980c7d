"""The receiving half: reassembles the stream, finds missing transmissions, and decides when to acknowledge.

Positions in the stream count from 0; the FIN takes one unit after the last byte; ends are exclusive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.protocols.ranges import RangeSet
from multitracer.protocols.wtcp.packet import MAX_RANGES, MODULUS, Data, PacketFlag, WtcpAck
from multitracer.protocols.wtcp.rate import Arrival, RateControl
from multitracer.protocols.wtcp.state import IP_UDP_BYTES
from multitracer.units import NS_PER_MS, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.protocols.wtcp.state import RateChanged, WtcpConfig, WtcpCounters

_REMEMBERED_MISSING = 1024
"""Number of missing transmissions that are stored to recognise late arrivals: the largest loss window."""
_SERIALS = 1 << 16  # docs/wtcp.md: a data packet carries 16 bits of a serial


def unwrap(number: int, *, near: int, modulus: int = MODULUS) -> int:
    """Return the integer congruent to `number` that is closest to `near`; it may be negative."""
    distance = (number - near) % modulus
    return near + distance - (modulus if distance >= modulus // 2 else 0)


class WtcpReceiver:
    """Receive state of one connection.

    Parameters
    ----------
    config : WtcpConfig
        Size of the buffer, limits, and parameters of the rate control.
    counters : WtcpCounters
        Counters of arrivals.
    report : callable
        Called with each `RateChanged`.
    """

    def __init__(self, config: WtcpConfig, counters: WtcpCounters, report: Callable[[RateChanged], None]) -> None:
        self._config = config
        self._counters = counters
        self.rate = RateControl(config, counters, report)
        self.cumulative = 0
        """Stream position below which everything has arrived."""
        self.ack_due_ns: int | None = None
        self._base = 0
        self._bytes = bytearray()
        self._ranges = RangeSet()
        self._fin_at: int | None = None
        self._next_number = 0
        self._missing: dict[int, None] = {}
        self._newest_ns = 0
        self._newest_us = 0
        self._serial = 0
        self._last_ack_ns: int | None = None
        self._told_window_bytes = config.receive_buffer_bytes

    # --- the application's side ---

    @property
    def is_complete(self) -> bool:
        """Whether all data have arrived, up to the FIN."""
        return self._fin_at is not None and self.cumulative > self._fin_at

    @property
    def readable_bytes(self) -> int:
        """Number of bytes that `read` would return."""
        return self.cumulative - self._base - self.is_complete

    def read(self, max_bytes: int, now_ns: int) -> bytes:
        """Return the next bytes in order; schedule an acknowledgment if this opens a closed window."""
        taken = bytes(self._bytes[: min(max_bytes, self.readable_bytes)])
        del self._bytes[: len(taken)]
        self._base += len(taken)
        two_packets = min(2 * self._config.packet_bytes, self._config.receive_buffer_bytes // 2)
        if self._told_window_bytes < two_packets <= self.window_bytes:
            self.demand_ack(now_ns)
        return taken

    @property
    def window_bytes(self) -> int:
        """Bytes that the peer may send after the position `cumulative`."""
        return max(0, self._config.receive_buffer_bytes - self.readable_bytes)

    # --- what arrives ---

    def take(self, data: Data, octets: int, now_ns: int) -> None:
        """Process a data packet; `octets` is the size of its datagram."""
        number = unwrap(data.number, near=self._next_number)
        is_new = number >= self._next_number
        was_starting = self.rate.is_starting
        if is_new:
            self._take_number(data, number, octets, now_ns)
        elif number in self._missing:
            del self._missing[number]
            self._counters.late += 1
            self.rate.note_late(self._next_number - 1 - number)
        if not data.is_probe:
            self._counters.data_received += 1
            self._take_bytes(data)
        if was_starting and not self.rate.is_starting:
            self.demand_ack(now_ns)
        else:
            self._schedule_ack(data, now_ns)

    def _take_number(self, data: Data, number: int, octets: int, now_ns: int) -> None:
        """Process a packet whose number is above all earlier ones: count missing packets, update the rate."""
        missing = number - self._next_number
        elapsed_us = (data.time_us - self._newest_us) % MODULUS if self._next_number else 0
        is_cut = self._counters.halvings
        self.rate.take(
            Arrival(
                now_ns=now_ns,
                octets=octets + IP_UDP_BYTES,
                missing=missing,
                elapsed_ns=elapsed_us * NS_PER_US,
                separation_ns=data.separation_us * NS_PER_US,
                rate_serial=unwrap(data.rate_serial, near=self._serial, modulus=_SERIALS),
                is_probe=data.is_probe,
                is_pair=bool(data.flags & PacketFlag.PAIR),
                is_limited=bool(data.flags & PacketFlag.LIMITED),
            )
        )
        self._counters.missing += missing
        for lost in range(max(self._next_number, number - _REMEMBERED_MISSING), number):
            self._missing[lost] = None
        while len(self._missing) > _REMEMBERED_MISSING:
            del self._missing[next(iter(self._missing))]
        self._next_number = number + 1
        self._newest_ns, self._newest_us = now_ns, data.time_us
        if self._counters.halvings > is_cut:
            self.demand_ack(now_ns)

    def _take_bytes(self, data: Data) -> None:
        if not self._is_acceptable(data):
            self._counters.beyond_window += 1
            return
        if self._holds(data.offset, data.end):
            self._counters.duplicates += 1
            return
        begin = max(data.offset, self._base)
        end = data.offset + len(data.payload)
        if end > begin:
            self._bytes += bytes(max(0, end - self._base - len(self._bytes)))
            self._bytes[begin - self._base : end - self._base] = data.payload[begin - data.offset :]
        if data.flags & PacketFlag.FIN:
            self._fin_at = end
        self._count_new(max(data.offset, self.cumulative), end)
        self._ranges.add(data.offset, data.end)
        self._advance()

    def _count_new(self, begin: int, end: int) -> None:
        """Count the payload between two positions that arrives for the first time."""
        before = self._ranges.total
        self._ranges.add(begin, end)
        new = self._ranges.total - before
        self._counters.arrived_bytes += new
        self._counters.arrived_packets += new > 0

    def _is_acceptable(self, data: Data) -> bool:
        """Return whether data are within the window and the stream, and do not make too many holes."""
        end = data.offset + len(data.payload)
        if end > self._base + self._config.receive_buffer_bytes:
            return False
        if self._fin_at is not None and (data.end > self._fin_at + 1 or end > self._fin_at):
            return False
        if data.flags & PacketFlag.FIN:
            highest = self._ranges.highest or self.cumulative
            if end < highest and self._fin_at != end:
                return False
        return data.offset <= self.cumulative or len(self._ranges) < self._config.max_holes

    def _holds(self, begin: int, end: int) -> bool:
        return self._ranges.covers(max(begin, self.cumulative), end)

    def _advance(self) -> None:
        """Move the position `cumulative` to the end of the data that are now in order."""
        before = self.cumulative
        self._ranges.remove_below(before)
        holder = self._ranges.holding(before)
        if holder is not None:
            self.cumulative = holder[1]
            self._ranges.remove_below(self.cumulative)
            self._counters.delivered_bytes += self.cumulative - before - self.is_complete

    # --- when to acknowledge ---

    def demand_ack(self, now_ns: int) -> None:
        """Schedule an acknowledgment for now."""
        self.ack_due_ns = now_ns if self.ack_due_ns is None else min(self.ack_due_ns, now_ns)

    def _schedule_ack(self, data: Data, now_ns: int) -> None:
        """Schedule the next acknowledgment: at the sender's interval within our bounds.

        It is sent sooner for a probe or FIN.
        """
        config = self._config
        min_ns, most_ns = config.min_ack_interval_ns, config.max_ack_interval_ns
        wished_ns = min(max(data.ack_interval_ms * NS_PER_MS, min_ns), most_ns)
        if self._last_ack_ns is None:
            due_ns = now_ns + min_ns
        else:
            soon = data.is_probe or self.is_complete
            due_ns = max(now_ns, self._last_ack_ns + (min_ns if soon else wished_ns))
        self.ack_due_ns = due_ns if self.ack_due_ns is None else min(self.ack_due_ns, due_ns)

    def make_ack(self, now_ns: int, *, is_done: bool) -> WtcpAck:
        """Return the acknowledgment that is sent now; `is_done` if all our own data are acknowledged."""
        flags = PacketFlag.DONE if is_done else PacketFlag.NONE
        flags |= PacketFlag.STARTING if self.rate.is_starting else PacketFlag.NONE
        hold_ns = now_ns - self._newest_ns if self._next_number else 0
        ack = WtcpAck(
            serial=self._serial,
            number=self._next_number,
            hold_us=max(0, hold_ns) // NS_PER_US,
            rate_bps=round(self.rate.rate_bps),
            cumulative=self.cumulative,
            window_bytes=self.window_bytes,
            ranges=tuple(pair for pair, _ in zip(self._ranges, range(MAX_RANGES), strict=False)),
            flags=flags,
        )
        self.rate.note_told(self._serial)
        self._serial += 1
        self._told_window_bytes = ack.window_bytes
        self._last_ack_ns, self.ack_due_ns = now_ns, None
        return ack
