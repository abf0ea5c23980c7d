"""GeoJSON, KML and GPX of one track, read back with libraries of others: same places, values and colours."""

from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.analysis.mobility.route import Route, route_of
from multitracer.analysis.series.labelled import series_table
from multitracer.errors import InputError
from multitracer.figures.palette import MISSING, SCALES
from multitracer.geo.route_files import PLAIN, RouteColour, Track, TrackMark, geojson, gpx, kml
from multitracer.schemas.radio import POSITION
from multitracer.units import NS_PER_S
from parsers import gpx as gpx_format
from tests.analysis.mobility.tables import BEGIN_NS, at_ns, table_of
from tests.analysis.mobility.test_route import north

_KML = "{http://www.opengis.net/kml/2.2}"
HOSTILE = '</name><script>alert("1")</script>\x00\x1b[2J&amp;"\'\ud800'


def route(seconds: range | list[int] = range(30)) -> Route:
    return route_of(table_of(POSITION, [north(t, 10.0 * t, speed_mps=10.0) for t in seconds]))


def rsrp(values: dict[float, float]) -> RouteColour:
    time = np.array([at_ns(t) for t in values], dtype=np.int64)
    value = np.array(list(values.values()))
    series = series_table("Radio_rsrp", time, value, unit="dBm", doc="")
    series.provenance["gap_ns"] = 5 * NS_PER_S
    return RouteColour(SCALES["Radio_rsrp"], series)


def track(*marks: TrackMark, name: str = "drive") -> Track:
    """Return 30 s: RSRP good, then bad from 10.5 s on, then unknown from 16 s."""
    return Track.of(name, route(), rsrp({0: -77.5, 5: -79, 9: -75, 10.5: -113.25, 11: -111}), marks)


def seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).astimezone(UTC).timestamp() - BEGIN_NS / NS_PER_S


def flat(points: list[tuple[float, float, float, float | None]]) -> list[tuple[float, ...]]:
    return [(round(lon, 7), round(lat, 7), t, np.nan if v is None else v) for lon, lat, t, v in points]


def of_geojson(text: str) -> list[tuple[str, list[tuple[float, ...]]]]:
    runs = []
    for feature in json.loads(text)["features"]:
        if feature["geometry"]["type"] == "LineString":
            facts = feature["properties"]
            columns = feature["geometry"]["coordinates"], facts["coordTimes"], facts["values"]
            points = [(lon, lat, seconds(s), v) for (lon, lat), s, v in zip(*columns, strict=True)]
            runs.append((facts["stroke"], flat(points)))
    return runs


def of_kml(text: str) -> list[tuple[str, list[tuple[float, ...]]]]:
    document = pytest.importorskip("fastkml").kml.KML.from_string(text.partition("\n")[2]).features[0]
    styles = {f"#{style.id}": next(iter(style.styles)) for style in document.styles}
    runs = []
    for folder in document.features:
        for placemark in folder.features:
            if placemark.geometry.geom_type == "LineString":
                data = {each.name: each.value for each in placemark.extended_data.elements}
                abgr = styles[placemark.style_url.url].color
                columns = placemark.geometry.coords, data["times"].split(), data["values"].split()
                points = [
                    (*place[:2], seconds(s), None if v == "NA" else float(v))
                    for place, s, v in zip(*columns, strict=True)
                ]
                runs.append((f"#{abgr[6:8]}{abgr[4:6]}{abgr[2:4]}", flat(points)))
    return sorted(runs, key=lambda run: run[1][0][2])


def of_gpx(text: str) -> list[tuple[str, list[tuple[float, ...]]]]:
    runs = []
    for each in pytest.importorskip("gpxpy").parse(text).tracks:
        (line,) = each.extensions
        points = [
            (
                p.longitude,
                p.latitude,
                seconds(p.time.isoformat()),
                float(p.extensions[0].text) if p.extensions else None,
            )
            for p in each.segments[0].points
        ]
        runs.append((f"#{line[0].text}", flat(points)))
    return runs


def test_runs_are_cut_where_the_class_changes() -> None:
    colours = SCALES["Radio_rsrp"].colours
    runs = of_geojson(geojson(track()))
    assert [(colour, points[0][2], points[-1][2]) for colour, points in runs] == [
        (colours[5], 0, 10.5), (colours[1], 10.5, 17), (MISSING, 17, 29),
    ]  # fmt: skip


def test_values_are_those_of_the_source_to_the_digit() -> None:
    by_time = {point[2]: point[3] for _, points in of_geojson(geojson(track())) for point in points}
    assert [by_time[t] for t in (0, 4, 5, 10, 10.5, 16)] == [-77.5, -77.5, -79, -75, -113.25, -111]
    assert np.isnan(by_time[17])


