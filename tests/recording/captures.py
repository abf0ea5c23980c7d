"""Small captures that tests make: TCP conversations packet by packet, with any times and addresses."""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

START_NS = 1_700_000_000_000_000_000
MS = 1_000_000
MSS = 1000
SS_LOG = "".join(
    f"2023-11-14T22:13:{second}+00:00\nESTAB 0 0 10.0.0.1:40000 10.0.0.2:80\n"
    f"\t cubic wscale:7,7 rto:201 rtt:1.5/0.75 mss:1000 cwnd:{cwnd} ssthresh:7\n"
    for second, cwnd in ((20, 10), (21, 12))
)
"""Two readings of the first conversation's sender, as `date -Is; ss -tin` writes them in a loop."""


@dataclass
class Conversation:
    """One connection that sends whole segments one way, an RTT of 40 ms, every one acknowledged."""

    client: str = "10.0.0.1"
    server: str = "10.0.0.2"
    sport: int = 40000
    dport: int = 80
    start_ns: int = START_NS
    segments: int = 5
    lost: tuple[int, ...] = ()
    """Segments that are sent twice, the second time 200 ms later."""
    handshake: bool = True
    client_isn: int = 1000
    server_isn: int = 5000
    packets: list[tuple[int, bytes]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._now_ns = self.start_ns
        if self.handshake:
            self._add(0, forward=True, flags="S", seq=self.client_isn, options=[("MSS", MSS), ("WScale", 7)])
            self._add(
                40,
                forward=False,
                flags="SA",
                seq=self.server_isn,
                ack=self.client_isn + 1,
                options=[("MSS", 1400), ("WScale", 3)],
            )
            self._add(1, forward=True, flags="A", seq=self.client_isn + 1, ack=self.server_isn + 1)
        for i in range(self.segments):
            self._data(i)
        self._close()

    def _data(self, i: int) -> None:
        seq = self.client_isn + 1 + i * MSS
        self._add(1, forward=True, flags="PA", seq=seq, ack=self.server_isn + 1, payload=bytes(MSS))
        if i in self.lost:
            self._add(200, forward=True, flags="PA", seq=seq, ack=self.server_isn + 1, payload=bytes(MSS))
        self._add(40, forward=False, flags="A", seq=self.server_isn + 1, ack=seq + MSS)

    def _close(self) -> None:
        end = self.client_isn + 1 + self.segments * MSS
        self._add(1, forward=True, flags="FA", seq=end, ack=self.server_isn + 1)
        self._add(40, forward=False, flags="FA", seq=self.server_isn + 1, ack=end + 1)
        self._add(1, forward=True, flags="A", seq=end + 1, ack=self.server_isn + 2)

    def _add(self, after_ms: float, *, forward: bool, payload: bytes = b"", **tcp: object) -> None:
        self._now_ns += round(after_ms * MS)
        network = IPv6 if ":" in self.client else functools.partial(IP, id=len(self.packets) + 1)
        ends = (self.client, self.server) if forward else (self.server, self.client)
        ports = (self.sport, self.dport) if forward else (self.dport, self.sport)
        packet = network(src=ends[0], dst=ends[1]) / TCP(sport=ports[0], dport=ports[1], **tcp) / payload
        self.packets.append((self._now_ns, bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / packet)))

    def at_receiver(self) -> list[tuple[int, bytes]]:
        """Return the packets with their times at the server, which is 20 ms from the client."""
        sender = self.packets[0][1][26:30]  # IPv4
        return [(ns + 20 * MS * (1 if frame[26:30] == sender else -1), frame) for ns, frame in self.packets]


def write_pcap(path: Path, packets: Iterable[tuple[int, bytes]], *, link_type: int = 1) -> Path:
    """Write (time in ns, frame) pairs as a little-endian nanosecond pcap file."""
    with path.open("wb") as stream:
        stream.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, link_type))
        for time_ns, frame in packets:
            seconds, ns = divmod(time_ns, 1_000_000_000)
            stream.write(struct.pack("<IIII", seconds, ns, len(frame), len(frame)) + frame)
    return path


def write_conversations(path: Path, *conversations: Conversation) -> Path:
    """Write conversations into one capture, merged by time."""
    return write_pcap(path, sorted(packet for each in conversations for packet in each.packets))
