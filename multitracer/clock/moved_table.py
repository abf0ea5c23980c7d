"""Conversion of a table's times to another clock; original times and uncertainties become columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.model.relation import PlacementStatus
from multitracer.clock.sources.paired_stamps import ONE_KERNEL
from multitracer.errors import ClockError
from multitracer.tables import NOT_A_TIME, Table
from multitracer.words import time_error

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multitracer.clock.model.relation import Clock, ClockPath
    from multitracer.clock.session_clock import Clocks
    from multitracer.tables import Array, Times


@dataclass(frozen=True, slots=True)
class Moved:
    """A table with converted times.

    Attributes
    ----------
    table : Table
        The table with the new times in `time_ns`; with the original times if none could be converted.
    raw_ns : ndarray of int64
        The original times.
    bound_ns : ndarray of float64
        Half-width of the 95 % interval of each new time; NaN where it was not converted.
    sentence : str
        Description of the conversion and its accuracy, or why there was none.
    placed : bool
        Whether any time could be converted.
    """

    table: Table
    raw_ns: Times
    bound_ns: NDArray[np.float64]
    sentence: str
    placed: bool


def moved(table: Table, clocks: Clocks, source: Clock, target: Clock) -> Moved:
    """Return a table with the times in `time_ns`, and in `until_ns`, converted from clock `source` to clock `target`.

    A time that cannot be converted becomes NOT_A_TIME if others can.
    """
    raw = table["time_ns"]
    placement = clocks.place(raw, source, target)
    there = placement.status != PlacementStatus.UNPLACED
    if not there.any():
        reason = f"{placement.reason}; the times of {source.host} are its own" if len(raw) else ""
        return Moved(table, raw, placement.bound_ns, reason, placed=False)
    sentence = _sentence(clocks, source, target, raw[there], placement.bound_ns[there])
    columns = table.columns | {"time_ns": np.where(there, placement.time_ns, NOT_A_TIME)}
    if "until_ns" in columns:
        columns["until_ns"] = clocks.place(columns["until_ns"], source, target, with_bounds=False).time_ns
    provenance = table.provenance | {"clock": sentence}
    return Moved(Table(table.schema, columns, provenance), raw, placement.bound_ns, sentence, placed=True)


def _sentence(clocks: Clocks, source: Clock, target: Clock, stamps: Array, bound_ns: Array) -> str:
    try:
        path = clocks.path_along(stamps, source, target)
    except ClockError as error:  # it was there for `place`
        return str(error)
    bound = float(np.median(bound_ns))
    return accuracy(path, source=source.host, target=target.host, bound_ns=bound)


# Description of the relation of two clocks in one sentence, for users.


_DRIFT_THAT_COUNTS_PPM = 0.005  # less would be shown as 0.00 or 0.01 ppm


def accuracy(path: ClockPath, *, source: str, target: str, bound_ns: float) -> str:
    """Return a sentence with the conversion from one host's clock to another's, and its accuracy.

    Parameters
    ----------
    path : sequence of Relation
        The relations from the clock of `source` to that of `target`.
    source, target : str
        The two hosts.
    bound_ns : float
        Half-width of the 95 % interval of the converted times.
    """
    if not path or all(relation.method == ONE_KERNEL for relation in path):
        return f"{source} and {target} share one clock"
    methods = ", ".join(dict.fromkeys(relation.method for relation in path))
    evidence = min(relation.evidence for relation in path)
    first = path[0].estimates[0]
    start = first.first_ns
    there = start
    for relation in path:
        there = int(relation.estimates[0].at(there))
    offset, skew = start - there, -sum(relation.estimates[0].skew_ppm for relation in path)
    ahead = "ahead of" if offset > 0 else "behind"
    drift = f"{'gains' if skew > 0 else 'loses'} {abs(skew):.2f} ppm"
    steps = max(len(relation.estimates) for relation in path) - 1
    stepped = f", with {steps} step{'s' if steps > 1 else ''} in between" if steps else ""
    ahead_by = f"{time_error(abs(offset))} {ahead} {target}"
    more = f" and {drift}" if abs(skew) > _DRIFT_THAT_COUNTS_PPM else ""
    return (
        f"the clock of {source} was {ahead_by}{more}{stepped}; its times are shown on that of {target}, "
        f"± {time_error(bound_ns)} (95 %; {methods}, {evidence:,} observations)"
    )
