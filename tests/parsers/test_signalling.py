"""Messages of RRC and NAS become rows, measurement reports become readings, and commands become handovers."""

from __future__ import annotations

import io
import re
import shutil
import struct
import subprocess
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import parsers
from multitracer.errors import RemoteProtocolError
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.tables import NOT_A_TIME
from parsers._signalling import dissection
from parsers._signalling import dissection as programs
from parsers._signalling.dissection import COLUMNS, FIELDS
from parsers._signalling.gsmtap import message
from parsers._signalling.signalling import read_signalling
from tests.conftest import FIXTURES
from tests.parsers.signalling_messages import START_NS, line, nr, packet, read_messages, serving, version_2, version_3
from tests.parsers.test_diag import needs_programs, stub

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.tables import Table


pytestmark = pytest.mark.skipif(not shutil.which("tshark"), reason="needs tshark")
RECORDINGS = (
    sorted((FIXTURES / "mobileinsight").rglob("*.mi2log")) + sorted((FIXTURES / "qcsuper").glob("*.pcap"))
    if FIXTURES.is_dir()
    else []
)
TENTH_NS = 10**8


# --- messages ---


def test_messages_have_the_names_of_the_standard_and_trace_back_to_their_frames(tmp_path: Path) -> None:
    names = ["report", "handover to 305", "complete 1", "release", "request"]
    rows = list(read_messages(tmp_path, *map(version_2, names))["signalling"].rows())
    assert [(row["frame"], row["message"], row["direction"], row["logical_channel"]) for row in rows] == [
        (1, "MeasurementReport", "up", "UL-DCCH"),
        (2, "RRCConnectionReconfiguration", "down", "DL-DCCH"),
        (3, "RRCConnectionReconfigurationComplete", "up", "UL-DCCH"),
        (4, "RRCConnectionRelease", "down", "DL-DCCH"),
        (5, "RRCConnectionRequest", "up", "UL-CCCH"),
    ]
    assert {(row["rat"], row["layer"], row["channel"], row["modem"]) for row in rows} == {("LTE", "rrc", 1350, 0)}
    assert [row["cause"] for row in rows] == ["", "", "", "other", "mo-Data"]
    assert [row["transaction"] for row in rows] == [None, 1, 1, 0, None]
    assert rows[1]["time_ns"] == START_NS + TENTH_NS


def test_version_3_names_channels_beyond_16383_and_carries_nr(tmp_path: Path) -> None:
    lte = version_3(0x0403, 0x0B, bytes.fromhex("1200"), channel=66_586, cell=312)
    rows = list(read_messages(tmp_path, lte, nr("handover to 7"), nr("complete"))["signalling"].rows())
    assert [(row["rat"], row["message"], row["channel"], row["physical_cell_id"]) for row in rows] == [
        ("LTE", "RRCConnectionReconfigurationComplete", 66_586, 312),
        ("NR", "RRCReconfiguration", 504_990, 3),
        ("NR", "RRCReconfigurationComplete", 504_990, 3),
    ]


def test_other_packets_of_the_capture_are_passed_over_and_keep_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "mixed.pcap"
    other = packet(b"\0" * 40, port=53)
    short = packet(b"\x02\x04")
    packets = [other, packet(version_2("request")), short, packet(version_2("release"), modem=1)]
    path.write_bytes(pcap_header() + b"".join(pcap_record(p, time_ns=START_NS + n) for n, p in enumerate(packets)))
    table = read_signalling(path)["signalling"]
    assert table["frame"].tolist() == [2, 4]
    assert table["modem"].tolist() == [0, 1]
    assert table.provenance["skipped"] == {"a packet to the GSMTAP port has no GSMTAP header": 1}


