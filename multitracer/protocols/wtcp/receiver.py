"""The receiving half: reassembles the stream, finds missing transmissions, and decides when to acknowledge.

Positions in the stream count from 0; the FIN takes one unit after the last byte; ends are exclusive.

It also computes the rate: linear increase, multiplicative decrease (paper 001, section III.B). Time stamps and
separations come from the sender and are not trusted: false ones can make the rate wrong, but cannot move it outside its
bounds. The next change waits until the sender confirms the last one: packets that arrive before were sent at the old
rate, and show nothing about the new one (our rule).
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from multitracer.protocols.ranges import RangeSet
from multitracer.protocols.wtcp.packet import MAX_RANGES, MODULUS, Data, PacketFlag, WtcpAck
from multitracer.protocols.wtcp.state import IP_UDP_BYTES, RateCause, RateChanged
from multitracer.units import BITS_PER_BYTE, NS_PER_MS, NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.protocols.wtcp.state import WtcpConfig, WtcpCounters


# Random loss or congestion: the most losses of a window that the receiver expects at random.

_MIN_EXPECTED = 1.0
"""Number of expected losses in any case: one loss is no congestion, an overflowing queue drops several (not measured).
"""


class LossWindow:
    """Counts the missing packets among the last ones, and estimates how many losses are random.

    Parameters
    ----------
    config : WtcpConfig
        Size of the window, and the expected losses at the start.
    """

    def __init__(self, config: WtcpConfig) -> None:
        self._config = config
        self._size = config.loss_window_packets
        self._mask = (1 << self._size) - 1
        self._history = 0
        self._seen = 0
        self._mean = self._variance = config.initial_loss_share * self._size

    @property
    def count(self) -> int:
        """Number of missing packets in the window."""
        return self._history.bit_count()

    @property
    def expected(self) -> float:
        """Maximum number of losses in a window that count as random."""
        spread = self._config.loss_deviations * math.sqrt(self._variance)
        most = self._config.max_loss_share * self._size
        return max(_MIN_EXPECTED, min(self._mean + spread, most))

    @property
    def is_congested(self) -> bool:
        """Whether more transmissions are missing than random losses explain."""
        return self.count > self.expected

    def note_arrival(self, missing: int) -> None:
        """Add a packet that arrived, and the number of packets missing just before it."""
        shift = min(missing, self._size)
        self._history = ((self._history + 1 << shift) - 1 << 1) & self._mask
        self._seen += missing + 1

    def note_late(self, age: int) -> None:
        """Record that a packet arrived late; its number is `age` below that of the newest packet."""
        self._history &= ~(1 << age)

    def learn(self) -> None:
        """Update the mean number of random losses when a window is full; the rate must be constant."""
        if self._seen < self._size:
            return
        self._seen = 0
        error = self.count - self._mean
        self._mean += self._config.loss_gain * error
        self._variance += self._config.loss_gain * (error * error - self._variance)

    def clear(self) -> None:
        """Begin a new window, because the rate was reduced for the losses of this window."""
        self._history = self._seen = 0


# What the receiver sees of the path: the ratio of both rates, and the queue that grows.


class RunningRatio:
    """Receiving rate divided by sending rate, as an exponentially weighted average.

    Separations at both ends are averaged and then divided: the mean of the packets' ratios would be above 1
    on any path with varying delay.

    Parameters
    ----------
    gain : float
        Weight of a new packet.
    """

    def __init__(self, gain: float) -> None:
        self._gain = gain
        self._sent_ns = self._received_ns = 0.0

    def add(self, sent_ns: int, received_ns: int) -> None:
        """Add the time in ns between a packet and the one before it, at the sender and at the receiver."""
        self._sent_ns += self._gain * (sent_ns - self._sent_ns)
        self._received_ns += self._gain * (received_ns - self._received_ns)

    def clear(self) -> None:
        """Discard all packets."""
        self._sent_ns = self._received_ns = 0.0

    @property
    def value(self) -> float:
        """The ratio; NaN before the first packet."""
        if self._received_ns <= 0:
            return float("inf") if self._sent_ns > 0 else float("nan")
        return self._sent_ns / self._received_ns


class StandingQueue:
    """Delay of a standing queue, measured without synchronized clocks.

    The delay of each packet is compared with the minimum so far; a delay that grows more slowly than the clock drift
    limit is not a queue. The minimum queueing delay of the last packets is the standing queue (as in RFC 8289).

    Parameters
    ----------
    config : WtcpConfig
        Allowed clock drift, and the number of packets.
    """

    def __init__(self, config: WtcpConfig) -> None:
        self._slack = 1 + config.clock_slack
        self._level_ns = 0.0
        self._recent: deque[float] = deque(maxlen=config.decision_packets)

    def add(self, sent_ns: int, received_ns: int) -> None:
        """Add the time between two packets, in ns, at the sender and at the receiver."""
        self._level_ns = max(0.0, self._level_ns + received_ns - sent_ns * self._slack)
        self._recent.append(self._level_ns)

    def clear(self) -> None:
        """Take the current delay as the delay without a queue."""
        self._level_ns = 0.0
        self._recent.clear()

    @property
    def standing_ns(self) -> int:
        """Minimum queueing delay of the last packets, in ns."""
        return int(min(self._recent, default=0))


_LONGEST_GAP_NS = 1800 * NS_PER_S
"""Maximum gap that is measured: the sender's 32-bit counter of microseconds wraps after 71 minutes."""


