"""A route joined with one quantity, and divided into runs of one colour."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.errors import InputError
from multitracer.figures.palette import MISSING
from multitracer.tables import NOT_A_TIME
from multitracer.words import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from multitracer.analysis.mobility.route import Route
    from multitracer.figures.palette import Scale
    from multitracer.tables import Array, Mask, Numbers, Table, Times

PLAIN = "#0072b2"
"""Colour of a route that shows no quantity: blue of Okabe and Ito, as in `figures.palette`."""
DIGITS = 7
"""Decimals of coordinates: a centimetre, finer than any receiver of a phone or car."""
_HOLD_NS = 5_000_000_000
"""Default time for which a value remains valid, in ns; as in `analysis.mobility.seconds`."""


class TrackMark(NamedTuple):
    """An event on the route."""

    time_ns: int
    name: str
    """Kind of the point: handover, coverage, note."""
    words: str
    """Description of the point; untrusted text."""


class RouteColour(NamedTuple):
    """The quantity that colours the route."""

    scale: Scale
    series: Table
    """SERIES, on the clock of the route."""

    @property
    def unit(self) -> str:
        """Unit of the values, as in the source."""
        return str(self.series.provenance.get("unit", "")) or self.scale.unit


class Run(NamedTuple):
    """Consecutive points of one class, from `first` to `last`.

    `last` is also the first point of the next run.
    """

    first: int
    last: int
    colour: str
    words: str
    """The class as text with its unit: -100 to -90 dBm; "no value" if the value is missing."""

    @property
    def points(self) -> range:
        """Return the indexes of the points of this run."""
        return range(self.first, self.last + 1)


@dataclass(frozen=True)
class Track:
    """A route with a value at each of its points; all columns have shape (n_points,).

    Attributes
    ----------
    name : str
        Name of the recording; untrusted text.
    quantity : RouteColour or None
        The quantity; None for a route in one colour.
    time_ns : ndarray of int64, ns since 1970
        Times of the positions, and of the readings whose position is known; ascending.
    lat_deg, lon_deg : ndarray of float64, degrees
        Never NaN.
    value : ndarray of float64
        In the unit of the quantity; NaN where missing.
    joined : ndarray of bool
        Whether a line connects the previous point to this one.
    marks : sequence of (Mark, float, float)
        Marks whose position is known, with latitude and longitude in degrees.
    unplaced : int
        Number of marks whose position is not known.
    """

    name: str
    quantity: RouteColour | None
    time_ns: Times
    lat_deg: Array
    lon_deg: Array
    value: Array
    joined: Mask
    marks: Sequence[tuple[TrackMark, float, float]] = field(default=())
    unplaced: int = 0

    @classmethod
    def of(cls, name: str, route: Route, quantity: RouteColour | None, marks: Iterable[TrackMark] = ()) -> Track:
        """Return the track of a route.

        Raises
        ------
        InputError
            If the route has no trustworthy position.
        """
        times = route.table["time_ns"]
        if not len(times):
            left_out = route.table.provenance.get("left_out", {})
            why = ", ".join(f"{count} with {reason}" for reason, count in left_out.items())
            raise InputError(
                f"{name}: this recording contains no reliable position "
                f"({why or 'no position was recorded'}); also record GPS"
            )
        if quantity is not None:
            own = quantity.series["time_ns"]
            times = np.union1d(times, own[own != NOT_A_TIME])
        places = route.at(times)
        known = np.isfinite(places.lat_deg)
        times, lat, lon = times[known], places.lat_deg[known], places.lon_deg[known]
        value = np.full(len(times), np.nan) if quantity is None else held(quantity.series, times)
        joined = _joined(route, times, known, lon)
        placed, unplaced = _placed(route, list(marks))
        return cls(name, quantity, times, lat, lon, value, joined, placed, unplaced)

    @property
    def title(self) -> str:
        """Name of the recording and of the quantity, on one line."""
        words = printable(self.name)
        return words if self.quantity is None else f"{words}: {self.quantity.scale.title}"

    @cached_property
    def legend(self) -> list[tuple[str, str]]:
        """Return text and colour of each class; the last class is that of missing values."""
        if self.quantity is None:
            return [("route", PLAIN)]
        scale = self.quantity.scale
        words = [_with_unit(each, scale.unit) for each in scale.words()]
        return [*zip(words, scale.colours, strict=True), ("no value", MISSING)]

    @cached_property
    def runs(self) -> list[Run]:
        """Return the runs of one colour, in order of time; a single point between gaps is in no run."""
        classes = self._classes
        lines = np.flatnonzero(self.joined[1:])  # from each of these points to the next
        if not len(lines):
            return []
        begins = np.append(True, (np.diff(lines) > 1) | (np.diff(classes[lines]) != 0))
        first = lines[begins]
        last = lines[np.append(np.flatnonzero(begins)[1:] - 1, len(lines) - 1)] + 1
        words = [self.legend[number] for number in classes[first].tolist()]
        return [
            Run(a, b, colour, word) for a, b, (word, colour) in zip(first.tolist(), last.tolist(), words, strict=True)
        ]

    @property
    def _classes(self) -> Numbers:
        """Return the index of each point's class in the legend: int64, shape (n_points,)."""
        if self.quantity is None:
            return np.zeros(len(self.value), dtype=np.int64)
        classes = self.quantity.scale.classes(self.value)
        return np.where(classes < 0, len(self.legend) - 1, classes)

    def stamps(self) -> list[str]:
        """Return the times of the points as ISO 8601 in UTC, to the microsecond."""
        return [f"{text}Z" for text in np.datetime_as_string(self.time_ns.view("datetime64[ns]"), unit="us")]

    def values(self) -> list[float | None]:
        """Return the values of the points, None where missing."""
        return [None if each != each else each for each in self.value.tolist()]  # noqa: PLR0124 - NaN


