"""The logs of one host in virtual time: its capture, its sender variables, its end of the link.

Rows are collected and written many at a time: one by one they take nearly twice the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Generic, TypeVar

from multitracer.lab.channel.shared.hosts import side_of
from multitracer.lab.scenario.session_folder import CAPTURE, RLPDUMP, TCP_STATE
from multitracer.lab.simulator.tcp_state_log import TcpStateLog
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.protocols.rlpdump import RlpdumpWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from multitracer.lab.channel.shared.hosts import HostName
    from multitracer.lab.simulator.clock import HostClock
    from multitracer.lab.simulator.host import Socket
    from multitracer.protocols.link_events import LinkEvent


Row = TypeVar("Row")

_AT_ONCE = 256
"""Rows that are written together: not measured, 256 packets are 400 kB at most."""


class _Log(Generic[Row]):
    """A log whose rows are written many at a time."""

    def __init__(self, file: BinaryIO, header: bytes, encoded: Callable[[list[Row]], bytes]) -> None:
        self._file = file
        self._encoded = encoded
        self._rows: list[Row] = []
        file.write(header)

    def add(self, row: Row) -> None:
        """Take a row."""
        self._rows.append(row)
        if len(self._rows) >= _AT_ONCE:
            self.write()

    def extend(self, rows: list[Row]) -> None:
        """Take rows."""
        self._rows += rows
        if len(self._rows) >= _AT_ONCE:
            self.write()

    def write(self, last: bytes = b"") -> None:
        """Write the rows that wait, and what follows them."""
        rows, self._rows = self._rows, []
        self._file.write(self._encoded(rows) + last)


class HostLogs:
    """Writes what a capture, tcp_info and rlpdump would write on one host.

    Parameters
    ----------
    host : str
        Its name.
    clock : HostClock
        Its clocks.
    opened : callable
        Returns the open file for the name of a log; who gives it calls `write` and then closes it.
    snap_bytes : int
        How much of each packet the capture keeps.
    facts : mapping
        What the header of the link's log says; that log is made at `open_link_log`, or by the first event.
    """

    def __init__(
        self,
        host: HostName,
        clock: HostClock,
        *,
        opened: Callable[[str], BinaryIO],
        snap_bytes: int,
        facts: Mapping[str, str | int | float],
    ) -> None:
        self.clock = clock
        self._snap = snap_bytes
        self._opened = opened
        self._state = TcpStateLog(host, clock)
        self._rlp = RlpdumpWriter(side=side_of(host), facts=facts)
        self._packets = _Log(opened(CAPTURE), pcap_header(snap_bytes=snap_bytes), self._records)
        self._readings = _Log(opened(TCP_STATE), self._state.header(), self._state.lines)
        self._events: _Log[LinkEvent] | None = None

    def packet(self, data: bytes, now_ns: int) -> None:
        """Write a packet at the host's interface."""
        self._packets.add((data, now_ns))

    def _records(self, packets: list[tuple[bytes, int]]) -> bytes:
        realtime_ns, snap_bytes = self.clock.realtime_ns, self._snap
        return b"".join(
            [
                pcap_record(data, time_ns=realtime_ns(now_ns), snap_bytes=snap_bytes)
                for data, now_ns in packets
            ]
        )

    def state(self, socket: Socket, now_ns: int) -> None:
        """Write a socket's variables, if they changed."""
        reading = self._state.reading(socket, now_ns)
        if reading is not None:
            self._readings.add(reading)

    def open_link_log(self) -> _Log[LinkEvent]:
        """Make the link's log, and return it."""
        self._events = _Log(self._opened(RLPDUMP), self._rlp.header(), self._event_records)
        return self._events

    def link_events(self, events: list[LinkEvent]) -> None:
        """Write events of the host's end of the link."""
        (self._events or self.open_link_log()).extend(events)

    def _event_records(self, events: list[LinkEvent]) -> bytes:
        record, realtime_ns = self._rlp.record, self.clock.realtime_ns
        return b"".join([record(event, realtime_ns(event.time_ns)) for event in events])

    def write(self) -> None:
        """Write the rows that wait."""
        self._packets.write()
        self._readings.write()
        if self._events is not None:
            self._events.write()

    def end(self, now_ns: int) -> None:
        """Write the rows that wait, and the last lines."""
        self.write()
        self._readings.write(self._state.end(now_ns))
