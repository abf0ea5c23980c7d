"""What the flows of all transports share: a traffic of a scenario, its two hosts, and when it gives up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from multitracer.lab.channel.shared.hosts import FIXED
from multitracer.lab.scenario.session_folder import FIRST_PORT
from multitracer.lab.simulator.application import BulkSender, Reader
from multitracer.lab.tcp import Endpoint
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.lab.scenario.meters import Meters
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.simulator.world import VirtualWorld


class Flow(ABC):
    """One traffic: the mobile connects; the fixed host listens from the beginning.

    Parameters
    ----------
    number : int
        Its place in the scenario, from 0.
    scenario : Scenario
    world : VirtualWorld
    meters : Meters
        Who measures it.
    """

    def __init__(self, number: int, scenario: Scenario, world: VirtualWorld, meters: Meters) -> None:
        self._number = number
        self._traffic = scenario.traffic[number]
        self._world = world
        self._meters = meters
        self._mobile = world.hosts[scenario.mobile_of(self._traffic)]
        self._fixed = world.hosts[FIXED]
        self._port = FIRST_PORT + number
        """At which the fixed host listens."""

    @abstractmethod
    def begin(self) -> None:
        """Connect."""

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """Whether it began and nothing is left to do."""

    def _endpoints(self) -> tuple[Endpoint, Endpoint]:
        """Return the mobile's next endpoint and the fixed host's."""
        mobile = Endpoint(self._mobile.address, self._mobile.free_port)
        return mobile, Endpoint(self._fixed.address, self._port)

    def _application(self, *, at_mobile: bool) -> BulkSender | Reader:
        """Return what one end runs."""
        if at_mobile == (self._traffic.direction == "up"):
            return BulkSender(size_bytes=self._traffic.bytes, bytes_per_s=self._traffic.writes_bytes_per_s)
        return Reader(bytes_per_s=self._traffic.reads_bytes_per_s)

    def _give_up_later(self, give_up: Callable[[], None]) -> None:
        """Let the mobile give up when the scenario says so, if it does; from now on."""
        if self._traffic.aborts_after_s:
            self._world.at(self._world.now_ns + int(self._traffic.aborts_after_s * NS_PER_S), give_up)
