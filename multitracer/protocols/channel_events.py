"""Events of a channel that carries packets in pieces (CDPD, Bluetooth); part of `LinkEvent`."""

from __future__ import annotations

from typing import NamedTuple

STREAM_BITS = 40
"""Streams of mobiles begin this power of two behind each other, so that no two of them overlap in the log of
the fixed side: a terabyte passes in no run, and 30 of them stay below the 2**53 of rlpdump."""


class PieceSent(NamedTuple):
    """A link frame with a piece of a packet has left this side: MDLP's I frame, a Bluetooth ACL packet."""

    time_ns: int
    """When its transmission ended."""
    tick: int
    air_us: int
    """From its first bit to its last."""
    wire_bytes: int
    """Octets of the link frame, its headers included."""
    offset_bytes: int
    """Position of its first octet of information in the sender's stream."""
    attempts: int
    """1 for the first transmission."""
    ip_id: int | None = None
    seq: int | None = None
    """Of the packet that it is a piece of; where it holds several, the first."""
    cause: str = ""
    """Why it was sent again: srej, poll, arq."""


class PieceReceived(NamedTuple):
    """Such a frame arrived intact at this side."""

    time_ns: int
    tick: int
    wire_bytes: int
    offset_bytes: int
    ip_id: int | None = None
    seq: int | None = None
    cause: str = ""
    """Why it was thrown away: duplicate; reset while the link is set up anew."""


class PieceLost(NamedTuple):
    """Such a frame did not arrive at this side; the model knows that, the receiver may not."""

    time_ns: int
    tick: int
    wire_bytes: int
    offset_bytes: int
    ip_id: int | None = None
    seq: int | None = None
    cause: str = ""
    """block: not decoded; outage: there was no channel; loss: behind a channel that recovers none."""


class BurstSent(NamedTuple):
    """A burst of blocks on a channel; on a contended one, those of one access."""

    time_ns: int
    """When it ended; it began `air_us` before."""
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
    """Of the channel; 9600 is the fundamental one alone."""
    queue_bytes: int
    """What waited for it."""
    offset_bytes: int
    """Where the stream of that mobile begins: in the log of the fixed side it tells whose channel it is."""


class NakSent(NamedTuple):
    """A NAK asks the other side for octets that are missing (RLP type 3, C.S0017)."""

    time_ns: int
    tick: int
    attempts: int
    """Which round it is, from 1."""
    wire_bytes: int
    """Octets that are missing."""
    offset_bytes: int
    """Position of the first of them in the other side's stream."""


class NakGivenUp(NamedTuple):
    """The last round of NAKs was in vain: what is behind the missing octets is delivered without them."""

    time_ns: int
    tick: int
    attempts: int
    """Rounds."""
    wire_bytes: int
    offset_bytes: int


class AccessWaitStarted(NamedTuple):
    """Data at this side wait for a contended channel; none of them is being transmitted."""

    time_ns: int
    tick: int
    cause: str = ""
    """new, full (the burst before was as long as one may be), collision, undecoded, outage."""


class AccessWaitEnded(NamedTuple):
    """The wait is over: a burst begins now, or the channel is away."""

    time_ns: int
    tick: int
    waited_us: int
    deferrals: int
    """How often the channel was found busy in it."""
    cause: str = ""
    """burst, outage, given-up."""


class OutageStarted(NamedTuple):
    """The channel between the two sides is away from now on."""

    time_ns: int
    tick: int
    cause: str
    """hop, ejection, blackout."""


class OutageEnded(NamedTuple):
    """The channel is back."""

    time_ns: int
    tick: int
    cause: str
