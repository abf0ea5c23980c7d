"""What the link's own process writes of a real measurement: the log of both ends where the link has events,
and the captures where tcpdump may not run.
"""  # noqa: D205  # one sentence that needs two lines

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO

from multitracer.channel.shared.packet_link import SIDES
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.protocols.rlpdump import RlpdumpWriter
from multitracer.scenario.session_folder import CAPTURE, RLPDUMP
from multitracer.testbed.collectors import numbered
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from multitracer.channel.shared.packet_link import Side
    from multitracer.protocols.link_events import LinkEvent
    from multitracer.testbed.driver import LinkClock

_BUFFER_BYTES = 1 << 16


class LinkRecorder:
    """Observes the driver while the context lasts.

    Parameters
    ----------
    folder : Path
        The session folder.
    facts : mapping
        What the header of a link's log says.
    number : int
        Of the run in its session folder.
    captures_bytes : int
        How much of each packet to write into captures; 0 writes none.
    """

    def __init__(
        self, folder: Path, facts: Mapping[str, str | int | float], *, number: int, captures_bytes: int = 0
    ) -> None:
        self._folder = folder
        self._facts = facts
        self._number = number
        self._snap = captures_bytes
        self._files = ExitStack()
        self._logs: dict[Side, tuple[RlpdumpWriter, BinaryIO]] = {}
        self._captures: dict[Side, BinaryIO] = {}
        self._clock: LinkClock | None = None
        self._due_ns = 0

    def begin(self, clock: LinkClock) -> None:
        """Take the clock by which link times become those of the hosts; open the captures."""
        self._clock = clock
        for side in SIDES if self._snap else ():
            self._captures[side] = self._opened(side, CAPTURE.replace("0", str(self._number)))
            self._captures[side].write(pcap_header(snap_bytes=self._snap))

    def packet(self, side: Side, data: bytes, *, now_ns: int, outgoing: bool) -> None:
        """Take a packet that passes a host's device."""
        del outgoing
        if side in self._captures:
            record = pcap_record(data, time_ns=self._realtime_ns(now_ns), snap_bytes=self._snap)
            self._captures[side].write(record)

    def link_event(self, side: Side, event: LinkEvent) -> None:
        """Take an event of one end of the link."""
        if side not in self._logs:
            writer = RlpdumpWriter(side=side, facts=self._facts)
            self._logs[side] = writer, self._opened(side, numbered(RLPDUMP, self._number))
            self._logs[side][1].write(writer.header())
        writer, file = self._logs[side]
        file.write(writer.record(event._replace(time_ns=self._realtime_ns(event.time_ns))))

    def each_second(self) -> None:
        """Let what is buffered reach the files, if a second is over."""
        if time.monotonic_ns() < self._due_ns:
            return
        self._due_ns = time.monotonic_ns() + NS_PER_S
        for file in (*(file for _, file in self._logs.values()), *self._captures.values()):
            file.flush()

    def _realtime_ns(self, link_ns: int) -> int:
        assert self._clock is not None
        return self._clock.realtime_ns(link_ns)

    def _opened(self, side: Side, name: str) -> BinaryIO:
        path = self._folder / side / name
        return self._files.enter_context(path.open("xb", buffering=_BUFFER_BYTES))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.close()
