"""A lossy transfer of TCP as one capture point sees it, and the same with copies of its packets."""

from __future__ import annotations

import heapq
import struct
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.parsers.frames import EPOCH_S, Packet, enhanced, interface, option, pcap_file, section, tcp

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

MSS = 1000
RTO_NS = 200_000_000


@dataclass(frozen=True)
class Way:
    """How the hosts number their packets."""

    version: int = 4
    has_ids: bool = True
    """Whether IPv4 identifications count up; they are 0 otherwise."""
    stamps_ns: int = 1_000_000
    """Tick of the TCP timestamps; 0: none."""
    sack: bool = False


@dataclass(frozen=True)
class Path:
    """What lies between the hosts: a capture point at the sender, then losses."""

    segments: int = 60
    loss: float = 0.0
    rtt_ns: int = 20_000_000
    gap_ns: int = 150_000
    """Time between segments of a burst; half of it at least lies between any two packets of a direction."""


@dataclass(frozen=True)
class Seen:
    """One packet at one point."""

    time_ns: int
    back: bool
    segment: bytes
    """TCP header and payload, without ports."""
    ip_id: int
    ends: tuple[tuple[int, int], tuple[int, int]] = ((1, 1000), (2, 80))
    """Host and port of the client and the server."""
    hops: int = 64
    place: int = 0
    """Number of the point."""


@dataclass(frozen=True)
class _Sent:
    """What a segment says; sequence numbers count from the ISNs."""

    back: bool
    flags: int
    seq: int
    ack: int = 0
    payload_bytes: int = 0
    block: tuple[int, int] | None = None


