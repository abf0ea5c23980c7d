"""The names for verdicts on a retransmission: its cause, whether it was needed, and the evidence."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from functools import lru_cache


class RetransmissionCause(IntEnum):
    """Cause of a retransmission; the comment of each names the kernel's counter in parentheses."""

    UNKNOWN = 0
    TIMEOUT = 1
    """The retransmission timer (TCPTimeouts)."""
    SLOW_START = 2
    """Resent on ACKs after a timeout, in state Loss (TCPSlowStartRetrans)."""
    FAST = 3
    """Resent because of three duplicate ACKs or SACK-based loss detection (RFC 6675), or in the recovery that follows
    (TCPFastRetrans)."""
    TAIL_LOSS_PROBE = 4
    """Tail loss probe, RFC 8985, section 7 (TCPLossProbes without new data)."""
    LOCAL_DROP = 5
    """The host itself dropped the earlier transmission and sent it again; for the kernel this is not a retransmission.
    """


class Necessity(IntEnum):
    """Whether the receiver needed the retransmission."""

    UNDECIDED = 0
    NECESSARY = 1
    """No earlier transmission arrived."""
    SPURIOUS = 2
    """An earlier transmission arrived, and its ACK reached the sender, independent of this retransmission."""
    ACK_LOST = 3
    """An earlier transmission arrived, but no ACK that covers it reached the sender before the ACK of this one."""


class VerdictEvidence(IntFlag):
    """The evidence for a verdict, or the reason why there is no verdict."""

    RECEIVER = 0x0001
    """The receiver's trace shows which transmissions arrived."""
    LINK_LOG = 0x0002
    """The link's log shows which transmissions arrived, by byte offsets."""
    D_SACK = 0x0004
    """The receiver reported this retransmission as a duplicate (RFC 2883)."""
    EIFEL = 0x0008
    """The ACK echoes a timestamp older than that of this retransmission (RFC 3522)."""
    F_RTO = 0x0010
    """The ACK lacks data that were sent once, before this retransmission, and arrived later (after RFC 5682)."""
    EARLY_ACK = 0x0020
    """The ACK came before this retransmission, or sooner after it than the minimum RTT."""
    HELD = 0x4_0000
    """An ACK of the segment that filled a hole below covered this one and data never resent: the receiver had both."""
    ACK_IGNORED = 0x8_0000
    """An ACK that covers it was captured long before; it was damaged, since the sender did not react to it."""
    SACKED = 0x20_0000
    """A SACK had reported it before it was sent: the sender had discarded its scoreboard, or ignores SACK."""
    PASSED_BEFORE = 0x80_0000
    """Capture away from the sender: an ACK or SACK that covers it passed the capture point before it."""
    EARLY_STAMP = 0x100_0000
    """By its own timestamp, the ACK left the receiver before this retransmission could have arrived."""
    ECHOED = 0x0040
    """The ACK echoes the timestamp of this retransmission, so it delivered new data."""
    HOLE = 0x0080
    """Data sent after the earlier transmission were reported, but this range was not."""
    LOST_BEHIND = 0x10_0000
    """Data sent after the earlier transmission were also not acknowledged until they were resent."""
    NO_D_SACK = 0x0100
    """The receiver, which sends SACK, acknowledged this retransmission without a D-SACK."""
    RENEGED = 0x40_0000
    """A SACK had reported it, but later ACKs stopped before it: the receiver discarded it (RFC 2018, 8)."""
    CA_STATE = 0x0200
    """The congestion state of the kernel when it was sent."""
    CWND_DROP = 0x0400
    """The decrease of the congestion window when it was sent."""
    KERNEL_EVENT = 0x0800
    """Whether the kernel's trace point reported a retransmission, and whether that left the host."""
    SILENCE = 0x1000
    """Nothing had arrived that could have caused it, so a timer was the cause."""
    DUPLICATE_ACKS = 0x2000
    """Three duplicate ACKs, or a SACK above it, had arrived before."""
    UNASKED = 0x4000
    """Nothing requested it: no timer and no duplicate ACKs, or it came before any ACK could arrive."""
    FIRST_COPY_UNSEEN = 0x8000
    """It fills a hole in the sender's own capture: the first transmission was not captured."""
    NO_ANSWER = 0x1_0000
    """No ACK that covers it was captured."""
    NOT_AT_SENDER = 0x2_0000
    """The capture was not made at the sender: rules that need the sender's view were not applied."""


def word(value: RetransmissionCause | Necessity) -> str:
    """Return a verdict in the form used in files: `tail-loss-probe`."""
    return value.name.lower().replace("_", "-")


@lru_cache(maxsize=1024)  # thousands of retransmissions have some tens of values
def evidence_words(bits: int) -> str:
    """Return evidence in the form used in files: words joined by `+`, such as `eifel+silence`."""
    return "+".join(str(e.name).lower().replace("_", "-") for e in VerdictEvidence if bits & e)
