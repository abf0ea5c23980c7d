"""`analyze`, run as users run it, on conversations whose numbers are known."""

from __future__ import annotations

import copy
import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from multitracer.cli import _documents
from multitracer.cli._documents import _csv_rows, write_csv
from multitracer.recording.read import Need, read
from tests.benchmarks.growth import write_order
from tests.cli.program import COMMAND, ENVIRONMENT, ROOT, analyze, call
from tests.recording.captures import MS, START_NS, Conversation, write_conversations, write_pcap

SCHEMA = json.loads((ROOT / "docs" / "schemas" / "analyze.schema.json").read_text("utf-8"))
WITH_AN_OPTION = {"fairness"}


def closed(schema: Any) -> Any:
    """Return the schema with no key allowed that it does not list, so that none goes undocumented."""
    schema = copy.deepcopy(schema)
    todo = [schema]
    while todo:
        each = todo.pop()
        if isinstance(each, dict):
            if "properties" in each:
                each.setdefault("additionalProperties", False)
                assert set(each["required"]) == set(each["properties"]) - WITH_AN_OPTION
            todo += each.values()
        elif isinstance(each, list):
            todo += each
    return schema


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("analyze")


@pytest.fixture(scope="module")
def two(folder: Path) -> Path:
    """Return a capture of two connections to one server; the second retransmits, over IPv6."""
    lossy = Conversation("fd00::1", "fd00::2", 50000, 443, START_NS + 3 * MS, segments=9, lost=(3,))
    return write_conversations(folder / "two.pcap", Conversation(), lossy)


def test_without_a_capture_there_is_no_verdict_and_a_reason() -> None:
    document = analyze(ROOT / "sample_traces" / "rehearsal")
    jsonschema.validate(document, closed(SCHEMA))
    assert (document["trust"]["verdict"], document["connections"]) == (None, [])
    assert document["trust"]["verdict_absent"] == "no packets were captured, so there is no number to trust"


def test_the_only_connection_is_shown_in_full_whichever_host_captured_it(tmp_path: Path) -> None:
    for host in ("fixed", "mobile"):
        (tmp_path / host).mkdir()
    seen = write_conversations(tmp_path / "mobile" / "tcp-0.pcap", Conversation())
    (tmp_path / "fixed" / "tcp-0.pcap").write_bytes(seen.read_bytes()[:24])  # the header of the file alone
    assert "Connection 1: 10.0.0.1:40000 -> 10.0.0.2:80" in call("analyze", tmp_path).stdout


def test_json_follows_the_schema(two: Path, sample_session: Path) -> None:
    for path in (two, sample_session):
        jsonschema.validate(analyze(path), closed(SCHEMA))


def test_json_says_what_was_sent(two: Path) -> None:
    document = analyze(two)
    (file,) = document["files"]
    assert file["path"] == str(two)
    assert (file["format"], file["link_types"], file["packets"]) == ("pcap", [1], 16 + 25)
    assert file["first_ns"] == START_NS
    assert (file["damaged"], file["not_decoded"]) == (None, {})
    first, second = document["connections"]
    assert (first["src"], first["sport"], first["dst"], first["dport"]) == ("10.0.0.1", 40000, "10.0.0.2", 80)
    assert (second["src"], second["sport"], second["dst"], second["dport"]) == ("fd00::1", 50000, "fd00::2", 443)
    assert second["start_ns"] == START_NS + 3 * MS
    assert second["start"] == pytest.approx(second["start_ns"] / 1e9)
    assert first["duration_s"] == pytest.approx(0.288)
    forward, reverse = second["forward"], second["reverse"]
    assert (forward["packets"], forward["data_segments"], forward["syn"], forward["fin"]) == (14, 10, 1, 1)
    assert (forward["payload_bytes"], forward["unique_bytes"]) == (10_000, 9_000)
    assert (forward["retransmitted_segments"], forward["retransmitted_bytes"]) == (1, 1000)
    assert (forward["mss"], forward["window_scale"], reverse["mss"]) == (1000, 7, 1400)
    assert forward["rtt_ms"]["count"] == 10
    assert forward["rtt_ms"]["p50"] == pytest.approx(40)


