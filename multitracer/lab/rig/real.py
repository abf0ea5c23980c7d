"""A measurement in real time: a plan in the modelled network of the testbed (`testbed/network.py`).

The measuring programs (`real_host.py`), the modem with its collector and, if requested, tcpdump and
tcp_info are children of the process that runs the link, this one. An interrupted run can be continued: its
logs remain, and the names of the next run's logs end with the number of that run.
"""

from __future__ import annotations

import csv
import fcntl
import json
import os
import subprocess
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from multitracer import __version__
from multitracer.errors import CollectorError, InputError
from multitracer.lab.rig.radio_join import join_radio
from multitracer.lab.rig.radios import check_carried, profile_name
from multitracer.lab.rig.real_host import READY, HostTask
from multitracer.lab.rig.watchers import modem_profile, modem_values
from multitracer.lab.scenario.model import ProgramSetting
from multitracer.lab.scenario.session_folder import SERVER_PORT, make_folders, rlp_facts, write_radio
from multitracer.lab.testbed.children import PYTHON, numbered
from multitracer.lab.testbed.driver import why_dropped
from multitracer.lab.testbed.link_logs import LinkLogs
from multitracer.lab.testbed.namespaces import Interruption, remove_stale
from multitracer.lab.testbed.network import RealNetwork, Workload, check_link
from multitracer.lab.testbed.privileges import required
from multitracer.manifest import Host, Manifest, Role, Variables
from multitracer.measure.run import MeasureJournal, is_left, opened, tell
from multitracer.measure.transports import TransportOptions
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from multitracer.lab.channel.links import AnyLinkConfig
    from multitracer.lab.channel.shared.packet_link import PacketLink, Side
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.testbed.children import Children, TestbedProcess
    from multitracer.lab.testbed.driver import LinkClock
    from multitracer.lab.testbed.network import Lateness
    from multitracer.measure.plan import MeasurementPlan
    from multitracer.measure.run import Progress
    from multitracer.schemas.schema import Document

# The measuring programs of a real run, and its course: when the client begins, how far it is, the end.


_IDLE_NS = 3 * NS_PER_S
"""Link time after the end of the client in which the last packets may arrive."""
_READ_BYTES = 65_536
_LAST_WORDS = 300


class RealCourse:
    """Decides after each event whether the run is over; its `with` block contains the measuring programs.

    Parameters
    ----------
    task : HostTask
        Task of the client; the server records in the folder of its host.
    children : Children
    link : PacketLink
    progress : callable
        Called after each transaction.
    """

    def __init__(self, task: HostTask, children: Children, link: PacketLink, progress: Progress) -> None:
        self._link = link
        self._progress = progress
        self._children = children
        self._server = self._started("server", "fixed", replace(task, folder="fixed"), subprocess.DEVNULL)
        self._client = self._started("client", "mobile", task, subprocess.PIPE)
        assert self._client.process.stdout is not None
        self._output = self._client.process.stdout
        os.set_blocking(self._output.fileno(), False)
        self._rest = b""
        self._has_begun = False
        self._ended_ns: int | None = None
        self._problem = ""

    def _started(self, role: str, side: Side, task: HostTask, stdout: int) -> TestbedProcess:
        child = self._children.start(
            f"measure-{role}",
            side,
            [PYTHON, "-m", "multitracer.lab.rig.real_host", role],
            version=__version__,
            stdin=subprocess.PIPE,
            stdout=stdout,
        )
        _say(child, task.line())
        self._children.wait(child, lambda: READY in child.words.read_text())
        return child

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._output.close()

    def reason(self, now_ns: int) -> str:
        """Return why the run is over; empty while it continues. Called after every event."""
        if self._link.is_up and not self._has_begun:
            self._has_begun = True
            _say(self._client, b"\n")
        self._hear()
        return self._reason(now_ns)

    def _hear(self) -> None:
        """Pass the progress lines that the client program has printed to `progress`."""
        with suppress(BlockingIOError):
            output = os.read(self._output.fileno(), _READ_BYTES)
            *lines, self._rest = (self._rest + output).split(b"\n")
            if lines:
                done, dropped, total = map(int, lines[-1].split())
                self._progress(done, dropped, total)

    def _reason(self, now_ns: int) -> str:
        if self._link.is_dropped:
            self._problem = f"{why_dropped(self._link)}; the same command continues with a new run of the link"
        elif self._server.has_ended:
            self._problem = f"the server ended: {_last_words(self._server)}"
        elif self._client.has_ended:
            if self._client.process.returncode:
                self._problem = f"the client ended: {_last_words(self._client)}"
            elif self._ended_ns is None:
                self._ended_ns = now_ns
            elif self._link.is_drained or now_ns > self._ended_ns + _IDLE_NS:
                return "all transactions are finished"
        return self._problem

    def check(self) -> None:
        """Raise CollectorError if the run ended because something failed."""
        if self._problem:
            raise CollectorError(f"the measurement failed: {self._problem}")


