"""The route of a drive: distance along the route, and the position at any time.

Distance is the sum of great-circle steps between accepted positions. The position of a receiver drifts,
mainly while it stands. So a position is accepted only if its distance from the last accepted one exceeds the
noise; that threshold is higher at low speed, where the noise of each step adds up over a short distance.

Geometry: distances, courses and points in between are computed on a sphere with the earth's mean radius. A
great circle differs from the geodesic of WGS 84 by up to 0.56 %. All steps use unit vectors, so the date line
and the poles need no special case.

Trust: a logged position is left out if it has no time, no coordinates or no fix, is 0/0 (receivers write it before
their first fix) or out of range, is an old position that the logger repeats while the car moves on (always, or in a
tunnel), or is an outlier: the positions before and after it agree with each other but not with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.mobility.series import chunks_of, overtaken
from multitracer.schemas.mobility import ROUTE, ROUTE_GAPS
from multitracer.tables import NOT_A_TIME, Table
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.tables import Array, Mask, Numbers, Times

GAP_S = 10.0
"""Maximum time of a gap that is interpolated, s: a car that brakes or turns at 2 m/s² leaves the straight line by a t²
/ 8, which is 25 m in 10 s."""
GAP_M = 150.0
"""Maximum length of a gap that is interpolated, m: phones that write a position every 100 m (the UCC data set: 100 to
117 m) deviate by less."""
LONGEST_S = 300.0
"""Maximum time of a gap below GAP_M, s: in a longer time the car may have made a detour. Not measured."""
NOISE_M = 20.0
"""Noise threshold for a receiver of unknown speed, m: two readings with an error of 5 m each (68 %), typical of a phone
under open sky, are farther apart in one pair of 10,000."""
PARKED_NOISE_M = 50.0
"""Noise threshold for a receiver that reports speed 0, for hours and between houses, m; in a log whose speed is always
0, positions still count."""
SLOW_MPS = 5.0
"""Low speed (walk, bicycle, traffic jam), m/s: below it the noise threshold is 20 m, above it 10 m.

