"""The store of a campaign in a local folder: the only module that writes, reads and lists its files.

Names are chosen by us, with slashes, relative to the campaign. A file appears under its name only when it is
complete. `bucket.py` has the same methods for a URL, and `store_at`, which chooses the store.

A snapshot lists the valid parts of a campaign; the newest one is the campaign. It is a JSON file whose name
is its number. Its groups contain what was merged together: at most one part of each table, and all rows of
each of its sessions.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer import __version__
from multitracer.campaign.schemas import TABLES, VERSION
from multitracer.errors import InputError
from multitracer.units import NS_PER_S
from multitracer.words import portable

if TYPE_CHECKING:
    import io
    from collections.abc import Iterable, Iterator, Mapping, Sequence

SNAPSHOTS, PARTS, SPOOLS, ATTEMPTS = "snapshots", "parts", "spool", "attempts"
WAITING = "waiting.json"
"""File with the sessions that a watch waits for, and why; see `arrivals.py`."""
_LOCK = "lock"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Store:
    """The files of one campaign.

    Parameters
    ----------
    place : str or path
        The folder.

    Attributes
    ----------
    address : str
        Address by which another process finds the campaign.
    name : str
        Name as the user gave it, for messages.
    """

    def __init__(self, place: str | os.PathLike[str]) -> None:
        name = os.fspath(place)
        self.folder = Path(os.path.realpath(name))
        self.address = str(self.folder)
        self.name = portable(name)

    def make(self) -> None:
        """Make the campaign's folders.

        Raises
        ------
        InputError
            If they cannot be made, or the folder contains other files and no campaign.
        """
        if not self.is_campaign and self.folder.exists():
            if not self.folder.is_dir():
                raise InputError(f"{self.name}: this is a file; name a folder for the campaign")
            if any(self.folder.iterdir()):
                raise InputError(
                    f"{self.name}: this folder contains files, but no campaign; name a new or empty folder"
                )
        with self._named():
            for each in (PARTS, SPOOLS, ATTEMPTS, SNAPSHOTS):  # the last one makes it a campaign
                (self.folder / each).mkdir(parents=True, exist_ok=True)

    @property
    def is_campaign(self) -> bool:
        """Whether the folder contains a campaign."""
        return (self.folder / SNAPSHOTS).is_dir()

    def list(self, folder: str) -> list[str]:
        """Return the names of the complete files in a folder of the campaign, sorted."""
        try:
            names = os.listdir(self.folder / folder)  # noqa: PTH208  # a million names
        except FileNotFoundError:
            return []
        return [f"{folder}/{name}" for name in sorted(names) if not name.startswith(".")]

    def abandoned(self, folder: str) -> Sequence[str]:
        """Return the names of the files in a folder that no other writer needs.

        Because of the lock, all files.
        """
        return self.list(folder)

    def has(self, name: str) -> bool:
        """Return whether the file exists."""
        return (self.folder / name).exists()

    def size(self, name: str) -> int:
        """Return the size of a file in bytes."""
        return (self.folder / name).stat().st_size

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return (self.folder / name).read_bytes()

    def open(self, name: str) -> io.BufferedIOBase:
        """Open a file for reading."""
        return (self.folder / name).open("rb")

    def arrow(self, sizes: Mapping[str, int]) -> tuple[Sequence[str], object]:
        """Return the paths of some Parquet files, and the file system with which Arrow reads them.

        `sizes` are their sizes in bytes, by name.
        """
        return [str(self.folder / name) for name in sizes], None

    def put(self, name: str, content: bytes | memoryview, *, lasting: bool = True) -> None:
        """Write a file; with `lasting`, sync it to the disk.

        Raises
        ------
        InputError
            If the file cannot be written: the disk is full, or the folder is not writable.
        """
        self._write(name, content, lasting=lasting, new=False)

    def put_new(self, name: str, content: bytes) -> None:
        """Write a file with a new name, and sync it to the disk.

        Raises
        ------
        InputError
            If the name is used, because another program writes to the campaign; also the errors of `put`.
        """
        self._write(name, content, lasting=True, new=True)

    def _write(self, name: str, content: bytes | memoryview, *, lasting: bool, new: bool) -> None:
        final = self.folder / name
        if new and final.exists():  # the lock keeps a second writer of this machine away
            raise self.conflict()
        temporary = final.with_name(f".{final.name}.{os.getpid()}")
        try:
            with self._named():
                with temporary.open("wb") as stream:
                    stream.write(content)
                    if lasting:
                        stream.flush()
                        os.fsync(stream.fileno())
                temporary.replace(final)
                if lasting:
                    _keep(final.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        (self.folder / name).unlink(missing_ok=True)

    def remove_unfinished(self) -> None:
        """Remove unfinished files of killed writers; the caller must hold the lock, and no worker may run."""
        for folder in (SNAPSHOTS, PARTS, SPOOLS, ATTEMPTS):
            for path in (self.folder / folder).glob(".*"):
                path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the campaign against other writers during the `with` block; the lock ends with this process.

        Raises
        ------
        InputError
            If another process writes to the campaign.
        """
        with self._named():
            stream = (self.folder / _LOCK).open("ab")
        with stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise InputError(
                    f"{self.name}: another program is writing to this campaign; wait until it ends"
                ) from error
            yield

    def conflict(self) -> InputError:
        """Return the error for a writer whose next snapshot number was used by another writer."""
        return InputError(f"{self.name}: another program wrote to this campaign; start again")

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Convert a failed write in the `with` block to an error that names the campaign."""
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            advice = "free disk space; the last snapshot is safe" if error.errno in _FULL else (
                "check the permissions, or choose another folder")  # fmt: skip
            raise InputError(f"{self.name}: cannot write to this campaign: {reason}; {advice}") from error


def _keep(folder: Path) -> None:
    """Sync a folder to the disk, so that its file names survive a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


