"""`capture --rehearse`: a modem, a GPS receiver and some traffic; as root on a random drive.

On a drive, real TCP crosses a link that follows the simulated radio. The phone is a network namespace of this
program alone, so neither routes nor packets of the machine are changed, and nothing must be removed later.
The planted faults are written beside the recording.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.errors import PreflightError
from multitracer.lab.rehearsal.journey import CELL, Journey
from multitracer.lab.rehearsal.relay import BANDWIDTH_HZ, CLASSES, NO_SERVICE_DBM
from multitracer.lab.testbed.privileges import CLONE_NEWNET, namespaces
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.schemas.schema import Document

_DEVICES = ("modem", "gps")
_STATES = "states"
"""Name of the pipe through which the path of an idle phone tells its modem what to say."""
_DEVICE_OPTIONS = ("--own-folder", "--tags")
"""Options of the devices: also after `kill -9` of this process they end at once, and leave no folder."""
_PREFIX = "multitracer-rehearsal-"
TRAFFIC = (sys.executable, "-m", "multitracer.lab.rehearsal.traffic", "--tags")
"""Command that starts the traffic when the collectors are ready; closing its standard input stops it."""
DOWNLOAD = (*TRAFFIC, "--server")
"""Command for the traffic on a random drive."""
FIRST_SEED = 1
"""Seed of the drive if the user names none."""
_MODEM = ("--profile", "quectel")
"""Options of the modem on a random drive: an LTE modem."""
TRUTH = Path("truth", "drive.json")
"""Path of the planted faults in a session folder."""
DROPS = Path("truth", "link.jsonl")
WORDS = Path("truth", "link.err")
FIXED = "fixed"
_PROGRAM = "multitracer.lab.rehearsal.path"
_OWN_NAMESPACE = "/proc/self/ns/net"
_PATIENCE_S = 20.0
_LOOK_S = 0.02


@contextlib.contextmanager
def rehearsal(drive: RehearsedDrive | None = None) -> Iterator[Document]:
    """Run a simulated modem and GPS receiver in the `with` block; yield options for `capture`.

    The options select the two devices. If a drive is given, both devices follow it, and the block
    runs in its own network namespace.
    """
    with contextlib.ExitStack() as stack:
        ports = stack.enter_context(_folder())
        links = {name: str(ports / name) for name in _DEVICES}
        for name, link in links.items():
            words = () if drive is None else (*drive.options, *(_MODEM if name == "modem" else ()))
            if drive is not None and drive.has_idle and name == "modem":
                drive.states = ports / _STATES
                words += ("--states", str(drive.states))
            module = f"multitracer.lab.rehearsal.{name}"
            stack.callback(stop, _started(module, "--link", link, *_DEVICE_OPTIONS, *words))
        if drive is not None:
            stack.enter_context(own_network())
        yield links


def drawn_drive(
    *,
    seed: int | None,
    has_command: bool,
    interface: str | None,
    sync_probe: str | None,
    warn: Callable[[str], None],
    traffic: str = "download",
) -> RehearsedDrive | None:
    """Return a random drive for a rehearsal.

    None, after a warning with the reason, if no drive is possible.
    """
    why = why_not(has_command=has_command, interface=interface, sync_probe=sync_probe)
    if why:
        warn(f"the rehearsal's traffic uses the loopback interface, not the simulated radio link: {why}")
        return None
    return RehearsedDrive.now(FIRST_SEED if seed is None else seed, traffic)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """Make a temporary folder for the ports during the `with` block; remove the folders of killed rehearsals.

    A running process holds a lock on its folder; the kernel releases the locks of dead processes.
    """
    _remove_stale(Path(tempfile.gettempdir()))
    path = Path(tempfile.mkdtemp(prefix=_PREFIX))
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield path
    finally:
        _remove(path, descriptor)
        os.close(descriptor)


def _remove_stale(place: Path) -> None:
    for path in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # a link, somebody else's, in use, or removed just now
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(path, descriptor)
            finally:
                os.close(descriptor)


def _remove(path: Path, descriptor: int) -> None:
    """Remove the ports and the folder; a folder that contains other files remains."""
    for name in (*_DEVICES, _STATES):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=descriptor)
    with contextlib.suppress(FileNotFoundError):  # the last device removed it
        path.rmdir()


def _started(module: str, *options: str) -> subprocess.Popen[bytes]:
    """Start a program whose standard input ends with this process: with `--tags` the program then ends."""
    idle = subprocess.DEVNULL
    command = [sys.executable, "-m", module, *options]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=idle, stderr=idle, start_new_session=True)


@dataclass
class RehearsedDrive:
    """A random drive, and the time at which it starts."""

    seed: int
    began_ns: int
    """Start time on CLOCK_MONOTONIC."""
    began_realtime_ns: int
    traffic: str = "download"
    """"download", "requests", or "idle": requests, and the phone becomes idle between them."""
    states: Path | None = None
    """The pipe of the modem of an idle phone."""

    @classmethod
    def now(cls, seed: int, traffic: str = "download") -> RehearsedDrive:
        """Return the random drive of this seed, starting now."""
        return cls(seed, time.monotonic_ns(), time.time_ns(), traffic)

    @property
    def has_idle(self) -> bool:
        """Whether the phone becomes idle."""
        return self.traffic == "idle"

    @property
    def command(self) -> tuple[str, ...]:
        """Command that starts its traffic."""
        return DOWNLOAD if self.traffic == "download" else (*TRAFFIC, "--requests", str(self.seed))

    @property
    def options(self) -> tuple[str, ...]:
        """Command-line options for the simulated modem and the simulated GPS receiver."""
        return ("--journey", str(self.seed), "--began", str(self.began_ns))

    @property
    def path_options(self) -> tuple[str, ...]:
        """Command-line options for the program that simulates the link."""
        options = ["--seed", str(self.seed), "--began", str(self.began_ns)]
        options += [] if self.traffic == "download" else ["--requests"]
        if self.has_idle:
            options += ["--idle", *(() if self.states is None else ("--modem", str(self.states)))]
        return tuple(options)

    def truth(self, ended_ns: int) -> Document:
        """Return the planted faults that began before `ended_ns` (CLOCK_MONOTONIC), with times and places."""
        journey, ended_s = Journey(self.seed), (ended_ns - self.began_ns) / NS_PER_S
        return {
            "seed": self.seed,
            "traffic": self.traffic,
            "began_ns": self.began_realtime_ns,
            "ended_ns": self.began_realtime_ns + ended_ns - self.began_ns,
            "speed_mps": journey.speed_mps,
            "map": {
                "bandwidth_hz": BANDWIDTH_HZ,
                "no_service_dbm": NO_SERVICE_DBM,
                "classes": [{"least_sinr_db": minimum, "bits_per_s_per_hz": bits} for minimum, bits in CLASSES],
            },
            "events": [
                self._event(journey, number) for number, event in enumerate(journey.events) if event.begin_s < ended_s
            ],
            "route_from_begin_each_second": [
                self._coordinates(journey, float(second)) for second in range(int(max(ended_s, 0.0)) + 1)
            ],
        }

    def _event(self, journey: Journey, number: int) -> Document:
        event = journey.events[number]
        cells = {"source_cell_id": CELL + event.cell, "target_cell_id": CELL + event.cell + 1}
        return {
            "kind": event.kind,
            "begin": self._place(journey, event.begin_s),
            "end": self._place(journey, event.end_s),
            **(cells if event.kind == "handover" else {"cell_id": CELL + event.cell}),
        }

    def _place(self, journey: Journey, at_s: float) -> Document:
        lat_deg, lon_deg = self._coordinates(journey, at_s)
        time_ns = self.began_realtime_ns + round(at_s * NS_PER_S)
        return {"time_ns": time_ns, "lat_deg": lat_deg, "lon_deg": lon_deg}

    @staticmethod
    def _coordinates(journey: Journey, at_s: float) -> tuple[float, float]:
        place = journey.place(at_s)
        return round(place.lat_deg, 7), round(place.lon_deg, 7)


def why_not(*, has_command: bool, interface: str | None, sync_probe: str | None) -> str:
    """Return why the traffic cannot use the simulated path; empty if it can."""
    if has_command or interface or sync_probe:
        given = "COMMAND" if has_command else "--interface" if interface else "--clap"
        return f"{given} needs this machine's own network"
    ability = namespaces()
    return "" if ability.works else f"{ability.why_not}; run as root for the simulated link"


def stop(child: subprocess.Popen[bytes]) -> None:
    """Send a process the signal to end; kill it if it does not end in time."""
    child.terminate()
    try:
        child.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    if child.stdin is not None:
        child.stdin.close()


@contextlib.contextmanager
def own_network() -> Iterator[None]:
    """Move this thread and its children into a new network namespace during the `with` block."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open(_OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.unshare(CLONE_NEWNET) != 0:
            raise PreflightError(f"cannot create a network namespace: {os.strerror(ctypes.get_errno())}; run as root")
        yield
    finally:
        libc.setns(before, CLONE_NEWNET)
        os.close(before)


