"""The events of the data link's layers, under the names of rlpdump's log.

Each class is one kind of event. The first two fields are always when (`time_ns`, as the driver passed it,
and `tick`, the number of the slot: 20 ms of GSM, 3.125 ms of CDPD, 0.625 ms of Bluetooth, 20 ms
of cdma2000). The log calls an
event by its class name in snake case and its fields by theirs, so a field added here is logged and read
without further ado.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# Events of a channel that carries packets in pieces (CDPD, Bluetooth); part of `LinkEvent`.


STREAM_BITS = 40
"""Distance between the stream offsets of two mobiles, as a power of two, so that they do not overlap in the
log of the fixed side: no run sends a terabyte, and 30 streams stay below the limit 2**53 of rlpdump."""


class PieceSent(NamedTuple):
    """A link frame was sent with a part of a packet: an I frame of MDLP, or a Bluetooth ACL packet."""

    time_ns: int
    """Time at which the transmission ended."""
    tick: int
    air_us: int
    """Time on air, from the first bit to the last."""
    wire_bytes: int
    """Octets of the link frame, its headers included."""
    offset_bytes: int
    """Position of its first octet of information in the sender's stream."""
    attempts: int
    """1 for the first transmission."""
    ip_id: int | None = None
    seq: int | None = None
    """Sequence number of the packet that the frame carries; of several packets, that of the first."""
    cause: str = ""
    """Why it was sent again: srej, poll, arq."""


class PieceReceived(NamedTuple):
    """A link frame with a part of a packet arrived intact at this side."""

    time_ns: int
    tick: int
    wire_bytes: int
    offset_bytes: int
    ip_id: int | None = None
    seq: int | None = None
    cause: str = ""
    """Why the frame was discarded: duplicate; reset while the link is set up again."""


class PieceLost(NamedTuple):
    """A link frame with a part of a packet did not arrive; the model knows it, the receiver may not."""

    time_ns: int
    tick: int
    wire_bytes: int
    offset_bytes: int
    ip_id: int | None = None
    seq: int | None = None
    cause: str = ""
    """block: not decoded; outage: no channel; loss: on a link without error recovery."""


class BurstSent(NamedTuple):
    """A burst of blocks on a channel; on a contended one, those of one access."""

    time_ns: int
    """Time at which the burst ended; it began `air_us` before."""
    tick: int
    air_us: int
    blocks: int
    """Blocks sent, the undecoded ones included."""
    cause: str = ""
    """Why it ended: done, full, collision, undecoded, outage."""


class RateAssigned(NamedTuple):
    """A mobile's channel has this rate from now on, in the direction of this side's data (cdma2000)."""

    time_ns: int
    tick: int
    rate_bps: int
    """Rate of the channel; 9600 is the fundamental channel alone."""
    queue_bytes: int
    """Bytes that waited in the queue."""
    offset_bytes: int
    """Stream offset of the mobile: in the log of the fixed side it identifies the mobile."""


class NakSent(NamedTuple):
    """A NAK asks the other side for octets that are missing (RLP type 3, C.S0017)."""

    time_ns: int
    tick: int
    attempts: int
    """Number of the NAK round, from 1."""
    wire_bytes: int
    """Octets that are missing."""
    offset_bytes: int
    """Position of the first of them in the other side's stream."""


class NakGivenUp(NamedTuple):
    """The last round of NAKs failed: the octets after the missing ones are delivered without them."""

    time_ns: int
    tick: int
    attempts: int
    """Rounds."""
    wire_bytes: int
    offset_bytes: int


class AccessWaitStarted(NamedTuple):
    """Data at this side wait for access to a shared channel; none is being transmitted."""

    time_ns: int
    tick: int
    cause: str = ""
    """Reason: new, full (the previous burst had the maximum length), collision, undecoded, outage."""


class AccessWaitEnded(NamedTuple):
    """The wait for access ended: a burst begins, or the channel is lost."""

    time_ns: int
    tick: int
    waited_us: int
    deferrals: int
    """How often the channel was found busy in it."""
    cause: str = ""
    """burst, outage, given-up."""


class OutageStarted(NamedTuple):
    """The channel between the two sides is lost from now on."""

    time_ns: int
    tick: int
    cause: str
    """hop, ejection, blackout."""


class OutageEnded(NamedTuple):
    """The channel is back."""

    time_ns: int
    tick: int
    cause: str


class FrameSent(NamedTuple):
    """A frame was sent. Idle RR and NULL frames are counted, not reported."""

    time_ns: int
    tick: int
    octets: bytes
    offset_bytes: int | None = None
    """Position of its first user octet in the sender's stream; None if it carries none."""
    attempt: int = 1
    """1 for the first transmission of this information; of polls and commands, which try it is."""
    cause: str = ""
    """Why it was sent again: srej, rej, checkpoint; why a poll was sent: t1."""


class FrameReceived(NamedTuple):
    """A frame arrived intact at this side. Idle RR and NULL frames are counted, not reported."""

    time_ns: int
    tick: int
    octets: bytes
    fate: str = ""
    """What the receiver did: delivered, stored, duplicate or refused (information frames); ignored, with the
    reason state or content (any frame); empty for control frames that took effect."""


class FrameLost(NamedTuple):
    """A slot in which no frame could be decoded."""

    time_ns: int
    tick: int
    octets: bytes = b""
    """Damaged octets, if the radio delivers them; empty if it does not."""


class Connected(NamedTuple):
    """The link is set up: SABM was answered by UA."""

    time_ns: int
    tick: int
    version: int
    window: int
    t1_ms: int
    n2: int


class T1Expired(NamedTuple):
    """The oldest frame stayed unacknowledged for T1: the peer is polled (checkpoint recovery)."""

    time_ns: int
    tick: int
    polls: int
    """Polls sent in a row, this one included."""


