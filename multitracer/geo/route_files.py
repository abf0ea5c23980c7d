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
from html import escape as html
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr
from xml.sax.saxutils import escape as xml

import numpy as np

from multitracer import __version__
from multitracer.analysis.mobility.handovers import bounds_ns
from multitracer.analysis.series.labelled import GPS_SPEED, RADIO_SERIES
from multitracer.diagnosis.drive import Drive, drive_of
from multitracer.errors import InputError
from multitracer.figures.palette import SCALES
from multitracer.geo.track import DIGITS, RouteColour, Track, TrackMark, stamp
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S
from multitracer.words import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.geo.track import Run
    from multitracer.recording.radio_context import RadioContext
    from multitracer.recording.recording import Recording
    from multitracer.tables import Document, Table


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
