"""The files that the link's process writes: rlpdump of both sides, the clocks, the truth, the summary.

Where tcpdump may not run, it writes the captures as well: every packet passes here.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO, TextIO

from multitracer.channel.gsm.link import SIDES
from multitracer.errors import RemoteProtocolError
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.protocols.rlpdump import RlpdumpWriter
from multitracer.protocols.tcp import Endpoint, parse_packet
from multitracer.scenario.meters import Meters
from multitracer.scenario.session_folder import (
    CAPTURE,
    FIRST_MOBILE_PORT,
    FIRST_PORT,
    RLPDUMP,
    rlp_facts,
    snap_bytes,
)
from multitracer.scenario.truth import FRAMES_HEADER, SEGMENTS_HEADER, SegmentTruth, frame_line
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from multitracer.channel.gsm.link import OnAir, Side
    from multitracer.protocols.link_events import LinkEvent
    from multitracer.scenario.model import Scenario
    from multitracer.testbed.clock_error import ClockError
    from multitracer.testbed.driver import LinkClock

_BUFFER_BYTES = 1 << 16


class Recorder:
    """Observes the driver while the context lasts.

    Parameters
    ----------
    folder : Path
        The session folder, made.
    scenario : Scenario
    clock_errors : mapping
        Of both hosts' clocks.
    addresses : mapping
        IPv4 addresses of the hosts, 4 bytes.
    speed : float
    captures : bool
        Whether to write the captures.
    """

    def __init__(  # what a run has is given once
        self,
        folder: Path,
        scenario: Scenario,
        *,
        clock_errors: Mapping[Side, ClockError],
        addresses: Mapping[Side, bytes],
        speed: float,
        captures: bool,
    ) -> None:
        self._folder = folder
        self._clock_errors = clock_errors
        self.meters = Meters(scenario)
        for number in range(len(scenario.traffic)):
            mobile = Endpoint(addresses["mobile"], FIRST_MOBILE_PORT + number)
            self.meters.begin(number, mobile, Endpoint(addresses["fixed"], FIRST_PORT + number))
        self._truth = SegmentTruth(scenario.hosts)
        self._snap = snap_bytes(scenario)
        self._clock: LinkClock | None = None
        self._due_ns = 0
        with ExitStack() as opening:
            facts = rlp_facts(scenario, speed=speed)
            self._rlp = {side: RlpdumpWriter(side=side, facts=facts) for side in SIDES}
            self._rlp_files = {side: self._binary(f"{side}/{RLPDUMP}", opening) for side in SIDES}
            self._captures = {side: self._binary(f"{side}/{CAPTURE}", opening) for side in SIDES if captures}
            self._clocks = self._text("clocks.jsonl", opening)
            self._frames = self._text("truth/frames.csv", opening)
            self._segments = self._text("truth/segments.csv", opening)
            self._files = opening.pop_all()
        self._write_headers()

    def _binary(self, name: str, files: ExitStack) -> BinaryIO:
        return files.enter_context((self._folder / name).open("xb", buffering=_BUFFER_BYTES))

    def _text(self, name: str, files: ExitStack) -> TextIO:
        return files.enter_context((self._folder / name).open("x", encoding="utf-8", newline="\n"))

    def _write_headers(self) -> None:
        for side, file in self._rlp_files.items():
            file.write(self._rlp[side].header())
        for file in self._captures.values():
            file.write(pcap_header(snap_bytes=self._snap))
        self._frames.write(FRAMES_HEADER)
        self._segments.write(SEGMENTS_HEADER)
        self._flush()

    def begin(self, clock: LinkClock) -> None:
        """Take the clock that converts link times to times of the hosts."""
        self._clock = clock

    def _realtime_ns(self, side: Side, link_ns: int) -> int:
        assert self._clock is not None
        return self._clock_errors[side].realtime_ns(self._clock.realtime_ns(link_ns))

    # --- what it observes ---

    def packet(self, side: Side, data: bytes, *, now_ns: int, outgoing: bool) -> None:
        """Take a packet that passes a host's device."""
        if side in self._captures:
            time_ns = self._realtime_ns(side, now_ns)
            self._captures[side].write(pcap_record(data, time_ns=time_ns, snap_bytes=self._snap))
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
        """Take an event of one end of the link."""
        self.meters.link_event(side, event)
        stamped = event._replace(time_ns=self._realtime_ns(side, event.time_ns))
        self._rlp_files[side].write(self._rlp[side].record(stamped))
        self._segments.writelines(self._truth.noted(side, event))

    def on_air(self, frame: OnAir) -> None:
        """Write whether a frame was lost."""
        self._frames.write(frame_line(frame))

    def each_second(self) -> None:
        """Once a second, read the clocks and flush the files."""
        if time.monotonic_ns() >= self._due_ns:
            self._due_ns = time.monotonic_ns() + NS_PER_S
            self._read_clocks()
            self._flush()

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
        for file in (*self._rlp_files.values(), *self._captures.values()):
            file.flush()
        for text in (self._clocks, self._frames, self._segments):
            text.flush()

    # --- the end ---

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the facts that are known only now, and close every log."""
        with self._files:
            self._segments.writelines(self._truth.rest())
            self._read_clocks()


def _clocks() -> tuple[int, int, int, int]:
    """Return CLOCK_MONOTONIC, _REALTIME, _BOOTTIME and _MONOTONIC again, read one after the other."""
    return (
        time.monotonic_ns(),
        time.time_ns(),
        time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        time.monotonic_ns(),
    )
