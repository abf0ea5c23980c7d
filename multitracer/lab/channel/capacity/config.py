"""The parameters of a link that follows capacity traces."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.shared.queue import QueueConfig
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.protocols.capacity_trace import CapacityTrace

_MOST_DELAY_NS = 60 * NS_PER_S
"""Longer than by any satellite (not measured)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedConfig:
    """One direction: its trace, named by `trace` in a scenario. Without one only the delay holds it up."""

    trace: CapacityTrace | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityConfig:
    """A link of Mahimahi: a queue, delivery opportunities, a delay, in each direction."""

    queue: QueueConfig = field(default_factory=lambda: QueueConfig(limit_packets=100))
    """Before the opportunities, in each direction, at a router: no host learns of its drops. 100 packets
    are ours: 1.2 s at 1 Mbit/s."""
    delay_ns: int = 20 * NS_PER_MS
    """One way, after the opportunity, each way (ours: a cellular network's core and some Internet)."""
    at_end: Literal["repeat", "stop"] = "repeat"
    """What follows a trace's last stamp: the trace again, or the end of the link and so of the run."""
    overhead_bytes: int = 4
    """What each IP packet takes of its opportunities in addition (Mahimahi: the header of its TUN device)."""
    up: TracedConfig = field(default_factory=TracedConfig)
    down: TracedConfig = field(default_factory=TracedConfig)

    def __post_init__(self) -> None:
        if not 0 <= self.delay_ns <= _MOST_DELAY_NS:
            raise LocalProtocolError(f"capacity link: delay is 0 to {_MOST_DELAY_NS // NS_PER_S} s")
        if not 0 <= self.overhead_bytes <= 1_000:
            raise LocalProtocolError("capacity link: overhead_bytes is 0 to 1,000")

    @property
    def traces(self) -> dict[str, CapacityTrace]:
        """The traces by their direction."""
        named = {"up": self.up.trace, "down": self.down.trace}
        return {direction: trace for direction, trace in named.items() if trace is not None}
