"""A session: the packet captures of one recording, by the point where they were captured.

`open_session` takes what a user names: a capture, the files of one capture (a ring buffer, a glob), a
folder of captures, a session folder (one subfolder per host, manifest.json; docs/session.md), or `-`.
`Session.captures` then reads each point. Files that overlap in time are not one capture that was cut into
files: they are taken as several points, because merging them would count each packet twice.

Only regular files inside a folder are read, whatever its manifest or its symbolic links say.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import parsers
from multitracer.errors import FormatError, InputError, MultiTracerError, UnknownFormatError
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from multitracer.capture import Capture, SourceFile
    from multitracer.manifest import Manifest
    from multitracer.tables import Table
    from parsers import Format

    Progress = Callable[[int], None]

STANDARD_INPUT = "-"
MAX_FILES = 10_000
"""More files in one folder are refused: a ring buffer of a week has some hundred."""

MOST_SPEED = 1_000
"""A session that claims a link faster than this, times a real one, is taken for one at its own speed."""

_UNREADABLE = (FormatError, InputError, UnknownFormatError)
"""What is wrong with one file, not with the installation."""

_CAPTURE_NAME = re.compile(r"\.(pcap|pcapng|cap|dmp|dump)\d*(\.(gz|zst|xz))?$", re.IGNORECASE)
_DUMPCAP_RING = re.compile(r"(?P<stem>.+)_(?P<number>\d{5,})_\d{14}(?P<rest>(\.\w+)*)")
_TCPDUMP_RING = re.compile(r"(?P<stem>.+\.(pcap|pcapng|cap|dmp|dump))(?P<number>\d*)(\.(gz|zst|xz))?")


@dataclass(frozen=True, slots=True)
class Point:
    """One place where packets were captured, with the files of that capture in order."""

    name: str
    """The host's name in a session folder, otherwise the path as the user gave it."""
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Log:
    """A log of a host that is no packet capture."""

    host: str
    path: str
    format: str
    """As `multitracer formats` names it."""
    layer: str
    """The layer of the stack that it tells of: tcp, link, radio, position, clock."""


@dataclass(slots=True)
class Session:
    """The captures and other logs of one recording."""

    name: str
    points: list[Point]
    logs: list[Log] = field(default_factory=list)
    folder: Path | None = None
    manifest: Manifest | None = None
    warnings: list[str] = field(default_factory=list)
    """What was passed over while the session was opened and read, a sentence each."""

    @property
    def speed(self) -> float:
        """Link seconds in a second of the recording: how many times as fast as a real link the link ran."""
        told = self.manifest.variables.get("speed") if self.manifest else None
        known = isinstance(told, int | float) and not isinstance(told, bool) and 0 < told <= MOST_SPEED
        return float(told) if known and told is not None else 1.0

    @property
    def paths(self) -> list[str]:
        """Every file that belongs to the recording."""
        found = [path for point in self.points for path in point.paths] + [log.path for log in self.logs]
        return found if self.folder is None else [*found, str(self.folder / "manifest.json")]

    def captures(
        self, *, max_packets: int | None = None, progress: Progress | None = None
    ) -> Iterator[tuple[Point, Capture]]:
        """Read the points one after the other.

        Parameters
        ----------
        max_packets : int, optional
            Read at most this many packets of each point.
        progress : callable, optional
            Passed to `parsers.read_capture`.

        Raises
        ------
        MultiTracerError
            If nothing at all can be read. In a folder, a file that cannot be read is passed over with a
            warning as long as another one can.
        """
        if not self.points:
            raise InputError(f"{self.folder}: holds no capture; name a capture or a session folder")
        failure: MultiTracerError | None = None
        found = False
        for point in self.points:
            try:
                capture = self._read(point, max_packets=max_packets, progress=progress)
            except _UNREADABLE as error:
                self._passed_over(error)
                failure = error
                continue
            found = True
            yield from _apart(point, capture)
        if failure is not None and not found:
            raise failure

    def tables(self, layer: str) -> Iterator[tuple[Log, dict[str, Table]]]:
        """Read the logs of a layer one after the other; one that cannot be read is passed over."""
        for log in self.logs:
            if log.layer != layer:
                continue
            try:
                _, parsed = parsers.read(log.path)
            except _UNREADABLE as error:
                self._passed_over(error)
                continue
            if isinstance(parsed, dict):
                yield log, parsed

    def _read(self, point: Point, *, max_packets: int | None, progress: Progress | None) -> Capture:
        paths = self._readable(point.paths) if self.folder and len(point.paths) > 1 else point.paths
        return parsers.read_capture(paths, max_packets=max_packets, progress=progress)

    def _readable(self, paths: tuple[str, ...]) -> list[str]:
        """Return the files that can be read at least to their first packet."""
        found = []
        for path in paths:
            try:
                parsers.read_capture([path], max_packets=1)
            except _UNREADABLE as error:
                self._passed_over(error)
            else:
                found.append(path)
        if not found:
            raise InputError(f"{paths[0]}: none of its {len(paths)} files can be read")
        return found

    def _passed_over(self, error: MultiTracerError) -> None:
        """Note a log of a folder that cannot be read; what the user named himself must be readable."""
        if self.folder is None:
            raise error
        self.warnings.append(f"{error}; passed over")


