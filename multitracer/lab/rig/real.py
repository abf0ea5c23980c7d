"""A measurement in real time: a plan in the world of the testbed (`testbed/world.py`).

The measuring programs (`real_host.py`), the modem with its collector (`real_radio.py`) and, if wanted,
tcpdump and tcp_info are children of the link's process, this one. A run that was cut off is gone on with: its
logs stay, those of the next one end with its number.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from multitracer.errors import InputError
from multitracer.lab.rig.profiles import check_carried, profile_name
from multitracer.lab.rig.radio_join import join_radio
from multitracer.lab.rig.real_course import Course
from multitracer.lab.rig.real_host import Task
from multitracer.lab.rig.real_radio import RadioFeed
from multitracer.lab.scenario.session_folder import SERVER_PORT, make_folders, rlp_facts, write_radio
from multitracer.lab.testbed.interruption import Interruption
from multitracer.lab.testbed.link_logs import LinkLogs
from multitracer.lab.testbed.privileges import required
from multitracer.lab.testbed.stale import remove_stale
from multitracer.lab.testbed.world import RealWorld, Workload, check_link
from multitracer.manifest import Host, Manifest, Role, Variables
from multitracer.measure.journal import Journal
from multitracer.measure.run import is_left, opened, tell
from multitracer.measure.transports import Options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack
    from pathlib import Path

    from multitracer.lab.channel.shared.packet_link import PacketLink
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.testbed.driver import LinkClock
    from multitracer.lab.testbed.world import Lateness
    from multitracer.measure.plan import Plan
    from multitracer.measure.run import Progress
    from multitracer.tables import Document

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
        If the folder is another session's, in use, or cannot be made; if the link has several mobiles; if
        there is no such transport, or none for this link.
    CollectorError
        If the link was over for good, or a program ended before its time.
    InterruptedRunError
        If a signal ended the run; what was finished is in the folder.
    """
    used = scenario.seed if seed is None else seed
    check_link(scenario, used)
    check_carried(plan.protocol, scenario)
    options = replace(options or Options(), speed=speed)
    about = _about(folder.resolve().name, scenario, seed=used, options=options)
    privileges = required()
    with Interruption() as interruption, _alone(folder):
        manifest = opened(plan, folder, about)
        if _has_work(plan, folder, progress):
            remove_stale()
            make_folders(folder, scenario, is_new=False)
            world = RealWorld(scenario, folder, manifest, privileges, interruption)
            measurement = RealMeasurement(plan, world, options, capture=capture, progress=progress)
            try:
                world.run(measurement)
                measurement.check()
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


class RealMeasurement(Workload):
    """What is left of a plan, in a world; see `run_real`."""

    every_socket = True
    _course: Course
    _radio: RadioFeed
    _link: PacketLink

    def __init__(
        self, plan: Plan, world: RealWorld, options: Options, *, capture: bool, progress: Progress
    ) -> None:
        self._plan = plan
        self._world = world
        self._options = options
        self._capture = capture
        self._progress = progress
        self._facts: Document = {
            "seed": world.seed,
            "started_ns": time.time_ns(),
            "ended": None,
            "tier": world.privileges.tier,
        }
        world.manifest.variables.runs.append(self._facts)

    def logs(self) -> LinkLogs:
        """Return who writes the link's logs, and captures where tcpdump may not run."""
        world = self._world
        facts = rlp_facts(world.scenario, speed=world.speed)
        snap_bytes = _SNAP_BYTES if self._capture and not world.privileges.may("tcpdump") else 0
        return LinkLogs(world.folder, facts, captures_bytes=snap_bytes, number=world.number)

    def start(self, link: PacketLink, undo: ExitStack) -> None:
        """Start the modem, the collectors if wanted, and both programs."""
        world = self._world
        self._link = link
        feed = RadioFeed(
            world.folder, world.children, world.scenario.link, speed=world.speed, number=world.number
        )
        self._radio = undo.enter_context(feed)
        self._radio.start(link)
        if self._capture:
            world.start_collectors(self, snap_bytes=_SNAP_BYTES, tracing=False)
        address = f"{world.hosts.addresses['fixed']}:{SERVER_PORT}"
        task = Task(self._plan, ".", address, self._options)
        self._course = undo.enter_context(Course(task, world.children, link, self._progress))

    def begin(self, clock: LinkClock) -> None:
        """Give the modem the clock."""
        self._radio.begin(clock)

    def reason(self, now_ns: int) -> str:
        """Tell the modem what the link says, once a second; return why the run is over."""
        self._radio.each_second(self._link, now_ns)
        return self._course.reason(now_ns)

    def conclude(self, link: PacketLink) -> None:
        """Write what the radio destroyed."""
        world = self._world
        write_radio(world.folder, link, now_ns=world.ended_ns, number=world.number)

    def note_end(self, ended: str, lateness: Lateness | None) -> None:
        """Put it into the facts of this run of the plan."""
        self._facts |= {"ended": ended} | (lateness._asdict() if lateness is not None else {})

    def check(self) -> None:
        """Raise CollectorError if the run was over because something failed."""
        self._course.check()
