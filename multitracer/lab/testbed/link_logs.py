"""Files and measurements of the link's process: the logs of both ends, the clocks, the truth, the summary.

If tcpdump may not run, it also writes captures, because every packet passes here.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO, TextIO

from multitracer.errors import RemoteProtocolError
from multitracer.lab.channel.shared.packet_link import SIDES
from multitracer.lab.scenario.session_folder import (
    CAPTURE,
    FIRST_MOBILE_PORT,
    FIRST_PORT,
    FRAMES_HEADER,
    PILOT_HEADER,
    PILOT_LOG,
    RLPDUMP,
    SEGMENTS_HEADER,
    SegmentTruth,
    frame_line,
    has_pilot,
    pilot_line,
    rlp_facts,
)
from multitracer.lab.scenario.summary import Meters
from multitracer.lab.tcp.packet import Endpoint, parse_packet
from multitracer.lab.testbed.children import numbered
from multitracer.lab.testbed.shift_clock import ClockShift
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.protocols.rlpdump import RlpdumpWriter
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from multitracer.lab.channel.gsm import OnAir
    from multitracer.lab.channel.shared.packet_link import RadioReading, Side
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.testbed.driver import LinkClock
    from multitracer.protocols.link_events import LinkEvent

_BUFFER_BYTES = 1 << 16


class LinkLogs:
    """Observer of the driver that writes logs; they are open during the `with` block.

    Parameters
    ----------
    folder : Path
        The session folder, with those of the hosts.
    facts : mapping
        Facts for the header of a link's log.
    captures_bytes : int
        Snap length of captures; 0 writes none.
    number : int
        Number of the run in its session folder.
    clock_errors : mapping, optional
        Errors of both hosts' clocks.
    """

    def __init__(
        self,
        folder: Path,
        facts: Mapping[str, str | int | float],
        *,
        captures_bytes: int = 0,
        number: int = 0,
        clock_errors: Mapping[Side, ClockShift] | None = None,
    ) -> None:
        self._folder = folder
        self._number = number
        self._snap = captures_bytes
        self._clock_errors = clock_errors or {side: ClockShift() for side in SIDES}
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
        """Open every log, and write its first lines."""
        for side in SIDES:
            self._links[side] = self._binary(side, numbered(RLPDUMP, self._number), files)
            self._links[side].write(self._writers[side].header())
        for side in SIDES if self._snap else ():
            self._captures[side] = self._binary(side, CAPTURE.replace("0", str(self._number)), files)
            self._captures[side].write(pcap_header(snap_bytes=self._snap))

    def _binary(self, side: Side, name: str, files: ExitStack) -> BinaryIO:
        return files.enter_context((self._folder / side / name).open("xb", buffering=_BUFFER_BYTES))

    def begin(self, clock: LinkClock) -> None:
        """Set the clock that converts link times to times of the hosts."""
        self._clock = clock

    def _realtime_ns(self, side: Side, link_ns: int) -> int:
        assert self._clock is not None
        return self._clock_errors[side].realtime_ns(self._clock.realtime_ns(link_ns))

    # --- what it observes ---

    def packet(self, side: Side, data: bytes, *, now_ns: int, outgoing: bool) -> None:
        """Write a packet that passes a host's device into the host's capture, if this process captures."""
        del outgoing
        if side in self._captures:
            time_ns = self._realtime_ns(side, now_ns)
            self._captures[side].write(pcap_record(data, time_ns=time_ns, snap_bytes=self._snap))

    def link_event(self, side: Side, event: LinkEvent) -> None:
        """Write an event of one end of the link."""
        stamped = event._replace(time_ns=self._realtime_ns(side, event.time_ns))
        self._links[side].write(self._writers[side].record(stamped))

    def on_air(self, frame: OnAir) -> None:
        """Write whether a frame of a data call was received."""

    def each_second(self) -> None:
        """Flush the files, once per second."""
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


# What a run of traffic writes and measures beside the link's logs: the clocks, the truth, the summary.


class LinkLogRecorder(LinkLogs):
    """Writes the logs of the link, and the files of the clocks, the truth and the summary.

    Parameters
    ----------
    folder : Path
        The existing session folder.
    scenario : Scenario
    clock_errors : mapping
        Errors of both hosts' clocks.
    addresses : mapping
        IPv4 addresses of the hosts, 4 bytes.
    speed : float
    captures_bytes : int
        Snap length of captures; 0 writes none.
    """

    _clocks: TextIO
    _frames: TextIO
    _segments: TextIO
    _pilot: TextIO | None

    def __init__(
        self,
        folder: Path,
        scenario: Scenario,
        *,
        clock_errors: Mapping[Side, ClockShift],
        addresses: Mapping[Side, bytes],
        speed: float,
        captures_bytes: int,
    ) -> None:
        facts = rlp_facts(scenario, speed=speed)
        super().__init__(folder, facts, captures_bytes=captures_bytes, clock_errors=clock_errors)
        self.meters = Meters(scenario)
        self._has_pilot = has_pilot(scenario)
        for number in range(len(scenario.traffic)):
            mobile = Endpoint(addresses["mobile"], FIRST_MOBILE_PORT + number)
            self.meters.begin(number, mobile, Endpoint(addresses["fixed"], FIRST_PORT + number))
        self._truth = SegmentTruth(scenario)

    def _open(self, files: ExitStack) -> None:
        super()._open(files)
        self._clocks = self._text("clocks.jsonl", files)
        self._frames = self._text("truth/frames.csv", files)
        self._segments = self._text("truth/segments.csv", files)
        self._frames.write(FRAMES_HEADER)
        self._segments.write(SEGMENTS_HEADER)
        self._pilot = self._text(f"mobile/{PILOT_LOG}", files) if self._has_pilot else None
        if self._pilot is not None:
            self._pilot.write(PILOT_HEADER)

    def _text(self, name: str, files: ExitStack) -> TextIO:
        return files.enter_context((self._folder / name).open("x", encoding="utf-8", newline="\n"))

    # --- what it observes ---

    def packet(self, side: Side, data: bytes, *, now_ns: int, outgoing: bool) -> None:
        """Write a packet that passes a host's device."""
        super().packet(side, data, now_ns=now_ns, outgoing=outgoing)
        try:
            packet = parse_packet(data)
        except RemoteProtocolError:
            return  # a header that came out wrong of the decompressor; the host's kernel counts it
        self.meters.packet(side, packet, data, now_ns=now_ns, outgoing=outgoing)
        if outgoing:
            self._truth.left(side, packet, data, now_ns=now_ns)
        else:
            self._segments.writelines(self._truth.arrived(side, packet, data, now_ns=now_ns))

    def link_event(self, side: Side, event: LinkEvent) -> None:
        """Write an event of one end of the link."""
        super().link_event(side, event)
        self.meters.link_events(side, [event])
        self._segments.writelines(self._truth.noted(side, event))

    def reading(self, reading: RadioReading, *, now_ns: int) -> None:
        """Write the Ec/Io that the modem reports, if the link has a pilot."""
        if self._pilot is not None:
            self._pilot.write(pilot_line(reading, time_ns=self._realtime_ns("mobile", now_ns)))

    def on_air(self, frame: OnAir) -> None:
        """Write whether a frame was lost."""
        self._frames.write(frame_line(frame))

    def _each_second(self) -> None:
        self._read_clocks()
        super()._each_second()

    def _read_clocks(self) -> None:
        before_ns, realtime_ns, boottime_ns, after_ns = _clocks()
        for side, error in self._clock_errors.items():
            reading = {
                "host": side,
                "monotonic_before_ns": error.monotonic_ns(before_ns),
                "realtime_ns": error.realtime_ns(realtime_ns),
                "boottime_ns": error.monotonic_ns(before_ns) + boottime_ns - before_ns,
                "monotonic_after_ns": error.monotonic_ns(after_ns),
            }
            self._clocks.write(json.dumps(reading) + "\n")

    def _flush(self) -> None:
        super()._flush()
        for text in (self._clocks, self._frames, self._segments, self._pilot):
            if text is not None:
                text.flush()

    # --- the end ---

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the values that are known only at the end, and close every log."""
        with self._files:
            self._segments.writelines(self._truth.rest())
            self._read_clocks()


def _clocks() -> tuple[int, int, int, int]:
    """Return CLOCK_MONOTONIC, _REALTIME, _BOOTTIME and _MONOTONIC in ns, read in this order."""
    return (time.monotonic_ns(), time.time_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME), time.monotonic_ns())