@contextlib.contextmanager
def rehearsed_path(drive: RehearsedDrive, folder: Path) -> Iterator[None]:
    """Run the link and the server of a drive during the `with` block.

    Then write the planted faults into the folder.

    Raises
    ------
    PreflightError
        If the path cannot be set up.
    """
    (folder / FIXED).mkdir()
    drops = folder / DROPS
    drops.parent.mkdir()
    with contextlib.ExitStack() as stack, drops.open("wb") as log:
        words = stack.enter_context((folder / WORDS).open("w+b"))
        child = subprocess.Popen(
            [sys.executable, "-m", _PROGRAM, *drive.path_options, "--tags", "--fixed", folder / FIXED],
            stdin=subprocess.PIPE, stdout=log, stderr=words, start_new_session=True,
        )  # fmt: skip
        stack.callback(stop, child)
        _wait_until_ready(child, drops, Path(words.name))
        yield
    ended_ns = time.monotonic_ns()
    (folder / TRUTH).write_text(json.dumps(drive.truth(ended_ns)) + "\n")


def _wait_until_ready(child: subprocess.Popen[bytes], output: Path, words: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not output.stat().st_size:
        if child.poll() is not None or time.monotonic() > deadline:
            lines = words.read_text(errors="replace").strip().splitlines()
            why = lines[-1].removeprefix("Error: ") if lines else "it wrote no message"
            raise PreflightError(
                f"the simulated link cannot be used: {why}; `multitracer testbed doctor` shows what is missing"
            )
        time.sleep(_LOOK_S)
