"""A measurement in real time: two hosts with the kernel's own TCP, the modelled link between them.

The link's process, this one, makes the hosts and lets the link's events happen at their time. The measuring
programs (`real_host.py`), the modem with its collector (`real_radio.py`) and, if wanted, tcpdump and tcp_info
are children of it. What a run makes is undone by one ExitStack, in the reverse order, however the run ends.
A run that was cut off is gone on with: its logs stay, those of the next one end with its number.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from multitracer.channel.gsm.config import LinkConfig
from multitracer.channel.gsm.link import GsmLink
from multitracer.channel.links import link_of
from multitracer.channel.shared.packet_link import SIDES
from multitracer.errors import InputError
from multitracer.manifest import Host, Manifest, Role, Variables, write_manifest
from multitracer.measure.journal import Journal
from multitracer.measure.run import is_left, opened, tell
from multitracer.measure.transports import Options
from multitracer.rig.profiles import profile_name
from multitracer.rig.radio_join import join_radio
from multitracer.rig.real_course import Course
from multitracer.rig.real_host import Task
from multitracer.rig.real_radio import RadioFeed
from multitracer.rig.real_record import LinkRecorder
from multitracer.scenario.session_folder import SERVER_PORT, log_files, rlp_facts
from multitracer.testbed.children import Children
from multitracer.testbed.clock_error import ClockError
from multitracer.testbed.collectors import Collectors
from multitracer.testbed.driver import Driver, LinkClock, PullingDriver, punctual
from multitracer.testbed.interruption import Interruption
from multitracer.testbed.names import Maker
from multitracer.testbed.namespaces import Hosts
from multitracer.testbed.privileges import required
from multitracer.testbed.stale import remove_stale
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from multitracer.channel.shared.hosts import Side
    from multitracer.channel.shared.packet_link import PacketLink
    from multitracer.measure.plan import Plan
    from multitracer.measure.run import Progress
    from multitracer.scenario.model import Scenario
    from multitracer.tables import Document
    from multitracer.testbed.privileges import Privileges

    Facts = dict[str, str | int | float]

_SEEDS_APART = 1_000_003
"""Between the seeds of two runs of a session: who goes on meets another stretch of the same radio."""
_SNAP_BYTES = 96
"""Of each packet in a capture: all headers."""


def run_real(  # noqa: PLR0913  # as `run_virtual`
    plan: Plan,
    folder: Path,
    scenario: Scenario,
    *,
    speed: float = 1,
    seed: int | None = None,
    options: Options | None = None,
    capture: bool = False,
    progress: Progress,
) -> Journal:
    """Do what is left of a plan, over a modelled link in real time; write a session folder.

    Parameters
    ----------
    plan : Plan
        Its times are link times; its server does not matter.
    folder : Path
        New, empty, or of a run of the same plan over the same link that ended before its time.
    scenario : Scenario
        Link and TCP of both hosts; traffic, if it has any, is not made.
    speed : float
        Link seconds in a second.
    seed : int, optional
        Another one than the scenario's.
    options : Options, optional
        CentaurusComm's.
    capture : bool
        Whether tcpdump and tcp_info record at both hosts.
    progress : callable
        Told after each transaction.

    Returns
    -------
    Journal
        What became of each transaction, in the time of the link; closed.

    Raises
    ------
    PreflightError
        If this process may not do it, or the kernel has no such congestion control.
    InputError
        If the folder is another session's, in use, or cannot be made; if the call was dropped; if the link
        has several mobiles.
    InterruptedRunError
        If a signal ended the run; what was finished is in the folder.
    """
    if len(scenario.hosts) > len(SIDES):
        raise InputError(
            f"{scenario.name}: a real run has one mobile, not {len(scenario.hosts) - 1}; use --virtual"
        )
    measurement = Measurement(plan, folder, scenario, replace(options or Options(), speed=speed), capture)
    about = _about(
        folder.resolve().name,
        scenario,
        seed=scenario.seed if seed is None else seed,
        options=measurement.options,
    )
    privileges = required()
    with Interruption() as interruption, _alone(folder):
        manifest = opened(plan, folder, about)
        if _has_work(plan, folder, progress):
            remove_stale()
            run = RealRun(measurement, manifest, privileges, interruption)
            try:
                run.run(progress)
            finally:
                join_radio(folder)
        interruption.check()
    with closing(Journal(folder, plan)) as journal:
        return journal


def _about(name: str, scenario: Scenario, *, seed: int, options: Options) -> Manifest:
    """Return what the manifest says beside the plan; who goes on must say the same."""
    about = Manifest(name, created_ns=time.time_ns())
    about.hosts = {"mobile": Host(role=Role.CLIENT), "fixed": Host(role=Role.SERVER)}
    about.variables = Variables(
        link=scenario.name,
        scenario=scenario.source,
        seed=seed,
        speed=options.speed,
        virtual=False,
        tcp_profile=profile_name(scenario),
        extensions=options.extensions.names,
    )
    return about


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep the folder for this run; the kernel takes it from the dead."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}; name another folder") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise InputError(f"{folder}: another run is writing it; wait for its end") from error
    finally:
        os.close(descriptor)


def _has_work(plan: Plan, folder: Path, progress: Progress) -> bool:
    """Tell how far the plan is; return whether anything is left."""
    with closing(Journal(folder, plan)) as journal:
        tell(journal, plan, progress)
        return is_left(plan, journal)


@dataclass(frozen=True, slots=True)
class Measurement:
    """What `run_real` was told."""

    plan: Plan
    folder: Path
    scenario: Scenario
    options: Options
    capture: bool


class RealRun:
    """One run; see `run_real`."""

    def __init__(
        self, measurement: Measurement, manifest: Manifest, privileges: Privileges, interruption: Interruption
    ) -> None:
        self._measurement = measurement
        self._folder = measurement.folder
        self._scenario = measurement.scenario
        self._speed = measurement.options.speed
        self._manifest = manifest
        self._privileges = privileges
        self._interruption = interruption
        runs = manifest.variables.runs
        self._number = len(runs)
        self._facts: Document = {
            "seed": (manifest.variables.seed or 0) + self._number * _SEEDS_APART,
            "started_ns": time.time_ns(),
            "ended": None,
            "tier": privileges.tier,
        }
        runs.append(self._facts)
        self._earlier = list(manifest.collectors)
        maker = Maker.myself()
        self._hosts = Hosts(maker)
        suffix = f"-{self._number}" if self._number else ""
        self._children = Children(measurement.folder, self._hosts, maker, interruption, suffix=suffix)

    def run(self, progress: Progress) -> None:
        """Make the hosts, measure, write everything down, and remove the hosts."""
        for name in (*SIDES, "truth"):
            (self._folder / name).mkdir(exist_ok=True)
        if self._scenario.source:
            (self._folder / "scenario.toml").write_text(self._scenario.source, encoding="utf-8")
        write_manifest(self._folder, self._manifest)
        with ExitStack() as undo:
            undo.callback(self._complete_manifest)
            undo.callback(self._hosts.remove)
            undo.callback(self._children.stop)
            self._make_hosts()
            recorder = undo.enter_context(self._recorder())
            link = link_of(self._scenario.link, seed=self._facts["seed"], script=self._scenario.events)
            radio = undo.enter_context(self._radio())
            radio.start(link)
            if self._measurement.capture:
                self._start_collectors()
            course = undo.enter_context(self._course(link, progress))
            self._manifest.collectors = [*self._earlier, *self._children.runs]
            write_manifest(self._folder, self._manifest)
            self._drive(link, radio, recorder, course)
        course.check()

    # --- before the first event ---

    def _make_hosts(self) -> None:
        self._hosts.make()
        for side in SIDES:
            packets = self._device_queue_packets(side)
            profile = self._scenario.profile(side)
            self._hosts.lay_link(side, profile, speed=self._speed, queue_packets=packets, every_socket=True)
            self._manifest.hosts[side].add(self._hosts.facts(side))
        self._interruption.check()

    def _device_queue_packets(self, side: Side) -> int | None:
        """Return the length of a device's own queue, if it is to overflow."""
        link = self._scenario.link
        queue = link.queue_of(side) if isinstance(link, LinkConfig) else link.queue
        return queue.limit_packets if queue.local_drops == "told" else None

    def _recorder(self) -> LinkRecorder:
        facts: Facts = {"clock": "realtime", "speed": self._speed, "scenario": self._scenario.name}
        if isinstance(self._scenario.link, LinkConfig):
            facts = rlp_facts(self._scenario, speed=self._speed)
        writes = self._measurement.capture and not self._privileges.may("tcpdump")
        snap_bytes = _SNAP_BYTES if writes else 0
        return LinkRecorder(self._folder, facts, number=self._number, captures_bytes=snap_bytes)

    def _radio(self) -> RadioFeed:
        link = self._scenario.link
        return RadioFeed(self._folder, self._children, link, speed=self._speed, number=self._number)

    def _start_collectors(self) -> None:
        collectors = Collectors(
            self._folder,
            self._children,
            addresses=self._hosts.addresses,
            clock_errors={side: ClockError() for side in SIDES},
            speed=self._speed,
            number=self._number,
        )
        collectors.start(self._privileges, snap_bytes=_SNAP_BYTES, tracing=False)

    def _course(self, link: PacketLink, progress: Progress) -> Course:
        address = f"{self._hosts.addresses['fixed']}:{SERVER_PORT}"
        task = Task(self._measurement.plan, ".", address, self._measurement.options)
        return Course(task, self._children, link, self._interruption, progress)

    # --- the run ---

    def _drive(self, link: PacketLink, radio: RadioFeed, recorder: LinkRecorder, course: Course) -> None:
        """Let the link's events happen until the run is over."""
        with punctual() as is_real_time:
            clock = LinkClock(self._speed)
            recorder.begin(clock)
            radio.begin(clock)
            driver = self._driver(link, clock, recorder)

            def is_over(now_ns: int) -> bool:
                radio.each_second(link, now_ns)
                recorder.each_second()
                return course.is_over(now_ns)

            driver.run(is_over, wake=self._interruption.wake)
            if isinstance(link, GsmLink):
                link.count_idle()
            driver.tell_events()
        self._facts |= {
            "ended": course.ended,
            "real_time_priority": is_real_time,
            "latest_ms": round(driver.latest_ns / self._speed / NS_PER_MS, 3),
        }

    def _driver(self, link: PacketLink, clock: LinkClock, recorder: LinkRecorder) -> Driver:
        if isinstance(link, GsmLink) and self._scenario.link.queue.local_drops == "told":
            return PullingDriver(link, clock, self._hosts.tuns, recorder)
        return Driver(link, clock, self._hosts.tuns, recorder)

    # --- after it ---

    def _complete_manifest(self) -> None:
        """Say how each child ended, and what every log is now."""
        self._manifest.collectors = [*self._earlier, *self._children.runs]
        if self._facts["ended"] is None:
            number = self._interruption.signal
            self._facts["ended"] = f"interrupted by {number.name}" if number else "it failed"
        self._manifest.files = list(log_files(self._folder))
        write_manifest(self._folder, self._manifest)
