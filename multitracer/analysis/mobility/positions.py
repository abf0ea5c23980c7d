"""Which logged positions can be trusted, and why the others are left out.

Left out are: no time, no coordinates, no fix, 0/0 (what receivers write before they know), beyond the earth,
an old position that the logger repeats while the car drives on, always or in a tunnel, and a stray (the
positions before and after it agree with each other, and not with it).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.mobility.set_back import overtaken, pieces_of
from multitracer.analysis.mobility.sphere import distance_m, vectors
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.tables import Array, Mask, Numbers, Table

FASTEST_MPS = 500 / 3.6
"""Nothing that is driven is faster: 500 km/h is the fastest mobile of TR 38.913 (trains)."""
STAMP_S = 1.0
"""Drive-test logs write whole seconds, so two stamps may be that much closer than the positions were."""
STANDING_MPS = 1.0
"""Slower than a walk (1.4 m/s); parked receivers report up to some 0.5 m/s. Not measured."""
_ZERO_DEG = 1e-6  # a tenth of a metre: six decimals, as logs write them, of exactly 0
_HELD_SHARE = 0.1
"""From this share of repeated positions among those read while driving on, the logger repeats old ones: a
receiver that reads anew repeats seven decimals about never (a drive of the UCC data set: 96 %)."""
_STRAYS = 3
"""So many positions in a row may be stray; more of them are a place (a tunnel's far end). Not measured."""


def trusted(position: Table) -> tuple[Numbers, dict[str, int]]:
    """Return the rows of POSITION that can be trusted, in the order of time, and how many others there are.

    Parameters
    ----------
    position : Table
        POSITION, in any order.

    Returns
    -------
    rows : ndarray of int64, shape (n,)
        By `time_ns`; of equal times in the order of the table.
    skipped : dict of str to int
        Reason -> rows left out for it; reasons without rows are not there. "out of order" counts rows that
        were moved, not left out.
    """
    kept = np.arange(len(position))
    skipped: dict[str, int] = {}
    for reason, mask in _faults(position):
        skipped[reason] = int(mask[kept].sum())
        kept = kept[~mask[kept]]
    time_ns = position["time_ns"][kept]
    skipped["out of order"] = int((np.diff(time_ns) < 0).sum())
    kept = kept[np.argsort(time_ns, kind="stable")]
    for reason, keep in (("repeated", _read_anew), ("stray", _without_strays), ("repeated", _not_held)):
        fewer = keep(position, kept)
        skipped[reason] = skipped.get(reason, 0) + len(kept) - len(fewer)
        kept = fewer
    return kept, {reason: count for reason, count in skipped.items() if count}


def is_leap(length_m: Array, seconds: Array) -> Mask:
    """Return which steps are longer than any vehicle could go in that time.

    Parameters
    ----------
    length_m : ndarray of float64, metres, shape (n,)
    seconds : ndarray of float64, s, shape (n,)
        Between the stamps of the two positions, >= 0.
    """
    return np.asarray(length_m > FASTEST_MPS * (seconds + STAMP_S))


def _faults(position: Table) -> list[tuple[str, Mask]]:
    lat, lon = position["lat_deg"], position["lon_deg"]
    return [
        ("no time", position["time_ns"] == NOT_A_TIME),
        ("before its clock was set back", overtaken(position["time_ns"], pieces_of(position))),
        ("no position", ~(np.isfinite(lat) & np.isfinite(lon))),
        ("no fix", position["fix"] == 0),
        ("0/0", (np.abs(lat) < _ZERO_DEG) & (np.abs(lon) < _ZERO_DEG)),
        ("beyond the earth", (np.abs(lat) > 90) | (np.abs(lon) > 180)),
    ]


def _read_anew(position: Table, rows: Numbers) -> Numbers:
    """Return the rows without repeated positions, if the logger repeats old positions."""
    lat, lon, speed = (position[name][rows] for name in ("lat_deg", "lon_deg", "speed_mps"))
    repeated = np.zeros(len(rows), dtype=bool)
    repeated[1:] = (lat[1:] == lat[:-1]) & (lon[1:] == lon[:-1])
    driving = speed >= STANDING_MPS
    held = driving.any() and repeated[driving].mean() >= _HELD_SHARE
    return rows[~repeated] if held else rows


def _not_held(position: Table, rows: Numbers) -> Numbers:
    """Return the rows without the last position before a tunnel, which the logger repeated in it.

    From such a position to the first one behind it lies a leap, and from when it was new none.
    """
    lat, lon = position["lat_deg"][rows], position["lon_deg"][rows]
    time_s = position["time_ns"][rows] / NS_PER_S
    new = np.flatnonzero(np.append(True, (lat[1:] != lat[:-1]) | (lon[1:] != lon[:-1]))[: len(rows)])
    if len(new) < 2:
        return rows
    points = vectors(lat[new], lon[new])
    step_m, last = distance_m(points[:-1], points[1:]), new[1:] - 1
    held = is_leap(step_m, time_s[new[1:]] - time_s[last]) & ~is_leap(
        step_m, time_s[new[1:]] - time_s[new[:-1]]
    )
    gone = np.zeros(len(rows), dtype=bool)
    for first, end in zip(new[:-1][held].tolist(), new[1:][held].tolist(), strict=True):
        gone[first + 1 : end] = True
    return rows[~gone]


def _without_strays(position: Table, rows: Numbers) -> Numbers:
    if len(rows) < 3:
        return rows
    points = vectors(position["lat_deg"][rows], position["lon_deg"][rows])
    time_s = (position["time_ns"][rows] - position["time_ns"][rows[0]]) / NS_PER_S
    leaps = np.flatnonzero(is_leap(distance_m(points[:-1], points[1:]), np.diff(time_s)))
    stray = np.zeros(len(rows), dtype=bool)
    before = -1  # last row that is known to be good
    for first, last in zip((leaps[:-1] + 1).tolist(), leaps[1:].tolist(), strict=True):
        before = first - 1 if not stray[first - 1] else before
        ends = np.array([before, last + 1])
        a, b = points[ends[:1]], points[ends[1:]]
        agree = not is_leap(distance_m(a, b), np.diff(time_s[ends]))[0]
        if last - first < _STRAYS and before >= 0 and agree:
            stray[first : last + 1] = True
    return rows[~stray]
