"""Table of the serving cells: for how long, with what quality and how often each one served.

A visit of a cell (table CELL_VISITS) lasts from one change of the serving cell to the next. It consists of intervals
between neighbouring readings of the visit that are close enough in time. Of the time between the last reading of one
cell and the first of the next, each cell gets half. A time without readings counts for no cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.mobility.handovers import bounds_ns, changes_in_gaps
from multitracer.analysis.mobility.series import Samples, Steps, quartiles
from multitracer.analysis.mobility.serving import FAMILY, Serving
from multitracer.schemas.mobility import CELL_VISITS, CELLS
from multitracer.schemas.radio import RADIO
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.analysis.mobility.route import Route
    from multitracer.tables import Array, Mask, Numbers, Row, Times

HOLD_S = 10.0
"""Time for which a reading is valid, s: the slowest known poll intervals of routers (RUTOS, 3ginfo) are 5 s and 10 s.
Not measured."""
_IDENTITY = ("rat", "plmn", "cell_id", "physical_cell_id", "channel")
_GENERATION = {"LTE": "LTE or NR", "NR": "LTE or NR"}
"""With a dual connection, logs use both names in turn for one anchor cell."""


@dataclass(frozen=True)
class CellVisits:
    """Cell visits: which cell served when.

    Attributes
    ----------
    table : Table
        CELL_VISITS, in order of time.
    begin_ns, end_ns, stay : ndarray of int64, shape (n_chunks,)
        Intervals covered by readings, sorted and without overlap, and the row of `table` of each interval.
    serving : Serving
        The readings.
    of_reading : ndarray of int64, shape (n_readings,)
        Row of `table` of each reading; NA between two cells, and where no near reading identifies a cell.
    entered : ndarray of bool, shape (n_visits,)
        Whether the visit began with a cell change.
    """

    table: Table
    begin_ns: Times
    end_ns: Times
    stay: Numbers
    serving: Serving
    of_reading: Numbers
    entered: Mask

    def at(self, time_ns: Times) -> Numbers:
        """Return the row of `table` at each time, with the shape of `time_ns`; NA where no cell is known."""
        if not len(self.begin_ns):
            return np.full(len(time_ns), NA)
        chunk = np.maximum(np.searchsorted(self.begin_ns, time_ns, side="right") - 1, 0)
        inside = (time_ns >= self.begin_ns[chunk]) & (time_ns <= self.end_ns[chunk])
        return np.asarray(np.where(inside, self.stay[chunk], NA))

    @property
    def cells(self) -> int:
        """Number of different cells."""
        return int(self.table["cell"].max(initial=NA)) + 1

    @cached_property
    def seconds(self) -> Array:
        """Time for which each cell served, s, indexed by its number in `cell`; float64, shape (cells,)."""
        return np.bincount(self.table["cell"], weights=self.table["seconds"], minlength=self.cells)

    @cached_property
    def ranks(self) -> Numbers:
        """The row of each cell in table CELLS, which is sorted by time of service; int64, shape (cells,)."""
        ranks = np.empty(self.cells, dtype=np.int64)
        ranks[np.argsort(-self.seconds, kind="stable")] = np.arange(self.cells)
        return ranks


def cell_visits_of(radio: Table | None, handovers: Table, *, hold_s: float = HOLD_S) -> CellVisits:
    """Return which cell served a phone at which time.

    Parameters
    ----------
    radio : Table or None
        RADIO.
    handovers : Table
        JUDGED_HANDOVERS of the same phone; a failed one is not a cell change.
    hold_s : float
        A reading is valid until the next one, if that comes within this time.
    """
    serving = Serving.of(radio if radio is not None else Table.empty(RADIO))
    changes = _with_breaks(handovers.take(np.flatnonzero(handovers["result"] != "failed")), serving)
    low, high = bounds_ns(changes)
    low, high = np.maximum.accumulate(low), np.maximum.accumulate(high)
    time = serving.time_ns
    of_reading = np.searchsorted(high, time, side="right")
    between = np.searchsorted(low, time, side="left") > of_reading
    of_reading[between | _is_nameless(serving, changes)] = NA
    hold_ns = round(hold_s * NS_PER_S) if len(serving) else np.iinfo(np.int64).max
    begin, end, stay = _chunks((time, of_reading), low, high, hold_ns)
    number = len(changes) + 1 if len(serving) or len(changes) else 0
    columns = _cell_visits_identities(serving, of_reading, changes, number)
    columns |= {"cell": _cells(columns), **_times(begin, end, stay, number)}
    entered = np.append(np.zeros(min(number, 1), dtype=bool), changes["evidence"] != _CLOCK)[:number]
    return CellVisits(Table(CELL_VISITS, columns), begin, end, stay, serving, of_reading, entered)


def _with_breaks(changes: Table, serving: Serving) -> Table:
    """Return the cell changes, plus a row at each reading before which the log's clock stepped backwards.

    There is also a row at each gap of the log after which another cell served.
    """
    rows = np.union1d(np.flatnonzero(np.diff(serving.chunk)), changes_in_gaps(serving))
    if not len(rows):
        return changes
    missing = {"f": np.nan, "U": "", "i": NA}
    columns = {
        column.name: np.full(len(rows), missing[np.dtype(column.dtype).kind], dtype=column.dtype)
        for column in changes.schema
    }
    columns |= {
        "earliest_ns": serving.time_ns[rows],
        **dict.fromkeys(("time_ns", "latest_ns"), serving.time_ns[rows + 1]),
        "complete_ns": np.full(len(rows), NOT_A_TIME),
        "evidence": np.full(len(rows), _CLOCK, dtype="U12"),
    }
    both = Table.concatenate(changes.schema, [changes, Table(changes.schema, columns)])
    return both.take(np.argsort(both["time_ns"], kind="stable"))


_CLOCK = "clock"


def _is_nameless(serving: Serving, changes: Table) -> Mask:
    """Return which readings lie outside of the time in which the log identifies the cell: bool.

    These are readings before the first and after the last reading with a cell identity, with a margin for the time that
    a reading is valid. There are none in a log that never identifies a cell, or whose messages show each change.
    """
    named = serving.time_ns[serving.is_named]
    if not len(named) or (changes["evidence"] == "signalling").any():
        return np.zeros(len(serving), dtype=bool)
    hold_ns = round(HOLD_S * NS_PER_S)
    return np.asarray((serving.time_ns < named.min() - hold_ns) | (serving.time_ns > named.max() + hold_ns))


def _chunks(readings: tuple[Times, Numbers], low: Times, high: Times, hold_ns: int) -> tuple[Times, Times, Numbers]:
    """Return begin, end and visit of the intervals between neighbouring readings.

    An interval between the readings of two visits is split in its middle.
    """
    inside = readings[1] >= 0
    rows = np.arange(len(low))
    time = np.concatenate([readings[0][inside], low, high])
    stay = np.concatenate([readings[1][inside], rows, rows + 1])
    order = np.lexsort([time, stay])
    time, stay = time[order], stay[order]
    near = (stay[1:] == stay[:-1]) & (time[1:] - time[:-1] <= hold_ns)
    change = np.flatnonzero(high - low <= hold_ns)
    middle = (low + (high - low) // 2)[change]
    begin = np.concatenate([time[:-1][near], low[change], middle])
    end = np.concatenate([time[1:][near], middle, high[change]])
    stay = np.concatenate([stay[:-1][near], change, change + 1])
    order = np.lexsort([stay, end, begin])
    some = order[(end > begin)[order]]
    return begin[some], end[some], stay[some]


def _times(begin: Times, end: Times, stay: Numbers, number: int) -> dict[str, Array]:
    first, last = np.full(number, np.iinfo(np.int64).max), np.full(number, np.iinfo(np.int64).min)
    np.minimum.at(first, stay, begin)
    np.maximum.at(last, stay, end)
    first[first > last] = last[first > last]  # nothing of it was read: NOT_A_TIME is the least integer
    seconds = np.bincount(stay, weights=(end - begin) / NS_PER_S, minlength=number)
    return {"begin_ns": first, "end_ns": last, "seconds": seconds}


def _cell_visits_identities(serving: Serving, of_reading: Numbers, changes: Table, number: int) -> dict[str, Array]:
    """Return the identity columns of the cell of each visit.

    An identity is the value that was read most often in the visit. If none was read, it is taken from the
    handover to or from the cell.
    """
    columns: dict[str, Array] = {}
    for name in _IDENTITY:
        values, known = serving.identity(name), serving.known(name) & (of_reading >= 0)
        columns[name] = _most_frequent(values[known], of_reading[known], number)
        if f"source_{name}" in changes.columns and len(changes):
            for side, rows in (("target", slice(1, None)), ("source", slice(0, -1))):
                column, view = changes[f"{side}_{name}"], columns[name][rows]
                missing = view == "" if view.dtype.kind == "U" else view < 0
                view[missing] = column[missing]
    return columns


def _most_frequent(values: Array, group: Numbers, groups: int) -> Array:
    """Return the most frequent value of each group; of equally frequent values, the smallest one.

    It is NA for an empty group.
    """
    names, index = np.unique(values, return_inverse=True)
    result = np.full(groups, "" if values.dtype.kind == "U" else NA, dtype=values.dtype)
    if len(names):
        pair, count = np.unique(group * len(names) + index.reshape(-1), return_counts=True)
        order = np.lexsort([-pair, count])  # the last written wins
        result[pair[order] // len(names)] = names[pair[order] % len(names)]
    return result


def _cells(columns: dict[str, Array]) -> Numbers:
    """Return a number for each visit: equal for equal cells, in the order of their first visits.

    A visit without a cell identity is assigned to the only cell with the same physical cell and channel whose
    identity is known from another visit. If there is not exactly one such cell, it stays separate.
    """
    generation = [_GENERATION.get(FAMILY.get(rat, rat), FAMILY.get(rat, rat)) for rat in columns["rat"].tolist()]
    rows = list(zip(generation, *(columns[name].tolist() for name in _IDENTITY[2:]), strict=True))
    identities: dict[tuple[str, int, int], set[int]] = {}
    for rat, cell, physical, channel in rows:
        if cell >= 0 and physical >= 0 and channel >= 0:
            identities.setdefault((rat, physical, channel), set()).add(cell)
    keys: dict[tuple[object, ...], int] = {}
    numbers = []
    for rat, cell, physical, channel in rows:
        known = {cell} if cell >= 0 else identities.get((rat, physical, channel), set())
        key = (rat, *known) if len(known) == 1 else (rat, None, physical, channel)
        numbers.append(keys.setdefault(key, len(keys)))
    return np.array(numbers, dtype=np.int64)


_LEVELS = ("rsrp_dbm", "rsrq_db", "sinr_db", "rscp_dbm", "rssi_dbm")
_PARTS = ("q1", "median", "q3")
_MIN_COVERED = 0.5  # of a second, so that its mean is one of that second; not measured


def cells_of(
    cell_visits: CellVisits,
    *,
    route: Route | None = None,
    throughput: Steps | None = None,
    rtt: Samples | None = None,
    outages: tuple[Times, Times] | None = None,
) -> Table:
    """Return the table of the cells that served.

    Parameters
    ----------
    cell_visits : CellVisits
        Which cell served when.
    route : Route, optional
        For the distance driven in each cell.
    throughput : Steps, optional
        Bit/s.
    rtt : Samples, optional
        Round-trip times, ns.
    outages : tuple of two ndarray of int64, ns since 1970, shape (n_outages,), optional
        Begin and end times.

    Returns
    -------
    Table
        CELLS, the one that served longest first. A quantity whose source is not given is NA.
        `cell_visits.ranks` is the row of each number in the column `cell` of CELL_VISITS.
    """
    number, of_stay = cell_visits.cells, cell_visits.table["cell"]
    order = np.argsort(cell_visits.ranks)
    columns: dict[str, Array] = {
        "seconds": cell_visits.seconds,
        "visits": np.bincount(of_stay, minlength=number),
        "handovers_in": np.bincount(of_stay[1:][cell_visits.entered[1:]], minlength=number),
        "handovers_out": np.bincount(of_stay[:-1][cell_visits.entered[1:]], minlength=number),
        **_identities(cell_visits, number),
        **_levels(cell_visits, number),
        **_traffic(cell_visits, throughput, rtt, number),
        **_outages(cell_visits, outages, number),
        "distance_m": _distance(cell_visits, route, number),
    }
    return Table(CELLS, {name: column[order] for name, column in columns.items()})


def _identities(cell_visits: CellVisits, number: int) -> dict[str, Array]:
    """Return the identity columns of each cell: the values of its first visit.

    A value that is missing there is taken from a later visit.
    """
    columns: dict[str, Array] = {}
    for name in ("rat", "plmn", "cell_id", "physical_cell_id", "channel"):
        values = cell_visits.table[name]
        known = np.flatnonzero(values != "" if values.dtype.kind == "U" else values >= 0)[::-1]
        column = np.full(number, "" if values.dtype.kind == "U" else NA, dtype=values.dtype)
        column[cell_visits.table["cell"][known]] = values[known]
        columns[name] = column
    return columns


def _cell_of(cell_visits: CellVisits, stay: Numbers) -> Numbers:
    """Return the number of the cell for each row number of CELL_VISITS in `stay`; NA for NA."""
    return np.asarray(np.append(cell_visits.table["cell"], NA)[stay])


def _levels(cell_visits: CellVisits, number: int) -> dict[str, Array]:
    cell = _cell_of(cell_visits, cell_visits.of_reading)
    columns: dict[str, Array] = {}
    some = np.zeros(len(cell), dtype=bool)
    for level in _LEVELS:
        name, unit = level.split("_")
        value = cell_visits.serving[level]
        some |= np.isfinite(value)
        parts = quartiles(cell, value, number)
        columns |= {f"{name}_{part}_{unit}": each for part, each in zip(_PARTS, parts, strict=True)}
    columns["readings"] = np.bincount(cell[some & (cell >= 0)], minlength=number)
    return columns


def _traffic(cell_visits: CellVisits, throughput: Steps | None, rtt: Samples | None, number: int) -> dict[str, Array]:
    rates, times = np.full((3, number), np.nan), np.full((3, number), np.nan)
    if throughput is not None:
        begin, end, stay = _seconds(cell_visits)
        mean, covered = throughput.mean(begin, end)
        mean[covered < _MIN_COVERED] = np.nan
        rates = quartiles(_cell_of(cell_visits, stay), mean, number)
    if rtt is not None:
        time, value = rtt.known()
        times = quartiles(_cell_of(cell_visits, cell_visits.at(time)), value, number)
    known = np.isfinite(times)
    complete = np.where(known, np.rint(np.where(known, times, 0.0)), NOT_A_TIME).astype(np.int64)
    columns = {f"throughput_{part}_bps": each for part, each in zip(_PARTS, rates, strict=True)}
    return columns | {f"rtt_{part}_ns": each for part, each in zip(_PARTS, complete, strict=True)}


def _seconds(cell_visits: CellVisits) -> tuple[Times, Times, Numbers]:
    """Return begin, end and visit of the visits' intervals, each split into lengths of at most one second."""
    length = cell_visits.end_ns - cell_visits.begin_ns
    count = np.maximum(-(-length // NS_PER_S), 1)
    chunk = np.repeat(np.arange(len(length)), count)
    place = np.arange(len(chunk)) - np.repeat(np.cumsum(count) - count, count)
    begin = cell_visits.begin_ns[chunk] + place * NS_PER_S
    return begin, np.minimum(begin + NS_PER_S, cell_visits.end_ns[chunk]), cell_visits.stay[chunk]


def _outages(cell_visits: CellVisits, outages: tuple[Times, Times] | None, number: int) -> dict[str, Array]:
    if outages is None:
        return {"outages": np.full(number, NA), "outage_s": np.full(number, np.nan)}
    begin, end = outages
    cell = _cell_of(cell_visits, cell_visits.at(begin))
    edges, change = np.concatenate([begin, end]), np.repeat([1, -1], len(begin))
    order = np.argsort(edges, kind="stable")
    gone = Steps(edges[order], (np.cumsum(change[order]) > 0).astype(np.float64))
    mean, covered = gone.mean(cell_visits.begin_ns, cell_visits.end_ns)
    seconds = np.nan_to_num(mean) * covered * (cell_visits.end_ns - cell_visits.begin_ns) / NS_PER_S
    of_chunk = _cell_of(cell_visits, cell_visits.stay)
    return {
        "outages": np.bincount(cell[cell >= 0], minlength=number),
        "outage_s": np.bincount(of_chunk, weights=seconds, minlength=number),
    }


def _distance(cell_visits: CellVisits, route: Route | None, number: int) -> Array:
    if route is None:
        return np.full(number, np.nan)
    way = route.at(cell_visits.end_ns).distance_m - route.at(cell_visits.begin_ns).distance_m
    cell, known = _cell_of(cell_visits, cell_visits.stay), np.isfinite(way)
    some = np.bincount(cell[known], minlength=number) > 0
    total = np.bincount(cell[known], weights=way[known], minlength=number)
    return np.asarray(np.where(some, total, np.nan))


def cell_name(cell: Row) -> str:
    """Return the name of the cell in a row of CELLS or CELL_VISITS: technology, network, identifiers."""
    names = {"cell_id": "cell", "physical_cell_id": "PCI", "channel": "channel"}
    facts = [f"{word} {cell[name]}" for name, word in names.items() if cell[name] not in (None, NA)]
    return " ".join(filter(None, (cell["rat"], cell["plmn"], ", ".join(facts) or "cell not identified")))
