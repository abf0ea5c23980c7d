"""A session as Level I sees it, and its peer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from multitracer.protocols.centaurus.events import Address, ClockCompared
from multitracer.protocols.centaurus.peer import Peer

if TYPE_CHECKING:
    from multitracer.protocols.centaurus.config import CentaurusConfig
    from multitracer.protocols.centaurus.level2 import Level2

_AMPLIFICATION = 3
"""What an unproven peer gets at most, in bytes for each byte that came from it (as QUIC, RFC 9000, 8.1)."""


class MetPeer(Peer):
    """A peer with Level I's state for it."""

    __slots__ = ("answers_polls", "due_ns", "failures", "heard_ns", "is_waiting", "session")

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self.session: CentaurusSession | None = None
        """The session with it, once its address is proven."""
        self.heard_ns = 0
        self.is_waiting = False
        """Whether it waits for a session of ours."""
        self.due_ns: int | None = None
        self.answers_polls = False
        """Serial: whether it answers polls."""
        self.failures = 0
        """Serial: polls left unanswered in a row."""


@dataclass(slots=True, eq=False)
class CentaurusSession:
    """One session with one peer."""

    number: int
    address: Address
    peer: MetPeer
    level2: Level2
    initiated: bool
    """Whether this end established it."""
    started_ns: int
    armed_ns: int
    """When the watchdog was armed last."""
    proven: bool = False
    """Whether the peer's address is proven; always where we established the session, and on a serial line."""
    clock_ns: int = 0
    """The newest reading of the peer's clock in this session."""
    received_bytes: int = 0
    sent_bytes: int = 0
    awaits_sent: bool = False
    is_queued: bool = False
    is_over: bool = False
    asked_ns: int | None = None
    """When the first copy of the control message left that has no answer yet."""
    due_ns: int | None = None
    best: tuple[int, int] | None = None
    """Uncertainty and offset of the tightest comparison of clocks."""

    def deadline_ns(self, config: CentaurusConfig) -> int:
        """Return when the watchdog or the cap ends the session."""
        return min(self.armed_ns + config.watchdog_ns, self.started_ns + config.cap_ns)

    def may_send(self, octets: int) -> bool:
        """Return whether a peer whose address is not proven may get so many bytes."""
        return self.proven or self.sent_bytes + octets <= _AMPLIFICATION * self.received_bytes

    def on_packet(self, octets: int, clock_ns: int, now_ns: int) -> None:
        """Note a valid packet: it re-arms the watchdog."""
        self.clock_ns = max(self.clock_ns, clock_ns)
        self.armed_ns = now_ns
        self.received_bytes += octets

    def compare(self, clock_ns: int, now_ns: int) -> None:
        """Compare clocks: the peer's read `clock_ns` between our question and its answer, which arrives now.

        The caller leaves out what is older than anything heard before: a late copy answers nothing. A
        question that was repeated counts from its first copy: nobody knows which one was answered.
        """
        if self.asked_ns is None:
            return
        half_ns = (now_ns - self.asked_ns + 1) // 2
        if self.best is None or half_ns < self.best[0]:
            self.best = half_ns, clock_ns - (self.asked_ns + half_ns)
        self.asked_ns = None

    def comparison(self, now_ns: int) -> ClockCompared | None:
        """Return the tightest comparison of clocks."""
        if self.best is None:
            return None
        return ClockCompared(now_ns, self.address, self.best[1], self.best[0])
