"""The results of `testbed doctor`: the tiers of this machine, what each lacks, and how to change that."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.lab.testbed.privileges import TUN_DEVICE, probe, probe_in_user_namespace, why_no_user_namespace

if TYPE_CHECKING:
    from multitracer.lab.testbed.privileges import Ability, Privileges, Tier

_PURPOSES = {
    "namespaces": ("hosts of their own, and the link between them", "no run in real time"),
    "ip": ("addresses and routes of the hosts", "no run in real time"),
    "tc": ("devices without a queue of their own", "no run in real time"),
    "nsenter": ("programs that run inside the hosts", "no run in real time"),
    "setpriv": ("children that end with the run", "no run in real time"),
    "nstat": ("the kernel's counters before and after the run", "no run in real time"),
    "tcp_info": ("the sender's TCP variables, 20 times a second", "no run in real time"),
    "tcpdump": ("the captures", "the link writes captures: 96 octets of each packet that it carried"),
    "tcp_probe": ("the sender's TCP variables at every ACK", "cwnd is sampled only 20 times a second"),
    "real-time priority": ("punctual slots on a busy machine", "under load, slots are late and come in bursts"),
}
"""Purpose of each ability, and how a run differs without it."""
_PACKAGES = {"ip": "iproute2", "tc": "iproute2", "nstat": "iproute2", "nsenter": "util-linux", "setpriv": "util-linux"}
_NOT_TRIED = "could not be tried in this process"
_SETTINGS = Path("/proc/sys")
_SWITCHES = (
    ("kernel.apparmor_restrict_unprivileged_userns", "0", re.compile(r"[1-9]")),
    ("kernel.unprivileged_userns_clone", "1", re.compile(r"0")),
    ("user.max_user_namespaces", "10000", re.compile(r"0")),
)
"""Kernel settings: name, value that lets users make user namespaces, and pattern of forbidding values."""


@dataclass(frozen=True, slots=True)
class AbilityCheck:
    """Result of the test of one ability, and what does not work without it."""

    name: str
    purpose: str
    works: bool
    message: str
    """Error message of the system; empty if the ability works."""
    without: str
    """How a run differs without it."""


@dataclass(frozen=True, slots=True)
class TierCheck:
    """Result for one of the three tiers of privileges."""

    tier: Tier
    offered: bool
    how: str
    """How to run in this tier, or why that is not possible."""
    lost: str
    """Abilities that did not work in it when they were tried."""


@dataclass(frozen=True, slots=True)
class SystemCheck:
    """The results of `examine`."""

    tier: Tier
    """The best tier of this process without further rights."""
    tiers: tuple[TierCheck, ...]
    checks: tuple[AbilityCheck, ...]
    advice: str
    """The one command that would help most; empty if nothing is missing."""


def examine() -> SystemCheck:
    """Try all operations of a run in real time, in this process and in its own user namespace."""
    privileges = probe()
    refused = why_no_user_namespace() if not privileges.in_user_namespace else ""
    tiers = (_root(privileges), _user_namespace(privileges, refused), _plain())
    checks = tuple(_check(ability, privileges) for ability in privileges.abilities)
    return SystemCheck(privileges.tier, tiers, checks, _advice(privileges, refused))


def _check(ability: Ability, privileges: Privileges) -> AbilityCheck:
    purpose, without = _PURPOSES.get(ability.name, ("", "no run in real time" if ability.needed else ""))
    if ability.needed and privileges.wants_unshare:
        without = "it is possible in a user namespace"
    return AbilityCheck(ability.name, purpose, ability.works, ability.why_not, without)


def _root(privileges: Privileges) -> TierCheck:
    if privileges.tier == "root":
        return TierCheck("root", True, "as it is", _lost(privileges.abilities))
    return TierCheck("root", False, "requires root outside a user namespace", _NOT_TRIED)


def _user_namespace(privileges: Privileges, refused: str) -> TierCheck:
    if privileges.in_user_namespace:
        works = privileges.tier == "userns"
        how = "as it is" if works else _first_lack(privileges)
        return TierCheck("userns", works, how, _lost(privileges.abilities))
    if refused:
        return TierCheck("userns", False, refused, _NOT_TRIED)
    how = f"{_in_user_namespace()} testbed run ..."
    return TierCheck("userns", True, how, _lost(probe_in_user_namespace()))


def _lost(abilities: tuple[Ability, ...]) -> str:
    if not abilities:
        return _NOT_TRIED
    return ", ".join(ability.name for ability in abilities if not ability.works) or "nothing"


def _plain() -> TierCheck:
    return TierCheck("plain", True, "testbed run --virtual", "real time and the kernel's TCP")


def _first_lack(privileges: Privileges) -> str:
    return next((f"{a.name}: {a.why_not}" for a in privileges.missing if a.needed), "")


def _in_user_namespace() -> str:
    program = shutil.which("multitracer")
    return f"unshare -Urnm {'multitracer' if program else shlex.join([sys.executable, '-m', 'multitracer'])}"


def _advice(privileges: Privileges, refused: str) -> str:
    """Return a command after which a better tier of privileges works.

    `refused` is the reason for which a user namespace could not be made.
    """
    absent = [a.name for a in privileges.missing if a.name in _PACKAGES]
    if absent:
        return f"sudo apt-get install {' '.join(sorted({_PACKAGES[name] for name in absent}))}"
    if privileges.tier == "root":
        return "" if privileges.may("tcpdump") else "sudo apt-get install tcpdump"
    if privileges.wants_unshare:
        return f"{_in_user_namespace()} testbed run SCENARIO -o DIR"
    problem = _first_lack(privileges) if privileges.in_user_namespace else refused
    if TUN_DEVICE in problem:
        exists = Path(TUN_DEVICE).exists()
        return f"sudo chmod 0666 {TUN_DEVICE}" if exists else "sudo modprobe tun"
    if privileges.tier == "userns":
        return "run as root, outside the user namespace, for the missing abilities"
    return _switch() or "run as root"


def _switch() -> str:
    """Return the command that allows users to make user namespaces; empty if no known setting forbids it."""
    for name, wanted, forbids in _SWITCHES:
        setting = _SETTINGS.joinpath(*name.split("."))
        if setting.is_file() and forbids.fullmatch(setting.read_text().strip()):
            return f"sudo sysctl {name}={wanted}"
    return ""