def _say(child: TestbedProcess, line: bytes) -> None:
    assert child.process.stdin is not None
    with suppress(BrokenPipeError):  # it has ended, and its last words will be told
        child.process.stdin.write(line)
        child.process.stdin.flush()


def _last_words(child: TestbedProcess) -> str:
    words = child.words.read_text(errors="replace").strip().removeprefix(READY).strip()
    return words[-_LAST_WORDS:] or f"exit status {child.process.returncode}"


# The mobile's modem in a real run: a rehearsed one on a pseudo-terminal, told each link second what the link
# says of itself, and the collector that any modem is recorded with.


RADIO_LOG = "radio.jsonl"
TRUTH = "truth/radio.csv"
"""Path of the radio values given to the modem, with their times."""
_PORT = "mobile/.modem"
_TOLD_EVERY_NS = NS_PER_S
_DELAY_S = 0.02, 0.08
"""Minimum and maximum answer time of a real modem in seconds."""
_BAUD = 115_200


class RadioFeed:
    """Gives the link's radio values to the modem.

    Within its context, `begin` must be called when both are ready.

    Parameters
    ----------
    folder : Path
        The session folder.
    children : Children
    config
        Configuration of the link.
    speed : float
        Link seconds per second: modem and collector are faster by this factor.
    number : int
        Number of the run in its session folder.
    """

    def __init__(self, folder: Path, children: Children, config: AnyLinkConfig, *, speed: float, number: int) -> None:
        self._children = children
        self._config = config
        self._profile = modem_profile(config)
        self._speed = speed
        self._number = number
        self._port = folder / _PORT
        self._log = folder / "mobile" / numbered(RADIO_LOG, number)
        self._truth = (folder / numbered(TRUTH, number)).open("x", encoding="utf-8", newline="")
        self._writer = csv.writer(self._truth, lineterminator="\n")
        self._modem: TestbedProcess | None = None
        self._clock: LinkClock | None = None
        self._due_ns = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._truth.close()

    def start(self, link: PacketLink) -> None:
        """Start the modem with the first radio values, and the collector that records it."""
        self._port.unlink(missing_ok=True)  # of a run that was killed
        self._modem = self._children.start(
            "rehearsed-modem", "mobile", self._modem_command(), version=__version__, stdin=subprocess.PIPE
        )
        self._children.wait(self._modem, self._port.is_symlink)
        assert self._modem.process.stdin is not None
        os.set_blocking(self._modem.process.stdin.fileno(), False)  # the link must not wait for it
        self._tell(link, 0)
        collector = self._children.start("modem", "mobile", self._collector_command(), version=__version__)
        self._children.wait(collector, lambda: self._log.exists() and '"kind":"modem"' in self._log.read_text())

    def _modem_command(self) -> list[str]:
        delays = [f"{delay_s / self._speed:g}" for delay_s in _DELAY_S]
        return [
            PYTHON, "-m", "multitracer.lab.rehearsal.modem", "--link", _PORT, "--profile", self._profile,
            "--told", "--control", "--delay", *delays, "--baud", str(round(_BAUD * self._speed)),
        ]  # fmt: skip

    def _collector_command(self) -> list[str]:
        return [
            PYTHON, "-m", "collectors.modem", "--device", _PORT, "--profile", self._profile,
            "--hz", f"{self._speed:g}", "-o", f"mobile/{self._log.name}",
        ]  # fmt: skip

    def begin(self, clock: LinkClock) -> None:
        """Set the clock that converts link times to times of the logs."""
        self._clock = clock

    def each_second(self, link: PacketLink, now_ns: int) -> None:
        """Give the modem new values, once per link second."""
        if now_ns >= self._due_ns:
            self._due_ns = now_ns - now_ns % _TOLD_EVERY_NS + _TOLD_EVERY_NS
            self._tell(link, now_ns)

    def _tell(self, link: PacketLink, now_ns: int) -> None:
        reading = link.reading(now_ns)
        assert self._modem is not None
        assert self._modem.process.stdin is not None
        line = json.dumps({"set": modem_values(reading, self._config)}) + "\n"
        with suppress(BrokenPipeError, BlockingIOError):  # it was killed, or hangs: its log will tell
            os.write(self._modem.process.stdin.fileno(), line.encode())
        columns = asdict(reading)
        if self._truth.tell() == 0:
            self._writer.writerow(["time_ns", "link_ns", *columns])
        if self._clock is not None:
            self._writer.writerow([self._clock.realtime_ns(now_ns), now_ns, *columns.values()])