In 15 drives with errors of 1.5 to 5 m and one or five positions a second, the length of walks was 15 to 970 %
too long without a threshold, and is 0.5 to 31 % too long with it (1 to 173 % with 10 m). The length of city
drives was 0 to 54 % too long, and is 0 to 8 % too long."""
MOVING_NOISE_M = 10.0
"""Noise threshold in a vehicle, m: with a lower one, noise lengthens the route (see above)."""
_NO_WAY = ("leap", "clock")
"""Kinds of gaps that add nothing to the distance: nobody drove there, or the time is unknown."""
_SHORT_M = 1_000.0  # a length is written in metres below it, in kilometres from it


class RoutePositions(NamedTuple):
    """Positions at given times; all ndarray of float64, shape (n_times,), NaN where unknown."""

    lat_deg: Array
    lon_deg: Array
    distance_m: Array
    """Distance along the route from its first position, m."""
    heading_deg: Array
    """Course over ground from true north, degrees; NaN while the receiver stands."""


@dataclass(frozen=True)
class Route:
    """The route of a drive.

    Attributes
    ----------
    table : Table
        ROUTE; its provenance counts the positions that were left out, and has the limits of a gap.
    gaps : Table
        ROUTE_GAPS.
    progress_ns, progress_m : ndarray of int64 and float64, shape (n_speeds,)
        Distance integrated from the logged speed; it is used to interpolate between two positions.
    """

    table: Table
    gaps: Table
    progress_ns: Times
    progress_m: Array

    @property
    def length_m(self) -> float:
        """Length of the route, in metres; NaN without a position."""
        along = self.table["distance_m"]
        return float(along[-1] - along[0]) if len(along) else float("nan")

    def within(self, begin_ns: int | None, end_ns: int | None) -> Route:
        """Return the part of the route from `begin_ns` to before `end_ns`; None leaves a side open.

        Distances are still measured from the begin of the full route.
        """
        table = self.table.within(begin_ns, end_ns)
        gaps = self.gaps.within(begin_ns, None, column="end_ns").within(None, end_ns, column="begin_ns")
        return replace(self, table=table, gaps=gaps)

    def at(self, time_ns: Times) -> RoutePositions:
        """Return the positions at the given times, NaN outside of the route and in its gaps.

        Parameters
        ----------
        time_ns : ndarray of int64, ns since 1970, shape (n_times,)
            In any order; NOT_A_TIME gives NaN.
        """
        if not len(self.table):
            return RoutePositions(*(np.full(len(time_ns), np.nan) for _ in range(4)))
        known, last = self.table["time_ns"], len(self.table) - 1
        after = np.clip(np.searchsorted(known, time_ns, side="left"), 0, last)
        exact = known[after] == time_ns
        # of positions at one time the last: what a logger repeats when it starts comes before its first own
        after = np.where(exact, np.searchsorted(known, time_ns, side="right") - 1, after)
        before = np.where(exact, after, np.maximum(after - 1, 0))
        outside = (time_ns < known[0]) | (time_ns > known[-1]) | (time_ns == NOT_A_TIME)
        unknown = outside | (~exact & (self.table["gap"][after] != ""))
        share = self._share(time_ns, before, after)
        return self._between(before, after, share, unknown)

    def _between(self, before: Numbers, after: Numbers, share: Array, unknown: Mask) -> RoutePositions:
        points = vectors(self.table["lat_deg"], self.table["lon_deg"])
        lat, lon = degrees(points[before] + share[:, None] * (points[after] - points[before]))
        distance, heading = self.table["distance_m"], self.table["heading_deg"]
        at_m = distance[before] + share * (distance[after] - distance[before])
        along = np.where(distance[after] > distance[before], course_deg(points[before], points[after]), np.nan)
        values = (lat, lon, at_m, np.where(before == after, heading[after], along))
        return RoutePositions(*(np.where(unknown, np.nan, each) for each in values))

    def _share(self, time_ns: Times, before: Numbers, after: Numbers) -> Array:
        """Return the share, 0 to 1, of the step between two positions that is completed at each time.

        It follows from the logged speed; without a speed, it is in proportion to the time.
        """
        known = self.table["time_ns"]
        complete_ns = np.maximum(known[after] - known[before], 1)
        share = np.asarray((time_ns - known[before]) / complete_ns, dtype=np.float64)
        if len(self.progress_ns) < 2:
            return np.clip(share, 0.0, 1.0)
        gone = [_progress(self, each) for each in (known[before], time_ns, known[after])]
        way = gone[2] - gone[0]
        by_speed = way > 0
        share[by_speed] = ((gone[1] - gone[0])[by_speed]) / way[by_speed]
        return np.clip(share, 0.0, 1.0)


def _progress(route: Route, time_ns: Times) -> Array:
    origin = route.progress_ns[0]
    known_s, at_s = ((each - origin) / NS_PER_S for each in (route.progress_ns, time_ns))
    return np.asarray(np.interp(at_s, known_s, route.progress_m))


def route_of(position: Table, *, gap_s: float = GAP_S, gap_m: float = GAP_M) -> Route:
    """Return the route of a table of positions.

    Parameters
    ----------
    position : Table
        POSITION of one receiver, in any order.
    gap_s, gap_m : float
        Positions are interpolated between two positions that are at most this time, or this distance, apart.
        A longer gap adds its straight line to the distance; a leap adds nothing.
    """
    rows, left_out = trusted(position)
    time_ns, lat, lon = (position[name][rows] for name in ("time_ns", "lat_deg", "lon_deg"))
    points = vectors(lat, lon)
    step_m = distance_m(points[:-1], points[1:]) if len(rows) else np.empty(0)
    gap = _gaps(len(rows), step_m, np.diff(time_ns) / NS_PER_S, (gap_s, gap_m))
    gap[1:][np.diff(chunks_of(position)[rows]) != 0] = "clock"
    broken = np.isin(gap, _NO_WAY)
    speed = position["speed_mps"][rows]
    counted = _counted(points, _noise_m(speed, position["error_m"][rows]), broken)
    _count_last(counted, points, time_ns, broken)
    columns = {
        "time_ns": time_ns, "row": rows, "lat_deg": lat, "lon_deg": lon, "speed_mps": speed, "gap": gap,
        "distance_m": _distance(points, counted, broken, time_ns), "moved": counted,
        "heading_deg": _heading(points, counted, gap, position["heading_deg"][rows], speed),
    }  # fmt: skip
    facts = {"left_out": left_out, "gap_s": gap_s, "gap_m": gap_m}
    table = Table(ROUTE, columns, position.provenance | facts)
    return Route(table, _gap_table(table, step_m), *_by_speed(position))


def _gaps(rows: int, step_m: Array, seconds: Array, longest: tuple[float, float]) -> Array:
    """Return the kind of the gap between each row and the row before it; empty for the first row."""
    kind = np.full(rows, "", dtype="U7")
    near = (step_m <= longest[1]) & (seconds <= LONGEST_S)
    kind[1:][(seconds > longest[0]) & ~near] = "silence"
    kind[1:][is_leap(step_m, seconds)] = "leap"
    return kind


def _noise_m(speed_mps: Array, error_m: Array) -> Array:
    """Return the distance, in metres, that a position must have from the last accepted one to be accepted."""
    unknown = np.fmin(np.fmax(NOISE_M, 2 * error_m), PARKED_NOISE_M)
    noise = np.where(speed_mps < SLOW_MPS, NOISE_M, MOVING_NOISE_M)
    noise = np.where(speed_mps < STANDING_MPS, PARKED_NOISE_M, noise)
    return np.where(np.isfinite(speed_mps), noise, unknown)


def _counted(points: Array, noise_m: Array, broken: Mask) -> Mask:
    """Return which positions are accepted: those farther than the noise from the last accepted one.

    The first position after a break is always accepted.
    """
    chord = (2 * np.sin(noise_m / (2 * EARTH_M))) ** 2
    counted = np.zeros(len(points), dtype=bool)
    x, y, z = (0.0, 0.0, 0.0)
    rows = zip(points.tolist(), chord.tolist(), broken.tolist(), strict=True)
    for row, ((east, up, north), minimum, begins) in enumerate(rows):
        apart = (east - x) ** 2 + (up - y) ** 2 + (north - z) ** 2
        if row == 0 or begins or apart > minimum:
            counted[row] = True
            x, y, z = east, up, north
    return counted


def _count_last(counted: Mask, points: Array, time_ns: Times, broken: Mask) -> None:
    """Mark the last position before each break, and the last of all, as accepted, in place.

    This is done only if the car was moving there.
    """
    last = np.append(np.flatnonzero(broken), len(points)) - 1
    last = last[last >= 0]
    last = last[~counted[last]]
    before = np.maximum.accumulate(np.where(counted, np.arange(len(counted)), 0))[last]
    seconds = (time_ns[last] - time_ns[before]) / NS_PER_S
    counted[last] = distance_m(points[before], points[last]) >= STANDING_MPS * np.maximum(seconds, 1.0)


def _distance(points: Array, counted: Mask, broken: Mask, time_ns: Times) -> Array:
    """Return the distance along the route at each row, m.

    A row that is not accepted has the distance of the last accepted row. Between two accepted rows so far
    apart that the car moved all the time, the distance is interpolated by time.
    """
    rows = np.flatnonzero(counted)
    if not len(rows):
        return np.empty(0)
    step = np.zeros(len(rows))
    step[1:] = distance_m(points[rows[:-1]], points[rows[1:]])
    step[broken[rows]] = 0.0
    total, at_s = np.cumsum(step), (time_ns - time_ns[0]) / NS_PER_S
    last = np.cumsum(counted) - 1
    seconds = np.append(np.diff(at_s[rows]), 0.0)
    driving = np.append(step[1:], 0.0) >= STANDING_MPS * np.maximum(seconds, 1.0)
    return np.asarray(np.where(driving[last], np.interp(at_s, at_s[rows], total), total[last]))


def _heading(points: Array, counted: Mask, gap: Array, logged: Array, speed: Array) -> Array:
    """Return the course at each row, in degrees from true north.

    It is the logged course while the car drives, else the course between the accepted rows around the row.
    """
    heading = np.full(len(points), np.nan)
    rows = np.flatnonzero(counted)
    if len(rows) > 1:
        broken = gap[rows] != ""
        first = np.where(broken, np.arange(len(rows)), np.arange(len(rows)) - 1).clip(0)
        last = np.minimum(np.arange(len(rows)) + 1, len(rows) - 1)
        last = np.where(broken[last] & (last > np.arange(len(rows))), np.arange(len(rows)), last)
        course = course_deg(points[rows[first]], points[rows[last]])
        heading[rows] = np.where(first < last, course, np.nan)
    driving = (speed >= STANDING_MPS) & (logged >= 0) & (logged <= 360)
    return np.asarray(np.where(driving, logged % 360.0, heading))


def _by_speed(position: Table) -> tuple[Times, Array]:
    """Return the times that have a logged speed, and the distance up to each, integrated from it, in m."""
    time_ns, speed = position["time_ns"], position["speed_mps"]
    rows = np.flatnonzero(np.isfinite(speed) & (time_ns != NOT_A_TIME))
    rows = rows[np.argsort(time_ns[rows], kind="stable")]
    time_ns, speed = time_ns[rows], np.clip(speed[rows], 0.0, FASTEST_MPS)
    gone = np.zeros(len(rows))
    gone[1:] = np.cumsum((speed[1:] + speed[:-1]) / 2 * (np.diff(time_ns) / NS_PER_S))
    return time_ns, gone


def _gap_table(table: Table, step_m: Array) -> Table:
    rows = np.flatnonzero(table["gap"] != "")
    begin, end, length = table["time_ns"][rows - 1], table["time_ns"][rows], step_m[rows - 1]
    kind = table["gap"][rows]
    facts = zip(kind.tolist(), length.tolist(), ((end - begin) / NS_PER_S).tolist(), strict=True)
    reasons = [_reason(each, metres, seconds) for each, metres, seconds in facts]
    columns = {"begin_ns": begin, "end_ns": end, "length_m": length, "kind": kind}
    return Table(ROUTE_GAPS, columns | {"reason": np.array(reasons, dtype="U64")})


def _reason(kind: str, metres: float, seconds: float) -> str:
    if kind == "clock":
        return "its clock was set back"
    if kind == "leap":
        return f"leap of {_length(metres)} in {seconds:.0f} s"
    return f"no position for {seconds:.0f} s and {_length(metres)}"


def _length(metres: float) -> str:
    return f"{metres:.0f} m" if metres < _SHORT_M else f"{metres / _SHORT_M:,.1f} km"


EARTH_M = 6_371_008.8
"""Mean radius of the earth, (2a + b) / 3 of WGS 84 (IUGG)."""


def vectors(lat_deg: Array, lon_deg: Array) -> Array:
    """Return points as unit vectors.

    Parameters
    ----------
    lat_deg, lon_deg : ndarray of float64, degrees, shape (n,)

    Returns
    -------
    ndarray of float64, shape (n, 3)
        NaN where a coordinate is NaN.
    """
    lat, lon = np.radians(lat_deg), np.radians(lon_deg)
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)


def degrees(points: Array) -> tuple[Array, Array]:
    """Return latitudes and longitudes of vectors of any length, in degrees; two arrays of shape (n,)."""
    x, y, z = points[:, 0], points[:, 1], points[:, 2]
    return np.degrees(np.arctan2(z, np.hypot(x, y))), np.degrees(np.arctan2(y, x))


def distance_m(a: Array, b: Array) -> Array:
    """Return the great-circle distances between points.

    Parameters
    ----------
    a, b : ndarray of float64, shape (n, 3)
        Unit vectors.

    Returns
    -------
    ndarray of float64, metres, shape (n,)
        Accurate also for points a centimetre apart: the sine of half the angle is half the chord.
    """
    half = np.sqrt(((a - b) ** 2).sum(axis=1)) / 2
    return np.asarray(2 * EARTH_M * np.arcsin(np.minimum(half, 1.0)))


def course_deg(a: Array, b: Array) -> Array:
    """Return the initial course from points `a` to points `b`, 0 to 360 degrees clockwise from true north.

    Parameters
    ----------
    a, b : ndarray of float64, shape (n, 3)
        Unit vectors. The course between equal points is 0.
    """
    east = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    north = b[:, 2] * (a[:, 0] ** 2 + a[:, 1] ** 2) - a[:, 2] * (a[:, 0] * b[:, 0] + a[:, 1] * b[:, 1])
    return np.asarray(np.degrees(np.arctan2(east, north)) % 360.0)


FASTEST_MPS = 500 / 3.6
"""Maximum speed of a vehicle, m/s: 500 km/h is the fastest mobile of TR 38.913 (trains)."""
STAMP_S = 1.0
"""Error of the time between two log lines, s: drive-test logs write full seconds, so the positions may be this much
farther apart in time."""
STANDING_MPS = 1.0
"""Maximum speed while standing, m/s: slower than a walk (1.4 m/s); parked receivers report up to about 0.5 m/s. Not
measured."""
_ZERO_DEG = 1e-6  # a tenth of a metre: six decimals, as logs write them, of exactly 0
_HELD_SHARE = 0.1
"""Minimum share of repeated positions, of those read while driving, in a log that repeats old positions. A receiver
with a new fix almost never repeats seven decimals (a drive of the UCC data set: 96 %)."""
_OUTLIERS = 3
"""Maximum number of consecutive outliers; more are a real place (the far end of a tunnel). Not measured."""


def trusted(position: Table) -> tuple[Numbers, dict[str, int]]:
    """Return the rows of POSITION that can be trusted, sorted by time, and counts of the others.

    Parameters
    ----------
    position : Table
        POSITION, in any order.

    Returns
    -------
    rows : ndarray of int64, shape (n,)
        Sorted by `time_ns`; rows of equal time keep their order.
    skipped : dict of str to int
        Number of rows left out, by reason; reasons without rows are omitted. "out of order" counts rows that
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
    for reason, keep in (("repeated", _read_anew), ("stray", _without_outliers), ("repeated", _not_held)):
        fewer = keep(position, kept)
        skipped[reason] = skipped.get(reason, 0) + len(kept) - len(fewer)
        kept = fewer
    return kept, {reason: count for reason, count in skipped.items() if count}