class ResetStarted(NamedTuple):
    """The link is being reset."""

    time_ns: int
    tick: int
    cause: str
    """Reason: n2 (a frame or poll was repeated N2 times), peer (SABM received), forced (the user asked)."""
    n_s: int | None = None
    """Number of the frame that failed."""
    attempts: int | None = None
    """How often it was transmitted, or the peer polled."""


class Flushed(NamedTuple):
    """A reset or a release discarded data."""

    time_ns: int
    tick: int
    unacked_bytes: int
    """User octets sent and not acknowledged; the peer may have some of them."""
    unsent_bytes: int
    """User octets accepted and never sent."""
    stored_frames: int
    """Frames received out of order and not delivered."""


class ResetDone(NamedTuple):
    """Both ends number from 0 again."""

    time_ns: int
    tick: int


class CallDropped(NamedTuple):
    """The data call is over, without a release."""

    time_ns: int
    tick: int
    cause: str
    """Reason: n2 (this side gave up instead of resetting), lost (the layer below lost the channel)."""


class Disconnected(NamedTuple):
    """The link is released, or could not be set up."""

    time_ns: int
    tick: int
    cause: str
    """local, peer, refused (DM), no-answer."""


class PeerBusy(NamedTuple):
    """The peer sent RNR after RR: no new frames."""

    time_ns: int
    tick: int


class PeerReady(NamedTuple):
    """The peer sent RR after RNR."""

    time_ns: int
    tick: int


class XoffSent(NamedTuple):
    """The buffer of this side passed its upper threshold; the peer is asked to stop."""

    time_ns: int
    tick: int
    buffer_bytes: int


class XonSent(NamedTuple):
    """The buffer of this side fell below its lower threshold; the peer may go on."""

    time_ns: int
    tick: int
    buffer_bytes: int


class XoffReceived(NamedTuple):
    """The peer's status octets turned to "flow control active"."""

    time_ns: int
    tick: int


class XonReceived(NamedTuple):
    """The peer's status octets turned back."""

    time_ns: int
    tick: int


class PacketQueued(NamedTuple):
    """A packet entered the interface queue."""

    time_ns: int
    tick: int
    queue_packets: int
    """Packets in the queue, this one included."""
    ip_bytes: int
    ip_id: int | None = None
    seq: int | None = None
    """TCP sequence number as on the wire."""


class PacketDropped(NamedTuple):
    """A packet found the interface queue full, or was dropped by its policy."""

    time_ns: int
    tick: int
    queue_packets: int
    ip_bytes: int
    ip_id: int | None = None
    seq: int | None = None
    cause: str = ""
    """full, codel, closed."""


class PacketMarked(NamedTuple):
    """A packet was marked CE instead of dropped (RFC 3168)."""

    time_ns: int
    tick: int
    queue_packets: int
    ip_bytes: int
    ip_id: int | None = None
    seq: int | None = None


class PppSent(NamedTuple):
    """A PPP frame was written into the link."""

    time_ns: int
    tick: int
    protocol: int
    """PPP protocol number: 0x21 IP, 0x2d VJ compressed, 0x2f VJ uncompressed."""
    ip_bytes: int
    """Length of the IP packet before header compression."""
    wire_bytes: int
    """Octets of the PPP frame, flags and escapes included."""
    offset_bytes: int
    """Position of its first octet in the stream handed to the link."""
    ip_id: int | None = None
    seq: int | None = None
    """TCP sequence number as on the wire, before compression."""


class PppReceived(NamedTuple):
    """A PPP frame arrived with a good FCS."""

    time_ns: int
    tick: int
    protocol: int
    ip_bytes: int | None
    """Length of the IP packet handed up; None if the decompressor tossed it."""
    wire_bytes: int
    ip_id: int | None = None
    seq: int | None = None
    """TCP sequence number as reconstructed; wrong after a desynchronisation."""


class PppDamaged(NamedTuple):
    """A PPP frame was discarded by its receiver."""

    time_ns: int
    tick: int
    cause: str
    """fcs, short, abort, long."""
    wire_bytes: int


class VjTossed(NamedTuple):
    """A compressed packet was discarded because the decompressor waits for a slot id (RFC 1144, 4.1)."""

    time_ns: int
    tick: int


class IdleFrames(NamedTuple):
    """How many idle frames were not reported since the last such event."""

    time_ns: int
    tick: int
    sent: int
    received: int


LinkEvent = (
    FrameSent
    | FrameReceived
    | FrameLost
    | Connected
    | T1Expired
    | ResetStarted
    | Flushed
    | ResetDone
    | CallDropped
    | Disconnected
    | PeerBusy
    | PeerReady
    | XoffSent
    | XonSent
    | XoffReceived
    | XonReceived
    | PacketQueued
    | PacketDropped
    | PacketMarked
    | PppSent
    | PppReceived
    | PppDamaged
    | VjTossed
    | IdleFrames
    | PieceSent
    | PieceReceived
    | PieceLost
    | BurstSent
    | AccessWaitStarted
    | AccessWaitEnded
    | OutageStarted
    | OutageEnded
    | RateAssigned
    | NakSent
    | NakGivenUp
)


def event_name(kind: type) -> str:
    """Return the name of an event class in the log.

    Examples
    --------
    >>> event_name(ResetStarted)
    'reset_started'
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


LINK_EVENTS: dict[str, type] = {event_name(kind): kind for kind in LinkEvent.__args__}
"""Every event class by the name that the log gives it."""
EVENT_NAMES: dict[type[LinkEvent], str] = {kind: name for name, kind in LINK_EVENTS.items()}
"""The name of every event class, for each line of a log."""
