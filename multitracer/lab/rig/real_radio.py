"""The mobile's modem in a real run: a rehearsed one on a pseudo-terminal, told each link second what the link
says of itself, and the collector that any modem is recorded with.
"""  # noqa: D205  # one sentence that needs two lines

from __future__ import annotations

import csv
import json
import os
import subprocess
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

from multitracer import __version__
from multitracer.lab.rig.modem_values import modem_profile, modem_values
from multitracer.lab.testbed.children import PYTHON
from multitracer.lab.testbed.collectors import numbered
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from multitracer.lab.channel.links import AnyLinkConfig
    from multitracer.lab.channel.shared.packet_link import PacketLink
    from multitracer.lab.testbed.children import Child, Children
    from multitracer.lab.testbed.driver import LinkClock

RADIO_LOG = "radio.jsonl"
TRUTH = "truth/radio.csv"
"""What the modem was told, and when."""
_PORT = "mobile/.modem"
_TOLD_EVERY_NS = NS_PER_S
_DELAY_S = 0.02, 0.08
"""A real modem's time for an answer, least and most."""
_BAUD = 115_200


class RadioFeed:
    """Tells the modem what the link says; a context, in which `begin` is called when both are there.

    Parameters
    ----------
    folder : Path
        The session folder.
    children : Children
    config
        The link's.
    speed : float
        Link seconds in a second: modem and collector are as much faster.
    number : int
        Of the run in its session folder.
    """

    def __init__(
        self, folder: Path, children: Children, config: AnyLinkConfig, *, speed: float, number: int
    ) -> None:
        self._children = children
        self._config = config
        self._profile = modem_profile(config)
        self._speed = speed
        self._number = number
        self._port = folder / _PORT
        self._log = folder / "mobile" / numbered(RADIO_LOG, number)
        self._truth = (folder / numbered(TRUTH, number)).open("x", encoding="utf-8", newline="")
        self._writer = csv.writer(self._truth, lineterminator="\n")
        self._modem: Child | None = None
        self._clock: LinkClock | None = None
        self._due_ns = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._truth.close()

    def start(self, link: PacketLink) -> None:
        """Start the modem, tell it how the link begins, and record it."""
        self._port.unlink(missing_ok=True)  # of a run that was killed
        self._modem = self._children.start(
            "rehearsed-modem", "mobile", self._modem_command(), version=__version__, stdin=subprocess.PIPE
        )
        self._children.wait(self._modem, self._port.is_symlink)
        assert self._modem.process.stdin is not None
        os.set_blocking(self._modem.process.stdin.fileno(), False)  # the link must not wait for it
        self._tell(link, 0)
        collector = self._children.start("modem", "mobile", self._collector_command(), version=__version__)
        self._children.wait(
            collector, lambda: self._log.exists() and '"kind":"modem"' in self._log.read_text()
        )

    def _modem_command(self) -> list[str]:
        delays = [f"{delay_s / self._speed:g}" for delay_s in _DELAY_S]
        return [
            PYTHON, "-m", "multitracer.lab.rehearsal.modem", "--link", _PORT, "--profile", self._profile,
            "--told", "--control", "--delay", *delays, "--baud", str(round(_BAUD * self._speed)),
        ]  # fmt: skip

    def _collector_command(self) -> list[str]:
        return [
            PYTHON, "-m", "collectors.modem", "--device", _PORT, "--profile", self._profile,
            "--hz", f"{self._speed:g}", "-o", f"mobile/{self._log.name}",
        ]  # fmt: skip

    def begin(self, clock: LinkClock) -> None:
        """Take the clock by which link times become those of the logs."""
        self._clock = clock

    def each_second(self, link: PacketLink, now_ns: int) -> None:
        """Tell the modem what it would answer now, if a link second is over."""
        if now_ns >= self._due_ns:
            self._due_ns = now_ns - now_ns % _TOLD_EVERY_NS + _TOLD_EVERY_NS
            self._tell(link, now_ns)

    def _tell(self, link: PacketLink, now_ns: int) -> None:
        reading = link.reading(now_ns)
        assert self._modem is not None
        assert self._modem.process.stdin is not None
        line = json.dumps({"set": modem_values(reading, self._config)}) + "\n"
        with suppress(BrokenPipeError, BlockingIOError):  # it was killed, or hangs: its log will tell
            os.write(self._modem.process.stdin.fileno(), line.encode())
        columns = asdict(reading)
        if self._truth.tell() == 0:
            self._writer.writerow(["time_ns", "link_ns", *columns])
        if self._clock is not None:
            self._writer.writerow([self._clock.realtime_ns(now_ns), now_ns, *columns.values()])
