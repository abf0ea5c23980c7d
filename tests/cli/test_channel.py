"""`testbed channel`, `plot --figure channel`, `received_power`: a radio's numbers, file and figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import multitracer as mt
from multitracer.errors import InputError
from multitracer.figures.power_figure import moving_rate
from multitracer.lab.received_power import received_power
from multitracer.lab.scenario.radio import power_of, read_power
from tests.cli.program import call


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def drawn(path: str) -> Any:
    return json.loads(Path(path).read_text("utf-8"))


def test_the_numbers_of_a_radio_and_a_line_for_each_step() -> None:
    shown = call("testbed", "channel", "ray-1", "-o", "power.csv").stdout
    assert "link down (T_d)  16.1 %" in shown
    assert "fades (N_f)      2" in shown
    assert "mean fade (T_f)  1.613 s" in shown
    header, first, *rest = Path("power.csv").read_text("utf-8").splitlines()
    assert (header, first, len(rest)) == ("time_s,power_dbm", "0,-46.92988101", 19_999)
    again = read_power(Path("power.csv"))
    assert again.channel.step_ns == 1_000_000
    assert again.channel.power_dbm == pytest.approx(power_of("ray-1").channel.power_dbm, abs=1e-7)


def test_seed_and_threshold_are_options() -> None:
    lower = call("testbed", "channel", "ray-1", "--threshold", "-74").stdout
    assert "link down (T_d)  21.5 %" in lower
    shown = {call("testbed", "channel", "ray-4", "--seed", seed, "--threshold", "-67").stdout for seed in "12"}
    assert len(shown) == 2
    assert "mean fade (T_f)  -" in call("testbed", "channel", "ray-3").stdout


def test_the_same_seed_gives_the_same_bytes() -> None:
    call("testbed", "channel", "ray-4", "-o", "a.csv")
    call("testbed", "channel", "ray-4", "-o", "b.csv")
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("cdpd",), "cdpd: the link of this scenario has no ray-traced radio; choose a scenario with [link] kind"),
        (("ray-9",), "ray-9: no scenario has this name"),
        (("inside.toml",), "inside: the mobile node is inside a building at 0 s"),
        (("ray-1", "-o", "none/power.csv"), "the folder does not exist"),
    ],
)
def test_what_cannot_be_is_one_sentence(arguments: tuple[str, ...], says: str) -> None:
    house = "[[link.building]]\nx_m = 9\ny_m = -1\nlength_m = 2\nwidth_m = 2\n[[traffic]]\nbytes = 1\n"
    Path("inside.toml").write_text(f'[link]\nkind = "switched"\n{house}', "utf-8")
    assert says in call("testbed", "channel", *arguments, status=1).stderr


def test_a_figure_of_a_scenario_and_of_a_file() -> None:
    call("plot", "--figure", "channel", "ray-1", "-o", "a.json")
    power, threshold = drawn("a.json")["data"]
    assert power["xaxis"] == threshold["xaxis"] == "x"
    call("testbed", "channel", "ray-1", "-o", "power.csv")
    call("plot", "--figure", "channel", "power.csv", "-o", "b.html")
    assert "received power" in Path("b.html").read_text("utf-8")
    two = call("plot", "--figure", "channel", "ray-1", "ray-2", "-o", "c.html", status=2)
    assert "draws only one input" in two.stderr


@pytest.mark.slow
def test_five_panels_of_a_run() -> None:
    call("testbed", "run", "ray-5", "--virtual", "-o", "run")
    call("plot", "--figure", "channel", "run", "-o", "run.json")
    figure = drawn("run.json")
    assert {trace["yaxis"] for trace in figure["data"]} == {"y", "y2", "y3", "y4", "y5"}
    titles = [note["text"] for note in figure["layout"]["annotations"]]
    for words in ("ray-5: received power", "Congestion window", "Throughput", "Sequence", "Transmissions"):
        assert any(words in title for title in titles)
    assert mt.open("run").series()["TcpSnd_cwnd"]["value"].max() <= 64 * 1460


def test_a_folder_without_such_a_run_is_refused() -> None:
    Path("empty").mkdir()
    refused = call("plot", "--figure", "channel", "empty", "-o", "x.html", status=1)
    assert "not a session of a run in virtual time" in refused.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "power.csv:1: does not begin with the line time_s,power_dbm"),
        ("a,b\n1,2\n", "power.csv:1: does not begin with the line time_s,power_dbm"),
        (
            "time_s,power_dbm\n0,-3\n0.001,x\n",
            "power.csv:3: each line must have two numbers (time in s, received power in dBm): b'0.001,x'",
        ),
        ("time_s,power_dbm\n0,-3\n0.001,inf\n", "power.csv:3: each line must have two numbers"),
        ("time_s,power_dbm\n0,-3,4\n1,-3\n", "power.csv:2: each line must have two numbers"),
        ("time_s,power_dbm\n0,-3\n", "a power trace must have 2 to"),
        ("time_s,power_dbm\n0,-3\n2,-3\n1,-3\n", "power.csv:4: time decreases from 2 to 1 s"),
        ("time_s,power_dbm\n0,-3\n0,-3\n", "times must be evenly spaced"),
    ],
)
def test_a_wrong_file_is_one_sentence(text: str, says: str) -> None:
    Path("power.csv").write_text(text, "utf-8")
    assert says in call("plot", "--figure", "channel", "power.csv", "-o", "x.html", status=1).stderr


def test_the_received_power_of_a_notebook() -> None:
    power = received_power("ray-1")
    assert list(power.power.columns) == ["time_s", "power_dbm"]
    assert len(power.power) == 20_000
    assert power.fades == power_of("ray-1").fades
    assert (power.name, power.threshold_dbm) == ("ray-1", -75)
    assert repr(power) == "<ray-1: 20000 steps, -86.9 to -46.9 dBm>"
    assert len(power.figure().data) == 2
    assert received_power("ray-1", threshold_dbm=-74).fades != power.fades
    with pytest.raises(InputError, match="ray-traced"):
        received_power("fig5-typical")


@pytest.mark.parametrize("name", ["channel", "received_power"])
def test_the_names_of_before_resolve_to_the_lab_and_warn(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=r"is now multitracer\.lab\.received_power\.received_power"):
        assert getattr(mt, name) is received_power


def test_the_rate_counts_what_came_for_the_first_time() -> None:
    arrived_ns = np.arange(1, 101) * 10_000_000
    ends_s, rate = moving_rate(arrived_ns, np.arange(1, 101) * 100)
    assert rate[ends_s <= 1.0] == pytest.approx(10_000)
    again = np.concatenate([np.arange(1, 51), np.arange(1, 51)]) * 100
    _, rate = moving_rate(arrived_ns, again)
    assert rate[-20:] == pytest.approx(0)
    assert [len(each) for each in moving_rate(arrived_ns[:0], again[:0])] == [0, 0]
