"""Who watches a run in virtual time; times are those of the link, ns since the run began."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from multitracer.lab.channel.gsm.link import OnAir
    from multitracer.lab.channel.shared.hosts import HostName
    from multitracer.lab.channel.shared.packet_link import RadioReading
    from multitracer.lab.simulator.host import Socket
    from multitracer.lab.tcp import Packet
    from multitracer.protocols.link_events import LinkEvent


class Observer:
    """Each method is called when its event happens; here each does nothing."""

    def packet(
        self, host: HostName, packet: Packet | None, data: bytes, *, now_ns: int, outgoing: bool
    ) -> None:
        """Note a packet at a host's interface; `packet` is None if it holds no TCP segment."""

    def state(self, host: HostName, socket: Socket, *, now_ns: int) -> None:
        """Note that a socket's variables may have changed."""

    def link_events(self, host: HostName, events: list[LinkEvent]) -> None:
        """Note events of one end of the link, in order."""

    def on_air(self, frame: OnAir) -> None:
        """Note whether a frame was lost."""

    def reading(self, host: HostName, reading: RadioReading, *, now_ns: int) -> None:
        """Note what a mobile's modem says, each second of a measurement or of a run that asks for it."""


def watching(observers: Sequence[Observer], what: str) -> list[Callable[..., object]]:
    """Return the methods of this name that do something: most are called for every packet."""
    nothing = getattr(Observer, what)
    return [getattr(each, what) for each in observers if getattr(type(each), what) is not nothing]
