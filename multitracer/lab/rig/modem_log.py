"""The log that `collectors.modem` would write in virtual time: each second, what the link's modem answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from collectors._profiles import profiles
from multitracer import __version__
from multitracer.lab.rehearsal.voices import answer
from multitracer.lab.rig.modem_values import modem_profile, modem_values
from multitracer.protocols.modem import decode

if TYPE_CHECKING:
    from typing import BinaryIO

    from multitracer.lab.channel.links import AnyLinkConfig
    from multitracer.lab.channel.shared.hosts import HostName
    from multitracer.lab.channel.shared.packet_link import RadioReading
    from multitracer.lab.simulator.clock import HostClock


class ModemLog:
    """Writes the mobile's radio log.

    Parameters
    ----------
    stream : binary file
        Where to.
    config : LinkConfig, CdpdConfig or BluetoothConfig
        The link; its kind tells which modem it has.
    host : str
        The mobile's name.
    clock : HostClock
        The mobile's clocks.
    """

    def __init__(self, stream: BinaryIO, config: AnyLinkConfig, host: HostName, clock: HostClock) -> None:
        self._stream = stream
        self._config = config
        self._clock = clock
        self._profile = modem_profile(config)
        self._commands = [ask.command for ask in profiles()[self._profile].asks]
        self._reads = 0
        self._write(
            kind="header", format="multitracer-modem", version=1, clock="CLOCK_MONOTONIC", unit="ns",
            host=host, kernel="virtual", command=["multitracer.lab.rig"], multitracer=__version__, hz=1.0,
            profile=self._profile,
        )  # fmt: skip

    def reading(self, reading: RadioReading, *, now_ns: int) -> None:
        """Write what the modem answers to each of its commands now."""
        reported = modem_values(reading, self._config)
        values = {name: value for name, value in reported.items() if value is not None}
        stamp_ns = self._clock.monotonic_ns(now_ns)
        self._reads += 1
        for command in self._commands:
            lines = answer(self._profile, command, values)
            raw = "".join(f"\r\n{line}\r\n" for line in lines or []) + (
                "\r\nOK\r\n" if lines else "\r\nERROR\r\n"
            )
            self._write(
                kind="answer", read=self._reads, command=command, asked_ns=stamp_ns, answered_ns=stamp_ns,
                result="OK" if lines else "ERROR", raw=raw, shown=decode(command, raw.encode()).readings,
            )  # fmt: skip
        self._write(kind="clock", **self._clock.reading(now_ns), reads=self._reads, missed=0)

    def end(self) -> None:
        """Write that it ended in order."""
        self._write(kind="end", reason="the run is over", reads=self._reads, missed=0)

    def _write(self, **record: object) -> None:
        self._stream.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
