"""The logs of one host in virtual time: its capture, its sender variables, its end of the link."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from multitracer.channel.shared.hosts import side_of
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.protocols.rlpdump import RlpdumpWriter
from multitracer.scenario.session_folder import CAPTURE, RLPDUMP, TCP_STATE
from multitracer.simulator.tcp_state_log import TcpStateLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from multitracer.channel.shared.hosts import HostName
    from multitracer.protocols.link_events import LinkEvent
    from multitracer.simulator.clock import HostClock
    from multitracer.simulator.host import Socket


class HostLogs:
    """Writes what a capture, tcp_info and rlpdump would write on one host.

    Parameters
    ----------
    host : str
        Its name.
    clock : HostClock
        Its clocks.
    opened : callable
        Returns the open file for the name of a log; who gives it closes it.
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
        self._rlp_file: BinaryIO | None = None
        self._pcap_file, self._state_file = opened(CAPTURE), opened(TCP_STATE)
        self._pcap_file.write(pcap_header(snap_bytes=snap_bytes))
        self._state_file.write(self._state.header())

    def packet(self, data: bytes, now_ns: int) -> None:
        """Write a packet at the host's interface."""
        time_ns = self.clock.realtime_ns(now_ns)
        self._pcap_file.write(pcap_record(data, time_ns=time_ns, snap_bytes=self._snap))

    def state(self, socket: Socket, now_ns: int) -> None:
        """Write a socket's variables, if they changed."""
        self._state_file.write(self._state.reading(socket, now_ns))

    def open_link_log(self) -> BinaryIO:
        """Make the link's log, and return it."""
        self._rlp_file = self._opened(RLPDUMP)
        self._rlp_file.write(self._rlp.header())
        return self._rlp_file

    def link_event(self, event: LinkEvent) -> None:
        """Write an event of the host's end of the link."""
        file = self._rlp_file or self.open_link_log()
        file.write(self._rlp.record(event, time_ns=self.clock.realtime_ns(event.time_ns)))

    def end(self, now_ns: int) -> None:
        """Write the last lines."""
        self._state_file.write(self._state.end(now_ns))
