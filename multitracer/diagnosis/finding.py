"""The result of a rule: findings, and the table rows that support them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.tables import Array

MOST_EVIDENCE = 12
"""Maximum number of rows that a finding names; its interval contains all of them."""
ORDER_DIGITS = 3
"""Decimals of costs in seconds that determine the order of findings: costs equal to a millisecond are equal."""


class Finding(NamedTuple):
    """One occurrence of a problem, found by one rule."""

    kind: str
    begin_ns: int
    """Start on the sender's clock, in recorded time."""
    end_ns: int
    cost_s: float
    """Link time that the transfer lost by it, in seconds."""
    cost_bytes: int | None
    """Payload bytes that were sent again, or lost, because of it; None if not counted."""
    evidence: tuple[str, ...]
    """The rows that support it, as `table:row`."""
    sentence: str
    help: str = ""
    """A remedy in one sentence; the rule's `HELP` if empty."""
    numbers: Mapping[str, float] = MappingProxyType({})
    """Its numbers by name with unit, for example `added_delay_s`, `lost_packets`."""
    reverse: bool = False
    """Whose data it is about: False the initiator's, True the responder's; set where the rules are asked."""


def rows(table: str, numbers: Array | list[int]) -> tuple[str, ...]:
    """Return rows as evidence, `table:row` each; of many rows, only the first and the last few.

    Parameters
    ----------
    table : str
    numbers : ndarray of int64, shape (n,), or list of int
        Rows of the table.
    """
    return few([f"{table}:{int(number)}" for number in numbers])


def few(places: list[str]) -> tuple[str, ...]:
    """Return the strings unchanged; of many, only the first and the last few."""
    half = MOST_EVIDENCE // 2
    return tuple(places if len(places) <= MOST_EVIDENCE else places[:half] + places[-half:])


def episodes(times_ns: Array, *, apart_ns: int) -> list[tuple[int, int]]:
    """Return the runs of times without a gap above `apart_ns`, as pairs (first index, last index + 1).

    Parameters
    ----------
    times_ns : ndarray of int64, ns, shape (n,)
        Ascending; never NA.
    apart_ns : int
        The longest gap within a run.
    """
    if not len(times_ns):
        return []
    breaks = np.flatnonzero(np.diff(times_ns) > apart_ns) + 1
    starts = [0, *breaks.tolist()]
    return list(zip(starts, [*breaks.tolist(), len(times_ns)], strict=True))
