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
    assert "link down (T_d)  20.8 %" in shown
    assert "fades (N_f)      3" in shown
    assert "mean fade (T_f)  1.384 s" in shown
    header, first, *rest = Path("power.csv").read_text("utf-8").splitlines()
    assert (header, first, len(rest)) == ("time_s,power_dbm", "0,-46.95710817", 19_999)
    again = read_power(Path("power.csv"))
    assert again.channel.step_ns == 1_000_000
    assert again.channel.power_dbm == pytest.approx(power_of("ray-1").channel.power_dbm, abs=1e-7)


def test_seed_and_threshold_are_options() -> None:
    lower = call("testbed", "channel", "ray-1-stated", "--threshold", "-74").stdout
    assert "link down (T_d)  21.5 %" in lower
    shown = {call("testbed", "channel", "ray-4", "--seed", seed, "--threshold", "-67").stdout for seed in "12"}
    assert len(shown) == 2
    assert "mean fade (T_f)  -" in call("testbed", "channel", "ray-3-stated").stdout


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
    power = received_power("ray-1-stated")
    assert list(power.power.columns) == ["time_s", "power_dbm"]
    assert len(power.power) == 20_000
    assert power.fades == power_of("ray-1-stated").fades
    assert (power.name, power.threshold_dbm) == ("ray-1-stated", -75)
    assert repr(power) == "<ray-1-stated: 20000 steps, -86.9 to -46.9 dBm>"
    assert len(power.figure().data) == 2
    assert received_power("ray-1-stated", threshold_dbm=-74).fades != power.fades
    with pytest.raises(InputError, match="ray-traced"):
        received_power("fig5-typical")


@pytest.mark.parametrize("name", ["channel", "received_power"])
def test_the_names_of_before_resolve_to_the_lab_and_warn(name: str) -> None:
    with pytest.warns(
        mt.MultiTracerDeprecationWarning, match=r"is now multitracer\.lab\.received_power\.received_power"
    ):
        assert getattr(mt, name) is received_power


def test_the_rate_counts_what_came_for_the_first_time() -> None:
    arrived_ns = np.arange(1, 101) * 10_000_000
    ends_s, rate = moving_rate(arrived_ns, np.arange(1, 101) * 100)
    assert rate[ends_s <= 1.0] == pytest.approx(10_000)
    again = np.concatenate([np.arange(1, 51), np.arange(1, 51)]) * 100
    _, rate = moving_rate(arrived_ns, again)
    assert rate[-20:] == pytest.approx(0)
    ends_s, rate = moving_rate(arrived_ns, np.arange(1, 101) * 100, end_ns=3_000_000_000)
    assert ends_s[-1] == pytest.approx(3)
    assert set(rate[ends_s > arrived_ns[-1] / 1e9 + 0.1]) == {0}
    assert [len(each) for each in moving_rate(arrived_ns[:0], again[:0])] == [0, 0]


@pytest.mark.parametrize("name", ["ray-1", "ray-5"])
def test_the_status_of_a_link_is_written_and_read_in_two_formats(name: str) -> None:
    files = {"power": "power.csv", "status": "status.csv", "ns2": "link.tcl"}
    shown = call(
        "testbed", "channel", name, "-o", files["power"], "--status", files["status"], "--ns2", files["ns2"]
    ).stdout
    assert [line for line in shown.splitlines() if line.startswith("written to ")] == [
        f"written to {path}" for path in files.values()
    ]
    received = power_of(name)
    threshold_dbm = received.threshold_dbm
    assert threshold_dbm is not None
    assert received.fades is not None
    ups = {key: read_power(Path(path)).channel.power_dbm >= threshold_dbm for key, path in files.items()}
    assert all((each == ups["power"]).all() for each in ups.values())
    commands = Path(files["ns2"]).read_text("utf-8").splitlines()
    assert commands[-1] == '$ns at 20 "finish"'
    assert sum(" down " in line for line in commands) == received.fades.number


def test_a_link_by_times_runs_as_the_radio_does() -> None:
    call("testbed", "channel", "ray-5", "-o", "power.csv", "--ns2", "link.tcl")
    few = ("--transports", "tahoe", "--runs", "1", "--seconds", "3", "--csv", "runs.csv")
    said, rates = {}, set()
    for radio, threshold in (("power.csv", "-44.5"), ("link.tcl", "-75")):
        said[radio] = call("testbed", "compare", radio, f"--threshold={threshold}", *few).stdout
        rates.add(Path("runs.csv").read_text("utf-8"))
    assert len(rates) == 1
    assert "radio modelled: up and down at the times of a file" in said["link.tcl"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("time_s,state\n0,up\n1,gone\n", "x.csv:3: each line must have a time in s and one of the states up, down and"),
        ("time_s,state\n0,up\n3,down\n2,end\n", "x.csv:4: time decreases; sort the lines"),
        ("time_s,state\n0,up\n", "the end of the link is missing; add the last line"),
        ("time_s,state\nnan,up\n", "x.csv:2: a time must be a number of seconds from 0 to 1e+06"),
        ("time_s,state\n101,end\n", "x.csv: a link status must last more than 0 and at most 100 s"),
        (
            "$ns rtmodel-at 1 off $n0 $n1\n",
            "x.csv:1: rtmodel-at must have a time in s, up or down, and one or two nodes",
        ),
        ("set ns [new Simulator]\n$ns rtmodel-at 1 down $n0 $n1\n", "the end of the link is missing"),
    ],
)
def test_a_wrong_link_status_is_one_sentence(text: str, says: str) -> None:
    Path("x.csv").write_text(text, "utf-8")
    assert says in call("plot", "--figure", "channel", "x.csv", "-o", "x.html", status=1).stderr


def test_a_script_of_ns_2_may_have_other_lines() -> None:
    begin = "set ns [new Simulator]\n  $ns_ rtmodel-at 0.0 down $n(0) ;# at once\n$ns_ rtmodel-at 1.5 up $n(0)\n"
    Path("x.tcl").write_text(f'{begin}$ns_ at 2 "finish"\n$ns_ rtmodel-at 9 down $n(0)\n', "utf-8")
    power_dbm = read_power(Path("x.tcl")).channel.power_dbm
    assert (power_dbm >= 0).tolist() == [False] * 1500 + [True] * 500
