"""Drive tests as CSV whose columns are known, and the maps that say so."""

from __future__ import annotations

import csv
import io
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import parsers
from multitracer.analysis.mobility.handovers import changes_of
from multitracer.errors import FormatError, UnknownFormatError
from parsers import drive_csv, track_csv
from parsers._text import mapped_log as bundled
from parsers._text.column_map import SCHEMAS
from parsers._text.mapped_log import bundled_maps
from parsers._text.times import form_of, time_ns
from tests.conftest import SAMPLES
from tests.narrowed import tables_of
from tests.parsers.damage import damaged, survives

if TYPE_CHECKING:
    from pathlib import Path

    from parsers._text.mapped_log import BundledMap

MAPS = bundled_maps()
S = 1_000_000_000
TOWERS = (
    b"mcc,mnc,lac,cell_id,psc,asu,dbm,ta,lat,lon,accuracy,speed,bearing,altitude,"
    b"measured_at,net_type,neighboring,device\r\n"
    b"260,2,58140,7016,55,45,-95,3,52.229676,21.012229,7.5,13.5,271,118.2,"
    b'"2021-05-06T14:22:00.250Z",LTE,false,"A B"\r\n'
    b"260,2,58140,7017,56,40,-100,,52.229676,21.012229,7.5,13.5,271,118.2,"
    b'"2021-05-06T14:22:00.250Z",LTE,true,"A B"\r\n'
    b"260,2,1234,4321,101,20,-89,,52.2297,21.0123,7.5,13.5,271,118.2,"
    b'"2021-05-06T14:22:01.250Z",UMTS,false,"A B"\r\n'
    b"260,2,1234,4322,,12,-89,1,52.2298,21.0124,7.5,13.5,271,118.2,"
    b'"2021-05-06T14:22:02.250Z",GSM,false,"A B"\r\n'
)
SURVEY = (
    b"# Created by Network Survey version=1.43-cdr\n# CSV Version=0.4.0\n"
    b"deviceTime,latitude,longitude,altitude,speed,accuracy,missionId,recordNumber,"
    b"groupNumber,mcc,mnc,tac,eci,earfcn,"
    b"pci,rsrp,rsrq,ta,servingCell,lteBandwidth,provider,signalStrength,cqi,slot,snr,"
    b"deviceSerialNumber,locationAge\n"
    b"2025-10-10T13:58:27.603261-04:00,37.7749,-122.4194,15.58,0,22,NS 1,1,2,310,260,12345,"
    b"12345678,750,36,-112.0,-9.0,"
    b"39,true,MHZ_10,T-Mobile,-61.0,11,,-1.0,12,4916\n"
)
XCAL = (
    b"TIME_STAMP,Lon,Lat,LTE KPI PCell Serving PCI,LTE KPI PCell Serving RSRP[dBm],"
    b"5G KPI PCell RF Serving PCI,"
    b"5G KPI PCell RF Serving SS-RSRP [dBm],5G KPI PCell Layer2 MAC DL Throughput [Mbps],GPS Speed (km/h)\n"
    b"2022-08-11 14:32:11.250,-71.1,42.3,163,-83.46,701,-95.5,123.5,36\n"
    b"2022-08-11 14:32:11.350,-71.1,42.3,163,-83.5,,,,36\n"
)
CAIT = (
    b"time_utc,call_state,pilot_pn,pilot_ecio_db,rx_power_dbm,frame_errors_pct,fsch_rate_kbps,rsch_rate_kbps,"
    b"rlp_resent_octets\n"
    b"2006-03-01T02:00:00.5Z,connected,36,-4.5,-81,2.5,153.6,9.6,328\n"
    b"2006-03-01T02:00:01.5Z,handoff,40,,,,9.6,,\n"
)


CAIT_SAMPLE = SAMPLES / "cdma2000" / "cait.csv"


def read(data: bytes) -> dict[str, Any]:
    fmt = parsers.recognise(data, path="x")
    assert fmt.name in ("drive-csv", "track-csv")
    return fmt.parse(io.BytesIO(data), path="x")  # type: ignore[return-value]


