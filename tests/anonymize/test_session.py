"""The copy of a session tells of TCP what the session tells, and nothing of whose it was."""

from __future__ import annotations

import functools
import gzip
import json
import operator
import re
import shutil
import struct
from ipaddress import ip_address
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import multitracer as mt
import parsers
from multitracer.anonymize.pseudonyms import Pseudonyms, anonymous
from multitracer.anonymize.session import anonymize
from multitracer.lab.tcp.packet import parse_packet
from multitracer.manifest import Manifest, Measurement, Variables, changed_files, read_manifest, write_manifest
from multitracer.recording.inputs import find_inputs
from multitracer.recording.read import read
from tests.cli.program import analyze, call
from tests.parsers.frames import ethernet, ipv4, pcap_file, tcp

if TYPE_CHECKING:
    from pathlib import Path

KEY = b"k" * 32


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory, sample_session: Path) -> Path:
    folder = tmp_path_factory.mktemp("copy") / "shared"
    call("export", "session", "--anonymize", sample_session, "-o", folder)
    return folder


def test_analysis_of_the_copy_is_that_of_the_session(copy: Path, sample_session: Path) -> None:
    names = ("src", "dst", "file")
    found, wanted = (
        [{k: v for k, v in each.items() if k not in names} for each in analyze(folder)["connections"]]
        for folder in (copy, sample_session)
    )
    assert found == wanted


def test_senders_variables_still_belong_to_their_connection(copy: Path, tmp_path: Path) -> None:
    call("export", "series", copy, "-o", tmp_path / "series")
    assert (tmp_path / "series" / "TcpSnd_cwnd.csv").exists()
    assert (tmp_path / "series" / "TcpRcv_data.csv").exists()


def test_nothing_in_the_copy_tells_an_address_or_a_machine(copy: Path, sample_session: Path) -> None:
    manifest = read_manifest(sample_session)
    assert manifest is not None
    addresses = {
        ip_address(end[key]).packed for end in analyze(sample_session)["connections"] for key in ("src", "dst")
    }
    assert addresses
    for path in copy.rglob("*"):
        if path.is_file():
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            for address in addresses:
                assert address not in data, path
                assert str(ip_address(address)).encode() not in data, path


def test_copy_is_whole_and_says_what_it_lacks(copy: Path) -> None:
    manifest = read_manifest(copy)
    assert manifest is not None
    assert manifest.files
    assert list(changed_files(copy, manifest)) == []
    assert manifest.more["anonymized"]["mobile/tcp-0.pcap.gz"] == "IP headers only"


def test_no_payload_is_left(copy: Path) -> None:
    for packet in parsers.read_ip_packets(copy / "mobile" / "tcp-0.pcap.gz"):
        header = (packet.data[0] & 15) * 4
        assert len(packet.data) == header + (packet.data[header + 12] >> 4) * 4


def test_keys_of_tls_are_in_nothing_that_is_made_of_the_session(tmp_path: Path) -> None:
    secret = "5ec2e7" * 16
    folder = tmp_path / "drive"
    (folder / "mobile").mkdir(parents=True)
    (folder / "mobile" / "tcp-0.pcap").write_bytes(pcap_file([ethernet(ipv4(tcp()))] * 3))
    (folder / "mobile" / "keylog-0.txt").write_text(f"CLIENT_RANDOM {'11' * 32} {secret}\n" * 3)
    made = tmp_path / "made"
    made.mkdir()
    said = call("export", "session", "--anonymize", folder, "-o", made / "shared").stdout
    said += call("report", folder, "-o", made / "report.html").stdout
    said += call("export", "tables", folder, "-o", made / "tables").stdout
    said += "".join(call(*words, folder).stdout for words in (("analyze", "--json"), ("inspect",)))
    assert not list((made / "shared").rglob("*keylog*"))
    for path in made.rglob("*"):
        if path.is_file():
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            for words in (secret.encode(), bytes.fromhex(secret)):
                assert words not in data, path
    assert secret not in said


