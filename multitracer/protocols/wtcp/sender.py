"""The sending half: sends data at the receiver's rate, retransmits lost data, and probes in a blackout.

Rules of the file:

- There is no retransmission timer. A segment is retransmitted when acknowledgments show that it is missing;
  if none arrives for a threshold time, probes elicit one, and the data that it shows as missing are retransmitted.
- The peer's rate is limited by our configuration; its times and numbers are checked before use.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

from multitracer.protocols.wtcp.packet import DATA_BYTES, HEAD_BYTES, HELLO_BYTES, MAX_OFFSET, Data, PacketFlag, WtcpAck
from multitracer.protocols.wtcp.receiver import unwrap
from multitracer.protocols.wtcp.state import IP_UDP_BYTES, BlackoutBegan, BlackoutEnded, Lost, RateReceived
from multitracer.units import BITS_PER_BYTE, NS_PER_MS, NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from multitracer.protocols.wtcp.packet import Hello
    from multitracer.protocols.wtcp.state import WtcpConfig, WtcpCounters, WtcpEvent

# What was sent and is not acknowledged: segments of the stream, and when each transmission left.


_REMEMBERED_TIMES = 4096
"""Number of transmissions whose sending time is stored: more than a window contains (not measured)."""


@dataclass(slots=True)
class StreamSegment:
    """A part of the stream that one packet carries; a retransmission carries the same part."""

    offset: int
    payload: bytes
    fin: bool = False
    number: int = -1
    """Number of the last transmission that carried it; -1 before the first."""
    sent_ns: int = 0
    is_lost: bool = False

    @property
    def end(self) -> int:
        """Stream position after the last unit of the segment; a FIN takes one unit."""
        return self.offset + len(self.payload) + self.fin


class Outstanding:
    """The segments that are not acknowledged, by their stream position."""

    def __init__(self) -> None:
        self._segments: dict[int, StreamSegment] = {}
        self._lost: list[int] = []
        self._sent_ns: dict[int, int] = {}
        self.payload_bytes = 0
        self._fin_acknowledged = False

    def __len__(self) -> int:
        """Return the number of segments that are not acknowledged."""
        return len(self._segments)

    @property
    def is_complete(self) -> bool:
        """Whether the complete stream is acknowledged, with its FIN."""
        return self._fin_acknowledged and not self._segments

    def add(self, segment: StreamSegment) -> None:
        """Add a new segment, after all others."""
        self._segments[segment.offset] = segment
        self.payload_bytes += len(segment.payload)

    def note_sent(self, number: int, now_ns: int, segment: StreamSegment | None = None) -> None:
        """Record the sending time of packet `number`, and the segment in it; a probe has none."""
        self._sent_ns[number] = now_ns
        if len(self._sent_ns) > _REMEMBERED_TIMES:
            del self._sent_ns[next(iter(self._sent_ns))]
        if segment is not None:
            segment.number, segment.sent_ns, segment.is_lost = number, now_ns, False

    def next_lost(self) -> StreamSegment | None:
        """Return the first segment that is marked lost; None if there is none."""
        while self._lost:
            segment = self._segments.get(self._lost[0])
            if segment is not None and segment.is_lost:
                return segment
            heapq.heappop(self._lost)
        return None

    def sent_ns(self, number: int) -> int | None:
        """Return the sending time of packet `number` in ns; None if it is no longer stored."""
        return self._sent_ns.get(number)

    def forget_below(self, number: int) -> None:
        """Delete the sending times of packets with numbers below `number`."""
        while self._sent_ns and next(iter(self._sent_ns)) < number:
            del self._sent_ns[next(iter(self._sent_ns))]

    def acknowledge(self, ack: WtcpAck) -> int:
        """Remove the segments that an acknowledgment reports as arrived; return their total size in bytes."""
        gone = [each for each in self._segments.values() if _covers(ack, each)]
        for segment in gone:
            del self._segments[segment.offset]
            self._fin_acknowledged |= segment.fin
        freed = sum(len(segment.payload) for segment in gone)
        self.payload_bytes -= freed
        return freed

    def find_lost(self, newest: int, *, reorder_packets: int, round_trip_ns: int) -> list[StreamSegment]:
        """Return the segments that are now lost, because packet `newest` has arrived and they have not.

        A segment is lost if at least `reorder_packets` packets that were sent later have arrived,
        or one packet that was sent a round trip later.
        """
        newest_ns = self._sent_ns.get(newest)
        lost = []
        for segment in self._segments.values():
            if segment.is_lost or not 0 <= segment.number < newest:
                continue
            overtaken = newest - segment.number >= reorder_packets
            if overtaken or (newest_ns is not None and newest_ns - segment.sent_ns >= round_trip_ns):
                lost.append(segment)
        self._mark(lost)
        return lost

    def _mark(self, lost: Iterable[StreamSegment]) -> None:
        for segment in lost:
            segment.is_lost = True
            heapq.heappush(self._lost, segment.offset)


def _covers(ack: WtcpAck, segment: StreamSegment) -> bool:
    if segment.end <= ack.cumulative:
        return True
    return any(left <= segment.offset and segment.end <= right for left, right in ack.ranges)


# Round-trip times and lost acknowledgments: by them the sender tunes acknowledgments and patience.


_RTT_GAIN, _DEVIATION_GAIN = 1 / 8, 1 / 4  # RFC 6298, section 2.3
_DEVIATIONS = 4  # RFC 6298, section 2.2: K
_ACK_LOSS_GAIN = 1 / 8  # not measured: as the RTT's
_MOST_ACK_LOSS = 0.75
"""Maximum assumed loss of acknowledgments; more of them would only fill the slow direction (not measured)."""


class WtcpRoundTrip:
    """Round-trip time, measured from acknowledgments.

    Parameters
    ----------
    config : WtcpConfig
        Bounds of the timeouts that are computed from the round-trip time.
    """

    def __init__(self, config: WtcpConfig) -> None:
        self._config = config
        self.srtt_ns: int | None = None
        """Smoothed round-trip time without the receiver's delay; None before the first."""
        self._deviation_ns = 0
        self._ack_loss = 0.0

    def add(self, rtt_ns: int) -> None:
        """Add a round-trip sample (RFC 6298, section 2)."""
        if self.srtt_ns is None:
            self.srtt_ns, self._deviation_ns = rtt_ns, rtt_ns // 2
            return
        error_ns = rtt_ns - self.srtt_ns
        self._deviation_ns += round(_DEVIATION_GAIN * (abs(error_ns) - self._deviation_ns))
        self.srtt_ns += round(_RTT_GAIN * error_ns)

    def note_acks(self, lost: int) -> None:
        """Record an acknowledgment, and how many acknowledgments before it were lost."""
        self._ack_loss += _ACK_LOSS_GAIN * (lost / (lost + 1) - self._ack_loss)

    @property
    def ack_interval_ns(self) -> int:
        """Interval of acknowledgments that the receiver should use, in ns.

        It is a fraction of the round-trip time, and shorter if many acknowledgments are lost.
        """
        config = self._config
        if self.srtt_ns is None:
            return config.min_ack_interval_ns
        arriving = 1 - min(self._ack_loss, _MOST_ACK_LOSS)
        wanted_ns = round(self.srtt_ns / config.acks_per_rtt * arriving)
        interval_ns = min(max(wanted_ns, config.min_ack_interval_ns), config.max_ack_interval_ns)
        return interval_ns // NS_PER_MS * NS_PER_MS

    @property
    def threshold_ns(self) -> int:
        """Time in ns without an acknowledgment after which a blackout begins."""
        if self.srtt_ns is None:
            return max(self._config.min_silence_ns, self._config.handshake_ns)
        patience_ns = self.srtt_ns + _DEVIATIONS * self._deviation_ns + 2 * self.ack_interval_ns
        return max(self._config.min_silence_ns, patience_ns)


