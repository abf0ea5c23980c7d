"""manifest.json: the description of a session folder, with the type of every key.

It names the hosts, the collectors with their command lines, the experiment variables and the checksums of the
logs. It is written at the start of a recording and replaced by a rename, so that the folder can be opened at
any time. The content is not trusted: the program executes nothing from it, and rejects a path that leads out
of the folder. docs/session.md has the layout of the folder.

The fields of the classes are the keys of the file; the annotations are the types. A key whose value has a
wrong type is ignored with a warning. Ignored and unknown keys are stored in `more` and written back.
"""

from __future__ import annotations

import json
import math
import os
import stat
from contextlib import contextmanager, suppress
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from multitracer.errors import FormatError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Document

MANIFEST = "manifest.json"
SCHEMA = "multitracer.session/1"
MAX_BYTES = 16 << 20
"""Maximum size of a manifest; a recording of a day with all collectors has about 100 kB."""
RECORDING_VARIABLE = "MULTITRACER_RECORDING"
"""Environment variable of a command that is recorded: the folder of its host in the session that is being written."""
RECORDED_AT = "recorded_at"
"""Key of a measurement's manifest: the host of the recording during which it ran, whose clock and modem it had."""
_PRIVATE = 0o077
"""The umask of a recording as root."""
_NO_ID = 0xFFFF_FFFF
"""The ID that names no user (chown(2))."""


class Role(StrEnum):
    """The role of a host in the recording."""

    MOBILE = "mobile"
    FIXED = "fixed"
    SENDER = "sender"
    RECEIVER = "receiver"
    CLIENT = "client"
    """The host sent the requests of a measurement."""
    SERVER = "server"


@dataclass(slots=True)
class CollectorRun:
    """One run of one collector: command, times and outcome."""

    name: str
    host: str
    command: list[str] = field(default_factory=list)
    version: str | None = None
    started_ns: int | None = None
    ended_ns: int | None = None
    outcome: str | None = None
    """How the run ended, for example "ended" or "killed by signal 9"; None while it runs."""
    more: Document = field(default_factory=dict)


@dataclass(slots=True)
class LogFile:
    """Path, size and checksum of a log at the end of the recording."""

    path: str
    """Path relative to the session folder, with slashes."""
    host: str
    bytes: int | None = None
    sha256: str | None = None
    more: Document = field(default_factory=dict)


@dataclass(slots=True)
class Host:
    """One machine of the recording; its subfolder has the same name."""

    role: Role | None = None
    kernel: str | None = None
    machine: str | None = None
    addresses: list[str] = field(default_factory=list)
    """IP addresses of the host."""
    more: Document = field(default_factory=dict)
    """Further keys: node, device, route, sysctls, clock_error, ..."""

    def document(self) -> Document:
        """Return the host as the JSON object that is written."""
        return _written(self)

    def add(self, facts: Document) -> None:
        """Add the keys of a JSON object: to the field of that name, or else to `more`."""
        for key, value in facts.items():
            if key in ("kernel", "machine", "addresses"):
                setattr(self, key, value)
            else:
                self.more[key] = value


@dataclass(slots=True)
class Measurement:
    """The plan of `measure run` (see multitracer.measure.plan): transactions and transport."""

    protocol: str | None = None
    """`tcp`, `centauruscomm` or `wtcp`."""
    server: str | None = None
    """HOST:PORT or serial:PATH; None over a modelled link."""
    over: str | None = None
    """The modelled link between client and server; None over a real network."""
    more: Document = field(default_factory=dict)
    """The rest of the plan: experiments, timeout_s, labels."""


