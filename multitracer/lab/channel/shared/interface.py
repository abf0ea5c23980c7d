"""A network interface before a link: its queue, and the events of the packets in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from multitracer.lab.channel.shared.codel import CoDel
from multitracer.lab.channel.shared.ip_fields import ip_facts
from multitracer.lab.channel.shared.queue import DropTail
from multitracer.protocols.link_events import PacketDropped, PacketMarked, PacketQueued

if TYPE_CHECKING:
    from multitracer.lab.channel.shared.queue import PacketQueue, QueueConfig

    QueueEvent = type[PacketQueued | PacketDropped | PacketMarked]


class Tell(Protocol):
    """Takes an event: its kind, its time, and the facts that follow time and slot."""

    def __call__(self, kind: QueueEvent, now_ns: int, *facts: int | str | None) -> None:
        """Take it."""


class Interface:
    """The queue in which packets wait for the link.

    Parameters
    ----------
    config : QueueConfig
    tell : Tell
        Where it tells what happened.
    """

    def __init__(self, config: QueueConfig, tell: Tell) -> None:
        self.queue: PacketQueue = CoDel(config) if config.policy == "codel" else DropTail(config)
        self._config = config
        self._tell = tell
        self._drops_due = 0

    def lose_packets(self, count: int) -> None:
        """Lose the next `count` packets without notice to the sender."""
        self._drops_due += count

    def offer(self, packet: bytes, *, now_ns: int, is_closed: bool = False) -> bool:
        """Put a packet into the queue; False if the queue refused it and says so."""
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
        """Return the next packet for the link, or None."""
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
