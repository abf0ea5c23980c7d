"""Converts a track to GeoJSON (RFC 7946), GPX 1.1 (topografix.com) or KML 2.2 (OGC 07-147r2).

GeoJSON: a LineString for each run of one colour, a Point for each mark. Colours are properties of simplestyle
1.1 (stroke, marker-color), times `coordTimes` as togeojson writes them.

GPX: a track for each run of one colour, a waypoint for each mark. The extension gpx_style 0.2 has the colour;
MultiTracer's own extension has the value of a point as a number, with the unit as an attribute.

KML: a folder for each class of the legend, with its lines; a folder of marks. Google Earth renders a
description as HTML: text from the input is escaped twice, for HTML and for XML. Each line has a TimeSpan, so
that the program's slider follows the drive.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from html import escape as html
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from xml.sax.saxutils import escape, quoteattr
from xml.sax.saxutils import escape as xml

import numpy as np

from multitracer import __version__
from multitracer.analysis.mobility.handovers import bounds_ns
from multitracer.analysis.series.labelled import GPS_SPEED, RADIO_SERIES
from multitracer.diagnosis.drive import Drive, drive_of
from multitracer.errors import InputError
from multitracer.figures.palette import MISSING, SCALES
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S
from multitracer.words import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from multitracer.analysis.mobility.route import Route
    from multitracer.figures.palette import Scale
    from multitracer.recording.radio_context import RadioContext
    from multitracer.recording.recording import Recording
    from multitracer.tables import Array, Document, Mask, Numbers, Table, Times


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


_WIDTH_PX = 4
_MARK = "#1c2430"


def geojson(track: Track) -> str:
    """Return a track as GeoJSON.

    Returns
    -------
    str
        A FeatureCollection. The properties of each line contain `coordTimes` and `values` (in `unit`, null
        where missing), one for each point. The foreign member `legend` has the classes and their colours.
    """
    values, stamps = track.values(), track.stamps()
    places = _places(track)
    lines = [_line(track, run, places, (stamps, values)) for run in track.runs]
    document: Document = {
        "type": "FeatureCollection",
        "name": track.title,
        "legend": [{"class": words, "colour": colour} for words, colour in track.legend],
        "features": [*lines, *(_point(mark, lat, lon) for mark, lat, lon in track.marks)],
    }
    return json.dumps(document, allow_nan=False, separators=(",", ":")) + "\n"


def _places(track: Track) -> list[list[float]]:
    rows = zip(track.lon_deg.tolist(), track.lat_deg.tolist(), strict=True)
    return [[round(lon, DIGITS), round(lat, DIGITS)] for lon, lat in rows]


def _line(track: Track, run: Run, places: list[list[float]], columns: tuple[list[str], list[float | None]]) -> Document:
    stamps, values = ([column[number] for number in run.points] for column in columns)
    properties: Document = {
        "name": run.words,
        "stroke": run.colour,
        "stroke-width": _WIDTH_PX,
        "begin": stamps[0],
        "end": stamps[-1],
        "coordTimes": stamps,
    }
    if track.quantity is not None:
        properties |= {"quantity": track.quantity.scale.title, "unit": track.quantity.unit, "values": values}
    coordinates = [places[number] for number in run.points]
    return {"type": "Feature", "geometry": {"type": "LineString", "coordinates": coordinates}, "properties": properties}


def _point(mark: TrackMark, lat: float, lon: float) -> Document:
    return {
        "type": "Feature",
        "geometry": {"type": "Point", "coordinates": [round(lon, DIGITS), round(lat, DIGITS)]},
        "properties": {
            "name": printable(mark.name),
            "description": printable(mark.words),
            "time": stamp(mark.time_ns),
            "marker-color": _MARK,
        },
    }


NAMESPACE = "urn:multitracer:track:1"
"""XML namespace of the element `value` in the extensions of a point."""
_STYLE = "http://www.topografix.com/GPX/gpx_style/0/2"


def gpx(track: Track) -> str:
    """Return a track as GPX.

    Returns
    -------
    str
        Waypoints, then tracks in order of time. A point without a value has no extension. The description
        names the classes and their colours.
    """
    return "\n".join(_lines(track)) + "\n"


def _lines(track: Track) -> Iterator[str]:
    legend = "; ".join(f"{words}: {colour}" for words, colour in track.legend)
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f'<gpx version="1.1" creator="MultiTracer {__version__}" xmlns="http://www.topografix.com/GPX/1/1"'
    yield f' xmlns:mt="{NAMESPACE}">'
    yield f"<metadata><name>{_text(track.title)}</name><desc>{_text(legend)}</desc></metadata>"
    yield from (_mark(mark, lat, lon) for mark, lat, lon in track.marks)
    unit = "" if track.quantity is None else quoteattr(track.quantity.unit)
    extensions = [
        "" if value is None else f"<extensions><mt:value unit={unit}>{value!r}</mt:value></extensions>"
        for value in track.values()
    ]
    stamps = track.stamps()
    for run in track.runs:
        yield from _track(track, run, stamps, extensions)
    yield "</gpx>"


def _track(track: Track, run: Run, stamps: list[str], extensions: list[str]) -> Iterator[str]:
    yield f'<trk><name>{_text(run.words)}</name><extensions><line xmlns="{_STYLE}">'
    yield f"<color>{run.colour[1:]}</color></line></extensions><trkseg>"
    for n in run.points:
        place = f'lat="{track.lat_deg[n]:.{DIGITS}f}" lon="{track.lon_deg[n]:.{DIGITS}f}"'
        yield f"<trkpt {place}><time>{stamps[n]}</time>{extensions[n]}</trkpt>"
    yield "</trkseg></trk>"


def _mark(mark: TrackMark, lat: float, lon: float) -> str:
    return (
        f'<wpt lat="{lat:.{DIGITS}f}" lon="{lon:.{DIGITS}f}"><time>{stamp(mark.time_ns)}</time>'
        f"<name>{_text(mark.name)}</name><desc>{_text(mark.words)}</desc></wpt>"
    )


def _text(text: str) -> str:
    return escape(printable(text))


def kml(track: Track) -> str:
    """Return a track as KML.

    Returns
    -------
    str
        A Document with a style and a folder for each class. Each line has, in ExtendedData, the times and
        the values of its points, separated by spaces, in `unit`; a missing value is "NA".
    """
    return "\n".join(_kml_lines(track)) + "\n"


def _kml_lines(track: Track) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<kml xmlns="http://www.opengis.net/kml/2.2">'
    yield f"<Document><name>{_kml_text(track.title)}</name>"
    for number, (_, colour) in enumerate(track.legend):
        yield f'<Style id="class{number}"><LineStyle><color>{_abgr(colour)}</color>'
        yield f"<width>{_WIDTH_PX}</width></LineStyle></Style>"
    values = ["NA" if value is None else repr(value) for value in track.values()]
    columns = track.stamps(), values
    for number, (words, _) in enumerate(track.legend):
        runs = [run for run in track.runs if run.words == words]
        if runs:
            yield f"<Folder><name>{_kml_text(words)}</name>"
            for run in runs:
                yield from _placemark(track, run, number, columns)
            yield "</Folder>"
    if track.marks:
        yield "<Folder><name>Marks</name>"
        yield from (_kml_mark(mark, lat, lon) for mark, lat, lon in track.marks)
        yield "</Folder>"
    yield "</Document></kml>"


def _placemark(track: Track, run: Run, number: int, columns: tuple[list[str], list[str]]) -> Iterator[str]:
    stamps, values = ([column[point] for point in run.points] for column in columns)
    yield f"<Placemark><name>{_kml_text(run.words)}</name>"
    yield f"<TimeSpan><begin>{stamps[0]}</begin><end>{stamps[-1]}</end></TimeSpan>"
    yield f"<styleUrl>#class{number}</styleUrl><ExtendedData>"
    if track.quantity is not None:
        yield _data("quantity", track.quantity.scale.title)
        yield _data("unit", track.quantity.unit)
        yield _data("values", " ".join(values))
    yield _data("times", " ".join(stamps))
    yield "</ExtendedData><LineString><tessellate>1</tessellate><coordinates>"
    yield " ".join(f"{track.lon_deg[n]:.{DIGITS}f},{track.lat_deg[n]:.{DIGITS}f}" for n in run.points)
    yield "</coordinates></LineString></Placemark>"


def _kml_mark(mark: TrackMark, lat: float, lon: float) -> str:
    return (
        f"<Placemark><name>{_kml_text(mark.name)}</name>"
        f"<description>{xml(html(printable(mark.words)))}</description>"
        f"<TimeStamp><when>{stamp(mark.time_ns)}</when></TimeStamp>"
        f"<Point><coordinates>{lon:.{DIGITS}f},{lat:.{DIGITS}f}</coordinates></Point></Placemark>"
    )


def _data(name: str, value: str) -> str:
    return f'<Data name="{name}"><value>{_kml_text(value)}</value></Data>'


def _kml_text(text: str) -> str:
    return xml(printable(text))


def _abgr(colour: str) -> str:
    """Return a colour in the format of KML: aabbggrr, opaque."""
    red, green, blue = colour[1:3], colour[3:5], colour[5:7]
    return f"ff{blue}{green}{red}"


# Makes the track of a recording: route, quantity for the colour, and events on the route.


COLUMNS = {shown.column: label for label, shown in RADIO_SERIES.items()} | {"speed_mps": GPS_SPEED}
"""Label of the series, by the column of radio or position."""
PLAIN_ROUTE = "none"
"""Value of the option for a route without a quantity."""


def recorded_track(recording: Recording, colour: str | None = None) -> Track:
    """Return the track of a recording.

    With a capture, times are those of the sender's clock, as in the report.

    Parameters
    ----------
    recording : Recording
    colour : str, optional
        A column of COLUMNS, the label of its series, or "none". Default: the first of the map's quantities
        that was recorded (RSRP, then RSSI, RSCP, ...).

    Raises
    ------
    InputError
        If the recording has no trustworthy position, or no value of the requested quantity.
    """
    drive = drive_of(recording)
    if drive.route is None:
        drive = Drive(recording.radio_context())
    if drive.route is None:
        raise InputError(f"{recording.name}: this recording contains no reliable position; also record GPS")
    quantity = _quantity(recording, drive.radio_context, colour)
    return Track.of(recording.name, drive.route, quantity, _marks(drive))


def writer_of(path: str) -> Callable[[Track], str]:
    """Return the function that writes a track in the format of the file name's extension.

    Raises
    ------
    InputError
        If no format has this extension.
    """
    ending = Path(path).suffix.lower()
    if ending not in _WRITERS:
        raise InputError(f"{path}: the suffix is not a known route format; use .geojson, .kml or .gpx")
    return _WRITERS[ending]


_WRITERS: dict[str, Callable[[Track], str]] = {".geojson": geojson, ".json": geojson, ".kml": kml, ".gpx": gpx}


def _quantity(recording: Recording, radio_context: RadioContext, colour: str | None) -> RouteColour | None:
    if colour == PLAIN_ROUTE:
        return None
    there = {label: table for label, table in radio_context.series.items() if label in SCALES and len(table)}
    if colour is None:
        return next((RouteColour(SCALES[each], there[each]) for each in SCALES if each in there), None)
    label = COLUMNS.get(colour, colour)
    if label not in there:
        known = ", ".join(column for column, label in COLUMNS.items() if label in there) or "nothing"
        raise InputError(f'{recording.name}: the quantity "{colour}" was not recorded; choose one of {known}')
    return RouteColour(SCALES[label], there[label])


def _marks(drive: Drive) -> Iterator[TrackMark]:
    """Yield a mark for each cell change, bad segment and note of the engineer."""
    for placed in drive.radio_context.markers:
        notes = zip(placed.table["time_ns"].tolist(), placed.table["note"].tolist(), strict=True)
        yield from (TrackMark(time, "note", note or "marked") for time, note in notes if time != NOT_A_TIME)
    for phone in drive.phones[:1]:  # the one that the report shows
        yield from chain(_handovers(phone.handovers), _stretches(drive.stretches))


def _handovers(handovers: Table) -> Iterator[TrackMark]:
    low, high = bounds_ns(handovers)
    for row, took_s in zip(handovers.rows(), ((high - low) / NS_PER_S).tolist(), strict=True):
        rats = [name for name in (row["source_rat"], row["target_rat"]) if name]
        technology = f", {rats[0]} to {rats[1]}" if len(rats) == 2 and rats[0] != rats[1] else ""
        words = f"{row['result']}, shown by the {row['evidence']}, within {took_s:.3g} s{technology}"
        yield TrackMark(row["time_ns"], "change of the cell", words)


def _stretches(bad: Table) -> Iterator[TrackMark]:
    middle = bad["begin_ns"] + (bad["end_ns"] - bad["begin_ns"]) // 2
    for row in np.argsort(bad["begin_ns"], kind="stable").tolist():
        cause = _cause_seconds(bad, row)
        length = f"{bad['seconds'][row]:.0f} s" + (f" (its cause {cause:.0f} s)" if cause else "")
        words = f"{length}: {bad['evidence'][row] or bad['missing'][row]}"
        yield TrackMark(int(middle[row]), str(bad["cause"][row]), words)


def _cause_seconds(bad: Table, row: int) -> float:
    """Return the duration of a bad segment's cause in s, if it differs from the segment's duration.

    Else 0.
    """
    begin, end = (int(bad[name][row]) for name in ("cause_begin_ns", "cause_end_ns"))
    if NOT_A_TIME in (begin, end):
        return 0.0
    cause_s = (end - begin) / NS_PER_S
    return cause_s if abs(cause_s - bad["seconds"][row]) >= 1 else 0.0
