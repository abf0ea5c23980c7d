"""Changes of the serving cell from the best source, and what the standards call them.

Signalling says when a handover was ordered, and how it ended. Readings of the radio show a change only
between two readings; where signalling has the same change, the readings are absorbed by it.

Ping-pong: back to the cell before, after less than a minimum time of stay (TR 36.839). Too early, too late,
and to a wrong cell: TS 36.300, 22.4.2.2 (the same words in TS 38.300, 15.5.2.2), for which it must be known
where the phone tried to re-establish its connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.mobility.changes import changes_of
from multitracer.analysis.mobility.verdict import verdicts
from multitracer.mobility import JUDGED_HANDOVERS
from multitracer.radio import RADIO
from multitracer.signalling import HANDOVERS, Kind, Result
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.tables import Array, Mask, Numbers, Times

MINIMUM_STAY_S = 1.0
"""Minimum time of stay of the studies in TR 36.839; operators also count with 5 s and more."""
SHORTLY_S = 5.0
"""A failure so soon after a handover is laid to it (Tstore_UE_cntxt of TS 36.300, which leaves it to the
operator). Not measured."""
_LAG_NS = 2 * NS_PER_S
"""A modem may report its new cell this much later, or from its cache: it is read about once a second."""
_NOT_SERVING = (
    Kind.SECONDARY_ADDED.value,
    Kind.SECONDARY_CHANGED.value,
    Kind.SECONDARY_RELEASED.value,
    Kind.ACTIVE_SET.value,
)


def handovers_of(
    radio: Table | None,
    signalling: Table | None = None,
    *,
    minimum_stay_s: float = MINIMUM_STAY_S,
    shortly_s: float = SHORTLY_S,
) -> Table:
    """Return the changes of the serving cell of one phone, with their verdicts.

    Parameters
    ----------
    radio : Table or None
        RADIO of one phone, in any order.
    signalling : Table, optional
        HANDOVERS that its messages show, in any order, on the same clock.
    minimum_stay_s : float
        A stay that is shorter before the return to the cell before makes a ping-pong.
    shortly_s : float
        A failure within so many seconds of a handover is laid to it.

    Returns
    -------
    Table
        JUDGED_HANDOVERS, by `time_ns`. Legs of a dual connection and the active set of UMTS are no rows.
        Provenance: `left_out` counts signs that are no change of the serving cell, by reason.
    """
    from_readings = changes_of(radio if radio is not None else Table.empty(RADIO))
    left_out: dict[str, int] = dict(from_readings.provenance["left_out"])
    parts = [from_readings]
    if signalling is not None and len(signalling):
        serving = ~is_leg(signalling) & (signalling["time_ns"] != NOT_A_TIME)
        ordered = signalling.take(np.flatnonzero(serving))
        again = _shown_by(ordered, from_readings)
        left_out |= (
            {"leg of a dual connection or active set": int((~serving).sum())} if not serving.all() else {}
        )
        parts = [_named(ordered, from_readings), from_readings.take(np.flatnonzero(~again))]
    changes = Table.concatenate(HANDOVERS, parts)
    changes = changes.take(np.argsort(changes["time_ns"], kind="stable"))
    begin_ns = _first_reading(radio)
    stay = _stays_s(changes, begin_ns)
    verdict, reason = verdicts(changes, round(shortly_s * NS_PER_S))
    more = {
        "ping_pong": _ping_pongs(changes, stay, minimum_stay_s),
        "stay_least_s": stay[0],
        "stay_most_s": stay[1],
        "verdict": verdict,
        "verdict_reason": reason,
    }
    facts = {"left_out": left_out, "minimum_stay_s": minimum_stay_s, "shortly_s": shortly_s}
    return Table(JUDGED_HANDOVERS, changes.columns | more, facts)


def is_leg(changes: Table) -> Mask:
    """Return which rows of HANDOVERS are of a secondary leg, not of the serving cell: shape (n_changes,)."""
    return np.isin(changes["kind"], _NOT_SERVING)


def bounds_ns(changes: Table) -> tuple[Times, Times]:
    """Return the latest time at which the old cell certainly served, and the earliest of the new one.

    Parameters
    ----------
    changes : Table
        HANDOVERS, or a schema that begins like it.

    Returns
    -------
    tuple of two ndarray of int64, ns since 1970, shape (n_changes,)
        The time of the command, and of its completion, where the row has no bounds of its own.
    """
    time, complete = changes["time_ns"], changes["complete_ns"]
    earliest, latest = changes["earliest_ns"], changes["latest_ns"]
    low = np.where(earliest != NOT_A_TIME, earliest, time)
    high = np.where(complete != NOT_A_TIME, np.maximum(complete, time), time)
    high = np.where(latest != NOT_A_TIME, latest, high)
    return low, np.maximum(low, high)


def same_cell(changes: Table, left: tuple[str, Numbers], right: tuple[str, Numbers]) -> Array:
    """Return whether two cells of handovers are one: 1 yes, 0 no, NA where that is not known.

    Parameters
    ----------
    changes : Table
        HANDOVERS, or a schema that begins like it.
    left, right : tuple of str and ndarray of int64, shape (n,)
        Which side ("source" or "target") of which rows.

    Returns
    -------
    ndarray of int8, shape (n,)
        By the cell identities if both are known, else by physical cell and channel, else by technologies
        that differ.
    """

    def pair(name: str) -> tuple[Array, Array]:
        return changes[f"{left[0]}_{name}"][left[1]], changes[f"{right[0]}_{name}"][right[1]]

    (cell_a, cell_b), (physical_a, physical_b) = pair("cell_id"), pair("physical_cell_id")
    (channel_a, channel_b), (rat_a, rat_b) = pair("channel"), pair("rat")
    same = np.full(len(left[1]), NA, dtype=np.int8)
    same[(rat_a != rat_b) & (rat_a != "") & (rat_b != "")] = 0
    physical = (physical_a >= 0) & (physical_b >= 0)
    channels = (channel_a >= 0) & (channel_b >= 0)
    differ = physical & ((physical_a != physical_b) | (channels & (channel_a != channel_b)))
    same[differ] = 0
    same[physical & channels & ~differ] = 1
    cells = (cell_a >= 0) & (cell_b >= 0)
    same[cells] = (cell_a == cell_b)[cells]
    return same


def _shown_by(signalling: Table, readings: Table) -> Mask:
    """Return which changes between readings are in the signalling, too."""
    low, high = bounds_ns(signalling)
    order = np.argsort(low, kind="stable")
    low, high = low[order], np.maximum.accumulate(high[order])
    from_ns, to_ns = bounds_ns(readings)
    begun = np.searchsorted(low, to_ns + _LAG_NS, side="right")
    over = np.searchsorted(high, from_ns - _LAG_NS, side="left")
    return np.asarray(begun > over)


def _named(signalling: Table, readings: Table) -> Table:
    """Return the changes of the signalling with cell identities from readings of the same change."""
    low, high = bounds_ns(readings)
    time, columns = signalling["time_ns"], dict(signalling.columns)
    if not len(readings):
        return signalling
    near = np.clip(np.searchsorted(low, time + _LAG_NS, side="right") - 1, 0, None)
    fits = (low[near] - _LAG_NS <= time) & (time <= high[near] + _LAG_NS)
    alone = np.bincount(near[fits], minlength=len(readings)) == 1
    for side in ("source", "target"):
        name, cell = f"{side}_physical_cell_id", f"{side}_cell_id"
        physical = readings[name][near]
        agrees = fits & alone[near] & (physical >= 0) & (physical == signalling[name])
        columns[cell] = np.where(agrees & (columns[cell] < 0), readings[cell][near], columns[cell])
    return Table(HANDOVERS, columns, signalling.provenance)


def _first_reading(radio: Table | None) -> int:
    times = np.empty(0, dtype=np.int64) if radio is None else radio["time_ns"][radio["time_ns"] != NOT_A_TIME]
    return int(times.min()) if len(times) else NOT_A_TIME


def _stays_s(changes: Table, begin_ns: int) -> tuple[Array, Array]:
    """Return how long the phone was in the old cell, at least and at most; NaN if unknown."""
    low, high = bounds_ns(changes)
    least, most = np.full(len(changes), np.nan), np.full(len(changes), np.nan)
    if len(changes) and begin_ns != NOT_A_TIME:
        least[0] = max(int(low[0]) - begin_ns, 0) / NS_PER_S
    least[1:] = np.maximum(low[1:] - high[:-1], 0) / NS_PER_S
    most[1:] = (high[1:] - low[:-1]) / NS_PER_S
    return least, most


def _ping_pongs(changes: Table, stay_s: tuple[Array, Array], minimum_s: float) -> Array:
    """Return which changes lead back too soon; NA where cells or stay are too uncertain to decide."""
    number = len(changes)
    result = np.full(number, NA, dtype=np.int8)
    if not number:
        return result
    with np.errstate(invalid="ignore"):
        soon, late = stay_s[1] < minimum_s, stay_s[0] >= minimum_s
    result[late] = 0
    rows = np.arange(1, number)
    back = same_cell(changes, ("target", rows), ("source", rows - 1))
    went = same_cell(changes, ("source", rows), ("target", rows - 1))
    result[1:][(back == 0) & (went != 0)] = 0
    result[1:][(back == 1) & (went == 1) & soon[1:]] = 1
    undone = changes["result"] == Result.FAILED.value
    result[undone | np.append(False, undone[:-1])] = NA
    return result
