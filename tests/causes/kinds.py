"""All kinds of recordings; a seed's place in this list decides its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.causes import kinds_hosts, kinds_path, kinds_several

if TYPE_CHECKING:
    from tests.causes.scenario import Kind

KINDS = (*kinds_path.KINDS, *kinds_hosts.KINDS, *kinds_several.KINDS)


def kind_of(seed: int) -> Kind:
    """Return the kind of a seed's recording."""
    return KINDS[seed % len(KINDS)]
