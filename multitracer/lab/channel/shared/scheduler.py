"""Schedules the future events of a link, and the scripted events of a scenario.

What must hold: calls happen in the order of their time and, at one time, in the order of scheduling.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from multitracer.errors import LocalProtocolError
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    Call = Callable[[int], None]
    from collections.abc import Callable, Sequence


class Agenda:
    """A list of function calls, each with its time; `advance` makes the calls that are due."""

    def __init__(self) -> None:
        self.now_ns = 0
        """Time of the present call, or the time up to which all calls were made."""
        self.next_ns: int | None = None
        """Time of the next call; None if there is none."""
        self._calls: list[tuple[int, int, Call]] = []
        self._scheduled = 0

    def at(self, time_ns: int, call: Call) -> None:
        """Schedule `call` for `time_ns`, which must not be in the past."""
        if time_ns < self.now_ns:
            raise LocalProtocolError(
                f"agenda: an event cannot be scheduled at {time_ns} ns, because "
                f"the simulated time is already {self.now_ns} ns"
            )
        heapq.heappush(self._calls, (time_ns, self._scheduled, call))
        self._scheduled += 1
        self.next_ns = self._calls[0][0]

    def advance(self, now_ns: int) -> None:
        """Set the time to `now_ns`, and make all calls up to it in order; time never goes back."""
        calls = self._calls
        while calls and calls[0][0] <= now_ns:
            self.now_ns, _, call = heapq.heappop(calls)
            self.next_ns = calls[0][0] if calls else None
            call(self.now_ns)
        self.now_ns = max(self.now_ns, now_ns)


# The events that a scenario scripts for a link, and their times.


Direction = Literal["up", "down", "both"]
"""Direction of packets: up is from the mobile to the fixed network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptEvent:
    """An event that happens to the link at a stated time."""

    kind: Literal["fade", "reset", "xoff", "drop", "hop", "ejection", "blackout"]
    """Kind of event.

    fade: the radio destroys frames. drop: the interface queue loses packets without an event. GSM only:
    reset: an end requests a link reset; xoff: the far terminal stops reading. CDPD and Bluetooth: blackout:
    no signal. CDPD only: hop: the modem searches the channel; ejection: the modem scans a wide range."""
    at_s: float
    """Link seconds after the first IP packet, or after the event that `after` names."""
    after: Literal["first-packet", "retransmission"] = "first-packet"
    """A retransmission is a TCP segment with data that enters an interface queue for the second time."""
    nth: int = 1
    """Which retransmission: 1 is the first one."""
    direction: Direction = "up"
    """Direction of the frames (fade, xoff) or packets (drop).

    For a reset, up means that the mobile requests it."""
    duration_s: float = 0.0
    """Duration of a fade, xoff or outage."""
    rate: float = 1.0
    """Frame error rate of a fade."""
    packets: int = 1
    """Number of packets that are dropped."""


class Script:
    """Plays the scripted events of a link, counted from its first packet.

    Parameters
    ----------
    events : sequence of ScriptEvent
    kinds : set of str
        Kinds of events that this link can have.
    agenda : Agenda
    play : callable
        Called with an event and its time.

    Raises
    ------
    LocalProtocolError
        If this link cannot have an event, or an event waits for a retransmission.
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
            known, others = (", ".join(sorted(names)) for names in (kinds, wrong))
            raise LocalProtocolError(
                f"script: this link supports only the events {known}{f' (found: {others})' if others else ''}, "
                'and each event must have after = "first-packet"'
            )
        self._waiting = list(events)
        self._agenda = agenda
        self._play = play

    def first_packet(self, now_ns: int) -> None:
        """Start the script if this is the first packet: event times count from `now_ns`."""
        for event in self._waiting:
            self._agenda.at(now_ns + round(event.at_s * NS_PER_S), lambda then, e=event: self._play(e, then))  # type: ignore[misc]
        self._waiting = []