def test_level_goes_where_its_technology_has_it() -> None:
    found = read(TOWERS)
    lte, other, umts, gsm = found["radio"].rows()
    assert (lte["rat"], lte["rsrp_dbm"], lte["role"], lte["cell_id"]) == ("LTE", -95.0, "serving", 7016)
    assert (other["rsrp_dbm"], other["role"]) == (-100.0, "neighbour")
    assert (umts["rsrp_dbm"], umts["rscp_dbm"], umts["physical_cell_id"]) == (None, -89.0, 101)
    assert (gsm["rscp_dbm"], gsm["rssi_dbm"], gsm["timing_advance"]) == (None, -89.0, 1)
    assert lte["time_ns"] == 1620310920_250_000_000
    assert found["position"]["speed_mps"].tolist() == [13.5] * 4
    assert found["radio"].provenance["map"] == "tower-collector"
    assert "zone" not in found["radio"].provenance


def test_comments_before_the_names_are_stepped_over() -> None:
    found = read(SURVEY)
    (row,) = found["radio"].rows()
    assert (row["cell_id"], row["channel"], row["rsrp_dbm"], row["sinr_db"]) == (12345678, 750, -112.0, -1.0)
    assert row["time_ns"] == 1760119107_603_261_000
    assert row["line"] == 4


def test_several_technologies_of_a_line_are_rows_each() -> None:
    found = read(XCAL)
    lte, nr, later = found["radio"].rows()
    assert (lte["rat"], lte["rsrp_dbm"], lte["physical_cell_id"]) == ("LTE", -83.46, 163)
    assert (nr["rat"], nr["rsrp_dbm"], nr["downlink_bps"]) == ("NR", -95.5, 123.5e6)
    assert later["rat"] == "LTE"
    assert found["position"]["speed_mps"] == pytest.approx(10.0)
    assert found["radio"].provenance["zone"] == "unknown"


def test_a_cdma2000_call_has_assigned_rates_and_what_rlp_repeats() -> None:
    found = read(CAIT)
    first, second = found["radio"].rows()
    assert found["radio"].provenance["map"] == "cait"
    assert (first["rat"], first["role"], first["state"], first["physical_cell_id"]) == (
        "CDMA",
        "serving",
        "connected",
        36,
    )
    assert (first["ecio_db"], first["rssi_dbm"], first["bler_pct"]) == (-4.5, -81.0, 2.5)
    assert (first["assigned_down_bps"], first["assigned_up_bps"], first["rlp_resent_bytes"]) == (153_600, 9_600, 328)
    assert first["time_ns"] == 1_141_178_400_500_000_000
    missing = ("ecio_db", "rssi_dbm", "bler_pct", "assigned_up_bps", "rlp_resent_bytes")
    assert [second[name] for name in missing] == [None] * 5
    assert (second["physical_cell_id"], second["assigned_down_bps"]) == (40, 9_600)


def test_impossible_values_of_a_cdma2000_call_are_missing() -> None:
    row, _ = read(CAIT.replace(b"153.6", b"-1").replace(b"-4.5", b"1e400").replace(b",36,", b",5000,"))["radio"].rows()
    assert (row["assigned_down_bps"], row["ecio_db"], row["physical_cell_id"]) == (None, None, None)


def test_the_sample_of_a_cdma2000_call_shows_its_handoffs() -> None:
    radio = read(CAIT_SAMPLE.read_bytes())["radio"]
    assert len(radio) == 61
    assert sorted(set(radio["physical_cell_id"].tolist())) == [4, 8, 12]


def test_positions_alone_are_a_log_of_positions() -> None:
    logger = (
        b"type,date time,latitude,longitude,accuracy(m),altitude(m),geoid_height(m),speed(m/s),"
        b"bearing(deg),sat_used,"
        b"sat_inview,name,desc\n"
        b"T,2025-06-28 09:38:16,47.85001085,-4.208001633,1.18,72.517,,0.923,352,19,29,a,b\n"
        b"W,2025-06-28 09:38:17,47.9,-4.3,1.18,72.517,,0.923,352,19,29,note,\n"
    )
    assert drive_csv.sniff(logger) == "no"
    assert track_csv.sniff(logger) == "yes"
    found = read(logger)
    (row,) = found["position"].rows()
    assert (row["time_ns"], row["lat_deg"], row["heading_deg"]) == (1751103496 * S, 47.85001085, 352.0)
    assert "zone" not in found["position"].provenance


# --- the maps ---


@pytest.mark.parametrize("each", MAPS, ids=lambda m: m.name)
def test_map_says_what_is_known_of_it_and_reads_what_it_needs(each: BundledMap) -> None:
    assert set(each.needs) & {*each.columns.columns} >= {*each.columns.time}
    assert min(map(len, (each.description, each.source, each.certain))) > 10
    assert len(each.needs) >= 2


