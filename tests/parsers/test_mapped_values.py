"""What a map copes with: units, decimal signs, forms of time, several technologies, wrong columns."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import FormatError
from parsers._text.times import UncertainTimeError, degrees_of, factor, form_of, time_ns
from tests.narrowed import tables_of

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.tables import Table

S = 1_000_000_000
TIME = '[time]\ncolumn = "t"\nform = "epoch_s"\n'


def read(folder: Path, log: str, columns: str) -> dict[str, Table]:
    path = folder / "drive.csv"
    path.write_text(log, encoding="utf-8")
    path.with_name("drive.csv.toml").write_text(columns)
    return tables_of(path)


# --- numbers ---


@pytest.mark.parametrize(
    ("header", "text", "expected"),
    [
        ("v", "36", 36.0),
        ("v (km/h)", "36", 10.0),
        ("V [m/s]", "36,5", 36.5),
        ("v (mph)", "10", 4.4704),
        ("v (kn)", "3,6", 1.852),
        ("v", "36 km/h", 10.0),
        ("v", "1.036,8 km/h", 288.0),
        ("v", "1,036.8 km/h", 288.0),
    ],
)
def test_unit_of_header_or_value_counts(tmp_path: Path, header: str, text: str, expected: float) -> None:
    columns = 'delimiter = ";"\n' + TIME + '[position]\nspeed_mps = "v"\n'
    found = read(tmp_path, f"t;{header}\n1700000000;{text}\n", columns)
    assert found["position"]["speed_mps"].tolist() == [pytest.approx(expected)]


def test_unit_of_the_map_counts_and_one_that_is_unknown_is_named(tmp_path: Path) -> None:
    columns = TIME + '[radio]\ndownlink_bps = { column = "d", unit = "Mbit/s" }\nuplink_bps = "u"\n'
    found = read(tmp_path, "t,d,u (furlongs)\n1700000000,2.5,1\n", columns)
    (row,) = found["radio"].rows()
    assert (row["downlink_bps"], row["uplink_bps"]) == (2.5e6, None)
    assert any("'furlongs'" in warning for warning in found["radio"].provenance["warnings"])
    for wrong in ('unit = "furlong"', 'unit = "Mbit/s", scale = 2'):
        with pytest.raises(FormatError, match="the unit of downlink_bps"):
            read(tmp_path, "t,d\n", columns.replace('unit = "Mbit/s"', wrong))


def test_bits_are_not_bytes() -> None:
    assert (factor("kB/s", "bit/s"), factor("kb/s", "bit/s")) == (8e3, 1e3)
    assert (factor("MBPS", "bit/s"), factor("MB/s", "bit/s")) == (1e6, 8e6)
    assert factor("kbit", "m/s") is None


@given(value=st.floats(-150, -20), seed=st.integers(0, 99))
def test_decimal_comma_is_a_point(value: float, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    delimiter = random.Random(seed).choice("\t;|")
    columns = TIME.replace("[time]", 'delimiter = "auto"\n[time]') + '[radio]\nrsrp_dbm = "Level"\n'
    text = f"{value:.4f}".replace(".", ",")
    found = read(tmp_path_factory.mktemp("x"), f"t{delimiter}level\n1700000000{delimiter}{text}\n", columns)
    assert found["radio"]["rsrp_dbm"].tolist() == [round(value, 4)]


@pytest.mark.parametrize(
    ("text", "degrees"),
    [
        ("33°54.0000'S", -33.9), ("48° 8' 12.3\" N", 48.13675), ("N48 08.4", 48.14), ("52.25° W", -52.25),
        ("-33:54:36", -33.91), ("48°08′36″N", 48.1433333), ("8.5E", 8.5),
        ("5130.1234N", None), ("48°75'", None), ("4808", None), ("N8S", None), ("48.1 8", None), ("", None),
    ],
)  # fmt: skip
def test_an_angle_is_read_in_degrees_minutes_and_seconds(text: str, degrees: float | None) -> None:
    assert degrees_of(text) == (None if degrees is None else pytest.approx(degrees, abs=1e-6))


# --- rows ---


def test_row_is_made_of_the_lines_that_are_meant(tmp_path: Path) -> None:
    columns = TIME + (
        '[[radio]]\nwhen = { column = "net", is = ["LTE", "4G"] }\nrsrp_dbm = "level"\n'
        '[[radio]]\nwhen = { column = "net", is = ["UMTS"] }\nrscp_dbm = "level"\n'
    )
    log = "t,net,level\n1700000000,lte,-90\n1700000001,UMTS,-80\n1700000002,WIFI,-60\n"
    first, second = read(tmp_path, log, columns)["radio"].rows()
    assert (first["rsrp_dbm"], first["rscp_dbm"]) == (-90.0, None)
    assert (second["rsrp_dbm"], second["rscp_dbm"]) == (None, -80.0)
    for wrong in ('"net"', '{ column = "net" }', '{ column = "net", is = "LTE" }'):
        with pytest.raises(FormatError, match="must have the form"):
            read(tmp_path, log, columns.replace('{ column = "net", is = ["UMTS"] }', wrong))


def test_row_is_made_of_all_lines_but_some(tmp_path: Path) -> None:
    columns = TIME + '[radio]\nwhen = { column = "net", is_not = ["wifi"] }\nrsrp_dbm = "level"\n'
    found = read(tmp_path, "t,net,level\n1700000000,LTE,-90\n1700000001,WIFI,-60\n", columns)["radio"]
    assert found["rsrp_dbm"].tolist() == [-90.0]


def test_cell_is_numbered_below_its_base_station(tmp_path: Path) -> None:
    """A sector alone is no identity, and a number that has no room below is none either."""
    columns = TIME + ('[radio]\ncell_id = { column = "sector", above = "enb", bits = 8 }\nphysical_cell_id = "pci"\n')
    cells = ("300001,2", ",2", "300001,256", "300001,-")
    log = "t,enb,sector,pci\n" + "".join(f"170000000{at},{cell},7\n" for at, cell in enumerate(cells))
    found = read(tmp_path, log, columns)["radio"]
    assert [row["cell_id"] for row in found.rows()] == [300001 << 8 | 2, None, None, None]
    for wrong in ("", ", bits = 30", ", bits = 0"):
        with pytest.raises(FormatError, match="must be given together"):
            read(tmp_path, log, columns.replace(", bits = 8", wrong))


# --- times ---


def test_day_and_time_of_day_may_stand_apart(tmp_path: Path) -> None:
    columns = '[time]\ncolumn = ["Date", "Time"]\nform = "auto"\nzone = "+02:00"\n[radio]\nrsrp_dbm = "r"\n'
    found = read(tmp_path, "Time,r,Date\n14:22:00.5,-90,31.12.2021\n", columns)["radio"]
    assert found["time_ns"].tolist() == [1640953320_500_000_000]
    assert "zone" not in found.provenance


@pytest.mark.parametrize(
    "form",
    [
        "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f", "%d.%m.%Y %H:%M:%S", "%Y/%m/%d %H:%M:%S.%f",
        "%Y.%m.%d_%H.%M.%S", "%m/%d/%Y %I:%M:%S %p", "%d/%m/%Y %H:%M:%S", "%Y%m%d%H%M%S",
        "%b %d, %Y %I:%M:%S %p", "%d-%b-%Y %H:%M:%S", "%Y-%m-%d %H:%M:%S UTC",
    ],
)  # fmt: skip
def test_form_of_times_is_found_by_the_first_lines(form: str) -> None:
    instants = [datetime(2021, 5, day, 14, 22, day, 250_000, tzinfo=UTC) for day in (6, 13, 28)]
    texts = ["", *(each.strftime(form) for each in instants), "never"]
    found = form_of(texts)
    for each, text in zip(instants, texts[1:], strict=False):
        complete = int(each.timestamp()) * S
        expected = complete + 250_000_000 if "%f" in form else complete
        assert time_ns(text, found, UTC, lambda: None) == expected


@given(seconds=st.integers(1_000_000_001, 4_500_000_000), digits=st.sampled_from([0, 3, 6, 9]))
def test_digits_tell_the_unit_of_times_since_1970(seconds: int, digits: int) -> None:
    text = str(seconds) + "0" * digits
    assert time_ns(text, form_of([text]), None, lambda: None) == seconds * S


def test_day_and_month_that_could_be_exchanged_are_not_guessed() -> None:
    with pytest.raises(UncertainTimeError, match=r"ambiguous times \('%d/%m/%Y .*' or '%m/%d/%Y"):
        form_of(["03/04/2021 10:00:00", "03/04/2021 10:00:01"])
    with pytest.raises(UncertainTimeError, match="in an unknown form, for example '10:00'"):
        form_of(["10:00", ""])


def test_log_whose_times_have_no_form_names_the_column(tmp_path: Path) -> None:
    columns = '[time]\ncolumn = "when"\nform = "auto"\n[radio]\nrsrp_dbm = "r"\n'
    with pytest.raises(FormatError, match=r"no line has a valid time: the column 'when' .* for example 'noon'"):
        read(tmp_path, "when,r\nnoon,-90\n", columns)


def test_zone_that_nobody_gives_is_a_fact_of_the_table(tmp_path: Path) -> None:
    columns = '[time]\ncolumn = "t"\n[radio]\nrsrp_dbm = "r"\n'
    assert read(tmp_path, "t,r\n2021-05-06 14:22:00,-90\n", columns)["radio"].provenance["zone"] == "unknown"
    for time in ("2021-05-06 14:22:00+02:00", "2021-05-06T14:22:00Z"):
        assert "zone" not in read(tmp_path, f"t,r\n{time},-90\n", columns)["radio"].provenance


# --- what is wrong ---


def test_times_that_jump_between_two_clocks_are_named(tmp_path: Path) -> None:
    times = [1700000000, 1700000001, 1699996401, 1700000002, 100, 1700000003]
    log = "t,r\n" + "".join(f"{time},-90\n" for time in times)
    warnings = read(tmp_path, log, TIME + '[radio]\nrsrp_dbm = "r"\n')["radio"].provenance["warnings"]
    assert (
        "the times jump back 2 times, by up to 1,699,999,902 s, first at line 4; "
        "the log may contain the times of two clocks" in warnings
    )
    assert any(text.startswith("the times jump ahead 1 time, by up to 1,699,999,903 s") for text in warnings)
    still = "t,r\n" + "".join(f"{1700000000 + n // 2},-90\n" for n in range(9))
    assert read(tmp_path, still, TIME + '[radio]\nrsrp_dbm = "r"\n')["radio"].provenance["warnings"] == []


def test_columns_that_are_exchanged_are_named(tmp_path: Path) -> None:
    log = "t,r,x,y\n" + "".join(f"{1700000000 + n},85,{n % 80},{100 + n}\n" for n in range(10))
    found = read(tmp_path, log, TIME + '[radio]\nrsrp_dbm = "r"\n[position]\nlat_deg = "y"\nlon_deg = "x"\n')
    assert found["radio"].provenance["missing"] == {"rsrp_dbm": 10, "lat_deg": 10}
    warnings = " ".join(found["radio"].provenance["warnings"])
    assert (
        "rsrp_dbm: 10 of 10 values of column 'r' are impossible "
        "(for example '85'; possible are -160 to -20 dBm)" in warnings
    )
    assert "lat_deg: 10 of 10 values of column 'y'" in warnings
    assert len(found["radio"]) == 0


def test_of_a_column_in_a_wrong_unit_nothing_is_read(tmp_path: Path) -> None:
    """The few that could be would else be rates of 750 Gbit/s, and levels that nobody saw."""
    log = "t,dl,r\n" + "".join(f"{1700000000 + n},{900 if n < 4 else 40_000_000 + n},-90\n" for n in range(12))
    table = read(tmp_path, log, TIME + '[radio]\nrsrp_dbm = "r"\ndownlink_bps = { column = "dl", unit = "Mbit/s" }\n')[
        "radio"
    ]
    assert {(row["downlink_bps"], row["rsrp_dbm"]) for row in table.rows()} == {(None, -90.0)}
    assert table.provenance["missing"] == {"downlink_bps": 12}
    assert any(
        "8 of 12 values of column 'dl'" in text and "the column is not read" in text for text in warnings_of(table)
    )


def test_a_number_that_stands_for_no_value_leaves_the_others(tmp_path: Path) -> None:
    log = "t,r\n" + "".join(f"{1700000000 + n},{-90 if n < 4 else 0}\n" for n in range(12))
    table = read(tmp_path, log, TIME + '[radio]\nrsrp_dbm = "r"\n')["radio"]
    assert [row["rsrp_dbm"] for row in table.rows()] == [-90.0] * 4
    idle = "t,dl\n" + "".join(f"{1700000000 + n},{900 if n < 4 else -1}\n" for n in range(12))
    rates = read(tmp_path, idle, TIME + '[radio]\ndownlink_bps = "dl"\n')["radio"]
    assert [row["downlink_bps"] for row in rates.rows()] == [900] * 4
    assert any("8 of 12 values of column 'r'" in text for text in warnings_of(table))


def warnings_of(table: Table) -> list[str]:
    found: list[str] = table.provenance["warnings"]
    return found


def test_no_place_is_at_zero_and_none_beyond_the_earth(tmp_path: Path) -> None:
    log = "t,y,x\n1700000000,0.0,0\n1700000001,52.5,13.4\n1700000002,0,13.4\n1700000003,91,181\n"
    table = read(tmp_path, log, TIME + '[position]\nlat_deg = "y"\nlon_deg = "x"\n')["position"]
    assert [(row["lat_deg"], row["lon_deg"]) for row in table.rows()] == [(52.5, 13.4), (0.0, 13.4)]
    assert table.provenance["missing"] == {"lat_deg": 2, "lon_deg": 2}
    assert any("1 position with latitude and longitude 0" in warning for warning in table.provenance["warnings"])
