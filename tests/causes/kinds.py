"""All kinds of recordings; a seed's place in the list of its range decides its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.causes import kinds_hosts, kinds_path, kinds_several, kinds_varying

if TYPE_CHECKING:
    from tests.causes.scenario import Kind

FIRST = (*kinds_path.KINDS, *kinds_hosts.KINDS, *kinds_several.KINDS)
TERRITORIES: tuple[tuple[Kind, ...], ...] = (tuple(kinds_varying.KINDS),)
"""A range of seeds each, so that a new one changes none before it."""
_RANGE, _FROM = 2_000, 10_000
"""Seeds of a territory; its first ten thousand are what `FIRST` has."""
UNSEEN = 20_000
"""From here on the same territories again, whose recordings nobody looks at before rules are judged."""
KINDS = (*FIRST, *(kind for kinds in TERRITORIES for kind in kinds))


def kind_of(seed: int) -> Kind:
    """Return the kind of a seed's recording: 0 to 9999, or 10000 + 2000 k and 20000 + 2000 k of territory k.

    Raises
    ------
    ValueError
        If there is no territory with such seeds.
    """
    if seed < _FROM:
        return FIRST[seed % len(FIRST)]
    number, place = divmod(seed % _FROM, _RANGE)
    if seed >= UNSEEN + _FROM or number >= len(TERRITORIES):
        raise ValueError(f"no kind has seed {seed}")
    return TERRITORIES[number][place % len(TERRITORIES[number])]
