"""The public types of the WTCP core: parameters, states, counters, and events for a log."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from multitracer.errors import LocalProtocolError
from multitracer.units import BITS_PER_BYTE, NS_PER_MS, NS_PER_S

# The parameters of WTCP: what paper 001 gives, and what it leaves open with our default and its reason.
#
# `docs/papers/wtcp.md` has a table of what each number does to the goodput when it is halved and doubled.


IP_UDP_BYTES = 28
"""Octets around a WTCP packet: an IPv4 header without options (RFC 791) and a UDP header (RFC 768)."""
MIN_PACKET_BYTES, MAX_PACKET_BYTES = 128, 1500
"""Bounds of the packet length: an acknowledgment with some ranges must fit.

Ethernet's maximum (IEEE 802.3)."""
MAX_RATE_BPS = 1_000_000_000
"""Maximum rate: 1 Gbit/s, far above any link for WTCP, and within the 32 bits of the field."""
_MAX_TIME_NS = 86_400 * NS_PER_S  # a day: not measured, keeps sums of times small
_MAX_BUFFER_BYTES = 1 << 24  # not measured: what a reader that forgets to read may cost


@dataclass(frozen=True, slots=True, kw_only=True)
class WtcpConfig:
    """Parameters of one end of a connection; the two ends may have different values.

    Rates count complete IP packets, with the headers of IP and UDP. Fractions are 0 to 1.

    Raises
    ------
    LocalProtocolError
        If a value is not a number or is outside its range, or two values contradict each other.
    """

    packet_bytes: int = 500
    """Length of the longest IP packet that is sent [paper 001, section IV]."""
    initial_rate_packets_per_s: float = 1.0
    """Rate before the packet pair of the start-up has arrived [paper 001, section IV.C: a flow begins with 1]."""
    min_rate_bps: float = 320.0
    """Minimum rate that the receiver requests [paper 001, section II: 9.6 kb/s shared by 30 users]."""
    max_rate_bps: float = 2_000_000.0
    """Maximum rate that the receiver requests, and that the sender uses whatever the peer requests.

    [Not given: far above the links of the paper.]"""

    alpha_plus: float = 0.98
    """The rate increases only if the long-term ratio is above this [paper 001: "very close to one".

    Value not given]."""
    alpha_minus: float = 0.94
    """The rate decreases if the long-term ratio is below this [not given: slightly less than `alpha_plus`]."""
    beta_plus: float = 0.90
    """The rate increases only if the short-term ratio is above this [not given: lower, as it is noisier]."""
    beta_minus: float = 0.80
    """The rate decreases if the short-term ratio is below this [not given: a sudden loss of a fifth of the rate]."""
    long_gain: float = 1 / 16
    """Weight of a new packet in the long-term ratio [not given]."""
    short_gain: float = 1 / 4
    """Weight of a new packet in the short-term ratio [not given]."""
    increase_packets_per_s: float = 0.25
    """Amount by which one increase raises the rate [paper 001: linear; step not given]."""
    delta: float = 0.20
    """Fraction by which a first decrease reduces the rate; each following decrease doubles it [paper 001]."""
    max_delta: float = 0.50
    """Maximum of the doubled delta [not given: the reduction after a congestion loss]."""
    congestion_share: float = 0.50
    """Fraction of the rate that remains after a congestion loss [paper 001: half]."""
    decision_packets: int = 4
    """Number of packets after a decrease that the ratios need before the next decision [not given]."""
    queue_limit_packets: float = 2.0
    """Own packets in a standing queue that cause a decrease [our choice: any rate above capacity fills a queue]."""
    queue_free_packets: float = 1.0
    """Own packets in a standing queue above which the rate does not increase [our choice: the queue must drain first].
    """
    clock_slack: float = 0.002
    """Clock skew that does not count as a queue [our choice: ten times that of a bad crystal]."""

    pair_share: float = 0.50
    """Share of the packet pair's rate at which the flow starts [not given: other flows may be present]."""
    loss_window_packets: int = 32
    """Number of transmissions over which losses are counted [not given]."""
    initial_loss_share: float = 0.10
    """Share of random losses that is expected before any were measured [paper 001, section I: 1 to 10 % of packets]."""
    max_loss_share: float = 0.25
    """Maximum share of losses that may be learned as random [not given]."""
    loss_gain: float = 1 / 8
    """Weight of a new window in the mean of random losses [not given: as for the RTT, RFC 6298]."""
    loss_deviations: float = 4.0
    """Standard deviations above the mean that still count as random [not given: as for the RTO, RFC 6298]."""
    reorder_packets: int = 3
    """Later packets that must arrive before a missing one is retransmitted [not given: three in RFC 5681]."""

    acks_per_rtt: float = 2.0
    """Number of acknowledgments per round trip that the sender requests [not given]."""
    min_ack_interval_ns: int = 50 * NS_PER_MS
    """Minimum time between two acknowledgments, whatever the peer requests [not given]."""
    max_ack_interval_ns: int = 2 * NS_PER_S
    """Maximum time between two acknowledgments [not given]."""
    min_silence_ns: int = NS_PER_S
    """Minimum time without an acknowledgment that means blackout [not given: minimum RTO of RFC 6298]."""
    probe_ns: int = NS_PER_S
    """Time between two probes in a blackout [not given]."""
    handshake_ns: int = 3 * NS_PER_S
    """Time between two attempts to connect [not given: RFC 2988's 3 s; round trips here take up to 4 s]."""
    give_up_ns: int = 3600 * NS_PER_S
    """Time without a packet of the peer after which the connection ends with an error [not given]."""
    linger_ns: int = 60 * NS_PER_S
    """Time for which a finished end still answers a peer that missed the last acknowledgment [RFC 9293: 2 MSL]."""

    send_buffer_bytes: int = 1 << 16
    """Maximum number of written bytes that are not acknowledged."""
    receive_buffer_bytes: int = 1 << 16
    """Maximum advertised window."""
    max_holes: int = 256
    """Maximum number of separate ranges that the receiver stores out of order.

    Others are dropped and counted."""

    def __post_init__(self) -> None:
        for key, (minimum, most) in _RANGES.items():
            _check_range(key, getattr(self, key), minimum, most)
        for low, high in _ORDERED:
            _check_order(self, low, high)

    @property
    def packet_bits(self) -> int:
        """Bits of the longest IP packet."""
        return self.packet_bytes * BITS_PER_BYTE

    @property
    def initial_rate_bps(self) -> float:
        """The rate before any measurement, within the bounds."""
        return self.bounded_bps(self.initial_rate_packets_per_s * self.packet_bits)

    def bounded_bps(self, rate_bps: float) -> float:
        """Return `rate_bps`, limited to the minimum and maximum rate of this configuration."""
        return min(max(rate_bps, self.min_rate_bps), self.max_rate_bps)