def test_initiator_is_the_source_even_if_its_first_packet_was_missed(folder: Path) -> None:
    path = write_pcap(folder / "no_syn.pcap", Conversation().packets[1:])
    (connection,) = analyze(path)["connections"]
    assert (connection["src"], connection["sport"], connection["dport"]) == ("10.0.0.1", 40000, 80)
    assert connection["syn_seen"] is False
    assert connection["forward"]["unique_bytes"] == 5000


def test_missing_values_are_null(folder: Path) -> None:
    """Without a handshake there is no MSS, and without an ACK no RTT."""
    packets = [p for i, p in enumerate(Conversation(handshake=False).packets) if i in (0, 2, 4)]
    (connection,) = analyze(write_pcap(folder / "one_sided.pcap", packets))["connections"]
    assert connection["syn_seen"] is False
    assert connection["forward"]["mss"] is None
    assert connection["forward"]["window_scale"] is None
    assert connection["forward"]["rtt_ms"] == {"count": 0} | dict.fromkeys(("min", "mean", "p50", "p95", "max"))


@pytest.mark.parametrize("choice", ["2", "[fd00::1]:50000", "[fd00:0:0::2]:443"])
def test_connection_is_chosen_by_number_or_endpoint(two: Path, choice: str) -> None:
    (connection,) = analyze("--connection", choice, two)["connections"]
    assert connection["connection"] == 2


def test_connection_that_does_not_exist(two: Path) -> None:
    assert (
        "there is no connection 3; the number of connections is 2" in call("analyze", "-c", "3", two, status=1).stderr
    )
    assert "10.0.0.9:80" in call("analyze", "-c", "10.0.0.9:80", two, status=1).stderr


def test_ambiguous_endpoint_lists_the_candidates(folder: Path) -> None:
    several = [Conversation(sport=40000 + i, start_ns=START_NS + i * MS) for i in range(3)]
    path = write_conversations(folder / "several.pcap", *several)
    said = call("analyze", "-c", "10.0.0.2:80", path, status=1).stderr
    for i in range(3):
        assert f"{i + 1} (10.0.0.1:{40000 + i} -> 10.0.0.2:80)" in said


def test_interval_cuts_the_packets(two: Path) -> None:
    everything, early, late = (
        analyze(*options, two)["connections"] for options in ((), ("--to", "0.1"), ("--from", "0.1"))
    )
    halves = zip(packets(early), packets(late), strict=True)
    assert [a + b for a, b in halves] == packets(everything) == [16, 25]
    assert not any(c["syn_seen"] for c in late)
    iso = "2023-11-14T22:13:20.100000000+00:00"
    assert analyze("--from", "0:00.1", two)["connections"] == late
    assert analyze("--from", iso, two)["connections"] == late
    assert analyze("--from", iso.replace("22:13", "23:13").replace("+00", "+01"), two)["connections"] == late


def packets(connections: list[dict[str, Any]]) -> list[int]:
    return [each["forward"]["packets"] + each["reverse"]["packets"] for each in connections]


def test_max_packets(two: Path) -> None:
    assert analyze("--max-packets", "10", two)["files"][0]["packets"] == 10


def test_standard_input(two: Path) -> None:
    complete = two.read_bytes()
    done = subprocess.run(
        [*COMMAND, "analyze", "--json", "-"], input=complete, env=ENVIRONMENT, capture_output=True, check=True
    )
    document = json.loads(done.stdout)
    assert document["files"][0]["path"] == "-"
    assert len(document["connections"]) == 2


def test_ring_buffer_is_one_trace(folder: Path) -> None:
    packets = Conversation(segments=20).packets
    for i in range(3):
        write_pcap(folder / f"ring.pcap{i or ''}", packets[i * 15 : (i + 1) * 15 if i < 2 else None])
    complete = analyze(write_pcap(folder / "whole.pcap", packets))["connections"]
    parts = analyze(*(folder / f"ring.pcap{i}" for i in ("2", "", "1")))
    assert [file["packets"] for file in parts["files"]] == [15, 15, 16]
    assert [c | {"file": ""} for c in parts["connections"]] == [c | {"file": ""} for c in complete]


