"""The events of the data link's layers; the class names are the event names in rlpdump's log.

Each class is one kind of event. The first two fields are always the time (`time_ns`, as the driver passed it) and
`tick`, the number of the slot: 20 ms of GSM, 3.125 ms of CDPD, 0.625 ms of Bluetooth, 20 ms of cdma2000. The log
contains the class name in snake case and the field names, so a new field is logged and read without other changes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# Events of a channel that carries packets in pieces (CDPD, Bluetooth); part of `LinkEvent`.


STREAM_BITS = 40
"""Distance between the stream offsets of two mobiles in the log of the fixed side, as a power of two.

Streams do not overlap, because no run sends a terabyte; 30 streams are below rlpdump's limit of 2**53."""


class PieceSent(NamedTuple):
    """A link frame was sent with a part of a packet: an I frame of MDLP, or a Bluetooth ACL packet."""

    time_ns: int
    """Time at which the transmission ended."""
    tick: int
    air_us: int
    """Time on air in µs, from the first bit to the last."""
    wire_bytes: int
    """Octets of the link frame with its headers."""
    offset_bytes: int
    """Position of the frame's first octet of information in the sender's stream."""
    attempts: int
    """Number of the transmission; 1 for the first one."""
    ip_id: int | None = None
    seq: int | None = None
    """Sequence number of the packet in the frame; of several packets, that of the first."""
    cause: str = ""
    """Reason of a retransmission: srej, poll, arq."""


class PieceReceived(NamedTuple):
    """A link frame with a part of a packet arrived intact at this side."""

    time_ns: int
    tick: int
    wire_bytes: int
    offset_bytes: int
    ip_id: int | None = None
    seq: int | None = None
    cause: str = ""
    """Reason why the frame was discarded: duplicate; reset while the link is set up again."""


class PieceLost(NamedTuple):
    """A link frame with a part of a packet did not arrive; the receiver may not know this."""

    time_ns: int
    tick: int
    wire_bytes: int
    offset_bytes: int
    ip_id: int | None = None
    seq: int | None = None
    cause: str = ""
    """Reason: block (not decoded), outage (no channel), loss (on a link without error recovery)."""


class BurstSent(NamedTuple):
    """A burst of blocks on a channel; on a contended channel, the blocks of one access."""

    time_ns: int
    """Time at which the burst ended; it began `air_us` earlier."""
    tick: int
    air_us: int
    blocks: int
    """Number of blocks sent, with undecoded ones."""
    cause: str = ""
    """Reason of its end: done, full, collision, undecoded, outage."""


class RateAssigned(NamedTuple):
    """A mobile's channel has a new data rate, in the direction in which this side sends (cdma2000)."""

    time_ns: int
    tick: int
    rate_bps: int
    """Rate of the channel; 9600 is the fundamental channel only."""
    queue_bytes: int
    """Bytes that wait in the queue."""
    offset_bytes: int
    """Stream offset of the mobile, which identifies it in the log of the fixed side."""


class NakSent(NamedTuple):
    """A NAK was sent: it requests missing octets from the other side (RLP type 3, C.S0017)."""

    time_ns: int
    tick: int
    attempts: int
    """Number of the NAK round, from 1."""
    wire_bytes: int
    """Number of missing octets."""
    offset_bytes: int
    """Position of the first missing octet in the other side's stream."""


class NakGivenUp(NamedTuple):
    """The last round of NAKs failed; the octets after the missing ones are delivered."""

    time_ns: int
    tick: int
    attempts: int
    """Number of rounds."""
    wire_bytes: int
    offset_bytes: int


class AccessWaitStarted(NamedTuple):
    """Data at this side wait for access to a shared channel; this side is not transmitting."""

    time_ns: int
    tick: int
    cause: str = ""
    """Reason: new, full (the previous burst had the maximum length), collision, undecoded, outage."""


class AccessWaitEnded(NamedTuple):
    """The wait for access has ended: a burst begins, or the channel is lost."""

    time_ns: int
    tick: int
    waited_us: int
    deferrals: int
    """Number of times that the channel was found busy during the wait."""
    cause: str = ""
    """Reason: burst, outage, given-up."""


class OutageStarted(NamedTuple):
    """The channel between the two sides is lost from now on."""

    time_ns: int
    tick: int
    cause: str
    """Reason: hop, ejection, blackout, handoff."""


class OutageEnded(NamedTuple):
    """The channel between the two sides is available again."""

    time_ns: int
    tick: int
    cause: str


class FrameSent(NamedTuple):
    """A frame was sent. Idle RR and NULL frames are only counted."""

    time_ns: int
    tick: int
    octets: bytes
    offset_bytes: int | None = None
    """Position of the frame's first user octet in the sender's stream; None if it carries none."""
    attempt: int = 1
    """Number of the transmission of this information, from 1; for polls and commands, of the attempt."""
    cause: str = ""
    """Reason of a retransmission: srej, rej, checkpoint; of a poll: t1."""


class FrameReceived(NamedTuple):
    """A frame arrived intact at this side. Idle RR and NULL frames are only counted."""

    time_ns: int
    tick: int
    octets: bytes
    fate: str = ""
    """How the receiver handled the frame.

    delivered, stored, duplicate or refused (information frames); ignored, with the reason state or content
    (any frame); empty for control frames that took effect."""


