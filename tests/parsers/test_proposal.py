"""A map that is proposed for an unknown CSV: it reads the log that it was made for, and marks guesses."""

from __future__ import annotations

import csv
import io
import random
import tomllib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import parsers
from multitracer.errors import FormatError, UnknownFormatError
from parsers._text.proposal import guesses, named_unit, tokens
from tests.narrowed import tables_of

if TYPE_CHECKING:
    from pathlib import Path

S = 1_000_000_000
START = datetime(2021, 5, 20, 14, 22, tzinfo=UTC)
NAMES = {
    "time": ["Time", "timestamp", "DateTime", "GPS Time", "utc_time", "measured at time"],
    "lat_deg": ["Latitude", "lat", "GPS Lat", "Latitude (deg)", "gps_latitude"],
    "lon_deg": ["Longitude", "lon", "GPS Lon", "lng", "gps_longitude"],
    "speed_mps": ["Speed{}", "GPS Speed{}", "velocity{}", "vehicleSpeed{}"],
    "rsrp_dbm": ["RSRP", "LTE RSRP (dBm)", "Serving RSRP[dBm]", "rsrp_dbm", "lteRsrp"],
    "rsrq_db": ["RSRQ", "LTE RSRQ (dB)", "rsrq_db", "ServingRSRQ"],
    "sinr_db": ["SINR", "SNR", "LTE SINR (dB)", "rssnr"],
    "rssi_dbm": ["RSSI", "RSSI (dBm)", "LTE_RSSI"],
    "physical_cell_id": ["PCI", "Serving PCI", "pci"],
    "cell_id": ["CellID", "Cell Id", "ECI", "cell_id"],
    "downlink_bps": ["DL Throughput (Mbps)", "Download rate [Mbit/s]", "DL_bitrate (Mb/s)"],
}
"""Column of ours -> names that logs give it; speeds with a place for the unit."""
SPEEDS = {" (km/h)": 3.6, " [mph]": 1 / 0.44704, "_kmh": 3.6, " (m/s)": 1.0, "": 3.6}
FORMS = [
    "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.%fZ", "%d.%m.%Y %H:%M:%S", "%m/%d/%Y %I:%M:%S %p",
    "epoch_s", "epoch_ms", "%Y.%m.%d_%H.%M.%S",
]  # fmt: skip


def drive(chance: random.Random, rows: int = 40) -> list[dict[str, float]]:
    """Return what a car sees that drives north at 5 to 30 m/s."""
    lat, lines = 52.0 + chance.random(), []
    for _ in range(rows):
        speed = chance.uniform(5, 30)
        lat += speed / 111_195
        lines.append(
            {
                "lat_deg": round(lat, 7), "lon_deg": round(-8.4 + chance.random() / 1e5, 7),
                "speed_mps": speed,
                "rsrp_dbm": chance.randint(-120, -70), "rsrq_db": chance.randint(-19, -5),
                "sinr_db": chance.randint(-5, 25), "rssi_dbm": chance.randint(-90, -50),
                "physical_cell_id": chance.randint(0, 503), "cell_id": chance.randint(10**6, 10**7),
                "downlink_bps": chance.randint(1, 150) * 1_000_000.0,
            }
        )  # fmt: skip
    return lines


def text_of(moment: datetime, form: str) -> str:
    if form.startswith("epoch"):
        return str(int(moment.timestamp()) * (1000 if form == "epoch_ms" else 1))
    return moment.strftime(form)