def _apart(point: Point, capture: Capture) -> Iterator[tuple[Point, Capture]]:
    """Yield the capture; as several points if its files overlap in time."""
    runs = _runs(capture.files)
    if len(runs) == 1:
        yield point, capture
        return
    for run in runs:
        paths = tuple(capture.files[i].path for i in run)
        yield Point(paths[0], paths), capture.of_files(run)


def _runs(files: Sequence[SourceFile]) -> list[list[int]]:
    """Return the files' indexes, those together that follow each other in time."""
    runs: list[list[int]] = []
    for i in sorted(range(len(files)), key=lambda i: files[i].first_ns or 0):
        run = next((r for r in runs if _follows(files[r[-1]], files[i])), None)
        if run is None:
            runs.append([i])
        else:
            run.append(i)
    return runs


def _follows(earlier: SourceFile, later: SourceFile) -> bool:
    """Return whether `later` begins where `earlier` ends, or after it.

    Several capture queues may mix the last and first packets of two files of a ring: an overlap under a
    second that is under a tenth of both files is let pass.
    """
    if earlier.first_ns is None or earlier.last_ns is None:
        return True
    if later.first_ns is None or later.last_ns is None:
        return True
    overlap_ns = earlier.last_ns - later.first_ns
    shorter_ns = min(earlier.last_ns - earlier.first_ns, later.last_ns - later.first_ns)
    return overlap_ns <= 0 or overlap_ns < min(NS_PER_S, shorter_ns // 10)


def open_session(*paths: str | os.PathLike[str]) -> Session:
    """Open what the paths name, as one session; nothing is read yet but the start of files in folders.

    Parameters
    ----------
    *paths
        One session folder or folder of captures; or captures, glob patterns and at most one `-`, which
        together are one file set.

    Raises
    ------
    InputError
        If a path does not exist, is of a kind that cannot be read, or a folder holds no capture.
    """
    names = [found for path in paths for found in _expanded(os.fspath(path))]
    if not names:
        raise InputError("no input: name a capture, a session folder, or - for standard input")
    folders = [name for name in names if name != STANDARD_INPUT and Path(name).is_dir()]
    if not folders:
        return Session(Path(names[0]).name, [Point(names[0], tuple(dict.fromkeys(names)))])
    if len(names) > 1:
        raise InputError(f"{folders[0]}: a folder cannot be part of a file set; give it alone")
    return _open_folder(Path(names[0]))


def separate_sessions(paths: Sequence[str]) -> list[Session]:
    """Open each path as a session of its own; files that tcpdump or dumpcap numbered are one.

    Raises
    ------
    InputError
        As `open_session` does.
    """
    rings: dict[tuple[str, str], list[str]] = {}
    for name in dict.fromkeys(found for path in paths for found in _expanded(path)):
        rings.setdefault(_ring(name), []).append(name)
    return [open_session(*names) for names in rings.values()]


def _expanded(path: str) -> list[str]:
    """Return the files that a glob pattern names in natural order, or the path itself."""
    if path == STANDARD_INPUT or os.path.lexists(path) or not set("*?[") & set(path):
        _check_readable(path)
        return [path]
    import glob

    found = sorted(glob.glob(path), key=_natural)  # noqa: PTH207  # Path.glob refuses absolute patterns
    if not found:
        raise InputError(f"{path}: no file matches; check the pattern")
    return found


def _check_readable(path: str) -> None:
    if path == STANDARD_INPUT:
        return
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{path}: {reason}; check the name") from error
    if stat.S_ISSOCK(mode) or stat.S_ISBLK(mode):
        raise InputError(f"{path}: neither a file nor a folder nor a pipe; name a capture")


def _ring(name: str) -> tuple[str, str]:
    """Return what the files of one ring buffer have in common; for any other file its name."""
    folder, base = os.path.split(name)
    if match := _DUMPCAP_RING.fullmatch(base):
        return folder, match["stem"] + match["rest"]
    if match := _TCPDUMP_RING.fullmatch(base):
        return folder, match["stem"]
    return folder, base


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key under which file9 comes before file10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _open_folder(folder: Path) -> Session:
    from multitracer.manifest import read_manifest

    warnings: list[str] = []
    try:
        manifest = read_manifest(folder)
    except FormatError as error:
        manifest = None
        warnings.append(f"{error}; the folder is read without it")
    points, logs = [], []
    for host, place in _places(folder, first=list(manifest.hosts) if manifest else []):
        known = list(_logs_in(folder, place, warnings))
        captures = tuple(path for path, fmt in known if fmt.layer == "packet")
        points += [Point(host, captures)] if captures else []
        logs += [Log(host, path, fmt.name, fmt.layer) for path, fmt in known if fmt.layer != "packet"]
    if not points and not logs and manifest is None:
        why = f" ({warnings[0]})" if warnings else ""
        raise InputError(f"{folder}: holds no capture{why}; name a capture or a session folder")
    name = manifest.name if manifest else folder.resolve().name
    return Session(name, points, logs, folder, manifest, warnings)


def _places(folder: Path, *, first: list[str]) -> list[tuple[str, Path]]:
    """Return the folder itself and its subfolders, each of which is a host; those in `first` come first."""
    hosts = [entry.name for entry in _entries(folder) if entry.is_dir(follow_symlinks=False)]
    hosts.sort(key=lambda host: first.index(host) if host in first else len(first))
    return [(str(folder), folder), *((host, folder / host) for host in hosts)]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as scan:
            entries = [entry for entry in scan if not entry.name.startswith(".")]
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}; check its permissions") from error
    if len(entries) > MAX_FILES:
        raise InputError(f"{folder}: over {MAX_FILES} files; name those that you mean")
    return sorted(entries, key=lambda entry: _natural(entry.name))


def _logs_in(folder: Path, place: Path, warnings: list[str]) -> Iterator[tuple[str, Format]]:
    """Yield the logs of one place with their formats, recognised by their content."""
    from multitracer.manifest import MANIFEST, inside

    for entry in _entries(place):
        path = place / entry.name
        if entry.name == MANIFEST or not path.is_file():
            continue
        try:
            inside(folder, str(path.relative_to(folder)))
            yield str(path), parsers.detect(str(path))
        except _UNREADABLE as error:
            if entry.is_symlink() or _CAPTURE_NAME.search(entry.name):
                warnings.append(f"{error}; passed over")
