"""The states of a link, and the pending command in those that wait for an answer."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from multitracer.protocols.rlp.frame import FrameKind, RlpFrame

if TYPE_CHECKING:
    from multitracer.protocols.rlp.frame import Unnumbered


class RlpState(Enum):
    """The state of the link at one end (TS 24.022, annex A.1).

    "Pending connect indication" and "pending reset indication" (states 3 and 7) do not appear: this entity
    answers a SABM at once, so they last no time.
    """

    DETACHED = auto()
    """ADM and detached: answers DM."""
    ATTACHED = auto()
    """ADM and attached: accepts a SABM."""
    CONNECTING = auto()
    """Pending connect request: XID or SABM sent."""
    ESTABLISHED = auto()
    """ABM and connection established."""
    RESETTING = auto()
    """Pending reset request: SABM sent in ABM."""
    DISCONNECTING = auto()
    """Disconnect initiated: DISC sent."""
    DROPPED = auto()
    """The call is over; nothing is sent any more."""


class Command:
    """A command that is repeated until it is answered."""

    __slots__ = ("crossed", "function", "info", "sent_tick", "tries")

    def __init__(self, function: Unnumbered, info: bytes = b"") -> None:
        self.function = function
        self.info = info
        self.tries = 0
        self.sent_tick = 0
        self.crossed = False
        """Whether a SABM of the peer came meanwhile and was answered."""

    def is_due(self, tick: int, t1_ticks: int) -> bool:
        """Return whether it is to be sent in slot `tick`, for the first time or again."""
        return self.tries == 0 or tick - self.sent_tick >= t1_ticks

    def send(self, tick: int) -> RlpFrame:
        """Count a try and return the frame."""
        self.tries += 1
        self.sent_tick = tick
        return RlpFrame(FrameKind.U, self.function, command=True, poll_final=True, info=self.info)