@pytest.mark.parametrize("link_type", [1, 101, 217])
def test_a_capture_of_any_link_is_read(link_type: int, tmp_path: Path) -> None:
    raw = packet(version_2("request"))
    data = {1: bytes(12) + b"\x08\0" + raw, 101: raw, 217: version_2("request")}[link_type]
    path = tmp_path / "link.pcap"
    path.write_bytes(pcap_header(link_type=link_type) + pcap_record(data, time_ns=START_NS))
    (row,) = read_signalling(path)["signalling"].rows()
    assert (row["message"], row["frame"], row["time_ns"]) == ("RRCConnectionRequest", 1, START_NS)


def test_types_that_tshark_does_not_dissect_are_counted_by_type(tmp_path: Path) -> None:
    def of_type(kind: int) -> bytes:
        return struct.pack("!BBBBHbbLBBBB", 2, 4, kind, 0, 0, 0, 0, 0, 0, 0, 0, 0) + b"\x01\x02\x03"

    mac = version_3(0x0500, 1, b"\x01\x02", channel=1, cell=1)
    facts = read_messages(tmp_path, of_type(0x11), of_type(0x63), of_type(0x11), mac)["signalling"].provenance
    assert facts["unknown"] == {"QC_DIAG": 2, "type 0x63": 1, "NR_MAC": 1}
    assert facts["warnings"] == [
        "tshark does not dissect 4 of the GSMTAP packets; their types: QC_DIAG 2, type 0x63 1, NR_MAC 1"
    ]


@given(st.binary(max_size=200), st.integers(0, 40), st.integers(0, 255))
def test_any_octets_are_a_message_or_are_refused(data: bytes, at: int, octet: int) -> None:
    for start in (version_2("report"), nr("report"), data):
        changed = start[:at] + bytes([octet]) + start[at + 1 :] + data
        try:
            message(changed).packet()
        except RemoteProtocolError as error:
            assert "skipped" in str(error)  # noqa: PT017


def test_nothing_asks_tshark_for_who_it_is() -> None:
    asked_for = " ".join([*FIELDS.values(), *COLUMNS.values()]).lower()
    words = "imsi|imei|msisdn|tmsi|guti|suci|supi|mobile_id|called|calling|digits|apn|rnti|text|number(?!s)|bcd"
    assert re.findall(words, asked_for.replace("frame.number", "")) == []


# --- measurements ---


def test_a_report_gives_a_reading_of_each_cell_at_the_lower_edges_of_their_bins(tmp_path: Path) -> None:
    rows = list(read_messages(tmp_path, serving(1350, 141, 5_139_763), version_2("report"))["radio"].rows())
    names = ("role", "physical_cell_id", "channel", "rsrp_dbm", "rsrq_db", "cell_id")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("serving", 141, 1350, None, None, 5_139_763),
        ("serving", 141, 1350, -85.0, -11.0, 5_139_763),
        ("neighbour", 305, None, -87.0, -13.5, None),
        ("neighbour", 17, None, -101.0, -15.5, None),
    ]
    assert [(row["source"], row["line"], row["modem"]) for row in rows[:2]] == [("scat", 1, 0), ("RRC report", 2, 0)]
    assert (rows[0]["plmn"], rows[0]["area_code"], rows[0]["band"]) == ("00101", 0x10DE, "3")


def test_a_report_of_nr_gives_cells_and_not_their_beams(tmp_path: Path) -> None:
    rows = list(read_messages(tmp_path, nr("report"))["radio"].rows())
    names = ("role", "physical_cell_id", "rsrp_dbm", "rsrq_db", "sinr_db")
    serving_cell, neighbour = (tuple(row[name] for name in names) for row in rows)
    assert serving_cell == ("serving", 7, -97.0, -10.5, 11.5)
    assert neighbour[:2] == ("neighbour", 8)
    assert neighbour[2:] in (((-107.0, -15.5, -3.5)), (None, None, None))


