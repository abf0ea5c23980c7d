"""Maintenance of a campaign: status, checks, removing sessions, and compacting."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from multitracer.campaign.arrivals import noted
from multitracer.campaign.bucket import store_at
from multitracer.campaign.catalogue import Catalogue, damages
from multitracer.campaign.committer import Committer
from multitracer.campaign.query import query
from multitracer.campaign.remote import is_url, local_path
from multitracer.campaign.schemas import TABLES
from multitracer.campaign.store import ATTEMPTS, SPOOLS
from multitracer.errors import InputError
from multitracer.words import portable, printable

if TYPE_CHECKING:
    from multitracer.campaign.store import Store
    from multitracer.tables import Row

_MOST_SHOWN = 10


@dataclass(frozen=True, slots=True)
class CampaignStatus:
    """The status of a campaign.

    Attributes
    ----------
    snapshot : int
        Number of the newest snapshot.
    rows : dict of str to int
        Rows of each table.
    stored_bytes, parts : int
        Size and number of the valid parts.
    waiting : int
        Number of spools that are not merged yet, of a present or a killed run.
    attempts : int
        Number of sessions that are being analysed, or were being analysed when a run was killed.
    incomplete : int
        Number of sessions that were not complete at the last poll of a watch.
    lacks : list of str
        Missing parts of the first incomplete sessions, one sentence each.
    """

    snapshot: int
    rows: dict[str, int]
    stored_bytes: int
    parts: int
    waiting: int
    attempts: int
    incomplete: int
    lacks: list[str]


def status(place: str | os.PathLike[str]) -> CampaignStatus:
    """Return the status of a campaign; raises the errors of `Catalogue`."""
    catalogue = Catalogue(place)
    parts = list(catalogue.snapshot.parts())
    return CampaignStatus(
        catalogue.snapshot.number,
        {name: catalogue.snapshot.rows(name) for name in TABLES},
        sum(part.bytes for part in parts),
        len(parts),
        len(catalogue.store.list(SPOOLS)),
        len(catalogue.store.list(ATTEMPTS)),
        *noted(catalogue.store),
    )


def faults(place: str | os.PathLike[str]) -> list[str]:
    """Check all data of a campaign; return its faults, one sentence each.

    Raises
    ------
    InputError
        See `Catalogue`.
    """
    catalogue = Catalogue(place)
    name = catalogue.store.name
    bad = [
        f"{name}/{each.part.name}: {each.sentence}; run `campaign run` to analyse its sessions again"
        for each in damages(catalogue.store, catalogue.snapshot)
    ]
    return bad or [f"{name}: {sentence}" for sentence in _contradictions(catalogue)]


def _contradictions(catalogue: Catalogue) -> list[str]:
    """Return the contradictions between the tables, one sentence each; damaged files are not checked."""
    wrong = []
    twice = query(catalogue, "SELECT session FROM sessions GROUP BY session HAVING count(*) > 1")
    wrong += [f"session {each} is stored more than once" for each in twice["session"].to_pylist()[:_MOST_SHOWN]]
    for table in TABLES:
        if table not in ("sessions", "failures"):
            lost = query(
                catalogue,
                f"SELECT count(*) AS n FROM {table} WHERE session IS NOT NULL "  # noqa: S608  # our own names
                "AND session NOT IN (SELECT session FROM sessions)",
            )["n"][0].as_py()
            wrong += [f"{table} has {lost:,} rows whose session is not in `sessions`"] if lost else []
    return wrong


def forget(place: str | os.PathLike[str], names: tuple[str, ...]) -> list[str]:
    """Remove sessions from a campaign, and return their numbers; a later run may read them again.

    Parameters
    ----------
    place : str or path
        The campaign.
    names : tuple of str
        Numbers of sessions or their beginnings, names, or paths.

    Raises
    ------
    InputError
        If a name matches no session or several, or another program writes to the campaign.
    """
    store = store_at(place)
    catalogue = Catalogue(store)
    chosen = [_session(catalogue, name) for name in names]
    with store.locked():
        Committer(store).forget(chosen)
    return chosen


_SESSIONS = "SELECT session, name, path FROM sessions ORDER BY session"


def _session(catalogue: Catalogue, name: str) -> str:
    rows = query(catalogue, _SESSIONS).to_pylist()
    path = portable(name.rstrip("/") if is_url(name) else os.path.realpath(local_path(name)))
    fitting = [row for row in rows if name in (row["session"], row["name"]) or path == row["path"]]
    fitting = fitting or [row for row in rows if name and row["session"].startswith(name)]
    if len(fitting) != 1:
        raise InputError(f"{catalogue.store.name}: {_which(name, fitting)}")
    return str(fitting[0]["session"])


def _which(name: str, fitting: list[Row]) -> str:
    if not fitting:
        return f"no session {printable(name)!r}; `campaign query` lists the table sessions"
    shown = ", ".join(f"{row['session']} ({row['path']})" for row in fitting[:_MOST_SHOWN])
    more = f" and {len(fitting) - _MOST_SHOWN:,} more" if len(fitting) > _MOST_SHOWN else ""
    return (
        f"{len(fitting):,} sessions have the name {printable(name)!r}: {shown}{more}; give the "
        "identifier of one of them"
    )


def compact(place: str | os.PathLike[str]) -> tuple[int, int]:
    """Merge small parts; return the number of parts before and after.

    Raises
    ------
    InputError
        If there is no campaign, or another program writes to it.
    """
    store = store_at(place)
    Catalogue(store)
    with store.locked():
        committer = Committer(store)
        before = len(list(committer.snapshot.parts()))
        committer.compact()
        return before, len(list(committer.snapshot.parts()))


def failures(place: str | os.PathLike[str] | Store, most: int = _MOST_SHOWN) -> list[str]:
    """Return the sentences about the first `most` inputs that could not be read, by path."""
    table = query(Catalogue(place), f"SELECT sentence FROM failures ORDER BY path LIMIT {int(most)}")  # noqa: S608
    return [str(each) for each in table["sentence"].to_pylist()] if isinstance(table, pa.Table) else []
