"""The network interface before a link: its queue, and events of its packets with their IP fields."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from multitracer.captured import IpProtocol
from multitracer.lab.channel.shared.queue import CoDel, DropTail, named
from multitracer.protocols.link_events import PacketDropped, PacketMarked, PacketQueued

if TYPE_CHECKING:
    from multitracer.lab.channel.shared.queue import PacketQueue, QueueConfig
    from multitracer.protocols.link_events import LinkEvent

    QueueEvent = type[PacketQueued | PacketDropped | PacketMarked]

# The few fields of an IPv4 packet that the link's log names; the packet is not checked.


_TCP = IpProtocol.TCP.value
_IP, _TCP_HEADER = struct.Struct("!B3xH3xB2x8s"), struct.Struct("!4sI4xB")
"""Fields that are read: first octet, identification, protocol and addresses.

Ports, sequence number and data offset."""


class IpFacts(NamedTuple):
    """Header fields of an IP packet that links write into their logs.

    A field that the packet does not have is None.
    """

    ip_id: int | None = None
    flow: bytes = b""
    """Addresses and ports of a TCP packet, as encoded in it; empty for any other protocol."""
    seq: int | None = None
    """TCP sequence number."""
    payload_bytes: int = 0
    """Bytes of TCP payload."""


@lru_cache(maxsize=256)  # of the packets on a link, each of which is asked two or three times
def ip_facts(packet: bytes) -> IpFacts:
    """Return header fields of an IP packet; no content of the packet raises an error."""
    if len(packet) < 20 or packet[0] >> 4 != 4:
        return IpFacts()
    first, ip_id, protocol, addresses = _IP.unpack_from(packet)
    header = (first & 0x0F) * 4
    if protocol != _TCP or len(packet) < header + 20:
        return IpFacts(ip_id)
    ports, seq, offset = _TCP_HEADER.unpack_from(packet, header)
    return named(IpFacts, (ip_id, addresses + ports, seq, len(packet) - header - (offset >> 4) * 4))


# The events of one side of a link, in order.


class SideJournal:
    """Collects the log events of one side, each with its time and slot number.

    Parameters
    ----------
    slot_ns : int
        Duration of the link's slot, from which the slot number is computed.
    """

    def __init__(self, slot_ns: int) -> None:
        self._slot_ns = slot_ns
        self.waiting: list[LinkEvent] = []
        """Events that `events` has not returned yet."""

    def add(self, kind: type[LinkEvent], now_ns: int, *facts: Any) -> None:
        """Add an event of class `kind` with time, slot number, and then the fields `facts`."""
        fields = now_ns, now_ns // self._slot_ns, *facts
        if len(fields) == len(kind._fields):
            self.waiting.append(named(kind, fields))
        else:
            self.waiting.append(kind(*fields))

    def events(self) -> list[LinkEvent]:
        """Return the events since the last call of this method."""
        taken, self.waiting = self.waiting, []
        return taken


class Tell(Protocol):
    """Interface of a function that receives an event: its kind, its time, and its other fields."""

    def __call__(self, kind: QueueEvent, now_ns: int, *facts: int | str | None) -> None:
        """Receive an event of a queue: kind, time in ns, and the other fields of the event."""


class LinkInterface:
    """The queue in which packets wait for the link.

    Parameters
    ----------
    config : QueueConfig
    tell : Tell
        Function that receives the events.
    """

    def __init__(self, config: QueueConfig, tell: Tell) -> None:
        self.queue: PacketQueue = CoDel(config) if config.policy == "codel" else DropTail(config)
        self._config = config
        self._tell = tell
        self._drops_due = 0

    def lose_packets(self, count: int) -> None:
        """Discard the next `count` packets; the host is not informed."""
        self._drops_due += count

    def offer(self, packet: bytes, *, now_ns: int, is_closed: bool = False) -> bool:
        """Put a packet into the queue; return False if the queue refuses it, which an event reports.

        A queue with `is_closed` refuses all packets.
        """
        facts = ip_facts(packet)
        about = len(packet), facts.ip_id, facts.seq
        if self._drops_due > 0 or is_closed:
            cause = "script" if self._drops_due > 0 else "closed"
            self._drops_due = max(0, self._drops_due - 1)
            self._tell(PacketDropped, now_ns, len(self.queue), *about, cause)
            return cause == "script"  # lost without a word
        taken = self.queue.offer(packet, now_ns=now_ns)
        if taken:
            self._tell(PacketQueued, now_ns, len(self.queue), *about)
        if self.queue.happened:
            self._report_incidents(now_ns)
        return taken or self._config.local_drops == "silent"

    def take(self, now_ns: int) -> bytes | None:
        """Return the next packet for the link; None if the queue is empty."""
        packet = self.queue.take(now_ns=now_ns)
        if self.queue.happened:
            self._report_incidents(now_ns)
        return packet

    def _report_incidents(self, now_ns: int) -> None:
        for incident in self.queue.incidents():
            facts = ip_facts(incident.packet)
            about = len(self.queue), len(incident.packet), facts.ip_id, facts.seq
            if incident.kind == "marked":
                self._tell(PacketMarked, now_ns, *about)
            else:
                self._tell(PacketDropped, now_ns, *about, incident.cause)
