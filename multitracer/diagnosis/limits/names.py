"""The names of the answer: limits, parts, how sure each is, where it was seen; and the share of each."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class _Named(IntEnum):
    """A number with a word that documents and pages show."""

    @property
    def label(self) -> str:
        """The word: `receiver-window`."""
        return self.name.lower().replace("_", "-")


class Limit(_Named):
    """What held a transfer back at an instant; in the order in which they are asked."""

    HANDSHAKE = 0
    """No data may be sent yet."""
    OUTAGE = 1
    """Nothing arrives, and a repetition failed too."""
    LINK = 2
    """The bottleneck has data of the transfer queued or in service."""
    RECOVERY = 3
    """The oldest data are lost, and what follows waits for their repair."""
    RECEIVER_WINDOW = 4
    """What is outstanding fills the window that the receiver offers."""
    SENDER_BUFFER = 5
    """The application has more, but the send buffer is full, and no window is."""
    APPLICATION = 6
    """The sending TCP has nothing to send."""
    SLOW_START = 7
    """The congestion window limits, grows, and has not filled the path yet."""
    CONGESTION_WINDOW = 8
    """The congestion window (or the pacer) limits, though the path has room."""
    UNKNOWN = 9
    """None can be shown."""


class LimitSubtype(_Named):
    """A kind of a limit; NONE where it has none."""

    NONE = 0
    BOTH = 1
    """Of an outage: nothing passes either way."""
    DATA = 2
    ACKS = 3
    XOFF = 4
    """Of the link: the far end had stopped it."""
    ACCESS = 5
    ARQ = 6
    TIMER = 7
    """Of recovery: the retransmission timer had to expire."""
    FAST = 8
    ZERO = 9
    """Of the receiver's window: nothing at all is offered."""
    WRITES = 10
    """Of the application: it produces at its own pace."""
    THINK = 11
    """It owes the peer an answer, and has not begun it."""
    PEER = 12
    """It waits for the peer's next request, which the peer has not sent yet."""
    NAGLE = 13
    """A small segment waits for the ACK of a small one."""
    PACING = 14
    LATENCY = 15
    """Of the application: its data and the peer's next request are under way, a round trip for each."""
    REPAIR = 16
    """The request, or what it answers, was lost: nothing could go on until it was sent again."""


class Confidence(_Named):
    """How sure an interval's limit is: by the measured precision of its rule from that view."""

    MEASURED = 0
    INFERRED = 1
    WEAK = 2


class Viewpoint(_Named):
    """What a transfer is seen from."""

    LINK_LOG = 0
    """The log of the link at the data's sender."""
    BOTH_ENDS = 1
    SENDER_STATE = 2
    """The sender's packets and its TCP's own variables."""
    SENDER = 3
    RECEIVER = 4
    NOWHERE = 5
    """One direction, packets without time, no data: nothing can be shown."""


_DIGITS = 6  # microseconds, as in `diagnose`


class LimitShare(NamedTuple):
    """One limit, with one part, and the time that it held."""

    limit: Limit
    part: LimitSubtype
    seconds: float
    share: float
    """Of T, 1 is all of it."""
    share_low: float
    """What is not weak."""
    share_high: float
    """With what is weak elsewhere and may have been this."""
    confidence: Confidence
    """Of most of its time."""


def by_limit(rows: list[LimitShare]) -> dict[Limit, float]:
    """Return the share of each limit, parts together, the largest first."""
    sums: dict[Limit, float] = {}
    for row in rows:
        sums[row.limit] = sums.get(row.limit, 0.0) + row.share
    return dict(sorted(sums.items(), key=lambda item: -item[1]))
