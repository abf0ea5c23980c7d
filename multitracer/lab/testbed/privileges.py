"""The privileges of this process, found by trying; nothing remains after the attempts.

There are three tiers. `root`: everything. `userns`: in a user namespace with its own network namespaces and devices
(`unshare -Urnm`), without the kernel's tracing, real-time priority and tcpdump. `plain`: virtual time only.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shutil
import struct
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from multitracer.errors import PreflightError

if TYPE_CHECKING:
    from collections.abc import Callable

Tier = Literal["root", "userns", "plain"]
TOOLS = ("ip", "tc", "nstat", "nsenter", "setpriv")
"""Programs that a run starts (iproute2 and util-linux), besides tcpdump."""
CLONE_NEWNS, CLONE_NEWNET = 0x0002_0000, 0x4000_0000
TUN_DEVICE = "/dev/net/tun"
TUNSETIFF = 0x4004_54CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
REAL_TIME_PRIORITY = 10
_ALL_IDS = 0xFFFF_FFFF
_USER_NAMESPACE = ("unshare", "-Urnm")
_COLLECTOR_CHECK = "import importlib, sys; importlib.import_module(f'collectors.{sys.argv[1]}').COLLECTOR.check()"


@dataclass(frozen=True, slots=True)
class Ability:
    """The result of a trial of one operation that runs need: whether it works, and why it does not."""

    name: str
    works: bool
    why_not: str = ""
    """Error message of the system; empty if the ability works."""
    needed: bool = True
    """Whether a run in real time is impossible without it."""


@dataclass(frozen=True, slots=True)
class Privileges:
    """The operations that this process can do, and its tier."""

    tier: Tier
    abilities: tuple[Ability, ...]
    in_user_namespace: bool
    """Whether this process is already in a user namespace."""

    @property
    def missing(self) -> tuple[Ability, ...]:
        """The abilities that do not work for this process."""
        return tuple(ability for ability in self.abilities if not ability.works)

    def may(self, name: str) -> bool:
        """Return whether the operation with this name works."""
        return all(ability.works for ability in self.abilities if ability.name == name)

    @property
    def wants_unshare(self) -> bool:
        """Whether this tier requires `unshare -Urnm`."""
        return self.tier == "userns" and any(ability.needed for ability in self.missing)


def probe() -> Privileges:
    """Return the privileges of this process; every operation is tried, which takes half a second."""
    abilities = (
        namespaces(),
        *map(_tool, TOOLS),
        _collector("tcpdump", needed=False),
        _collector("tcp_info", needed=True),
        _collector("tcp_probe", needed=False),
        _real_time(),
    )
    inside = in_user_namespace()
    ready = all(ability.works for ability in abilities if ability.needed)
    if ready:
        return Privileges("userns" if inside else "root", abilities, inside)
    tools = all(ability.works for ability in abilities if ability.name in TOOLS)
    return Privileges("userns" if tools and not why_no_user_namespace() else "plain", abilities, inside)


def required() -> Privileges:
    """Return the privileges of this process if they suffice for a run.

    Raises
    ------
    PreflightError
        If they do not; the message states what would help.
    """
    privileges = probe()
    if privileges.tier == "plain" or privileges.wants_unshare:
        lacking = next(ability for ability in privileges.missing if ability.needed)
        way = "start multitracer with `unshare -Urnm`" if privileges.wants_unshare else "run as root"
        raise PreflightError(f"{lacking.name}: {lacking.why_not}; {way}, or run in virtual time with --virtual")
    return privileges


def in_user_namespace() -> bool:
    """Return whether this process is outside the system's initial user namespace."""
    first, _, count = Path("/proc/self/uid_map").read_text().split()[:3]
    return (int(first), int(count)) != (0, _ALL_IDS)


def namespaces() -> Ability:
    """Return whether a network namespace with a TUN device can be made, as the result of a trial.

    The trial runs in a thread; namespace and device end with the thread.
    """
    problem = _in_thread(_make_namespace_with_device)
    return Ability("namespaces", not problem, problem)


def _make_namespace_with_device() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "cannot create a network namespace")
    os.close(open_tun("mtprobe"))


def open_tun(name: str) -> int:
    """Make a TUN device in this thread's network namespace; it exists until the descriptor is closed."""
    descriptor = os.open(TUN_DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    except OSError as error:
        os.close(descriptor)
        raise OSError(error.errno, error.strerror, TUN_DEVICE) from error
    return descriptor


def _in_thread(attempt: Callable[[], None]) -> str:
    """Run `attempt` in a separate thread; return the error message, empty if it succeeded."""
    problems: list[str] = []

    def run() -> None:
        try:
            attempt()
        except OSError as error:
            problems.append(f"{error.filename or 'refused'}: {error.strerror}")

    thread = threading.Thread(target=run, name="probe")
    thread.start()
    thread.join()
    return "".join(problems)


def _tool(name: str) -> Ability:
    works = shutil.which(name) is not None
    return Ability(name, works, "" if works else "not installed")


def _collector(name: str, *, needed: bool) -> Ability:
    command = [sys.executable, "-c", _COLLECTOR_CHECK, name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stderr.strip().splitlines()
    words = lines[-1].partition(": ")[2] if done.returncode and lines else ""
    why_not = words.removeprefix(f"{name}: ").partition("; ")[0]  # what would help is for the doctor to say
    return Ability(name, done.returncode == 0, why_not, needed=needed)


def _real_time() -> Ability:
    """Return whether a thread can get a real-time priority, as the result of a trial."""
    problem = _in_thread(take_real_time_priority)
    return Ability("real-time priority", not problem, problem, needed=False)


def take_real_time_priority() -> None:
    """Give this thread a real-time priority; its children get an ordinary one."""
    policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
    os.sched_setscheduler(0, policy, os.sched_param(REAL_TIME_PRIORITY))


def probe_in_user_namespace() -> tuple[Ability, ...]:
    """Return the result for each operation, tried by a child in a new user namespace.

    Empty if the user namespace cannot be made.
    """
    program = (
        "import dataclasses, json; from multitracer.lab.testbed import privileges as p; "
        "print(json.dumps([dataclasses.astuple(ability) for ability in p.probe().abilities]))"
    )
    command = [*_USER_NAMESPACE, sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return tuple(Ability(*row) for row in json.loads(done.stdout)) if done.returncode == 0 else ()


def why_no_user_namespace() -> str:
    """Return why a child in a new user namespace could not make hosts and devices; empty if it can."""
    if in_user_namespace():
        return "this process is already in a user namespace"
    if not shutil.which(_USER_NAMESPACE[0]):
        return f"{_USER_NAMESPACE[0]}: not installed"
    program = "from multitracer.lab.testbed import privileges as p; print(p.namespaces().why_not)"
    command = [*_USER_NAMESPACE, sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = (done.stderr if done.returncode else done.stdout).strip().splitlines()
    return lines[-1] if lines else "refused" if done.returncode else ""
