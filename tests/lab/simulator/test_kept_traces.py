"""The folder of a run holds the traces that its scenario names: it can be run again alone."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from multitracer.errors import InputError
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.scenario.model import Scenario
from multitracer.lab.scenario.session_folder import keep_scenario
from multitracer.lab.simulator.run import record_virtual
from multitracer.manifest import changed_files, read_manifest
from multitracer.recording.read import read
from tests.cli.program import call, run
from tests.lab.testbed.running import PATIENCE_S

TRAFFIC = '[[traffic]]\ndirection = "down"\nbytes = 20_000\n'
ERRORS = "# multitracer error-trace 1\n# of a drive\n# slot_ns 20000000\n# slots 900\ndown 50 9\n"
TRACES = {
    "gsm": ('[link.down]\nkind = "replay"\ntrace = "drive/radio.txt"\n', "drive/radio.txt", ERRORS),
    "capacity": ('[link]\nkind = "capacity"\n[link.down]\ntrace = "radio.down"\n', "radio.down", "5\n9\n40\n41\n90\n"),
    "switched": (
        '[link]\nkind = "switched"\npower = "power.csv"\n',
        "power.csv",
        "time_s,power_dbm\n0,-60\n0.1,-60.0000001\n0.2,-90\n",
    ),
}
LOGS = ("mobile/tcp-0.pcap", "fixed/tcp-0.pcap", "truth/segments.csv", "summary.json")
REAL = ("--speed", "20")
MEASURE = ("measure", "run", "--protocol", "tcp", "--vary", "reply", "--sizes", "700", "--sessions", "2")


def written(folder: Path, kind: str) -> Path:
    """Write a scenario and its trace into a folder; return the scenario's path."""
    link, name, text = TRACES[kind]
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    (folder / "mine.toml").write_text(f"limit_s = 60\n{link}{TRAFFIC}")
    return folder / "mine.toml"


@pytest.mark.parametrize("kind", TRACES)
def test_a_run_is_repeated_from_its_folder_alone(kind: str, tmp_path: Path) -> None:
    path = written(tmp_path / "from", kind)
    call("testbed", "run", path, "--virtual", "-o", tmp_path / "run")
    shutil.rmtree(tmp_path / "from")
    _, name, text = TRACES[kind]
    assert (tmp_path / "run/truth/traces" / name).read_text() == text
    call("testbed", "run", tmp_path / "run/scenario.toml", "--virtual", "-o", tmp_path / "again")
    for log in LOGS:
        assert (tmp_path / "again" / log).read_bytes() == (tmp_path / "run" / log).read_bytes(), log
    assert (tmp_path / "again/truth/traces" / name).read_text() == text
    manifest = read_manifest(tmp_path / "run")
    assert manifest is not None
    assert list(changed_files(tmp_path / "run", manifest)) == []
    assert f"truth/traces/{name}" in {each.path for each in manifest.files}
    assert read(tmp_path / "run").notes == [], "a trace is no log"
    shown = call("testbed", "compare", tmp_path / "run", "--transports", "reno", "--runs", "1").stdout
    kinds = {"gsm": "recorded", "capacity": "derived", "switched": "modelled"}
    assert f"radio {kinds[kind]}: " in shown


@pytest.mark.parametrize("kind", TRACES)
def test_a_measurement_is_repeated_from_its_folder_alone(kind: str, tmp_path: Path) -> None:
    path = written(tmp_path / "from", kind)
    call(*MEASURE, "--over", path, "--virtual", "-o", tmp_path / "run")
    shutil.rmtree(tmp_path / "from")
    _, name, text = TRACES[kind]
    assert (tmp_path / "run/truth/traces" / name).read_text() == text
    call(*MEASURE, "--over", tmp_path / "run/scenario.toml", "--virtual", "-o", tmp_path / "again")
    ours, theirs = ((tmp_path / each / "transactions.csv").read_text() for each in ("run", "again"))
    assert ours == theirs


def test_a_measurement_does_not_go_on_over_another_trace(tmp_path: Path) -> None:
    path = written(tmp_path / "from", "capacity")
    scenario = load_scenario(str(path))
    (tmp_path / "run").mkdir()
    keep_scenario(tmp_path / "run", scenario)
    keep_scenario(tmp_path / "run", scenario)
    (tmp_path / "from/radio.down").write_text("7\n")
    with pytest.raises(
        InputError, match=r"radio\.down: this file differs from the trace that mine now names; name another"
    ):
        keep_scenario(tmp_path / "run", load_scenario(str(path)))
    assert (tmp_path / "run/truth/traces/radio.down").read_text() == TRACES["capacity"][2]


@pytest.mark.root
def test_runs_in_real_time_keep_their_traces_too(tmp_path: Path) -> None:
    path = written(tmp_path / "from", "capacity")
    shown = run("testbed", "run", path, *REAL, "-o", tmp_path / "run", timeout=PATIENCE_S).stdout
    took = re.search(r"the trace lasts 0\.1 s, the run took (\d+\.\d) s: the trace began (\d+) times", shown)
    assert took is not None
    assert float(took[1]) <= 61, "limit_s, and not what namespaces and collectors took, twenty times over"
    assert int(took[2]) == pytest.approx(float(took[1]) / 0.09, abs=2)
    run(*MEASURE, "--over", path, *REAL, "-o", tmp_path / "measured", timeout=PATIENCE_S)
    for name in ("run", "measured"):
        assert (tmp_path / name / "truth/traces/radio.down").read_text() == TRACES["capacity"][2]
        kept = load_scenario(str(tmp_path / name / "scenario.toml"))
        assert kept.link == load_scenario(str(path)).link


@pytest.mark.root
@pytest.mark.parametrize("command", ["testbed", "measure"])
def test_a_link_that_is_never_up_makes_no_folder(command: str, tmp_path: Path) -> None:
    path = written(tmp_path, "switched")
    path.write_text(path.read_text().replace("[[traffic]]", "threshold_dbm = -50\n[[traffic]]"))
    what = ("testbed", "run", path) if command == "testbed" else (*MEASURE, "--over", path)
    for options in (("--virtual",), REAL):
        refused = call(*what, *options, "-o", tmp_path / "run", status=1).stderr
        assert 'the link is never up: the maximum power is -60.0 dBm, below "threshold_dbm" (-50 dBm)' in refused
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["../up", "/abs", "a/../../up", "..", "nul\0"])
def test_no_name_leads_out_of_the_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    hostile = Scenario(name="x", traffic=load_scenario("clean-bulk").traffic, traces=((name, "5\n"),))
    with pytest.raises(InputError, match="leads out of the folder"):
        record_virtual(hostile, tmp_path / "run")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_trace_never_takes_the_place_of_a_log(tmp_path: Path) -> None:
    """It may be called as one of the run's own files."""
    for name in ("mobile/tcp-0.pcap", "manifest.json", "summary.json", "truth/segments.csv", "a b\n<i>.down"):
        folder = tmp_path / "from"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("5\n9\n")
        toml = f'[link]\nkind = "capacity"\n[link.down]\ntrace = {json.dumps(name)}\n{TRAFFIC}'
        (folder / "mine.toml").write_text(toml)
        into = tmp_path / Path(name).name.partition("\n")[0]
        call("testbed", "run", folder / "mine.toml", "--virtual", "-o", into)
        assert (into / "truth/traces" / name).read_text() == "5\n9\n"
        assert load_scenario(str(into / "scenario.toml")).link == load_scenario(str(folder / "mine.toml")).link
        assert len(read(into).captures) == 2
