"""Changes of the serving cell from the best source, with verdicts by the 3GPP definitions.

Signalling shows when a handover was commanded, and how it ended. Radio readings show a change only as an
interval between two readings; where signalling has the same change, the change from the readings is dropped.

Changes in radio readings. The best known evidence decides: the cell identity, then the physical cell with its
channel, then the technology. Weaker evidence counts only where the stronger one is missing in one of the two
readings. A missing value is never a change. A change between LTE and NR without other evidence may be a leg
of a dual connection: it is counted as left out.

Verdicts. Ping-pong: the phone returns to the previous cell after less than a minimum time of stay (TR
36.839). The others depend on the cell in which the phone re-establishes its connection (TS 36.300, 22.4.2.2,
same text in TS 38.300, 15.5.2.2):

* too late: the link fails after a long stay in a cell, and the phone re-establishes in another cell;
* too early: the link fails shortly after a handover, or the handover fails, and the phone re-establishes in
the old cell; * wrong cell: as too early, but the phone re-establishes in a cell that is neither the old nor
the new one.

In the case `too late` there was no handover: the row of the re-establishment has the verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.mobility.serving import Serving
from multitracer.schemas.mobility import JUDGED_HANDOVERS
from multitracer.schemas.radio import RADIO
from multitracer.schemas.signalling import HANDOVERS, HandoverKind, Result
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.tables import Array, Mask, Numbers, Row, Times

MINIMUM_STAY_S = 1.0
"""Minimum time of stay in the studies of TR 36.839, s; operators also use 5 s and more."""
SHORTLY_S = 5.0
"""A failure within this time (s) after a handover is attributed to it (Tstore_UE_cntxt of TS 36.300, which leaves the
value to the operator). Not measured."""
_LAG_NS = 2 * NS_PER_S
"""Maximum delay with which a modem reports its new cell, ns: it is read about once a second and may answer from a
cache."""
_NOT_SERVING = (
    HandoverKind.SECONDARY_ADDED.value,
    HandoverKind.SECONDARY_CHANGED.value,
    HandoverKind.SECONDARY_RELEASED.value,
    HandoverKind.ACTIVE_SET.value,
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
        HANDOVERS from signalling messages, in any order, on the same clock.
    minimum_stay_s : float
        A return to the previous cell after a shorter stay is a ping-pong.
    shortly_s : float
        A failure within this time after a handover is attributed to it.

    Returns
    -------
    Table
        JUDGED_HANDOVERS, sorted by `time_ns`, without changes of a dual connection's leg or of the active set of UMTS.
        Provenance: `left_out` counts, by reason, the evidence that is not a change of the serving cell.
    """
    from_readings = changes_of(radio if radio is not None else Table.empty(RADIO))
    left_out: dict[str, int] = dict(from_readings.provenance["left_out"])
    parts = [from_readings]
    if signalling is not None and len(signalling):
        serving = ~is_leg(signalling) & (signalling["time_ns"] != NOT_A_TIME)
        ordered = signalling.take(np.flatnonzero(serving))
        again = _shown_by(ordered, from_readings)
        left_out |= {"leg of a dual connection or active set": int((~serving).sum())} if not serving.all() else {}
        parts = [_named(ordered, from_readings), from_readings.take(np.flatnonzero(~again))]
    changes = Table.concatenate(HANDOVERS, parts)
    changes = changes.take(np.argsort(changes["time_ns"], kind="stable"))
    begin_ns = _first_reading(radio)
    stay = _cell_visits_s(changes, begin_ns)
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
    """Return which rows of HANDOVERS change only a secondary cell of a dual connection: bool."""
    return np.isin(changes["kind"], _NOT_SERVING)


def bounds_ns(changes: Table) -> tuple[Times, Times]:
    """Return two times: the last one at which the old cell surely served, and the first one of the new cell.

    Parameters
    ----------
    changes : Table
        HANDOVERS, or a schema that begins with its columns.

    Returns
    -------
    tuple of two ndarray of int64, ns since 1970, shape (n_changes,)
        A row without bounds of its own has the times of the command and of its completion.
    """
    time, complete = changes["time_ns"], changes["complete_ns"]
    earliest, latest = changes["earliest_ns"], changes["latest_ns"]
    low = np.where(earliest != NOT_A_TIME, earliest, time)
    high = np.where(complete != NOT_A_TIME, np.maximum(complete, time), time)
    high = np.where(latest != NOT_A_TIME, latest, high)
    return low, np.maximum(low, high)