_ABOVE_0 = 1e-6  # a fraction that is not 0, and too small to be meant
_RANGES = MappingProxyType(
    {
        "packet_bytes": (MIN_PACKET_BYTES, MAX_PACKET_BYTES),
        "initial_rate_packets_per_s": (0.001, 1e6),
        "min_rate_bps": (1.0, MAX_RATE_BPS),
        "max_rate_bps": (1.0, MAX_RATE_BPS),
        "alpha_plus": (_ABOVE_0, 1.0),
        "alpha_minus": (_ABOVE_0, 1.0),
        "beta_plus": (_ABOVE_0, 1.0),
        "beta_minus": (_ABOVE_0, 1.0),
        "long_gain": (_ABOVE_0, 1.0),
        "short_gain": (_ABOVE_0, 1.0),
        "increase_packets_per_s": (_ABOVE_0, 1e6),
        "delta": (_ABOVE_0, 1 - _ABOVE_0),
        "max_delta": (_ABOVE_0, 1 - _ABOVE_0),
        "congestion_share": (_ABOVE_0, 1 - _ABOVE_0),
        "decision_packets": (1, 1000),
        "queue_limit_packets": (0.1, 1e6),
        "queue_free_packets": (0.0, 1e6),
        "clock_slack": (0.0, 0.1),
        "pair_share": (_ABOVE_0, 1.0),
        "loss_window_packets": (4, 1024),
        "initial_loss_share": (0.0, 1.0),
        "max_loss_share": (0.0, 1.0),
        "loss_gain": (_ABOVE_0, 1.0),
        "loss_deviations": (0.0, 100.0),
        "reorder_packets": (1, 1000),
        "acks_per_rtt": (0.01, 100.0),
        "min_ack_interval_ns": (NS_PER_MS, _MAX_TIME_NS),
        "max_ack_interval_ns": (NS_PER_MS, 60 * NS_PER_S),
        "min_silence_ns": (NS_PER_MS, _MAX_TIME_NS),
        "probe_ns": (NS_PER_MS, _MAX_TIME_NS),
        "handshake_ns": (NS_PER_MS, _MAX_TIME_NS),
        "give_up_ns": (NS_PER_MS, _MAX_TIME_NS),
        "linger_ns": (0, _MAX_TIME_NS),
        "send_buffer_bytes": (MAX_PACKET_BYTES, _MAX_BUFFER_BYTES),
        "receive_buffer_bytes": (MAX_PACKET_BYTES, _MAX_BUFFER_BYTES),
        "max_holes": (1, 4096),
    }
)
"""Minimum and maximum of each key; the packet field for the ACK interval holds at most 60 s."""

_ORDERED = (
    ("alpha_minus", "alpha_plus"),
    ("beta_minus", "beta_plus"),
    ("min_rate_bps", "max_rate_bps"),
    ("delta", "max_delta"),
    ("queue_free_packets", "queue_limit_packets"),
    ("min_ack_interval_ns", "max_ack_interval_ns"),
)
"""Pairs of keys whose first value must not exceed the second: no ratio may cause both increase and decrease."""


def _check_range(key: str, value: object, minimum: float, most: float) -> None:
    complete = isinstance(minimum, int)
    number = value if isinstance(value, int) or (isinstance(value, float) and not complete) else math.nan
    if isinstance(value, bool) or not minimum <= number <= most:
        kind = "a whole number" if complete else "a number"
        raise LocalProtocolError(f'"{key}" must be {kind} from {minimum:g} to {most:g}, but is {value!r}')


