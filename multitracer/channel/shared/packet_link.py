"""The interface of every link that carries IP packets between a mobile and the fixed host.

A driver, in virtual or in real time, asks `next_ns` when something will happen by itself, calls `advance`
then or earlier, and hands packets to `send`. Times are link time, ns since the link began, and never go
back. A link does no I/O and reads no clock. All chance comes from its seed, and none of it depends on how
often the driver calls: the same packets at the same times meet the same radio.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from multitracer.protocols.link_events import LinkEvent

Side = Literal["mobile", "fixed"]
SIDES: tuple[Side, Side] = ("mobile", "fixed")
FAR: dict[Side, Side] = {"mobile": "fixed", "fixed": "mobile"}
"""The other side."""


class Delivery(NamedTuple):
    """An IP packet that came out of the link."""

    side: Side
    """Where it came out."""
    packet: bytes


@dataclass(frozen=True, slots=True)
class RadioReading:
    """The answer of the mobile's modem at one time; None is what the modem cannot know then."""

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


class PacketLink(Protocol):
    """A link that carries IP packets; event driven."""

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

    def send(self, side: Side, packet: bytes, *, now_ns: int) -> bool:
        """Offer an IP packet at one side; False if the interface queue refused it and reports that."""

    def advance(self, now_ns: int) -> list[Delivery]:
        """Run all events up to `now_ns`; return the packets that came out, in order."""

    def events(self, side: Side) -> list[LinkEvent]:
        """Return what happened at one end since the last call, in order."""

    def reading(self, now_ns: int) -> RadioReading:
        """Return the answer of the mobile's modem now; call `advance` before."""
