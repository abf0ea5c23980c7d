"""Writes logs of a measurement in virtual time besides transactions.csv: radio log, optional captures."""

from __future__ import annotations

import json
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Self

from collectors._profiles import profiles
from multitracer import __version__
from multitracer.lab.channel.bluetooth_piconet import BluetoothConfig
from multitracer.lab.channel.capacity import CapacityConfig
from multitracer.lab.channel.cdma2000_radio import Cdma2000Config
from multitracer.lab.channel.cdpd_config import CdpdConfig
from multitracer.lab.channel.shared.packet_link import FIXED
from multitracer.lab.channel.switched import SwitchedConfig
from multitracer.lab.rehearsal.modem import answer
from multitracer.lab.scenario.session_folder import rlp_facts
from multitracer.lab.simulator.host_logs import HostLogWriter
from multitracer.lab.simulator.network import NetworkObserver, host_clock
from multitracer.protocols.modem.decode import decode

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from multitracer.lab.channel.links import AnyLinkConfig
    from multitracer.lab.channel.shared.packet_link import HostName, RadioReading
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.simulator.host import SimulatedSocket
    from multitracer.lab.simulator.network import SimulatedClock
    from multitracer.lab.tcp.packet import TcpPacket
    from multitracer.protocols.link_events import LinkEvent

# What a modem on a modelled link says: the link's reading, in the words of the modems that are rehearsed.


_REGISTERED = ("registered", "connected")
_RAT: dict[type, str] = {
    BluetoothConfig: "BT",
    CdpdConfig: "CDPD",
    Cdma2000Config: "CDMA",
    CapacityConfig: "",
    SwitchedConfig: "",
}
"""Radio technology by link; a capacity trace and a switched link have none."""


def modem_profile(config: AnyLinkConfig) -> str:
    """Return the name of the modem profile that reports a link's radio values.

    For CDPD that of a real modem.
    """
    return "rehearsal_cdpd" if isinstance(config, CdpdConfig) else "rehearsal_link"


def modem_values(reading: RadioReading, config: AnyLinkConfig) -> dict[str, object]:
    """Return radio values for the simulated modem, by column of RADIO; None if unknown."""
    return {
        "rat": _RAT.get(type(config), "GSM"),
        "rssi_dbm": reading.rssi_dbm,
        "bler_pct": reading.bler_percent,
        "cell_busy_pct": reading.cell_busy_percent,
        "channel": reading.channel,
        "ecio_db": reading.ecio_db,
        "registration": int(reading.state in _REGISTERED),
    }


# The log that `collectors.modem` would write in virtual time: each second, what the link's modem answers.


class RigModemLog:
    """Writes the mobile's radio log.

    Parameters
    ----------
    stream : binary file
        Output.
    config : LinkConfig, CdpdConfig or BluetoothConfig
        The link; its kind decides the modem.
    host : str
        The mobile's name.
    clock : SimulatedClock
        The mobile's clocks.
    """

    def __init__(self, stream: BinaryIO, config: AnyLinkConfig, host: HostName, clock: SimulatedClock) -> None:
        self._stream = stream
        self._config = config
        self._clock = clock
        self._profile = modem_profile(config)
        self._commands = [ask.command for ask in profiles()[self._profile].asks]
        self._reads = 0
        self._write(
            kind="header", format="multitracer-modem", version=1, clock="CLOCK_MONOTONIC", unit="ns",
            host=host, kernel="virtual", command=["multitracer.rig"], multitracer=__version__, hz=1.0,
            profile=self._profile,
        )  # fmt: skip

    def reading(self, reading: RadioReading, *, now_ns: int) -> None:
        """Write the modem's answers to all of its commands, with these radio values, at this time."""
        reported = modem_values(reading, self._config)
        values = {name: value for name, value in reported.items() if value is not None}
        stamp_ns = self._clock.monotonic_ns(now_ns)
        self._reads += 1
        for command in self._commands:
            lines = answer(self._profile, command, values)
            raw = "".join(f"\r\n{line}\r\n" for line in lines or []) + ("\r\nOK\r\n" if lines else "\r\nERROR\r\n")
            self._write(
                kind="answer", read=self._reads, command=command, asked_ns=stamp_ns, answered_ns=stamp_ns,
                result="OK" if lines else "ERROR", raw=raw, shown=decode(command, raw.encode()).readings,
            )  # fmt: skip
        self._write(kind="clock", **self._clock.reading(now_ns), reads=self._reads, missed=0)

    def end(self) -> None:
        """Write the line that marks a regular end of the log."""
        self._write(kind="end", reason="the run is over", reads=self._reads, missed=0)

    def _write(self, **record: object) -> None:
        self._stream.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")


MODEM = "modem-0.jsonl"
_SNAP_BYTES = 96
"""Snap length of a capture: all headers."""


class RigRecorder(NetworkObserver):
    """Writes the logs of both hosts; when a repeated run ends, its logs replace the old ones.

    Parameters
    ----------
    folder : Path
        The session folder.
    scenario : Scenario
        The scenario of the run; its first mobile measures.
    capture : bool
        Also write packets, TCP's variables and the link's events: some 30 kB for each transaction.
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
        self._modem = RigModemLog(self._opened(mobile, MODEM), scenario.link, mobile, clock)
        self._logs = {host: self._logs_of(host, scenario) for host in (mobile, FIXED) if capture}

    def _opened(self, host: HostName, name: str) -> BinaryIO:
        path = self._folder / host / name
        if path.exists():
            path = path.with_name(f".{name}")
            self._temporary.append(path)
        return self._files.enter_context(path.open("wb"))

    def _logs_of(self, host: HostName, scenario: Scenario) -> HostLogWriter:
        return HostLogWriter(
            host,
            host_clock(scenario, host),
            opened=partial(self._opened, host),
            snap_bytes=_SNAP_BYTES,
            facts=rlp_facts(scenario, speed=1),
        )

    # --- what it observes ---

    def reading(self, host: HostName, reading: RadioReading, *, now_ns: int) -> None:
        """Write the radio values that the modem reports into the radio log."""
        del host
        self._now_ns = now_ns
        self._modem.reading(reading, now_ns=now_ns)

    def packet(self, host: HostName, packet: TcpPacket | None, data: bytes, *, now_ns: int, outgoing: bool) -> None:
        """Write a packet into the host's capture."""
        del packet, outgoing
        self._now_ns = now_ns
        if host in self._logs:
            self._logs[host].packet(data, now_ns)

    def state(self, host: HostName, socket: SimulatedSocket, *, now_ns: int) -> None:
        """Write the TCP variables of a socket into the host's log."""
        if host in self._logs:
            self._logs[host].state(socket, now_ns)

    def link_events(self, host: HostName, events: list[LinkEvent]) -> None:
        """Write events into the log of this host's end of the link."""
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
        """Write the last lines of all logs."""
        self._modem.end()
        for each in self._logs.values():
            each.end(self._now_ns)
