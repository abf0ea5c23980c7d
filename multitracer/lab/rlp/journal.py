"""The records of both parts of an RLP entity: the present slot, and the events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.protocols.link_events import FrameReceived, FrameSent, IdleFrames

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.protocols.link_events import LinkEvent


class Journal:
    """The current slot, and the events since they were last taken."""

    __slots__ = ("_idle_received", "_idle_sent", "events", "now_ns", "tick")

    def __init__(self) -> None:
        self.tick = 0
        self.now_ns = 0
        self.events: list[LinkEvent] = []
        self._idle_sent = 0
        self._idle_received = 0

    def add(self, event: LinkEvent) -> None:
        """Note an event."""
        self.events.append(event)

    def note(self, kind: Callable[..., LinkEvent], *facts: object) -> None:
        """Note an event of this slot."""
        self.events.append(kind(self.now_ns, self.tick, *facts))

    def sent(
        self, octets: bytes, offset_bytes: int | None = None, attempt: int = 1, cause: str = ""
    ) -> bytes:
        """Note a frame that leaves, and return it."""
        self.events.append(FrameSent(self.now_ns, self.tick, octets, offset_bytes, attempt, cause))
        return octets

    def received(self, octets: bytes, fate: str = "") -> None:
        """Note a frame that arrived, and how it was handled."""
        self.events.append(FrameReceived(self.now_ns, self.tick, octets, fate))

    def idle_sent(self, octets: bytes) -> bytes:
        """Count an idle frame that leaves, and return it."""
        self._idle_sent += 1
        return octets

    def idle_received(self) -> None:
        """Count an idle frame that arrived."""
        self._idle_received += 1

    def take(self) -> list[LinkEvent]:
        """Return the events since the last call."""
        taken, self.events = self.events, []
        return taken

    def count_idle(self) -> None:
        """Note how many idle frames there were since the last such note."""
        self.note(IdleFrames, self._idle_sent, self._idle_received)
        self._idle_sent = self._idle_received = 0
