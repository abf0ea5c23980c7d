"""Finds the sessions below the paths that a user named, and whether they have changed since they were read.

A named file is a session, together with the files that tcpdump or dumpcap numbered in the same series. A
folder with a manifest is a session, and so is one that directly holds a capture or a log, with its subfolders
as hosts, as `report FOLDER` reads it; but not where a subfolder is a session of its own, because it has a manifest
or its name a date: then the files beside it are sessions, as if they were named, with a warning. Any other folder is
searched. Symbolic links are followed only if they are given as inputs, and campaigns are skipped.

Inputs are local paths and URLs; the worker that reads a session fetches the files of a URL. The same rules
find the sessions below a URL, by one listing of all objects. Its files are fetched into a temporary folder,
which is removed when the rows are made; the rows name the URL.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import parsers
from multitracer.campaign.remote import LISTING_S, Item, RefusedError, Remote, StoreError, is_url, local_path
from multitracer.campaign.store import SNAPSHOTS
from multitracer.errors import InputError, MultiTracerError
from multitracer.manifest import MANIFEST
from multitracer.recording.inputs import CAPTURE_NAME, MAX_FILES, UNREADABLE, find_inputs, ring_of, separate_inputs
from multitracer.words import portable, size

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from multitracer.recording.inputs import Inputs

DIGITS = 16
"""Hexadecimal digits of the number of a session or an input: two of 10^7 are equal with a probability of 3e-6."""
DEEPEST = 32
"""Maximum depth of the search below a named folder; a campaign has year, month, day, car. Not measured."""
_DATE = re.compile(r"(?<!\d)(?:19|20)\d\d([-_.]?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])(?!\d)")
"""The date in the name of a folder of one day, which no host has."""
MODELLED = frozenset({"truth", "tables"})
"""Subfolders of a session without logs: the truth of a model, and the tables of `align`."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file or folder that is probably a session."""

    paths: tuple[str, ...]
    """Absolute paths without symbolic links: one folder, or the files of one recording."""

    @property
    def key(self) -> str:
        """Value of the column `input`, a hash; file names in the store contain nothing else of an input."""
        return hashlib.sha256(os.fsencode(self.paths[0])).hexdigest()[:DIGITS]

    @property
    def path(self) -> str:
        """The path as text."""
        return portable(self.paths[0])

    @property
    def parent(self) -> str:
        """Parent of its path, as text."""
        return portable(os.path.dirname(self.paths[0]))  # noqa: PTH120

    @contextlib.contextmanager
    def here(self) -> Iterator[Candidate]:
        """Yield the candidate with its files on the local disk; `RemoteCandidate` fetches them first."""
        yield self

    def inner(self) -> Iterator[Candidate]:
        """Yield the candidates that are no sessions where this one is: the subfolders of a folder.

        They count as sessions of their own if the folder has no manifest.
        """
        with contextlib.suppress(OSError):
            folders = [path for path in self.paths if os.path.isdir(path)]  # noqa: PTH112
            for entry in (entry for folder in folders for entry in _entries(folder)):
                if entry.is_dir(follow_symlinks=False):
                    yield Candidate((entry.path,))

    def inputs(self) -> Inputs:
        """Return the files of the session, as inputs for reading.

        Raises
        ------
        InputError
            If the session is missing, or contains no known file.
        """
        return find_inputs(*self.paths)

    def state(self) -> str:
        """Return a hash of names, sizes and modification times of its files; "" if they cannot be listed.

        It is another one if captures are forced to be read in another way.
        """
        return self.state_and_bytes()[0]

    def state_and_bytes(self) -> tuple[str, int]:
        """Return the hash of `state`, and the size of all files in bytes."""
        facts = _begun()
        size = 0
        try:
            for relative, path in self._files():
                status = os.stat(path, follow_symlinks=True)  # noqa: PTH116
                size += status.st_size
                facts.update(os.fsencode(f"{relative}\0{status.st_size}\0{status.st_mtime_ns}\n"))
        except OSError:
            return "", 0
        return facts.hexdigest(), size

    def _files(self) -> Iterator[tuple[str, str]]:
        """Yield name and path of each file; for a folder also the files in its subfolders."""
        for path in self.paths:
            if not os.path.isdir(path):  # noqa: PTH112
                yield os.path.basename(path), path  # noqa: PTH119
                continue
            for entry in _entries(path):
                if entry.is_file():
                    yield entry.name, entry.path
                elif entry.is_dir(follow_symlinks=False) and entry.name not in MODELLED:
                    for inner in _entries(entry.path):
                        if inner.is_file():
                            yield f"{entry.name}/{inner.name}", inner.path


