"""The table of cells: how long each served, how well, and how often the phone came and went."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.mobility.series import Samples, Steps, quartiles
from multitracer.mobility import CELLS
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.analysis.mobility.route import Route
    from multitracer.analysis.mobility.stays import Stays
    from multitracer.tables import Array, Numbers, Times

_LEVELS = ("rsrp_dbm", "rsrq_db", "sinr_db", "rscp_dbm", "rssi_dbm")
_PARTS = ("q1", "median", "q3")
_LEAST_COVERED = 0.5  # of a second, so that its mean is one of that second; not measured


def cells_of(
    stays: Stays,
    *,
    route: Route | None = None,
    throughput: Steps | None = None,
    rtt: Samples | None = None,
    outages: tuple[Times, Times] | None = None,
) -> Table:
    """Return the cells that served.

    Parameters
    ----------
    stays : Stays
        Which cell served when.
    route : Route, optional
        For the way that was driven in each.
    throughput : Steps, optional
        Bit/s.
    rtt : Samples, optional
        Round-trip times, ns.
    outages : tuple of two ndarray of int64, ns since 1970, shape (n_outages,), optional
        Begins and ends.

    Returns
    -------
    Table
        CELLS, the one that served longest first. A quantity whose source is not given is NA. `stays.ranks`
        is the row of each number in the column `cell` of STAYS.
    """
    number, of_stay = stays.cells, stays.table["cell"]
    order = np.argsort(stays.ranks)
    columns: dict[str, Array] = {
        "seconds": stays.seconds,
        "visits": np.bincount(of_stay, minlength=number),
        "handovers_in": np.bincount(of_stay[1:][stays.entered[1:]], minlength=number),
        "handovers_out": np.bincount(of_stay[:-1][stays.entered[1:]], minlength=number),
        **_identities(stays, number),
        **_levels(stays, number),
        **_traffic(stays, throughput, rtt, number),
        **_outages(stays, outages, number),
        "distance_m": _distance(stays, route, number),
    }
    return Table(CELLS, {name: column[order] for name, column in columns.items()})


def _identities(stays: Stays, number: int) -> dict[str, Array]:
    """Return the identity of each cell: from its first stay, completed from its later ones."""
    columns: dict[str, Array] = {}
    for name in ("rat", "plmn", "cell_id", "physical_cell_id", "channel"):
        values = stays.table[name]
        known = np.flatnonzero(values != "" if values.dtype.kind == "U" else values >= 0)[::-1]
        column = np.full(number, "" if values.dtype.kind == "U" else NA, dtype=values.dtype)
        column[stays.table["cell"][known]] = values[known]
        columns[name] = column
    return columns


def _cell_of(stays: Stays, stay: Numbers) -> Numbers:
    """Return the cell of rows of STAYS; NA for a row that is NA."""
    return np.asarray(np.append(stays.table["cell"], NA)[stay])


def _levels(stays: Stays, number: int) -> dict[str, Array]:
    cell = _cell_of(stays, stays.of_reading)
    columns: dict[str, Array] = {}
    some = np.zeros(len(cell), dtype=bool)
    for level in _LEVELS:
        name, unit = level.split("_")
        value = stays.serving[level]
        some |= np.isfinite(value)
        parts = quartiles(cell, value, number)
        columns |= {f"{name}_{part}_{unit}": each for part, each in zip(_PARTS, parts, strict=True)}
    columns["readings"] = np.bincount(cell[some & (cell >= 0)], minlength=number)
    return columns


def _traffic(stays: Stays, throughput: Steps | None, rtt: Samples | None, number: int) -> dict[str, Array]:
    rates, times = np.full((3, number), np.nan), np.full((3, number), np.nan)
    if throughput is not None:
        begin, end, stay = _seconds(stays)
        mean, covered = throughput.mean(begin, end)
        mean[covered < _LEAST_COVERED] = np.nan
        rates = quartiles(_cell_of(stays, stay), mean, number)
    if rtt is not None:
        time, value = rtt.known()
        times = quartiles(_cell_of(stays, stays.at(time)), value, number)
    known = np.isfinite(times)
    whole = np.where(known, np.rint(np.where(known, times, 0.0)), NOT_A_TIME).astype(np.int64)
    columns = {f"throughput_{part}_bps": each for part, each in zip(_PARTS, rates, strict=True)}
    return columns | {f"rtt_{part}_ns": each for part, each in zip(_PARTS, whole, strict=True)}


def _seconds(stays: Stays) -> tuple[Times, Times, Numbers]:
    """Return the pieces of the stays, cut where they are longer than a second."""
    length = stays.end_ns - stays.begin_ns
    count = np.maximum(-(-length // NS_PER_S), 1)
    piece = np.repeat(np.arange(len(length)), count)
    place = np.arange(len(piece)) - np.repeat(np.cumsum(count) - count, count)
    begin = stays.begin_ns[piece] + place * NS_PER_S
    return begin, np.minimum(begin + NS_PER_S, stays.end_ns[piece]), stays.stay[piece]


def _outages(stays: Stays, outages: tuple[Times, Times] | None, number: int) -> dict[str, Array]:
    if outages is None:
        return {"outages": np.full(number, NA), "outage_s": np.full(number, np.nan)}
    begin, end = outages
    cell = _cell_of(stays, stays.at(begin))
    edges, change = np.concatenate([begin, end]), np.repeat([1, -1], len(begin))
    order = np.argsort(edges, kind="stable")
    gone = Steps(edges[order], (np.cumsum(change[order]) > 0).astype(np.float64))
    mean, covered = gone.mean(stays.begin_ns, stays.end_ns)
    seconds = np.nan_to_num(mean) * covered * (stays.end_ns - stays.begin_ns) / NS_PER_S
    of_piece = _cell_of(stays, stays.stay)
    return {
        "outages": np.bincount(cell[cell >= 0], minlength=number),
        "outage_s": np.bincount(of_piece, weights=seconds, minlength=number),
    }


def _distance(stays: Stays, route: Route | None, number: int) -> Array:
    if route is None:
        return np.full(number, np.nan)
    way = route.at(stays.end_ns).distance_m - route.at(stays.begin_ns).distance_m
    cell, known = _cell_of(stays, stays.stay), np.isfinite(way)
    some = np.bincount(cell[known], minlength=number) > 0
    total = np.bincount(cell[known], weights=way[known], minlength=number)
    return np.asarray(np.where(some, total, np.nan))
