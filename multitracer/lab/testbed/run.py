"""Runs the traffic of a scenario with real kernels.

Writes a session folder like that of a run in virtual time.
"""

from __future__ import annotations

import json
import subprocess
import time
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from multitracer import __version__
from multitracer.errors import InputError
from multitracer.lab.channel.gsm import GsmLink
from multitracer.lab.channel.shared.packet_link import FAR, SIDES, side_of
from multitracer.lab.scenario.radio import check_up
from multitracer.lab.scenario.session_folder import (
    FIRST_MOBILE_PORT,
    FIRST_PORT,
    LINK_NS,
    make_folders,
    new_manifest,
    snap_bytes,
    write_radio,
    write_summary,
)
from multitracer.lab.scenario.summary import TcpCounts
from multitracer.lab.testbed.children import PYTHON
from multitracer.lab.testbed.driver import why_dropped
from multitracer.lab.testbed.link_logs import LinkLogRecorder
from multitracer.lab.testbed.namespaces import DEVICE, Interruption, congestion_control, remove_stale
from multitracer.lab.testbed.network import RealNetwork, Workload, check_link
from multitracer.lab.testbed.privileges import required
from multitracer.lab.testbed.shift_clock import ClockShift
from multitracer.lab.testbed.traffic import READY, TrafficPlan, TrafficTransfer
from multitracer.manifest import CollectorRun
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import ExitStack
    from pathlib import Path

    from multitracer.lab.channel.shared.packet_link import PacketLink, Side
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.scenario.summary import Summary
    from multitracer.lab.tcp.profile import TcpProfile
    from multitracer.lab.testbed.children import Children, TestbedProcess
    from multitracer.lab.testbed.link_logs import LinkLogs
    from multitracer.lab.testbed.network import Lateness

    ProgressReport = Callable[[int], None]

# The applications of a run: the plan of each host, when they may begin, and when the run is over.


TRAFFIC = "traffic.jsonl"
_IDLE_NS = 3 * NS_PER_S
"""Link time without data after which a run ends, once its applications have ended."""
_AFTER_DROP_NS = 10 * NS_PER_S
"""Link time for which a run continues after its link has ended permanently."""


def plan(scenario: Scenario, side: Side, *, addresses: Mapping[Side, str], speed: float) -> TrafficPlan:
    """Return the list of connections that the applications of one host open or accept."""
    profile = scenario.profile(side)
    transfers = tuple(
        TrafficTransfer(
            role="connect" if side == "mobile" else "accept",
            sends=(traffic.direction == "up") == (side == "mobile"),
            size=traffic.bytes,
            port=FIRST_PORT + number,
            local_port=FIRST_MOBILE_PORT + number,
            start_s=traffic.start_s,
            reads_bytes_per_s=traffic.reads_bytes_per_s,
            writes_bytes_per_s=traffic.writes_bytes_per_s,
            aborts_after_s=traffic.aborts_after_s,
        )
        for number, traffic in enumerate(scenario.traffic)
    )
    return TrafficPlan(
        speed=speed,
        local=addresses[side],
        remote=addresses[FAR[side]],
        congestion=congestion_control(profile),
        window_bytes=profile.receive_buffer_bytes,
        send_buffer_bytes=_send_buffer_bytes(profile, scenario.profile(FAR[side])),
        transfers=transfers,
    )


def _send_buffer_bytes(profile: TcpProfile, peer: TcpProfile) -> int:
    """Return the send buffer in bytes; 0 if the kernel's default is used.

    The default is used where the buffer limits nothing, because Linux counts more than payload in it.
    """
    limits = profile.send_buffer_bytes < peer.receive_buffer_bytes
    return profile.send_buffer_bytes if limits else 0


class Applications:
    """The applications of both hosts, as child processes.

    Parameters
    ----------
    scenario : Scenario
    children : Children
    addresses : mapping
        Addresses of both hosts.
    speed : float
    """

    def __init__(self, scenario: Scenario, children: Children, *, addresses: Mapping[Side, str], speed: float) -> None:
        self._children: list[TestbedProcess] = []
        sides: tuple[Side, Side] = ("fixed", "mobile")  # who listens is there first
        for side in sides:
            text = plan(scenario, side, addresses=addresses, speed=speed).text()
            command = [PYTHON, "-m", "multitracer.lab.testbed.traffic", text]
            child = children.start("traffic", side, command, version=__version__, stdin=subprocess.PIPE, stdout=TRAFFIC)
            children.wait(child, lambda words=child.words: READY in words.read_text())  # type: ignore[misc]
            self._children.append(child)

    def begin(self) -> None:
        """Let the applications connect."""
        for child in self._children:
            assert child.process.stdin is not None
            child.process.stdin.write(b"\n")
            child.process.stdin.flush()

    @property
    def have_ended(self) -> bool:
        """Whether all data are sent and received, and all connections closed."""
        return all(child.has_ended for child in self._children)