@dataclass(frozen=True, slots=True)
class LooseCandidate(Candidate):
    """Files beside folders that are sessions of their own."""

    def inner(self) -> Iterator[Candidate]:
        """Yield the folder that holds the files as a candidate: before, it was one session with all that is in it."""
        yield Candidate((os.path.dirname(self.paths[0]),))  # noqa: PTH120


def content_of(inputs: Inputs) -> str:
    """Return the SHA-256 over names and contents of the logs and the manifest, as 64 hexadecimal digits.

    It is another one if captures are forced to be read in another way (`parsers.force_reading`).

    Raises
    ------
    OSError
        If a file cannot be read.
    """
    base = str(inputs.folder) if inputs.folder is not None else None
    total = _begun()
    for path in sorted(path for path in inputs.paths if os.path.isfile(path)):  # noqa: PTH113
        name = os.path.basename(path) if base is None else os.path.relpath(path, base)  # noqa: PTH119
        with open(path, "rb") as stream:  # noqa: PTH123
            own = hashlib.file_digest(stream, "sha256")
        total.update(os.fsencode(name) + b"\0" + own.digest())
    return total.hexdigest()


def _begun() -> hashlib._Hash:
    """Return a hash that begins with how captures are forced to be read: sessions read otherwise have changed."""
    forced = parsers.forced_reading()
    return hashlib.sha256(repr(sorted(forced.items())).encode() if forced else b"")


def candidates(
    inputs: Iterable[str], *, known: Container[str] = (), passed_over: list[str] | None = None
) -> Iterator[Candidate]:
    """Yield the sessions below the inputs, each path once, in the order of the inputs and of their names.

    Parameters
    ----------
    inputs : iterable of str
        Folders and files.
    known : container of str
        Keys of candidates that are known sessions; their files are not read.
    passed_over : list of str, optional
        A sentence is added for each folder that could not be searched, and for each file that has the name of
        a capture but is not a capture.

    Raises
    ------
    InputError
        If an input does not exist.
    """
    search = _Search(known, [] if passed_over is None else passed_over)
    files: list[str] = []
    for name in inputs:
        if os.path.isdir(name):  # noqa: PTH112
            yield from search.below(os.path.realpath(name), 0)
        else:
            files.append(name)
    for name in files:
        if os.path.exists(name) and not os.path.isfile(name):  # noqa: PTH110, PTH113
            raise InputError(
                f"{portable(name)}: not a regular file; a campaign reads its inputs more than "
                "once, so name regular files or folders"
            )
    yield from search.of_files(files, Candidate)


class _Search:
    """Searches folders for sessions."""

    def __init__(self, known: Container[str], passed_over: list[str]) -> None:
        self._known = known
        self._passed_over = passed_over
        self.seen: set[str] = set()

    def below(self, folder: str, depth: int) -> Iterator[Candidate]:
        """Yield the folder if it is a session; otherwise yield the sessions below it."""
        candidate = Candidate((folder,))
        if candidate.key in self.seen:
            return
        try:
            entries = list(_entries(folder))
            folders = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
            holds_sessions = not _has_manifest(entries) and any(map(_is_own_session, folders))
            if not holds_sessions and self._is_session(candidate, entries):
                self.seen.add(candidate.key)
                yield candidate
                return
            logs = [entry.path for entry in entries if entry.is_file() and _is_log(entry)] if holds_sessions else []
            self._passed_over += loose_warning(portable(folder), len(logs))
            yield from self.of_files(logs, LooseCandidate)
        except (OSError, MultiTracerError) as error:
            self._passed_over.append(f"{portable(folder)}: cannot read this folder: {error}")
            return
        if any(entry.name == SNAPSHOTS and entry.is_dir() for entry in entries):
            if depth == 0:
                self._passed_over.append(
                    f"{portable(folder)}: a campaign is not searched; name the folders of its sessions"
                )
            return
        files = (entry.name for entry in entries if entry.is_file() and entry.path not in logs)
        self._passed_over += no_captures(portable(folder), files)
        if depth >= DEEPEST and folders:
            self._passed_over.append(
                f"{portable(folder)}: more than {DEEPEST} folders deep; name this folder as an input"
            )
            return
        for path in folders:
            yield from self.below(path, depth + 1)

    def of_files(self, files: list[str], kind: type[Candidate]) -> Iterator[Candidate]:
        """Yield files as sessions, those that a program numbered together."""
        for each in separate_inputs(files) if files else ():
            paths = [path for point in each.points for path in point.paths] + [log.path for log in each.listed]
            candidate = kind(tuple(dict.fromkeys(map(os.path.realpath, paths))))
            if candidate.key not in self.seen:
                self.seen.add(candidate.key)
                yield candidate

    def _is_session(self, candidate: Candidate, entries: list[os.DirEntry[str]]) -> bool:
        if candidate.key in self._known or _has_manifest(entries):
            return True
        return any(_is_log(entry) for entry in entries if entry.is_file())


