"""A copy to share holds no signalling: neither the modem's log nor packets of GSMTAP, and no true cell."""

from __future__ import annotations

import csv
import gzip
import shutil
from typing import TYPE_CHECKING

import pytest

import multitracer as mt
import parsers
from multitracer.analysis.signalling.procedures import procedures_of
from multitracer.analysis.signalling.states import states_of
from multitracer.anonymize.pseudonyms import Pseudonyms
from multitracer.anonymize.session import anonymize
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.recording.inputs import find_inputs
from parsers._signalling.signalling import read_signalling
from tests.parsers.frames import frame
from tests.parsers.signalling_messages import MESSAGES, START_NS, packet, version_2
from tests.parsers.test_diag import needs_programs
from tests.parsers.test_sdm import LOGGED

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.tables import Table

KEY = b"k" * 32


def test_physical_cells_stay_in_their_range_and_apart() -> None:
    one, again, other = (Pseudonyms(key) for key in (KEY, KEY, b"other"))
    cells = [one.physical_cell(n) for n in range(1008)]
    assert sorted(cells) == list(range(1008))
    assert cells != list(range(1008))
    assert cells == [again.physical_cell(n) for n in range(1008)]
    assert cells != [other.physical_cell(n) for n in range(1008)]
    assert Pseudonyms(KEY).physical_cell(4000) == Pseudonyms(KEY).cell(4000)


@needs_programs
def test_raw_logs_and_gsmtap_stay_behind_and_cells_are_pseudonyms(tmp_path: Path) -> None:
    phone = tmp_path / "drive" / "phone"
    phone.mkdir(parents=True)
    (phone / "modem.sdm").write_bytes(LOGGED)
    packets = [frame(seq=1, payload=b"x")[14:], *[packet(version_2("report"))] * 3]
    (phone / "all.pcap").write_bytes(pcap_header() + b"".join(pcap_record(p, time_ns=START_NS) for p in packets))
    into = tmp_path / "copy"
    into.mkdir()
    said = anonymize(find_inputs(str(phone.parent)), into, key=KEY)
    assert said == {
        "phone/all.pcap": "IP headers only, 3 GSMTAP packets with signalling removed; "
        "in tables/: 3 rows of signalling and 1 row of signalling_states with pseudonyms of cells",
        "phone/modem.sdm": "decoded readings; the raw log and its 3 messages not copied; "
        "in tables/: 3 rows of signalling, 1 row of handovers, 2 rows of procedures and 1 row of signalling_states "
        "with pseudonyms of cells",
    }
    assert len(list(parsers.read_ip_packets(into / "phone" / "all.pcap.gz"))) == 1
    fmt, tables = parsers.read(into / "phone" / "modem.csv.gz")
    assert fmt.name == "radio-table"
    assert isinstance(tables, dict)
    cells = tables["radio"]["physical_cell_id"].tolist()
    assert cells == [-1, Pseudonyms(KEY).physical_cell(305), Pseudonyms(KEY).physical_cell(17)]
    assert 305 not in cells
    (change,) = read(into / "tables" / "phone" / "modem.handovers.csv.gz")
    true = tables_of(phone / "modem.sdm")["handovers"]["target_physical_cell_id"].tolist()
    assert [int(change["target_physical_cell_id"])] == [Pseudonyms(KEY).physical_cell(true[0])]
    octets = bytes.fromhex(MESSAGES["report"][1])
    for path in into.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert octets not in (gzip.decompress(data) if path.suffix == ".gz" else data)


def read(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


CELLS = ("cell_id", "area_code", "physical_cell_id")
LOGS = (
    "mobileinsight/examples/logs/attach_sample.mi2log",
    "mobileinsight/examples/logs/offline_log_examples/20201116_123302_Xiaomi-Mi10_46000.mi2log",
    "qcsuper/sample_2g_3g_4g_xperia.pcap",
)


@needs_programs
@pytest.mark.fixtures
@pytest.mark.parametrize("name", LOGS)
def test_tables_of_a_real_log_have_all_rows_and_no_true_cell(fixture_folder: Path, tmp_path: Path, name: str) -> None:
    log = fixture_folder / name
    phone = tmp_path / "drive" / "phone"
    phone.mkdir(parents=True)
    shutil.copy(log, phone)
    into = tmp_path / "copy"
    into.mkdir()
    anonymize(find_inputs(str(phone.parent)), into, key=KEY)
    true, pseudonyms = tables_of(log), Pseudonyms(KEY)
    copies = {path.name.split(".")[-3]: read(path) for path in (into / "tables" / "phone").iterdir()}
    true |= {"procedures": procedures_of(true), "signalling_states": states_of(true)}
    names = ("signalling", "handovers", "procedures", "signalling_states")
    assert {name: len(rows) for name, rows in copies.items()} == {
        name: len(true[name]) for name in names if len(true[name])
    }
    for table, rows in copies.items():
        for column, numbers in identities(true[table]).items():
            assert len(set(numbers)) == len({row[column] for row in rows if row[column]}), column
            kind = column.removeprefix("source_").removeprefix("target_")
            mapped = [str(pseudonyms.of_cell(kind, number)) for number in numbers]
            assert [row[column] for row in rows if row[column]] == mapped
            assert kind == "physical_cell_id" or not set(mapped) & set(map(str, numbers))
    copy = mt.open(into)
    assert not [words for words in copy.warnings if "tables" in words]


def tables_of(log: Path) -> dict[str, Table]:
    if log.suffix == ".pcap":
        return read_signalling(str(log))
    _, tables = parsers.read(log)
    assert isinstance(tables, dict)
    return tables


def identities(table: Table) -> dict[str, list[int]]:
    names = [f"{side}{kind}" for side in ("", "source_", "target_") for kind in CELLS]
    return {name: table.columns[name][~table.missing(name)].tolist() for name in names if name in table.columns}
