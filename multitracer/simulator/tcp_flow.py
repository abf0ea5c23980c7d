"""A traffic of a scenario over TCP: the mobile connects, one end writes, the other reads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from multitracer.channel.shared.hosts import FIXED
from multitracer.protocols.tcp import Endpoint
from multitracer.scenario.session_folder import FIRST_PORT
from multitracer.scenario.transports import TCP_TRANSPORTS
from multitracer.simulator.application import BulkSender, Reader
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.scenario.meters import Meters
    from multitracer.scenario.model import Scenario, Traffic
    from multitracer.simulator.host import Socket
    from multitracer.simulator.world import VirtualWorld


class TcpFlow:
    """One traffic; the fixed host listens from the beginning.

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
        self._of_transport = TCP_TRANSPORTS[self._traffic.transport]
        self._socket: Socket | None = None
        served = partial(application, self._traffic, sends=self._traffic.direction == "down")
        self._fixed.listen(FIRST_PORT + number, served, self._of_transport(self._fixed.profile))

    def begin(self) -> None:
        """Connect."""
        mobile = Endpoint(self._mobile.address, self._mobile.free_port)
        fixed = Endpoint(self._fixed.address, FIRST_PORT + self._number)
        self._meters.begin(self._number, mobile, fixed)
        running = application(self._traffic, sends=self._traffic.direction == "up")
        profile = self._of_transport(self._mobile.profile)
        socket = self._socket = self._mobile.connect(fixed, running, profile)
        if self._traffic.aborts_after_s:
            give_up_ns = self._world.now_ns + int(self._traffic.aborts_after_s * NS_PER_S)
            self._world.at(give_up_ns, partial(self._mobile.abort, socket))

    @property
    def is_done(self) -> bool:
        """Whether it began and the mobile's end has nothing left to do."""
        return self._socket is not None and self._socket.is_done


def application(traffic: Traffic, *, sends: bool) -> BulkSender | Reader:
    """Return what one end of a traffic runs."""
    if sends:
        return BulkSender(size_bytes=traffic.bytes, bytes_per_s=traffic.writes_bytes_per_s)
    return Reader(bytes_per_s=traffic.reads_bytes_per_s)