_SNAP_BYTES = 96
"""Snap length of a capture: all headers."""


def run_real(  # noqa: PLR0913  # as `run_virtual`
    plan: MeasurementPlan,
    folder: Path,
    scenario: Scenario,
    *,
    speed: float = 1,
    seed: int | None = None,
    options: TransportOptions | None = None,
    capture: bool = False,
    progress: Progress,
) -> MeasureJournal:
    """Run the remaining transactions of a plan over a modelled link in real time; write a session folder.

    Parameters
    ----------
    plan : MeasurementPlan
        Plan with times in link time; its server is ignored.
    folder : Path
        A new or empty folder, or that of an interrupted run of the same plan over the same link.
    scenario : Scenario
        Link and TCP of both hosts; its traffic is ignored.
    speed : float
        Link seconds per second.
    seed : int, optional
        Random seed; by default that of the scenario.
    options : TransportOptions, optional
        Options of CentaurusComm.
    capture : bool
        Whether tcpdump and tcp_info record at both hosts.
    progress : callable
        Called after each transaction.

    Returns
    -------
    MeasureJournal
        The outcome of each transaction, in link time; already closed.

    Raises
    ------
    PreflightError
        If this process lacks a privilege, or the kernel lacks the congestion control.
    InputError
        If the folder belongs to another session, is in use, or cannot be made; if the link has several
        mobiles; if the transport is unknown, or impossible over this link.
    CollectorError
        If the link ended, or a program ended too early.
    InterruptedRunError
        If a signal ended the run; finished transactions are in the folder.
    """
    used = scenario.seed if seed is None else seed
    check_link(scenario, used)
    check_carried(plan.protocol, scenario)
    if scenario.program != ProgramSetting():
        raise InputError(f"{scenario.name}: [program] can be used only in virtual time; use --virtual")
    options = replace(options or TransportOptions(), speed=speed)
    about = _about(folder.resolve().name, scenario, seed=used, options=options)
    privileges = required()
    with Interruption() as interruption, _alone(folder):
        manifest = opened(plan, folder, about)
        if _has_work(plan, folder, progress):
            remove_stale()
            make_folders(folder, scenario, is_new=False)
            network = RealNetwork(scenario, folder, manifest, privileges, interruption)
            measurement = RealMeasurement(plan, network, options, capture=capture, progress=progress)
            try:
                network.run(measurement)
                measurement.check()
            finally:
                join_radio(folder)
        interruption.check()
    with closing(MeasureJournal(folder, plan)) as journal:
        return journal


