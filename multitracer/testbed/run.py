"""A run under real kernels, from the first namespace to the last line of the manifest.

What a run makes is undone by one ExitStack, in the reverse order of its making, however the run ends.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from multitracer import __version__
from multitracer.channel.gsm.link import FAR, SIDES, GsmLink
from multitracer.channel.shared.hosts import side_of
from multitracer.errors import InputError
from multitracer.manifest import CollectorRun, write_manifest
from multitracer.scenario.session_folder import (
    log_files,
    make_folders,
    new_manifest,
    snap_bytes,
    write_summary,
)
from multitracer.scenario.summary import Summary
from multitracer.testbed.applications import Applications, Course
from multitracer.testbed.children import Children
from multitracer.testbed.clock_error import ClockError
from multitracer.testbed.collectors import Collectors
from multitracer.testbed.driver import Driver, LinkClock, PullingDriver, punctual
from multitracer.testbed.interruption import Interruption
from multitracer.testbed.kernel_tcp import congestion_control
from multitracer.testbed.names import Maker
from multitracer.testbed.namespaces import DEVICE, Hosts
from multitracer.testbed.privileges import required
from multitracer.testbed.record import Recorder
from multitracer.testbed.stale import remove_stale
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from multitracer.channel.gsm.link import Side
    from multitracer.scenario.model import Scenario
    from multitracer.testbed.privileges import Privileges

    ProgressReport = Callable[[int], None]

_COUNTERS = ("nstat", "-a", "-z", "-s", "-j")
_DEVICE_COUNTERS = ("ip", "-s", "-j", "link", "show", DEVICE)
_RECOVERIES = ("TcpExtTCPRenoRecovery", "TcpExtTCPSackRecovery")


def run_real(
    scenario: Scenario,
    folder: Path,
    *,
    seed: int | None = None,
    speed: float = 1,
    progress: ProgressReport | None = None,
) -> Summary:
    """Run a scenario under real kernels and write a session folder.

    Parameters
    ----------
    scenario : Scenario
        What happens.
    folder : Path
        Does not exist yet, or is empty.
    seed : int, optional
        Another one than the scenario's.
    speed : float
        Link seconds that pass in a second.
    progress : callable, optional
        Called after every slot with the payload bytes that have arrived.

    Returns
    -------
    Summary
        What `summary.json` holds.

    Raises
    ------
    PreflightError
        If this process may not do it, or the kernel has no such congestion control.
    InputError
        If the folder has something in it or cannot be made, or a traffic is not over the hosts' TCP.
    InterruptedRunError
        If a signal ended the run; the folder is complete up to then.
    """
    _check_transports(scenario)
    privileges = required()
    for side in SIDES:
        congestion_control(scenario.profile(side))
    with Interruption() as interruption:
        remove_stale()
        make_folders(folder, scenario)
        run = RealRun(scenario, folder, privileges, interruption, seed=seed, speed=speed)
        summary = run.run(progress or (lambda _: None))
        interruption.check()
    return summary


def _check_transports(scenario: Scenario) -> None:
    for number, traffic in enumerate(scenario.traffic, 1):
        if traffic.transport != "tcp":
            raise InputError(
                f"{scenario.name}: [[traffic]] number {number}: a real run has the kernel's TCP alone, not "
                f"transport {traffic.transport!r}; run it with --virtual, or set [tcp] congestion"
            )


class RealRun:
    """One run; see `run_real`."""

    def __init__(
        self,
        scenario: Scenario,
        folder: Path,
        privileges: Privileges,
        interruption: Interruption,
        *,
        seed: int | None,
        speed: float,
    ) -> None:
        self._scenario = scenario
        self._folder = folder
        self._privileges = privileges
        self._interruption = interruption
        self._seed = scenario.seed if seed is None else seed
        self._speed = speed
        self._ended_ns = 0
        self._maker = Maker.myself()
        self._hosts = Hosts(self._maker)
        self._children = Children(folder, self._hosts, self._maker, interruption)
        self._clock_errors: dict[Side, ClockError] = {
            "mobile": ClockError(),
            "fixed": ClockError.from_now(scenario.clock),
        }
        self._manifest = new_manifest(
            scenario, seed=self._seed, created_ns=time.time_ns(), virtual=False, speed=speed
        )

    def run(self, progress: ProgressReport) -> Summary:
        """Make the hosts, run, write everything down, and remove the hosts."""
        self._manifest.variables.more["ended"] = None  # until it does
        write_manifest(self._folder, self._manifest)
        with ExitStack() as undo:
            undo.callback(self._complete_manifest)
            undo.callback(self._hosts.remove)
            undo.callback(self._children.stop)
            self._make_hosts()
            before = {side: self._count(side, "nstat_before.json") for side in SIDES}
            recorder = undo.enter_context(self._recorder())
            self._start_collectors()
            link = self._drive(recorder, progress)
            after = {side: self._count(side, "nstat_after.json") for side in SIDES}
            for side in SIDES:  # a packet that the device refused is counted nowhere else
                self._write(side, "device_after.json", self._hosts.output(side, *_DEVICE_COUNTERS))
            counts = {
                side: {name: after[side][name] - before[side].get(name, 0) for name in after[side]}
                for side in SIDES
            }
            summary = self._summary(recorder, link, counts)
            write_summary(self._folder, summary)
        return summary

    # --- before the first slot ---

    def _make_hosts(self) -> None:
        self._hosts.make()
        for side in SIDES:
            queue = self._scenario.gsm.queue_of(side)
            packets = queue.limit_packets if queue.local_drops == "told" else None
            profile = self._scenario.profile(side)
            self._hosts.lay_link(side, profile, speed=self._speed, queue_packets=packets)
            self._manifest.hosts[side].add(self._facts(side))
        self._manifest.variables.more |= {
            "tier": self._privileges.tier,
            "missing": {ability.name: ability.why_not for ability in self._privileges.missing},
        }
        self._interruption.check()

    def _facts(self, side: Side) -> dict[str, object]:
        error = self._clock_errors[side]
        shift = {"offset_ns": error.offset_ns, "skew_ppm": error.skew_ppm}
        return self._hosts.facts(side) | {"clock_error": shift}

    def _recorder(self) -> Recorder:
        addresses = {side: IPv4Address(self._hosts.addresses[side]).packed for side in SIDES}
        return Recorder(
            self._folder,
            self._scenario,
            clock_errors=self._clock_errors,
            addresses=addresses,
            speed=self._speed,
            captures=not self._privileges.may("tcpdump"),
        )

    def _start_collectors(self) -> None:
        collectors = Collectors(
            self._folder,
            self._children,
            addresses=self._hosts.addresses,
            clock_errors=self._clock_errors,
            speed=self._speed,
        )
        collectors.start(self._privileges, snap_bytes=min(snap_bytes(self._scenario), self._largest_packet))
        self._manifest.collectors = [*self._children.runs, *self._own_logs(None)]
        write_manifest(self._folder, self._manifest)

    @property
    def _largest_packet(self) -> int:
        """Return the snap length of captures: the link's MTU, because tcpdump's buffer is small."""
        return max(self._scenario.profile(side).mtu_bytes for side in SIDES)

    def _own_logs(self, ended_ns: int | None) -> list[CollectorRun]:
        """Return the logs that the link's process writes: rlpdump, and captures where tcpdump may not run."""
        own = ["rlpdump"] if self._privileges.may("tcpdump") else ["rlpdump", "capture"]
        outcome = None if ended_ns is None else "ended"
        command = ["multitracer", "testbed", "run", self._scenario.name]
        started_ns = self._manifest.created_ns
        return [
            CollectorRun(name, side, command, __version__, started_ns, ended_ns, outcome)
            for side in SIDES
            for name in own
        ]

    def _count(self, side: Side, name: str) -> dict[str, int]:
        """Write the TCP counters of a host, and return them."""
        text = self._hosts.output(side, *_COUNTERS)
        self._write(side, name, text)
        counters: dict[str, int] = json.loads(text)["kernel"]
        return counters

    def _write(self, side: Side, name: str, text: str) -> None:
        (self._folder / side / name).write_text(text)

    # --- the run ---

    def _drive(self, recorder: Recorder, progress: ProgressReport) -> GsmLink:
        """Run the link until the run is over."""
        scenario = self._scenario
        link = GsmLink(scenario.gsm, seed=self._seed, script=scenario.events, on_air=recorder.on_air)
        addresses = self._hosts.addresses
        applications = Applications(scenario, self._children, addresses=addresses, speed=self._speed)
        course = Course(link, applications, self._interruption, limit_s=scenario.limit_s)
        with punctual() as is_real_time:
            clock = LinkClock(self._speed)
            recorder.begin(clock)
            kind = PullingDriver if scenario.gsm.queue.local_drops == "told" else Driver
            driver = kind(link, clock, self._hosts.tuns, recorder)

            def is_over(now_ns: int) -> bool:
                recorder.each_second()
                progress(recorder.meters.flows[0].arrived_bytes)
                return course.is_over(now_ns)

            driver.run(is_over, wake=self._interruption.wake)
            link.count_idle()
            driver.tell_events()
        self._ended_ns = clock.now_ns()
        self._manifest.variables.ended = course.ended
        self._manifest.variables.more |= {
            "real_time_priority": is_real_time,
            "latest_slot_ms": round(driver.latest_ns / self._speed / 1e6, 3),
        }
        return link

    # --- after it ---

    def _summary(
        self, recorder: Recorder, call: GsmLink, counts: Mapping[Side, Mapping[str, int]]
    ) -> Summary:
        link, transfer = recorder.meters.link, recorder.meters.flows[0]
        sender = side_of(self._scenario.sender)
        sent, received = counts[sender], counts[FAR[sender]]
        return Summary(
            goodput_bytes_per_s=transfer.goodput_bytes_per_s,
            rlp_slope_bytes_per_s=link.rlp.slope,
            rlp_resets=link.resets,
            rlp_retransmissions=link.retransmissions,
            xoff_gaps_s=[gap / NS_PER_S for gap in link.xoff_gaps_ns],
            tcp_retransmissions=sent["TcpRetransSegs"],
            tcp_timeouts=sent["TcpExtTCPTimeouts"],
            tcp_fast_retransmits=sum(sent[name] for name in _RECOVERIES),
            checksum_errors=received["TcpInCsumErrors"],
            longest_receiver_hole_s=_seconds(transfer.longest_hole_ns),
            max_rtt_s=_seconds(transfer.max_rtt_ns),
            ledger=call.balance(),
            flows=recorder.meters.all_flows(end_ns=self._ended_ns),
        )

    def _complete_manifest(self) -> None:
        """Write how each collector ended, and size and checksum of every log."""
        self._manifest.collectors = [*self._children.runs, *self._own_logs(time.time_ns())]
        if self._manifest.variables.ended is None:
            number = self._interruption.signal
            self._manifest.variables.ended = f"interrupted by {number.name}" if number else "it failed"
        self._manifest.files = list(log_files(self._folder))
        write_manifest(self._folder, self._manifest)


def _seconds(duration_ns: int | None) -> float | None:
    return None if duration_ns is None else duration_ns / NS_PER_S
