"""What tests and docs/links.md measure links with: numbered packets, bulk transfers and echoes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from multitracer.lab.channel.shared.packet_link import FAR, SIDES
from multitracer.units import NS_PER_S
from tests.narrowed import of_kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multitracer.lab.channel.shared.packet_link import HostName, PacketLink, RadioReading, Side
    from multitracer.protocols.link_events import LinkEvent

_Kind = TypeVar("_Kind")
_HEADER = bytes.fromhex("4500 0000 0000 0000 4011 0000 0a000001 0a000002")
_BODIES = bytes(range(256)) * 257


def packet(number: int, octets: int = 576) -> bytes:
    """Return an IPv4 packet that names itself and whose bytes depend on its number."""
    head = bytearray(_HEADER)
    head[2:4], head[4:6] = octets.to_bytes(2), (number & 0xFFFF).to_bytes(2)
    begin = number * 31 & 0xFF
    body = number.to_bytes(8) + _BODIES[begin : begin + octets - 28]
    return bytes(head) + body


def number_of(data: bytes) -> int:
    """Return the number of such a packet."""
    return int.from_bytes(data[20:28])


@dataclass
class Seen:
    """What came out of a link, and what it said."""

    packets: dict[HostName, list[tuple[int, bytes]]] = field(default_factory=lambda: {side: [] for side in SIDES})
    """When and what, by the side where it came out."""
    events: dict[Side, list[LinkEvent]] = field(default_factory=lambda: {side: [] for side in SIDES})
    readings: list[RadioReading] = field(default_factory=list)
    sent: Counter[Side] = field(default_factory=Counter)
    """Packets offered; of a bulk transfer without those still under way at its end."""

    def kbps(self, side: Side) -> float:
        """Return the rate of IP bits that came out at a side, from the first packet to the last."""
        (first_ns, first), *_, (last_ns, _) = self.packets[side]
        octets = sum(len(data) for _, data in self.packets[side]) - len(first)
        return octets * 8 / ((last_ns - first_ns) / NS_PER_S) / 1000

    def lost_percent(self, side: Side) -> float:
        """Return the share of packets of a side that did not come out at the other."""
        return 100 * (1 - len(self.packets[FAR[side]]) / self.sent[side])

    def of(self, side: Side, kind: type[_Kind]) -> list[_Kind]:
        """Return the events of a kind."""
        return of_kind(kind, self.events[side])


def bulk(link: PacketLink, sides: Iterable[Side], *, seconds: float, octets: int = 576, ahead: int = 20) -> Seen:
    """Keep `ahead` packets of each side in the link, lost ones aside, for a time.

    Full queues, and no packet refused: what a link can carry.
    """
    seen = Seen()
    inside: dict[Side, set[int]] = {side: set() for side in sides}
    now_ns, number = 0, 0
    while now_ns < seconds * NS_PER_S:
        for side, numbers in inside.items():
            while len(numbers) < ahead:
                numbers.add(number)
                link.send(side, packet(number, octets), now_ns=now_ns)
                seen.sent[side] += 1
                number += 1
        due_ns = link.next_ns
        assert due_ns is not None
        now_ns = due_ns
        _advance(link, now_ns, seen)
        for side, numbers in inside.items():
            out = seen.packets[FAR[side]]
            if out:
                latest = number_of(out[-1][1])
                numbers -= {each for each in numbers if each <= latest}
    for side, numbers in inside.items():
        seen.sent[side] -= len(numbers)
    return seen


def _advance(link: PacketLink, now_ns: int, seen: Seen) -> None:
    for side, data in link.advance(now_ns):
        seen.packets[side].append((now_ns, data))
    for side in SIDES:
        seen.events[side] += link.events(side)


def echoes(link: PacketLink, *, seconds: float, every_s: float, octets: int = 64) -> tuple[list[float], Seen]:
    """Let the fixed host send back what the mobile sends each `every_s`; return the round trips in s."""
    seen, trips, sent_ns = Seen(), [], {}
    for number in range(int(seconds / every_s)):
        due_ns = round(number * every_s * NS_PER_S)
        _echo_until(link, due_ns, seen)
        seen.readings.append(link.reading(due_ns))
        sent_ns[number] = due_ns
        seen.sent["mobile"] += 1
        link.send("mobile", packet(number, octets), now_ns=due_ns)
    _echo_until(link, round(seconds * NS_PER_S), seen)
    for then_ns, data in seen.packets["mobile"]:
        trips.append((then_ns - sent_ns[number_of(data)]) / NS_PER_S)
    return trips, seen


def _echo_until(link: PacketLink, until_ns: int, seen: Seen) -> None:
    while link.next_ns is not None and link.next_ns <= until_ns:
        now_ns = link.next_ns
        before = len(seen.packets["fixed"])
        _advance(link, now_ns, seen)
        for _, data in seen.packets["fixed"][before:]:
            seen.sent["fixed"] += 1
            link.send("fixed", data, now_ns=now_ns)
    _advance(link, until_ns, seen)
