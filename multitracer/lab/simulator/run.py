"""One run of a scenario's traffic in virtual time: a world, its flows, what is measured, and the end.

A run is determined by its scenario and its seed alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.lab.channel.gsm.link import GsmLink
from multitracer.lab.scenario.meters import Meters, TcpCounts
from multitracer.lab.scenario.pilot_log import has_pilot
from multitracer.lab.scenario.transports import TCP_TRANSPORTS, WTCP
from multitracer.lab.simulator.observer import Observer
from multitracer.lab.simulator.tcp_flow import TcpFlow
from multitracer.lab.simulator.world import VirtualWorld
from multitracer.lab.simulator.wtcp_flow import WtcpFlow
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.scenario.summary import Summary
    from multitracer.lab.simulator.flow import Flow

_PATIENCE_NS = 10 * NS_PER_S
"""How long a run goes on after its call was dropped."""

_FLOWS: Mapping[str, type[Flow]] = {**dict.fromkeys(TCP_TRANSPORTS, TcpFlow), WTCP: WtcpFlow}
"""Transport -> what carries a traffic over it."""


class _ObservingMeters(Meters, Observer):
    """The meters as one of the observers."""


class VirtualRun:
    """A run of one scenario.

    Parameters
    ----------
    scenario : Scenario
        What happens.
    seed : int, optional
        Another one than the scenario's.
    observers : sequence of Observer
        Who watches.

    Raises
    ------
    InputError
        If the scenario has no traffic.
    """

    def __init__(
        self, scenario: Scenario, *, seed: int | None = None, observers: Sequence[Observer] = ()
    ) -> None:
        scenario.check_traffic()
        self.scenario = scenario
        self.seed = scenario.seed if seed is None else seed
        self.meters = _ObservingMeters(scenario)
        self.world = VirtualWorld(scenario, seed=self.seed, observers=[self.meters, *observers])
        self.world.moved = self._follow_link
        self._flows = [
            _FLOWS[traffic.transport](number, scenario, self.world, self.meters)
            for number, traffic in enumerate(scenario.traffic)
        ]
        self._has_started = False
        self._dropped_ns: int | None = None

    def run(self) -> Summary:
        """Run to the end; return the summary."""
        if has_pilot(self.scenario):
            self.world.read_radio_each_second(len(self.scenario.hosts) - 1)
        self.world.run(until_ns=int(self.scenario.limit_s * NS_PER_S), stop=self._is_over)
        if isinstance(self.world.link, GsmLink):
            self.world.link.count_idle()
        self.world.drain()
        return self._summary()

    def _follow_link(self) -> None:
        """Start the traffic once the link is up; note when it is over."""
        if not self._has_started and self.world.link.is_up:
            self._has_started = True
            for flow, traffic in zip(self._flows, self.scenario.traffic, strict=True):
                start_ns = self.world.now_ns + int(traffic.start_s * NS_PER_S)
                self.world.at(start_ns, flow.begin)
        if self.world.link.is_dropped and self._dropped_ns is None:
            self._dropped_ns = self.world.now_ns

    def _is_over(self) -> bool:
        if self._dropped_ns is not None:
            return self.world.now_ns > self._dropped_ns + _PATIENCE_NS
        for flow in self._flows:  # asked before every event: no generator
            if not flow.is_done:
                return False
        sockets = (socket for host in self.world.hosts.values() for socket in host.sockets)
        return all(socket.is_done for socket in sockets) and self.world.link.is_quiet

    def _summary(self) -> Summary:
        traffic, hosts = self.scenario.traffic[0], self.world.hosts
        sender, receiver = hosts[self.scenario.sender_of(traffic)], hosts[self.scenario.receiver_of(traffic)]
        counters = [socket.connection.sender.counters for socket in sender.sockets]
        counts = TcpCounts(
            tcp_retransmissions=sum(c.retransmitted_segments for c in counters),
            tcp_timeouts=sum(c.timeouts for c in counters),
            tcp_fast_retransmits=sum(c.fast_retransmits for c in counters),
            checksum_errors=receiver.checksum_errors,
        )
        link = self.world.link
        ledger = link.balance() if isinstance(link, GsmLink) else None
        return self.meters.summary(counts, ledger=ledger, end_ns=self.world.now_ns)
