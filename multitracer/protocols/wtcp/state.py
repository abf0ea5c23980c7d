"""The types at the border of the WTCP core: states, counters, and what is reported to a log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class WtcpState(StrEnum):
    """States of a connection, with TCP's names where they mean the same (RFC 9293, section 3.3.2)."""

    CLOSED = "CLOSED"
    LISTEN = "LISTEN"
    """Waits for a SYN, or has answered one and waits for the proof of the address."""
    SYN_SENT = "SYN-SENT"
    ESTABLISHED = "ESTABLISHED"
    """Data may go both ways; either end may have closed its direction."""
    TIME_WAIT = "TIME-WAIT"
    """Both directions are complete; repeated packets of the peer are still answered."""


class RateCause(StrEnum):
    """Why the receiver changed the rate."""

    PAIR = "pair"
    """The packet pair of the start-up arrived."""
    INCREASE = "increase"
    """Both ratios are above their upper thresholds."""
    RATIO = "ratio"
    """A ratio is below its lower threshold."""
    QUEUE = "queue"
    """A standing queue grew while the rate was held (ours)."""
    LOSS = "loss"
    """More packets were lost than random losses explain."""


class RateChanged(NamedTuple):
    """The receiver of this end computed a new rate for the peer."""

    time_ns: int
    rate_bps: float
    cause: RateCause
    long_ratio: float
    """Receiving rate by sending rate, long-term average; NaN before the first."""
    short_ratio: float
    queue_ns: int
    """Estimate of the standing queue."""
    lost: int
    """Packets missing in the window of losses."""
    expected_lost: float
    """The most that random losses explain."""


class RateReceived(NamedTuple):
    """The peer asked this end for another sending rate."""

    time_ns: int
    rate_bps: float
    """Within the bounds of the configuration."""


class StateChanged(NamedTuple):
    """The connection entered a state."""

    time_ns: int
    state: WtcpState


class BlackoutBegan(NamedTuple):
    """No acknowledgment came for the threshold time: probes replace data."""

    time_ns: int
    silent_ns: int
    """Time since the last acknowledgment, or since the data left that waits for one."""


class BlackoutEnded(NamedTuple):
    """An acknowledgment arrived again."""

    time_ns: int
    lasted_ns: int
    probes: int


class Lost(NamedTuple):
    """A transmission is held for lost; its bytes are sent again."""

    time_ns: int
    number: int
    """Of the transmission."""
    offset: int
    """Place of its first byte in the stream."""
    length_bytes: int


WtcpEvent = RateChanged | RateReceived | StateChanged | BlackoutBegan | BlackoutEnded | Lost


@dataclass(slots=True)
class WtcpCounters:
    """Counts since the start of the connection; what was dropped is counted by reason."""

    packets_sent: int = 0
    packets_received: int = 0
    sent_octets: int = 0
    """Of WTCP packets, without the headers of IP and UDP."""
    received_octets: int = 0
    data_sent: int = 0
    """Transmissions with data, every copy counted."""
    data_received: int = 0
    payload_sent_bytes: int = 0
    """Of the application, every copy counted."""
    retransmissions: int = 0
    acks_sent: int = 0
    acks_received: int = 0
    acks_lost: int = 0
    """Gaps in the numbers of acknowledgments that arrived."""
    probes_sent: int = 0
    blackouts: int = 0
    delivered_bytes: int = 0
    """Bytes that arrived in order."""
    arrived_bytes: int = 0
    """Payload that arrived, in order or not, each byte once."""
    arrived_packets: int = 0
    """Transmissions that brought such payload."""
    acknowledged_bytes: int = 0
    increases: int = 0
    decreases: int = 0
    """Because of a ratio or a standing queue."""
    halvings: int = 0
    """Because of congestion losses."""
    missing: int = 0
    """Transmissions that did not arrive in their turn."""
    late: int = 0
    """Of those, the ones that arrived after all."""

    malformed: int = 0
    """No packet of ours."""
    wrong_identity: int = 0
    """Packets of another connection, or forged."""
    unexpected: int = 0
    """Packets that the state does not allow."""
    duplicates: int = 0
    """Data that had arrived before."""
    beyond_window: int = 0
    """Data outside the window that was advertised, behind the end, or making too many holes."""
    impossible_acks: int = 0
    """Acknowledgments of what was never sent."""
    impossible_times: int = 0
    """Round trips that a peer's times make negative."""
    rates_out_of_bounds: int = 0
    """Rates outside the configuration that the peer asked for."""
    overflowed_events: int = 0
    """Events that nobody took and that gave way to newer ones."""
