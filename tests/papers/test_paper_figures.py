"""paper_figures.md: its numbers are those of the bundled sessions, its commands draw what it shows."""

from __future__ import annotations

import json
import re
import statistics
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest

from docs.papers.programs import paper_numbers
from docs.papers.programs.paper_bsd import BESIDE, bsd_trace
from docs.papers.programs.paper_figures import FIGURES, IMAGES, PAGE, Figure, both, part, parts, plot
from docs.papers.programs.paper_numbers import LEAST_STOP_S, LONGEST_STOP_S, SAMPLES, real_sessions, trace, virtual

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.scenario.summary import Summary
    from tests.lab.shared_runs import SharedRuns

TEXT = PAGE.read_text("utf-8")
_PNG = b"\x89PNG\r\n\x1a\n"
_LARGEST_PICTURE = 150_000


@dataclass(frozen=True)
class _SharedRun:
    summaries: SharedRuns
    scenario: Scenario

    def run(self) -> Summary:
        return self.summaries.of(self.scenario)


@pytest.mark.parametrize("name", list(parts()))
def test_each_generated_part_is_what_the_sessions_show(
    name: str, shared_runs: SharedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper_numbers, "VirtualRun", partial(_SharedRun, shared_runs))
    written, made = part(TEXT, name), parts()[name]()
    if name.startswith("beside "):  # a session may be bundled that the page does not compare
        made = "".join(line for line in made.splitlines(keepends=True) if line in written)
    assert written == made, "run: python -m docs.papers.programs.paper_figures"


_EVENTS = {"RlpSnd_rst", "TcpSnd_dupack", "TcpSnd_rexmt", "RlpSnd_rexmt"}
"""Of these there may be none."""
_FIRST_OF_SESSION = list({figure.session: figure for figure in reversed(FIGURES)}.values())


@pytest.mark.parametrize("figure", _FIRST_OF_SESSION, ids=lambda figure: f"figure{figure.number}")
def test_the_command_draws_the_series_that_it_names(
    figure: Figure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sample_traces").symlink_to(SAMPLES)
    plot(figure, "figure.json")
    drawn = {trace.get("meta", "") for trace in json.loads((tmp_path / "figure.json").read_text())["data"]}  # labels
    assert set(figure.series) - _EVENTS <= drawn
    assert sum("trend" in name for name in drawn) == figure.options.count("--trend")


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: f"figure{figure.number}")
def test_each_figure_has_its_series_and_a_picture_that_a_page_can_bear(figure: Figure) -> None:
    assert set(figure.series) - _EVENTS <= set(trace(figure.session).transfer.series)
    picture = IMAGES / f"paper_figure{figure.number}.png"
    assert picture.read_bytes().startswith(_PNG)
    assert picture.stat().st_size < _LARGEST_PICTURE
    assert f"images/{picture.name}" in TEXT


def test_the_eight_labels_of_the_paper_are_drawn_in_its_figures() -> None:
    asked = {label for figure in FIGURES for label in figure.series}
    assert asked >= {
        "TcpSnd_data", "TcpSnd_ack", "TcpSnd_cwnd", "TcpRcv_data", "TcpRcv_ack",
        "RlpSnd_data", "RlpSnd_rexmt", "RlpSnd_rst",
    }  # fmt: skip
    (typical,) = (figure for figure in FIGURES if figure.number == 5)
    zooms = [option for option in typical.options if option.startswith("Figure ")]
    assert sorted(zooms) == ["Figure 11=0:10", "Figure 12=50:72", "Figure 7=10:34"]


def test_what_the_paper_measured_is_seen_here_too() -> None:
    typical = trace("fig5-typical")
    assert typical.series("RlpSnd_data").slope == pytest.approx(960, rel=0.02)
    assert typical.series("TcpRcv_data").slope == pytest.approx(848, rel=0.02)
    assert typical.wire_bytes() == 460 + 59
    assert typical.summary["rlp_resets"] == 0
    failing = trace("fig8-resets-vj")
    assert len(failing.series("RlpSnd_rst").seconds) == failing.summary["tcp_timeouts"] == 2
    assert all(end - begin > 10 for begin, end in failing.advances().idle_gaps()[:2])


