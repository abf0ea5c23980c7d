"""One modelled network in real time: two hosts with the kernel's TCP, the link between them, and observers.

The task of a run (the traffic of a scenario, a measurement) is a `Workload`. The network makes the hosts,
runs the link's events at their times until the workload gives a reason to end, and completes the
manifest. One ExitStack undoes everything that a run makes, in reverse order, however it ends.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from multitracer.errors import InputError
from multitracer.lab.channel.gsm import GsmLink, LinkConfig
from multitracer.lab.channel.links import link_of
from multitracer.lab.channel.shared.packet_link import SIDES
from multitracer.lab.scenario.session_folder import log_files
from multitracer.lab.testbed.children import Children, Collectors
from multitracer.lab.testbed.driver import Driver, LinkClock, PullingDriver, punctual
from multitracer.lab.testbed.namespaces import Hosts, Maker
from multitracer.lab.testbed.shift_clock import ClockShift
from multitracer.manifest import write_manifest
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from multitracer.lab.channel.shared.packet_link import PacketLink, Side
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.testbed.link_logs import LinkLogs
    from multitracer.lab.testbed.namespaces import Interruption
    from multitracer.lab.testbed.privileges import Privileges
    from multitracer.manifest import CollectorRun, Manifest


_SEEDS_APART = 1_000_003
"""Difference of the seeds of two runs of a session: a continued run has another part of the same radio."""


class Lateness(NamedTuple):
    """Statistics of how late the link's events were run."""

    real_time_priority: bool
    latest_ms: float
    """Maximum lateness of a link event, in ms of real time."""


class Workload(ABC):
    """Interface of the task of a run.

    The network calls these methods in the order in which they stand here.
    """

    every_socket = False
    """Whether all sockets of the hosts get the profile's congestion control and window by default."""
    clock_errors: Mapping[Side, ClockShift] | None = None
    """Clock errors of both hosts' logs.

    None: the logs have the kernel's clock, and the manifest has no errors."""

    @abstractmethod
    def logs(self) -> LinkLogs:
        """Return the object that writes packets and events of the link; called when the hosts exist."""

    @abstractmethod
    def start(self, link: PacketLink, undo: ExitStack) -> None:
        """Start collectors and programs at the hosts; called when the logs are open."""

    def begin(self, clock: LinkClock) -> None:
        """Receive the clock of the link, which starts now."""
        del clock

    @abstractmethod
    def reason(self, now_ns: int) -> str:
        """Return why the run is over; empty while it continues. Called after every event of the link."""

    def conclude(self, link: PacketLink) -> None:
        """Collect results at the end of the run, while the hosts still exist."""
        del link

    def own_logs(self, ended_ns: int | None) -> list[CollectorRun]:
        """Return the manifest's entries of logs that no child writes; `ended_ns` is None during the run."""
        del ended_ns
        return []

    @abstractmethod
    def note_end(self, ended: str, lateness: Lateness | None) -> None:
        """Write into the manifest why the run ended, and how late the link was; None if it never ran."""


