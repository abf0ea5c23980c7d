"""What commands write with --json is what `multitracer schema` describes."""

from __future__ import annotations

import functools
import json
import operator
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from multitracer.cli._program import cli
from tests.cli.program import ROOT, call
from tests.cli.reference import commands
from tests.measure.relay import Relay
from tests.measure.test_iperf3 import iperf3_server, needs_iperf3
from tests.measure.test_latency import loopback_server
from tests.measure.test_measure_command import serving

if TYPE_CHECKING:
    from pathlib import Path

_SCHEMAS = ROOT / "docs" / "schemas"
_SAMPLES = ROOT / "sample_traces"


def checked(name: str, *arguments: str | Path, status: int = 0) -> Any:
    """Return the document that a command writes, held against its schema."""
    schema = json.loads(call("schema", name).stdout)
    text = call(*arguments, status=status).stdout
    document = json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is no JSON"))
    jsonschema.Draft202012Validator(schema).validate(document)
    if schema["type"] == "object":
        assert document["schema"] == schema["$id"]
    return document


def test_each_command_with_json_has_a_schema_with_a_version() -> None:
    writing = {
        name.removeprefix("multitracer ").replace(" ", "-")
        for name, command in commands(cli)
        if any("--json" in option.opts for option in command.params)
    }
    listed = call("schema").stdout.split()
    assert writing <= set(listed)
    for name in listed:
        schema = json.loads((_SCHEMAS / f"{name}.schema.json").read_text("utf-8"))
        jsonschema.Draft202012Validator.check_schema(schema)
        family, _, version = schema["$id"].rpartition("/")
        assert family == f"multitracer.{name}"
        assert version.isdigit()


def test_a_command_without_a_schema_is_named_and_the_others_listed() -> None:
    refused = call("schema", "../../LICENSE", status=2).stderr
    assert "'../../LICENSE' has no schema; the schemas are align, analyze, campaign-query" in refused


@pytest.mark.parametrize("name", ["cellular_upload", "download", "load", "damaged", "rehearsed-drive", "fig11-fade"])
def test_inspect(name: str) -> None:
    document = checked("inspect", "inspect", "--json", _SAMPLES / name)
    shown = call("inspect", _SAMPLES / name).stdout
    assert (f"Trust: {document['trust']['verdict']}" in shown) == bool(document["captures"])
    assert sum(each["connections"] for each in document["captures"]) > 0 or document["logs"]


def test_inspect_of_a_log_without_a_capture_has_its_rows() -> None:
    log = _SAMPLES / "rehearsed-drive" / "mobile" / "radio-0.jsonl.xz"
    document = checked("inspect", "inspect", "--json", log)
    (record,) = document["logs"]
    assert record["rows"]["radio"] > 100
    assert f"radio {record['rows']['radio']:,}" in call("inspect", log).stdout
    assert document["trust"] is None


def test_inspect_tells_what_was_changed_and_keeps_hostile_names_as_text(tmp_path: Path) -> None:
    session = tmp_path / "drive"
    (session / "car").mkdir(parents=True)
    fix = "GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W"
    check = functools.reduce(operator.xor, fix.encode())
    (session / "car" / "gps.nmea").write_text(f"${fix}*{check:02X}\n")
    (session / "manifest.json").write_text(
        '{"schema": "multitracer.session/1", "name": "<b>\\u001b[2J", "hosts": {"car": {}}, "created_ns": 1,'
        '"variables": {"note": "\\ud800"}, "files": [{"path": "car/gps.nmea", "host": "car", "sha256": "00"}]}'
    )
    text = call("inspect", "--json", session).stdout
    assert "\x1b" not in text
    document = checked("inspect", "inspect", "--json", session)
    assert document["manifest"]["files"] == 1
    assert len(document["manifest"]["changed"]) == 1
    assert document["trust"] is None  # nothing was read


def test_doctor_lists_each_package_with_its_size_and_what_it_is_for() -> None:
    document = checked("doctor", "doctor", "--json")
    of = {each["name"]: each for each in document["components"]}
    assert of["numpy"]["bytes"] > 10_000_000
    assert of["duckdb"]["extra"] == "campaign"
    assert {"signalcat", "ipykernel", "scipy", "pyshark", "plotly", "iperf3"} <= set(of)
    assert all(each["purpose"] for each in of.values())
    assert all(bool(each["fix"]) != each["works"] for each in of.values())


def test_diagnose_of_a_drive() -> None:
    document = checked("drive", "diagnose", "--json", _SAMPLES / "rehearsal")
    assert [each["cause"] for each in document["stretches"]] == ["coverage"]
    assert document["stretches"][0]["lost_s"] is None


@pytest.mark.parametrize("more", [(), ("--maps",)])
def test_formats(more: tuple[str, ...]) -> None:
    document = checked("formats", "formats", "--json", *more)
    assert len(document["maps" if more else "formats"]) > 5


def test_align() -> None:
    assert checked("align", "align", "--json", "--no-keep", _SAMPLES / "cellular_upload")["edges"]