def is_leap(length_m: Array, seconds: Array) -> Mask:
    """Return which steps between two positions are longer than any vehicle can move in that time.

    Parameters
    ----------
    length_m : ndarray of float64, metres, shape (n,)
    seconds : ndarray of float64, s, shape (n,)
        Time between the two positions, >= 0.
    """
    return np.asarray(length_m > FASTEST_MPS * (seconds + STAMP_S))


def _faults(position: Table) -> list[tuple[str, Mask]]:
    lat, lon = position["lat_deg"], position["lon_deg"]
    return [
        ("no time", position["time_ns"] == NOT_A_TIME),
        ("before its clock was set back", overtaken(position["time_ns"], chunks_of(position))),
        ("no position", ~(np.isfinite(lat) & np.isfinite(lon))),
        ("no fix", position["fix"] == 0),
        ("0/0", (np.abs(lat) < _ZERO_DEG) & (np.abs(lon) < _ZERO_DEG)),
        ("beyond the earth", (np.abs(lat) > 90) | (np.abs(lon) > 180)),
    ]


def _read_anew(position: Table, rows: Numbers) -> Numbers:
    """Return the rows without repetitions of an old position, for a logger that repeats old positions."""
    lat, lon, speed = (position[name][rows] for name in ("lat_deg", "lon_deg", "speed_mps"))
    repeated = np.zeros(len(rows), dtype=bool)
    repeated[1:] = (lat[1:] == lat[:-1]) & (lon[1:] == lon[:-1])
    driving = speed >= STANDING_MPS
    held = driving.any() and repeated[driving].mean() >= _HELD_SHARE
    return rows[~repeated] if held else rows


