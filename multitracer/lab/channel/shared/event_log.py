"""The events of one side of a link, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from multitracer.lab.channel.shared.named import named

if TYPE_CHECKING:
    from multitracer.protocols.link_events import LinkEvent


class SideJournal:
    """Collects events; `slot_ns` is the length of a slot, from which their slot number follows.

    Parameters
    ----------
    slot_ns : int
        Time of the link's slot.
    """

    def __init__(self, slot_ns: int) -> None:
        self._slot_ns = slot_ns
        self.waiting: list[LinkEvent] = []
        """What `events` has not returned yet."""

    def add(self, kind: type[LinkEvent], now_ns: int, *facts: Any) -> None:
        """Add an event of a kind with its facts; time and slot come first."""
        fields = now_ns, now_ns // self._slot_ns, *facts
        if len(fields) == len(kind._fields):
            self.waiting.append(named(kind, fields))
        else:
            self.waiting.append(kind(*fields))

    def events(self) -> list[LinkEvent]:
        """Return the events since the last call."""
        taken, self.waiting = self.waiting, []
        return taken
