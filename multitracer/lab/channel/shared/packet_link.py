"""The interface of every link that carries IP packets between mobiles and the fixed host.

A driver, in virtual or in real time, asks `next_ns` when something will happen by itself, calls `advance`
then or earlier, and hands packets to `send`. Times are link time, ns since the link began, and never go
back. A link does no I/O and reads no clock. All chance comes from its seed, and none of it depends on how
often the driver calls: the same packets at the same times meet the same radio.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from multitracer.lab.channel.shared.hosts import FAR, SIDES, HostName, Side

if TYPE_CHECKING:
    from multitracer.protocols.link_events import LinkEvent

__all__ = ["FAR", "SIDES", "Delivery", "HostName", "PacketLink", "RadioReading", "Side"]


class Delivery(NamedTuple):
    """An IP packet that came out of the link."""

    host: HostName
    """Where it came out."""
    packet: bytes


@dataclass(frozen=True, slots=True)
class RadioReading:
    """The answer of a mobile's modem at one time; None is what the modem cannot know then."""

    rssi_dbm: float | None
    """Received power; -113 dBm is no signal (paper 000, section IV)."""
    bler_percent: float | None
    """Blocks that could not be decoded, of those received in the last seconds."""
    cell_busy_percent: float | None
    """Time in which others held the shared channel, of the last seconds."""
    channel: int | None
    """The radio channel that the modem is tuned to."""
    state: str
    """registered, hopping, scanning, blackout; connected and dropped for links that are calls."""
    link_quality: int | None = None
    """Bluetooth's measure, 0 to 255."""
    ecio_db: float | None = None
    """Ec/Io of the pilot."""


class PacketLink(Protocol):
    """A link that carries IP packets; event driven."""

    @property
    def hosts(self) -> tuple[HostName, ...]:
        """Names of the hosts that it joins: the mobiles in their order, then the fixed one (`hosts.py`)."""

    @property
    def next_ns(self) -> int | None:
        """Time of the next event without `send`; None if there is none."""

    @property
    def is_up(self) -> bool:
        """Whether packets can pass now."""

    @property
    def is_dropped(self) -> bool:
        """Whether the link is over for good."""

    @property
    def is_quiet(self) -> bool:
        """Whether no packet waits or is in transit."""

    def send(self, host: HostName, packet: bytes, *, now_ns: int) -> bool:
        """Offer a host's IP packet; False if the interface queue refused it and reports that.

        A packet of the fixed host goes to the mobile whose address is its destination; the only mobile of a
        link gets all.
        """

    def advance(self, now_ns: int) -> list[Delivery]:
        """Run all events up to `now_ns`; return the packets that came out, in order."""

    def events(self, host: HostName) -> list[LinkEvent]:
        """Return what happened at a host's end since the last call, in order."""

    def reading(self, now_ns: int, *, host: HostName | None = None) -> RadioReading:
        """Return the answer of a mobile's modem now, by default the first one's; call `advance` before."""
