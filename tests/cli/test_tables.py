"""Tables as files: types, units, missing values, and numbers that agree with JSON."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multitracer.api import files
from multitracer.recording.read import read
from multitracer.schemas.tcp import CONNECTIONS, DIRECTIONS, TCP_SEGMENTS
from tests.cli.program import analyze, call
from tests.recording.captures import START_NS, Conversation, write_conversations, write_pcap

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.tables import Schema

SCHEMAS = (CONNECTIONS, DIRECTIONS, TCP_SEGMENTS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, sample_session: Path) -> Path:
    """Return the tables of the bundled session."""
    target = tmp_path_factory.mktemp("tables") / "out"
    done = call("analyze", "--parquet", "-o", target, sample_session)
    assert (done.stdout, done.stderr) == ("", "")
    return target


def test_three_files_and_nothing_else(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {f"{schema.name}.parquet" for schema in SCHEMAS}
    assert [path.name for path in folder.parent.iterdir()] == ["out"]


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.name)
def test_columns_carry_unit_and_meaning(folder: Path, schema: Schema) -> None:
    written = pq.read_schema(folder / f"{schema.name}.parquet")
    assert written.metadata[b"multitracer.schema"] == schema.name.encode()
    for column in schema:
        field = written.field(column.name)
        assert field.metadata[b"doc"].decode() or column.name == "connection"
        if column.is_time:
            assert field.type == pa.timestamp("ns", tz="UTC")
        else:
            assert field.metadata[b"unit"].decode() == column.unit


def test_numbers_are_those_of_json(folder: Path, sample_session: Path) -> None:
    connections = analyze(sample_session)["connections"]
    rows = pq.read_table(folder / "connections.parquet").to_pylist()
    assert [(r["connection"], r["src"], r["sport"], r["path"]) for r in rows] == [
        (c["connection"], c["src"], c["sport"], c["file"]) for c in connections
    ]
    assert [r["capture"] for r in rows] == ["mobile"] * 3 + ["fixed"] * 3
    directions = pq.read_table(folder / "directions.parquet").to_pylist()
    ways = [c[way] for c in connections for way in ("forward", "reverse")]
    for row, way in zip(directions, ways, strict=True):
        assert row["unique_bytes"] == way["unique_bytes"]
        assert row["mss_bytes"] == way["mss"]
        assert (row["rtt_p50_ns"] is None) == (way["rtt_ms"]["p50"] is None)


def test_every_segment_of_every_connection(folder: Path, sample_session: Path) -> None:
    table = pq.read_table(folder / "tcp_segments.parquet")
    counted = table.group_by("connection").aggregate([("frame", "count")]).to_pylist()
    assert {row["connection"]: row["frame_count"] for row in counted} == {
        c["connection"]: c["forward"]["packets"] + c["reverse"]["packets"]
        for c in analyze(sample_session)["connections"]
    }
    assert table["ack_bytes"].null_count > 0


def test_a_connection_longer_than_a_row_group_is_written_whole(
    folder: Path, sample_session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_ROW_GROUP", 100)
    recording = read(sample_session)
    files.write_tables(tmp_path, [(capture, None) for capture in recording.captures])
    for name in (f"{schema.name}.parquet" for schema in SCHEMAS):
        assert pq.read_table(tmp_path / name).equals(pq.read_table(folder / name), check_metadata=True)
    groups = pq.ParquetFile(tmp_path / "tcp_segments.parquet").metadata
    assert {groups.row_group(at).num_rows for at in range(groups.num_row_groups)} <= set(range(101))


def test_chosen_connection_as_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    capture = write_conversations(
        tmp_path / "=a.pcap", Conversation(), Conversation(sport=40001, start_ns=START_NS + 1, segments=7)
    )
    target = tmp_path / "out"
    call("export", "tables", "--format", "csv", "-c", "2", "-o", target, capture.name)
    tables = {path.stem: list(csv.DictReader(io.StringIO(path.read_text()))) for path in target.iterdir()}
    assert {name: len(rows) for name, rows in tables.items()} == {"connections": 1, "directions": 2, "tcp_segments": 20}
    (connection,) = tables["connections"]
    assert (connection["connection"], connection["sport"]) == ("2", "40001")
    assert connection["path"] == "'=a.pcap"
    assert connection["start_ns"] == "2023-11-14 22:13:20.000000001Z"
    assert tables["directions"][1]["first_payload_ns"] == ""


def test_capture_without_connections(tmp_path: Path) -> None:
    call("export", "tables", "-o", tmp_path / "out", write_pcap(tmp_path / "empty.pcap", []))
    for schema in SCHEMAS:
        assert pq.read_table(tmp_path / "out" / f"{schema.name}.parquet").num_rows == 0


def test_other_files_of_the_folder_stay(tmp_path: Path, sample_sender: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    (tmp_path / "out" / "connections.parquet").write_text("old")
    call("export", "tables", "-o", tmp_path / "out", sample_sender)
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"
    assert pq.read_table(tmp_path / "out" / "connections.parquet").num_rows == 3
