"""What the link's process writes of both hosts: the log of each end of the link, and captures where tcpdump
may not run, because every packet passes here.
"""  # noqa: D205  # one sentence that needs two lines

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO

from multitracer.lab.channel.shared.packet_link import SIDES
from multitracer.lab.scenario.session_folder import CAPTURE, RLPDUMP
from multitracer.lab.testbed.clock_error import ClockError
from multitracer.lab.testbed.collectors import numbered
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.protocols.rlpdump import RlpdumpWriter
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from multitracer.lab.channel.gsm.link import OnAir
    from multitracer.lab.channel.shared.packet_link import Side
    from multitracer.lab.testbed.driver import LinkClock
    from multitracer.protocols.link_events import LinkEvent

_BUFFER_BYTES = 1 << 16


class LinkLogs:
    """Observes the driver; the logs are open while the context lasts.

    Parameters
    ----------
    folder : Path
        The session folder, with those of the hosts.
    facts : mapping
        What the header of a link's log says.
    captures_bytes : int
        How much of each packet to write into captures; 0 writes none.
    number : int
        Of the run in its session folder.
    clock_errors : mapping, optional
        Of both hosts' clocks.
    """

    def __init__(
        self,
        folder: Path,
        facts: Mapping[str, str | int | float],
        *,
        captures_bytes: int = 0,
        number: int = 0,
        clock_errors: Mapping[Side, ClockError] | None = None,
    ) -> None:
        self._folder = folder
        self._number = number
        self._snap = captures_bytes
        self._clock_errors = clock_errors or {side: ClockError() for side in SIDES}
        self._writers = {side: RlpdumpWriter(side=side, facts=facts) for side in SIDES}
        self._links: dict[Side, BinaryIO] = {}
        self._captures: dict[Side, BinaryIO] = {}
        self._files = ExitStack()
        self._clock: LinkClock | None = None
        self._due_ns = 0

    def __enter__(self) -> Self:
        with ExitStack() as files:
            self._open(files)
            self._files = files.pop_all()
        self._flush()
        return self

    def _open(self, files: ExitStack) -> None:
        """Open every log, and write what it begins with."""
        for side in SIDES:
            self._links[side] = self._binary(side, numbered(RLPDUMP, self._number), files)
            self._links[side].write(self._writers[side].header())
        for side in SIDES if self._snap else ():
            self._captures[side] = self._binary(side, CAPTURE.replace("0", str(self._number)), files)
            self._captures[side].write(pcap_header(snap_bytes=self._snap))

    def _binary(self, side: Side, name: str, files: ExitStack) -> BinaryIO:
        return files.enter_context((self._folder / side / name).open("xb", buffering=_BUFFER_BYTES))

    def begin(self, clock: LinkClock) -> None:
        """Take the clock that converts link times to times of the hosts."""
        self._clock = clock

    def _realtime_ns(self, side: Side, link_ns: int) -> int:
        assert self._clock is not None
        return self._clock_errors[side].realtime_ns(self._clock.realtime_ns(link_ns))

    # --- what it observes ---

    def packet(self, side: Side, data: bytes, *, now_ns: int, outgoing: bool) -> None:
        """Take a packet that passes a host's device."""
        del outgoing
        if side in self._captures:
            time_ns = self._realtime_ns(side, now_ns)
            self._captures[side].write(pcap_record(data, time_ns=time_ns, snap_bytes=self._snap))

    def link_event(self, side: Side, event: LinkEvent) -> None:
        """Take an event of one end of the link."""
        stamped = event._replace(time_ns=self._realtime_ns(side, event.time_ns))
        self._links[side].write(self._writers[side].record(stamped))

    def on_air(self, frame: OnAir) -> None:
        """Take a frame of a data call."""

    def each_second(self) -> None:
        """Let what is buffered reach the files, if a second is over."""
        if time.monotonic_ns() >= self._due_ns:
            self._due_ns = time.monotonic_ns() + NS_PER_S
            self._each_second()

    def _each_second(self) -> None:
        self._flush()

    def _flush(self) -> None:
        for file in (*self._links.values(), *self._captures.values()):
            file.flush()

    # --- the end ---

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.close()
