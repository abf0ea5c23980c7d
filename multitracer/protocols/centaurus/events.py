"""The events that CentaurusComm reports to the application, and its counters."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

Address = Hashable
"""A peer: of UDP (host, port), of a serial line (line, station)."""


class ObjectDelivered(NamedTuple):
    """The peer acknowledged an object."""

    time_ns: int
    peer: Address
    handle: int
    """Handle of the object, as `send` returned it."""
    sessions: int
    """Number of sessions in which the object was offered."""
    segments: int
    """Segments into which it was cut."""
    segments_sent: int
    """Segments put on the wire for it, repetitions included."""


class Received(NamedTuple):
    """An object is complete: reported once, and handled before the worker is called again."""

    time_ns: int
    peer: Address
    kind: int
    """The object's class."""
    stamp_ns: int
    """Time stamp of the sender."""
    data: bytes
    payload_bytes: int
    """Payload bytes that arrived for it, duplicates included."""
    began_ns: int
    """Time at which the first segment arrived."""


class Rejected(NamedTuple):
    """The peer rejected an object; it is no longer sent."""

    time_ns: int
    peer: Address
    handle: int
    reason: str
    """class, newer, size; a number if the peer's reason is not known."""
    segments_sent: int


class Expired(NamedTuple):
    """An object's lifetime ended before the peer acknowledged it; it is no longer sent."""

    time_ns: int
    peer: Address
    handle: int
    sessions: int
    segments_sent: int


class SessionEnded(NamedTuple):
    """A session is over."""

    time_ns: int
    peer: Address
    session: int
    cause: str
    """complete, watchdog, cap, replaced (by a session of the peer), unanswered (a poll), crowded out."""
    started_ns: int
    sent_bytes: int
    """Bytes of the packets that this end sent, headers of Level I included."""
    received_bytes: int


class ClockCompared(NamedTuple):
    """The tightest comparison of two clocks in a session."""

    time_ns: int
    peer: Address
    offset_ns: int
    """The peer's clock less this one's."""
    uncertainty_ns: int
    """Half the time between question and answer: the offset is surely within it."""


class PeerFound(NamedTuple):
    """Serial: a slave answered its first poll."""

    time_ns: int
    peer: Address


class PeerLost(NamedTuple):
    """Serial line: a slave did not answer several polls."""

    time_ns: int
    peer: Address


Event = ObjectDelivered | Received | Rejected | Expired | SessionEnded | ClockCompared | PeerFound | PeerLost


@dataclass(slots=True)
class Counters:
    """Counts of dropped packets and sessions since the start, by reason."""

    packets_received: int = 0
    packets_sent: int = 0
    malformed: int = 0
    """Datagrams that are not CentaurusComm packets, or hold no message of Level II."""
    checksum: int = 0
    authentication: int = 0
    unknown_session: int = 0
    """Late packets of sessions that are over, and spoofed ones."""
    refused: int = 0
    """Offers that were not answered because of a limit on peers or memory."""
    crowded_out: int = 0
    """Sessions of unproven peers that were ended to accept newer ones."""
    amplification: int = 0
    """Packets not sent, because an unproven peer had not sent a third of them."""
    duplicate_segments: int = 0
    forgotten_partials: int = 0
    """Partial objects deleted: expired, superseded by a newer stamp, or crowded out."""
