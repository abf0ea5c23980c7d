"""Values of drive logs that no radio measured: found by distribution and neighbours, said, and left out."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pytest

import multitracer as mt
import parsers
from multitracer.recording.read import read
from multitracer.report.write import write_report
from parsers import gnettrack

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.tables import Table

HEAD = "Timestamp\tLongitude\tLatitude\tNode\tCellID\tLAC\tNetworkTech\tLevel\tQual\tSNR\tLTERSSI\tARFCN\tPSC"


def line(second: int, tech: str, cell: tuple[int | str, int, int], *values: object) -> str:
    node, number, physical = cell
    texts = "\t".join(map(str, values))
    time = f"2026.02.03_10.{second // 60:02d}.{second % 60:02d}"
    return f"{time}\t8.{second:04d}\t52.25\t{node}\t{number}\t9\t{tech}\t{texts}\t1464\t{physical}"


def radio(rows: list[str]) -> Table:
    return gnettrack.parse(io.BytesIO("\n".join([HEAD, *rows, ""]).encode()), path="x")["radio"]


def lte(second: int, level: int, snr: object = "-", cell: int = 7) -> str:
    return line(second, "4G", (21, cell, 3 * cell), level, -9 - second % 3, snr, level + 12)


def said(table: Table) -> str:
    return "\n".join(table.provenance["warnings"])


def test_a_level_that_is_equal_in_all_cells_and_has_no_quality_is_a_constant() -> None:
    rows = [lte(n, -70 - n % 30) for n in range(60)]
    rows += [line(60 + n, "3G", (8, n // 10, n // 10), -24, "-", "-", "-") for n in range(60)]
    table = radio(rows)
    assert not np.isfinite(table["rscp_dbm"]).any()
    assert "rscp_dbm: -24 dBm in UMTS rows is not a measurement (the same in all rows of 6 cells): 60" in said(table)
    assert table.provenance["missing"] == {"rscp_dbm": 60}
    assert np.isfinite(table["rsrp_dbm"]).sum() == 60


def test_equal_levels_beside_a_quality_are_kept() -> None:
    """A phone that stands still: equal levels, in one cell or three, are measurements."""
    for cells in (1, 3):
        rows = [line(n, "4G", (21, n * cells // 90, n * cells // 90), -85, -9, 12.0, -61) for n in range(90)]
        table = radio(rows)
        assert np.isfinite(table["rsrp_dbm"]).all()
        assert np.isfinite(table["sinr_db"]).all()
        assert "not a measurement" not in said(table)


def test_a_sinr_that_never_changes_while_the_level_does_is_none() -> None:
    table = radio([lte(n, -60 - n % 50, 0.0) for n in range(100)])
    assert not np.isfinite(table["sinr_db"]).any()
    assert "sinr_db: 0 dB in LTE rows is not a measurement (the same in all rows, while the level" in said(table)
    some = radio([lte(n, -60 - n % 50, float(n % 50 // 10)) for n in range(100)])
    assert np.isfinite(some["sinr_db"]).all()


def test_a_value_of_rows_without_a_quality_is_a_placeholder_if_nothing_is_near_it() -> None:
    rows = [lte(n, -80 - n % 15) for n in range(80)]
    rows += [line(80 + n, "4G", (21, 7, 21), -164, "-", "-", -113) for n in range(9)]
    table = radio(rows)
    assert np.isfinite(table["rssi_dbm"]).sum() == 80
    assert "rssi_dbm: -113 dBm in LTE rows is not a measurement (only rows without a quality" in said(table)
    assert "rsrp_dbm: 9 of 89 values of column 'Level' are impossible (all '-164'): set to missing" in said(table)


def test_weak_levels_at_the_edge_of_the_coverage_are_kept() -> None:
    """Without a quality too, some of them equal: they go down step by step."""
    rows = [lte(n, -80 - n // 2) for n in range(80)]
    rows += [line(80 + n, "4G", (21, 7, 21), -120 - n // 3, "-", "-", "-") for n in range(12)]
    table = radio(rows)
    assert np.isfinite(table["rsrp_dbm"]).all()


def test_a_row_without_a_cell_tells_no_level() -> None:
    """2G with cell 0 and -113 dBm, as a phone writes it that has lost its network."""
    rows = [lte(n, -80 - n % 15) for n in range(40)]
    rows += [line(40 + n, "2G", ("", 0, 0), -113, "-", "-", "-") for n in range(6)]
    rows += [line(46 + n, "2G", ("", 4711, 12), -113 + n % 4, n % 7, "-", "-") for n in range(8)]
    table = radio(rows)
    two = table.take(table["rat"] == "GSM")
    assert np.isfinite(two["rssi_dbm"]).sum() == 8
    assert (two["cell_id"] == -1).sum() == 6
    assert two["rxqual"].tolist() == [-1] * 6 + [n % 7 for n in range(8)]
    assert "cell_id: 0 in 6 rows without a level is not a cell: set to missing" in said(table)


def test_a_quality_without_level_technology_and_cell_is_of_the_row_before() -> None:
    rows = [lte(n, -80 - n % 15) for n in range(40)]
    rows += [line(40 + n, "--", ("", -1, -1), -200, -12 - n, "-", "-") for n in range(6)]
    table = radio(rows)
    assert np.isfinite(table["rsrq_db"]).sum() == 40
    assert "(the row has neither technology, cell nor level): 6 values set to missing" in said(table)


@pytest.mark.fixtures
def test_placeholders_of_public_drives_are_no_evidence(fixture_folder: Path, tmp_path: Path) -> None:
    """The report said "weak signal", RSSI -113 dBm, RSCP -24 dBm, and SINR 0.0 dB in all of the bad time."""
    for name in ("Orange", "expresso"):
        path = fixture_folder / "reports" / "public" / f"gnettrack_{name}_log.txt"
        if not path.exists():
            pytest.skip("no reports")
        _, found = parsers.read(path)
        assert isinstance(found, dict)
        table = found["radio"]
        assert not (table["rssi_dbm"] == -113).any()
        assert not np.isin(table["rscp_dbm"], [-24, -113]).any()
        assert np.nanmin(table["rsrp_dbm"]) >= -140
        write_report(read(path), tmp_path / "report.html")
        html = (tmp_path / "report.html").read_text()
        for wrong in ("RSSI -113 dBm", "RSCP -24 dBm", "SINR 0.0 dB"):
            assert wrong not in html
        session = mt.open(path)
        assert len(session.radio) > 2000
        warnings = "\n".join(session.warnings)
        assert "is not a measurement" in warnings
        if name == "Orange":
            assert "1,401 values set to missing" in warnings
            assert "1,190 values set to missing" in warnings
            assert not np.isfinite(table["sinr_db"]).any()
            assert np.isfinite(table["rsrp_dbm"]).sum() > 1000
        else:
            assert np.isfinite(table["rscp_dbm"]).sum() > 1700
            assert np.isfinite(table["sinr_db"]).sum() > 900