@dataclass(slots=True)
class Variables:
    """Experiment variables: varied settings, and fixed settings of the recording."""

    scenario: str | None = None
    """Name of the scenario; for a measurement over a modelled link, the TOML text of the scenario."""
    title: str | None = None
    figure: str | None = None
    """Number of the figure in the paper that the run reproduces."""
    direction: str | None = None
    seed: int | None = None
    parameters: Document = field(default_factory=dict)
    """All numbers of the scenario by section; `parameters[HOST]` is the profile of that host's TCP."""
    virtual: bool | None = None
    """Whether the recording ran in virtual time."""
    speed: float | None = None
    """Link seconds in a recorded second."""
    measurement: Measurement | None = None
    link: str | None = None
    """Name of the modelled link."""
    tcp_profile: str | None = None
    extensions: list[str] | None = None
    """Names of the CentaurusComm extensions in use; an empty list if there are none."""
    ended: str | None = None
    """Why a run ended; None while it runs."""
    runs: list[Document] = field(default_factory=list)
    """Runs of the plan of a measurement in real time, with `seed`, `started_ns` and `ended` (the reason)."""
    more: Document = field(default_factory=dict)
    """Labels, and other keys that the engineer or a program adds."""

    @classmethod
    def of(cls, document: Document) -> Variables:
        """Return the variables from a JSON object."""
        return _Reader(Path(MANIFEST)).variables(document)

    def document(self) -> Document:
        """Return the variables that have a value as the JSON object that is written."""
        return _written(self)


@dataclass(slots=True)
class Manifest:
    """The description of a recording in its manifest.json."""

    name: str
    created_ns: int | None = None
    hosts: dict[str, Host] = field(default_factory=dict)
    """Hosts by the name of their subfolder."""
    collectors: list[CollectorRun] = field(default_factory=list)
    variables: Variables = field(default_factory=Variables)
    files: list[LogFile] = field(default_factory=list)
    more: Document = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list, compare=False)
    """A sentence for each unusable part of the file; not written to the file."""

    def host(self, name: str) -> Host:
        """Return a host; if it does not exist, add an empty one."""
        return self.hosts.setdefault(name, Host())


_Entry = TypeVar("_Entry", CollectorRun, LogFile)
_SPARSE = (Host, Variables, Measurement)
"""Classes of which only non-empty fields are written; of all other classes, all fields are written."""

# --- reading ---

_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "str | None": (str,),
    "Role | None": (str,),
    "int | None": (int,),
    "float | None": (int, float),
    "bool | None": (bool,),
    "list[str]": (list,),
    "list[str] | None": (list,),
    "list[Document]": (list,),
    "Document": (dict,),
    "Measurement | None": (dict,),
    "Variables": (dict,),
    "dict[str, Host]": (dict,),
    "list[CollectorRun]": (list,),
    "list[LogFile]": (list,),
}
"""Allowed types of a JSON value, by the annotation of the field."""
_ELEMENTS = {"list[str]": str, "list[str] | None": str, "list[Document]": dict}
_OWN = ("more", "warnings")
"""Fields of the classes that are not keys of the file."""
_LONGEST_SHOWN = 60


