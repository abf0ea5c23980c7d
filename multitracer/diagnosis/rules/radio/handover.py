"""The mobile changed its cell, channel or technology during the transfer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.case import Case, Finding, rows
from multitracer.diagnosis.limits.names import Limit, Part
from multitracer.diagnosis.limits.spans import Spans
from multitracer.tables import NA
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Array, Table

KIND = "handover"
HELP = "The handover parameters of the two cells; look whether others lose time there, too."
_AROUND_NS = 2 * NS_PER_S
"""A stop this close to a change of cell is counted as its cost; radios are read about once a second."""


def find(case: Case) -> Iterator[Finding]:
    """Yield one finding for each change between two readings of the serving cell, with the stop around it."""
    stopped = _stopped(case)
    for host, radio in case.transfer.radio:
        for before, after, what in _changes(radio):
            began_ns, ended_ns = (int(radio["time_ns"][row]) for row in (before, after))
            if ended_ns < case.transfer.begin_ns or began_ns > case.transfer.end_ns:
                continue
            near = (stopped.begin < ended_ns + _AROUND_NS) & (stopped.end > began_ns - _AROUND_NS)
            cost_s, at_s = case.link_s(0, stopped.where(near).total_ns), case.at_s(ended_ns)
            began_ns, ended_ns = (
                int(stopped.begin[near].min(initial=began_ns)),
                int(stopped.end[near].max(initial=ended_ns)),
            )
            sentence = f"The mobile changed its {what} {at_s:.1f} s into the transfer ({host})."
            yield Finding(KIND, began_ns, ended_ns, cost_s, None, rows("radio", [before, after]), sentence)


def _stopped(case: Case) -> Spans:
    """Return when nothing came through, or the sender waited for its timer."""
    cells = case.limited.cells
    waits = (cells.limit == Limit.RECOVERY) & (cells.part == Part.TIMER)
    is_stopped = (cells.limit == Limit.OUTAGE) | waits
    return Spans.of(cells.begin[is_stopped], cells.end[is_stopped])


def _changes(radio: Table) -> Iterator[tuple[int, int, str]]:
    """Yield the rows before and after each change of the serving cell, and what changed."""
    serving = np.flatnonzero(radio["role"] != "neighbour")
    seen: set[tuple[int, int]] = set()
    for name, what in (("rat", "technology"), ("cell_id", "cell"), ("channel", "channel")):
        values = radio[name][serving]
        known = serving[values != ("" if values.dtype.kind == "U" else NA)]
        for place in _steps(radio[name][known]):
            change = int(known[place]), int(known[place + 1])
            if not any(left < change[1] and change[0] < right for left, right in seen):
                seen.add(change)
                yield (*change, f"{what}: {_was(radio, name, change)}")


def _steps(values: Array) -> list[int]:
    changes: list[int] = np.flatnonzero(values[1:] != values[:-1]).tolist()
    return changes


def _was(radio: Table, name: str, change: tuple[int, int]) -> str:
    before, after = (radio[name][row] for row in change)
    return f"{before} before, {after} after"