def test_two_copies_are_not_alike(copy: Path, sample_session: Path, tmp_path: Path) -> None:
    call("export", "session", "--anonymize", sample_session, "-o", tmp_path / "other")
    first, second = (analyze(folder)["connections"][0]["src"] for folder in (copy, tmp_path / "other"))
    assert first != second


def test_hostile_session_is_copied_without_what_it_smuggles(tmp_path: Path, sample_session: Path) -> None:
    folder = tmp_path / "session"
    shutil.copytree(sample_session, folder)
    (folder / "mobile" / "passwd").symlink_to("/etc/passwd")
    (folder / "mobile" / "notes.txt").write_text("I live at 10.0.3.2")
    manifest = read_manifest(folder)
    assert manifest is not None
    manifest.more["imei"] = "490154203237518"
    write_manifest(folder, manifest)
    call("export", "session", "--anonymize", folder, "-o", tmp_path / "shared")
    assert not list((tmp_path / "shared").rglob("passwd"))
    assert not list((tmp_path / "shared").rglob("notes.txt"))
    assert "490154203237518" not in (tmp_path / "shared" / "manifest.json").read_text()


IMSI, IMEI = "262011234567890", "490154203237518"
DRIVE_S = 1763633700
_CLOCK = {"kind": "clock", "monotonic_before_ns": 10, "realtime_ns": DRIVE_S * 10**9, "monotonic_after_ns": 20}


def _drive(session: Path) -> Path:
    """Put a modem's and a receiver's log into a session, both full of what tells who drove where."""
    modem: list[dict[str, object]] = [{"kind": "header", "format": "multitracer-modem", "version": 1}, _CLOCK]
    answers = (
        ("AT+CIMI", f"\r\n{IMSI}\r\n\r\nOK\r\n"),
        ("AT+CGSN", f"\r\n{IMEI}\r\n\r\nOK\r\n"),
        ("AT+CSQ", "\r\n+CSQ: 15,99\r\n\r\nOK\r\n"),
        ("AT+COPS?", f'\r\n+COPS: 0,0,"{IMSI}",7\r\n\r\nOK\r\n'),
        ("AT+CEREG?", '\r\n+CEREG: 2,1,"2A01","01A2D003",7\r\n\r\nOK\r\n'),
    )
    for n, (command, raw) in enumerate(answers, start=1):
        asked = {"asked_ns": 100 * n, "answered_ns": 100 * n + 50, "result": "OK"}
        modem.append({"kind": "answer", "read": n, "command": command, **asked, "raw": raw})
    gps: list[dict[str, object]] = [{"kind": "header", "format": "multitracer-gps", "version": 1}, _CLOCK]
    sentence = "GPRMC,101500.00,A,4807.0380,N,01131.0001,E,022.4,084.4,201125,,,A"
    checksum = functools.reduce(operator.xor, sentence.encode())
    gps.append({"kind": "sentence", "at_ns": 500, "raw": f"${sentence}*{checksum:02X}"})
    host = session / "mobile"
    for name, records in ((f"radio-{IMSI}.jsonl", modem), ("gps-0.jsonl", gps)):
        (host / name).write_text("".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records))
    (host / "markers.jsonl").write_text(json.dumps({"kind": "marker", "note": f"Alice, {IMSI}"}) + "\n")
    (host / f"\x1b[31mAlice {IMEI}.txt").write_text("hello")
    return session


def test_drive_is_shared_without_who_drove_where(tmp_path: Path, sample_session: Path) -> None:
    folder = _drive(shutil.copytree(sample_session, tmp_path / "session"))
    shared = tmp_path / "shared"
    call("export", "session", "--anonymize", folder, "-o", shared)
    for path in shared.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        told = (gzip.decompress(data) if path.suffix == ".gz" else data) + str(path).encode()
        for secret in (IMSI, IMEI, "Alice", "4807.03", str(0x1A2D003), "1A2D003"):
            assert secret.encode() not in told, (secret, path)
    session = read(shared)
    (radio,) = [tables["radio"] for _, tables in session.logs("radio")]
    (position,) = [tables["position"] for _, tables in session.logs("position")]
    assert -83.0 in radio["rssi_dbm"]
    assert np.isfinite(position["speed_mps"]).all()
    assert np.isnan(position["heading_deg"]).all()
    assert (position["lat_deg"][0], position["lon_deg"][0]) == (48.12, 11.52)


