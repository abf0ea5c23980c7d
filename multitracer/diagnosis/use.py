"""What a moment of the link was used for: the classes of the lost-time account (docs/lost_time.md)."""

from __future__ import annotations

from enum import IntEnum


class Use(IntEnum):
    """What a moment of the link was used for; `label` is its name outside."""

    USEFUL = 0
    """Payload on its way that the receiving TCP got from this carriage first."""
    ARQ = 1
    """The link repeats a frame, or waits for the answer to one."""
    XOFF = 2
    """The far end has stopped the sender."""
    ACCESS = 3
    """Waiting for a contended channel."""
    OUTAGE = 4
    """The link delivers nothing."""
    OTHER = 5
    """Other flows, and pure ACKs."""
    IDLE_APP = 6
    """The application has nothing to send."""
    HANDSHAKE = 7
    """Opening and closing the connection."""
    IDLE_RTO = 8
    """Waiting for the retransmission timer."""
    IDLE_CWND = 9
    """The congestion window is full."""
    IDLE_RWND = 10
    """The advertised window is full."""
    IDLE_SNDBUF = 11
    """The send buffer is full: the application may not write."""
    REDUNDANT = 12
    """Payload that the receiver already had."""
    WASTED = 13
    """Payload that never reached the receiving TCP intact."""
    UNKNOWN = 14
    """None of these."""

    @property
    def label(self) -> str:
        """The name outside: `idle:rto`."""
        return self.name.lower().replace("_", ":")


IDLE = (Use.HANDSHAKE, Use.IDLE_RTO, Use.IDLE_CWND, Use.IDLE_RWND, Use.IDLE_SNDBUF)
"""T_idle of the utilization: TCP could have used the link."""
REPEATED = (Use.REDUNDANT, Use.WASTED)
"""T_redundant of the utilization: TCP used the link in vain."""
LOST = IDLE + REPEATED
"""What lowers the utilization."""

SAYS = {
    Use.USEFUL: "new data under way",
    Use.ARQ: "the link repeated frames or waited for itself",
    Use.XOFF: "the far end of the link stopped it",
    Use.ACCESS: "the link waited for its turn on a shared channel",
    Use.OUTAGE: "the link delivered nothing",
    Use.OTHER: "other traffic and pure ACKs",
    Use.IDLE_APP: "the application had nothing to send",
    Use.HANDSHAKE: "the connection was opened or closed",
    Use.IDLE_RTO: "TCP waited for its retransmission timer",
    Use.IDLE_CWND: "the congestion window was full",
    Use.IDLE_RWND: "the receiver's window was full",
    Use.IDLE_SNDBUF: "the send buffer was full",
    Use.REDUNDANT: "data that had arrived were sent again",
    Use.WASTED: "data were sent that were lost or arrived broken",
    Use.UNKNOWN: "nothing explains it",
}
"""Every use in words for people."""


class UseCause(IntEnum):
    """Why, where a use has several causes."""

    NONE = 0
    RESET = 1
    """A link reset."""
    RADIO = 2
    """No frame came through."""
    DECOMPRESSOR = 3
    """The header decompressor was out of step."""
    RECOVERY = 4
    """A window full of what has to be sent again."""
    SLOW_START = 5
    """A window that has not grown yet."""
    REFUSED = 6
    """The receiver had given up the connection."""
    UNFINISHED = 7
    """The recording ended first."""
    NAGLE = 9
    """Less than a segment was written, and TCP waited for more (RFC 9293, section 3.7.4)."""
    FAR_BUFFER = 8
    """The far end, slower than the link, still reads what it has got."""

    NETWORK = 10
    """Lost behind the link."""

    @property
    def label(self) -> str:
        """The name outside; empty for none."""
        return self.name.lower().replace("_", "-") if self else ""


WASTED_SAYS = {
    UseCause.RESET: "were lost in a reset of the link",
    UseCause.DECOMPRESSOR: "arrived broken, with wrong headers",
    UseCause.REFUSED: "the receiver had given up",
    UseCause.UNFINISHED: "had not arrived when the recording ended",
    UseCause.NETWORK: "were lost behind the link",
    UseCause.NONE: "were lost",
}
"""What became of the data that were carried in vain, by cause."""
