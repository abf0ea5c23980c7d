"""manifest.json: what a session folder says of itself.

It names the hosts, the collectors with their command lines, the experiment variables and the checksums of
the logs. It is written at the start of a recording and replaced by rename, so that at any instant the
folder can be opened. Its content is data of unknown origin: nothing in it is run, and a path in it that
leads out of the folder is refused. The layout of the folder is in docs/session.md.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from multitracer.errors import FormatError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

MANIFEST = "manifest.json"
SCHEMA = "multitracer.session/1"
MAX_BYTES = 16 << 20
"""A longer manifest is refused: a day of recording with every collector makes some 100 kB."""

Document = dict[str, Any]
Types = tuple[type, ...]


@dataclass(slots=True)
class CollectorRun:
    """One run of one collector: how it was started, and how it ended."""

    name: str
    host: str
    command: list[str] = field(default_factory=list)
    version: str | None = None
    started_ns: int | None = None
    ended_ns: int | None = None
    outcome: str | None = None
    """How it ended, for example "ended", "killed by signal 9"; None while it runs."""


@dataclass(slots=True)
class LogFile:
    """One log as it was when the recording ended."""

    path: str
    """Relative to the session folder, with slashes."""
    host: str
    bytes: int | None = None
    sha256: str | None = None


@dataclass(slots=True)
class Manifest:
    """What a recording says of itself."""

    name: str
    created_ns: int | None = None
    hosts: dict[str, Document] = field(default_factory=dict)
    """Host (also the name of its subfolder) -> facts such as role, kernel, clock."""
    collectors: list[CollectorRun] = field(default_factory=list)
    variables: Document = field(default_factory=dict)
    """Experiment variables: link, direction, location, and whatever the engineer adds."""
    files: list[LogFile] = field(default_factory=list)
    more: Document = field(default_factory=dict)
    """Keys that this version does not know; they are written back as they were."""


_TEXT, _NUMBER, _MAYBE_TEXT, _MAYBE_NUMBER = (str,), (int,), (str, type(None)), (int, type(None))
_MANIFEST_KEYS: dict[str, Types] = {
    "name": _TEXT,
    "created_ns": _MAYBE_NUMBER,
    "hosts": (dict,),
    "collectors": (list,),
    "variables": (dict,),
    "files": (list,),
}
_COLLECTOR_KEYS: dict[str, Types] = {
    "name": _TEXT,
    "host": _TEXT,
    "command": (list,),
    "version": _MAYBE_TEXT,
    "started_ns": _MAYBE_NUMBER,
    "ended_ns": _MAYBE_NUMBER,
    "outcome": _MAYBE_TEXT,
}
_FILE_KEYS: dict[str, Types] = {
    "path": _TEXT,
    "host": _TEXT,
    "bytes": _MAYBE_NUMBER,
    "sha256": _MAYBE_TEXT,
}


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a session folder, None if it has none.

    Raises
    ------
    FormatError
        If the file is not JSON, over 16 MiB, or of another shape than `Manifest`.
    """
    path = folder / MANIFEST
    if not path.is_file():
        return None
    with path.open("rb") as stream:
        text = stream.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise FormatError(path, f"longer than {MAX_BYTES >> 20} MiB: not a manifest")
    try:
        document = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise FormatError(path, f"not JSON ({error}); the logs can be read without it") from error
    return _manifest(document, path)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _manifest(document: Any, path: Path) -> Manifest:
    known, more = _split(document, _MANIFEST_KEYS, path, "the manifest")
    more.pop("schema", None)
    known.setdefault("name", path.parent.name)
    for host, facts in known.get("hosts", {}).items():
        _split(facts, {}, path, f"host {host!r}")
    for key, kind, keys in (("collectors", CollectorRun, _COLLECTOR_KEYS), ("files", LogFile, _FILE_KEYS)):
        records = [_split(record, keys, path, f"an entry of {key}")[0] for record in known.get(key, [])]
        known[key] = [_built(kind, record, path, key) for record in records]
    return Manifest(**known, more=more)


def _split(document: Any, keys: dict[str, Types], path: Path, what: str) -> tuple[Document, Document]:
    """Return the known part of an object, checked, and the rest."""
    if not isinstance(document, dict):
        raise FormatError(path, f"{what} is {type(document).__name__}, not an object")
    for key, kinds in keys.items():
        if key in document and type(document[key]) not in kinds:
            shown = str(document[key])[:60]
            raise FormatError(path, f"{what} has {key} = {shown!r}, not {kinds[0].__name__}")
    return (
        {key: value for key, value in document.items() if key in keys},
        {key: value for key, value in document.items() if key not in keys},
    )


def _built(kind: type[CollectorRun] | type[LogFile], record: Document, path: Path, key: str) -> Any:
    try:
        return kind(**record)
    except TypeError as error:  # a required key is missing
        raise FormatError(path, f"an entry of {key} lacks a key: {sorted(record)}") from error


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest beside the old one, then put it in its place, so that a reader sees one whole."""
    known = asdict(manifest)
    document = {"schema": SCHEMA, **known.pop("more"), **known}
    beside = folder / f"{MANIFEST}.tmp"
    with beside.open("w", encoding="utf-8") as stream:
        json.dump(document, stream, indent=1, allow_nan=False)
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(folder / MANIFEST)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def inside(folder: Path, relative: str) -> Path:
    """Return the file that a path relative to `folder` names.

    Raises
    ------
    InputError
        If the path is absolute, leads out of the folder (by `..` or by a symbolic link), or holds a NUL.
    """
    parts = PurePosixPath(relative)
    if parts.is_absolute() or ".." in parts.parts or "\0" in relative:
        raise InputError(f"{folder}: {relative!r} leads out of the folder")
    path = folder / parts
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{folder}: {relative!r} is a link out of the folder")
    return path


def changed_files(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Yield a sentence for each log that is not as the manifest recorded it."""
    for log in manifest.files:
        try:
            path = inside(folder, log.path)
        except InputError as error:
            yield str(error)
            continue
        if not path.is_file():
            yield f"{path}: listed in the manifest, but not there"
        elif log.bytes is not None and path.stat().st_size != log.bytes:
            yield f"{path}: {path.stat().st_size} bytes, {log.bytes} when it was recorded"
        elif log.sha256 is not None and checksum(path) != log.sha256.lower():
            yield f"{path}: its content is not what was recorded (SHA-256 differs)"