_HEAD = "Timestamp,Longitude,Latitude,Speed,Operatorname,CellID,NetworkMode,RSRP\n"


def test_every_log_of_a_folder_has_its_copy(tmp_path: Path, sample_sender: Path) -> None:
    """Names that differ behind a full stop, in a date or in the ending alone, do not become one file."""
    folder = tmp_path / "drives"
    folder.mkdir()
    days = ("B_2026.05.04_10.00.00", "B_2026.05.05_10.00.00")
    for day in days:
        at = f"{day[2:]},11.512345,48.123456,50,A,123456789,LTE,-90\n"
        (folder / f"{day}.csv").write_text(_HEAD + at)
    point = '<trkpt lat="48.12" lon="11.5"><time>2026-05-04T10:00:00Z</time></trkpt>'
    (folder / f"{days[0]}.gpx").write_text(f'<gpx version="1.1"><trk><trkseg>{point}</trkseg></trk></gpx>')
    for number in range(2):
        shutil.copy(sample_sender, folder / f"ring.pcap{number}")
    into = tmp_path / "copy"
    into.mkdir()
    said = anonymize(find_inputs(str(folder)), into)
    names = sorted(path.name for path in into.iterdir() if path.name != "manifest.json")
    assert names == sorted(
        [
            *(f"{day}{rest}.csv.gz" for day in days for rest in ("", "-position")),
            *(f"{days[0]}-2.csv.gz", "ring-2.pcap.gz", "ring.pcap.gz"),
        ]
    )
    assert "positions in a separate file, rounded to 0.01 degrees" in said[f"{days[0]}.csv"]
    assert said[f"{days[0]}.csv"].endswith("times without a zone, read as UTC")
    for path in into.iterdir():
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        assert not any(secret in content for secret in (b"123456789", b"48.1234", b"11.5123"))
    copied = read(into).radio_context()
    assert len(copied.radio) == 2
    assert sorted(placed.table["lat_deg"][0] for placed in copied.position) == [48.12] * 3


@pytest.mark.parametrize("inside", ["x", "."])
def test_output_inside_the_session_is_refused(tmp_path: Path, sample_session: Path, inside: str) -> None:
    folder = tmp_path / "session"
    shutil.copytree(sample_session, folder)
    call("export", "session", "--anonymize", folder, "-o", folder / inside, status=1)


@given(st.binary(min_size=4, max_size=4), st.binary(min_size=4, max_size=4))
def test_common_prefixes_stay_common(one: bytes, other: bytes) -> None:
    pseudonyms = Pseudonyms(KEY)
    mapped = [pseudonyms.ip(address) for address in (one, other)]
    kept = [ip_address(address) for address in (one, other)]
    if not any(a.is_loopback or a.is_multicast or a.is_unspecified or a.packed == b"\xff" * 4 for a in kept):
        assert _common(one, other) == _common(*mapped)


def _common(one: bytes, other: bytes) -> int:
    return 32 - (int.from_bytes(one) ^ int.from_bytes(other)).bit_length()


@given(st.binary(max_size=120))
def test_any_bytes_are_a_packet_or_none(data: bytes) -> None:
    made = anonymous(data, Pseudonyms(KEY))
    assert made is None or len(made) <= len(data)


@pytest.mark.parametrize("damage", [0, 1])
def test_checksums_stay_as_right_as_they_were(sample_sender: Path, damage: int) -> None:
    complete = [p.data for p in parsers.read_ip_packets(sample_sender) if len(p.data) == int.from_bytes(p.data[2:4])]
    assert len(complete) > 100
    for data in complete[:100]:
        sent = bytearray(data)
        sent[-1] ^= damage
        made = anonymous(bytes(sent), Pseudonyms(KEY))
        assert made is not None
        if len(made) == len(data):  # nothing was cut: the checksum can be verified
            assert parse_packet(made).checksum_ok is (not damage and parse_packet(data).checksum_ok)