SCHEMA = "multitracer.campaign"
KEPT = 5
"""Number of snapshots that are not removed: a reader that listed the folder may open an older one.

Not measured."""
GRACE_NS = 3600 * NS_PER_S
"""Time for which an invalid part is not removed: longer than a query takes. Not measured."""
_MAX_BYTES = 1 << 30
"""Maximum size of a snapshot in bytes; that of a million sessions has some 10 MB."""


@dataclass(frozen=True, slots=True)
class ParquetFile:
    """Entry of one Parquet file in a snapshot."""

    name: str
    """Name in the store."""
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class StoreGroup:
    """Parquet files that were written together, at most one of each table.

    They contain all rows of their sessions.
    """

    number: int
    parts: dict[str, ParquetFile]
    """Parts by the name of the table; a table without rows has none."""

    @property
    def sessions(self) -> int:
        """Number of sessions in the group."""
        return self.parts["sessions"].rows if "sessions" in self.parts else 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The list of a campaign's valid Parquet files, with its number."""

    number: int = 0
    """Number of the snapshot; 0 for a campaign without a snapshot."""
    groups: tuple[StoreGroup, ...] = ()
    retired: dict[str, int] = field(default_factory=dict)
    """Names of parts that are no longer valid, with the time since when, ns since 1970."""

    def parts(self, table: str | None = None) -> Iterator[ParquetFile]:
        """Yield the valid Parquet files of a table; without `table`, of all tables."""
        for group in self.groups:
            for name, part in group.parts.items():
                if table in (None, name):
                    yield part

    def rows(self, table: str) -> int:
        """Return the number of rows of a table."""
        return sum(part.rows for part in self.parts(table))

    def followed(self, groups: Iterable[StoreGroup]) -> Snapshot:
        """Return the next snapshot with these groups; files that are in none of them become retired files."""
        following = replace(self, number=self.number + 1, groups=tuple(groups))
        live = {part.name for part in following.parts()}
        now_ns = time.time_ns()
        retired = {part.name: now_ns for part in self.parts() if part.name not in live}
        young = {name: since for name, since in self.retired.items() if now_ns - since < GRACE_NS}
        return replace(following, retired={**young, **retired})


def newest_snapshot(store: Store) -> Snapshot:
    """Return the newest snapshot of a campaign; an empty one if it has none yet.

    Raises
    ------
    InputError
        If there is no campaign, its newest snapshot is damaged, or a newer MultiTracer wrote it.
    """
    if not store.is_campaign:
        raise InputError(
            f"{store.name}: this folder contains no campaign; `multitracer campaign run` creates a campaign"
        )
    for _ in range(KEPT):  # who writes may have removed it since it was listed
        names = store.list(SNAPSHOTS)
        if not names:
            return Snapshot()
        try:
            return _read_snapshot(store, names[-1])
        except FileNotFoundError:
            continue
    raise InputError(f"{store.name}: its snapshots change too quickly; try again")


def _read_snapshot(store: Store, name: str) -> Snapshot:
    content = store.read(name)
    where = f"{store.name}/{name}"
    try:
        if len(content) > _MAX_BYTES:
            raise ValueError("the file is too long")  # noqa: TRY301
        document = json.loads(content)
        kind, version = document["schema"].split("/")
        if kind != SCHEMA:
            raise ValueError(kind)  # noqa: TRY301
        if int(version) > VERSION:
            raise InputError(
                f"{where}: a newer MultiTracer ({document.get('multitracer')}) wrote this campaign "
                f"(catalogue version {version}; this MultiTracer reads up to {VERSION}); update "
                "MultiTracer"
            )
        groups = tuple(_snapshot_group(each) for each in document["groups"])
        return Snapshot(int(document["number"]), groups, dict(document["retired"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{where}: not a valid snapshot ({error}); remove this file to return to the previous snapshot"
        ) from error


def _snapshot_group(document: dict[str, object]) -> StoreGroup:
    number, parts = document["number"], document["parts"]
    if not isinstance(number, int) or not isinstance(parts, dict):
        raise TypeError("a group must have a number and a table of parts")
    held = {name: ParquetFile(**part) for name, part in parts.items() if name in TABLES}
    for part in held.values():
        folder, _, rest = part.name.partition("/")
        if folder != PARTS or "/" in rest or rest.startswith("."):
            raise ValueError(part.name)
    return StoreGroup(number, held)


def write_snapshot(store: Store, snapshot: Snapshot) -> None:
    """Write a snapshot; then remove older snapshots, and Parquet files that were retired an hour ago."""
    document = {
        "schema": f"{SCHEMA}/{VERSION}",
        "multitracer": __version__,
        "number": snapshot.number,
        "groups": [asdict(group) for group in snapshot.groups],
        "retired": snapshot.retired,
    }
    name = f"{SNAPSHOTS}/{snapshot.number:012d}.json"
    store.put_new(name, json.dumps(document).encode())
    names = store.list(SNAPSHOTS)
    if names[-1] != name:  # others wrote so many meanwhile that they removed this number
        store.remove(name)
        raise store.conflict()
    for each in names[:-KEPT]:
        store.remove(each)


def remove_dead_parts(store: Store, snapshot: Snapshot) -> None:
    """Remove the Parquet files that this snapshot lists neither as valid nor as retired.

    A crash left them.
    """
    named = {part.name for part in snapshot.parts()} | snapshot.retired.keys()
    for name in store.abandoned(PARTS):
        if name not in named:
            store.remove(name)
