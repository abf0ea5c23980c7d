"""Tracks and waypoints of GPS receivers as GPX."""

from __future__ import annotations

import io
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import multitracer as mt
import parsers
from multitracer.errors import FormatError
from parsers import gpx
from tests.narrowed import parsed
from tests.parsers.damage import OneByteAtATime, damaged, rows_of, survives

if TYPE_CHECKING:
    from pathlib import Path

S = 1_000_000_000
TRACK = b"""<?xml version="1.0" encoding="UTF-8"?>
<gpx version="1.1" creator="a test" xmlns="http://www.topografix.com/GPX/1/1"
 xmlns:gpxtpx="http://www.garmin.com/xmlschemas/TrackPointExtension/v2">
<metadata><time>2020-01-01T00:00:00Z</time></metadata>
<wpt lat="52.5" lon="13.4"><ele>34</ele><time>2021-05-06T14:22:03Z</time><name>tunnel &amp; hole</name></wpt>
<wpt lat="52.5" lon="13.4"><name>no time</name></wpt>
<rte><rtept lat="1" lon="1"><time>2021-05-06T14:22:03Z</time></rtept></rte>
<trk><name>drive</name><trkseg>
<trkpt lat="52.51" lon="13.41"><ele>34.5</ele><time>2021-05-06T14:22:00.250Z</time><fix>3d</fix><sat>9</sat>
<hdop>0.9</hdop><extensions><gpxtpx:TrackPointExtension><gpxtpx:speed>13.5</gpxtpx:speed>
<gpxtpx:course>271</gpxtpx:course></gpxtpx:TrackPointExtension></extensions></trkpt>
<trkpt lat="52.52" lon="13.42"><time>2021-05-06T16:22:01+02:00</time></trkpt>
<trkpt lat="0" lon="0.0"><time>2021-05-06T14:22:02Z</time><speed>2</speed></trkpt>
<trkpt lat="95" lon="13.42"><time>2021-05-06T14:22:03Z</time></trkpt>
<trkpt lat="52.53" lon="13.43"></trkpt>
</trkseg></trk></gpx>
"""


def test_points_of_tracks_are_positions_and_waypoints_markers() -> None:
    assert parsers.recognise(TRACK, path="x").name == "gpx"
    found = parsed(gpx.FORMAT, TRACK)
    first, second, third, fourth = found["position"].rows()
    assert (first["time_ns"], first["fix_time_ns"]) == (1620310920_250_000_000,) * 2
    assert (first["lat_deg"], first["lon_deg"], first["altitude_m"]) == (52.51, 13.41, 34.5)
    assert (first["fix"], first["satellites"], first["hdop"]) == (3, 9, 0.9)
    assert (first["speed_mps"], first["heading_deg"], first["line"]) == (13.5, 271.0, 9)
    assert (second["time_ns"], second["fix"]) == (1620310921 * S, None)
    assert (third["lat_deg"], third["lon_deg"], third["speed_mps"]) == (None, None, 2.0)
    assert (fourth["lat_deg"], fourth["lon_deg"]) == (None, 13.42)
    (marker,) = found["markers"].rows()
    assert (marker["note"], marker["time_ns"], marker["line"]) == ("tunnel & hole", 1620310923 * S, 5)
    facts = found["position"].provenance
    assert facts["missing"] == {"lat_deg": 2, "lon_deg": 1}
    assert facts["skipped"] == {
        "a waypoint without a time": 1, "a point of a planned route": 1, "a point without a time": 1,
    }  # fmt: skip
    assert facts["damaged"] is None
    assert "zone" not in facts


def test_times_without_a_zone_are_said() -> None:
    """The format means UTC, but a program that leaves out the Z may have written local times."""
    found = parsed(gpx.FORMAT, TRACK.replace(b"00.250Z", b"00.250"))
    assert found["position"]["time_ns"][0] == 1620310920_250_000_000
    assert found["position"].provenance["zone"] == "unknown"
    assert "the time zone is not given, so the times are read as UTC" in found["position"].provenance["warnings"]


BOMB = b"""<?xml version="1.0"?><!DOCTYPE gpx [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>
<gpx><trk><trkseg><trkpt lat="1" lon="1"><time>2021-05-06T14:22:00Z</time><name>&b;</name></trkpt></trkseg>
</trk></gpx>"""
OUTSIDE = b"""<?xml version="1.0"?><!DOCTYPE gpx SYSTEM "file:///etc/passwd"><gpx><trk/></gpx>"""


@pytest.mark.parametrize("document", [BOMB, OUTSIDE])
def test_document_type_is_refused(document: bytes) -> None:
    assert gpx.sniff(document) == "yes"
    with pytest.raises(FormatError, match=r"document types \(DOCTYPE\) are not accepted"):
        parsed(gpx.FORMAT, document)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (b"<gpx>" + b"<a>" * 100_000, "more than 64 levels deep"),
        (b"<gpx><trk a='" + b"x" * (3 << 20) + b"'/></gpx>", "longer than 1 MiB"),
        (b"<?xml version='1.0' encoding='martian'?><gpx/>", "encoding"),
        (b"<html><gpx/></html>", "the XML document is not GPX"),
        (TRACK.replace(b"time>", b"when>"), "no track point of the file has a time"),
        (b"<gpx></gpx>", "no track point of the file has a time"),
        (b"<gpx", "not valid XML at line 1"),
    ],
)
def test_what_is_no_track_is_one_sentence(document: bytes, why: str) -> None:
    with pytest.raises(FormatError, match=why):
        parsed(gpx.FORMAT, document)


def test_track_that_breaks_off_keeps_what_precedes() -> None:
    for cut in (TRACK[: TRACK.index(b'<trkpt lat="0"')], TRACK.replace(b'<trkpt lat="0"', b'<trkpt <lat="0"')):
        table = parsed(gpx.FORMAT, cut)["position"]
        assert len(table) == 2
        assert table.provenance["damaged"].startswith("not valid XML at line")


@given(seed=st.integers(0, 10**6))
def test_any_track_comes_back(seed: int) -> None:
    chance = random.Random(seed)
    points = [(chance.uniform(-89, 89), chance.uniform(-179, 179), n + chance.randint(0, 1)) for n in range(12)]
    text = ""
    for lat, lon, seconds in points:
        time = datetime.fromtimestamp(10**9 + seconds, UTC)
        text += f'<trkpt lon="{lon!r}" lat="{lat!r}"><time>{time:%Y-%m-%dT%H:%M:%SZ}</time></trkpt>'
        text += chance.choice(["", "\n", "<!-- x -->"])
    data = f"<gpx><trk><trkseg>{text}</trkseg></trk></gpx>".encode()
    found = parsed(gpx.FORMAT, data)
    ordered = sorted(points, key=lambda point: point[2])
    assert found["position"]["lat_deg"].tolist() == [lat for lat, _, _ in ordered]
    assert found["position"]["time_ns"].tolist() == [(10**9 + s) * S for _, _, s in ordered]
    slow = gpx.parse(io.BufferedReader(OneByteAtATime(data)), path="x")
    assert repr(rows_of(slow)) == repr(rows_of(found))


def test_session_has_positions_and_markers(tmp_path: Path) -> None:
    (tmp_path / "phone.gpx").write_bytes(TRACK)
    session = mt.open(tmp_path)
    assert len(session.position) == 4
    assert session.markers["note"].tolist() == ["tunnel & hole"]


@given(data=damaged(TRACK))
def test_damaged_track_gives_tables_or_an_error(data: bytes) -> None:
    survives(gpx.parse, data)