class RealNetwork:
    """The link of a scenario with its two hosts, in real time.

    Parameters
    ----------
    scenario : Scenario
        The link, its script, and the TCP of the hosts.
    folder : Path
        The existing session folder.
    manifest : Manifest
        Manifest of the folder, with seed, speed and the runs before this one; completed here.
    privileges : Privileges
        Privileges of this process.
    interruption : Interruption
        Ends the run.
    """

    def __init__(
        self, scenario: Scenario, folder: Path, manifest: Manifest, privileges: Privileges, interruption: Interruption
    ) -> None:
        self.scenario = scenario
        self.folder = folder
        self.manifest = manifest
        self.number = len(manifest.variables.runs)
        """Number of the run in its session folder, from 0."""
        self.seed = (manifest.variables.seed or 0) + self.number * _SEEDS_APART
        self.speed = manifest.variables.speed or 1.0
        """Link seconds per second."""
        self.privileges = privileges
        self.interruption = interruption
        maker = Maker.myself()
        self.hosts = Hosts(maker)
        suffix = f"-{self.number}" if self.number else ""
        self.children = Children(folder, self.hosts, maker, interruption, suffix=suffix)
        self.ended_ns = 0
        """Link time at the end of the run, ns."""
        self._earlier = list(manifest.collectors)
        self._ended = ""
        self._lateness: Lateness | None = None

    def run(self, workload: Workload) -> None:
        """Make the hosts, run the workload, write all files, and remove the hosts."""
        write_manifest(self.folder, self.manifest)
        with ExitStack() as undo:
            undo.callback(self._complete_manifest, workload)
            undo.callback(self.hosts.remove)
            undo.callback(self.children.stop)
            self._make_hosts(workload)
            logs = undo.enter_context(workload.logs())
            script = self.scenario.events
            link = link_of(self.scenario.link, seed=self.seed, script=script, on_air=logs.on_air)
            workload.start(link, undo)
            self._write_manifest(workload, None)
            self._drive(workload, link, logs)
            workload.conclude(link)

    # --- before the first event ---

    def _make_hosts(self, workload: Workload) -> None:
        self.hosts.make()
        for side in SIDES:
            self.hosts.lay_link(
                side,
                self.scenario.profile(side),
                speed=self.speed,
                queue_packets=self._device_queue_packets(side),
                every_socket=workload.every_socket,
            )
            self.manifest.hosts[side].add(self.hosts.facts(side))
            if workload.clock_errors is not None:
                error = workload.clock_errors[side]
                shift = {"offset_ns": error.offset_ns, "skew_ppm": error.skew_ppm}
                self.manifest.hosts[side].add({"clock_error": shift})
        self.interruption.check()

    def _device_queue_packets(self, side: Side) -> int | None:
        """Return the length of a device's queue in packets, or None for the default length.

        The length is set only if packets must be dropped in this queue instead of the link's queue.
        """
        link = self.scenario.link
        queue = link.queue_of(side) if isinstance(link, LinkConfig) else link.queue
        return queue.limit_packets if queue.local_drops == "told" else None

    def start_collectors(self, workload: Workload, *, snap_bytes: int, tracing: bool) -> None:
        """Start the collectors that work here, and wait until they record."""
        collectors = Collectors(
            self.folder,
            self.children,
            addresses=self.hosts.addresses,
            clock_errors=workload.clock_errors or {side: ClockShift() for side in SIDES},
            speed=self.speed,
            number=self.number,
        )
        collectors.start(self.privileges, snap_bytes=snap_bytes, tracing=tracing)

    # --- the run ---

    def _drive(self, workload: Workload, link: PacketLink, logs: LinkLogs) -> None:
        """Run the link's events until the run is over."""
        with punctual() as is_real_time:
            clock = LinkClock(self.speed)
            logs.begin(clock)
            workload.begin(clock)
            driver = self._driver(link, clock, logs)

            def is_over(now_ns: int) -> bool:
                logs.each_second()
                self._ended = self.interruption.reason or workload.reason(now_ns)
                return bool(self._ended)

            driver.run(is_over, wake=self.interruption.wake)
            if isinstance(link, GsmLink):
                link.count_idle()
            driver.tell_events()
        self.ended_ns = clock.now_ns()
        latest_ms = round(driver.latest_ns / self.speed / NS_PER_MS, 3)
        self._lateness = Lateness(is_real_time, latest_ms)

    def _driver(self, link: PacketLink, clock: LinkClock, logs: LinkLogs) -> Driver:
        """Return the event loop.

        If the hosts of a data call must learn of drops, packets wait in the device's queue.
        """
        if isinstance(link, GsmLink) and self.scenario.link.queue.local_drops == "told":
            return PullingDriver(link, clock, self.hosts.tuns, logs)
        return Driver(link, clock, self.hosts.tuns, logs)

    # --- the manifest ---

    def _write_manifest(self, workload: Workload, ended_ns: int | None) -> None:
        self.manifest.collectors = [*self._earlier, *self.children.runs, *workload.own_logs(ended_ns)]
        write_manifest(self.folder, self.manifest)

    def _complete_manifest(self, workload: Workload) -> None:
        """Write into the manifest how the run and each child ended, and the state of every log."""
        workload.note_end(self._ended or self.interruption.reason or "it failed", self._lateness)
        self.manifest.files = list(log_files(self.folder))
        self._write_manifest(workload, time.time_ns())


def check_link(scenario: Scenario, seed: int) -> None:
    """Raise an error for a link that cannot run in real time, or is impossible.

    Raises
    ------
    InputError
        If the link has several mobiles, or it is not a data call and its hosts must learn of drops.
    LocalProtocolError
        If the positions of nodes are impossible, or the link is never up.
    """
    link_of(scenario.link, seed=seed, script=scenario.events)
    if len(scenario.hosts) > len(SIDES):
        raise InputError(
            f"{scenario.name}: a real run must have one mobile host, not {len(scenario.hosts) - 1}; run with --virtual"
        )
    if scenario.link.queue.local_drops == "told" and not isinstance(scenario.link, LinkConfig):
        raise InputError(
            f'{scenario.name}: [link.queue] local_drops = "told" is possible in a real run only '
            'with a data call; run with --virtual, or set local_drops = "silent"'
        )