def _check_order(config: WtcpConfig, low: str, high: str) -> None:
    if getattr(config, low) > getattr(config, high):
        values = f"{getattr(config, low):g} and {getattr(config, high):g}"
        raise LocalProtocolError(f'"{low}" must be at most "{high}", but the values are {values}')


class WtcpState(StrEnum):
    """States of a connection, with TCP's names where the meaning is the same (RFC 9293, section 3.3.2)."""

    CLOSED = "CLOSED"
    LISTEN = "LISTEN"
    """Waits for a SYN, or has answered one and waits for the proof of the address."""
    SYN_SENT = "SYN-SENT"
    ESTABLISHED = "ESTABLISHED"
    """Data may be sent in both directions; either end may have closed its direction."""
    TIME_WAIT = "TIME-WAIT"
    """Both directions are complete; retransmissions of the peer are still answered."""


class RateCause(StrEnum):
    """Reason for which the receiver changed the rate."""

    PAIR = "pair"
    """The packet pair of the start-up arrived."""
    INCREASE = "increase"
    """Both ratios are above their upper thresholds."""
    RATIO = "ratio"
    """A ratio is below its lower threshold."""
    QUEUE = "queue"
    """A standing queue grew while the rate was constant (our rule)."""
    LOSS = "loss"
    """More packets were lost than random losses explain."""


class RateChanged(NamedTuple):
    """The receiver of this end has computed a new rate for the peer."""

    time_ns: int
    rate_bps: float
    cause: RateCause
    long_ratio: float
    """Receiving rate divided by sending rate, long-term average; NaN before the first packet."""
    short_ratio: float
    queue_ns: int
    """Estimated delay of the standing queue."""
    lost: int
    """Number of packets missing in the loss window."""
    expected_lost: float
    """Maximum number of losses that are random."""


class RateReceived(NamedTuple):
    """The peer asked this end to change its sending rate."""

    time_ns: int
    rate_bps: float
    """Requested rate, within the bounds of the configuration."""


class StateChanged(NamedTuple):
    """The connection has entered another state."""

    time_ns: int
    state: WtcpState


class BlackoutBegan(NamedTuple):
    """No acknowledgment arrived for the threshold time: probes are sent instead of data."""

    time_ns: int
    silent_ns: int
    """Time since the last acknowledgment, or since the oldest unacknowledged data were sent."""


class BlackoutEnded(NamedTuple):
    """An acknowledgment has arrived again."""

    time_ns: int
    lasted_ns: int
    probes: int


class Lost(NamedTuple):
    """A transmission counts as lost; its data are retransmitted."""

    time_ns: int
    number: int
    """Number of the transmission."""
    offset: int
    """Position of its first byte in the stream."""
    length_bytes: int


WtcpEvent = RateChanged | RateReceived | StateChanged | BlackoutBegan | BlackoutEnded | Lost


@dataclass(slots=True)
class WtcpCounters:
    """Counts since the start of the connection; dropped packets are counted by reason."""

    packets_sent: int = 0
    packets_received: int = 0
    sent_octets: int = 0
    """Octets of WTCP packets, without the headers of IP and UDP."""
    received_octets: int = 0
    data_sent: int = 0
    """Transmissions with data, retransmissions included."""
    data_received: int = 0
    payload_sent_bytes: int = 0
    """Payload bytes that were sent, retransmissions included."""
    retransmissions: int = 0
    acks_sent: int = 0
    acks_received: int = 0
    acks_lost: int = 0
    """Number of missing acknowledgments, by gaps in their numbers."""
    probes_sent: int = 0
    blackouts: int = 0
    delivered_bytes: int = 0
    """Bytes that arrived in order."""
    arrived_bytes: int = 0
    """Payload bytes that arrived, in order or not, each counted once."""
    arrived_packets: int = 0
    """Transmissions that carried such payload."""
    acknowledged_bytes: int = 0
    increases: int = 0
    decreases: int = 0
    """Decreases of the rate because of a ratio or a standing queue."""
    halvings: int = 0
    """Decreases of the rate because of congestion losses."""
    missing: int = 0
    """Transmissions that were missing when a later one arrived."""
    late: int = 0
    """Missing transmissions that arrived late."""

    malformed: int = 0
    """Datagrams that are not WTCP packets."""
    wrong_identity: int = 0
    """Packets of another connection, or forged packets."""
    unexpected: int = 0
    """Packets that the state does not allow."""
    duplicates: int = 0
    """Data that had arrived before."""
    beyond_window: int = 0
    """Data outside the advertised window, after the end of the stream, or with too many holes."""
    impossible_acks: int = 0
    """Acknowledgments of data that were never sent."""
    impossible_times: int = 0
    """Round trips that would be negative by the peer's times."""
    rates_out_of_bounds: int = 0
    """Requested rates outside the bounds of the configuration."""
    overflowed_events: int = 0
    """Events that were dropped because `take_events` was not called in time."""