def _with_unit(words: str, unit: str) -> str:
    """Return the text of a class with its unit: -120 to -110 dBm, -80 dBm or more."""
    number, more, _ = words.partition(" or more")
    return f"{number} {unit}".strip() + more


def stamp(time_ns: int) -> str:
    """Return a time as ISO 8601 in UTC, to the microsecond."""
    return f"{np.datetime_as_string(np.datetime64(time_ns, 'ns'), unit='us')}Z"


def held(series: Table, time_ns: Times) -> Array:
    """Return the last value of SERIES at or before each time; NaN if that value is too old.

    Parameters
    ----------
    series : Table
        SERIES; `gap_ns` of its provenance is the time for which a value remains valid.
    time_ns : ndarray of int64, ns since 1970, shape (n,)

    Returns
    -------
    ndarray of float64, shape (n,)
        NaN before the first value, and where the last value is older than `gap_ns`.
    """
    known = np.flatnonzero(np.isfinite(series["value"]) & (series["time_ns"] != NOT_A_TIME))
    known = known[np.argsort(series["time_ns"][known], kind="stable")]
    own, value = series["time_ns"][known], series["value"][known]
    if not len(own):
        return np.full(len(time_ns), np.nan)
    row = np.searchsorted(own, time_ns, side="right") - 1
    fresh = (row >= 0) & (time_ns - own[np.maximum(row, 0)] <= int(series.provenance.get("gap_ns", _HOLD_NS)))
    return np.asarray(np.where(fresh, value[row], np.nan))


def _joined(route: Route, times: Times, known: Mask, lon: Array) -> Mask:
    """Return for each known point whether a line connects the previous point to it.

    No line crosses a time with an unknown position, a gap, or the date line.
    """
    joined = np.append(False, known[1:] & known[:-1])[known]
    chunk = np.searchsorted(route.gaps["end_ns"], times, side="right")
    joined[1:] &= (np.diff(chunk) == 0) & (np.abs(np.diff(lon)) < 180)
    return joined


def _placed(route: Route, marks: list[TrackMark]) -> tuple[list[tuple[TrackMark, float, float]], int]:
    places = route.at(np.array([mark.time_ns for mark in marks], dtype=np.int64))
    rows = zip(marks, places.lat_deg.tolist(), places.lon_deg.tolist(), strict=True)
    placed = [(mark, lat, lon) for mark, lat, lon in rows if lat == lat]  # noqa: PLR0124 - NaN
    return placed, len(marks) - len(placed)
