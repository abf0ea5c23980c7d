"""Two sides from their places to what is said of them: what the command prints and `mt.compare` returns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from multitracer.analysis.comparison.sides import compare
from multitracer.campaign.comparison.inputs import by_label, two_groups
from multitracer.campaign.comparison.sentences import Names, headline, notes
from multitracer.campaign.comparison.sums import UNITS, distribution, sums_of
from multitracer.words import count, duration, printable, rate

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.analysis.comparison.sides import Comparison, Judged
    from multitracer.campaign.catalogue import Catalogue
    from multitracer.campaign.comparison.inputs import Group
    from multitracer.campaign.comparison.sums import Distribution
    from multitracer.campaign.run import Progress
    from multitracer.tables import Document

SCHEMA = "multitracer.compare/1"
_DRAWN = (("Throughput", True, "throughput_bps"), ("RTT", False, "rtt_ns"))


class Picture(NamedTuple):
    """The distributions of one quantity on both sides.

    Attributes
    ----------
    title : str
    is_rate : bool
        Values are bit/s, else ns.
    sides : (Distribution or None, Distribution or None)
    """

    title: str
    is_rate: bool
    sides: tuple[Distribution | None, Distribution | None]

    def shown(self, value: float) -> str:
        """Return a value as text."""
        return rate(value) if self.is_rate else duration(value)


@dataclass(frozen=True, slots=True)
class Compared:
    """What is said of two sides.

    Attributes
    ----------
    names : Names
    groups : (Group, Group)
    comparison : Comparison
    pictures : list of Picture
        Empty where none was asked for.
    """

    names: Names
    groups: tuple[Group, Group]
    comparison: Comparison
    pictures: list[Picture]

    @property
    def headline(self) -> str:
        """The answer, in a sentence or two."""
        return headline(self.comparison, self.names)

    @property
    def notes(self) -> list[str]:
        """What a reader must know to trust the numbers, a sentence each."""
        return notes(self.comparison, self.groups)

    @property
    def counts(self) -> list[str]:
        """How many sessions each side has, in words."""
        pairs = zip(self.names, self.groups, strict=True)
        return [f"{name}: {count(len(group.sessions), 'session')}" for name, group in pairs]

    @property
    def rows(self) -> list[Judged]:
        """The quantities that a side has."""
        return [each for each in self.comparison.judged if any(each.sessions)]


def compared(
    first: str | Catalogue,
    second: str | Catalogue | None,
    by: str | None,
    *,
    shown: Callable[[Progress], None],
    is_drawn: bool,
) -> Compared:
    """Compare two places, or the sessions of one by a label.

    Parameters
    ----------
    first, second : str or Catalogue
        As of `two_groups`; no second one with `by`.
    by : str, optional
        LABEL, or LABEL=A,B.
    shown : callable
        Gets the progress of the analysis of what is no campaign.
    is_drawn : bool
        Whether the distributions are wanted, too.

    Raises
    ------
    InputError
        If a side cannot be read, or holds nothing to compare.
    """
    label, _, values = (by or "").partition("=")
    with (
        by_label(first, label, tuple(values.split(",")) if values else (), shown)
        if second is None
        else two_groups(first, second, shown)
    ) as groups:
        sides, quantities = sums_of(groups)
        pictures = [
            Picture(title, is_rate, (distribution(groups[0], column), distribution(groups[1], column)))
            for title, is_rate, column in (_DRAWN if is_drawn else ())
        ]
        names = Names(*(printable(group.name) for group in groups))
        return Compared(names, groups, compare(sides, quantities), pictures)


def as_document(of: Compared) -> Document:
    """Return a comparison as JSON has it; a number that there is not is null."""
    matching = of.comparison.matching
    return {
        "schema": SCHEMA,
        "headline": of.headline,
        "sides": [
            {"name": name, "sessions": len(group.sessions)}
            for name, group in zip(of.names, of.groups, strict=True)
        ],
        "matched_by": matching.by or None,
        "kept": matching.kept,
        "quantities": [_record(each) for each in of.rows],
        "notes": of.notes,
    }


def _record(judged: Judged) -> Document:
    return {
        "name": judged.quantity.name,
        "unit": UNITS.get(judged.quantity.name, ""),
        "difference_is": "relative" if judged.quantity.relative else "absolute",
        "sessions": list(judged.sessions),
        "means": [_known(each) for each in judged.means],
        "medians": [_known(each) for each in judged.medians],
        **{name: _known(value) for name, value in judged.difference._asdict().items()},
        "shown": judged.is_shown,
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
