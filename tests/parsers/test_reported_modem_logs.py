"""Logs of modems that people asked about, read in place: the format is recognised, the values are right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import parsers
from tests.narrowed import parsed

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.tables import Table

pytestmark = pytest.mark.fixtures
S = 1_000_000_000


def table_of(folder: Path, name: str) -> Table:
    path = folder / "reports" / name
    if not path.is_file():
        pytest.skip(f"{name} is not among the fixtures")
    data = path.read_bytes()
    return parsed(parsers.recognise(data, path=name), data)["radio"]


def cells(table: Table, *names: str) -> list[tuple[Any, ...]]:
    """Return role, technology, and columns of the rows that have a technology."""
    return [tuple(row[k] for k in ("role", "rat", *names)) for row in table.rows() if row["rat"]]


def test_answers_to_several_commands_in_one_line(fixture_folder: Path) -> None:
    table = table_of(fixture_folder, "qeng_endc.txt")
    assert table["source"].tolist() == ["+QNWINFO"] * 2 + ["+QCAINFO"] + ["+QENG"] * 3 + ["+QSPN"]
    found = cells(table, "rsrp_dbm", "sinr_db", "physical_cell_id", "channel", "plmn")
    assert ("serving", "LTE", -89.0, 16.0, 1, 150, "51503") in found
    assert ("secondary", "NR", -76.0, 21.0, 832, 528030, "51503") in found
    chained = table_of(fixture_folder, "at_chained_qnwinfo_qeng.txt")
    assert cells(chained, "rsrp_dbm", "cell_id", "state")[-1] == ("serving", "LTE", -89.0, 0x3359966, "NOCONN")


def test_carriers_that_firmware_wrote_into_one_line(fixture_folder: Path) -> None:
    table = table_of(fixture_folder, "qcainfo_glued.txt")
    assert cells(table, "channel", "physical_cell_id", "rsrp_dbm", "rsrq_db") == [
        ("serving", "NR", 501390, 153, -83.0, -11.0),
        ("secondary", "NR", 126270, 93, None, None),
        ("secondary", "NR", 521310, 153, -85.0, -11.0),
    ]


def test_levels_of_huawei_and_of_each_antenna(fixture_folder: Path) -> None:
    assert cells(table_of(fixture_folder, "hcsq.txt"), "rssi_dbm", "rsrp_dbm", "sinr_db", "rsrq_db") == [
        ("serving", "LTE", -71.0, -96.0, 2.0, -7.0),
        ("serving", "NR", None, -81.0, 4.0, -5.0),
        ("serving", "LTE", -77.0, -103.0, 4.0, -10.0),
    ]
    branches = table_of(fixture_folder, "qrsrp.txt")
    assert cells(branches, "rsrp_dbm", "rsrq_db", "sinr_db") == [
        ("serving", "NR", -75.0, None, None),
        ("serving", "NR", None, -10.0, None),
        ("serving", "NR", None, None, 21.0),
        ("serving", "NR", None, None, 21.0),
    ]
    assert any("each antenna" in text for text in branches.provenance["warnings"])


def test_status_that_has_no_prefix(fixture_folder: Path) -> None:
    (row,) = table_of(fixture_folder, "debugq.txt").rows()
    assert (row["source"], row["rat"], row["plmn"], row["band"]) == ("^DEBUG", "LTE", "25002", "3")
    assert (row["rsrp_dbm"], row["rsrq_db"], row["rssi_dbm"], row["sinr_db"]) == (-103.2, -10.9, -73.4, 13.6)
    assert (row["cell_id"], row["area_code"], row["channel"], row["physical_cell_id"]) == (22060, 3832, 1725, 58)


def test_stamps_of_a_terminal_and_of_the_journal(fixture_folder: Path) -> None:
    table = table_of(fixture_folder, "at_time_of_day.txt")
    (row,) = table.rows()
    assert (row["rsrp_dbm"], row["rsrq_db"]) == (-89.0, -10.0)
    asked_ns = ((10 * 60 + 11) * 60 + 12) * S + 345_000_000
    assert (row["asked_ns"], row["answered_ns"]) == (asked_ns, asked_ns + 57_000_000)
    assert any("date is not given" in text for text in table.provenance["warnings"])
    (row,) = table_of(fixture_folder, "modemmanager_debug_journal.txt").rows()
    assert (row["rssi_dbm"], row["answered_ns"] - row["asked_ns"]) == (-77.0, 54_322_000)


def test_levels_of_huawei_without_a_sign(fixture_folder: Path) -> None:
    table = table_of(fixture_folder, "tel_huawei_abs.txt")
    found = cells(table, "source", "rsrp_dbm", "rsrq_db", "sinr_db")
    assert ("serving", "NR", "mSignalStrength", -98.0, -11.0, 14.0) in found
    assert ("serving", "NR", "mCellInfo", -98.0, -11.0, 14.0) in found
    assert ("serving", "LTE", "mSignalStrength", -96.0, -11.0, 12.0) in found
    assert any("without a sign" in text for text in table.provenance["warnings"])


@pytest.mark.parametrize("name", ["mmcli_human.txt", "ubus_mm.json", "hilink.json", "hilink.xml"])
def test_both_legs_of_a_tool_or_router(fixture_folder: Path, name: str) -> None:
    found = cells(table_of(fixture_folder, name), "rsrp_dbm", "rsrq_db", "rssi_dbm", "sinr_db")
    lte_db, nr_db = (12.0, 18.0) if name.startswith("hilink") else (12.4, 18.5)
    assert found == [("serving", "LTE", -96.0, -11.0, -65.0, lte_db), ("secondary", "NR", -84.0, -11.0, None, nr_db)]


def test_cell_without_values_is_no_row(fixture_folder: Path) -> None:
    (row,) = table_of(fixture_folder, "qmicli5g_inactive.txt").rows()
    assert (row["role"], row["rat"], row["rsrp_dbm"], row["sinr_db"]) == ("serving", "LTE", -70.0, 30.0)