def test_lines_of_scat_are_readings(tmp_path: Path) -> None:
    cell = "LTE SCell: EARFCN: 6300, PCI: 214, "
    said = [
        cell + "Measured RSRP: -101.25, Measured RSSI: -66.62, Measured RSRQ: -14.06",
        "LTE NCell: EARFCN: 6300, number of cells: 1",
        "-- Neighbor cell 0: PCI:  17, RSRP: -110.50, RSSI: -80.00, RSRQ: -18.50",
        "Layer 0: NR-ARFCN: 504990, SCell PCI:  283/SSB: 1, a, RX beam: 1/2, Num Cells: 1 (S: 0)",
        "-- Cell 0: PCI:  283, PBCH SFN: 12, RSRP: -88.10, RSRQ: -11.00, Num Beams: 1",
        "WCDMA Search Cell: 3G Cell 0: UARFCN: 10564, PSC: 448, RSCP: -77, Ec/Io: -3.50",
        "something else about 001010123456789",
    ]
    rows = list(read_messages(tmp_path, *map(line, said))["radio"].rows())
    values = [(r["rat"], r["role"], r["channel"], r["physical_cell_id"], r["rsrp_dbm"], r["rscp_dbm"]) for r in rows]
    assert values == [
        ("LTE", "serving", 6300, 214, -101.25, None),
        ("LTE", "neighbour", 6300, 17, -110.5, None),
        ("NR", "serving", 504_990, 283, -88.1, None),
        ("UMTS", "", 10564, 448, None, -77.0),
    ]


# --- clocks ---


def test_times_that_jump_are_split_and_no_handover_crosses_a_jump(tmp_path: Path) -> None:
    back = [START_NS, START_NS + TENTH_NS, START_NS - 18 * 10**9]
    tables = read_messages(tmp_path, *map(version_2, ("request", "handover to 305", "complete 1")), times_ns=back)
    assert tables["signalling"]["time_ns"].tolist() == back  # in the order of the log
    assert tables["signalling"]["clock"].tolist() == [0, 0, 1]
    (row,) = tables["handovers"].rows()
    assert row["result"] == "unknown"
    (warning,) = tables["signalling"].provenance["warnings"]
    assert warning.startswith("the times change once to another clock (")


def test_times_before_the_modem_knew_them_are_missing_beside_true_ones(tmp_path: Path) -> None:
    early = [315_964_800 * 10**9 + 7, START_NS]
    tables = read_messages(tmp_path, version_2("request"), version_2("release"), times_ns=early)
    assert tables["signalling"]["time_ns"].tolist() == [NOT_A_TIME, START_NS]
    assert "1 messages have no time" in tables["signalling"].provenance["warnings"][0]
    alone = read_messages(tmp_path, version_2("request"), times_ns=early[:1])["signalling"]
    assert alone["time_ns"].tolist() == early[:1]
    assert "all times are relative" in alone.provenance["warnings"][0]


def test_a_log_that_goes_to_and_fro_between_two_clocks_has_four_stretches(tmp_path: Path) -> None:
    utc = [0, 100, 300, 400, 600, 700, 900, 1000]
    ahead = [18_000, 18_000, 0, 0, 18_000, 18_000, 0, 0]
    times = [START_NS + (t + a) * 10**6 for t, a in zip(utc, ahead, strict=True)]
    table = read_messages(tmp_path, *[version_2("request")] * 8, times_ns=times)["signalling"]
    assert table["clock"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


# --- programs that fail ---


def test_a_tshark_that_dies_leaves_what_it_dissected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.which("tshark")
    script = f'case "$*" in *messages.pcapng*) {real} "$@" | head -n 2; exit 9;; *) exec {real} "$@";; esac'
    monkeypatch.setenv("PATH", stub(tmp_path, "tshark", script))
    table = read_messages(tmp_path, *map(version_2, ("request", "release", "report")))["signalling"]
    assert table["message"].tolist() == ["RRCConnectionRequest", "RRCConnectionRelease", ""]
    assert "tshark failed with status 9" in table.provenance["warnings"][0]
    assert "it dissected 2 of 3 messages; the other messages have no name" in table.provenance["warnings"][0]


def test_a_tshark_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.which("tshark")
    script = f'case "$*" in *messages.pcapng*) sleep 600;; *) exec {real} "$@";; esac'
    monkeypatch.setenv("PATH", stub(tmp_path, "tshark", script))
    monkeypatch.setattr(dissection, "_MIN_S", 5.0)
    monkeypatch.setattr(programs, "_GRACE_S", 0.2)
    table = read_messages(tmp_path, version_2("request"))["signalling"]
    assert len(table) == 1
    assert "tshark did not end within 5 s and was stopped" in table.provenance["warnings"][0]


def test_fields_that_an_older_tshark_lacks_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(dissection.FIELDS, "of_tomorrow", "lte-rrc.of_the_year_2040")
    table = read_messages(tmp_path, version_2("request"))["signalling"]
    assert table["message"].tolist() == ["RRCConnectionRequest"]
    assert table.provenance["warnings"] == []


def test_messages_beyond_the_bound_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dissection, "_MOST_MESSAGES", 2)
    table = read_messages(tmp_path, *[version_2("request")] * 5)["signalling"]
    assert len(table) == 2
    assert table.provenance["left_out"] == 3