TIMES = {"auto": "2021-05-06 14:22:{:02}", "iso": "2021-05-06T14:22:{:02}Z", "epoch_ns": "16203109{:02}000000000"}


def log_of(
    each: BundledMap, chance: random.Random, delimiter: str, *, capitals: bool
) -> tuple[bytes, list[dict[str, str]]]:
    """Return a log with the columns of a map and others between them, and its fields by column."""
    columns = list(dict.fromkeys([*each.columns.columns, *each.needs, "spare 1", "spare 2"]))
    chance.shuffle(columns)
    words = {row.when[0]: sorted(row.when[1])[0] for row in each.columns.rows if row.when}
    lines = []
    for n in range(20):
        fields = {column: str(-chance.randint(70, 80)) for column in columns}
        fields |= dict.fromkeys(each.columns.time, TIMES[each.columns.form].format(n)) | words
        lines.append(fields)
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, quoting=csv.QUOTE_ALL if capitals else csv.QUOTE_MINIMAL)
    writer.writerow([column.upper() if capitals else column for column in columns])
    writer.writerows([[fields[column] for column in columns] for fields in lines])
    return out.getvalue().encode("utf-8-sig" if capitals else "utf-8"), lines


@pytest.mark.parametrize("each", MAPS, ids=lambda m: m.name)
@pytest.mark.parametrize(("delimiter", "capitals"), [(",", False), (";", True), ("\t", False)])
def test_map_is_chosen_in_any_order_case_and_delimiter(each: BundledMap, delimiter: str, capitals: bool) -> None:
    data, lines = log_of(each, random.Random(each.name), delimiter, capitals=capitals)
    found = read(data)
    for name, table in (("rsrp_dbm", "radio"), ("rssi_dbm", "radio"), ("lat_deg", "position")):
        rows = [row for row in each.columns.rows if row.table == table and name in row.cells]
        theirs = {float(fields[row.cells[name].column]) for fields in lines for row in rows}
        ours = set(found[table][name][~found[table].missing(name)].tolist()) if rows else set()
        assert ours == theirs or (ours < theirs and any(row.when for row in rows)), name
    assert found[each.columns.rows[0].table].provenance["map"] == each.name


def test_more_matched_columns_win_and_a_tie_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    about = '[map]\ndescription = "d"\nsource = "s"\ncertain = "c"\nneeds = ["t", "x"]\n'
    text = about + '[time]\ncolumn = "t"\n[radio]\n'
    small = bundled._read("small", text + 'rsrp_dbm = "x"\n')
    large = bundled._read("large", text + 'rsrp_dbm = "x"\nrsrq_db = "y"\n')
    again = bundled._read("again", text + 'rsrp_dbm = "x"\nrsrq_db = "y"\n')
    data = b"t,x,y\n2021-05-06T14:22:00Z,-90,-9\n"
    monkeypatch.setattr(bundled, "bundled_maps", lambda: (small, large))
    assert drive_csv.parse(io.BytesIO(data), path="x")["radio"].provenance["map"] == "large"
    monkeypatch.setattr(bundled, "bundled_maps", lambda: (small, large, again))
    with pytest.raises(FormatError, match="the maps large and again match equally well"):
        drive_csv.parse(io.BytesIO(data), path="x")
    monkeypatch.setattr(bundled, "bundled_maps", lambda: (large,))
    assert drive_csv.sniff(b"t,y\n1,2\n") == "no"


def test_map_beside_the_file_wins(tmp_path: Path) -> None:
    path = tmp_path / "towers.csv"
    path.write_bytes(TOWERS)
    assert parsers.detect(path).name == "drive-csv"
    path.with_name("towers.csv.toml").write_text('[time]\ncolumn = "measured_at"\n[radio]\nrssi_dbm = "asu"\n')
    assert parsers.detect(path).name == "mapped-csv"
    assert set(tables_of(path)) == {"radio"}


def test_names_that_no_map_has_are_claimed_by_none() -> None:
    assert drive_csv.sniff(b"time,rsrp,lat\n1,2,3\n") == track_csv.sniff(b"time,rsrp,lat\n1,2,3\n") == "no"
    with pytest.raises(FormatError, match="no bundled column map matches"):
        drive_csv.parse(io.BytesIO(b"time,rsrp\n1,2\n"), path="x")