class _Reader:
    """Converts JSON values to the classes, and collects a sentence for each value that it ignores."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.warnings: list[str] = []

    def manifest(self, document: Document) -> Manifest:
        """Return the manifest; if it has no name, the name of the folder is used."""
        known: Document = {"name": self._path.parent.name}
        known |= self._known(Manifest, document, "the manifest")
        hosts = {name: self._host(each, name) for name, each in known.pop("hosts", {}).items()}
        known["hosts"] = {name: host for name, host in hosts.items() if host is not None}
        known["variables"] = self.variables(known.pop("variables", {}))
        known["collectors"] = self._entries(CollectorRun, known.pop("collectors", []), "collectors")
        known["files"] = self._entries(LogFile, known.pop("files", []), "files")
        for key in ("schema", "name"):  # written anew
            known["more"].pop(key, None)
        return Manifest(**known, warnings=self.warnings)

    def _known(self, kind: type, document: Document, what: str) -> Document:
        """Return the keys of a JSON object that are fields of `kind` with the right type.

        The rest is `more`.
        """
        types = {each.name: str(each.type) for each in fields(kind) if each.name not in _OWN}
        known: Document = {"more": {}}
        for key, value in document.items():
            if value is None and key in types and kind not in _SPARSE:
                continue  # it is written as null again
            if key not in types or value is None or (key == "link" and isinstance(value, dict)):
                known["more"][key] = value  # a link may be described by its conditions, too
            elif _fits(value, types[key]):
                known[key] = value
            else:
                known["more"][key] = value
                self._warn(f"{what} has {key} = {_shown(value)}, but its type must be {types[key]}")
        return known

    def _warn(self, sentence: str) -> None:
        self.warnings.append(f"{self._path}: {sentence}; it is not used")

    def _host(self, document: object, name: str) -> Host | None:
        what = f"host {name!r}"
        if not isinstance(document, dict):
            self._warn(f"{what} must be a JSON object, but is {type(document).__name__}")
            return None
        known = self._known(Host, document, what)
        if (word := known.pop("role", None)) is not None:
            word = word.removesuffix(" of a measurement")  # as manifests before 0.2 have it
            if word in set(Role):
                known["role"] = Role(word)
            else:
                known["more"]["role"] = word
                self._warn(f"{what} has role = {_shown(word)}, but the role must be one of {', '.join(Role)}")
        return Host(**known)

    def variables(self, document: Document) -> Variables:
        """Return the experiment variables."""
        if type(mask := document.get("extensions")) is int:  # as runs in virtual time before 0.2 have it
            document = document | {"extensions": [f"bits {mask:#x}"] if mask else []}
        known = self._known(Variables, document, "variables")
        if known.get("measurement") is not None:
            known["measurement"] = self._measurement(known["measurement"])
        return Variables(**known)

    def _measurement(self, document: Document) -> Measurement:
        known = self._known(Measurement, document, "the measurement")
        server = known.get("server") or ""
        if server.startswith("over "):  # as manifests before 0.2 have it
            known |= {"server": None, "over": server.removeprefix("over ")}
        return Measurement(**known)

    def _entries(self, kind: type[_Entry], documents: list[object], key: str) -> list[_Entry]:
        what = f"an entry of {key}"
        entries = []
        for document in documents:
            if not isinstance(document, dict):
                self._warn(f"{what} must be a JSON object, but is {type(document).__name__}")
                continue
            try:
                entries.append(kind(**self._known(kind, document, what)))
            except TypeError:  # a required key is missing
                self._warn(f"{what} lacks a required key (its keys are {_shown(sorted(document))})")
        return entries


def _fits(value: object, annotation: str) -> bool:
    """Return whether a JSON value has the type of a field; true and false are not numbers."""
    if annotation in _ELEMENTS and type(value) is list:
        return all(type(each) is _ELEMENTS[annotation] for each in value)
    return type(value) in _TYPES[annotation]


def _shown(value: object) -> str:
    return repr(str(value)[:_LONGEST_SHOWN])


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a session folder; None if the folder has no manifest.

    Raises
    ------
    FormatError
        If the file is not a JSON object, or is larger than 16 MiB. A key of the wrong type raises no error
        but adds a sentence to `Manifest.warnings`.
    """
    path = folder / MANIFEST
    if not path.is_file():
        return None
    with path.open("rb") as stream:
        text = stream.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise FormatError(
            path, f"the file is longer than {MAX_BYTES >> 20} MiB, so it cannot be a manifest; remove this file"
        )
    try:
        document = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise FormatError(
            path, f"the file is not valid JSON ({error}); remove this file to read the logs without a manifest"
        ) from error
    if not isinstance(document, dict):
        raise FormatError(path, f"the manifest must be a JSON object, but is {type(document).__name__}")
    return _Reader(path).manifest(document)


def _no_constant(name: str) -> None:
    raise ValueError(f"the number {name} is not allowed in JSON")


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


