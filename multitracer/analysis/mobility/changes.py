"""Changes of the serving cell that the readings of a radio show, each between two readings.

The best evidence decides: the cell identity, then the physical cell with its channel, then the technology. A
weaker sign counts only where the stronger one was not read at both readings. A value that was not read is no
change. LTE becoming NR, or back, with nothing else known may be the leg of a dual connection: it is counted
as left out, not as a change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.mobility.serving import Serving
from multitracer.signalling import HANDOVERS, Kind, Result
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.tables import Array, Mask, Numbers

_AT_ONCE_NS = NS_PER_S
"""Answers within this time are of one round of commands; modems are read about once a second."""
_LEG = ["LTE", "NR"]
_CELL_COLUMNS = ("rat", "physical_cell_id", "channel", "cell_id")


class Changes(NamedTuple):
    """Changes between two readings each, in order, not overlapping; all shape (n_changes,)."""

    before: Numbers
    """Position of the last reading of the old cell among the serving readings."""
    after: Numbers
    """Position of the first reading of the new cell."""
    evidence: Array
    """cell id, PCI or technology."""


class _Sign(NamedTuple):
    """What can show a change: its name, its value at each reading, and where it was read."""

    name: str
    values: Array
    known: Mask

    def steps(self) -> tuple[Numbers, Numbers]:
        """Return the readings before and after each change of the value."""
        rows = np.flatnonzero(self.known)
        steps = np.flatnonzero(self.values[rows[1:]] != self.values[rows[:-1]])
        return rows[steps], rows[steps + 1]


def changes_of(radio: Table) -> Table:
    """Return HANDOVERS of a radio log: a row for each change of the serving cell between two readings.

    Parameters
    ----------
    radio : Table
        RADIO of one radio, in any order.

    Returns
    -------
    Table
        HANDOVERS, with kind `change`. `earliest_ns` and `latest_ns` are the times of the two readings,
        `time_ns` that of the second. Provenance `left_out` counts signs that are no changes, by reason.
    """
    serving = Serving.of(radio)
    changes, left_out = _shown(serving)
    return _table(serving, changes, left_out)


def _shown(serving: Serving) -> tuple[Changes, dict[str, int]]:
    """Return the changes that the signs show, the best one first, and the signs that are no changes."""
    signs = [
        _Sign("cell id", serving.cell_id, serving.cell_id >= 0),
        _Sign("PCI", serving.physical, serving.physical >= 0),
        _Sign("technology", serving.family, serving.technology_known),
    ]
    empty = np.empty(0, dtype=np.int64)
    changes = Changes(empty, empty, np.empty(0, dtype="U12"))
    left_out: dict[str, int] = {}
    for number, sign in enumerate(signs):
        before, after = sign.steps()
        of_one = serving.piece[before] == serving.piece[after]
        before, after = before[of_one], after[of_one]
        changes, alone = _absorbed(changes, before, after)
        before, after = before[alone], after[alone]
        for stronger in signs[:number]:
            same = _same_at_both(serving, stronger, (before, after))
            if same.any():
                left_out[f"{sign.name} changed, {stronger.name} did not"] = int(same.sum())
            before, after = before[~same], after[~same]
        if sign.name == "technology":
            leg = np.isin(sign.values[before], _LEG) & np.isin(sign.values[after], _LEG)
            if leg.any():
                left_out["LTE to NR or back without a cell, perhaps a leg"] = int(leg.sum())
            before, after = before[~leg], after[~leg]
        evidence = np.full(len(before), sign.name, dtype="U12")
        changes = _with_more(changes, Changes(before, after, evidence))
    return changes, left_out


def _absorbed(changes: Changes, before: Numbers, after: Numbers) -> tuple[Changes, Mask]:
    """Return the changes with closer bounds from further signs, and which signs belong to no change."""
    first = np.searchsorted(changes.after, before, side="right")
    last = np.searchsorted(changes.before, after, side="left")
    of_one = last - first == 1
    which, left, right = first[of_one], before[of_one], after[of_one]
    closer_before, closer_after = changes.before.copy(), changes.after.copy()
    np.maximum.at(closer_before, which, left)
    np.minimum.at(closer_after, which, right)
    sane = closer_before < closer_after  # signs that contradict each other bound nothing
    closer_before = np.where(sane, closer_before, changes.before)
    closer_after = np.where(sane, closer_after, changes.after)
    return Changes(closer_before, closer_after, changes.evidence), last <= first


def _same_at_both(serving: Serving, sign: _Sign, readings: tuple[Numbers, Numbers]) -> Mask:
    """Return where a stronger sign has the same value at both readings, or within a second of them."""
    rows, values = np.flatnonzero(sign.known), sign.values
    if not len(rows):
        return np.zeros(len(readings[0]), dtype=bool)
    at_before = np.searchsorted(rows, readings[0], side="right") - 1
    at_after = np.searchsorted(rows, readings[1], side="left")
    there = (at_before >= 0) & (at_after < len(rows))
    earlier, later = rows[np.maximum(at_before, 0)], rows[np.minimum(at_after, len(rows) - 1)]
    time = serving.time_ns
    fresh = (time[readings[0]] - time[earlier] <= _AT_ONCE_NS) & (
        time[later] - time[readings[1]] <= _AT_ONCE_NS
    )
    return np.asarray(there & fresh & (values[earlier] == values[later]))


def _with_more(changes: Changes, more: Changes) -> Changes:
    joined = [np.concatenate(pair) for pair in zip(changes, more, strict=True)]
    order = np.argsort(joined[0], kind="stable")
    return Changes(*(each[order] for each in joined))


def _table(serving: Serving, changes: Changes, left_out: dict[str, int]) -> Table:
    before, after, evidence = changes
    number = len(before)
    time, line = serving.time_ns, serving["line"].astype(np.int64)
    nothing = np.full(number, NA)
    columns = {
        "time_ns": time[after],
        "complete_ns": np.full(number, NOT_A_TIME),
        "earliest_ns": time[before],
        "latest_ns": time[after],
        "modem": nothing,
        "kind": np.full(number, Kind.CHANGE.value, dtype="U20"),
        "cause": np.full(number, "", dtype="U48"),
        "result": np.full(number, Result.COMPLETE.value, dtype="U16"),
        "evidence": evidence,
        "command_line": line[before],
        "complete_line": line[after],
        "trigger_line": nothing,
    }
    for name in _CELL_COLUMNS:
        columns[f"source_{name}"], columns[f"target_{name}"] = _identities(serving, name, before, after)
    return Table(HANDOVERS, columns, serving.radio.provenance | {"left_out": left_out})


def _identities(serving: Serving, name: str, before: Numbers, after: Numbers) -> tuple[Array, Array]:
    """Return a column of the old and of the new cell: the nearest value that was read while each served."""
    values, rows = serving.identity(name), np.flatnonzero(serving.known(name))
    missing = "" if values.dtype.kind == "U" else NA
    entered = np.append(0, after[:-1])[: len(before)]
    gone = np.append(before[1:], len(serving) - 1)[: len(before)]
    if not len(rows):
        return tuple(np.full(len(before), missing, dtype=values.dtype) for _ in range(2))  # type: ignore[return-value]
    last = rows[np.maximum(np.searchsorted(rows, before, side="right") - 1, 0)]
    first = rows[np.minimum(np.searchsorted(rows, after, side="left"), len(rows) - 1)]
    source = np.where((last >= entered) & (last <= before), values[last], missing)
    target = np.where((first >= after) & (first <= gone), values[first], missing)
    return source, target