def _has_manifest(entries: list[os.DirEntry[str]]) -> bool:
    return any(entry.name == MANIFEST for entry in entries)


def _is_own_session(folder: str) -> bool:
    """Return whether a folder below one that holds logs is a session, and no host of it."""
    return os.path.isfile(f"{folder}/{MANIFEST}") or _DATE.search(os.path.basename(folder)) is not None  # noqa: PTH113, PTH119


def loose_warning(folder: str, number: int) -> list[str]:
    """Return a sentence about files that lie beside folders that are sessions; none if there are no files."""
    if not number:
        return []
    files = "1 file lies" if number == 1 else f"{number:,} files lie"
    kind = "it is a session of its own" if number == 1 else "each recording of them is a session of its own"
    return [f"{folder}: {files} beside folders that are sessions of their own; {kind}, too"]


def no_captures(folder: str, names: Iterable[str]) -> list[str]:
    """Return a sentence for each of the named files; call it for files that are captures only by name.

    `folder` is the folder of the files.
    """
    return [
        f"{folder}/{portable(name)}: the file name is that of a capture, but the content is not a capture"
        for name in names
        if re.search(CAPTURE_NAME, name)
    ]


def _is_log(entry: os.DirEntry[str]) -> bool:
    """Return whether a file of a folder is a capture, or a log in a format that an installed parser reads."""
    if not entry.stat().st_size or parsers.is_map(Path(entry.path)):
        return False
    try:
        parsers.detect(entry.path)
    except UNREADABLE:
        return False
    return True


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """Return the entries of a folder sorted by name, without hidden ones."""
    entries = []
    with os.scandir(folder) as scan:
        for entry in scan:
            if not entry.name.startswith("."):
                entries.append(entry)
            if len(entries) > MOST_ENTRIES:
                raise InputError(f"the input has more than {MOST_ENTRIES:,} files; name its subfolders as inputs")
    return sorted(entries, key=lambda entry: entry.name)


MOST_ENTRIES = 100 * MAX_FILES
"""Maximum number of listed objects: enough for a million sessions; more would fill the memory."""


_HEAD = 64 << 10
"""Number of bytes fetched of an object to detect its format, which needs 4096 decompressed bytes."""
_PREFIX = "multitracer-session-"
_YOUNG_S = 60.0
"""Age in s below which a temporary folder may not be locked yet by its maker. Not measured."""


def sessions_in(
    inputs: Iterable[str], *, known: Container[str] = (), passed_over: list[str] | None = None
) -> Iterator[Candidate]:
    """Yield the sessions below paths and URLs, each once; see `discovery.candidates`.

    Raises
    ------
    InputError
        If an input does not exist, or a store cannot be read.
    """
    given = list(inputs)
    sentences: list[str] = [] if passed_over is None else passed_over
    paths = [local_path(each) for each in given if not is_url(each)]
    yield from candidates(paths, known=known, passed_over=sentences)
    seen: set[str] = set()
    loose: dict[tuple[str, str], dict[str, tuple[Item, ...]]] = {}
    for each in dict.fromkeys(each for each in given if is_url(each)):
        remote = Remote(each)
        items = _listed(remote)
        if items[0].name == "":
            loose.setdefault(ring_of(remote.url), {})[remote.url] = tuple(items[:1])
            continue
        for candidate in _Listing(remote, items, known, sentences).sessions():
            if candidate.key not in seen:
                seen.add(candidate.key)
                yield candidate
    for files in loose.values():
        yield RemoteCandidate(tuple(files), tuple(files.values()))


def candidate_of(paths: tuple[str, ...]) -> Candidate:
    """Return the candidate with these paths, local or remote."""
    return RemoteCandidate(paths) if is_url(paths[0]) else Candidate(paths)


