"""Snapshots: which parts of a campaign are live; the newest one is the campaign.

A snapshot is a JSON file whose name is its number. Its groups hold what was folded together: at most one part
of each table, and all rows of each of its sessions.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from multitracer import __version__
from multitracer.campaign.schemas import TABLES, VERSION
from multitracer.campaign.store import PARTS, SNAPSHOTS
from multitracer.errors import InputError
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from multitracer.campaign.store import Store

SCHEMA = "multitracer.campaign"
KEPT = 5
"""Snapshots that stay: a reader that listed the folder may open an older one. Not measured."""
GRACE_NS = 3600 * NS_PER_S
"""A part that is no longer live stays for an hour, longer than a query takes. Not measured."""
_MAX_BYTES = 1 << 30
"""A longer snapshot is refused: one of a million sessions has some 10 MB."""


@dataclass(frozen=True, slots=True)
class Part:
    """One Parquet file."""

    name: str
    """In the store."""
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Group:
    """What was folded together."""

    number: int
    parts: dict[str, Part]
    """By the name of the table; a table without a row has none."""

    @property
    def sessions(self) -> int:
        """Sessions in it."""
        return self.parts["sessions"].rows if "sessions" in self.parts else 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Which parts are live."""

    number: int = 0
    """0 of a campaign that has none yet."""
    groups: tuple[Group, ...] = ()
    retired: dict[str, int] = field(default_factory=dict)
    """Names of parts that are no longer live, and since when in ns since 1970."""

    def parts(self, table: str | None = None) -> Iterator[Part]:
        """Yield the live parts of a table, or of all tables."""
        for group in self.groups:
            for name, part in group.parts.items():
                if table in (None, name):
                    yield part

    def rows(self, table: str) -> int:
        """Return how many rows a table has."""
        return sum(part.rows for part in self.parts(table))

    def followed(self, groups: Iterable[Group]) -> Snapshot:
        """Return the next snapshot with these groups; parts that no group names any longer are retired."""
        following = replace(self, number=self.number + 1, groups=tuple(groups))
        live = {part.name for part in following.parts()}
        now_ns = time.time_ns()
        retired = {part.name: now_ns for part in self.parts() if part.name not in live}
        young = {name: since for name, since in self.retired.items() if now_ns - since < GRACE_NS}
        return replace(following, retired={**young, **retired})


def newest(store: Store) -> Snapshot:
    """Return the newest snapshot of a campaign; an empty one if it has none yet.

    Raises
    ------
    InputError
        If there is no campaign, its newest snapshot is damaged, or a newer MultiTracer wrote it.
    """
    if not store.is_campaign:
        raise InputError(f"{store.name}: holds no campaign; `multitracer campaign run` makes one")
    for _ in range(KEPT):  # who writes may have removed it since it was listed
        names = store.list(SNAPSHOTS)
        if not names:
            return Snapshot()
        try:
            return _read(store, names[-1])
        except FileNotFoundError:
            continue
    raise InputError(f"{store.name}: its snapshots change too quickly; try again")


def _read(store: Store, name: str) -> Snapshot:
    content = store.read(name)
    where = f"{store.name}/{name}"
    try:
        if len(content) > _MAX_BYTES:
            raise ValueError("too long")  # noqa: TRY301
        document = json.loads(content)
        kind, version = document["schema"].split("/")
        if kind != SCHEMA:
            raise ValueError(kind)  # noqa: TRY301
        if int(version) > VERSION:
            raise InputError(
                f"{where}: a newer MultiTracer ({document.get('multitracer')}) wrote this campaign "
                f"(catalogue {version}, this one knows {VERSION}); update MultiTracer"
            )
        groups = tuple(_group(each) for each in document["groups"])
        return Snapshot(int(document["number"]), groups, dict(document["retired"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{where}: is no snapshot ({error}); remove it to go back to the one before"
        ) from error


def _group(document: dict[str, object]) -> Group:
    number, parts = document["number"], document["parts"]
    if not isinstance(number, int) or not isinstance(parts, dict):
        raise TypeError("a group")
    held = {name: Part(**part) for name, part in parts.items() if name in TABLES}
    for part in held.values():
        folder, _, rest = part.name.partition("/")
        if folder != PARTS or "/" in rest or rest.startswith("."):
            raise ValueError(part.name)
    return Group(number, held)


def write(store: Store, snapshot: Snapshot) -> None:
    """Write a snapshot, then remove old ones, and parts that are no longer live since an hour."""
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
    """Remove the parts that this snapshot neither names as live nor retired: what a crash left behind."""
    named = {part.name for part in snapshot.parts()} | snapshot.retired.keys()
    for name in store.abandoned(PARTS):
        if name not in named:
            store.remove(name)
