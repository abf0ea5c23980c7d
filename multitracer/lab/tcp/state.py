"""The public types of our TCP: states, counters, readings, and the fields of an ACK."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.lab.tcp.packet import Segment


class ConnectionState(StrEnum):
    """States of a connection (RFC 9293, section 3.3.2)."""

    CLOSED = "CLOSED"
    LISTEN = "LISTEN"
    SYN_SENT = "SYN-SENT"
    SYN_RECEIVED = "SYN-RECEIVED"
    ESTABLISHED = "ESTABLISHED"
    FIN_WAIT_1 = "FIN-WAIT-1"
    FIN_WAIT_2 = "FIN-WAIT-2"
    CLOSE_WAIT = "CLOSE-WAIT"
    CLOSING = "CLOSING"
    LAST_ACK = "LAST-ACK"
    TIME_WAIT = "TIME-WAIT"

    __hash__ = str.__hash__  # asked for every packet: that of an Enum is a call in Python


class CongestionState(StrEnum):
    """State of the congestion control, with Linux' names (`tcpi_ca_state`)."""

    OPEN = "open"
    DISORDER = "disorder"
    """Fewer than three duplicate ACKs."""
    CWR = "cwr"
    """The window is reduced after an ECN echo."""
    RECOVERY = "recovery"
    """Fast recovery, or SACK-based recovery."""
    LOSS = "loss"
    """Retransmission after a timeout."""

    __hash__ = str.__hash__


@dataclass(slots=True)
class SenderCounters:
    """Counters since the start of the connection."""

    segments: int = 0
    payload_bytes: int = 0
    """Payload bytes that were sent, retransmissions included."""
    retransmitted_segments: int = 0
    retransmitted_bytes: int = 0
    timeouts: int = 0
    fast_retransmits: int = 0
    """Number of times that fast or SACK recovery was entered."""
    dsacks: int = 0
    undone: int = 0
    """Number of needless reductions that were undone."""
    ecn_reductions: int = 0
    zero_window_probes: int = 0
    local_drops: int = 0
    """Number of packets that the local interface refused."""

    def note_sent(self, payload_bytes: int, *, again: bool, copies: int = 1) -> None:
        """Count a sent segment; `again` if it is a retransmission. With `copies` -1, undo the count."""
        self.segments += copies
        self.payload_bytes += payload_bytes
        if again:
            self.retransmitted_segments += copies
            self.retransmitted_bytes += payload_bytes


@dataclass(slots=True, kw_only=True)  # made of every ACK: frozen it takes 2.6 times as long
class AckInfo:
    """The fields of an arriving segment that the sender needs, unwrapped and scaled."""

    seq: int
    """Sequence number of the segment, in the peer's units; it shows which of two windows is newer."""
    ack: int
    window_bytes: int
    blocks: tuple[tuple[int, int], ...] = ()
    pure: bool = True
    """Whether it has no payload, SYN or FIN, and so may be a duplicate ACK."""
    echoed_ns: int | None = None
    """Time at which the echoed TSval was created; None if none is echoed."""
    ece: bool = False


def earlier(one_ns: int | None, other_ns: int | None) -> int | None:
    """Return the earlier of two times; None if both are None."""
    if one_ns is None or other_ns is None:
        return other_ns if one_ns is None else one_ns
    return min(one_ns, other_ns)


class AnswerLimit:
    """Limits the rate of ACKs that answer an unacceptable segment without data.

    Two ends with contradicting states would otherwise answer each other without end (RFC 5961, section 7;
    Linux tcp_invalid_ratelimit).
    """

    GAP_NS = 500 * NS_PER_MS

    def __init__(self) -> None:
        self._last_ns = -self.GAP_NS

    def allow(self, segment: Segment, *, now_ns: int) -> bool:
        """Return whether to answer an unacceptable segment: always with data, else at a limited rate."""
        if segment.payload:
            return True
        if now_ns - self._last_ns < self.GAP_NS:
            return False
        self._last_ns = now_ns
        return True
