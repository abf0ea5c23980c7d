"""The base map of a drive: lines of a GeoJSON file around the route; and the still picture of a route."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import multitracer as mt
from multitracer.errors import InputError
from multitracer.report import base_map
from multitracer.report.base_map import read_base_map
from multitracer.report.route_map import drawn_route, map_document
from multitracer.tables import Table
from tests.cli.program import call
from tests.cli.test_without_capture import CSV
from tests.report.test_pack import unpacked_columns
from tests.report.test_route_map import straight

if TYPE_CHECKING:
    from pathlib import Path

M = float(np.degrees(1 / 6_371_008.8))
"""Degrees of latitude in a metre."""


def file(tmp_path: Path, *geometries: object) -> Path:
    path = tmp_path / "roads <b>.geojson"
    features = [{"type": "Feature", "properties": {"name": "<script>"}, "geometry": each} for each in geometries]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


def line(*metres: tuple[float, float]) -> dict[str, Any]:
    """Return a line by metres east and north of where the straight drive begins."""
    scale = float(np.cos(np.radians(50)))
    return {"type": "LineString", "coordinates": [[8 + x * M / scale, 50 + y * M] for x, y in metres]}


def drawn(path: Path) -> dict[str, Any]:
    document = map_document(replace(straight(), base=read_base_map(path)))
    assert document is not None
    shown: dict[str, Any] = document["base"]
    return shown


def test_lines_are_metres_in_the_plane_of_the_route(tmp_path: Path) -> None:
    shown = drawn(file(tmp_path, line((100, 0), (100, 300)), line((-50, 900), (50, 900))))
    columns = unpacked_columns(shown)
    np.testing.assert_allclose(columns["x"], [100, 100, -50, 50], atol=1.1)
    np.testing.assert_allclose(columns["y"], [-1000, -700, -100, -100], atol=1.1)
    assert list(columns["joined"]) == [0, 1, 0, 1]


def test_outlines_of_polygons_are_lines_and_points_are_counted(tmp_path: Path) -> None:
    ring = line((0, 0), (90, 0), (90, 90), (0, 0))["coordinates"]
    polygon = {"type": "Polygon", "coordinates": [ring, ring]}
    several = {"type": "MultiPolygon", "coordinates": [[ring]]}
    both = {"type": "GeometryCollection", "geometries": [polygon, several]}
    shown = drawn(file(tmp_path, both, {"type": "Point", "coordinates": [8, 50]}, None))
    assert shown["points"] == 12
    assert "2 of its geometries are no lines" in shown["words"]


def test_only_what_lies_around_the_route_is_kept(tmp_path: Path) -> None:
    shown = drawn(file(tmp_path, line((0, 0), (50, 50), (90_000, 50), (90_000, 90)), line((1e5, 0), (1e5, 9))))
    np.testing.assert_allclose(unpacked_columns(shown)["x"], [0, 50, 90_000], rtol=1e-3)
    far = drawn(file(tmp_path, line((1e5, 0), (1e5, 9))))
    assert "no line of it lies around the route" in far["words"]


def test_many_points_become_a_coarser_line_that_covers_the_same_ground(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_map, "MOST_DRAWN", 100)
    shown = drawn(file(tmp_path, line(*((0.0, float(y)) for y in range(2000)))))
    y = np.array(unpacked_columns(shown)["y"])
    assert 30 < len(y) <= 100
    assert np.ptp(y) > 1900
    assert "within 0.5 km of the route, to 23 m" in shown["words"]


def test_of_too_many_lines_those_near_the_route_stay_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_map, "MOST_DRAWN", 200)
    monkeypatch.setattr(base_map, "_CORRIDORS_M", (200, 100))
    near = line(*((50.0, float(y)) for y in range(0, 2000, 20)))
    far = line(*((900.0, float(y)) for y in range(2000)))
    shown = drawn(file(tmp_path, far, near))
    assert set(np.unique(unpacked_columns(shown)["x"])) <= {49, 50}
    assert "100 of 2,100 points within 0.2 km of the route, to 2 m" in shown["words"]


def test_lines_without_end_in_one_place_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_map, "MOST_DRAWN", 100)
    cross = [line((-20 - i, 900), (20 + i, 1100)) for i in range(200)]
    assert drawn(file(tmp_path, *cross))["points"] <= 100


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "not valid GeoJSON"),
        ("[" * 100_000, "not valid GeoJSON"),
        ("[1]", "not valid GeoJSON"),
        ('{"type": "Topology"}', "contains no line"),
        ('{"type": "LineString", "coordinates": [[1e999, 2], [3, 4]]}', "contains no line"),
        ('{"type": "LineString", "coordinates": [[500000, 5700000], [500010, 5700000]]}', "EPSG:4326"),
        ('{"type": "LineString", "coordinates": [[8, 50], null]}', "contains no line"),
        ('{"type": "LineString", "coordinates": [[8], [9]]}', "contains no line"),
        ('{"type": "LineString", "coordinates": {"0": [8, 50]}}', "contains no line"),
        ('{"type": ["LineString"], "coordinates": [[8, 50], [8, 51]]}', "contains no line"),
        ('{"type": "MultiLineString", "coordinates": 7}', "contains no line"),
        ('{"type": "LineString", "coordinates": [[1' + "0" * 400 + ", 2], [3, 4]]}", "contains no line"),
        ("PMTiles\x03", "a PMTiles file, which is not supported"),
    ],
)
def test_what_is_no_base_map_is_refused_in_a_sentence(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "base.geojson"
    path.write_text(content)
    with pytest.raises(InputError, match=complaint):
        read_base_map(path)


def test_what_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file(tmp_path, line((0, 0), (1, 1), (2, 2)))
    monkeypatch.setattr(base_map, "MOST_POINTS", 2)
    with pytest.raises(InputError, match="more than 2 points"):
        read_base_map(path)
    monkeypatch.setattr(base_map, "MOST_BYTES", 10)
    with pytest.raises(InputError, match="longer than"):
        read_base_map(path)
    deep: dict[str, Any] = line((0, 0), (1, 1))
    for _ in range(30):
        deep = {"type": "GeometryCollection", "geometries": [deep]}
    monkeypatch.undo()
    with pytest.raises(InputError, match="deep"):
        read_base_map(file(tmp_path, deep))


def test_the_report_shows_the_name_as_text_and_warns_without_a_route(tmp_path: Path, sample_sender: Path) -> None:
    log = tmp_path / "drive.csv"
    log.write_text(CSV)
    roads = file(tmp_path, {"type": "LineString", "coordinates": [[-8.4958, 51.8955], [-8.4954, 51.8959]]})
    call("report", log, "--base-map", roads, "-o", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "Base map: roads &lt;b&gt;.geojson: 2 of 2 points around the route" in page
    done = call("report", sample_sender, "--base-map", roads, "-o", tmp_path / "report.html")
    assert "holds no route, so the base map is not used" in done.stderr
    done = call("report", log, "--base-map", tmp_path / "none", "-o", tmp_path / "report.html", status=1)
    assert "not a regular file" in done.stderr


def test_the_session_has_the_same_option_with_the_same_checks(tmp_path: Path, sample_sender: Path) -> None:
    log = tmp_path / "drive.csv"
    log.write_text(CSV)
    roads = file(tmp_path, {"type": "LineString", "coordinates": [[-8.4958, 51.8955], [-8.4954, 51.8959]]})
    mt.open(log).report(tmp_path / "report.html", base_map=roads)
    page = (tmp_path / "report.html").read_text()
    assert "Base map: roads &lt;b&gt;.geojson: 2 of 2 points around the route" in page
    with pytest.raises(InputError, match="not a regular file"):
        mt.open(log).report(tmp_path / "other.html", base_map=tmp_path / "none")
    assert not (tmp_path / "other.html").exists()
    session = mt.open(sample_sender)
    session.report(tmp_path / "sender.html", base_map=roads)
    assert any("holds no route, so the base map is not used" in each for each in session.warnings)


def test_the_still_picture_has_the_route_in_the_colours_of_the_first_quantity() -> None:
    route = drawn_route(straight())
    assert route is not None
    colours = dict(re.findall(r'<path d="(M[^"]*)" stroke="(#\w+)"', route.static))
    falling = ["#91bfdb", "#e0f3f8", "#fee090", "#fc8d59"]
    assert set(colours.values()) >= set(falling)
    ends = {colour: [float(y) for y in re.findall(r"L[\d.]+ ([\d.]+)", path)] for path, colour in colours.items()}
    heights = [np.mean(ends[colour]) for colour in falling]
    assert heights == sorted(heights, reverse=True)  # north is up, and power falls northwards
    assert 'stroke="currentColor" stroke-width="6"' in route.static  # pale colours need an outline
    assert "-100 to -90" in route.static
    assert "200 m" in route.static or "500 m" in route.static


def test_a_gap_of_the_route_is_a_gap_of_the_picture() -> None:
    drive = straight()
    table = drive.route.table.take(np.r_[0:21, 80:101])
    gap = table["gap"].copy()
    gap[21] = "silence"
    radio = {label: series.take(np.r_[0:21, 80:101]) for label, series in drive.series.items()}
    route = replace(drive.route, table=Table(table.schema, table.columns | {"gap": gap}))
    drawn_apart = drawn_route(replace(drive, route=route, series=radio))
    assert drawn_apart is not None
    paths = " ".join(re.findall(r'<path d="(M[^"]*)" stroke="#', drawn_apart.static))
    heights = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", paths)]
    assert min(heights) == pytest.approx(24)
    assert max(heights) == pytest.approx(456)
    assert not [y for y in heights if 112 < y < 368]
