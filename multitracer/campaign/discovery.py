"""Which sessions lie below the paths that a user named, and whether they changed since they were read.

A file that is named is a session of its own, with the files that tcpdump or dumpcap numbered with it. A
folder with a manifest is a session, and so is one that directly holds a capture or a log, with its subfolders
as hosts, as `report FOLDER` reads it. Any other folder is searched. Symbolic links are followed only where
they are named, and campaigns are passed over.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import parsers
from multitracer.campaign.store import SNAPSHOTS
from multitracer.errors import InputError, MultiTracerError
from multitracer.manifest import MANIFEST
from multitracer.recording.inputs import CAPTURE_NAME, MAX_FILES, UNREADABLE, find_inputs, separate_inputs
from multitracer.words import portable

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from multitracer.recording.inputs import Inputs

DIGITS = 16
"""Hexadecimal digits of a number of a session or an input: among 10^7 two are equal with a chance of 3e-6."""
DEEPEST = 32
"""Folders below a named one are searched so deep; a campaign has by year, month, day, car. Not measured."""
MODELLED = frozenset({"truth", "tables"})
"""Subfolders of a session that hold what a model knows and what `align` keeps; they are no logs."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A session that may have to be read."""

    paths: tuple[str, ...]
    """Absolute, without symbolic links: a folder, or the files of one recording."""

    @property
    def key(self) -> str:
        """The column `input`: it names files in the store, as nothing else of an input does."""
        return hashlib.sha256(os.fsencode(self.paths[0])).hexdigest()[:DIGITS]

    @property
    def path(self) -> str:
        """The path as text."""
        return portable(self.paths[0])

    @property
    def parent(self) -> str:
        """What its path lies in, as text."""
        return portable(os.path.dirname(self.paths[0]))  # noqa: PTH120

    @contextlib.contextmanager
    def here(self) -> Iterator[Candidate]:
        """Give it as files of this machine; `RemoteCandidate` fetches them."""
        yield self

    def inner(self) -> Iterator[Candidate]:
        """Yield its subfolders, if it is a folder; without its manifest each may be taken for a session."""
        with contextlib.suppress(OSError):
            folders = [path for path in self.paths if os.path.isdir(path)]  # noqa: PTH112
            for entry in (entry for folder in folders for entry in _entries(folder)):
                if entry.is_dir(follow_symlinks=False):
                    yield Candidate((entry.path,))

    def inputs(self) -> Inputs:
        """Return what it holds.

        Raises
        ------
        InputError
            If it is gone, or holds nothing that is known.
        """
        return find_inputs(*self.paths)

    def state(self) -> str:
        """Return a sum over names, sizes and times of change of its files; "" if they cannot be listed."""
        return self.state_and_bytes()[0]

    def state_and_bytes(self) -> tuple[str, int]:
        """Return the state, and the size of all files."""
        facts = hashlib.sha256()
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
        """Yield name and path of each file, for a folder those of its subfolders, too."""
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


def content_of(inputs: Inputs) -> str:
    """Return the SHA-256 over names and contents of the logs and the manifest, as 64 hexadecimal digits.

    Raises
    ------
    OSError
        If one cannot be read.
    """
    base = str(inputs.folder) if inputs.folder is not None else None
    total = hashlib.sha256()
    for path in sorted(path for path in inputs.paths if os.path.isfile(path)):  # noqa: PTH113
        name = os.path.basename(path) if base is None else os.path.relpath(path, base)  # noqa: PTH119
        with open(path, "rb") as stream:  # noqa: PTH123
            own = hashlib.file_digest(stream, "sha256")
        total.update(os.fsencode(name) + b"\0" + own.digest())
    return total.hexdigest()


def candidates(
    inputs: Iterable[str], *, known: Container[str] = (), passed_over: list[str] | None = None
) -> Iterator[Candidate]:
    """Yield the sessions below the inputs, each path once, in the order of the inputs and of their names.

    Parameters
    ----------
    inputs : iterable of str
        Folders and files.
    known : container of str
        Keys of candidates that are sessions as far as is known: their files are not looked at.
    passed_over : list of str, optional
        Gets a sentence for each folder that could not be searched, and for each file that is a capture by its
        name alone.

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
                f"{portable(name)}: is no file; a campaign reads folders and files, more than once"
            )
    for each in separate_inputs(files) if files else ():
        paths = [path for point in each.points for path in point.paths] + [log.path for log in each.listed]
        candidate = Candidate(tuple(dict.fromkeys(map(os.path.realpath, paths))))
        if candidate.key not in search.seen:
            search.seen.add(candidate.key)
            yield candidate


class _Search:
    """Looks for sessions below folders."""

    def __init__(self, known: Container[str], passed_over: list[str]) -> None:
        self._known = known
        self._passed_over = passed_over
        self.seen: set[str] = set()

    def below(self, folder: str, depth: int) -> Iterator[Candidate]:
        """Yield the folder, if it is a session, else those in it."""
        candidate = Candidate((folder,))
        if candidate.key in self.seen:
            return
        try:
            entries = list(_entries(folder))
            if self._is_session(candidate, entries):
                self.seen.add(candidate.key)
                yield candidate
                return
        except (OSError, MultiTracerError) as error:
            self._passed_over.append(f"{portable(folder)}: cannot be searched: {error}")
            return
        if any(entry.name == SNAPSHOTS and entry.is_dir() for entry in entries):
            return
        files = (entry.name for entry in entries if entry.is_file())
        self._passed_over += no_captures(portable(folder), files)
        folders = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        if depth >= DEEPEST and folders:
            self._passed_over.append(f"{portable(folder)}: lies over {DEEPEST} folders deep; name it itself")
            return
        for path in folders:
            yield from self.below(path, depth + 1)

    def _is_session(self, candidate: Candidate, entries: list[os.DirEntry[str]]) -> bool:
        if candidate.key in self._known or any(entry.name == MANIFEST for entry in entries):
            return True
        return any(_is_log(entry) for entry in entries if entry.is_file())


def no_captures(folder: str, names: Iterable[str]) -> list[str]:
    """Return a sentence for each file of a folder without a log that is a capture by its name alone."""
    return [
        f"{folder}/{portable(name)}: is named as a capture, and holds none"
        for name in names
        if re.search(CAPTURE_NAME, name)
    ]


def _is_log(entry: os.DirEntry[str]) -> bool:
    """Return whether a file directly in a folder is a capture or a log of a format that is installed."""
    if not entry.stat().st_size or parsers.is_map(Path(entry.path)):
        return False
    try:
        parsers.detect(entry.path)
    except UNREADABLE:
        return False
    return True


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """Return what a folder holds, by name, without what is hidden."""
    entries = []
    with os.scandir(folder) as scan:
        for entry in scan:
            if not entry.name.startswith("."):
                entries.append(entry)
            if len(entries) > MOST_ENTRIES:
                raise InputError(f"over {MOST_ENTRIES:,} files")
    return sorted(entries, key=lambda entry: entry.name)


MOST_ENTRIES = 100 * MAX_FILES
"""A folder of a million sessions is listed; more would fill the memory."""
