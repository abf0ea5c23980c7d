"""The KML of G-NetTrack tells what its own log tells."""

from __future__ import annotations

import io
import random
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

import numpy as np
import pytest
from hypothesis import given

import parsers
from multitracer.errors import FormatError
from parsers import gnettrack, gnettrack_kml
from tests.cli.program import call
from tests.parsers.damage import damaged, survives

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_NAMES = {
    "TIME": "Timestamp", "eNB": "Node", "CELLID": "CellID", "RSRP": "Level", "RSRQ": "Qual", "SNR": "SNR", "CQI": "CQI",
    "SPEED": "Speed", "DL_BITRATE": "DL_bitrate", "UL_BITRATE": "UL_bitrate", "LAC": "LAC", "ARFCN": "ARFCN",
    "INFO": "EventType", "DETAILS": "EventDetails",
}  # fmt: skip
"""Value of a placemark -> column of the log."""


def reading(rng: random.Random, second: int) -> dict[str, str]:
    """Return the values of a placemark; now and then it is an event."""
    values = {
        "TIME": f"2026.03.31_14.{second // 60:02}.{second % 60:02}",
        "eNB": str(rng.randrange(1, 900_000)), "CELLID": str(rng.randrange(256)), "LAC": str(rng.randrange(65_000)),
        "RSRP": str(rng.randrange(-130, -60)), "RSRQ": str(rng.randrange(-20, -3)), "SNR": f"{rng.uniform(-9, 29):.1f}",
        "CQI": str(rng.randrange(1, 16)), "SPEED": str(rng.randrange(120)), "ARFCN": str(rng.randrange(1, 9000)),
        "DL_BITRATE": str(rng.randrange(90_000)), "UL_BITRATE": str(rng.randrange(9_000)),
    }  # fmt: skip
    if rng.random() < 0.2:
        values |= {"INFO": rng.choice(("HANDOVER_DATA_4G4G", "CELL_RESELECTION<4G>")), "DETAILS": "1 & 2:3"}
    return values


def as_data(row: dict[str, str]) -> str:
    data = "".join(f'<Data name="{name}"><value>{escape(value)}</value></Data>' for name, value in row.items())
    return f"<ExtendedData>{data}</ExtendedData>"


def as_table(row: dict[str, str]) -> str:
    cells = "".join(
        f'<tr><td align="left"><b>{name}</b></td>\n<td>{escape(value)}</td></tr>' for name, value in row.items()
    )
    return f"<description><![CDATA[<table border=1>{cells}</table>]]></description>"


def as_lines(row: dict[str, str]) -> str:
    return (
        f"<description>{escape('<br/>'.join(f'{name}: {escape(value)}' for name, value in row.items()))}</description>"
    )


def kml(
    rows: list[dict[str, str]], places: list[tuple[float, float]], form: Callable[[dict[str, str]], str] = as_data
) -> bytes:
    marks = "".join(
        f"<Placemark><name>x</name><styleUrl>#a</styleUrl>{form(row)}"
        f"<Point><coordinates>{lon},{lat},0</coordinates></Point></Placemark>"
        for row, (lon, lat) in zip(rows, places, strict=True)
    )
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<kml xmlns="http://www.opengis.net/kml/2.2"><Document>'
    return f"{head}<name>log</name>{marks}</Document></kml>\n".encode()


def log(rows: list[dict[str, str]], places: list[tuple[float, float]]) -> bytes:
    head = ["Longitude", "Latitude", "NetworkMode", *_NAMES.values()]
    lines = [
        [str(lon), str(lat), "LTE", *(row.get(name, "") for name in _NAMES)]
        for row, (lon, lat) in zip(rows, places, strict=True)
    ]
    return "".join("\t".join(each) + "\n" for each in (head, *lines)).encode()


@pytest.mark.parametrize("form", [as_data, as_table, as_lines])
@pytest.mark.parametrize("seed", range(4))
def test_it_holds_what_the_log_of_the_same_drive_holds(seed: int, form: Callable[[dict[str, str]], str]) -> None:
    rng = random.Random(seed)
    rows = [reading(rng, second) for second in range(60)]
    places = [(round(rng.uniform(5, 15), 6), round(rng.uniform(46, 54), 6)) for _ in rows]
    data = kml(rows, places, form).replace(b"<name>log", b"<name>G-NetTrack")
    assert parsers.recognise(data[:4096], path="x").name == "gnettrack-kml"
    ours = gnettrack_kml.parse(io.BytesIO(data), path="x")
    theirs = gnettrack.parse(io.BytesIO(log(rows, places)), path="x")
    assert ours.keys() == theirs.keys() >= {"radio", "position", "markers"}
    for name, table in theirs.items():
        assert len(ours[name]) == len(table) > 0
        for column in set(table.schema.names) - {"line", "source"}:
            assert np.array_equal(ours[name][column], table[column], equal_nan=table[column].dtype.kind == "f"), column
    assert ours["radio"]["line"].tolist() == list(range(1, 61)), "the number of the placemark"
    assert set(ours["radio"]["rat"].tolist()) == {"LTE"}


def test_the_program_reads_it(tmp_path: Path) -> None:
    rng = random.Random(9)
    rows = [reading(rng, second) for second in range(20)]
    (tmp_path / "drive.kml").write_bytes(kml(rows, [(9.0, 48.0 + n / 1e4) for n in range(20)]))
    assert "gnettrack-kml" in call("inspect", tmp_path / "drive.kml").stdout


def test_a_head_of_styles_alone_may_be_it_and_other_drawings_are_named(tmp_path: Path) -> None:
    rng = random.Random(2)
    data = kml([reading(rng, n) for n in range(9)], [(9.0, 48.0)] * 9)
    styles = b"<Document>" + b'<Style id="a"><IconStyle><scale>1</scale></IconStyle></Style>' * 99
    (tmp_path / "drive.kml").write_bytes(data.replace(b"<Document>", styles))
    assert "gnettrack-kml" in call("inspect", tmp_path / "drive.kml").stdout
    drawing = b'<?xml version="1.0"?><kml><Document><Placemark><name>a</name></Placemark></Document></kml>'
    (tmp_path / "route.kml").write_bytes(drawing)
    assert "drawing for maps" in call("inspect", tmp_path / "route.kml", status=1).stderr
    with pytest.raises(FormatError, match="no placemark has the time and the level"):
        gnettrack_kml.parse(io.BytesIO(drawing), path="x")


def test_a_cut_file_keeps_what_was_read_and_entities_are_refused() -> None:
    rng = random.Random(3)
    data = kml([reading(rng, n) for n in range(9)], [(9.0, 48.0)] * 9)
    tables = gnettrack_kml.parse(io.BytesIO(data[: len(data) * 2 // 3]), path="x")
    assert 3 <= len(tables["radio"]) < 9
    assert "not valid XML" in tables["radio"].provenance["damaged"]
    with pytest.raises(FormatError, match="DOCTYPE"):
        gnettrack_kml.parse(io.BytesIO(b"<!DOCTYPE kml [<!ENTITY a 'b'>]>" + data[39:]), path="x")


_SMALL = kml([reading(random.Random(n), n) for n in range(3)], [(9.0, 48.0)] * 3)


@given(data=damaged(_SMALL))
def test_damaged_kml_gives_tables_or_an_error(data: bytes) -> None:
    survives(gnettrack_kml.parse, data)
