"""`analyze` and `plot` on flows of WTCP, run as users run them."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import jsonschema
import pytest

from multitracer.lab.simulator.run import record_virtual
from tests.cli.program import ROOT, analyze, call
from tests.cli.test_analyze import SCHEMA, closed
from tests.lab.rig.virtual import link
from tests.lab.simulator.test_flows import traffic

if TYPE_CHECKING:
    from pathlib import Path

BOTH = '[link]\nkind = "cdpd"\n' + "".join((
    traffic(bytes=20_000, transport="wtcp"),
    traffic(bytes=20_000, transport="vegas", direction="down", start_s=5),
))  # fmt: skip


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a session of a flow of WTCP and one of Vegas."""
    folder = tmp_path_factory.mktemp("flows") / "both"
    record_virtual(link(f"limit_s = 300\n{BOTH}"), folder)
    return folder


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_analyze_shows_a_line_for_each_flow_of_wtcp(session: Path) -> None:
    lines = call("analyze", session).stdout.splitlines()
    at = lines.index("1 WTCP flow")
    head = ["flow", "delivered", "packets", "retransmitted", "rate", "captured", "at"]
    assert lines[at + 1].split() == head
    assert lines[at + 2].startswith("mobile:1025 > fixed:5001")
    assert "20 kB" in lines[at + 2]


def test_one_file_with_wtcp_and_connections_of_tcp_shows_both(tmp_path: Path) -> None:
    more = traffic(bytes=20_000, transport="vegas", direction="down", start_s=7)
    record_virtual(link(f"limit_s = 300\n{BOTH}{more}"), tmp_path / "three")
    lines = call("analyze", tmp_path / "three" / "fixed" / "tcp-0.pcap").stdout.splitlines()
    assert {"2 TCP connections", "1 WTCP flow"} <= set(lines)


def test_json_has_the_flows_of_wtcp(session: Path) -> None:
    document = analyze(session)
    jsonschema.validate(document, closed(SCHEMA))
    told = json.loads((session / "summary.json").read_text("utf-8"))["flows"][0]
    (flow,) = document["wtcp"]
    assert [flow[key] for key in ("flow", "delivered_bytes", "delivered_packets")] == [
        told[key] for key in ("flow", "delivered_bytes", "delivered_packets")
    ]
    assert (flow["host"], flow["sport"], flow["dport"]) == ("fixed", 1025, 5001)


def test_a_capture_without_wtcp_has_no_line_of_it(session: Path) -> None:
    assert "WTCP" not in call("analyze", "--from", "299", session / "fixed" / "tcp-0.pcap").stdout


@pytest.mark.parametrize("kind", ["delivered", "rates"])
def test_plot_draws_every_flow_of_several_sessions(session: Path, tmp_path: Path, kind: str) -> None:
    shutil.copytree(session, tmp_path / "again")
    done = call("plot", "--figure", kind, session, "again", "-o", "f.json")
    assert (done.stdout, done.stderr) == ("f.json\n", "")
    named = [trace["name"] for trace in json.loads((tmp_path / "f.json").read_text("utf-8"))["data"]]
    flows = ["wtcp, mobile:1025 &gt; fixed:5001", "vegas, fixed:5002 &gt; mobile:1026"]
    of_all = [f"{folder}: {flow}" for folder in ("both", "again") for flow in flows]
    assert named == of_all * (2 if kind == "rates" else 1), "each panel: of rates the delivered and the commanded ones"


def test_a_figure_without_a_flow_says_why(session: Path, tmp_path: Path) -> None:
    shutil.copytree(session, tmp_path / "half")
    shutil.rmtree(tmp_path / "half" / "fixed")
    shutil.rmtree(tmp_path / "half" / "truth")
    done = call("plot", "--figure", "delivered", "half", "-o", "f.json")
    assert "mobile:1025 > fixed:5001: no capture was made at its receiver" in done.stderr
    traces = json.loads((tmp_path / "f.json").read_text("utf-8"))["data"]
    assert [trace["name"] for trace in traces] == ["tcp, fixed:5002 &gt; mobile:1026"], "no log of its sender"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--figure", "delivered", "--window", "5"), "--window can be used only with --figure rates"),
        (("--window", "5"), "--window can be used only with --figure rates"),
        (("--figure", "rates", "--connection", "1"), "--connection cannot be used with --figure rates"),
        (("--figure", "rates", "--axis", "distance"), "--series, --offset, --trend, --mark and --axis"),
        (("--figure", "rates", "--window", "0"), "0 must be a number of seconds above 0 and up to 86400"),
        (("--figure", "rates", "--window", "nan"), "nan must be a number of seconds"),
    ],
)
def test_options_that_have_no_meaning_are_refused(session: Path, options: tuple[str, ...], words: str) -> None:
    assert words in call("plot", *options, session, status=2).stderr


def test_analyze_tells_how_evenly_flows_share_the_link() -> None:
    folder = ROOT / "sample_traces" / "second-connection"
    text = call("analyze", "--fairness", folder).stdout
    assert "Fairness of 2 flows: Jain's index 0.569, gap 13.48, in the 10.2 s in which all run\n" in text
    assert "In the last third of this time: Jain's index 0.723, gap 3.26\n" in text
    document = json.loads(call("analyze", "--fairness", "--json", folder).stdout)["fairness"]
    assert document["gap"] == pytest.approx(13.48, abs=0.01)
    assert document["last_third"]["jain"] == pytest.approx(0.723, abs=0.001)
    assert [round(each["share"], 3) for each in document["shares"]] == [0.935, 0.065]
    assert "fairness" not in json.loads(call("analyze", "--json", folder).stdout)
    call("analyze", "--fairness", "--csv", folder, status=2)


def test_analyze_says_why_a_session_has_no_fairness() -> None:
    text = call("analyze", "--fairness", ROOT / "sample_traces" / "cellular_upload").stdout
    assert "Fairness of 3 flows: no gap between the transports: there is no time in which all flows ran" in text
