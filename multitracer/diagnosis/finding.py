"""What a rule concludes: findings, and the rows that they rest on."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.tables import Array

MOST_EVIDENCE = 12
"""Rows that a finding names; the interval holds all of them."""
ORDER_DIGITS = 3
"""Decimals of costs in seconds by which findings are ordered: costs that agree to a millisecond are equal."""


class Finding(NamedTuple):
    """One occurrence of one diagnosis."""

    kind: str
    begin_ns: int
    """By the sender's clock, recorded time."""
    end_ns: int
    cost_s: float
    """Link time that the transfer lost by it."""
    cost_bytes: int | None
    """Payload that had to be sent again, or was lost, because of it."""
    evidence: tuple[str, ...]
    """Rows it rests on, as `table:row`."""
    sentence: str
    help: str = ""
    """What would help, one sentence; the rule's `HELP` if a finding brings none."""
    numbers: Mapping[str, float] = MappingProxyType({})
    """Numbers of it by name with unit: `added_delay_s`, `lost_packets`."""


def rows(table: str, numbers: Array | list[int]) -> tuple[str, ...]:
    """Return rows as evidence; of many the first and the last few.

    Parameters
    ----------
    table : str
    numbers : ndarray of int64, shape (n,), or list of int
        Rows of the table.
    """
    return few([f"{table}:{int(number)}" for number in numbers])


def few(places: list[str]) -> tuple[str, ...]:
    """Return rows named already as evidence; of many the first and the last few."""
    half = MOST_EVIDENCE // 2
    return tuple(places if len(places) <= MOST_EVIDENCE else places[:half] + places[-half:])


def episodes(times_ns: Array, *, apart_ns: int) -> list[tuple[int, int]]:
    """Return where runs of sorted stamps begin and end, as [first, last + 1): a longer gap parts them.

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
