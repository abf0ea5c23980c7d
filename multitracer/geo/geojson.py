"""GeoJSON (RFC 7946): a LineString for each run of one colour, a Point for each mark.

Colours are properties of simplestyle 1.1 (stroke, marker-color), times `coordTimes` as togeojson writes them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from multitracer.geo.track import DIGITS, stamp
from multitracer.words import printable

if TYPE_CHECKING:
    from multitracer.geo.track import Mark, Run, Track
    from multitracer.tables import Document

_WIDTH_PX = 4
_MARK = "#1c2430"


def geojson(track: Track) -> str:
    """Return a track as GeoJSON.

    Returns
    -------
    str
        A FeatureCollection. Each line has for every point `coordTimes` and `values`, null where missing, in
        `unit`. The foreign member `legend` names the classes and their colours.
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


def _line(
    track: Track, run: Run, places: list[list[float]], columns: tuple[list[str], list[float | None]]
) -> Document:
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
    return {
        "type": "Feature",
        "geometry": {"type": "LineString", "coordinates": coordinates},
        "properties": properties,
    }


def _point(mark: Mark, lat: float, lon: float) -> Document:
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