class Arrival(NamedTuple):
    """A packet that arrived, with the values that the rate control needs."""

    now_ns: int
    octets: int
    """Size of the IP packet in octets."""
    missing: int
    """Number of missing transmissions between this one and the previous arrival."""
    elapsed_ns: int
    """Time since the previously arrived transmission was sent, by the sender's clock; 0 for the first."""
    separation_ns: int
    """Time since the previous transmission by number was sent, by the sender's clock."""
    rate_serial: int
    """Serial of the acknowledgment whose rate the sender uses, unwrapped; -1 for none."""
    is_probe: bool = False
    is_pair: bool = False
    is_limited: bool = False


class RateControl:
    """Computes the rate at which the peer must send.

    Parameters
    ----------
    config : WtcpConfig
        Thresholds, steps and bounds.
    counters : WtcpCounters
        Counters of increases, decreases and halvings.
    report : callable
        Called with each `RateChanged`.
    """

    def __init__(self, config: WtcpConfig, counters: WtcpCounters, report: Callable[[RateChanged], None]) -> None:
        self._config = config
        self._counters = counters
        self._report = report
        self.rate_bps = config.initial_rate_bps
        self.is_starting = True
        """Whether no packet pair has arrived yet."""
        self.losses = LossWindow(config)
        self._long = RunningRatio(config.long_gain)
        self._short = RunningRatio(config.short_gain)
        self._queue = StandingQueue(config)
        self._samples = 0
        self._delta = config.delta
        self._arrived_ns: int | None = None
        self._is_cut = False
        self._is_unreported = False
        self._told_serial = -1

    @property
    def is_pending(self) -> bool:
        """Whether the sender has not yet confirmed that it uses the newest rate."""
        return self._is_unreported or self._told_serial >= 0

    def note_told(self, serial: int) -> None:
        """Record that the newest rate is sent in the acknowledgment with this serial number."""
        if self._is_unreported:
            self._is_unreported = False
            self._told_serial = serial

    def note_late(self, age: int) -> None:
        """Record that a packet arrived late; its number is `age` below that of the newest packet."""
        if age < self._config.loss_window_packets:
            self.losses.note_late(age)

    def take(self, arrival: Arrival) -> None:
        """Process a packet whose number is above all earlier ones."""
        if self._told_serial >= 0 and arrival.rate_serial >= self._told_serial:
            self._told_serial = -1
            if self._is_cut:
                self._forget()
        received_ns = self._received_ns(arrival)
        self._arrived_ns = arrival.now_ns
        if received_ns is None:
            return
        self._queue.add(arrival.elapsed_ns, received_ns)
        if arrival.is_probe:  # what is missing before it was lost in the blackout
            return
        self.losses.note_arrival(arrival.missing)
        if arrival.missing:
            self._judge_losses(arrival.now_ns)
        else:
            self._take_expected(arrival, received_ns)

    def _received_ns(self, arrival: Arrival) -> int | None:
        """Return the time in ns since the previous arrival; None for the first packet or after a long gap."""
        if self._arrived_ns is None:
            return None
        received_ns = arrival.now_ns - self._arrived_ns
        if max(received_ns, arrival.elapsed_ns) <= _LONGEST_GAP_NS:
            return received_ns
        self._queue.clear()
        self._forget()
        return None

    def _judge_losses(self, now_ns: int) -> None:
        """Halve the rate if more packets are missing than random losses explain."""
        if not self.losses.is_congested or (self.is_pending and self._is_cut):
            return
        self._counters.halvings += 1
        self._change(self.rate_bps * self._config.congestion_share, RateCause.LOSS, now_ns)
        self.losses.clear()
        self._forget()

    def _take_expected(self, arrival: Arrival, received_ns: int) -> None:
        """Process a packet without missing packets before it."""
        if arrival.is_pair:
            self._take_pair(arrival, received_ns)
            return
        if not arrival.is_limited:
            self._samples += 1
            self._long.add(arrival.separation_ns, received_ns)
            self._short.add(arrival.separation_ns, received_ns)
        if not self.is_pending and self._samples >= self._config.decision_packets:
            self._decide(arrival)

    def _take_pair(self, arrival: Arrival, received_ns: int) -> None:
        """Set the first rate from a packet pair: a fraction of the rate at which the pair arrived.

        Because of the overhead per packet, short packets seem slower; they count only until longer ones arrive.
        """
        if not self.is_starting:
            return
        self.is_starting = 2 * arrival.octets < self._config.packet_bytes
        apart_ns = max(received_ns, arrival.separation_ns, 1)
        seen_bps = arrival.octets * BITS_PER_BYTE * NS_PER_S / apart_ns
        self._change(max(seen_bps * self._config.pair_share, self.rate_bps), RateCause.PAIR, arrival.now_ns)

    def _decide(self, arrival: Arrival) -> None:
        """Increase, decrease or keep the rate, by the averages since the last decision."""
        config, long, short = self._config, self._long.value, self._short.value
        queued = self._queue.standing_ns * self.rate_bps / config.packet_bits / NS_PER_S
        if long < config.alpha_minus or short < config.beta_minus:
            self._decrease(RateCause.RATIO, arrival.now_ns)
        elif queued > config.queue_limit_packets and long < 1:
            self._decrease(RateCause.QUEUE, arrival.now_ns)
        elif long > config.alpha_plus and short > config.beta_plus and queued <= config.queue_free_packets:
            self._increase(arrival)
        else:
            self._delta = config.delta
            self.losses.learn()

    def _increase(self, arrival: Arrival) -> None:
        """Add a step to the rate, unless the sender was limited by something else than the rate."""
        self._delta = self._config.delta
        if arrival.is_limited or self.rate_bps >= self._config.max_rate_bps:
            return
        self._counters.increases += 1
        step_bps = self._config.increase_packets_per_s * self._config.packet_bits
        self._change(self.rate_bps + step_bps, RateCause.INCREASE, arrival.now_ns)

    def _decrease(self, cause: RateCause, now_ns: int) -> None:
        """Reduce the rate by the fraction delta; delta doubles for a further decrease."""
        self._counters.decreases += 1
        self._change(self.rate_bps * (1 - self._delta), cause, now_ns)
        self._delta = min(2 * self._delta, self._config.max_delta)
        self._forget()

    def _change(self, rate_bps: float, cause: RateCause, now_ns: int) -> None:
        self._is_cut = rate_bps < self.rate_bps
        self.rate_bps = self._config.bounded_bps(rate_bps)
        self._is_unreported = True
        self._report(
            RateChanged(
                time_ns=now_ns,
                rate_bps=self.rate_bps,
                cause=cause,
                long_ratio=self._long.value,
                short_ratio=self._short.value,
                queue_ns=self._queue.standing_ns,
                lost=self.losses.count,
                expected_lost=self.losses.expected,
            )
        )

    def _forget(self) -> None:
        """Discard the averages, because the rate has changed."""
        self._long.clear()
        self._short.clear()
        self._samples = 0


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