def test_the_cell_of_nr_beside_one_of_lte_is_no_serving_cell(tmp_path: Path) -> None:
    """Two serving cells in each line would be a change of the cell, and back, every tenth of a second."""
    head, both, lte = XCAL.splitlines()
    alone = both.replace(b",163,-83.46,", b",,,")
    lines = [line.replace(b"14:32:11", b"14:32:%02d" % n) for n in range(20) for line in (both, lte)]
    path = tmp_path / "drive.csv"
    path.write_bytes(b"\n".join([head, *lines, alone.replace(b"14:32:11", b"14:32:20")]) + b"\n")
    radio = tables_of(path)["radio"]
    roles = [(rat, role) for rat, role in zip(radio["rat"].tolist(), radio["role"].tolist(), strict=True)]
    assert roles == [("LTE", "serving"), ("NR", "secondary"), ("LTE", "serving")] * 20 + [("NR", "serving")]
    assert len(changes_of(radio.take(slice(0, -1)))) == 0


def test_lines_of_one_time_are_of_one_dual_connection() -> None:
    """A log with a line for each cell."""
    head, lte, *_ = TOWERS.splitlines()
    nr = lte.replace(b"LTE", b"NR").replace(b",55,45,-95", b",700,45,-99")
    radio = read(b"\n".join([head, lte, nr]) + b"\n")["radio"]
    assert [(row["rat"], row["role"]) for row in radio.rows()] == [("LTE", "serving"), ("NR", "secondary")]


@given(data=st.sampled_from([TOWERS, SURVEY, XCAL]).flatmap(damaged))
def test_damaged_log_gives_tables_or_an_error(data: bytes) -> None:
    survives(drive_csv.parse, data)


def test_every_column_of_a_map_is_one_of_ours() -> None:
    for each in MAPS:
        for row in each.columns.rows:
            assert {*row.cells, *row.always} <= {*SCHEMAS[row.table].names}


def test_wigle_has_a_line_about_itself_above_the_names() -> None:
    data = (
        b"WigleWifi-1.4,appRelease=2.53,model=X,release=10,device=x,display=Q,board=x,brand=x\n"
        b"MAC,SSID,AuthMode,FirstSeen,Channel,RSSI,CurrentLatitude,CurrentLongitude,AltitudeMeters,"
        b"AccuracyMeters,Type\n"
        b"00:11:22:33:44:55,home,[ESS],2026-02-03 10:11:12,6,-71,52.25,8.5,80.1,4.2,WIFI\n"
        b"00101_12_263,Op,LTE;de,2026-02-03 10:11:13,1300,-101,52.251,8.51,80.1,4.2,LTE\n"
        b"00101_12_4711,Op,GSM;de,2026-02-03 10:11:14,0,-85,52.252,8.52,80.1,4.2,GSM\n"
    )
    fmt = parsers.recognise(data, path="x")
    found = fmt.parse(io.BytesIO(data), path="x")
    assert isinstance(found, dict)
    lte, gsm = found["radio"].rows()
    assert (lte["rsrp_dbm"], lte["role"], lte["channel"]) == (-101.0, "neighbour", 1300)
    assert (gsm["rssi_dbm"], gsm["rat"], len(found["position"])) == (-85.0, "GSM", 3)


@pytest.mark.parametrize(
    ("text", "seconds", "is_zoned"),
    [
        ("Wed Dec 15 16:04:38 UTC 2021", 1_639_584_278, True),
        ("Wed Dec 15 16:04:38 GMT+01:00 2021", 1_639_580_678, True),
        ("Wed Dec 15 16:04:38 +0100 2021", 1_639_580_678, True),
        ("Wed Dec 15 16:04:38 2021", 1_639_584_278, False),
    ],
)
def test_dates_as_date_and_java_print_them(text: str, seconds: int, is_zoned: bool) -> None:
    zoneless: list[int] = []
    assert time_ns(text, form_of([text]), None, lambda: zoneless.append(1)) == seconds * 1_000_000_000
    assert (not zoneless) == is_zoned


def test_a_drawing_for_maps_is_named_with_what_to_do() -> None:
    with pytest.raises(UnknownFormatError, match="use the text or CSV file that the program wrote beside it"):
        parsers.recognise(b'<?xml version="1.0"?>\n<kml xmlns="x"><Document/></kml>', path="x.kml")