def test_correlate() -> None:
    quantities = ("--of", "TcpSnd_rtt", "--with", "TcpSnd_cwnd", "--permutations", "19", "--lags", "-1:1")
    assert checked("correlate", "correlate", "--json", *quantities, _SAMPLES / "cellular_upload")["nmi"]


def test_transactions(tmp_path: Path) -> None:
    plan = ("--protocol", "tcp", "--over", "cdpd", "--virtual", "--vary", "reply", "--sizes", "64,128")
    call("measure", "run", *plan, "-o", tmp_path / "run")
    assert len(checked("transactions", "analyze", "--json", tmp_path / "run")["sizes"]) == 2


def test_measure_run(tmp_path: Path) -> None:
    """Of transactions, of which none or all were dropped, and of a test of latency."""
    plan = ("measure", "run", "--json", "--vary", "reply", "--sizes", "64,128", "--sessions", "2")
    modelled = checked("measure-run", *plan, "--protocol", "tcp", "--over", "cdpd", "--virtual", "-o", tmp_path / "run")
    assert [(each["size_bytes"], each["ok"], each["dropped"]) for each in modelled["sizes"]] == [
        (64, 2, 0),
        (128, 2, 0),
    ]
    assert (modelled["protocol"], modelled["server"], modelled["over"]) == ("tcp", None, "cdpd")
    with serving("tcp") as server, Relay("tcp", server, delay_s=0.01) as relay:
        late = ("--protocol", "tcp", "--server", relay.address, "--timeout", "0.001", "-o", str(tmp_path / "late"))
        dropped = checked("measure-run", *plan, *late, status=1)
    assert [(each["dropped"], each["rtt_median_s"]) for each in dropped["sizes"]] == [(2, None), (2, None)]
    with loopback_server() as (server, _):
        latency = (
            "--latency",
            "--server",
            server,
            "--duration",
            "1",
            "--direction",
            "down",
            "-o",
            tmp_path / "latency",
        )
        phases = checked("measure-run", "measure", "run", "--json", *latency)["latency"]
    assert [each["phase"] for each in phases] == ["idle", "down"]
    assert phases[0]["goodput_bps"] is None
    assert phases[1]["goodput_bps"] > 0


@needs_iperf3
@pytest.mark.parametrize("udp", [(), ("--udp", "1M")])
def test_measure_run_of_iperf3(udp: tuple[str, ...], tmp_path: Path) -> None:
    with iperf3_server() as (server, _):
        plan = ("--protocol", "iperf3", "--server", server, "--duration", "1", *udp, "-o", str(tmp_path / "load"))
        document = checked("measure-run", "measure", "run", "--json", *plan)
    assert [each["direction"] for each in document["loads"]] == ["up", "down"]
    for each in document["loads"]:
        assert (tmp_path / "load" / each["log"]).exists()
        assert each["received_bps"] > 0
        assert (each["lost_packets"] is None) == (each["retransmitted_segments"] is not None) == (not udp)


def test_measure_plan(tmp_path: Path) -> None:
    """Two places to go to, of which the measurement is at one."""
    (tmp_path / "plan.csv").write_text("size,place\n64,downtown\n128,campus\n")
    plan = (
        "measure",
        "plan",
        "--json",
        tmp_path / "plan.csv",
        "--protocol",
        "tcp",
        "--vary",
        "reply",
        "--sessions",
        "2",
    )
    dry = checked("measure-plan", *plan, "--dry-run")
    assert (dry["tuples"], len(dry["order"]), dry["measured"], dry["folder"]) == (4, 4, None, None)
    with serving("tcp") as server:
        here = ("--server", server, "--at", "place=campus", "-o", str(tmp_path / "drives"))
        done = checked("measure-plan", *plan, *here)
    assert (done["measured"], done["transactions"], done["dropped"]) == (2, 4, 0)
    assert done["remaining"] == [{"levels": {"place": "downtown"}, "tuples": 2}]
    assert all(each["measured"] and each["levels"]["place"] == "campus" for each in done["order"])
    assert all((tmp_path / "drives" / "sessions" / each["session"]).is_dir() for each in done["order"])


def test_campaign_and_compare(tmp_path: Path) -> None:
    for name in ("cellular_upload", "download"):
        call("campaign", "run", _SAMPLES / name, "-o", tmp_path / name)
    rows = checked("campaign-query", "campaign", "query", "--json", tmp_path / "download", "SELECT * FROM seconds")
    assert rows
    sides = (tmp_path / "cellular_upload", tmp_path / "download")
    condition = ("--fail-if", "limit.link > 0.5", "--fail-if", "goodput < -10%")
    assert checked("compare", "compare", "--json", *sides)["quantities"]
    assert len(checked("compare", "compare", "--json", *sides, *condition, status=3)["conditions"]) == 2
    assert not checked("compare", "compare", "--json", sides[0], *condition[:2], status=3)["quantities"]
