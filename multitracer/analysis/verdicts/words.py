"""The words for a retransmission: why it was sent, whether it had to be, and how that is known."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class RetransmissionCause(IntEnum):
    """What made the sender send again; the kernel's counter of the same is named where it has one."""

    UNKNOWN = 0
    TIMEOUT = 1
    """The retransmission timer (TCPTimeouts)."""
    SLOW_START = 2
    """Resent on ACKs after a timeout, in Loss state (TCPSlowStartRetrans)."""
    FAST = 3
    """Three duplicate ACKs or SACK-based loss, RFC 6675, and the recovery they began (TCPFastRetrans)."""
    TAIL_LOSS_PROBE = 4
    """RFC 8985, section 7 (TCPLossProbes, those that carry no new data)."""
    LOCAL_DROP = 5
    """The host itself refused a copy and sent it anew: no retransmission to the kernel."""


class Necessity(IntEnum):
    """Whether the receiver needed it."""

    UNDECIDED = 0
    NECESSARY = 1
    """No earlier copy arrived."""
    SPURIOUS = 2
    """An earlier copy arrived, and an ACK that says so reached the sender without this one's help."""
    ACK_LOST = 3
    """An earlier copy arrived, but no ACK that covers it reached the sender before this one's own."""


class VerdictEvidence(IntFlag):
    """How a verdict is known, or why it is not."""

    RECEIVER = 0x0001
    """The receiver's trace shows which copies arrived."""
    LINK_LOG = 0x0002
    """The link's log shows which copies arrived, by byte offsets."""
    D_SACK = 0x0004
    """The receiver reported this copy as a duplicate (RFC 2883)."""
    EIFEL = 0x0008
    """The ACK echoes a timestamp older than this copy's (RFC 3522)."""
    F_RTO = 0x0010
    """The ACK lacks data sent once and before this copy, which arrived later (after RFC 5682)."""
    EARLY_ACK = 0x0020
    """The ACK came sooner than the shortest round trip after this copy, or before it."""
    HELD = 0x4_0000
    """An ACK for what filled a hole below it covered it, and data never resent: the receiver held both."""
    ACK_IGNORED = 0x8_0000
    """An ACK that covers it had been captured long before: damaged, as the sender took no notice of it."""
    SACKED = 0x20_0000
    """A SACK had reported it before it was sent: the sender had forgotten, or does not read them."""
    PASSED_BEFORE = 0x80_0000
    """Away from the sender: an ACK or SACK that covers it had passed the capture point before it did."""
    EARLY_STAMP = 0x100_0000
    """By its own timestamp the ACK left the receiver before this copy could have arrived there."""
    ECHOED = 0x0040
    """The ACK echoes the timestamp of this very copy: it brought something new."""
    HOLE = 0x0080
    """Data sent after the earlier copy were reported, and this range was not."""
    LOST_BEHIND = 0x10_0000
    """What had been sent behind the earlier copy was not acknowledged either until it was sent again."""
    NO_D_SACK = 0x0100
    """The receiver, which sends SACK, answered this copy without calling it a duplicate."""
    RENEGED = 0x40_0000
    """A SACK had reported it, but later ACKs stopped before it: the receiver threw it away (RFC 2018, 8)."""
    CA_STATE = 0x0200
    """The kernel's congestion state when it was sent."""
    CWND_DROP = 0x0400
    """What the congestion window fell to when it was sent."""
    KERNEL_EVENT = 0x0800
    """Whether the kernel's trace point reported a retransmission, and one that left the host."""
    SILENCE = 0x1000
    """Nothing had arrived that could have caused it: a timer did."""
    DUPLICATE_ACKS = 0x2000
    """Three duplicate ACKs, or a SACK above it, had arrived."""
    UNASKED = 0x4000
    """Nothing asked for it: neither a timer nor duplicate ACKs, or it came before any answer could."""
    FIRST_COPY_UNSEEN = 0x8000
    """It fills a hole of a sender's own capture: the first copy was not captured."""
    NO_ANSWER = 0x1_0000
    """No ACK that covers it was captured."""
    NOT_AT_SENDER = 0x2_0000
    """The capture was not made at the sender: a rule that needs what it saw, and when, was not applied."""


def word(value: RetransmissionCause | Necessity) -> str:
    """Return a verdict as files show it: `tail-loss-probe`."""
    return value.name.lower().replace("_", "-")


def evidence_words(bits: int) -> str:
    """Return the evidence as files show it: words joined by `+`, such as `eifel+silence`."""
    return "+".join(str(e.name).lower().replace("_", "-") for e in VerdictEvidence if bits & e)