@dataclass
class _Transfer:
    """A sender that is the client, a receiver that acknowledges each segment at once."""

    rng: random.Random
    way: Way
    path: Path
    seen: list[Seen] = field(default_factory=list)
    events: list[tuple[int, int, str, int]] = field(default_factory=list)
    held: set[int] = field(default_factory=set)
    sent_ns: dict[int, int] = field(default_factory=dict)
    sent: int = 0
    wanted: int = 0
    acked: int = 0
    duplicates: int = 0

    def __post_init__(self) -> None:
        self.ids = [self.rng.randrange(1, 65536), self.rng.randrange(1, 65536)]
        self.stamps = [self.rng.getrandbits(32), self.rng.getrandbits(32)]
        self.isn = [self.rng.getrandbits(32), self.rng.getrandbits(32)]
        self.last_ns = [0, 0]

    def at(self, time_ns: int, what: str, value: int) -> None:
        heapq.heappush(self.events, (time_ns, len(self.seen) + len(self.events), what, value))

    def see(self, at_ns: int, sent: _Sent) -> None:
        back, answers = sent.back, sent.flags & 0x10 != 0
        at_ns = self.last_ns[back] = max(at_ns, self.last_ns[back] + self.path.gap_ns // 2)
        if self.way.version == 4 and self.way.has_ids:
            self.ids[back] = self.ids[back] % 65535 + 1
        segment = tcp(
            seq=(self.isn[back] + sent.seq) % 2**32,
            ack=(self.isn[not back] + sent.ack) % 2**32 if answers else 0,
            flags=sent.flags,
            options=self.options(at_ns, sent),
            payload=bytes(sent.payload_bytes),
            window=60000,
        )
        number = self.ids[back] if self.way.version == 4 and self.way.has_ids else 0
        self.seen.append(Seen(at_ns, back, segment, number))

    def options(self, at_ns: int, sent: _Sent) -> bytes:
        options = b""
        if sent.flags & 2:
            options += b"\x02\x04" + MSS.to_bytes(2, "big") + (b"\x04\x02" if self.way.sack else b"")
        if self.way.stamps_ns:
            stamps = [(base + at_ns // self.way.stamps_ns) % 2**32 for base in self.stamps]
            options += b"\x08\x0a" + struct.pack(
                ">II", stamps[sent.back], stamps[not sent.back] * (sent.flags >> 4 & 1)
            )
        if sent.block is not None:
            options += b"\x05\x0a" + struct.pack(
                ">2I", *((edge + self.isn[not sent.back]) % 2**32 for edge in sent.block)
            )
        return options

    def run(self) -> list[Seen]:
        rtt_ns, size = self.path.rtt_ns, self.path.segments * MSS
        self.see(0, _Sent(back=False, flags=0x02, seq=0))
        self.see(rtt_ns, _Sent(back=True, flags=0x12, seq=0, ack=1))
        self.see(rtt_ns + 30_000, _Sent(back=False, flags=0x10, seq=1, ack=1))
        self.send_new(rtt_ns + 50_000, 20)
        while self.events:
            now_ns, _, what, value = heapq.heappop(self.events)
            getattr(self, f"on_{what}")(now_ns, value)
        end_ns = max(self.last_ns) + 1_000_000
        self.see(end_ns, _Sent(back=False, flags=0x11, seq=1 + size, ack=1))
        self.see(end_ns + rtt_ns, _Sent(back=True, flags=0x11, seq=1, ack=2 + size))
        self.see(end_ns + rtt_ns + 30_000, _Sent(back=False, flags=0x10, seq=2 + size, ack=2))
        return sorted(self.seen, key=lambda each: each.time_ns)

    def send_new(self, now_ns: int, segments: int) -> None:
        for place in range(min(segments, self.path.segments - self.sent)):
            self.at(now_ns + place * self.path.gap_ns, "send", self.sent)
            self.sent += 1

    def on_send(self, now_ns: int, number: int) -> None:
        """Send a segment, unless it was acknowledged, or was sent within the last round trip."""
        if number < self.acked or now_ns - self.sent_ns.get(number, -RTO_NS) < self.path.rtt_ns:
            return
        data = _Sent(back=False, flags=0x18, seq=1 + number * MSS, ack=1, payload_bytes=MSS)
        self.see(now_ns, data)
        now_ns = self.sent_ns[number] = self.last_ns[False]
        if self.rng.random() >= self.path.loss:
            self.at(now_ns + self.path.rtt_ns // 2, "arrive", number)
        self.at(now_ns + max(RTO_NS, 3 * self.path.rtt_ns), "send", number)

    def on_arrive(self, now_ns: int, number: int) -> None:
        self.held.add(number)
        while self.wanted in self.held:
            self.wanted += 1
        self.at(now_ns + self.path.rtt_ns // 2, "ack", self.wanted << 32 | number)

    def on_ack(self, now_ns: int, value: int) -> None:
        number, arrived = value >> 32, value & 0xFFFFFFFF
        block = (1 + arrived * MSS, 1 + (arrived + 1) * MSS) if self.way.sack and arrived >= number else None
        self.see(now_ns, _Sent(back=True, flags=0x10, seq=1, ack=1 + number * MSS, block=block))
        if number > self.acked:
            self.acked, self.duplicates = number, 0
            self.send_new(now_ns + 20_000, 2)
        elif number == self.acked < self.path.segments:
            self.duplicates += 1
            if self.duplicates == 3:
                self.at(now_ns + 10_000, "send", number)


def transfer(rng: random.Random, way: Way, path: Path | None = None) -> list[Seen]:
    """Return what a point near the sender sees of a transfer: handshake, data, repairs, FINs.

    Holes bring duplicate ACKs; the third brings a retransmission, and so does a timeout. With small gaps,
    duplicate ACKs follow each other within microseconds.
    """
    return _Transfer(rng, way, path or Path()).run()


def copied(seen: list[Seen], copies: Callable[[Seen], list[Seen]]) -> list[Seen]:
    """Return packets with their copies, in the order of their times; `copies` makes them."""
    return sorted([*seen, *(copy for each in seen for copy in copies(each))], key=lambda each: each.time_ns)


def later(seen: Seen, lag_ns: int, **changed: object) -> Seen:
    """Return a copy of a packet that was captured later, with other changes."""
    return replace(seen, time_ns=seen.time_ns + lag_ns, **changed)  # type: ignore[arg-type]


# --- files ---


def ip_packet(seen: Seen, version: int) -> bytes:
    """Return the IP packet."""
    (source, sport), (destination, dport) = seen.ends[:: -1 if seen.back else 1]
    segment = struct.pack(">HH", sport, dport) + seen.segment[4:]
    if version == 6:
        ends = [b"\xfd" + bytes(13) + host.to_bytes(2, "big") for host in (source, destination)]
        return struct.pack(">IHBB", 6 << 28, len(segment), 6, seen.hops) + b"".join(ends) + segment
    ends = [bytes([10, 0, host >> 8, host & 0xFF]) for host in (source, destination)]
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(segment), seen.ip_id, 0, seen.hops, 6, 0)
    return head + b"".join(ends) + segment


def _kind(packet: bytes) -> bytes:
    return b"\x08\x00" if packet[0] >> 4 == 4 else b"\x86\xdd"


def sll2(seen: Seen, version: int) -> bytes:
    """Return a frame of the device "any", with an interface index."""
    packet = ip_packet(seen, version)
    mac = bytes([2, 0, 0, 0, 0, seen.place]) + bytes(2)
    return _kind(packet) + bytes(2) + struct.pack(">IHBB", 3 + seen.place, 1, 4 * (seen.place > 0), 6) + mac + packet


def sll(seen: Seen, version: int) -> bytes:
    """Return a frame of the device "any" as it was: no interface, but the packet's direction and a MAC address."""
    packet = ip_packet(seen, version)
    mac = bytes([2, 0, 0, 0, 0, seen.place]) + bytes(2)
    return struct.pack(">HHH", 4 * (seen.place > 0), 1, 6) + mac + _kind(packet) + packet


def plain(seen: Seen, version: int) -> bytes:
    """Return an Ethernet frame that is the same at each point, but for what is in the packet."""
    packet = ip_packet(seen, version)
    return bytes([2, 0, 0, 0, 0, 1 + seen.back, 2, 0, 0, 0, 0, 2 - seen.back]) + _kind(packet) + packet


def routed(seen: Seen, version: int) -> bytes:
    """Return an Ethernet frame whose MAC addresses tell the point."""
    frame = plain(seen, version)
    return frame[:4] + bytes([seen.place]) + frame[5:]


def tagged(seen: Seen, version: int) -> bytes:
    """Return an Ethernet frame in VLAN 10, 11, … of its point."""
    frame = routed(seen, version)
    return frame[:12] + b"\x81\0" + (10 + seen.place).to_bytes(2, "big") + frame[12:]


FRAMES = {"sll2": (276, sll2), "sll": (113, sll), "plain": (1, plain), "routed": (1, routed), "tagged": (1, tagged)}


def file_of(seen: list[Seen], link: str, version: int) -> bytes:
    """Return a pcap with nanoseconds, or a pcapng with an interface for each point ("interfaces")."""
    begin_ns = EPOCH_S * 10**9
    if link == "interfaces":
        data = section()
        for place in range(1 + max(each.place for each in seen)):
            data += interface(1, options=option(2, f"eth{place}".encode()) + option(9, b"\x09"))
        return data + b"".join(enhanced(plain(s, version), begin_ns + s.time_ns, number=s.place) for s in seen)
    link_type, frame = FRAMES[link]
    packets = [Packet(frame(each, version), begin_ns + each.time_ns) for each in seen]
    return pcap_file(packets, link_type=link_type, magic=0xA1B23C4D)