def test_three_formats_say_the_same() -> None:
    one = track(TrackMark(at_ns(3), "handover", "complete"))
    expected = of_geojson(geojson(one))
    assert len(expected) == 3
    for runs in (of_kml(kml(one)), of_gpx(gpx(one))):
        assert [colour for colour, _ in runs] == [colour for colour, _ in expected]
        for (_, points), (_, others) in zip(runs, expected, strict=True):
            np.testing.assert_array_equal(np.array(points), np.array(others))


def test_legend_names_classes_units_and_the_colour_of_missing_values() -> None:
    words = [("-100 to -90 dBm", "#e0f3f8"), ("no value", MISSING)]
    legend = [(each["class"], each["colour"]) for each in json.loads(geojson(track()))["legend"]]
    assert [legend[3], legend[-1]] == words
    assert legend[5][0] == "-80 dBm or more"
    assert "-100 to -90 dBm: #e0f3f8" in gpx(track())
    folders = {each.text for each in ET.fromstring(kml(track())).iter(f"{_KML}name")}
    assert {"drive: RSRP", "no value", "-120 to -110 dBm"} <= folders


def test_own_parser_reads_the_gpx() -> None:
    one = track(TrackMark(at_ns(3), "handover", "complete"))
    tables = gpx_format.parse(io.BytesIO(gpx(one).encode()), path="x.gpx")
    times = set(tables["position"]["time_ns"].tolist())
    assert times == set(one.time_ns.tolist())
    assert tables["markers"]["note"].tolist()[0].startswith("handover")


def test_no_line_crosses_a_gap() -> None:
    seconds = [*range(5), *range(40, 45)]
    one = Track.of("drive", route(seconds), None)
    assert [(run.first, run.last, run.colour) for run in one.runs] == [(0, 4, PLAIN), (5, 9, PLAIN)]


def test_no_line_crosses_the_date_line() -> None:
    rows = [{"at": t, "lat_deg": 0.0001, "lon_deg": 179.9995 + 0.0002 * t - 360 * (t > 2)} for t in range(6)]
    one = Track.of("drive", route_of(table_of(POSITION, rows)), None)
    assert [(run.first, run.last) for run in one.runs] == [(0, 2), (3, 5)]


def test_hostile_names_stay_text() -> None:
    one = track(TrackMark(at_ns(3), HOSTILE, HOSTILE), name=HOSTILE)
    shown = HOSTILE.replace("\x00", "\\x00").replace("\x1b", "\\x1b").replace("\ud800", "\\ud800")
    point = json.loads(geojson(one))["features"][-1]["properties"]
    assert (point["name"], point["description"]) == (shown, shown)
    root = ET.fromstring(gpx(one))
    (desc,) = (each.text for each in root.iter("{http://www.topografix.com/GPX/1/1}desc") if "script" in str(each.text))
    assert desc == shown
    root = ET.fromstring(kml(one))
    (balloon,) = (str(each.text) for each in root.iter(f"{_KML}description"))
    assert "<" not in balloon  # rendered as HTML it is text
    assert "&lt;script&gt;" in balloon
    for text in (geojson(one), kml(one), gpx(one)):
        text.encode("utf-8")


def test_marks_without_a_place_are_counted() -> None:
    one = track(TrackMark(at_ns(3), "a", ""), TrackMark(at_ns(300), "b", ""))
    assert (len(one.marks), one.unplaced) == (1, 1)


def test_route_without_a_position_is_refused() -> None:
    empty = route_of(table_of(POSITION, [{"at": 0, "lat_deg": 0.0, "lon_deg": 0.0}]))
    with pytest.raises(InputError, match=re.escape("drive: this recording contains no reliable position (1 with 0/0)")):
        Track.of("drive", empty, None)


@given(
    st.lists(st.tuples(st.integers(0, 60), st.floats(-300, 300) | st.just(np.nan)), max_size=15),
    st.lists(st.integers(0, 60), min_size=1, max_size=20),
    st.text(max_size=10),
)
def test_any_track_gives_three_documents(drawn: list[tuple[int, float]], at: list[int], name: str) -> None:
    values = dict(sorted(drawn))
    one = Track.of(name, route(sorted(set(at))), rsrp({float(t): v for t, v in values.items()}))
    runs = json.loads(geojson(one))["features"]
    for text in (kml(one), gpx(one)):
        ET.fromstring(text.encode())
    points: list[Any] = [point for run in runs for point in run["geometry"]["coordinates"]]
    assert all(-90 <= lat <= 90 and -180 <= lon <= 180 for lon, lat in points)
    assert all(len(run["geometry"]["coordinates"]) >= 2 for run in runs)
