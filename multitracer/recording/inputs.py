"""Finds the capture points and logs that the user's paths name; only the start of each file is read.

A path is a capture, the files of one capture (a ring buffer, a glob), logs of other layers, a folder of captures and
logs, a session folder (one subfolder per host, manifest.json; docs/session.md), or `-`. In a folder only regular files
inside it are read, whatever its manifest or its symbolic links name. Every file is accounted for: as a capture, a log,
a companion that one of our recorders writes beside the logs, or in a warning.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import parsers
from multitracer.errors import FormatError, InputError, UnknownFormatError
from multitracer.logs import HostLog, Point
from multitracer.words import printable, size
from parsers._complete import is_capture

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from multitracer.manifest import Manifest
    from parsers import Format

STANDARD_INPUT = "-"
RADIO_CONTEXT_LAYERS = ("radio", "position", "marker", "signalling")
"""The layers whose logs hold the radio context; a drive-test log of a phone holds both radio and position."""
MAX_FILES = 10_000
"""Maximum number of files in one folder: a ring buffer of a week has some hundred."""

MOST_OF_MEMORY = 0.5
"""Share of the memory up to which captures are analysed as a whole: an analysis took 0.6 to 1.4 times the
size of captures without payload (docs/benchmarks.md)."""
LARGE_BYTES = 8 << 20
"""Size in bytes from which a capture is large: the segments of a smaller one take some megabytes, and little
time. Not measured."""

UNREADABLE = (FormatError, InputError, UnknownFormatError)
"""Errors of one file, in contrast to errors of the installation."""

CAPTURE_NAME = r"(?i)\.(pcap|pcapng|cap|dmp|dump)\d*(\.(gz|zst|xz|bz2))?$"
_DUMPCAP_RING = r"(?P<stem>.+)_(?P<number>\d{5,})_\d{14}(?P<rest>(\.\w+)*)"
_TCPDUMP_RING = r"(?P<stem>.+\.(pcap|pcapng|cap|dmp|dump))(?P<number>\d*)(\.(gz|zst|xz|bz2))?"
_COMPRESSED = r"\.(gz|zst|xz|bz2)$"

_COMPANIONS = frozenset(
    {
        "manifest.json",
        "manifest.json.tmp",
        "README.md",
        "scenario.toml",
        "summary.json",
        "expected.json",
        "nstat_before.json",
        "nstat_after.json",
        "device_after.json",
        "traffic.jsonl",
        "traffic.log",
        "link.jsonl",
        "link.log",
        "transactions.jsonl",
    }
)
"""Files that our recorders write beside the logs and that hold no log records."""
_COMPANION_FOLDERS = frozenset({"truth", "tables"})
"""Folders that hold no logs: the true values of a simulated run, and the tables that `align` writes."""
_NOTES = r"(tcpdump|tcpdump-udp|sniffer|signalling|android-packets(-\d+)?)-\d+\.jsonl"
"""Files in which these collectors log their own state: drops, and readings of the clock."""
_MAY_BE_EMPTY = frozenset({"claps.jsonl", "markers.jsonl"})
"""Logs that may be empty after a short recording."""
_WORDS_OF_COLLECTOR = (".log", ".err")
"""Suffixes of files that hold the messages of a collector, not its records."""
_CAPTURING = ("tcpdump", "tcpdump-udp")
"""Collectors whose captures have other names than their messages."""
_NAMED = 10
"""Maximum number of unknown files that a warning names; the others are counted."""


@dataclass(slots=True)
class Inputs:
    """The captures and other logs of one recording, by name; none of them is parsed yet."""

    name: str
    points: list[Point]
    listed: list[HostLog] = field(default_factory=list)
    """The logs other than captures."""
    folder: Path | None = None
    manifest: Manifest | None = None
    warnings: list[str] = field(default_factory=list)
    """Sentences about inputs that could not be used when they were opened."""

    @property
    def paths(self) -> list[str]:
        """The paths of all files of the recording."""
        paths = [path for point in self.points for path in point.paths] + [log.path for log in self.listed]
        if self.folder is None:
            return paths
        from multitracer.manifest import MANIFEST

        return [*paths, str(self.folder / MANIFEST)]

    @property
    def title(self) -> str:
        """The name of the folder as it is now, else that of the first file; `name` is that of the manifest."""
        return (self.folder.resolve().name if self.folder is not None else "") or self.name

    @property
    def too_large(self) -> str:
        """A text that says why the captures are not completely held in memory; empty if they are."""
        paths = [path for point in self.points for path in point.paths]
        stored = sum(Path(path).stat().st_size for path in paths if Path(path).is_file())
        usable = parsers.usable_memory_bytes()
        if usable is None or stored <= MOST_OF_MEMORY * usable:
            return ""
        return f"{size(stored)} are more than half of the memory that may be used ({size(usable)})"

    @property
    def one_file(self) -> str:
        """The path of the capture if it is one file; else empty."""
        paths = [path for point in self.points for path in point.paths]
        return paths[0] if len(paths) == 1 and Path(paths[0]).is_file() else ""

    @property
    def large_file(self) -> str:
        """The path of the capture if it is one file of `LARGE_BYTES` or more; else empty."""
        path = self.one_file
        return path if path and Path(path).stat().st_size >= LARGE_BYTES else ""

    def holds(self, layer: str) -> bool:
        """Return whether a log of this layer exists."""
        return any(log.layer == layer for log in self.listed)


def find_inputs(*paths: str | os.PathLike[str]) -> Inputs:
    """Return the captures and logs that the paths name, as one recording.

    Parameters
    ----------
    *paths
        One session folder, or one folder of captures and logs; or files, glob patterns and at most one `-`.
        The captures among files are one capture point together; each other log belongs to a host of its own.

    Raises
    ------
    InputError
        If a path does not exist or cannot be read, or a folder holds no known file.
    """
    names = [name for path in paths for name in _expanded(os.fspath(path))]
    if not names:
        raise InputError("no input was given; name a capture, a session folder, or - for standard input")
    folders = [name for name in names if name != STANDARD_INPUT and Path(name).is_dir()]
    if folders and len(names) > 1:
        raise InputError(f"{folders[0]}: a folder cannot be read together with other files; give only this folder")
    if folders:
        return _of_folder(Path(folders[0]))
    captures, logs = [], []
    for name in dict.fromkeys(names):
        known = None  # a capture; what is no file, such as a pipe, can be read only once: it is taken for one
        if name != STANDARD_INPUT and Path(name).is_file():
            with contextlib.suppress(UnknownFormatError, FormatError):  # reading it says what is wrong
                known = None if is_capture(name) else parsers.detect(name)
        if known is None or known.layer == "packet":
            captures.append(name)
        else:
            logs.append(HostLog(name, name, known.name, known.layer))
    points = [Point(captures[0], tuple(captures))] if captures else []
    return Inputs(Path(names[0]).name, points, logs)


def separate_inputs(paths: Sequence[str]) -> list[Inputs]:
    """Return each path as a recording of its own; files that tcpdump or dumpcap numbered are one recording.

    Raises
    ------
    InputError
        As `find_inputs` does.
    """
    rings: dict[tuple[str, str], list[str]] = {}
    for name in dict.fromkeys(name for path in paths for name in _expanded(path)):
        rings.setdefault(ring_of(name), []).append(name)
    return [find_inputs(*names) for names in rings.values()]


def loose_inputs(paths: Sequence[str]) -> Inputs:
    """Return single files as one recording: each capture a point, each other log a host of its own.

    Raises
    ------
    InputError
        As `find_inputs` does; or if there are several paths and one is a folder.
    """
    for name in paths:
        if os.path.isdir(name):  # noqa: PTH112  # a name may hold NUL, which Path refuses
            raise InputError(
                f"{name}: a session folder cannot be read together with other inputs; give only this folder"
            )
    points, logs = [], []
    for inputs in separate_inputs(paths):
        points += inputs.points
        logs += inputs.listed
    return Inputs(Path(paths[0]).name, points, logs)


# --- names ---


def _expanded(path: str) -> list[str]:
    """Return the files that match a glob pattern, in natural order; or the path itself, if it can be read."""
    if path == STANDARD_INPUT:
        return [path]
    if set("*?[") & set(path) and not os.path.lexists(path):
        import glob

        if names := sorted(glob.glob(path), key=_natural):  # noqa: PTH207  # Path.glob refuses absolute ones
            return names
        raise InputError(f"{path}: no file matches this pattern; check the pattern")
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{path}: cannot open this input: {reason}; check the name") from error
    if stat.S_ISSOCK(mode) or stat.S_ISBLK(mode):
        raise InputError(f"{path}: this input is neither a file nor a folder nor a pipe; name a capture")
    return [path]


def ring_of(name: str) -> tuple[str, str]:
    """Return the folder of a file, and the part of its name that all files of a ring buffer share.

    For a file of no ring buffer, it is its complete name.
    """
    folder, base = os.path.split(name)
    if match := re.fullmatch(_DUMPCAP_RING, base):
        return folder, match["stem"] + match["rest"]
    if match := re.fullmatch(_TCPDUMP_RING, base):
        return folder, match["stem"]
    return folder, base


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that orders file9 before file10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


# --- folders ---


def _of_folder(folder: Path) -> Inputs:
    from multitracer.manifest import read_manifest

    warnings: list[str] = []
    try:
        manifest = read_manifest(folder)
    except FormatError as error:
        manifest = None
        warnings.append(f"{error}; the folder is read without it")
    search = _Search(folder, manifest)

    # the folder itself and its subfolders, each of which is a host; those of the manifest come first
    first = list(manifest.hosts) if manifest else []
    hosts = [entry.name for entry in _entries(folder) if entry.is_dir(follow_symlinks=False)]
    hosts = [host for host in hosts if host not in _COMPANION_FOLDERS]
    hosts.sort(key=lambda host: first.index(host) if host in first else len(first))
    points, logs = [], []
    for host, place in [(str(folder), folder), *((host, folder / host) for host in hosts)]:
        known = list(search.logs_in(place, is_host=place != folder))
        captures = tuple(path for path, fmt in known if fmt.layer == "packet")
        points += [Point(host, captures)] if captures else []
        recorder = _recorded_at(place, warnings) if place != folder else None
        owner = recorder if recorder in {*first, *hosts} else host
        logs += [HostLog(owner, path, fmt.name, fmt.layer) for path, fmt in known if fmt.layer != "packet"]
    warnings += [*(manifest.warnings if manifest else ()), *search.warnings()]
    warnings += map(str, parsers.left_out())
    if not points and not logs and manifest is None:
        why = f" ({warnings[0]})" if warnings else ""
        raise InputError(
            f"{folder}: this folder contains no capture and no log{why}; name a capture or a session folder"
        )
    name = manifest.name if manifest else folder.resolve().name
    return Inputs(name, points, logs, folder, manifest, warnings)


def _recorded_at(place: Path, warnings: list[str]) -> str | None:
    """Return the host that a measurement inside a session names: it ran there, and its logs have that clock.

    The faults of its manifest are added to the warnings.
    """
    from multitracer.manifest import RECORDED_AT, read_manifest

    try:
        manifest = read_manifest(place)
    except FormatError as error:
        warnings.append(f"{error}; the folder is read without it")
        return None
    if manifest is None:
        return None
    warnings += manifest.warnings
    return str(manifest.more.get(RECORDED_AT, ""))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as scan:
            entries = [entry for entry in scan if not entry.name.startswith(".")]
    except OSError as error:
        raise InputError(f"{folder}: cannot read this folder: {error.strerror}; check the permissions") from error
    if len(entries) > MAX_FILES:
        raise InputError(f"{folder}: this folder contains more than {MAX_FILES} files; name the files to read")
    return sorted(entries, key=lambda entry: _natural(entry.name))


class _Search:
    """Finds the logs in a folder by their content, and remembers the files that are no logs."""

    def __init__(self, folder: Path, manifest: Manifest | None) -> None:
        self._folder = folder
        self._listed = {log.path for log in manifest.files} if manifest else set()
        runs = manifest.collectors if manifest else []
        self._collectors = {run.name for run in runs}
        self._logs = {Path(word).name for run in runs for word in run.command}
        self._seen: set[str] = set()
        self._unusable: list[str] = []
        self._unknown: list[str] = []

    def logs_in(self, place: Path, *, is_host: bool) -> Iterator[tuple[str, Format]]:
        """Yield the names and formats of the logs in a host's folder, or in the session folder itself."""
        from multitracer.manifest import inside

        for entry in _entries(place):
            path = place / entry.name
            if self._is_companion(entry.name) or parsers.is_map(path):
                continue
            relative = path.relative_to(self._folder).as_posix()
            self._seen.add(re.sub(_COMPRESSED, "", relative))
            is_file = entry.is_file(follow_symlinks=False)
            if entry.name in _MAY_BE_EMPTY and is_file and not entry.stat().st_size:
                continue
            if not path.is_file():
                if is_host or not entry.is_dir(follow_symlinks=False):
                    self._unusable.append(f"{path}: {_kind(entry)}")
                continue
            try:
                inside(self._folder, relative)
                yield str(path), parsers.detect(str(path))
            except UnknownFormatError as error:
                if self._is_beside_its_log(place, entry.name):
                    continue
                expected = self._is_expected(entry, relative)
                (self._unusable if expected else self._unknown).append(str(error) if expected else relative)
            except (FormatError, InputError) as error:  # damaged, not allowed, or a link out of the folder
                self._unusable.append(str(error))

    def _is_companion(self, name: str) -> bool:
        plain = re.sub(_COMPRESSED, "", name)
        plain = re.sub(r"-\d+(?=\.(log|err)$)", "", plain)  # a run that went on has words in files -1, -2, ...
        if plain in _COMPANIONS or re.fullmatch(_NOTES, plain):
            return True
        return plain.endswith(_WORDS_OF_COLLECTOR) and Path(plain).stem in self._collectors

    def _is_beside_its_log(self, place: Path, name: str) -> bool:
        """Return whether a file holds the messages of a collector, by a log of the same name, or a capture, beside it.

        Without a manifest nothing else tells it.
        """
        stem, suffix = os.path.splitext(re.sub(_COMPRESSED, "", name))  # noqa: PTH122  # "a.b.log" is of "a.b"
        if suffix not in _WORDS_OF_COLLECTOR:
            return False
        others = [each.name for each in _entries(place) if each.name != name]
        if re.sub(r"-\d+$", "", stem) in _CAPTURING:
            return any(re.search(CAPTURE_NAME, each) for each in others)
        records = (re.sub(_COMPRESSED, "", each) for each in others)
        return any(each.startswith(f"{stem}.") and not each.endswith(_WORDS_OF_COLLECTOR) for each in records)

    def _is_expected(self, entry: os.DirEntry[str], relative: str) -> bool:
        """Return whether a file should be a log, by its name, the manifest, or the program that wrote it."""
        named = re.search(CAPTURE_NAME, entry.name) or re.sub(_COMPRESSED, "", entry.name) in self._logs
        return bool(named) or entry.is_symlink() or relative in self._listed

    def warnings(self) -> Iterator[str]:
        """Yield a sentence for each log that is missing or cannot be used, and one for all unknown files."""
        yield from (f"{sentence}; skipped" for sentence in self._unusable)
        for relative in sorted(self._listed):  # logs that the manifest lists and that do not exist
            parts = PurePosixPath(relative).parts or ("",)
            if parts[0] in _COMPANION_FOLDERS or self._is_companion(parts[-1]):
                continue
            if re.sub(_COMPRESSED, "", "/".join(parts[:2])) not in self._seen:  # of a deeper one, its folder
                yield f"{self._folder}/{printable(relative)}: listed in the manifest, but missing"
        if self._unknown:
            names = ", ".join(self._unknown[:_NAMED])
            rest = len(self._unknown) - _NAMED
            more = f" and {rest:,} more" if rest > 0 else ""
            yield f"{self._folder}: no installed format knows {names}{more}; not read"


def _kind(entry: os.DirEntry[str]) -> str:
    """Return a text that says what an entry of a folder is: a folder, a symbolic link, a device, ...."""
    if entry.is_symlink():
        return "a link to a folder, or to nothing"
    if entry.is_dir():
        return "a folder inside a host's folder; its files belong beside it"
    return "neither a file nor a folder"
