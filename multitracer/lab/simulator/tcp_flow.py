"""A traffic of a scenario over TCP: the mobile connects, one end writes, the other reads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from multitracer.lab.scenario.transports import TCP_TRANSPORTS
from multitracer.lab.simulator.flow import Flow
from multitracer.lab.simulator.host import DONE

if TYPE_CHECKING:
    from multitracer.lab.scenario.meters import Meters
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.simulator.host import Socket
    from multitracer.lab.simulator.world import VirtualWorld


class TcpFlow(Flow):
    """One traffic over TCP."""

    def __init__(self, number: int, scenario: Scenario, world: VirtualWorld, meters: Meters) -> None:
        super().__init__(number, scenario, world, meters)
        self._of_transport = TCP_TRANSPORTS[self._traffic.transport]
        self._socket: Socket | None = None
        served = partial(self._application, at_mobile=False)
        self._fixed.listen(self._port, served, self._of_transport(self._fixed.profile))

    def begin(self) -> None:
        """Connect."""
        mobile, fixed = self._endpoints()
        self._meters.begin(self._number, mobile, fixed)
        running = self._application(at_mobile=True)
        profile = self._of_transport(self._mobile.profile)
        self._socket = self._mobile.connect(fixed, running, profile)
        self._give_up_later(partial(self._mobile.abort, self._socket))

    @property
    def is_done(self) -> bool:
        """Whether it began and the mobile's end has nothing left to do."""
        return self._socket is not None and self._socket.connection.state in DONE  # asked at every event
