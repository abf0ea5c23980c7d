"""docs/papers/ray.md shows what its files hold, and these what the programs do today."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

import pytest

from docs.papers.programs import ray, ray_page
from multitracer.lab.channel.link_status import status_of
from multitracer.lab.channel.ray import channel_of
from multitracer.lab.scenario.radio import power_of
from multitracer.lab.simulator.comparison import RAY_PAPER
from multitracer.units import NS_PER_S
from tests.cli.program import call

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", ray_page.TABLES)
def test_the_tables_are_those_of_the_files(name: str) -> None:
    assert ray_page.written(name) == ray_page.TABLES[name](), "run python -m docs.papers.programs.ray table"


@pytest.mark.parametrize("variant", ray.VARIANTS, ids=str)
def test_fades_are_those_of_the_channel(variant: ray.Variant) -> None:
    seed = variant.bundled.seed
    facts = ray.fades(variant, seed)
    kept = {(line["scenario"], line["variant"], line["seed"]): line for line in ray_page.lines_of(ray_page.CHANNEL)}
    line = kept[str(variant.number), variant.name, str(seed)]
    assert line == {key: "" if value is None else str(value) for key, value in facts.items()}


@pytest.mark.parametrize("number", RAY_PAPER)
def test_the_bundled_scenarios_have_the_fades_of_the_paper(number: int) -> None:
    """Time down, number and mean duration of the fades, each within 15 %."""
    ours = power_of(f"ray-{number}").fades
    assert ours is not None
    values = (100 * ours.down_share, ours.number, ours.mean_s)
    assert values == pytest.approx(RAY_PAPER[number][:3], rel=0.15)


@pytest.mark.slow
def test_table_i_is_one_command(tmp_path: Path) -> None:
    kept = tmp_path / "table.csv"
    shown = call("testbed", "table", "ray", "--thresholds", "16", "--csv", kept).stdout
    lines = list(csv.DictReader(kept.read_text("utf-8").splitlines()))
    assert [line["scenario"] for line in lines] == [f"ray-{number}" for number in RAY_PAPER for _ in range(4)]
    runs = {
        f"ray-{line['scenario']}": line["kbytes_per_s"]
        for line in ray_page.lines_of(ray_page.RUNS)
        if line.items() >= {"variant": "calibrated", "transport": "tahoe", "ssthresh": "16"}.items()
        and line["seed"] == str(ray.Variant(int(line["scenario"]), "calibrated").bundled.seed)
    }
    rates = {line["scenario"]: float(line["value"]) for line in lines if line["quantity"].startswith("R ")}
    assert rates == pytest.approx({name: float(rate) for name, rate in runs.items()}, abs=0.06)
    row = next(line for line in shown.splitlines() if line.startswith("R at 16 packets"))
    assert re.findall(r"\((\d+)\)", row) == ["190", "131", "228", "183", "30"]


@pytest.mark.parametrize("wrong", ["", "8,x", "1", "8,-16", "2000000"])
def test_thresholds_are_numbers_of_packets(wrong: str) -> None:
    refused = call("testbed", "table", "ray", "--thresholds", wrong, status=2).stderr
    assert "each threshold must be a number from 2 to 1,000,000, as in 8,16,32" in refused


def test_a_run_gives_the_rate_of_its_line() -> None:
    variant = ray.Variant(5, "calibrated")
    ours = next(ray.transport_rows(variant, 1))
    lines = [line for line in ray_page.lines_of(ray_page.RUNS) if line["scenario"] == "5"]
    (line,) = (
        each
        for each in lines
        if ours.items() >= {"variant": each["variant"]}.items()
        and (each["transport"], each["ssthresh"], each["seed"]) == ("tahoe", "8", "1")
    )
    # of which version a line is, says when it was computed
    assert line | {"version": ""} == {key: str(value) for key, value in ours.items()} | {"version": ""}


def test_our_own_reckoning_holds() -> None:
    """The numbers that were reckoned before the models were built, in the issue that asked for them."""
    stated = {variant.number: ray.fades(variant, 1) for variant in ray.VARIANTS if variant.name == "stated"}

    def numbers(facts: ray.Row) -> tuple[float, int, float]:
        return facts["down_percent"], facts["fades"], facts["fade_s"]

    assert numbers(stated[1]) == pytest.approx((16.1, 2, 1.61), abs=0.05)
    lower = power_of("ray-1-stated", threshold_dbm=-74).fades
    assert lower is not None
    assert (100 * lower.down_share, lower.number, lower.mean_s) == pytest.approx((21.5, 2, 2.15), abs=0.05)
    assert numbers(stated[2]) == pytest.approx((9.4, 4, 0.47), abs=0.05)
    assert numbers(ray.fades(ray.Variant(5, "calibrated"), 1)) == pytest.approx((45.2, 49, 0.18), abs=0.3)


def test_all_transports_meet_the_same_seeds() -> None:
    for line in ray_page.lines_of(ray_page.TABLE):
        assert line["seeds"] == (str(ray.SEEDS) if int(line["scenario"]) in ray.RANDOM else "1"), line
    rates: dict[tuple[str, ...], dict[str, float]] = {}
    for line in ray_page.lines_of(ray_page.RUNS):
        key = line["scenario"], line["variant"], line["ssthresh"], line["seed"]
        rates.setdefault(key, {})[line["transport"]] = float(line["kbytes_per_s"])
    alike = ("tahoe", "reno", "newreno", "sack")
    assert all(len({each[name] for name in alike}) == 1 for each in rates.values())

    def better(scenario: str, ssthresh: str) -> int:
        runs = [each for key, each in rates.items() if key[:3] == (scenario, "calibrated", ssthresh)]
        return sum(each["vegas"] > each["tahoe"] for each in runs)

    assert [better("3", first) for first in ("8", "16", "32")] == [10, 10, 10]
    assert [better("4", first) for first in ("8", "16", "32")] == [0, 0, 0]


def test_i_tcp_gains_most_in_each_scenario_and_in_all_runs() -> None:
    lines = [line for line in ray_page.lines_of(ray_page.REMEDIES) if line["variant"] == "calibrated"]
    for number in RAY_PAPER:
        here = {line["remedy"]: line for line in lines if line["scenario"] == str(number)}
        assert set(here) == set(ray.REMEDY)
        assert max(here, key=lambda name: float(here[name]["kbytes_per_s"])) == "I-TCP"
        assert here["I-TCP"]["runs_better"] == "5"


def test_the_window_reaches_its_maximum_in_scenario_1_alone() -> None:
    largest: dict[str, int] = {}
    for line in ray_page.lines_of(ray_page.SERIES):
        if line["variant"] == "calibrated" and line["cwnd_segments"]:
            largest[line["scenario"]] = max(largest.get(line["scenario"], 0), int(line["cwnd_segments"]))
    assert largest == {"1": 65, "2": 58, "3": 46, "4": 32, "5": 12}
    assert "58, 46, 32 and 12 in scenarios 2 to 5" in ray_page.PAGE.read_text("utf-8")


@pytest.mark.slow
def test_a_remedy_gives_the_rate_of_its_line() -> None:
    variant = ray.Variant(5, "calibrated")
    told = [ray._remedied(variant, run, start_s, ray.REMEDY["I-TCP"]) for run, start_s in enumerate(ray.STARTS_S)]
    lines = [line for line in ray_page.lines_of(ray_page.REMEDIES) if line["scenario"] == "5"]
    (line,) = (line for line in lines if line["remedy"] == "I-TCP")
    assert float(line["kbytes_per_s"]) == pytest.approx(median(told), abs=0.06)


def test_the_page_says_the_numbers_of_the_paper() -> None:
    assert ray_page.PAPER["4"] == pytest.approx((45, 4, 2.2, 116, 183, 107))
    text = ray_page.PAGE.read_text("utf-8")
    for words in ("likely a misprint", "when_down", "146 m", "five in a second"):
        assert words in text


def test_the_page_says_when_links_come_up() -> None:
    status = power_of("ray-4").status
    assert status is not None
    ups_s = [time_ns / NS_PER_S for time_ns, is_up in status.states() if is_up and time_ns]
    assert ups_s == pytest.approx([6.6, 10.7, 14.7, 18.7], abs=0.05)
    assert "comes up at 6.6, 10.7, 14.7 and 18.7 s" in " ".join(ray_page.PAGE.read_text("utf-8").split())
    status = power_of("ray-2").status
    assert status is not None
    assert status.changes_ns[0] / NS_PER_S == pytest.approx(9.8, abs=0.05)


def test_antennas_at_2_45_m_have_the_fade_that_ends_at_5_s() -> None:
    """The text of paper 002 says of scenario 1: the link is up at 5 s."""
    link = ray.Variant(1, "calibrated").link
    mobile, fixed = replace(link.mobile, height_m=2.45), replace(link.fixed, height_m=2.45)
    channel = channel_of(replace(link, mobile=mobile, fixed=fixed).ray, seed=1)
    assert channel.fades(-68).number == 4
    assert channel.fades(-68).down_share == pytest.approx(0.216, abs=0.0005)
    first, first_end, *_, up_ns, _ = status_of(channel, -68).changes_ns
    assert up_ns / NS_PER_S == pytest.approx(5.1, abs=0.05)
    short_s = (first_end - first) / NS_PER_S
    assert short_s == pytest.approx(0.04, abs=0.005)
    assert (20 * channel.fades(-68).down_share - short_s) / 3 == pytest.approx(1.43, abs=0.005)