class FrameLost(NamedTuple):
    """No frame could be decoded in this slot."""

    time_ns: int
    tick: int
    octets: bytes = b""
    """Damaged octets, if the radio delivers them; empty if it does not."""


class Connected(NamedTuple):
    """The link is set up: a UA answered the SABM."""

    time_ns: int
    tick: int
    version: int
    window: int
    t1_ms: int
    n2: int


class T1Expired(NamedTuple):
    """The oldest frame was not acknowledged within T1: the peer is polled (checkpoint recovery)."""

    time_ns: int
    tick: int
    polls: int
    """Number of consecutive polls, with this one."""


class ResetStarted(NamedTuple):
    """The reset of the link begins."""

    time_ns: int
    tick: int
    cause: str
    """Reason: n2 (a frame or poll was sent N2 times), peer (SABM received), forced (the user requested it)."""
    n_s: int | None = None
    """Sequence number of the frame that failed; None for another reason."""
    attempts: int | None = None
    """Number of transmissions of the frame, or of polls."""


class Flushed(NamedTuple):
    """A reset or a release discarded data."""

    time_ns: int
    tick: int
    unacked_bytes: int
    """User octets that were sent and not acknowledged; the peer may have received some of them."""
    unsent_bytes: int
    """User octets that were accepted and never sent."""
    stored_frames: int
    """Frames that were received out of order and not delivered."""


class ResetDone(NamedTuple):
    """The reset is complete: both ends number from 0 again."""

    time_ns: int
    tick: int


class CallDropped(NamedTuple):
    """The data call has ended without a release."""

    time_ns: int
    tick: int
    cause: str
    """Reason: n2 (this side gave up instead of a reset), lost (the layer below lost the channel)."""


class Disconnected(NamedTuple):
    """The link is released, or could not be set up."""

    time_ns: int
    tick: int
    cause: str
    """Reason: local, peer, refused (DM), no-answer."""


class PeerBusy(NamedTuple):
    """The peer sent RNR after RR: this side must send no new frames."""

    time_ns: int
    tick: int


class PeerReady(NamedTuple):
    """The peer sent RR after RNR: this side may send again."""

    time_ns: int
    tick: int


class XoffSent(NamedTuple):
    """The buffer of this side has exceeded its upper threshold; the peer is asked to stop."""

    time_ns: int
    tick: int
    buffer_bytes: int


class XonSent(NamedTuple):
    """The buffer of this side has fallen below its lower threshold; the peer may continue."""

    time_ns: int
    tick: int
    buffer_bytes: int


class XoffReceived(NamedTuple):
    """The peer's status octets changed to "flow control active"."""

    time_ns: int
    tick: int


class XonReceived(NamedTuple):
    """The peer's status octets changed back to "flow control inactive"."""

    time_ns: int
    tick: int


class PacketQueued(NamedTuple):
    """A packet entered the interface queue."""

    time_ns: int
    tick: int
    queue_packets: int
    """Number of packets in the queue, with this one."""
    ip_bytes: int
    ip_id: int | None = None
    seq: int | None = None
    """TCP sequence number of the packet, 32 bits."""


class PacketDropped(NamedTuple):
    """A packet was dropped, because the interface queue was full or by the queue's policy."""

    time_ns: int
    tick: int
    queue_packets: int
    ip_bytes: int
    ip_id: int | None = None
    seq: int | None = None
    cause: str = ""
    """Reason: full, codel, closed."""


class PacketMarked(NamedTuple):
    """A packet was marked CE instead of dropped (RFC 3168)."""

    time_ns: int
    tick: int
    queue_packets: int
    ip_bytes: int
    ip_id: int | None = None
    seq: int | None = None


class PppSent(NamedTuple):
    """A PPP frame was written to the link."""

    time_ns: int
    tick: int
    protocol: int
    """PPP protocol number: 0x21 IP, 0x2d VJ compressed, 0x2f VJ uncompressed."""
    ip_bytes: int
    """Length of the IP packet before header compression."""
    wire_bytes: int
    """Octets of the PPP frame with flags and escapes."""
    offset_bytes: int | None
    """Position of its first octet in the stream that is passed to the link; None in UI frames, outside of it."""
    ip_id: int | None = None
    seq: int | None = None
    """TCP sequence number before compression, 32 bits."""


class PppReceived(NamedTuple):
    """A PPP frame arrived with a correct FCS."""

    time_ns: int
    tick: int
    protocol: int
    ip_bytes: int | None
    """Length of the delivered IP packet; None if the decompressor discarded it."""
    wire_bytes: int
    ip_id: int | None = None
    seq: int | None = None
    """TCP sequence number as reconstructed; wrong after a lost compressed packet."""


class PppDamaged(NamedTuple):
    """A PPP frame was discarded by its receiver."""

    time_ns: int
    tick: int
    cause: str
    """Reason: fcs, short, abort, long."""
    wire_bytes: int


class VjTossed(NamedTuple):
    """A compressed packet was discarded because the decompressor waits for a slot id (RFC 1144, 4.1)."""

    time_ns: int
    tick: int


class IdleFrames(NamedTuple):
    """Number of idle frames since the last event of this class."""

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
"""Event classes by their name in the log."""
EVENT_NAMES: dict[type[LinkEvent], str] = {kind: name for name, kind in LINK_EVENTS.items()}
"""Names in the log by event class, for the lines of a log."""