@dataclass(frozen=True, slots=True)
class RemoteCandidate(Candidate):
    """A session below a URL; `paths` has the URL of its folder, or the URLs of its files."""

    listed: tuple[tuple[Item, ...], ...] = ()
    """Objects below each path at the time of the listing."""

    def state_and_bytes(self) -> tuple[str, int]:
        """Return the state at the time of the listing, and the size of all files in bytes."""
        listed = self.listed or self._now()
        return self._sum(listed), sum(item.size for items in listed for item in items)

    def state(self) -> str:
        """Return a hash of names, sizes and ETags of its files now; "" if there are no files."""
        return self._sum(self._now())

    def inner(self) -> Iterator[Candidate]:
        """Yield its subfolders as candidates; they count as sessions if the manifest is missing."""
        names = {item.name.partition("/")[0] for items in self.listed for item in items if "/" in item.name}
        for name in sorted(names):
            yield RemoteCandidate((f"{self.paths[0]}/{name}",))

    def _now(self) -> tuple[tuple[Item, ...], ...]:
        return tuple(_files(Remote(path).below()) for path in self.paths)

    def _sum(self, listed: tuple[tuple[Item, ...], ...]) -> str:
        facts = _begun()
        for path, items in zip(self.paths, listed, strict=True):
            if not items:
                return ""
            for item in items:
                facts.update(f"{_base(path)}/{item.name}\0{item.size}\0{item.mark}\n".encode("utf-8", "replace"))
        return facts.hexdigest()

    @contextlib.contextmanager
    def here(self) -> Iterator[Candidate]:
        """Fetch the session into a temporary folder, which is removed afterwards.

        Raises
        ------
        StoreError
            If the store does not answer.
        InputError
            If the session changes meanwhile, the disk has not enough space, or reading fails.
        """
        listed = self.listed or self._now()
        with temporary_folder() as folder:
            try:
                yield Candidate(tuple(self._fetched(folder, listed)))
            except StoreError:
                raise
            except RefusedError as error:
                self._blame_key(error)
                raise
            except FileNotFoundError as error:
                raise InputError(f"{self.path}: {_CHANGED}") from error
            except MultiTracerError as error:
                raise InputError(str(error).replace(f"{folder}/", f"{self.parent}/")) from error

    def _blame_key(self, error: RefusedError) -> None:
        """If the store refuses all objects, raise an error about the store instead of the session."""
        try:
            self._now()
        except RefusedError:
            raise StoreError(str(error)) from error

    def _fetched(self, folder: str, listed: tuple[tuple[Item, ...], ...]) -> Iterator[str]:
        files = [item for items in listed for item in items]
        total, free = sum(item.size for item in files), shutil.disk_usage(folder).free
        if len(files) > MAX_FILES:
            raise InputError(f"{self.path}: the session has more than {MAX_FILES:,} files; name the files to read")
        if total > free:
            raise InputError(
                f"{self.path}: the download needs {size(total)}, but {folder} has only {size(free)} "
                "free; set TMPDIR to a folder on a larger disk"
            )
        for path, items in zip(self.paths, listed, strict=True):
            remote, base = Remote(path), f"{folder}/{_base(path)}"
            for item in items:
                target = f"{base}/{item.name}" if item.name else base
                os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120
                remote.fetch(item, target)
            yield base


@dataclass(frozen=True, slots=True)
class RemoteLooseCandidate(RemoteCandidate):
    """Objects beside folders that are sessions of their own."""

    def inner(self) -> Iterator[Candidate]:
        """Yield the folder that holds the objects as a candidate; see `LooseCandidate`."""
        yield RemoteCandidate((self.paths[0].rpartition("/")[0],))


_CHANGED = "the files changed during the analysis; start the run again when the session is complete"


def _base(path: str) -> str:
    """Return the last part of a URL as a safe local file name, which cannot point to another folder."""
    name = path.rpartition("/")[2].replace("\0", "_")
    return "session" if name[:1] in ("", ".") else name


def _listed(remote: Remote) -> list[Item]:
    """Return all objects below a URL."""
    remote.inside("")  # an answer within the short deadline, before the long listing
    items = remote.below(LISTING_S)
    if not items:
        raise InputError(f"{remote.name}: no file found at this address; check the name")
    if len(items) > MOST_ENTRIES:
        raise InputError(
            f"{remote.name}: this address has more than {MOST_ENTRIES:,} files; name its subfolders as inputs"
        )
    return items


def _files(items: Iterable[Item]) -> tuple[Item, ...]:
    """Return the files that belong to a session's folder: those in it, and those in its subfolders."""
    return tuple(item for item in items if _is_file(item.name))


def _is_file(name: str) -> bool:
    parts = name.split("/")
    if len(parts) > 2 or "\0" in name or (len(parts) == 2 and parts[0] in MODELLED):
        return False
    return name == "" or not any(part[:1] in ("", ".") for part in parts)


