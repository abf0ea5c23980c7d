"""`plot` of a data call: the link's series, slopes, rectangles, and the page that it writes."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from multitracer.lab.scenario.library import load_scenario
from tests.cli.program import call

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.shared_runs import SharedRuns


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, shared_runs: SharedRuns) -> Path:
    recorded = shared_runs.session(load_scenario("fig12-flow-control")).folder
    return shutil.copytree(recorded, tmp_path_factory.mktemp("call") / "<b>call")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def names(path: Path) -> list[str]:
    return [trace["name"] for trace in json.loads(path.read_text("utf-8"))["data"] if trace.get("name")]


def test_slopes_are_printed_before_the_path(folder: Path, tmp_path: Path) -> None:
    done = call("plot", folder, "-o", "f.json", "--trend", "RlpSnd_data=3:6", "--trend", "TcpRcv_data=20:60")
    first, second, path = done.stdout.splitlines()
    assert first == "RlpSnd_data trend 3 to 6 s: 1,200 B/s"
    assert second.startswith("TcpRcv_data trend 20 to 60 s: 8")
    assert path == "f.json"
    lines = [name for name in names(tmp_path / "f.json") if "trend" in name]
    assert lines == [first.replace("RlpSnd_data", "link frames,"), second.replace("TcpRcv_data", "arrived,")]


def test_no_slope_is_printed_unasked(folder: Path, tmp_path: Path) -> None:
    assert call("plot", folder, "-o", "f.json").stdout == "f.json\n"
    assert sum("trend" in name for name in names(tmp_path / "f.json")) == 3


def test_the_trendlines_of_a_figure_have_different_dashes(folder: Path, tmp_path: Path) -> None:
    call("plot", folder, "-o", "f.json")
    drawn = json.loads((tmp_path / "f.json").read_text("utf-8"))["data"]
    dashes = [trace["line"]["dash"] for trace in drawn if "trend" in (trace.get("name") or "")]
    assert dashes == ["dash", "dot", "dashdot"]


def test_chosen_series_and_those_that_are_missing(folder: Path, tmp_path: Path) -> None:
    done = call("plot", folder, "-o", "f.json", "--series", "RlpSnd_x*", "--series", "RlpSnd_rst")
    assert set(names(tmp_path / "f.json")) == {"link: stop", "link: resume"}
    call("plot", folder, "-o", "g.json", "--series", "*_data")
    assert not [name for name in names(tmp_path / "g.json") if "trend" in name], "none was asked for"
    assert done.stderr == "Warning: this recording has no series 'RlpSnd_rst'\n"
    (folder / "mobile" / "rlp.pcapng").rename(tmp_path / "away")
    try:
        done = call("plot", folder, "-o", "f.json", "--series", "*_data,RlpSnd_xoff")
    finally:
        (tmp_path / "away").rename(folder / "mobile" / "rlp.pcapng")
    assert done.stderr.endswith("no series 'RlpSnd_xoff': no log of the link at 'mobile'\n")


def test_an_interval_without_anything_is_said_to_be_empty(folder: Path, tmp_path: Path) -> None:
    for more in ([], ["--time-sequence"]):
        done = call("plot", folder, "-o", "f.json", "--from", "5000", "--to", "5001", *more)
        assert done.stderr == ("Warning: this connection has no packets between --from and --to; the figure is empty\n")
        notes = json.loads((tmp_path / "f.json").read_text())["layout"]["annotations"]
        assert any("points of it lie outside the chosen interval" in note["text"] for note in notes)
    assert call("plot", folder, "-o", "f.json", "--from", "5", "--to", "6").stderr == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--trend", "=3:5"], "does not name a series"),
        (["--trend", "RlpSnd_data=3"], "is not an interval"),
        (["--trend", "RlpSnd_data=5:3"], "the end must be after the begin"),
        (["--mark", "nan:3"], "the end must be after the begin"),
        (["--mark", "0:1e300"], "at most 292 years"),
        (["--time-sequence", "--mark", "1:2"], "only with the stacked figure"),
    ],
)
def test_what_cannot_be_meant_is_refused(folder: Path, arguments: list[str], said: str) -> None:
    assert said in call("plot", folder, "-o", "f.json", *arguments, status=2).stderr


def test_each_series_of_the_link_gets_a_file(folder: Path, tmp_path: Path) -> None:
    call("export", "series", "-o", "out", folder)
    there = {path.stem for path in (tmp_path / "out").iterdir()}
    assert {"RlpSnd_data", "RlpSnd_xoff", "RlpSnd_xon", "RlpRcv_data", "TcpSnd_cwnd"} <= there
    text = (tmp_path / "out" / "RlpSnd_data.csv").read_text().splitlines()
    assert text[:4] == [
        "# label: RlpSnd_data", "# unit: bytes", "# source: rlpdump",
        "# doc: first byte of each frame leaving for the first time",
    ]  # fmt: skip
    assert text[5].endswith(",0")