@given(seed=st.integers(0, 10**9))
def test_proposed_map_reads_the_log_that_it_was_made_for(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    chance = random.Random(seed)
    delimiter, form = chance.choice(",;\t|"), chance.choice(FORMS)
    comma = delimiter != "," and chance.random() < 0.5
    unit, per_mps = chance.choice(list(SPEEDS.items()))
    truth = drive(chance)
    columns = {ours: chance.choice(names).format(unit) for ours, names in NAMES.items()}
    order = [*columns, "spare", "counter"]
    chance.shuffle(order)
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerow([columns.get(name, name) for name in order])
    for n, row in enumerate(truth):
        shown = {name: str(int(value)) if value == int(value) else f"{value:.7f}" for name, value in row.items()}
        shown["speed_mps"] = f"{row['speed_mps'] * per_mps:.4f}"
        shown["downlink_bps"] = f"{row['downlink_bps'] / 1e6:g}"
        fields = {name: text.replace(".", ",") if comma else text for name, text in shown.items()}
        fields |= {"time": text_of(START + timedelta(seconds=n), form), "spare": "x", "counter": str(n)}
        writer.writerow([fields[name] if n % 7 or name != "rsrq_db" else "n.a." for name in order])
    path = tmp_path_factory.mktemp("drive") / "drive.csv"
    path.write_text(out.getvalue(), encoding="utf-8-sig" if chance.random() < 0.3 else "utf-8")
    path.with_name("drive.csv.toml").write_text(parsers.propose_map(path))
    assert parsers.detect(path).name == "mapped-csv"
    tables = tables_of(path)
    check(tables, truth, path.with_name("drive.csv.toml").read_text())


def check(tables: dict[str, Any], truth: list[dict[str, float]], proposal: str) -> None:
    radio, position = tables["radio"], tables["position"]
    seconds = [int(START.timestamp()) + n for n in range(len(truth))]
    assert (position["time_ns"] // S).tolist() == seconds, proposal
    for name in truth[0]:
        table = position if name in position.schema.names else radio
        values = [row[name] for row in table.rows()]
        expected = [None if name == "rsrq_db" and n % 7 == 0 else row[name] for n, row in enumerate(truth)]
        assert values == [None if each is None else pytest.approx(each, abs=1e-4) for each in expected], (
            name + "\n" + proposal
        )


def propose(folder: Path, text: str) -> str:
    path = folder / "log.csv"
    path.write_text(text)
    return parsers.propose_map(path)


def rows(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def test_what_is_not_sure_is_marked(tmp_path: Path) -> None:
    text = rows("date,speed,rsrp,dl rate", *(f"0{1 + n}/02/2021 10:00:0{n},{90 + n},{80 + n},7" for n in range(9)))
    proposal = propose(tmp_path, text)
    assert 'form = "%d/%m/%Y %H:%M:%S"  # unsure: day and month may be exchanged' in proposal
    assert '# zone = "+01:00"  # unsure: the times have no zone' in proposal
    assert (
        'speed_mps = { column = "speed", unit = "km/h" }  # unsure: the unit is unknown; '
        "km/h is assumed from the largest value, 98" in proposal
    )
    assert (
        "# rsrp_dbm = \"rsrp\"  # unsure: values such as '80' are impossible: the range is -160 to -20 dBm" in proposal
    )
    assert '# downlink_bps = "dl rate"  # unsure: the unit is unknown; write for example { column' in proposal


def moving(*speeds: float) -> str:
    """Return a log that goes 20 m/s to the north, with what it writes of its speed."""
    lines = (
        f"2021-02-{13 + n:02} 10:00:00,{48 + n * 20 * 86_400 / 111_195:.6f},8,{speed}" for n, speed in enumerate(speeds)
    )
    return rows("time,lat,lon,speed", *lines)


def test_a_speed_that_fits_no_unit_is_only_a_comment(tmp_path: Path) -> None:
    """It is in the unit of none if the positions say 1.4 times what the nearest unit does."""
    assert 'speed_mps = { column = "speed", unit = "km/h" }' in propose(tmp_path, moving(*[70] * 9))
    proposal = propose(tmp_path, moving(*[28] * 9))
    assert (
        '# speed_mps = "speed"  # unsure: the unit is unknown, '
        "and no unit matches the speed between the positions (1.40" in proposal
    )


def test_an_unknown_csv_says_how_to_propose_a_map(tmp_path: Path) -> None:
    """As a Network Signal Guru export of unknown columns."""
    path = tmp_path / "guru.csv"
    path.write_text(
        rows("No,Time,RSRP(dBm),PDCP DL Thr(Mbps)", *(f"{n},2026-05-04 09:15:0{n},-90,3" for n in range(9)))
    )
    with pytest.raises(UnknownFormatError, match=r"multitracer formats --propose .*guru\.csv > .*guru\.csv\.toml"):
        parsers.detect(path)
    assert 'downlink_bps = { column = "PDCP DL Thr(Mbps)", unit = "Mbps" }' in parsers.propose_map(path)
    (tmp_path / "prose.txt").write_text("Dear all,\nthis is a letter, not a table.\n")
    with pytest.raises(UnknownFormatError, match=r"looks like text\); installed formats"):
        parsers.detect(tmp_path / "prose.txt")


@pytest.mark.parametrize(
    ("names", "first"),
    [
        ("Datum;Uhrzeit;Breite;Länge", "20.05.2021;14:22:00;52,5;13,4"),
        ("Fecha;Hora;Latitud;Longitud", "20-05-2021;14:22:00;52,5;13,4"),
        ("Horodatage;Latitude;Longitude", "2021/05/20 14:22:00;52,5;13,4"),
    ],
)
def test_words_of_other_languages_for_time_and_place(tmp_path: Path, names: str, first: str) -> None:
    path = tmp_path / "log.csv"
    path.with_name("log.csv.toml").write_text(propose(tmp_path, rows(names, *[first] * 5)))
    table = tables_of(path)["position"]
    assert set(table["time_ns"].tolist()) == {int(START.timestamp()) * S}
    assert (table["lat_deg"][0], table["lon_deg"][0]) == (52.5, 13.4)


def test_columns_that_are_left_out_are_listed_with_why(tmp_path: Path) -> None:
    header = "time,rsrp,dl_bps,UL,avg_rsrp,Nivel,Empty,lte_rsrp"
    line = "2021-05-06T10:00:00Z,-90,4000,7,-91,3,,-90"
    proposal = propose(tmp_path, rows(header, *[line] * 9))
    assert '\ndownlink_bps = "dl_bps"\n' in proposal
    assert '# uplink_bps = "UL"  # unsure: the unit is unknown' in proposal
    assert proposal.split("# Not used:\n")[1].splitlines() == [
        "# 'avg_rsrp' (for example '-91'): 'avg' in the name belongs to another cell, or to several lines",
        "# 'Nivel' (for example '3'): the name does not match a known quantity",
        "# 'Empty', no value in these lines: the name does not match a known quantity",
    ]
    twice = propose(tmp_path, rows("time,rsrp,my rsrp", *["2021-05-06T10:00:00Z,-90,-91"] * 9))
    assert "# 'my rsrp' (for example '-91'): another column is used for the same quantity" in twice


def test_an_empty_map_is_called_empty(tmp_path: Path) -> None:
    """As `formats --propose LOG > LOG.toml` leaves it where nothing can be proposed."""
    (tmp_path / "log.csv").write_text("a,b\n1,2\n")
    (tmp_path / "log.csv.toml").write_text("")
    with pytest.raises(FormatError, match="; the file is empty: write a map, or delete the file"):
        tables_of(tmp_path / "log.csv")


@pytest.mark.parametrize("way", [1, -1])
def test_a_level_that_stands_apart_and_repeats_is_no_value(tmp_path: Path, way: int) -> None:
    """Loggers write -140 for a level that was not read: a report called it weak coverage."""
    levels = [-140 if n % 7 == 0 else -70 - way * n % 30 for n in range(60)]
    lines = (f"{1700000000 + n},{level}" for n, level in enumerate(levels))
    path = tmp_path / "log.csv"
    proposal = propose(tmp_path, rows("ts,rsrp", *lines))
    assert 'missing = ["-140"] }  # unsure: -140 repeats, ' in proposal
    path.with_name("log.csv.toml").write_text(proposal)
    found = tables_of(path)["radio"]["rsrp_dbm"]
    assert len(found) == sum(level != -140 for level in levels)


def test_a_weak_level_among_others_is_a_level(tmp_path: Path) -> None:
    levels = [-70 - n for n in range(60)] + [-140] * 5 + [-128]
    proposal = propose(tmp_path, rows("ts,rsrp", *(f"{1700000000 + n},{r}" for n, r in enumerate(levels))))
    assert "missing" not in proposal


@pytest.mark.parametrize(
    ("name", "serves", "other"),
    [("cell_type", "serving", "neighbor"), ("Role", "Serving", "Neighbour"), ("registered", "True", "False")],
)
def test_a_log_with_a_line_for_each_cell_says_which_one_serves(
    tmp_path: Path, name: str, serves: str, other: str
) -> None:
    """Without it each neighbour was a serving cell, and a change of the cell."""
    lines = [f"{1700000000 + n},{word},{pci},-90" for n in range(5) for word, pci in ((serves, 7), (other, n + 20))]
    path = tmp_path / "log.csv"
    path.with_name("log.csv.toml").write_text(propose(tmp_path, rows(f"ts,{name},pci,rsrp", *lines)))
    assert tables_of(path)["radio"]["role"].tolist() == ["serving", "neighbour"] * 5


def test_a_sector_below_its_base_station_is_a_cell(tmp_path: Path) -> None:
    lines = (f"{1700000000 + n};300{n};{1 + n % 3};-90" for n in range(9))
    path = tmp_path / "log.csv"
    path.with_name("log.csv.toml").write_text(propose(tmp_path, rows("ts;eNB;Sektor;rsrp", *lines)))
    cells = tables_of(path)["radio"]["cell_id"].tolist()
    assert cells == [(3000 + n) << 8 | (1 + n % 3) for n in range(9)]


def test_places_in_degrees_and_minutes_are_read(tmp_path: Path) -> None:
    lines = (f"{1700000000 + n};33°54.{n}00'S;151° 12' {n}.5\" E;{36 + n};-90" for n in range(9))
    path = tmp_path / "log.csv"
    path.with_name("log.csv.toml").write_text(propose(tmp_path, rows("ts;lat;lon;kmh;Cell Identity", *lines)))
    found = tables_of(path)["position"]
    assert found["lat_deg"].tolist() == pytest.approx([-(33 + (54 + n / 10) / 60) for n in range(9)])
    assert found["lon_deg"].tolist() == pytest.approx([151 + 12 / 60 + (n + 0.5) / 3600 for n in range(9)])
    assert found["speed_mps"].tolist() == pytest.approx([(36 + n) / 3.6 for n in range(9)])


def test_a_place_without_a_sign_has_its_hemisphere_in_a_column_beside_it(tmp_path: Path) -> None:
    """A drive in Chile lay in the Himalaya, and nothing was said."""
    lines = (f"{1700000000 + n},31.79{n},S,{115 + n},{'W' if n else ''},-90" for n in range(5))
    path = tmp_path / "log.csv"
    path.with_name("log.csv.toml").write_text(propose(tmp_path, rows("ts,lat,NS,lon,EW,rsrp", *lines)))
    found = list(tables_of(path)["position"].rows())
    assert [row["lat_deg"] for row in found] == [pytest.approx(-31.79 - n / 1000) for n in range(5)]
    assert [row["lon_deg"] for row in found] == [None, -116, -117, -118, -119], "without a letter, which half?"


def test_the_column_of_the_plainest_name_whose_values_can_be_is_taken(tmp_path: Path) -> None:
    line = "2021-05-06T10:00:00Z,-60,-90,-95,7,4.5 Mbit/s"
    proposal = propose(tmp_path, rows("time,best rsrp,RSRP,RSRP RX1,DL,DL rate", *[line] * 9))
    assert '\nrsrp_dbm = "RSRP"\n' in proposal
    assert '\ndownlink_bps = "DL rate"\n' in proposal


def test_a_spreadsheet_of_windows_keeps_its_umlauts(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    lines = (f"06.05.2021 10:00:0{n};52,5;13,{n};LTE FDD;-90" for n in range(9))
    path.write_text(rows("Zeit;Breite;Länge;Technologie;RSRP", *lines), "cp1252")
    path.with_name("log.csv.toml").write_text(parsers.propose_map(path), "utf-8")
    found = tables_of(path)
    assert found["position"]["lon_deg"].tolist() == pytest.approx([13 + n / 10 for n in range(9)])
    assert set(found["radio"]["rat"]) == {"LTE"}


def test_technologies_in_one_line_are_rows_each(tmp_path: Path) -> None:
    text = rows(
        "ts,LTE RSRP,NR SS-RSRP,LTE PCI,5G PCI,Neighbour RSRP",
        *(f"{1700000000 + n},-9{n},-10{n},{n},{n + 7},-120" for n in range(5)),
    )
    path = tmp_path / "log.csv"
    path.with_name("log.csv.toml").write_text(propose(tmp_path, text))
    found = list(tables_of(path)["radio"].rows())[:2]
    assert [(row["rat"], row["rsrp_dbm"], row["physical_cell_id"]) for row in found] == [
        ("LTE", -90.0, 0), ("NR", -100.0, 7),
    ]  # fmt: skip


def test_words_and_numbers_in_base_16_are_seen(tmp_path: Path) -> None:
    text = rows(
        "time;network type;Cell ID;rsrp",
        "2021-05-06T10:00:00Z;4G;1A2B;-90",
        "2021-05-06T10:00:01Z;5G;77;-91",
        "2021-05-06T10:00:02Z;WIFI;78;-92",
    )  # fmt: skip
    path = tmp_path / "log.csv"
    path.with_name("log.csv.toml").write_text(propose(tmp_path, text))
    first, second, third = tables_of(path)["radio"].rows()
    assert (first["rat"], first["cell_id"], second["rat"], second["cell_id"]) == ("LTE", 0x1A2B, "NR", 0x77)
    assert third["rat"] == ""
    assert '"GPRS" = "GSM"' in (tmp_path / "log.csv.toml").read_text(), "later lines may hold it"
    assert "zone" not in (tmp_path / "log.csv.toml").read_text()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "does not contain the column names of a CSV"),
        ("just words\nmore\n", "does not contain the column names of a CSV"),
        ("a,b\n1,2\n", r"no column contains times in a known form; .* checked: 'a' \(for example '1'\), 'b'"),
        ("t\0i\0m\0e\0,\0r\0s\0r\0p\0\n\0", "the file is UTF-16 text"),
        ("Export\n\ntime,rsrp,pci\n1,2,3\n", "line 3 may contain them: delete the lines above it"),
        ("when,rsrp\nnoon,-90\n", r"checked: 'when' \(for example 'noon'\)"),
        ("time,colour\n2021-05-06T10:00:00Z,red\n", "no column seems to contain a position"),
    ],
)
def test_log_without_a_time_or_a_level_is_one_sentence(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(FormatError, match=why):
        propose(tmp_path, text)


@given(names=st.lists(st.text(max_size=12), min_size=2, max_size=6), data=st.data())
def test_any_names_give_toml_or_an_error(
    names: list[str], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out = io.StringIO()
    writer = csv.writer(out)
    extra = data.draw(st.text(max_size=8))
    writer.writerow([*names, "time", f"rsrp{extra}"])
    writer.writerows([["1"] * len(names) + [f"2021-05-06T10:00:0{n}Z", "-90"] for n in range(3)])
    path = tmp_path_factory.mktemp("any") / "log.csv"
    path.write_bytes(out.getvalue().encode("utf-8", "replace"))
    try:
        proposal = parsers.propose_map(path)
    except FormatError:
        return
    tomllib.loads(proposal)
    path.with_name("log.csv.toml").write_text(proposal, encoding="utf-8")
    assert tables_of(path)


def test_names_are_split_into_words_and_units() -> None:
    assert tokens("DL_Bitrate") == ["dl", "bitrate"]
    assert "5g" in tokens("5G KPI PCell RF")
    assert named_unit("GPS Speed") == ("GPS Speed", "")
    assert named_unit("speed_kmh") == ("speed", "kmh")
    assert named_unit("RSRP [dBm]") == ("RSRP", "dBm")
    assert guesses(["speedAccuracy"], [["1"]], ()) == []