class _Listing:
    """All objects below a URL, arranged as folders."""

    def __init__(self, remote: Remote, items: list[Item], known: Container[str], passed_over: list[str]) -> None:
        self._remote = remote
        self._known = known
        self._passed_over = passed_over
        self._files: dict[str, dict[str, Item]] = {"": {}}
        self._folders: dict[str, set[str]] = {}
        for item in items:
            *folders, name = item.name.split("/")
            if not any(part[:1] in ("", ".") or "\0" in part for part in (*folders, name)):
                self._add(folders, name, item)

    def _add(self, folders: list[str], name: str, item: Item) -> None:
        self._files.setdefault("/".join(folders), {})[name] = item
        for depth, inside in enumerate(folders):
            self._folders.setdefault("/".join(folders[:depth]), set()).add(inside)

    def sessions(self, folder: str = "", depth: int = 0) -> Iterator[RemoteCandidate]:
        """Yield the folder if it is a session; otherwise yield the sessions below it."""
        url = f"{self._remote.url}/{folder}" if folder else self._remote.url
        folders = self._folders.get(folder, set())
        own = [name for name in folders if self._is_own_session(f"{folder}/{name}" if folder else name)]
        has_manifest = MANIFEST in self._files.get(folder, {})
        if has_manifest or (not own and self._is_session(url, folder)):
            yield RemoteCandidate((url,), (self._session(folder),))
            return
        logs = self._logs(folder) if own else {}
        self._passed_over += loose_warning(portable(url), len(logs))
        rings: dict[tuple[str, str], list[str]] = {}
        for name in logs:
            rings.setdefault(ring_of(f"{url}/{name}"), []).append(name)
        for names in rings.values():  # listed anew as single objects, whose states stores tell otherwise
            yield RemoteLooseCandidate(tuple(f"{url}/{name}" for name in names))
        if SNAPSHOTS in folders:
            return
        files = sorted(self._files.get(folder, {}).keys() - logs.keys())
        self._passed_over += no_captures(portable(url), files)
        if depth >= DEEPEST and folders:
            self._passed_over.append(f"{portable(url)}: more than {DEEPEST} folders deep; name this folder as an input")
            return
        for name in sorted(folders):
            yield from self.sessions(f"{folder}/{name}" if folder else name, depth + 1)

    def _session(self, folder: str) -> tuple[Item, ...]:
        """Return the files of the session in a folder, with names relative to the folder."""
        cut = len(folder) + 1 if folder else 0
        places = [folder, *(f"{folder}/{name}" if folder else name for name in self._folders.get(folder, ()))]
        items = [item for place in places for item in self._files.get(place, {}).values()]
        return _files(sorted(item._replace(name=item.name[cut:]) for item in items))

    def _is_own_session(self, folder: str) -> bool:
        return MANIFEST in self._files.get(folder, {}) or _DATE.search(folder.rpartition("/")[2]) is not None

    def _is_session(self, url: str, folder: str) -> bool:
        if RemoteCandidate((url,)).key in self._known:
            return True
        files = self._files.get(folder, {})
        return any(f"{name}.toml" in files for name in files) or any(
            map(self._is_log, self._read_ones(folder).values())
        )

    def _logs(self, folder: str) -> dict[str, Item]:
        return {name: item for name, item in self._read_ones(folder).items() if self._is_log(item)}

    def _read_ones(self, folder: str) -> dict[str, Item]:
        """Return the files of a folder that may be logs, and are no maps of another file."""
        files = self._files.get(folder, {})
        maps = {f"{name}.toml" for name in files}
        return {name: item for name, item in sorted(files.items()) if item.size and name not in maps}

    def _is_log(self, item: Item) -> bool:
        """Return whether an object is a capture or a log that a parser reads, judged by its first bytes."""
        with temporary_folder() as folder:
            head = Path(folder) / "head"
            try:
                head.write_bytes(self._remote.read(item.name, 0, min(item.size, _HEAD)))
                parsers.detect(str(head))
            except (*UNREADABLE, FileNotFoundError) as error:
                if isinstance(error, StoreError):
                    raise
                return False
        return True


@contextlib.contextmanager
def temporary_folder() -> Iterator[str]:
    """Yield a temporary folder for the `with` block; folders of killed processes are removed first.

    The folder itself is locked; the kernel releases the lock when this process ends.
    """
    _remove_left()
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield os.path.realpath(folder)
        finally:
            os.close(lock)


def _remove_left() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # a link, somebody else's, in use, or removed just now
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                status = os.fstat(lock)
                if status.st_uid == os.getuid() and time.time() - status.st_mtime > _YOUNG_S:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