@pytest.mark.parametrize("number", list(BESIDE))
def test_kernel_and_bsd_stand_on_the_same_axes(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sample_traces").symlink_to(SAMPLES)
    (figure,) = (each for each in FIGURES if each.number == number)
    drawn = both(figure, tmp_path)
    layout = drawn["layout"]
    assert layout["xaxis"]["range"] == layout["xaxis2"]["range"] == BESIDE[number].span_s
    assert layout["xaxis"]["domain"][1] < layout["xaxis2"]["domain"][0]
    for left, right in (("yaxis", "yaxis3"), ("yaxis2", "yaxis4")):
        assert layout[left]["range"] == layout[right]["range"]
        assert (layout[left]["anchor"], layout[right]["anchor"]) == ("x", "x2")
    labels = {side: {each["meta"] for each in drawn["data"] if each.get("xaxis") == side} for side in (None, "x2")}
    assert labels[None] >= set(figure.series) - _EVENTS
    assert labels["x2"] >= set(figure.series) - _EVENTS
    assert {each["yaxis"] for each in drawn["data"] if each.get("xaxis") == "x2"} == {"y3", "y4"}


def test_bsd_answers_a_local_drop_as_section_5_2_says() -> None:
    seen = bsd_trace("fig5-typical")
    dropped = float(seen.drops()[0])
    again = float(seen.resent().seconds[0])
    cwnd, data = seen.series("TcpSnd_cwnd"), seen.series("TcpSnd_data")
    assert cwnd.between(dropped, dropped + 0.1).value[-1] == 460
    begin, end = data.between(dropped - 0.01, again).idle_gaps()[0]
    rtt_s = seen.series("TcpSnd_rtt").between(0, again).value.max() / 1e9
    assert begin == pytest.approx(dropped, abs=0.05)
    assert end - begin == pytest.approx(rtt_s / 2, rel=0.2)
    filled = data.between(again + 1, again + 10).seconds
    assert sum(filled == filled[0]) == 8
    assert cwnd.between(filled[0], filled[0] + 1).value[-1] == 8 * 460


def test_the_kernel_learns_of_no_drop() -> None:
    seen = trace("fig5-typical")
    dropped, again = float(seen.drops()[0]), float(seen.resent().seconds[0])
    assert seen.series("TcpSnd_cwnd").between(dropped, again).value.min() > 10 * 460
    begin, end = seen.new_data().between(dropped, again).idle_gaps()[0]
    assert end - begin < 1.5


def test_the_fade_of_figure_11_and_the_gaps_of_figure_12_last_as_long_as_the_papers() -> None:
    seen = trace("fig5-typical")
    again = seen.series("RlpSnd_rexmt").between(0, 10).seconds
    assert again[-1] - again[0] == pytest.approx(1.325, rel=0.05)
    begin, end = seen.series("TcpRcv_data").between(3, 10).idle_gaps()[0]
    assert end - begin == pytest.approx(2.26, rel=0.05)
    stops = seen.stops()
    assert ((stops >= LEAST_STOP_S) & (stops <= LONGEST_STOP_S)).mean() > 0.95


def test_the_zooms_are_of_the_recording_of_figure_5() -> None:
    recordings = {figure.session for figure in FIGURES if figure.number in (5, 7, 11, 12)}
    assert len(recordings) == 1


def test_the_timer_of_figure_10_backs_off_behind_resets_that_nobody_set() -> None:
    seen = trace("fig10-exhaustion")
    begin, end = seen.advances().idle_gaps()[0]
    assert ((seen.exhaustions() > begin) & (seen.exhaustions() < end)).any()
    tries = seen.resent().between(begin, end)
    tries = tries.seconds[tries.value == tries.value[0]]
    assert len(tries) == 2
    assert tries[1] - tries[0] > 1.5 * (tries[0] - begin)


@pytest.mark.parametrize("name", ["local-drop-ring", "local-drop-silent"])
def test_an_upload_over_a_good_radio_gets_what_the_link_gives(name: str) -> None:
    """The paper's numbers: 848, 960 and 1200 B/s, and gaps of 0.95 to 1.35 s."""
    seen = trace(name)
    assert seen.series("TcpRcv_data").slope == pytest.approx(848, rel=0.02)
    assert seen.series("RlpSnd_data").slope == pytest.approx(960, rel=0.01)
    assert statistics.median(seen.rates_between_stops()) == pytest.approx(1200, rel=0.02)
    assert all(0.95 < gap < 1.35 for gap in seen.summary["xoff_gaps_s"])


@pytest.mark.parametrize("as_linux", [True, False])
@pytest.mark.parametrize("name", real_sessions())
def test_real_and_virtual_agree_or_the_page_says_why_not(name: str, as_linux: bool) -> None:
    real = json.loads((SAMPLES / name / "summary.json").read_text("utf-8"))
    model = virtual(name, as_linux=as_linux).document()
    apart = abs(real["goodput_bytes_per_s"] / model["goodput_bytes_per_s"] - 1)
    keys = ("tcp_retransmissions", "tcp_timeouts")
    differs = apart > 0.03 or any(abs(real[key] - model[key]) > 2 for key in keys)
    differs |= real["rlp_resets"] != model["rlp_resets"]
    assert not (as_linux and differs)
    explained = re.findall(r"`([a-z0-9-]+)`", TEXT.partition("### Beside the paper's TCP")[2])
    assert not differs or name in explained
