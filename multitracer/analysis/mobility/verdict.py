"""Too early, too late, to a wrong cell: handovers by where the phone re-established its connection.

TS 36.300, 22.4.2.2 and TS 38.300, 15.5.2.2:

* too late: the link fails after a long stay in a cell, and the phone re-establishes in another cell;
* too early: the link fails shortly after a handover, or the handover fails, and it does so in the old cell;
* wrong cell: the same, and it does so in a cell that is neither the old nor the new one.

A handover that was too late never happened: its verdict stands at the re-establishment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.signalling import Kind, Result

if TYPE_CHECKING:
    from multitracer.tables import Array, Row, Table

_ORDERED = (Kind.HANDOVER.value, Kind.INTER_RAT.value)
_NO_FAILURE_OF_THE_LINK = "reconfigurationFailure"
"""A cause of re-establishment (TS 36.331, 5.3.7.3) that says nothing of the radio."""


def verdicts(changes: Table, shortly_ns: int) -> tuple[Array, Array]:
    """Return the verdict on each change, and what it rests on.

    Parameters
    ----------
    changes : Table
        HANDOVERS of the serving cell, by time.
    shortly_ns : int
        A failure within so many ns of a handover's completion is laid to it.

    Returns
    -------
    verdict : ndarray of str, shape (n_changes,)
        too early, too late, wrong cell, none; empty where nothing can be said.
    reason : ndarray of str, shape (n_changes,)
    """
    verdict = np.full(len(changes), "", dtype="U10")
    reason = np.full(len(changes), "only readings of the radio show it", dtype="U64")
    for kind in np.unique(changes["kind"]).tolist():
        if kind != Kind.CHANGE.value:
            reason[changes["kind"] == kind] = f"a {kind} is no handover"[:64]
    by_signalling = np.flatnonzero(changes["evidence"] == "signalling")
    rows = list(changes.take(by_signalling).rows())
    for number, row in zip(by_signalling.tolist(), rows, strict=True):
        verdict[number], reason[number] = _alone(row)
    last: tuple[int, Row] | None = None
    for number, row in zip(by_signalling.tolist(), rows, strict=True):
        if row["kind"] == Kind.RE_ESTABLISHMENT.value:
            _judge(last, (number, row), shortly_ns, verdict, reason)
        last = (number, row)
    return verdict, reason


def _alone(row: Row) -> tuple[str, str]:
    """Return what can be said of a change when no re-establishment follows."""
    if row["kind"] not in _ORDERED:
        return "", f"a {row['kind']} is no handover"[:64]
    if row["result"] == Result.COMPLETE.value:
        return "none", "complete, and no failure of the link followed"
    if row["result"] == Result.UNKNOWN.value:
        return "", "the log does not say how it ended"
    return "", f"{row['result']}, and no re-establishment follows"


def _judge(
    last: tuple[int, Row] | None, now: tuple[int, Row], shortly_ns: int, verdict: Array, reason: Array
) -> None:
    number, attempt = now
    if attempt["cause"] == _NO_FAILURE_OF_THE_LINK:
        reason[number] = "the phone could not follow a command; no failure of the link"
        return
    if last is not None and last[1]["kind"] in _ORDERED and _is_laid_to(last[1], attempt, shortly_ns):
        verdict[last[0]], reason[last[0]] = _after(last[1], attempt)
        reason[number] = "follows the handover before it, which has the verdict"
        return
    stayed = _is_same(attempt, "target", attempt, "source")
    if stayed is None:
        reason[number] = "it is not known which cell was lost, or which one was tried"
    elif stayed:
        verdict[number], reason[number] = "none", "re-established in the cell that was lost"
    else:
        verdict[number], reason[number] = "too late", "re-established in another cell, no handover before"


def _is_laid_to(handover: Row, attempt: Row, shortly_ns: int) -> bool:
    """Return whether a re-establishment follows a handover that failed, or was complete shortly before."""
    if handover["result"] in (Result.FAILED.value, Result.RE_ESTABLISHED.value):
        return True
    done = handover["complete_ns"] or handover["time_ns"]
    return bool(attempt["time_ns"] - done < shortly_ns)


def _after(handover: Row, attempt: Row) -> tuple[str, str]:
    """Return the verdict on a handover that a re-establishment follows."""
    old, new = (_is_same(attempt, "target", handover, side) for side in ("source", "target"))
    if old:
        return "too early", "re-established in the old cell"
    if new:
        return "", "re-established in the new cell, which the standard does not name"
    if old is None or new is None:
        return "", "the cell of the re-establishment is not known"
    return "wrong cell", "re-established in neither the old nor the new cell"


def _is_same(a: Row, side: str, b: Row, other: str) -> bool | None:
    """Return whether two cells are one, by identity, else by physical cell; None if that is not known.

    Within seconds and one technology a physical cell is one cell also where its channel was not read.
    """
    for name in ("cell_id", "physical_cell_id"):
        left, right = a[f"{side}_{name}"], b[f"{other}_{name}"]
        if left is None or right is None:
            continue
        channels = a[f"{side}_channel"], b[f"{other}_channel"]
        if name == "physical_cell_id" and None not in channels and channels[0] != channels[1]:
            return False
        return bool(left == right)
    return None
