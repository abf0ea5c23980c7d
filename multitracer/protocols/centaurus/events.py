"""The events that CentaurusComm reports to the application, and its counters."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

Address = Hashable
"""Address of a peer: (host, port) over UDP, (line, station) on a serial line."""


class ObjectDelivered(NamedTuple):
    """The peer acknowledged an object."""

    time_ns: int
    peer: Address
    handle: int
    """Handle of the object, as `send` returned it."""
    sessions: int
    """Number of sessions in which the object was offered."""
    segments: int
    """Number of segments of the object."""
    segments_sent: int
    """Number of segments sent for it, retransmissions included."""


class Received(NamedTuple):
    """A complete object; it is reported once, and must be processed before the worker is called again."""

    time_ns: int
    peer: Address
    kind: int
    """Class of the object."""
    stamp_ns: int
    """Time stamp of the sender, ns since 1970."""
    data: bytes
    payload_bytes: int
    """Payload bytes that arrived for it, duplicates included."""
    began_ns: int
    """Time at which the first segment arrived, ns."""


class Rejected(NamedTuple):
    """The peer rejected an object; it is no longer sent."""

    time_ns: int
    peer: Address
    handle: int
    reason: str
    """class, newer or size; a number if the peer's reason is not known."""
    segments_sent: int


class Expired(NamedTuple):
    """An object's lifetime ended before the peer acknowledged it; it is no longer sent."""

    time_ns: int
    peer: Address
    handle: int
    sessions: int
    segments_sent: int


class SessionEnded(NamedTuple):
    """A session has ended."""

    time_ns: int
    peer: Address
    session: int
    cause: str
    """Reason of the end.

    complete, watchdog, cap, replaced (by a session of the peer), unanswered (serial line), crowded out."""
    started_ns: int
    sent_bytes: int
    """Bytes of the packets that this end sent, with headers of Level I."""
    received_bytes: int


class ClockCompared(NamedTuple):
    """Offset between the clocks of both ends, from the exchange with the shortest round trip."""

    time_ns: int
    peer: Address
    offset_ns: int
    """The peer's clock minus this end's clock."""
    uncertainty_ns: int
    """Half the time between question and answer: the true offset is within this of `offset_ns`."""


class PeerFound(NamedTuple):
    """Serial line: a slave answered its first poll."""

    time_ns: int
    peer: Address


class PeerLost(NamedTuple):
    """Serial line: a slave did not answer several consecutive polls."""

    time_ns: int
    peer: Address


Event = ObjectDelivered | Received | Rejected | Expired | SessionEnded | ClockCompared | PeerFound | PeerLost


@dataclass(slots=True)
class Counters:
    """Counts of dropped packets and sessions since the start, by reason."""

    packets_received: int = 0
    packets_sent: int = 0
    malformed: int = 0
    """Datagrams that are not CentaurusComm packets, or contain no message of Level II."""
    checksum: int = 0
    authentication: int = 0
    unknown_session: int = 0
    """Packets of unknown sessions: late or spoofed ones."""
    refused: int = 0
    """Offers that were not answered because of a limit on peers or memory."""
    crowded_out: int = 0
    """Sessions of unproven peers that were ended to accept newer ones."""
    amplification: int = 0
    """Packets not sent, because they exceed the bytes that an unproven peer sent."""
    duplicate_segments: int = 0
    forgotten_partials: int = 0
    """Partly received objects that were deleted: expired, superseded by a newer stamp, or crowded out."""