def same_cell(changes: Table, left: tuple[str, Numbers], right: tuple[str, Numbers]) -> Array:
    """Return whether cell `left` and cell `right` of some handovers are the same: 1 yes, 0 no, NA unknown.

    Parameters
    ----------
    changes : Table
        HANDOVERS, or a schema that begins with its columns.
    left, right : tuple of str and ndarray of int64, shape (n,)
        The side ("source" or "target") and the rows.

    Returns
    -------
    ndarray of int8, shape (n,)
        Decided by the cell identities if both are known, else by physical cell and channel, else by different
        technologies.
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
    """Return which changes between readings are also in the signalling messages: bool."""
    low, high = bounds_ns(signalling)
    order = np.argsort(low, kind="stable")
    low, high = low[order], np.maximum.accumulate(high[order])
    from_ns, to_ns = bounds_ns(readings)
    begun = np.searchsorted(low, to_ns + _LAG_NS, side="right")
    over = np.searchsorted(high, from_ns - _LAG_NS, side="left")
    return np.asarray(begun > over)


def _named(signalling: Table, readings: Table) -> Table:
    """Return the changes of the signalling; missing cell identities are taken from the readings."""
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


def _cell_visits_s(changes: Table, begin_ns: int) -> tuple[Array, Array]:
    """Return the minimum and the maximum time that the phone was in the old cell before each change, in s.

    Both are NaN if unknown. They differ because a change lies between two readings.
    """
    low, high = bounds_ns(changes)
    minimum, most = np.full(len(changes), np.nan), np.full(len(changes), np.nan)
    if len(changes) and begin_ns != NOT_A_TIME:
        minimum[0] = max(int(low[0]) - begin_ns, 0) / NS_PER_S
    minimum[1:] = np.maximum(low[1:] - high[:-1], 0) / NS_PER_S
    most[1:] = (high[1:] - low[:-1]) / NS_PER_S
    return minimum, most


def _ping_pongs(changes: Table, stay_s: tuple[Array, Array], minimum_s: float) -> Array:
    """Return which changes are ping-pongs; NA where the cells or the time of stay are too uncertain."""
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


_AT_ONCE_NS = NS_PER_S
"""Answers within this time (ns) belong to one round of commands; modems are read about once a second."""
_LEG = ["LTE", "NR"]
_CELL_COLUMNS = ("rat", "physical_cell_id", "channel", "cell_id")


class Changes(NamedTuple):
    """Cell changes: last reading before and first reading after each, sorted and without overlap.

    All arrays have shape (n_changes,).
    """

    before: Numbers
    """Position of the last reading of the old cell among the serving readings."""
    after: Numbers
    """Position of the first reading of the new cell."""
    evidence: Array
    """Evidence: "cell id", "PCI" or "technology"."""


class _Sign(NamedTuple):
    """One kind of evidence of a cell change (for example the cell identity), with its values."""

    name: str
    values: Array
    known: Mask

    def steps(self) -> tuple[Numbers, Numbers]:
        """Return the last reading before, and the first reading after each change of the value."""
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
        HANDOVERS, with kind `change`. `earliest_ns` and `latest_ns` are the times of the two readings;
        `time_ns` is the time of the second one. A change over a gap of the log is none of them. Provenance
        `left_out` counts, by reason, the evidence that is not a change.
    """
    serving = Serving.of(radio)
    changes, left_out = _shown(serving)
    over = _over_gap(serving, changes)
    if over.any():
        left_out = left_out | {"cell changed in a gap of the log": int(over.sum())}
        changes = Changes(*(each[~over] for each in changes))
    return _table(serving, changes, left_out)


def changes_in_gaps(serving: Serving) -> Numbers:
    """Return the last readings before gaps of the log after which another cell served.

    They are no handovers: nobody knows when the cell changed, or how often.
    """
    changes, _ = _shown(serving)
    mine = changes.before[_over_gap(serving, changes)]
    return np.asarray(serving.gaps[np.searchsorted(serving.gaps, mine)])


def _over_gap(serving: Serving, changes: Changes) -> Mask:
    """Return for which changes the log has a gap between its two readings: bool."""
    return np.asarray(np.searchsorted(serving.gaps, changes.after) > np.searchsorted(serving.gaps, changes.before))


