"""Any CSV with a map of its columns beside it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import multitracer as mt
import parsers
from multitracer.errors import FormatError
from parsers import mapped_csv
from parsers._stream import has_map
from tests.narrowed import tables_of

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
        MAP.replace('"level"', '"level", missing = 0'),
        MAP.replace("epoch_ms", "%Q"),
        MAP + '\n[shell]\nrun = "reboot"\n',
    ],
)
def test_map_that_does_not_fit_is_told(text: str, tmp_path: Path) -> None:
    path = tmp_path / "drive.csv"
    path.write_bytes(CSV)
    path.with_name("drive.csv.toml").write_text(text)
    with pytest.raises(FormatError, match="column 'ms' is not in the form '%Q'" if "%Q" in text else None):
        parsers.read(path)


@pytest.mark.parametrize("seed", range(5))
def test_what_stands_for_no_value_differs_between_columns(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    levels = [chance.choice(["0", "0.0", "-85.5", "-101"]) for _ in range(40)]
    rates = [chance.choice([0, 1, 250, -7]) for _ in range(40)]
    path = tmp_path / "phone.csv"
    lines = (f"{1500 + n},{level},{rate}\n" for n, (level, rate) in enumerate(zip(levels, rates, strict=True)))
    path.write_text("ms,nr,rate\n" + "".join(lines))
    path.with_name("phone.csv.toml").write_text(
        '[time]\ncolumn = "ms"\nform = "epoch_ms"\n[radio]\nrsrp_dbm = { column = "nr", missing = [0] }\n'
        'downlink_bps = { column = "rate", scale = 1000 }\n'
    )
    table = tables_of(path)["radio"]
    rows = list(table.rows())
    seen = {row["time_ns"] // 1_000_000 - 1500: (row["rsrp_dbm"], row["downlink_bps"]) for row in rows}
    for n, (level, rate) in enumerate(zip(levels, rates, strict=True)):
        expected = (float(level) or None, None if rate < 0 else rate * 1000)
        assert seen.get(n, (None, None)) == expected
    books = table.provenance
    assert books["missing"] == ({"downlink_bps": rates.count(-7)} if -7 in rates else {})
    assert any("after a counter reset" in warning for warning in books["warnings"]) == (-7 in rates)


def test_map_of_a_log_in_a_folder_is_no_unknown_file(tmp_path: Path) -> None:
    (tmp_path / "drive.csv").write_bytes(CSV)
    (tmp_path / "drive.csv.toml").write_text(MAP)
    assert not [text for text in mt.open(tmp_path).warnings if "toml" in text]
    (tmp_path / "other.toml").write_text(MAP)
    assert "no installed format knows other.toml; not read" in " ".join(mt.open(tmp_path).warnings)


def test_map_is_never_a_link(tmp_path: Path) -> None:
    path = tmp_path / "drive.csv"
    path.write_bytes(CSV)
    secret = tmp_path / "secret"
    secret.write_text(MAP)
    path.with_name("drive.csv.toml").symlink_to(secret)
    assert not has_map(path)