def test_session_folder_keeps_its_hosts_apart(sample_session: Path) -> None:
    document = analyze(sample_session)
    assert [Path(file["path"]).parent.name for file in document["files"]] == ["mobile", "fixed"]
    files = {connection["file"] for connection in document["connections"]}
    assert files == {file["path"] for file in document["files"]}
    numbers = [connection["connection"] for connection in document["connections"]]
    assert numbers == list(range(1, len(numbers) + 1))


def test_csv_says_the_same_as_json(two: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(call("analyze", "--csv", two).stdout)))
    for row, connection in zip(rows, analyze(two)["connections"], strict=True):
        for key, value in flat(connection):
            assert row.pop(key) == ("" if value is None else str(value))
        assert not row


def flat(record: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in record.items():
        found += flat(value, f"{prefix}{key}_") if isinstance(value, dict) else [(prefix + key, value)]
    return found


@pytest.mark.parametrize("name", ["=cmd|x.pcap", "+1.pcap", "-1.pcap", "@x.pcap", "\tx.pcap"])
def test_csv_cells_are_no_formulas(folder: Path, two: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / name).write_bytes(two.read_bytes())
    monkeypatch.chdir(folder)
    done = call("analyze", "--csv", "--", name)
    (row, *_) = csv.DictReader(io.StringIO(done.stdout))
    assert row["file"] == "'" + name.replace("\t", r"\t")


def test_csv_without_connections_has_a_header(folder: Path) -> None:
    path = write_pcap(folder / "empty.pcap", [])
    assert call("analyze", "--csv", path).stdout.startswith("connection,file,src,dst,sport,dport,start,")


def test_output_file(folder: Path, two: Path) -> None:
    target = folder / "out.json"
    done = call("analyze", "--json", two, "-o", target)
    assert (done.stdout, done.stderr) == ("", "")
    assert json.loads(target.read_text())["connections"]
    assert not [path for path in folder.iterdir() if path.name.endswith(".tmp")]


def test_summary_into_a_pipe_is_plain(two: Path) -> None:
    done = call("analyze", two)
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert f"{two}: pcap, 41 packets" in done.stdout
    assert "Trust: " in done.stdout
    assert "10.0.0.1:40000" in done.stdout
    assert "[fd00::2]:443" in done.stdout


def test_summary_of_one_connection_shows_both_directions(two: Path) -> None:
    shown = call("analyze", "-c", "2", two).stdout
    assert "Connection 2: [fd00::1]:50000 -> [fd00::2]:443" in shown
    line = next(line for line in shown.splitlines() if line.startswith("retransmitted segments"))
    assert line.split()[-2:] == ["1", "0"]


def test_many_connections_are_summed_up(folder: Path) -> None:
    many = [Conversation(sport=1000 + i, start_ns=START_NS + i * MS, segments=1 + i % 7) for i in range(60)]
    path = write_conversations(folder / "many.pcap", *many)
    shown = call("analyze", path).stdout
    assert "60 TCP connections" in shown
    assert "40 connections with fewer bytes are not shown" in shown
    assert len(analyze(path)["connections"]) == 60


def test_seconds_count_from_the_first_packet_of_the_whole_recording(tmp_path: Path) -> None:
    """The second host began to capture ten seconds later: nothing of it lies in the first five."""
    for host, later_s in (("a", 0), ("b", 10)):
        (tmp_path / host).mkdir()
        exchange = Conversation(start_ns=START_NS + later_s * 1_000_000_000)
        write_conversations(tmp_path / host / "tcp-0.pcap", exchange)
    assert len(analyze("--to", "5", tmp_path)["connections"]) == 1
    assert len(analyze("--from", "5", tmp_path)["connections"]) == 1
    assert len(analyze("--to", "50", tmp_path)["connections"]) == 2


def test_csv_writes_control_characters_out(tmp_path: Path) -> None:
    path = write_conversations(tmp_path / "\x1b[2J\u202ea.pcap", Conversation())
    shown = call("analyze", "--csv", path).stdout
    assert "\\x1b[2J\\u202ea.pcap" in shown
    assert "\x1b" not in shown


def test_any_name_of_a_file_is_text_in_json(tmp_path: Path) -> None:
    """Records are written by a template, whose place holders a name must not contain."""
    names = ['100 %s, "a"', "b", "%"]
    paths = [write_conversations(tmp_path / f"{name}.pcap", Conversation(sport=i)) for i, name in enumerate(names, 1)]
    document = analyze(*paths)
    assert [Path(each["file"]).stem for each in document["connections"]] == names
    assert [each["sport"] for each in document["connections"]] == [1, 2, 3]
    jsonschema.validate(document, closed(SCHEMA))


def test_csv_of_many_connections_is_written_by_columns(tmp_path: Path) -> None:
    """A function for each cell took 25 s for a million connections of one packet, in which most cells are equal."""
    write_order(str(tmp_path / "a.pcap"), "all_different", 10_000)
    recording, written, calls = read(tmp_path / "a.pcap", need=Need.NUMBERS), io.StringIO(), 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        write_csv(written, recording, [(each, None) for each in recording.captures])
    finally:
        sys.setprofile(before)
    rows = list(csv.DictReader(io.StringIO(written.getvalue())))
    assert len(rows) == 10_000
    assert [rows[4097][key] for key in ("connection", "sport", "start_ns", "forward_syn", "reverse_packets")] == [
        "4098", "6097", "1700000000040970000", "1", "0",
    ]  # fmt: skip
    assert {(row["forward_mss"], row["forward_goodput_by"], row["syn_seen"]) for row in rows} == {
        ("", "no data", "True")
    }
    assert calls < 6 * len(rows)


def test_a_cell_of_csv_is_quoted_and_runs_no_formula() -> None:
    names: list[int | float | str | None] = ["=1+1", 'a "b", c', "100 %", None]
    written = _csv_rows([[1, 2, 3, 4], names, [True] * 4, [0.1, None, 1e-9, 5.0], ["50 %, a"] * 4])
    assert list(csv.reader(io.StringIO(written))) == [
        ["1", "'=1+1", "True", "0.1", "50 %, a"], ["2", 'a "b", c', "True", "", "50 %, a"],
        ["3", "100 %", "True", "1e-09", "50 %, a"], ["4", "", "True", "5.0", "50 %, a"],
    ]  # fmt: skip


def test_a_direction_tells_efficiency_and_the_use_of_its_link() -> None:
    """At the sender what was sent, at the receiver what arrived; the use of the link at both."""
    sent, came = (each["forward"] for each in analyze(ROOT / "sample_traces" / "fig4-slow-start")["connections"])
    assert (sent["efficiency"], sent["efficiency_sent"]) == (None, 0.966651)
    assert (came["efficiency"], came["efficiency_sent"]) == (1.0, None)
    assert [sent["utilization"], came["utilization"]] == [0.708669] * 2
    upload = analyze(ROOT / "sample_traces" / "cellular_upload")["connections"][0]
    assert upload["forward"]["utilization"] is None
    assert upload["forward"]["link_limited_share"] == pytest.approx(0.899, abs=1e-3)
    assert upload["reverse"]["link_limited_share"] is None


@pytest.mark.parametrize(("most", "is_told"), [(200_000, True), (100, False)])
def test_the_use_of_the_link_is_told_up_to_a_number_of_packets_of_any_size(
    most: int, is_told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_documents, "LINK_USE_PACKETS", most)
    frames = [(time_ns, frame + bytes(90_000)) for time_ns, frame in Conversation(segments=100).packets]
    capture = write_pcap(tmp_path / "a.pcap", frames)
    assert capture.stat().st_size > 16 << 20
    (connection,) = analyze(capture)["connections"]
    assert (connection["forward"]["link_limited_share"] is not None) == is_told