class WtcpSender:
    """Send state of one connection.

    Parameters
    ----------
    config : WtcpConfig
        Bounds of the rate, sizes, and times.
    counters : WtcpCounters
        Counters of transmissions and acknowledgments.
    report : callable
        Called with the events of the sender.
    """

    def __init__(self, config: WtcpConfig, counters: WtcpCounters, report: Callable[[WtcpEvent], None]) -> None:
        self._config = config
        self._counters = counters
        self._report = report
        self.rate_bps = config.initial_rate_bps
        self.round_trip = WtcpRoundTrip(config)
        self.outstanding = Outstanding()
        self.is_closed = False
        """Whether the application has closed the stream: a FIN follows the data."""
        self._pending = bytearray()
        self._next_offset = 0
        self._fin_sent = False
        self._edge = 0
        self._number = 0
        self._left_ns = 0
        self._sent_ns: int | None = None
        self._free_ns = 0
        self._spent_bits = 0
        self._newest_ack = -1
        self._newest_number = 0
        self._pair_number: int | None = None
        self._is_starting = True
        self._waiting_ns: int | None = None
        self._blackout_ns: int | None = None
        self._probe_due_ns = 0
        self._blackout_probes = 0

    # --- the application's side ---

    @property
    def free_bytes(self) -> int:
        """Number of bytes that `write` would accept."""
        held = len(self._pending) + self.outstanding.payload_bytes
        rest = MAX_OFFSET // 2 - self._next_offset - len(self._pending)
        return 0 if self.is_closed else max(0, min(self._config.send_buffer_bytes - held, rest))

    def write(self, data: bytes) -> int:
        """Accept data to send; return how many bytes were accepted."""
        taken = data[: self.free_bytes]
        self._pending += taken
        return len(taken)

    @property
    def unacknowledged_bytes(self) -> int:
        """Number of bytes that were written and are not acknowledged."""
        return len(self._pending) + self.outstanding.payload_bytes

    @property
    def is_blacked_out(self) -> bool:
        """Whether probes are sent instead of data."""
        return self._blackout_ns is not None

    # --- what arrives ---

    def open_window(self, window_bytes: int, now_ns: int) -> None:
        """Set the window from the handshake; the first packet may then be sent."""
        self._edge = max(self._edge, window_bytes)
        self._free_ns = max(self._free_ns, now_ns)

    def acknowledge(self, ack: WtcpAck, now_ns: int) -> bool:
        """Process an acknowledgment; return False if its numbers are impossible, so that it is ignored."""
        number = unwrap(ack.number, near=self._number)
        serial = unwrap(ack.serial, near=self._newest_ack + 1)
        if not self._is_possible(ack, number):
            self._counters.impossible_acks += 1
            return False
        self._counters.acks_received += 1
        self._end_blackout(now_ns)
        self._measure(number, ack.hold_us * NS_PER_US, now_ns)
        self._counters.acknowledged_bytes += self.outstanding.acknowledge(ack)
        self._edge = max(self._edge, ack.cumulative + ack.window_bytes)
        self._newest_number = max(self._newest_number, number)
        self._find_lost(now_ns)
        if serial > self._newest_ack:
            self._take_rate(ack, serial, now_ns)
        self._waiting_ns = now_ns if self._is_waiting else None
        return True

    def _is_possible(self, ack: WtcpAck, number: int) -> bool:
        end = self._next_offset + self._fin_sent
        ranges_fit = all(ack.cumulative < left < right <= end for left, right in ack.ranges)
        return 0 <= number <= self._number and ack.cumulative <= end and ranges_fit

    def _measure(self, number: int, hold_ns: int, now_ns: int) -> None:
        """Take a round-trip sample when the newest packet is acknowledged for the first time."""
        sent_ns = self.outstanding.sent_ns(number - 1)
        if number <= self._newest_number or sent_ns is None:
            return
        rtt_ns = now_ns - sent_ns - hold_ns
        if rtt_ns < 0:
            self._counters.impossible_times += 1
            return
        self.round_trip.add(rtt_ns)

    def _find_lost(self, now_ns: int) -> None:
        newest = self._newest_number - 1
        patience_ns = self.round_trip.srtt_ns or self._config.min_silence_ns
        reorder = self._config.reorder_packets
        for segment in self.outstanding.find_lost(newest, reorder_packets=reorder, round_trip_ns=patience_ns):
            self._report(Lost(now_ns, segment.number, segment.offset, len(segment.payload)))
        self.outstanding.forget_below(newest)

    def _take_rate(self, ack: WtcpAck, serial: int, now_ns: int) -> None:
        """Use the rate of the newest acknowledgment, within the bounds of the configuration."""
        lost = serial - self._newest_ack - 1
        self._counters.acks_lost += lost
        self.round_trip.note_acks(lost)
        self._newest_ack = serial
        if not self._config.min_rate_bps <= ack.rate_bps <= self._config.max_rate_bps:
            self._counters.rates_out_of_bounds += 1
        rate_bps = self._config.bounded_bps(ack.rate_bps)
        if rate_bps != self.rate_bps:
            self.rate_bps = rate_bps
            self._report(RateReceived(now_ns, rate_bps))
            self._pace()
        self._is_starting = bool(ack.flags & PacketFlag.STARTING)
        if self._pair_number is not None and self._newest_number > self._pair_number:
            self._pair_number = None  # a new one may follow if it did not help

    # --- what leaves ---

    @property
    def _separation_ns(self) -> int:
        """Time from the last packet to the next one at the current rate, in ns."""
        return round(self._spent_bits * NS_PER_S / self.rate_bps)

    def _pace(self) -> None:
        """Update the time of the next packet after a change of the rate."""
        if self._sent_ns is not None:
            self._free_ns = self._sent_ns + self._separation_ns

    @property
    def _has_segment(self) -> bool:
        """Whether there is a lost or new segment that may be sent, apart from the rate."""
        if self.outstanding.next_lost() is not None:
            return True
        if self._pending:
            return self._next_offset < self._edge
        return self.is_closed and not self._fin_sent

    @property
    def _is_waiting(self) -> bool:
        """Whether this end needs an acknowledgment: data are outstanding, or the window is full."""
        return bool(len(self.outstanding) or (self._pending and self._next_offset >= self._edge))

    @property
    def next_ns(self) -> int | None:
        """Time in ns of the next packet to send; None if nothing is scheduled."""
        if self._blackout_ns is not None:
            return self._probe_due_ns
        times = [self._free_ns] if self._has_segment else []
        if self._is_waiting:
            times.append((self._waiting_ns or 0) + self.round_trip.threshold_ns)
        return min(times, default=None)

    def outgoing(self, now_ns: int, hello: Hello | None) -> Data | None:
        """Return the next data or probe packet to send now; None if none is due."""
        if self._is_waiting and self._waiting_ns is None:
            self._waiting_ns = now_ns
        probe_due = self._blackout_ns is not None and now_ns >= self._probe_due_ns
        if probe_due or self._is_silent(now_ns):
            return self._probe(now_ns, hello)
        if self._blackout_ns is not None or now_ns < self._free_ns:
            return None
        segment = self._next_segment(hello)
        return None if segment is None else self._transmission(segment, now_ns, hello)

    def _is_silent(self, now_ns: int) -> bool:
        """Return whether no acknowledgment has arrived for the threshold time, so that a blackout begins."""
        if self._waiting_ns is None or self._blackout_ns is not None:
            return False
        silent_ns = now_ns - self._waiting_ns
        if silent_ns < self.round_trip.threshold_ns:
            return False
        if not len(self.outstanding):  # a closed window: ask whether it is open, without more ado
            self._waiting_ns = now_ns
            return True
        self._blackout_ns, self._blackout_probes = now_ns, 0
        self._counters.blackouts += 1
        self._report(BlackoutBegan(now_ns, silent_ns))
        return True

    def _end_blackout(self, now_ns: int) -> None:
        if self._blackout_ns is None:
            return
        self._report(BlackoutEnded(now_ns, now_ns - self._blackout_ns, self._blackout_probes))
        self._blackout_ns = None
        self._free_ns = now_ns

    def _probe(self, now_ns: int, hello: Hello | None) -> Data:
        self._probe_due_ns = now_ns + self._config.probe_ns
        self._blackout_probes += 1
        self._counters.probes_sent += 1
        return self._numbered(Data(0, 0, 0, 0, 0, self._next_offset, is_probe=True, hello=hello), now_ns)

    def _next_segment(self, hello: Hello | None) -> StreamSegment | None:
        """Return the next segment to send: a lost one, else a new one; None without either."""
        lost = self.outstanding.next_lost()
        if lost is not None or not self._has_segment:
            return lost
        room = self._config.packet_bytes - IP_UDP_BYTES - HEAD_BYTES - DATA_BYTES
        room -= HELLO_BYTES if hello else 0
        length = min(room, len(self._pending), max(0, self._edge - self._next_offset))
        if self._may_begin_pair and 1 < len(self._pending) <= length:
            length = (length + 1) // 2  # a short message makes a pair, too
        payload = bytes(self._pending[:length])
        del self._pending[:length]
        self._fin_sent = self.is_closed and not self._pending
        segment = StreamSegment(self._next_offset, payload, fin=self._fin_sent)
        self._next_offset += length
        self.outstanding.add(segment)
        return segment

    def _transmission(self, segment: StreamSegment, now_ns: int, hello: Hello | None) -> Data:
        """Return a data packet with this segment, and set the time of the next packet by the rate."""
        late_ns = now_ns - self._free_ns
        is_limited = self._sent_ns is None or 2 * late_ns > self._separation_ns
        is_pair = self._pair_number == self._number
        flags = PacketFlag.FIN if segment.fin else PacketFlag.NONE
        flags |= PacketFlag.PAIR if is_pair else PacketFlag.NONE
        flags |= PacketFlag.LIMITED if is_limited and not is_pair else PacketFlag.NONE
        if segment.number >= 0:
            self._counters.retransmissions += 1
        self._counters.data_sent += 1
        self._counters.payload_sent_bytes += len(segment.payload)
        data = Data(0, 0, 0, 0, 0, segment.offset, segment.payload, flags, hello)
        size = HEAD_BYTES + DATA_BYTES + len(segment.payload) + (HELLO_BYTES if hello else 0) + IP_UDP_BYTES
        sent = self._numbered(data, now_ns, segment)
        self._spend(size * BITS_PER_BYTE, now_ns if is_limited else self._free_ns)
        self._begin_pair(now_ns)
        return sent

    def _spend(self, bits: int, from_ns: int) -> None:
        self._spent_bits, self._sent_ns = bits, from_ns
        self._pace()

    @property
    def _may_begin_pair(self) -> bool:
        return self._is_starting and self._pair_number is None

    def _begin_pair(self, now_ns: int) -> None:
        """Send the next packet without delay (a packet pair), so that the receiver can measure the path.

        This is done at the start of a connection.
        """
        if self._may_begin_pair and self._has_segment:
            self._pair_number = self._number
            self._free_ns = now_ns

    def _numbered(self, data: Data, now_ns: int, segment: StreamSegment | None = None) -> Data:
        """Return the packet with the next number and the sending times."""
        before_ns = self._left_ns if self._number else now_ns
        made = data._replace(
            number=self._number,
            time_us=now_ns // NS_PER_US,
            separation_us=(now_ns - before_ns) // NS_PER_US,
            ack_interval_ms=self.round_trip.ack_interval_ns // NS_PER_MS,
            rate_serial=self._newest_ack,
        )
        self.outstanding.note_sent(self._number, now_ns, segment)
        self._left_ns = now_ns
        self._number += 1
        if self._waiting_ns is None:
            self._waiting_ns = now_ns
        return made