class TestbedCourse:
    """Decides when the applications begin and when the run is over; called after every event.

    Parameters
    ----------
    link : PacketLink
    applications : Applications
    limit_s : float
        Link time at which the run ends at the latest, s.
    """

    def __init__(self, link: PacketLink, applications: Applications, *, limit_s: float) -> None:
        self._link = link
        self._applications = applications
        self._limit_ns = round(limit_s * NS_PER_S)
        self._began = False
        self._busy_ns = 0
        self._dropped_ns: int | None = None

    def reason(self, now_ns: int) -> str:
        """Return why the run is over; empty while it continues. Called after every event."""
        if self._link.is_up and not self._began:
            self._applications.begin()
            self._began = True
        if self._link.is_dropped and self._dropped_ns is None:
            self._dropped_ns = now_ns
        if not self._link.is_drained or not self._applications.have_ended:
            self._busy_ns = now_ns
        if self._dropped_ns is not None and now_ns > self._dropped_ns + _AFTER_DROP_NS:
            return why_dropped(self._link)
        if now_ns >= self._limit_ns:
            return "limit_s was reached"
        return "all data were sent and received" if now_ns > self._busy_ns + _IDLE_NS else ""


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
        The scenario, with a link of any kind and one mobile.
    folder : Path
        The folder; it must be absent or empty.
    seed : int, optional
        Random seed; by default that of the scenario.
    speed : float
        Link seconds per second.
    progress : callable, optional
        Called after every event of the link with the payload bytes that have arrived.

    Returns
    -------
    Summary
        The content of `summary.json`.

    Raises
    ------
    PreflightError
        If this process lacks a privilege, or the kernel lacks the congestion control.
    InputError
        If the folder is not empty or cannot be made, a traffic does not use the hosts' TCP, there is no
        traffic, or the link cannot run in real time (`check_link`).
    InterruptedRunError
        If a signal ended the run; the folder is complete up to then.
    """
    scenario.check_traffic()
    used = scenario.seed if seed is None else seed
    check_link(scenario, used)
    check_up(scenario, seed=used)
    _check_transports(scenario)
    privileges = required()
    for side in SIDES:
        congestion_control(scenario.profile(side))
    with Interruption() as interruption:
        remove_stale()
        make_folders(folder, scenario)
        manifest = new_manifest(scenario, seed=used, created_ns=time.time_ns(), virtual=False, speed=speed)
        manifest.variables.more |= {
            "ended": None,  # until it does
            "tier": privileges.tier,
            "missing": {ability.name: ability.why_not for ability in privileges.missing},
        }
        network = RealNetwork(scenario, folder, manifest, privileges, interruption)
        traffic = RealTraffic(network, progress or (lambda _: None))
        network.run(traffic)
        interruption.check()
    return traffic.summary


def _check_transports(scenario: Scenario) -> None:
    for number, traffic in enumerate(scenario.traffic, 1):
        if traffic.transport != "tcp":
            raise InputError(
                f"{scenario.name}: [[traffic]] number {number}: a real run uses only the TCP of the "
                f"kernel, not the transport {traffic.transport!r}; run with --virtual, or remove "
                '"transport" and set "congestion" in [tcp]'
            )


class RealTraffic(Workload):
    """The traffic of a scenario as a workload; see `run_real`."""

    clock_errors: dict[Side, ClockShift]
    summary: Summary
    """Numbers of the run; set when it is over."""
    _recorder: LinkLogRecorder
    _course: TestbedCourse
    _link: PacketLink

    def __init__(self, network: RealNetwork, progress: ProgressReport) -> None:
        self.clock_errors = {"mobile": ClockShift(), "fixed": ClockShift.from_now(network.scenario.clock)}
        self._network = network
        self._progress = progress
        self._before: dict[Side, dict[str, int]] = {}
        self._reading_due_ns = 0

    # --- before the first event ---

    def logs(self) -> LinkLogs:
        """Return the writer of the link's logs, the truth and the clocks."""
        network = self._network
        self._recorder = LinkLogRecorder(
            network.folder,
            network.scenario,
            clock_errors=self.clock_errors,
            addresses={side: IPv4Address(network.hosts.addresses[side]).packed for side in SIDES},
            speed=network.speed,
            captures_bytes=0 if network.privileges.may("tcpdump") else snap_bytes(network.scenario),
        )
        return self._recorder

    def start(self, link: PacketLink, undo: ExitStack) -> None:
        """Read the TCP counters, and start collectors and applications."""
        del undo
        self._link = link
        network, scenario = self._network, self._network.scenario
        self._before = {side: self._count(side, "nstat_before.json") for side in SIDES}
        largest = max(scenario.profile(side).mtu_bytes for side in SIDES)  # tcpdump's buffer is small
        network.start_collectors(self, snap_bytes=min(snap_bytes(scenario), largest), tracing=True)
        addresses = network.hosts.addresses
        applications = Applications(scenario, network.children, addresses=addresses, speed=network.speed)
        self._course = TestbedCourse(link, applications, limit_s=scenario.limit_s)

    def _count(self, side: Side, name: str) -> dict[str, int]:
        """Return the TCP counters of a host, and write them to the file `name`."""
        text = self._network.hosts.output(side, *_COUNTERS)
        self._write(side, name, text)
        counters: dict[str, int] = json.loads(text)["kernel"]
        return counters

    def _write(self, side: Side, name: str, text: str) -> None:
        (self._network.folder / side / name).write_text(text)

    def own_logs(self, ended_ns: int | None) -> list[CollectorRun]:
        """Return the manifest entries of rlpdump, and of captures where tcpdump may not run."""
        own = ["rlpdump"] if self._network.privileges.may("tcpdump") else ["rlpdump", "capture"]
        outcome = None if ended_ns is None else "ended"
        command = ["multitracer", "testbed", "run", self._network.scenario.name]
        started_ns = self._network.manifest.created_ns
        return [
            CollectorRun(name, side, command, __version__, started_ns, ended_ns, outcome)
            for side in SIDES
            for name in own
        ]

    # --- the run, and after it ---

    def reason(self, now_ns: int) -> str:
        """Return why the run is over; empty while it continues."""
        self._progress(self._recorder.meters.flows[0].arrived_bytes)
        if now_ns >= self._reading_due_ns:
            self._reading_due_ns = now_ns - now_ns % NS_PER_S + NS_PER_S
            self._recorder.reading(self._link.reading(now_ns), now_ns=now_ns)
        return self._course.reason(now_ns)

    def conclude(self, link: PacketLink) -> None:
        """Read the TCP counters again, and write the summary."""
        network = self._network
        after = {side: self._count(side, "nstat_after.json") for side in SIDES}
        for side in SIDES:  # a packet that the device refused is counted nowhere else
            self._write(side, "device_after.json", network.hosts.output(side, *_DEVICE_COUNTERS))
        ledger = link.balance() if isinstance(link, GsmLink) else None
        self.summary = self._recorder.meters.summary(self._grown(after), ledger=ledger, end_ns=network.ended_ns)
        write_summary(network.folder, self.summary)
        write_radio(network.folder, link, now_ns=network.ended_ns)

    def _grown(self, after: dict[Side, dict[str, int]]) -> TcpCounts:
        """Return the increase of the kernels' TCP counters during the run."""
        sender = side_of(self._network.scenario.sender)

        def grown(side: Side, *names: str) -> int:
            return sum(after[side][name] - self._before[side].get(name, 0) for name in names)

        return TcpCounts(
            tcp_retransmissions=grown(sender, "TcpRetransSegs"),
            tcp_timeouts=grown(sender, "TcpExtTCPTimeouts"),
            tcp_fast_retransmits=grown(sender, *_RECOVERIES),
            checksum_errors=grown(FAR[sender], "TcpInCsumErrors"),
        )

    def note_end(self, ended: str, lateness: Lateness | None) -> None:
        """Write into the manifest's variables why the run ended, and how late a slot was at most."""
        variables = self._network.manifest.variables
        variables.ended = ended
        variables.more[LINK_NS] = self._network.ended_ns
        if lateness is not None:
            variables.more |= {"real_time_priority": lateness.real_time_priority, "latest_slot_ms": lateness.latest_ms}
