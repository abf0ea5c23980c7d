"""Our half of the comparison with ns-3: two hosts of our own on a link of a fixed rate and delay."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from multitracer.lab.channel.shared.interface import ip_facts
from multitracer.lab.simulator.host import BulkSender, SimulatedHost, SimulatedSocket, StreamReader
from multitracer.lab.simulator.network import EventLoop
from multitracer.lab.tcp.packet import Endpoint, TcpPacket
from multitracer.lab.tcp.profile import TcpProfile
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.benchmarks.ns3_judge import Settings

PPP_BYTES = 2
ADDRESSES = {"mobile": bytes([10, 1, 1, 1]), "fixed": bytes([10, 1, 1, 2])}
PORT = 9

Course = list[tuple[float, int]]
"""(time in s since the SYN, value) at each change."""


@dataclass
class PlainLink:
    """Point to point, unlimited queue; the data segments with the listed numbers are lost."""

    settings: Settings
    cwnd: Course = field(default_factory=list)
    delivered: Course = field(default_factory=list)

    def __post_init__(self) -> None:
        self._loop = EventLoop()
        self._luck = Random(1)
        self._free_ns = {"mobile": 0, "fixed": 0}
        self._arrived = 0
        self._received = 0
        profile = TcpProfile(
            congestion=self.settings.congestion,
            mtu_bytes=self.settings.mss_bytes + 40,
            initial_window_segments=self.settings.initial_window_segments,
            timestamps=False,
            sack=False,
            window_scaling=False,
            limited_transmit=False,
            receive_buffer_bytes=self.settings.window_bytes,
            delayed_ack_ns=0,
            sample_every_ack=True,
        )
        self.hosts = {
            side: SimulatedHost(side, address=ADDRESSES[side], profile=profile, network=self)  # type: ignore[arg-type]
            for side in ADDRESSES
        }

    def run(self) -> None:
        """Send the stream; `cwnd` and `delivered` are what was seen."""
        self.hosts["fixed"].listen(PORT, StreamReader)
        remote = Endpoint(ADDRESSES["fixed"], PORT)
        self.hosts["mobile"].connect(remote, BulkSender(size_bytes=self.settings.bytes))
        self._loop.run(until_ns=self.settings.seconds * NS_PER_S, stop=lambda: False)

    @property
    def now_ns(self) -> int:
        """Virtual time."""
        return self._loop.now_ns

    def at(self, time_ns: int, call: Callable[[], None]) -> None:
        """Call something later."""
        self._loop.at(time_ns, call)

    def initial_sequence_number(self) -> int:
        """Return a random number."""
        return self._luck.getrandbits(32)

    def transmit(self, host: SimulatedHost, data: bytes) -> bool:
        """Send a packet at the link's rate, behind those before it."""
        duration_ns = (len(data) + PPP_BYTES) * 8 * NS_PER_S // self.settings.rate_bps
        self._free_ns[host.name] = max(self.now_ns, self._free_ns[host.name]) + duration_ns
        far = "fixed" if host.name == "mobile" else "mobile"
        arrival_ns = self._free_ns[host.name] + self.settings.delay_ms * NS_PER_MS
        self._loop.at(arrival_ns, lambda: self._arrive(far, data))
        return True

    def _arrive(self, side: str, data: bytes) -> None:
        if side == "fixed" and ip_facts(data).payload_bytes:
            self._arrived += 1
            if self._arrived - 1 in self.settings.lost:
                return
        self.hosts[side].deliver(data)

    def saw_packet(self, host: SimulatedHost, packet: TcpPacket, data: bytes, *, outgoing: bool) -> None:
        """Nothing is captured."""

    def saw_state(self, host: SimulatedHost, socket: SimulatedSocket) -> None:
        """Note the window and what has been read."""
        seconds = self.now_ns / NS_PER_S
        if host.name == "mobile":
            self.cwnd.append((seconds, socket.connection.sender.congestion.cwnd_bytes))
        else:
            self._received = max(0, socket.connection.receiver.rcv_nxt - 1)
            self.delivered.append((seconds, min(self._received, self.settings.bytes)))
