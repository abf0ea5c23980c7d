"""`multitracer formats --propose`: the map that it prints is read when it lies beside the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import parsers
from tests.cli.program import call

if TYPE_CHECKING:
    from pathlib import Path

LOG = "when;Lat;Lon;RSRP;v\n" + "".join(
    f"2021-05-06 14:22:0{n}+02:00;{52 + n / 1e4:.5f};13.4;-9{n};40\n" for n in range(9)
)


def test_map_that_is_printed_reads_the_log(tmp_path: Path) -> None:
    path = tmp_path / "drive.csv"
    path.write_text(LOG)
    done = call("formats", "--propose", str(path))
    path.with_name("drive.csv.toml").write_text(done.stdout)
    _, tables = parsers.read(path)
    assert isinstance(tables, dict)
    assert tables["radio"]["rsrp_dbm"].tolist() == [-90.0 - n for n in range(9)]
    assert tables["position"]["time_ns"][0] == 1620303720 * 10**9


def test_what_has_no_times_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "drive.csv"
    path.write_text("a;b\n1;2\n")
    done = call("formats", "--propose", str(path), status=1)
    assert (
        "no column contains times in a known form; these columns were checked: 'a' (for example '1'), 'b'"
        in done.stderr
    )
    assert "No such file" in call("formats", "--propose", str(tmp_path / "none.csv"), status=1).stderr


def test_maps_are_listed_with_what_is_certain() -> None:
    listed = call("formats", "--maps").stdout
    assert all(each.name in listed and each.certain[:30] in listed for each in parsers.bundled_maps())
