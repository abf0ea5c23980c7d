"""How many examples a property gets: few in `make test`, many in `make fuzz`; the profile says it."""

from __future__ import annotations

from hypothesis import settings

FEWEST = 10
"""Below some ten a property is an anecdote (not measured)."""


def examples(per_hundred: int) -> settings:
    """Give a property so many examples where one that asks for nothing gets 100."""
    return settings(max_examples=len(seeds(per_hundred)))


def seeds(per_hundred: int) -> range:
    """Return the numbers of as many examples, for what is made of random numbers without Hypothesis."""
    asked = per_hundred * settings().max_examples // 100
    return range(max(min(per_hundred, FEWEST), asked))
