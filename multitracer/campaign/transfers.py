"""The transfers of a session: which are explained, and their rows in the table `transfers`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.campaign.schemas import LIMIT_COLUMNS
from multitracer.diagnosis.diagnose import diagnose, explain
from multitracer.diagnosis.limits.names import View
from multitracer.diagnosis.transfer import Transfer
from multitracer.errors import MultiTracerError
from multitracer.recording.views import view_of
from multitracer.tables import NOT_A_TIME
from multitracer.tcp import GoodputBy
from multitracer.units import BITS_PER_BYTE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnose import Diagnosis
    from multitracer.recording.part import Part
    from multitracer.recording.recording import Recording
    from multitracer.tables import Row

MOST = 50
"""Connections of a session that are explained, those with most bytes. Not measured."""


class Way(NamedTuple):
    """One direction of a connection."""

    number: int
    """Of the connection in the recording, from 1."""
    reverse: bool


@dataclass(frozen=True)
class Explained:
    """The transfers of a session with their diagnoses.

    Attributes
    ----------
    first : Diagnosis or None
        Of the work that took longest, as `diagnose` chooses it.
    diagnoses : dict of Way to Diagnosis
        One for each connection that is explained, of the direction with more data.
    same : set of int
        Numbers of connections that are the same as another one, at another capture point.
    left_out : int
        Connections with data that are not explained, because there are too many or packets carry no time.
    """

    first: Diagnosis | None = None
    diagnoses: dict[Way, Diagnosis] = field(default_factory=dict)
    same: set[int] = field(default_factory=set)
    left_out: int = 0


def explained(recording: Recording) -> Explained:
    """Return the diagnoses of the largest connections of a recording, each connection once.

    What cannot be explained is a warning of the recording.
    """
    numbers, same = _once(recording)
    if not numbers:
        return Explained(same=same)
    first = _if_possible(recording, None)
    diagnoses: dict[Way, Diagnosis] = {}
    for number in numbers[:MOST]:
        is_explained = first is not None and len(first.group.members) == 1 and _way(first).number == number
        diagnosis = first if is_explained else _if_possible(recording, number)
        if diagnosis is not None:
            diagnoses[_way(diagnosis)] = diagnosis
    return Explained(first, diagnoses, same, len(numbers) - len(diagnoses))


def _if_possible(recording: Recording, number: int | None) -> Diagnosis | None:
    """Return the diagnosis of a connection, of the longest work without a number; None with a warning."""
    try:
        if number is None:
            return explain(recording)
        return diagnose(Transfer.of(recording, number))
    except MultiTracerError as error:
        recording.warn_once(str(error))
        return None


def _way(diagnosis: Diagnosis) -> Way:
    place = diagnosis.transfer.layers.view.sender
    return Way(place.number, bool(diagnosis.transfer.layers.reverse))


def _once(recording: Recording) -> tuple[list[int], set[int]]:
    """Return each connection with data once, those with most bytes first, and the numbers of the others.

    A connection that several capture points saw has the number that it has nearest to the data's sender.
    """
    sizes = np.concatenate([part.analysis.unique_bytes() for part in recording.parts] or [np.empty(0)])
    order = [int(row) + 1 for row in np.argsort(-sizes, kind="stable") if sizes[row] > 0]
    if len(recording.parts) < 2:
        return order, set()
    numbers: dict[int, None] = {}
    for number in order[: MOST * len(recording.parts)]:
        part, n = recording.numbered(number)
        numbers.setdefault(view_of(recording, part, n).sender.number)
    rest = order[MOST * len(recording.parts) :]
    same = set(order) - set(numbers) - set(rest)
    return [*numbers, *(each for each in rest if each not in numbers)], same


# --- rows ---


def transfer_rows(recording: Recording, session: str, transfers: Explained) -> Iterator[Row]:
    """Yield the rows of `transfers`: a direction with data each, at the capture nearest to its sender.

    Parameters
    ----------
    recording : Recording
    session : str
    transfers : Explained
        Of this recording.
    """
    for part in recording.parts:
        for way, direction in _with_data(part, transfers):
            row = _counted(part, way, direction) | {"session": session}
            diagnosis = transfers.diagnoses.get(way)
            yield row if diagnosis is None else row | _limits(diagnosis)


def _with_data(part: Part, transfers: Explained) -> Iterator[tuple[Way, Row]]:
    directions = part.analysis.directions
    held = np.flatnonzero(directions["unique_bytes"] > 0)
    for row in directions.take(held).rows():
        way = Way(part.offset + int(row["connection"]), bool(row["reverse"]))
        if way.number not in transfers.same:
            yield way, row


def _counted(part: Part, way: Way, direction: Row) -> Row:
    ends = part.analysis.ends(way.number - part.offset)
    sender, receiver = (ends.source, ends.destination)[:: -1 if way.reverse else 1]
    is_known = GoodputBy(direction["goodput_by"]).is_known
    return {
        "host": part.point.name,
        "connection": way.number,
        "reverse": way.reverse,
        "sender": sender,
        "receiver": receiver,
        "begin_ns": direction["first_ns"],
        "end_ns": direction["last_ns"],
        "goodput_bps": direction["goodput_bytes_per_s"] * BITS_PER_BYTE if is_known else None,
        **{name: direction[name] for name in _KEPT},
        **{name: _known(direction[name]) for name in _ROUND_TRIPS},
    }


_KEPT = ("unique_bytes", "retransmitted_bytes", "data_segments", "rtt_count")
_ROUND_TRIPS = ("rtt_min_ns", "rtt_p50_ns", "rtt_p95_ns")


def _known(value: float | None) -> float | None:
    return None if value is None or value == NOT_A_TIME else float(value)


def _limits(diagnosis: Diagnosis) -> Row:
    """Return what limited a transfer, in seconds of link time; nothing if nothing can be shown."""
    limited = diagnosis.limited
    if limited.view is View.NOWHERE:
        return {"view": limited.view.label}
    seconds = dict.fromkeys(LIMIT_COLUMNS.values(), 0.0)
    for share in limited.shares:
        seconds[LIMIT_COLUMNS[share.limit]] += share.seconds
    longest = max(LIMIT_COLUMNS, key=lambda each: seconds[LIMIT_COLUMNS[each]])
    costs = [each.cost_s for each in diagnosis.findings if not np.isnan(each.cost_s)]
    return {
        **seconds,
        "limited_by": longest.label if limited.total_s > 0 else None,
        "view": limited.view.label,
        "limits_total_s": limited.total_s,
        "lost_time_s": float(sum(costs)),
    }