def test_words_of_a_log() -> None:
    text = "10.0.3.2:58556 fe80::1 ::ffff:10.0.3.2 12:34:56 aa:bb:cc:dd:ee:ff 490154203237518 127.0.0.1 6.18.44"
    mapped = Pseudonyms(KEY).in_words(text).split()
    was = text.split()
    assert [a == b for a, b in zip(mapped, was, strict=True)] == [
        False, False, False, True, False, False, True, True
    ]  # fmt: skip
    assert mapped[2] == f"::ffff:{mapped[0].partition(':')[0]}"
    assert mapped[5].isdigit()
    assert len(mapped[5]) == 15


def test_ipv6_and_its_checksum() -> None:
    pseudonyms = Pseudonyms(KEY)
    ends = ip_address("2001:db8::1").packed + ip_address("2001:db8::2").packed
    tcp = bytearray(struct.pack(">HHIIBBHHH", 1, 2, 3, 4, 5 << 4, 16, 100, 0, 0))
    pseudo = ends + struct.pack(">II", 20, 6)
    tcp[16:18] = (~_sum(pseudo + tcp) & 0xFFFF).to_bytes(2)
    packet = struct.pack(">IHBB", 6 << 28, 20, 6, 64) + ends + tcp
    made = anonymous(packet, pseudonyms)
    assert made is not None
    assert made[8:40] != ends
    assert _sum(made[8:40] + struct.pack(">II", 20, 6) + made[40:]) == 0xFFFF


