"""Any CSV with a map of its columns beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import parsers
from multitracer.errors import FormatError
from parsers import mapped_csv
from parsers._map_beside import has_map

if TYPE_CHECKING:
    from pathlib import Path

MAP = """
delimiter = ";"
missing = ["", "?"]
[time]
column = "ms"
form = "epoch_ms"
[radio]
rssi_dbm = { column = "level", scale = 0.1 }
cell_id = { column = "cell", base = 16 }
rat = { column = "net", words = { 4 = "LTE" } }
[position]
lat_deg = "y"
lon_deg = "x"
"""
CSV = b"""ms;level;cell;net;x;y
1500;-853;1A2D;4;8.5;52.25
2500;?;;3;8.6;52.5
never;-853;;4;1;2
3500;nonsense;1;4;8.7;95
"""


def test_any_other_csv_is_read_by_the_map_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "drive.csv"
    path.write_bytes(CSV)
    path.with_name("drive.csv.toml").write_text(MAP)
    fmt, found = parsers.read(path)
    assert fmt is parsers.detect(path) is mapped_csv.FORMAT
    assert isinstance(found, dict)
    first, last = found["radio"].rows()
    assert (first["time_ns"], first["cell_id"], first["rat"]) == (1500_000_000, 0x1A2D, "LTE")
    assert first["rssi_dbm"] == pytest.approx(-85.3)
    assert (last["rssi_dbm"], last["cell_id"]) == (None, 1)
    assert found["position"]["lat_deg"].tolist()[:2] == [52.25, 52.5]
    books = found["radio"].provenance
    assert (books["skipped"], books["missing"]) == ({"no time": 1}, {"rssi_dbm": 1, "lat_deg": 1})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[[[",
        '[time]\ncolumn = "ms"\n',
        MAP.replace("rssi_dbm", "signal"),
        MAP.replace("epoch_ms", "sometimes"),
        MAP.replace("16", "7"),
        MAP.replace('"ms"', '"nonesuch"'),
        MAP.replace("epoch_ms", "%Y %Y"),
        MAP.replace("epoch_ms", "%"),
        MAP.replace('delimiter = ";"', "delimiter = '\"'"),
        MAP.replace('"level", scale = 0.1', '"level", words = { 1 = "LTE" }'),
        MAP.replace('{ column = "level", scale = 0.1 }', '{ always = "much" }'),
        MAP.replace('words = { 4 = "LTE" }', "words = 5"),
        MAP.replace('"net"', '"net", run = "reboot"'),
        MAP.replace("epoch_ms", "%Q"),
        MAP + '\n[shell]\nrun = "reboot"\n',
    ],
)
def test_map_that_does_not_fit_is_told(text: str, tmp_path: Path) -> None:
    path = tmp_path / "drive.csv"
    path.write_bytes(CSV)
    path.with_name("drive.csv.toml").write_text(text)
    if "%Q" in text:
        _, found = parsers.read(path)
        assert isinstance(found, dict)
        assert len(found["radio"]) == 0
        return
    with pytest.raises(FormatError):
        parsers.read(path)


def test_map_is_never_a_link(tmp_path: Path) -> None:
    path = tmp_path / "drive.csv"
    path.write_bytes(CSV)
    secret = tmp_path / "secret"
    secret.write_text(MAP)
    path.with_name("drive.csv.toml").symlink_to(secret)
    assert not has_map(path)
