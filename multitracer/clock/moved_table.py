"""A table of one host on the clock of another: times are moved; raw times and errors stay as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.accuracy import accuracy
from multitracer.clock.model.relation import PlacementStatus
from multitracer.errors import ClockError
from multitracer.tables import NOT_A_TIME, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multitracer.clock.model.relation import Clock
    from multitracer.clock.session_clock import Clocks
    from multitracer.tables import Array, Times


@dataclass(frozen=True, slots=True)
class Moved:
    """What became of a table's times.

    Attributes
    ----------
    table : Table
        With the new times in `time_ns`; with its own if none could be placed, so that nothing is lost.
    raw_ns : ndarray of int64
        The times as they were stamped.
    bound_ns : ndarray of float64
        Half-width of the 95 % interval of each new time; NaN where it is not placed.
    sentence : str
        How the times came onto the other clock and how sure that is, or why they did not.
    placed : bool
        Whether any time could be placed.
    """

    table: Table
    raw_ns: Times
    bound_ns: NDArray[np.float64]
    sentence: str
    placed: bool


def moved(table: Table, clocks: Clocks, source: Clock, target: Clock) -> Moved:
    """Return a table whose `time_ns` was stamped by one clock with its times on another."""
    raw = table["time_ns"]
    placement = clocks.place(raw, source, target)
    there = placement.status != PlacementStatus.UNPLACED
    if not there.any():
        reason = f"{placement.reason}; the times of {source.host} are its own" if len(raw) else ""
        return Moved(table, raw, placement.bound_ns, reason, placed=False)
    sentence = _sentence(clocks, source, target, raw[there], placement.bound_ns[there])
    columns = table.columns | {"time_ns": np.where(there, placement.time_ns, NOT_A_TIME)}
    provenance = table.provenance | {"clock": sentence}
    return Moved(Table(table.schema, columns, provenance), raw, placement.bound_ns, sentence, placed=True)


def _sentence(clocks: Clocks, source: Clock, target: Clock, stamps: Array, bound_ns: Array) -> str:
    try:
        path = clocks.path_along(stamps, source, target)
    except ClockError as error:  # it was there for `place`
        return str(error)
    bound = float(np.median(bound_ns))
    return accuracy(path, source=source.host, target=target.host, bound_ns=bound)