def _shown(serving: Serving) -> tuple[Changes, dict[str, int]]:
    """Return the changes of the serving cell that the readings show, and counts of the other evidence.

    Stronger evidence is used first (cell identity, physical cell, technology). The counts have the reason why
    the evidence is not a change of the serving cell as their key.
    """
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
        of_one = serving.chunk[before] == serving.chunk[after]
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
    """Return the known changes with narrower bounds, and a mask of new evidence outside of all of them.

    New evidence is a change of a value between readings `before` and `after`. If it overlaps with one known
    change, it narrows the bounds of this change.
    """
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
    """Return for which changes stronger evidence shows the same cell at both readings.

    It may also be a value read within a second of them.
    """
    rows, values = np.flatnonzero(sign.known), sign.values
    if not len(rows):
        return np.zeros(len(readings[0]), dtype=bool)
    at_before = np.searchsorted(rows, readings[0], side="right") - 1
    at_after = np.searchsorted(rows, readings[1], side="left")
    there = (at_before >= 0) & (at_after < len(rows))
    earlier, later = rows[np.maximum(at_before, 0)], rows[np.minimum(at_after, len(rows) - 1)]
    time = serving.time_ns
    fresh = (time[readings[0]] - time[earlier] <= _AT_ONCE_NS) & (time[later] - time[readings[1]] <= _AT_ONCE_NS)
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
        "kind": np.full(number, HandoverKind.CHANGE.value, dtype="U20"),
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
    """Return a column of the cell identity for the old and for the new cell of each change.

    Each is the reading nearest to the change, of those made while that cell served.
    """
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


_ORDERED = (HandoverKind.HANDOVER.value, HandoverKind.INTER_RAT.value)
_NO_FAILURE_OF_THE_LINK = "reconfigurationFailure"
"""A cause of re-establishment (TS 36.331, 5.3.7.3) that is not a radio failure."""


def verdicts(changes: Table, shortly_ns: int) -> tuple[Array, Array]:
    """Return the verdict on each change, and the reason for it.

    Parameters
    ----------
    changes : Table
        HANDOVERS of the serving cell, sorted by time.
    shortly_ns : int
        A failure within this time after a handover's completion is attributed to it.

    Returns
    -------
    verdict : ndarray of str, shape (n_changes,)
        "too early", "too late", "wrong cell" or "none"; empty where the data do not decide.
    reason : ndarray of str, shape (n_changes,)
    """
    verdict = np.full(len(changes), "", dtype="U10")
    reason = np.full(len(changes), "only readings of the radio show it", dtype="U64")
    for kind in np.unique(changes["kind"]).tolist():
        if kind != HandoverKind.CHANGE.value:
            reason[changes["kind"] == kind] = f"a {kind} is no handover"[:64]
    by_signalling = np.flatnonzero(changes["evidence"] == "signalling")
    rows = list(changes.take(by_signalling).rows())
    for number, row in zip(by_signalling.tolist(), rows, strict=True):
        verdict[number], reason[number] = _alone(row)
    last: tuple[int, Row] | None = None
    for number, row in zip(by_signalling.tolist(), rows, strict=True):
        if row["kind"] == HandoverKind.RE_ESTABLISHMENT.value:
            _judge(last, (number, row), shortly_ns, verdict, reason)
        last = (number, row)
    return verdict, reason


def _alone(row: Row) -> tuple[str, str]:
    """Return verdict and reason of a change that no re-establishment of the connection follows."""
    if row["kind"] not in _ORDERED:
        return "", f"a {row['kind']} is no handover"[:64]
    if row["result"] == Result.COMPLETE.value:
        return "none", "complete, and no failure of the link followed"
    if row["result"] == Result.UNKNOWN.value:
        return "", "the log does not say how it ended"
    return "", f"{row['result']}, and no re-establishment follows"


def _judge(last: tuple[int, Row] | None, now: tuple[int, Row], shortly_ns: int, verdict: Array, reason: Array) -> None:
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
    """Return whether a re-establishment of the connection (`attempt`) is attributed to a handover.

    It is if the handover failed, or was completed at most `shortly_ns` before.
    """
    if handover["result"] in (Result.FAILED.value, Result.RE_ESTABLISHED.value):
        return True
    done = handover["complete_ns"] or handover["time_ns"]
    return bool(attempt["time_ns"] - done < shortly_ns)


def _after(handover: Row, attempt: Row) -> tuple[str, str]:
    """Return verdict and reason of a handover before a re-establishment of the connection (`attempt`)."""
    old, new = (_is_same(attempt, "target", handover, side) for side in ("source", "target"))
    if old:
        return "too early", "re-established in the old cell"
    if new:
        return "", "re-established in the new cell, which the standard does not name"
    if old is None or new is None:
        return "", "the cell of the re-establishment is not known"
    return "wrong cell", "re-established in neither the old nor the new cell"


def _is_same(a: Row, side: str, b: Row, other: str) -> bool | None:
    """Return whether two cells are the same, by identity, else by physical cell; None if unknown.

    Within seconds and in one technology, equal physical cells are the same cell, also if the channel was not read.
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
