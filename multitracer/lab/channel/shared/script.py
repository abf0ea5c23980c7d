"""The events that a scenario scripts for a link, and their times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from multitracer.errors import LocalProtocolError
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from multitracer.lab.channel.shared.scheduler import Agenda

Direction = Literal["up", "down", "both"]
"""Up is from the mobile to the fixed network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptEvent:
    """Something that happens to the link at a stated time."""

    kind: Literal["fade", "reset", "xoff", "drop", "hop", "ejection", "blackout"]
    """fade: the radio destroys frames; drop: the interface queue loses packets without a word. GSM: reset: an
    end asks for a link reset; xoff: the far terminal stops reading. CDPD and Bluetooth: blackout: no signal;
    CDPD: hop: the channel is searched; ejection: the modem scans wide."""
    at_s: float
    """Link seconds after the first IP packet, or after what `after` names."""
    after: Literal["first-packet", "retransmission"] = "first-packet"
    """A retransmission is a TCP segment with data that enters an interface queue for the second time."""
    nth: int = 1
    """Which retransmission."""
    direction: Direction = "up"
    """Fade and xoff: of the frames; drop: of the packets; reset: up is asked for by the mobile."""
    duration_s: float = 0.0
    """Of a fade, xoff or outage."""
    rate: float = 1.0
    """Frame error rate of a fade."""
    packets: int = 1
    """How many packets are dropped."""


class Script:
    """Plays the scripted events of a link, counted from its first packet.

    Parameters
    ----------
    events : sequence of ScriptEvent
    kinds : set of str
        What can befall this link.
    agenda : Agenda
    play : callable
        Called with an event and its time.

    Raises
    ------
    LocalProtocolError
        If an event cannot befall this link, or waits for a retransmission.
    """

    def __init__(
        self,
        events: Sequence[ScriptEvent],
        *,
        kinds: set[str],
        agenda: Agenda,
        play: Callable[[ScriptEvent, int], None],
    ) -> None:
        wrong = {event.kind for event in events} - kinds
        if wrong or any(event.after != "first-packet" for event in events):
            known = ", ".join(sorted(kinds))
            raise LocalProtocolError(f"script: {', '.join(sorted(wrong))}: choose {known} after first-packet")
        self._waiting = list(events)
        self._agenda = agenda
        self._play = play

    def first_packet(self, now_ns: int) -> None:
        """Begin to count, if this is the first."""
        for event in self._waiting:
            self._agenda.at(now_ns + round(event.at_s * NS_PER_S), lambda then, e=event: self._play(e, then))  # type: ignore[misc]
        self._waiting = []