def _about(name: str, scenario: Scenario, *, seed: int, options: TransportOptions) -> Manifest:
    """Return the manifest entries other than the plan; they must be equal when a run is continued."""
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
    """Lock the folder during the `with` block, so that no other run uses it.

    The kernel releases the locks of dead processes.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"{folder}: cannot use this folder: {error.strerror}; name another folder") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise InputError(f"{folder}: another run is writing to this folder; wait until the other run ends") from error
    finally:
        os.close(descriptor)


def _has_work(plan: MeasurementPlan, folder: Path, progress: Progress) -> bool:
    """Report how much of the plan is done; return whether transactions remain."""
    with closing(MeasureJournal(folder, plan)) as journal:
        tell(journal, plan, progress)
        return is_left(plan, journal)


class RealMeasurement(Workload):
    """The remaining transactions of a plan, as a workload; see `run_real`."""

    every_socket = True
    _course: RealCourse
    _radio: RadioFeed
    _link: PacketLink

    def __init__(
        self,
        plan: MeasurementPlan,
        network: RealNetwork,
        options: TransportOptions,
        *,
        capture: bool,
        progress: Progress,
    ) -> None:
        self._plan = plan
        self._network = network
        self._options = options
        self._capture = capture
        self._progress = progress
        self._facts: Document = {
            "seed": network.seed,
            "started_ns": time.time_ns(),
            "ended": None,
            "tier": network.privileges.tier,
        }
        network.manifest.variables.runs.append(self._facts)

    def logs(self) -> LinkLogs:
        """Return the object that writes the link's logs; it also captures packets if tcpdump may not run."""
        network = self._network
        facts = rlp_facts(network.scenario, speed=network.speed)
        snap_bytes = _SNAP_BYTES if self._capture and not network.privileges.may("tcpdump") else 0
        return LinkLogs(network.folder, facts, captures_bytes=snap_bytes, number=network.number)

    def start(self, link: PacketLink, undo: ExitStack) -> None:
        """Start the modem, the collectors if requested, and both measuring programs."""
        network = self._network
        self._link = link
        feed = RadioFeed(
            network.folder, network.children, network.scenario.link, speed=network.speed, number=network.number
        )
        self._radio = undo.enter_context(feed)
        self._radio.start(link)
        if self._capture:
            network.start_collectors(self, snap_bytes=_SNAP_BYTES, tracing=False)
        address = f"{network.hosts.addresses['fixed']}:{SERVER_PORT}"
        task = HostTask(self._plan, ".", address, self._options)
        self._course = undo.enter_context(RealCourse(task, network.children, link, self._progress))

    def begin(self, clock: LinkClock) -> None:
        """Set the clock that converts link times, also for the modem."""
        self._radio.begin(clock)

    def reason(self, now_ns: int) -> str:
        """Give the modem its values once per link second; return why the run is over, or an empty string."""
        self._radio.each_second(self._link, now_ns)
        return self._course.reason(now_ns)

    def conclude(self, link: PacketLink) -> None:
        """Write the error trace: the slots whose frames the radio destroyed."""
        network = self._network
        write_radio(network.folder, link, now_ns=network.ended_ns, number=network.number)

    def note_end(self, ended: str, lateness: Lateness | None) -> None:
        """Record why the run ended, and how late the link's events were, for the manifest."""
        self._facts |= {"ended": ended} | (lateness._asdict() if lateness is not None else {})

    def check(self) -> None:
        """Raise CollectorError if the run ended because something failed."""
        self._course.check()