def _sum(data: bytes) -> int:
    total = sum(int.from_bytes(data[i : i + 2]) for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def test_json_lines_keep_their_numbers(copy: Path) -> None:
    with gzip.open(copy / "mobile" / "tcp_info.jsonl.gz", "rt") as lines:
        records = [json.loads(line) for line in lines]
    assert records[0]["command"] == ["collectors.tcp_info"] or "command" in records[0]
    assert any(record.get("kind") == "reading" and record["read_before_ns"] > 10**12 for record in records)


def test_a_grandmaster_clock_is_another_one_and_the_same_everywhere() -> None:
    """Its identity is made of a MAC address."""
    pseudonyms = Pseudonyms(KEY)
    said = "gmPresent true gmIdentity 3a7f98.fffe.8138a6"
    mapped = pseudonyms.in_words(said)
    assert mapped == pseudonyms.in_words(said)
    assert mapped.startswith("gmPresent true gmIdentity 02")
    assert not {"3a7f98", "8138a6"} & set(mapped.replace(".", " ").split())
    assert len(mapped) == len(said)


def test_transactions_are_in_the_copy_without_place_cell_and_server(sample_session: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(sample_session.parent / "measured-drive", tmp_path / "session")
    _name_cell_and_server(folder / "tcp-1")
    call("export", "session", "--anonymize", folder, "-o", tmp_path / "shared")
    before, after = mt.open(folder).transactions, mt.open(tmp_path / "shared").transactions
    kept = ["host", "transaction", "size_bytes", "start_ns", "rtt_s", "server_rtt_s", "outcome", "rssi_dbm", "labels"]
    pd.testing.assert_frame_equal(before[kept], after[kept], check_exact=False, rtol=1e-6)
    assert (after["lat_deg"].dropna() == after["lat_deg"].dropna().round(2)).all()
    assert after["lat_deg"].notna().sum() == before["lat_deg"].notna().sum() > 0
    own = (tmp_path / "shared" / "tcp-1" / "manifest.json").read_text()
    assert "measure.example.org" not in own
    assert '"recorded_at": "mobile"' in own
    told = (tmp_path / "shared" / "tcp-1" / "transactions.csv").read_text()
    assert "27447297" not in told
    assert "10.77.0.1" not in told
    assert told.count("cell ") == 1
    manifest = read_manifest(tmp_path / "shared")
    assert manifest is not None
    assert list(changed_files(tmp_path / "shared", manifest)) == []


def test_transactions_that_cannot_be_read_are_left_out_and_counted(sample_session: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(sample_session.parent / "measured-drive", tmp_path / "session")
    path = folder / "tcp-1" / "transactions.csv"
    records = len(mt.open(folder).transactions)
    header, *lines = path.read_text().splitlines()
    column = header.split(",").index("why")
    for number, text in ((1, '"'), (3, "x" * 200_000), (5, "x" * (1 << 21))):
        cells = lines[number].split(",")
        cells[column] = text
        lines[number] = ",".join(cells)
    with gzip.open(f"{path}.gz", "wt") as packed:
        packed.write("\n".join([header, *lines, "9,tcp,rep"]))
    path.unlink()
    done = call("export", "session", "--anonymize", folder, "-o", tmp_path / "shared")
    assert "without 4 lines that cannot be read" in done.stdout + done.stderr
    assert len(mt.open(tmp_path / "shared").transactions) == len(mt.open(folder).transactions) == records - 3
    copied = (tmp_path / "shared" / "tcp-1" / "transactions.csv").read_text().splitlines()
    assert len(copied) == 1 + len(lines) - 3


@pytest.mark.parametrize(
    ("server", "copied"),
    [
        ("alice.example.com:5100", "server-....:5100"),
        ("alice.example.com", "server-...."),
        ("alice.example.com:http", "server-...."),
        ("192.0.2.9:5100", r"\d+(\.\d+){3}:5100"),
        ("192.0.2.9", r"\d+(\.\d+){3}"),
        ("[2001:db8::1]:5100", r"\[[0-9a-f:]+\]:5100"),
        ("[2001:db8::1]", r"\[[0-9a-f:]+\]"),
        ("2001:db8::1", "[0-9a-f:]+"),
        ("rfcomm:00:11:22:33:44:55/1", "server-...."),
        ("unix:/home/alice/line", "server-...."),
    ],
)
def test_server_of_a_measurement_gets_a_pseudonym(tmp_path: Path, server: str, copied: str) -> None:
    measurement = _measurement_in_copy(Measurement("tcp", server), tmp_path)
    assert re.fullmatch(copied, str(measurement.server))
    assert not re.search("alice|example|2001:db8|192.0.2.9|00:11", str(measurement.server))


def test_serial_line_stays_and_a_link_loses_its_folder(tmp_path: Path) -> None:
    assert _measurement_in_copy(Measurement("tcp", "serial:/dev/ttyUSB0"), tmp_path).server == "serial:/dev/ttyUSB0"
    assert _measurement_in_copy(Measurement("tcp", None, "/home/bob/cell.toml"), tmp_path).over == "cell.toml"
    assert _measurement_in_copy(Measurement("tcp", None, "cdpd"), tmp_path) == Measurement("tcp", None, "cdpd")


def _measurement_in_copy(measurement: Measurement, tmp_path: Path) -> Measurement:
    folder, copy = tmp_path / "session", tmp_path / "copy"
    for each in (folder, copy):
        each.mkdir(exist_ok=True)
    write_manifest(folder, Manifest("measured", 1, variables=Variables(measurement=measurement)))
    anonymize(find_inputs(str(folder)), copy, key=KEY)
    manifest = read_manifest(copy)
    assert manifest is not None
    assert manifest.variables.measurement is not None
    return manifest.variables.measurement


def _name_cell_and_server(measurement: Path) -> None:
    """Let a measurement name a cell, a server by its name, and an address in an error."""
    manifest = json.loads((measurement / "manifest.json").read_text())
    manifest["variables"]["measurement"]["server"] = "measure.example.org:5100"
    (measurement / "manifest.json").write_text(json.dumps(manifest))
    path = measurement / "transactions.csv"
    text = path.read_text().replace("channel 512", "cell 27447297", 1).replace(",ok,,", ",ok,10.77.0.1 is slow,", 1)
    path.write_text(text)