def _not_held(position: Table, rows: Numbers) -> Numbers:
    """Return the rows without positions that the logger repeated while the car was in a tunnel.

    Such a position was read before the tunnel and has a later time. The step from it to the first position behind the
    tunnel is impossibly long, but it is possible if measured from the time at which the position was new.
    """
    lat, lon = position["lat_deg"][rows], position["lon_deg"][rows]
    time_s = position["time_ns"][rows] / NS_PER_S
    new = np.flatnonzero(np.append(True, (lat[1:] != lat[:-1]) | (lon[1:] != lon[:-1]))[: len(rows)])
    if len(new) < 2:
        return rows
    points = vectors(lat[new], lon[new])
    step_m, last = distance_m(points[:-1], points[1:]), new[1:] - 1
    held = is_leap(step_m, time_s[new[1:]] - time_s[last]) & ~is_leap(step_m, time_s[new[1:]] - time_s[new[:-1]])
    gone = np.zeros(len(rows), dtype=bool)
    for first, end in zip(new[:-1][held].tolist(), new[1:][held].tolist(), strict=True):
        gone[first + 1 : end] = True
    return rows[~gone]


def _without_outliers(position: Table, rows: Numbers) -> Numbers:
    if len(rows) < 3:
        return rows
    points = vectors(position["lat_deg"][rows], position["lon_deg"][rows])
    time_s = (position["time_ns"][rows] - position["time_ns"][rows[0]]) / NS_PER_S
    leaps = np.flatnonzero(is_leap(distance_m(points[:-1], points[1:]), np.diff(time_s)))
    outlier = np.zeros(len(rows), dtype=bool)
    before = -1  # last row that is known to be good
    for first, last in zip((leaps[:-1] + 1).tolist(), leaps[1:].tolist(), strict=True):
        before = first - 1 if not outlier[first - 1] else before
        ends = np.array([before, last + 1])
        a, b = points[ends[:1]], points[ends[1:]]
        agree = not is_leap(distance_m(a, b), np.diff(time_s[ends]))[0]
        if last - first < _OUTLIERS and before >= 0 and agree:
            outlier[first : last + 1] = True
    return rows[~outlier]
