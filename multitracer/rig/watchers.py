"""What a measurement in virtual time writes beside transactions.csv: the radio, and captures if asked."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO, Self

from multitracer.channel.shared.packet_link import SIDES
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.protocols.rlpdump import RlpdumpWriter
from multitracer.rig.modem_log import ModemLog
from multitracer.scenario.session_folder import CAPTURE, RLPDUMP, TCP_STATE, rlp_facts
from multitracer.simulator.record import host_clock
from multitracer.simulator.tcp_state_log import TcpStateLog

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from multitracer.channel.shared.packet_link import RadioReading, Side
    from multitracer.protocols.link_events import LinkEvent
    from multitracer.scenario.model import Scenario
    from multitracer.simulator.clock import HostClock
    from multitracer.simulator.host import Socket

MODEM = "modem-0.jsonl"
_SNAP_BYTES = 96
"""Of each packet in a capture: all headers."""


class _Captures:
    """The capture and the sender variables of one host."""

    def __init__(self, packets: BinaryIO, states: BinaryIO, side: Side, clock: HostClock) -> None:
        self._clock = clock
        self._packets = packets
        self._states = states
        self._log = TcpStateLog(side, clock)
        packets.write(pcap_header(snap_bytes=_SNAP_BYTES))
        states.write(self._log.header())

    def packet(self, data: bytes, now_ns: int) -> None:
        time_ns = self._clock.realtime_ns(now_ns)
        self._packets.write(pcap_record(data, time_ns=time_ns, snap_bytes=_SNAP_BYTES))

    def state(self, socket: Socket, now_ns: int) -> None:
        self._states.write(self._log.reading(socket, now_ns))

    def end(self, now_ns: int) -> None:
        self._states.write(self._log.end(now_ns))


class Recorder:
    """Writes the logs of both hosts from their start; a run that is done again replaces them at its end.

    Parameters
    ----------
    folder : Path
        The session folder.
    scenario : Scenario
        What is run.
    capture : bool
        Write packets, TCP's variables and the link's events too: some 30 kB for a transaction.
    """

    def __init__(self, folder: Path, scenario: Scenario, *, capture: bool) -> None:
        self._folder = folder
        self._files = ExitStack()
        self._temporary: list[Path] = []
        self._clocks = {side: host_clock(scenario, side) for side in SIDES}
        for side in SIDES:
            (folder / side).mkdir(exist_ok=True)
        self._modem = ModemLog(self._opened("mobile", MODEM), scenario.link, self._clocks["mobile"])
        self._captures = {side: self._captures_of(side) for side in SIDES if capture}
        self._facts = rlp_facts(scenario, speed=1) if capture else None
        self._links: dict[Side, tuple[RlpdumpWriter, BinaryIO]] = {}
        self._now_ns = 0

    def _opened(self, side: Side, name: str) -> BinaryIO:
        path = self._folder / side / name
        if path.exists():
            path = path.with_name(f".{name}")
            self._temporary.append(path)
        return self._files.enter_context(path.open("wb"))

    def _captures_of(self, side: Side) -> _Captures:
        packets, states = self._opened(side, CAPTURE), self._opened(side, TCP_STATE)
        return _Captures(packets, states, side, self._clocks[side])

    # --- what it is told ---

    def reading(self, reading: RadioReading, *, now_ns: int) -> None:
        """Write what the modem says."""
        self._now_ns = now_ns
        self._modem.reading(reading, now_ns=now_ns)

    def packet(self, side: Side, data: bytes, *, now_ns: int) -> None:
        """Write a packet into the host's capture."""
        self._now_ns = now_ns
        if side in self._captures:
            self._captures[side].packet(data, now_ns)

    def state(self, side: Side, socket: Socket, *, now_ns: int) -> None:
        """Write a socket's variables into the host's log."""
        if side in self._captures:
            self._captures[side].state(socket, now_ns)

    def link_event(self, side: Side, event: LinkEvent) -> None:
        """Write an event into the log of that end of the link."""
        if self._facts is None:
            return
        if side not in self._links:
            self._links[side] = RlpdumpWriter(side=side, facts=self._facts), self._opened(side, RLPDUMP)
            self._links[side][1].write(self._links[side][0].header())
        writer, stream = self._links[side]
        time_ns = self._clocks[side].realtime_ns(event.time_ns)
        stream.write(writer.record(event._replace(time_ns=time_ns)))

    # --- the end ---

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._modem.end()
            for each in self._captures.values():
                each.end(self._now_ns)
        self._files.close()
        for path in self._temporary if kind is None else ():
            path.replace(path.with_name(path.name.removeprefix(".")))
