"""All kinds of recordings; a seed's million has a list of kinds, in which its place decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.causes import (
    kinds_hosts,
    kinds_more,
    kinds_path,
    kinds_several,
    kinds_talk,
    kinds_today,
    kinds_varying,
    kinds_ways,
)

if TYPE_CHECKING:
    from tests.causes.scenario import Kind

TERRITORIES: tuple[tuple[Kind, ...], ...] = (
    (*kinds_path.KINDS, *kinds_hosts.KINDS, *kinds_several.KINDS),
    tuple(kinds_varying.KINDS),
    tuple(kinds_ways.KINDS),
    tuple(kinds_talk.KINDS),
    tuple(kinds_more.KINDS),
    tuple(kinds_today.KINDS),
)
"""A million seeds each, so that a new one changes none before it."""
RANGE = 1_000_000
UNSEEN = 40_000
"""In each million but the first, recordings from here on are looked at by nobody before rules are judged."""
KINDS = tuple(kind for kinds in TERRITORIES for kind in kinds)


def kind_of(seed: int) -> Kind:
    """Return the kind of a seed's recording.

    Raises
    ------
    ValueError
        If no kinds have such seeds.
    """
    territory, place = divmod(seed, RANGE)
    if territory >= len(TERRITORIES):
        raise ValueError(f"no kind has seed {seed}")
    return TERRITORIES[territory][place % len(TERRITORIES[territory])]