# --- recordings of others ---


def log_of(data: bytes) -> dict[str, Table]:
    """Return the tables of a log."""
    tables = parsers.recognise(data[:4096], path="x").parse(io.BytesIO(data), path="x")
    assert isinstance(tables, dict)
    return tables


def tshark_counts(path: Path) -> Counter[str]:
    """Return how often tshark's own summary begins with each message of RRC."""
    words = subprocess.run(
        ["tshark", "-n", "-r", str(path), "-Y", "lte_rrc or rrc", "-T", "fields", "-e", "_ws.col.Info"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    firsts = (re.match(r"[A-Za-z][\w-]*", entry) for entry in words.splitlines())
    return Counter(re.sub(r"-r\d+$|-CCCH$", "", match[0]).lower() for match in firsts if match)


@pytest.mark.fixtures
@needs_programs
def test_counts_of_messages_are_those_of_tshark(tmp_path: Path) -> None:
    (path,) = (each for each in RECORDINGS if each.suffix == ".pcap")
    table = read_signalling(path)["signalling"]
    own = [row for row in table.rows() if row["layer"] == "rrc" and row["logical_channel"]]
    counted = Counter(row["message"].lower() for row in table.rows() if row["layer"] == "rrc")
    assert own
    assert counted == tshark_counts(path)


@pytest.mark.fixtures
@needs_programs
@pytest.mark.parametrize("path", [p for p in RECORDINGS if p.suffix == ".mi2log"], ids=lambda p: p.stem)
def test_a_diagnostic_log_gives_what_tshark_finds_in_the_capture_of_scat(path: Path, tmp_path: Path) -> None:
    tables = log_of(path.read_bytes())
    made = tmp_path / "scat.pcap"
    subprocess.run(
        [programs.program("scat"), "-t", "qc", "-L", "nas,rrc", "-d", str(path), "-F", str(made)],
        check=True,
        capture_output=True,
    )
    low = Counter(
        row["message"].lower()
        for row in tables["signalling"].rows()
        if row["layer"] == "rrc" and row["rat"] == "LTE" and (row["channel"] or 0) < 1 << 14
    )
    low.pop("ulinformationtransfermrdc", None)  # tshark's summary shows only the message of NR in it
    theirs = tshark_counts(made)
    assert {name: n for name, n in theirs.items() if name != "measurement"} == dict(low)


@pytest.mark.fixtures
@needs_programs
def test_a_log_cut_in_half_gives_its_first_half() -> None:
    path = next(p for p in RECORDINGS if p.stem.startswith("20201116_124000"))
    data = path.read_bytes()
    complete, half = log_of(data)["signalling"], log_of(data[: len(data) // 2])["signalling"]
    assert 0 < len(half) < len(complete)
    assert half["message"].tolist() == complete["message"][: len(half)].tolist()
    assert half.provenance["cut_bytes"] > 0
