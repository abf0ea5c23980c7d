"""Finds sessions that have arrived completely: a folder is watched while recordings are copied into it.

A session is complete when every file that its manifest lists has its stated size. A session whose manifest
lists no file, or with other files, is complete when none of its files has changed for a minute. An unfinished
copy still has a temporary name, or lacks a listed file: it must wait.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.campaign.discovery import MOST_ENTRIES
from multitracer.campaign.store import WAITING
from multitracer.errors import FormatError, InputError
from multitracer.manifest import MANIFEST, read_manifest
from multitracer.words import count, printable, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from multitracer.campaign.discovery import Candidate
    from multitracer.campaign.store import Store

IDLE_S = 60.0
"""Time without changes after which a session without a file list counts as complete. Not measured."""
_MOST_NOTED = 100
"""Maximum number of sessions whose reason is stored for `campaign status`; others are only counted."""
_COPY = re.compile(
    r"\..+\.[A-Za-z0-9]{6}|\.~tmp~|\.rsync-partial"  # rsync(1): by default, --delay-updates, --partial-dir
    r"|\.syncthing\..+\.tmp"
    r"|.+\.(part|partial|filepart|crdownload|tmp)"  # curl, rclone, WinSCP, browsers
)
"""Pattern of temporary names of a file or its folder while programs copy it."""
_PACKED = ("", ".gz", ".zst", ".xz", ".bz2")
"""Suffixes that a listed file may have; the size of a compressed one is not known."""


@dataclass(frozen=True, slots=True)
class SessionLook:
    """Files of a session with their sizes, at the time of a poll."""

    files: dict[str, tuple[int, int]]
    """Size and modification time of each file by its name in the session; hidden files are included."""
    listed: dict[str, int | None] = field(default_factory=dict)
    """Size of each listed file by name; None if the manifest does not state it."""


@dataclass(slots=True)
class SessionArrivals:
    """Decides which sessions are complete; it does no I/O, and time is passed in."""

    _since: dict[str, tuple[SessionLook, float]] = field(default_factory=dict)
    """Last poll at which a waiting session had changed, and its time, by the session's key."""

    def lack(self, key: str, look: SessionLook, now_s: float) -> str | None:
        """Return a sentence about what a session lacks; None if the session is complete.

        Parameters
        ----------
        key : str
            Key of the session.
        look : SessionLook
            Present state of the session.
        now_s : float
            Time of the poll by a monotonic clock, in s.
        """
        lack = _of_listed(look) or self._of_others(key, look, now_s)
        if lack is None:
            self._since.pop(key, None)
        return lack

    def _of_others(self, key: str, look: SessionLook, now_s: float) -> str | None:
        if look.listed and not _others(look):
            return None
        before, since_s = self._since.get(key, (None, now_s))
        if before != look:
            self._since[key] = (look, now_s)
            since_s = now_s
        copies = [name for name in look.files if any(map(_COPY.fullmatch, name.split("/")))]
        if copies and not look.listed:
            return f"{printable(copies[0])} is a temporary name of an unfinished copy"
        idle_s = now_s - since_s
        return None if idle_s >= IDLE_S else f"files changed within the last {IDLE_S:g} s"

    def keep(self, keys: set[str]) -> None:
        """Delete the state of all sessions except `keys`, because the others no longer exist."""
        self._since = {key: each for key, each in self._since.items() if key in keys}


def _of_listed(look: SessionLook) -> str | None:
    lacking = []
    for name, wanted in look.listed.items():
        there = [each for ending in _PACKED if (each := look.files.get(name + ending)) is not None]
        if not there:
            lacking.append(f"{printable(name)} is missing")
        elif name in look.files and wanted not in (None, there[0][0]):
            lacking.append(f"{printable(name)} has {size(there[0][0])} instead of {size(wanted or 0)}")
    more = f" and {count(len(lacking) - 1, 'file')} more" if len(lacking) > 1 else ""
    return lacking[0] + more if lacking else None


def _others(look: SessionLook) -> bool:
    """Return whether there is a file that the manifest does not list, or lists without a size.

    Hidden files are ignored.
    """
    known = {name for name, wanted in look.listed.items() if wanted is not None} | {MANIFEST}
    return any(name not in known and not name.rpartition("/")[2].startswith(".") for name in look.files)


def look_at(candidate: Candidate) -> SessionLook:
    """Return the files of a session now; without the manifest's list if the manifest cannot be read yet.

    Raises
    ------
    InputError
        If the session has too many files.
    OSError
        If the session cannot be read, or is removed meanwhile.
    """
    files: dict[str, tuple[int, int]] = {}
    for path in candidate.paths:
        for name, status in _files(path):
            files[name] = (status.st_size, status.st_mtime_ns)
            if len(files) > MOST_ENTRIES:
                raise InputError(
                    f"{candidate.path}: the session has more than {MOST_ENTRIES:,} files; split the session"
                )
    return SessionLook(files, _listed(candidate.paths[0]))


def _files(path: str) -> Iterator[tuple[str, os.stat_result]]:
    if not os.path.isdir(path):  # noqa: PTH112
        yield path, os.stat(path)  # noqa: PTH116
        return
    for folder, _, names in os.walk(path, onerror=_raised):
        for name in names:
            complete = os.path.join(folder, name)  # noqa: PTH118
            exists = os.path.exists(complete)  # noqa: PTH110  # no link to nothing
            yield os.path.relpath(complete, path), os.stat(complete, follow_symlinks=exists)  # noqa: PTH116


def _raised(error: OSError) -> None:
    raise error


def _listed(folder: str) -> dict[str, int | None]:
    try:
        manifest = read_manifest(Path(folder))
    except FormatError:  # half of one: it is quiet before it is read
        return {}
    return {os.path.normpath(log.path): log.bytes for log in manifest.files} if manifest else {}


def note(store: Store, waiting: Sequence[str]) -> None:
    """Write the reasons for which sessions are incomplete into the campaign; nothing if there are none."""
    if waiting:
        document = {"count": len(waiting), "sentences": list(waiting[:_MOST_NOTED])}
        store.put(WAITING, json.dumps(document).encode(), lasting=False)
    elif store.has(WAITING):
        store.remove(WAITING)


def noted(store: Store) -> tuple[int, list[str]]:
    """Return the number of incomplete sessions at the last poll, and what the first of them lack.

    (0, []) if no poll has recorded any.
    """
    try:
        document = json.loads(store.read(WAITING))
        return int(document["count"]), [str(each) for each in document["sentences"]]
    except (OSError, ValueError, KeyError, TypeError):  # none, or it was written by nobody of ours
        return 0, []
