"""Which sessions are on which side: those of two places, or those of one place by the value of a label."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING, NamedTuple

from multitracer.campaign.bucket import store_at
from multitracer.campaign.catalogue import Catalogue
from multitracer.campaign.query import query
from multitracer.campaign.run import run
from multitracer.campaign.upkeep import failures
from multitracer.errors import InputError
from multitracer.words import count, portable, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.campaign.run import Progress
    from multitracer.tables import Row

_MOST_SHOWN = 20
"""Labels, values or sessions that a sentence lists. Not measured."""
_SESSIONS = "SELECT session, name, version, labels FROM sessions ORDER BY session"


class Group(NamedTuple):
    """One side: sessions of a catalogue, by their numbers."""

    name: str
    catalogue: Catalogue
    sessions: list[str]
    versions: frozenset[str]
    """Of the programs that made their rows."""
    failed: list[str]
    """A sentence for each input that could not be read."""


@contextlib.contextmanager
def two_groups(
    first: str | Catalogue, second: str | Catalogue, shown: Callable[[Progress], None]
) -> Iterator[tuple[Group, Group]]:
    """Give the sides that two paths name; what is no campaign is analysed now.

    Parameters
    ----------
    first, second : str or Catalogue
        Each a campaign, a folder that is searched for sessions, a session, or a capture.
    shown : callable
        Gets the progress of the analysis.

    Raises
    ------
    InputError
        If both are the same, share a session, or one holds none.
    """
    paths = [each if isinstance(each, str) else each.store.address for each in (first, second)]
    if os.path.realpath(paths[0]) == os.path.realpath(paths[1]):
        raise InputError(f"{portable(paths[0])}: is named twice; compare two different places, or use --by")
    with _catalogue(first, shown) as one, _catalogue(second, shown) as other:
        names = _short(*paths)
        groups = tuple(
            _group(name, catalogue, _rows(catalogue))
            for name, catalogue in zip(names, (one, other), strict=True)
        )
        _check(*groups)
        yield groups[0], groups[1]


@contextlib.contextmanager
def by_label(
    place: str | Catalogue, label: str, values: tuple[str, ...], shown: Callable[[Progress], None]
) -> Iterator[tuple[Group, Group]]:
    """Give the sessions of one place as two sides, by the value that a label has.

    Parameters
    ----------
    place : str or Catalogue
        As of `two_groups`.
    label : str
        Of the sessions.
    values : tuple of str
        Two of its values, the first side first; none if it has only two.
    shown : callable

    Raises
    ------
    InputError
        If no session has the label, or it is not clear which two values are meant.
    """
    with _catalogue(place, shown) as catalogue:
        rows = _rows(catalogue)
        labels = [dict(row["labels"] or ()) for row in rows]
        chosen = _values(labels, label, values, catalogue.store.name)
        groups = tuple(
            _group(
                f"{label} {value}",
                catalogue,
                [row for row, each in zip(rows, labels, strict=True) if each.get(label) == value],
            )
            for value in chosen
        )
        _check(*groups)
        yield groups[0], groups[1]


def _values(labels: list[dict[str, str]], label: str, values: tuple[str, ...], place: str) -> list[str]:
    known = sorted({each[label] for each in labels if label in each})
    if not known:
        names = sorted({name for each in labels for name in each})
        there = f"there are {_listed(names)}" if names else "its sessions have none"
        raise InputError(f"{place}: no session has a label {printable(label)!r}; {there}")
    if unknown := [value for value in values if value not in known]:
        missing = f"no session has {printable(label)} {printable(unknown[0])!r}"
        raise InputError(f"{place}: {missing}; there are {_listed(known)}")
    chosen = list(values) or known
    if len(chosen) != 2 or chosen[0] == chosen[1]:
        has = f"{printable(label)} has {count(len(known), 'value')}: {_listed(known)}"
        raise InputError(f"{place}: {has}; choose two with --by {printable(label)}=A,B")
    return chosen


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_SHOWN:,} more" if len(names) > _MOST_SHOWN else ""
    return ", ".join(printable(name) for name in names[:_MOST_SHOWN]) + more


def _short(first: str, second: str) -> tuple[str, str]:
    """Return the last parts of two paths, and all of them where these are the same."""
    paths = portable(first), portable(second)
    names = [os.path.basename(os.path.realpath(path)) for path in paths]  # noqa: PTH119
    return (names[0], names[1]) if names[0] != names[1] else paths


@contextlib.contextmanager
def _catalogue(place: str | Catalogue, shown: Callable[[Progress], None]) -> Iterator[Catalogue]:
    """Give the catalogue of a campaign, or one that is made of the sessions below a path and goes again."""
    if isinstance(place, Catalogue):
        yield place
        return
    if store_at(place).is_campaign:
        yield Catalogue(place)
        return
    with tempfile.TemporaryDirectory(prefix="multitracer-compare-") as folder:
        if not run([place], folder, shown=shown).done:
            raise InputError(f"{portable(place)}: holds no session; name a folder with captures or logs")
        catalogue = Catalogue(folder)
        catalogue.store.name = portable(place)
        yield catalogue


def _rows(catalogue: Catalogue) -> list[Row]:
    rows: list[Row] = query(catalogue, _SESSIONS).to_pylist()
    return rows


def _group(name: str, catalogue: Catalogue, rows: list[Row]) -> Group:
    sessions = [str(row["session"]) for row in rows]
    failed = failures(catalogue.store)
    if not sessions:
        why = f": {failed[0]}" if failed else ""
        raise InputError(f"{catalogue.store.name}: has no session that can be compared{why}")
    return Group(name, catalogue, sessions, frozenset(str(row["version"]) for row in rows), failed)


def _check(first: Group, second: Group) -> None:
    """Refuse a session that is on both sides."""
    if both := sorted(set(first.sessions) & set(second.sessions)):
        raise InputError(
            f"{printable(first.name)} and {printable(second.name)}: have {count(len(both), 'session')} in "
            f"common, {both[0]} the first; a session is on one side only"
        )
