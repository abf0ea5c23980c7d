"""Profiles: the commands for each type of modem or router; each TOML file in `profiles/` is a profile."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.errors import InputError

if TYPE_CHECKING:
    from multitracer.tables import Document

GENERIC = "3gpp"
GENERIC_REMOTE = "linux"
_MOST_BYTES = 1 << 16
_MOST_TIMEOUT_S = 60.0
_COMMANDS = {
    "modem": (re.compile(r"[aA][tT][ -~]{0,100}"), "a command must be one line of ASCII that begins with AT"),
    "remote": (re.compile(r"[a-z][ -~]{0,300}"), "a command must be one line of ASCII that begins with its program"),
}
"""Form of a command, by the kind of the profile: AT commands of a modem, or programs of a machine behind ssh."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One command of a profile."""

    command: str
    every: int = 1
    """Interval in rounds: 1 asks in each round, 2 in every second one."""
    timeout_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Profile:
    """The commands for one kind of modem, or of router."""

    name: str
    description: str
    match: str
    """Pattern to find in what the device says of itself (ATI, AT+CGMI, AT+CGMM; of a router /etc/os-release), case
    ignored; empty for none."""
    init: tuple[str, ...]
    """Commands that are sent once after opening the port."""
    asks: tuple[Ask, ...]
    baud: int | None = None
    kind: str = "modem"
    """`modem`: AT commands at a port. `remote`: programs that a router runs."""
    follow: str = ""
    """Of a router: a program that writes lines of its log as they come; empty for none."""


def profiles(kind: str = "modem") -> dict[str, Profile]:
    """Return the bundled profiles of a kind by name."""
    folder = resources.files("collectors") / "profiles"
    texts = [entry for entry in folder.iterdir() if entry.name.endswith(".toml")]
    read = [_profile(tomllib.loads(entry.read_text("utf-8")), entry.name) for entry in texts]
    return {profile.name: profile for profile in sorted(read, key=lambda p: p.name) if profile.kind == kind}


def chosen_profile(name: str, kind: str = "modem") -> Profile:
    """Return a bundled profile by name, or a profile of the user by the path of its file.

    Raises
    ------
    InputError
        If there is no such profile, or the file is not a valid profile.
    """
    bundled = profiles(kind)
    if name in bundled:
        return bundled[name]
    path = Path(name)
    if path.suffix != ".toml":
        raise InputError(f"--profile {name}: unknown profile; name one of {', '.join(bundled)}, or a .toml file")
    try:
        with path.open("rb") as stream:
            text = stream.read(_MOST_BYTES)
        profile = _profile(tomllib.loads(text.decode()), str(path))
    except OSError as error:
        raise InputError(f"{path}: cannot read this profile: {error.strerror}; check the name") from error
    except ValueError as error:
        raise InputError(
            f"{path}: this profile is not valid TOML: {error}; docs/collectors.md shows a profile"
        ) from error
    return _checked(profile, kind, path)


def _checked(profile: Profile, kind: str, path: Path) -> Profile:
    if profile.kind != kind:
        raise InputError(f'{path}: this profile has kind = "{profile.kind}", but "{kind}" is needed; choose another')
    return profile


def matching(identity: str, kind: str = "modem") -> Profile:
    """Return the profile that matches what a device says of itself; the generic profile if none does."""
    bundled = profiles(kind)
    for profile in bundled.values():
        if profile.match and re.search(profile.match, identity, re.IGNORECASE | re.DOTALL):
            return profile
    return bundled[GENERIC if kind == "modem" else GENERIC_REMOTE]


def _profile(data: Document, where: str) -> Profile:
    asks = tuple(_ask(row, where) for row in data.get("ask", []))
    init = tuple(data.get("init", []))
    if not asks or not isinstance(data.get("name"), str):
        raise InputError(
            f'{where}: a profile must have the key "name" and at least one [[ask]]; docs/collectors.md shows a profile'
        )
    kind = str(data.get("kind", "modem"))
    if kind not in _COMMANDS:
        raise InputError(f'{where}: "kind" must be modem or remote; correct it')
    form, rule = _COMMANDS[kind]
    follow = str(data.get("follow", ""))
    if any(not form.fullmatch(each) for each in (*init, *(ask.command for ask in asks), *([follow] if follow else []))):
        raise InputError(f"{where}: {rule}; change the command")
    match = str(data.get("match", ""))
    try:
        re.compile(match)
    except re.error as error:
        raise InputError(f'{where}: "match" must be a regular expression: {error}; correct the expression') from error
    return Profile(data["name"], str(data.get("description", "")), match, init, asks, data.get("baud"), kind, follow)


def _ask(row: Document, where: str) -> Ask:
    try:
        ask = Ask(str(row["command"]), int(row.get("every", 1)), float(row.get("timeout_s", 2.0)))
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f'{where}: each [[ask]] must have the key "command", and its keys "every" and "timeout_s" must be numbers'
        ) from None
    if ask.every < 1 or not 0 < ask.timeout_s <= _MOST_TIMEOUT_S:
        raise InputError(
            f'{where}: "every" (a number of polls) must be at least 1, and "timeout_s" must be '
            f"above 0 and at most {_MOST_TIMEOUT_S:g} s"
        )
    return ask
