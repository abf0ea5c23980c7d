"""What a measurement in virtual time writes beside transactions.csv: the radio, and captures if asked."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Self

from multitracer.lab.channel.shared.hosts import FIXED
from multitracer.lab.rig.modem_log import ModemLog
from multitracer.lab.scenario.session_folder import rlp_facts
from multitracer.lab.simulator.host_logs import HostLogs
from multitracer.lab.simulator.observer import Observer
from multitracer.lab.simulator.world import host_clock

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from multitracer.lab.channel.shared.hosts import HostName
    from multitracer.lab.channel.shared.packet_link import RadioReading
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.simulator.host import Socket
    from multitracer.lab.tcp import Packet
    from multitracer.protocols.link_events import LinkEvent

MODEM = "modem-0.jsonl"
_SNAP_BYTES = 96
"""Of each packet in a capture: all headers."""


class Recorder(Observer):
    """Writes the logs of both ends from their start; a run that is done again replaces them at its end.

    Parameters
    ----------
    folder : Path
        The session folder.
    scenario : Scenario
        What is run; its first mobile measures.
    capture : bool
        Write packets, TCP's variables and the link's events too: some 30 kB for a transaction.
    """

    def __init__(self, folder: Path, scenario: Scenario, *, capture: bool) -> None:
        self._folder = folder
        self._files = ExitStack()
        self._temporary: list[Path] = []
        self._now_ns = 0
        mobile = scenario.hosts[0]
        for host in (mobile, FIXED):
            (folder / host).mkdir(exist_ok=True)
        clock = host_clock(scenario, mobile)
        self._modem = ModemLog(self._opened(mobile, MODEM), scenario.link, mobile, clock)
        self._logs = {host: self._logs_of(host, scenario) for host in (mobile, FIXED) if capture}

    def _opened(self, host: HostName, name: str) -> BinaryIO:
        path = self._folder / host / name
        if path.exists():
            path = path.with_name(f".{name}")
            self._temporary.append(path)
        return self._files.enter_context(path.open("wb"))

    def _logs_of(self, host: HostName, scenario: Scenario) -> HostLogs:
        return HostLogs(
            host,
            host_clock(scenario, host),
            opened=partial(self._opened, host),
            snap_bytes=_SNAP_BYTES,
            facts=rlp_facts(scenario, speed=1),
        )

    # --- what it observes ---

    def reading(self, host: HostName, reading: RadioReading, *, now_ns: int) -> None:
        """Write what the modem says."""
        del host
        self._now_ns = now_ns
        self._modem.reading(reading, now_ns=now_ns)

    def packet(
        self, host: HostName, packet: Packet | None, data: bytes, *, now_ns: int, outgoing: bool
    ) -> None:
        """Write a packet into the host's capture."""
        del packet, outgoing
        self._now_ns = now_ns
        if host in self._logs:
            self._logs[host].packet(data, now_ns)

    def state(self, host: HostName, socket: Socket, *, now_ns: int) -> None:
        """Write a socket's variables into the host's log."""
        if host in self._logs:
            self._logs[host].state(socket, now_ns)

    def link_events(self, host: HostName, events: list[LinkEvent]) -> None:
        """Write events into the log of that end of the link."""
        if host in self._logs:
            self._logs[host].link_events(events)

    # --- the end ---

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._files:
            for each in self._logs.values():
                each.write()
            if kind is None:
                self._end()
        for path in self._temporary if kind is None else ():
            path.replace(path.with_name(path.name.removeprefix(".")))

    def _end(self) -> None:
        """Write the last lines."""
        self._modem.end()
        for each in self._logs.values():
            each.end(self._now_ns)
