"""The parameters of a switched link in a scenario; where a number comes from stands beside it.

*Paper*: paper 002. *Ours*: the paper gives none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.ray.channel import Channel, channel_of
from multitracer.lab.channel.ray.config import (
    BuildingConfig,
    NodeConfig,
    RadioConfig,
    RayConfig,
    RoadConfig,
    StreetConfig,
    WallConfig,
)
from multitracer.lab.channel.shared.queue import QueueConfig
from multitracer.lab.channel.switched.trace import PowerTrace  # noqa: TC001  # `parse_scenario` asks for the types
from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US

_MOST_BITS_PER_S = 1_000_000_000
"""Not measured: a packet of 1500 bytes takes 12 us then, and a second of it a minute of computing."""
_LEAST_STEP_NS = NS_PER_MS // 10
"""Of a power trace: not measured, ten thousand changes a second at the most, however long it is repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchedConfig:
    """A link of two nodes whose received power decides whether it is up, each way at the same time."""

    LISTS: ClassVar[dict[str, type]] = {"wall": WallConfig, "building": BuildingConfig}
    """Tables of a scenario that may come several times, `[[link.wall]]`."""

    queue: QueueConfig = field(default_factory=QueueConfig)
    """Interface queue at each end."""
    bits_per_s: int = 2_000_000
    """Of each direction by itself (paper: 2 Mb/s; that they do not share it is ours)."""
    delay_ns: int = NS_PER_US
    """From one antenna to the other (ours: 300 m; the paper says that it does not matter)."""
    threshold_dbm: float = -75.0
    """Below it the link is down (paper, of scenarios 1 and 2)."""
    when_down: Literal["flush", "send", "hold"] = "flush"
    """What becomes of packets then that are not on the air. flush: those that wait and those that come are
    lost, as in the simulator that the paper used. send: they are sent and lost. hold: they wait."""
    power: PowerTrace | None = None
    """A power trace, named by `power` in a scenario, instead of all that follows (ours)."""
    at_end: Literal["repeat", "stop"] = "repeat"
    """What follows a power trace's end: the trace again, or the end of the link and so of the run."""
    radio: RadioConfig = field(default_factory=RadioConfig)
    mobile: NodeConfig = field(default_factory=lambda: NodeConfig(x_m=10.0))
    fixed: NodeConfig = field(default_factory=NodeConfig)
    street: StreetConfig = field(default_factory=StreetConfig)
    road: RoadConfig = field(default_factory=RoadConfig)
    wall: tuple[WallConfig, ...] = ()
    building: tuple[BuildingConfig, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.bits_per_s <= _MOST_BITS_PER_S:
            raise LocalProtocolError(f"bits_per_s is {self.bits_per_s}; choose 1 to {_MOST_BITS_PER_S:,}")
        if not 0 <= self.delay_ns <= NS_PER_S:
            raise LocalProtocolError("delay is 0 to 1 s")
        if not -300 <= self.threshold_dbm <= 300:
            raise LocalProtocolError(f"threshold_dbm is {self.threshold_dbm:g}; choose -300 to 300")
        self._check_power()

    def _check_power(self) -> None:
        """Refuse a trace beside a geometry, one too fine, and an end without a trace."""
        if self.power is None:
            if self.at_end != "repeat":
                raise LocalProtocolError("at_end is for a power trace; name one with power, or leave it out")
            return
        if self.ray != RayConfig():
            raise LocalProtocolError(
                "power names a trace, beside which radio, nodes, walls and cars have no effect; "
                "leave the one or the others out"
            )
        step_ns = self.power.channel.step_ns
        if step_ns < _LEAST_STEP_NS:
            raise LocalProtocolError(
                f"the power trace has steps of {step_ns / NS_PER_MS:g} ms; "
                f"choose at least {_LEAST_STEP_NS / NS_PER_MS:g} ms"
            )

    @property
    def ray(self) -> RayConfig:
        """Return what its power is computed from."""
        return RayConfig(
            radio=self.radio,
            mobile=self.mobile,
            fixed=self.fixed,
            street=self.street,
            road=self.road,
            wall=self.wall,
            building=self.building,
        )

    def channel(self, *, seed: int) -> Channel:
        """Return its received power: that of the trace, else what `channel_of` computes and raises."""
        return channel_of(self.ray, seed=seed) if self.power is None else self.power.channel

    def air_ns(self, packet: bytes) -> int:
        """Return how long a packet is on the air: 6 ms for 1500 bytes at 2 Mb/s."""
        return len(packet) * 8 * NS_PER_S // self.bits_per_s
