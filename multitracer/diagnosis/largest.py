"""The largest transfers of a session, each explained once, and how well each used its link.

Utilization (paper 004, section 4.3) is measured by a log of the link alone. Without one it is not known, and the
share of the time in which the link was the limit stands beside it (`docs/limits.md`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.diagnose import explain
from multitracer.diagnosis.limits.names import direction_of
from multitracer.errors import MultiTracerError
from multitracer.recording.places import distinct_connections
from multitracer.schemas.findings import UTILIZATION
from multitracer.tables import NA, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.recording.recording import Recording
    from multitracer.tables import Row

MOST = 50
"""Maximum number of connections of a session that are explained, those with most bytes. Not measured."""


class ConnectionDirection(NamedTuple):
    """A connection, and one of its two directions."""

    number: int
    """Number of the connection in the recording, from 1."""
    reverse: bool


@dataclass(frozen=True)
class Explained:
    """The transfers of a session with their diagnoses.

    Attributes
    ----------
    first : Diagnosis or None
        Diagnosis of the longest group of connections, chosen as by `diagnose`.
    diagnoses : dict of ConnectionDirection to Diagnosis
        Diagnosis of each explained connection, for the direction with more data.
    same : set of int
        Numbers of connections that are another one's copy at another capture point.
    left_out : int
        Connections with data that are not explained, because there are too many or packets have no time.
    """

    first: Diagnosis | None = None
    diagnoses: dict[ConnectionDirection, Diagnosis] = field(default_factory=dict)
    same: set[int] = field(default_factory=set)
    left_out: int = 0


def explain_largest(recording: Recording) -> Explained:
    """Return the diagnoses of the largest connections of a recording, each connection once.

    For connections that cannot be explained, the recording gets a warning.
    """
    numbers, same = distinct_connections(recording, MOST)
    if not numbers:
        return Explained(same=same)
    first = next(_each(recording, [None], recording.warn_once), None)
    known = first if first is not None and len(first.group.members) == 1 else None
    diagnoses = {_direction(each): each for each in _each(recording, numbers, recording.warn_once, known)}
    return Explained(first, diagnoses, same, len(numbers) - len(diagnoses))


def _each(
    recording: Recording, numbers: Sequence[int | None], warn: Callable[[str], object], known: Diagnosis | None = None
) -> Iterator[Diagnosis]:
    """Yield the diagnosis of each connection, of the first `MOST`; of one that cannot be explained, `warn` is told why.

    None is the longest group of connections. The diagnosis `known` is not made again.
    """
    for number in numbers[:MOST]:
        if known is not None and _direction(known).number == number:
            yield known
            continue
        try:
            yield explain(recording, number)
        except MultiTracerError as error:
            warn(str(error))


def _direction(diagnosis: Diagnosis) -> ConnectionDirection:
    place = diagnosis.transfer.at_sender
    return ConnectionDirection(place.number, bool(diagnosis.transfer.reverse))


class LinkUse(NamedTuple):
    """How well a transfer used its link; NaN where that is not known."""

    utilization: float
    link_limited_share: float


def link_uses(recording: Recording) -> dict[ConnectionDirection, LinkUse]:
    """Return how the largest transfers used their link, at each capture point of a transfer; without warnings."""
    uses: dict[ConnectionDirection, LinkUse] = {}
    left_out: list[str] = []  # no error here: the columns stay empty, and what has no times is told beside them
    for diagnosis in _each(recording, distinct_connections(recording, MOST)[0], left_out.append):
        transfer = diagnosis.transfer
        use = LinkUse(diagnosis.account.utilization, diagnosis.limited.link_limited_share)
        for place in filter(None, (transfer.at_sender, transfer.at_receiver)):
            uses[ConnectionDirection(place.number, bool(place.reverse))] = use
    return uses


def utilization_table(transfers: Explained) -> Table:
    """Return UTILIZATION: a row for each explained transfer, by begin."""
    rows = [_row(diagnosis) for diagnosis in transfers.diagnoses.values()]
    rows.sort(key=lambda row: row["begin_ns"])
    return Table(UTILIZATION, {c.name: np.array([row[c.name] for row in rows], dtype=c.dtype) for c in UTILIZATION})


def _row(diagnosis: Diagnosis) -> Row:
    transfer, account, limited = diagnosis.transfer, diagnosis.account, diagnosis.limited
    total_s = transfer.total_s
    return {
        "host": transfer.at_sender.host,
        "connection": transfer.at_sender.number,
        "direction": direction_of(reverse=transfer.reverse),
        "begin_ns": transfer.begin_ns,
        "seconds": total_s,
        "unique_bytes": transfer.both_unique_bytes[0],
        "throughput_bytes_per_s": transfer.both_unique_bytes[0] / total_s if total_s > 0 else np.nan,
        "utilization": account.utilization,
        "utilization_rounded_up_pct": NA if account.rounded_up_percent is None else account.rounded_up_percent,
        "link_limited_share": limited.link_limited_share,
        "view": limited.view.label,
        "outcome": "complete" if transfer.is_complete else "dropped",
    }
