"""What a measurement in virtual time writes beside transactions.csv: the radio, and more if asked."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from multitracer.channel.packet_link import SIDES
from multitracer.rig.modem_log import ModemLog
from multitracer.simulator.record import host_clock

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from multitracer.channel.packet_link import RadioReading, Side
    from multitracer.protocols.link_events import LinkEvent
    from multitracer.scenario.model import Scenario
    from multitracer.simulator.host import Socket

MODEM = "modem-0.jsonl"


class Recorder:
    """Writes the logs of both hosts, from their start: a run that is done again rewrites them.

    Parameters
    ----------
    folder : Path
        The session folder.
    scenario : Scenario
        What is run.
    capture : bool
        Write packets, TCP's variables and the link's events too.
    """

    def __init__(self, folder: Path, scenario: Scenario, *, capture: bool) -> None:
        self._files = ExitStack()
        del capture
        for side in SIDES:
            (folder / side).mkdir(exist_ok=True)
        stream = self._files.enter_context((folder / "mobile" / MODEM).open("wb"))
        self._modem = ModemLog(stream, scenario.link, host_clock(scenario, "mobile"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._modem.end()
        self._files.close()

    def reading(self, reading: RadioReading, *, now_ns: int) -> None:
        """Write what the modem says."""
        self._modem.reading(reading, now_ns=now_ns)

    def packet(self, side: Side, data: bytes, *, now_ns: int) -> None:
        """Write a packet into the host's capture."""

    def state(self, side: Side, socket: Socket, *, now_ns: int) -> None:
        """Write a socket's variables into the host's log."""

    def link_event(self, side: Side, event: LinkEvent) -> None:
        """Write an event of the link."""