# --- writing ---


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest to a temporary file and rename it, so that readers see only complete manifests."""
    document = {"schema": SCHEMA, **_written(manifest)}
    temporary = folder / f"{MANIFEST}.tmp"
    temporary.unlink(missing_ok=True)  # of a killed run, or a link: it is not followed
    with temporary.open("x", encoding="utf-8") as stream:
        json.dump(document, stream, indent=1, allow_nan=False)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(folder / MANIFEST)


def _written(entry: Manifest | Host | CollectorRun | LogFile | Variables | Measurement) -> Document:
    """Return the fields of an object, and the keys of its `more`, as the JSON object that is written."""
    own = {each: getattr(entry, each.name) for each in fields(entry) if each.name not in _OWN}
    stated = {each.name: _plain(value) for each, value in own.items() if not _is_default(each, value)}
    every = {} if isinstance(entry, _SPARSE) else {each.name: _plain(value) for each, value in own.items()}
    return every | stated | {key: value for key, value in entry.more.items() if key not in stated}


def _is_default(of: Field[object], value: object) -> bool:
    return bool(value == (of.default if of.default_factory is MISSING else of.default_factory()))


def _plain(value: object) -> object:
    if isinstance(value, Host | CollectorRun | LogFile | Variables | Measurement):
        return _written(value)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


# --- whose it is ---


@contextmanager
def private_recording(folder: Path) -> Iterator[int]:
    """As root, make a recording private, and that of the user who called sudo.

    New files of this process and of its children have the mode 0600, and new folders 0700. At the end
    everything in `folder` belongs to the user; during a long recording `hand_over` does the same.

    Yields
    ------
    int
        The umask before, for programs that are not part of the recording; -1 if this process is not root.
    """
    if os.geteuid() != 0:
        yield -1
        return
    before = os.umask(_PRIVATE)
    try:
        yield before
    finally:
        os.umask(before)
        hand_over(folder)


def sudo_caller() -> tuple[int, int] | None:
    """Return user and group of the user who called sudo; None if this process is not root, or root called it."""
    texts = [os.environ.get(name, "") for name in ("SUDO_UID", "SUDO_GID")]
    if os.geteuid() != 0 or not all(text.isdecimal() and int(text) < _NO_ID for text in texts):
        return None
    user, group = map(int, texts)
    return (user, group) if user else None


def hand_over(folder: Path) -> None:
    """Give the folder, and what root owns in it, to the user who called sudo.

    The user can change the folder meanwhile: no link is followed, and no file that has another name elsewhere
    is given away. File systems without owners are left as they are.
    """
    if (caller := sudo_caller()) is None:
        return
    for _, _, names, place in os.fwalk(folder):
        with suppress(OSError):
            for name in names:
                with suppress(OSError):  # a link or a socket, or removed just now
                    _give(name, place, caller)
            if os.fstat(place).st_uid == 0:
                os.fchown(place, *caller)


def _give(name: str, place: int, caller: tuple[int, int]) -> None:
    if os.stat(name, dir_fd=place, follow_symlinks=False).st_uid != 0:
        return
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_uid == 0:
            os.fchown(descriptor, *caller)
    finally:
        os.close(descriptor)


# --- the logs that it lists ---


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    import hashlib

    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def inside(folder: Path, relative: str) -> Path:
    """Return the absolute path of a file in `folder` after checking the relative path.

    Raises
    ------
    InputError
        If the path is absolute, leads out of the folder (by `..` or a symbolic link), or contains a NUL.
    """
    parts = PurePosixPath(relative)
    if parts.is_absolute() or ".." in parts.parts or "\0" in relative:
        raise InputError(f"{folder}: the path {relative!r} leads out of the folder; remove this entry")
    path = folder / parts
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{folder}: {relative!r} is a symbolic link that leads out of the folder; remove this entry")
    return path


def changed_files(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Yield a sentence for each log that differs from its entry in the manifest."""
    for log in manifest.files:
        try:
            path = inside(folder, log.path)
        except InputError as error:
            yield str(error)
            continue
        if not path.is_file():
            yield f"{path}: listed in the manifest, but missing"
        elif log.bytes is not None and path.stat().st_size != log.bytes:
            yield f"{path}: {path.stat().st_size} bytes now, but {log.bytes} bytes were recorded"
        elif log.sha256 is not None and checksum(path) != log.sha256.lower():
            yield f"{path}: the content has changed since the recording (SHA-256 differs)"
