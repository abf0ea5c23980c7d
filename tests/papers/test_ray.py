"""docs/papers/ray.md shows what its files hold, and these what the programs do today."""

from __future__ import annotations

import pytest

from docs.papers.programs import ray, ray_page
from multitracer.lab.scenario.radio import power_of


@pytest.mark.parametrize("name", ray_page.TABLES)
def test_the_tables_are_those_of_the_files(name: str) -> None:
    assert ray_page.written(name) == ray_page.TABLES[name](), "run python -m docs.papers.programs.ray table"


@pytest.mark.parametrize("variant", ray.VARIANTS, ids=str)
def test_fades_are_those_of_the_channel(variant: ray.Variant) -> None:
    facts = ray.fades(variant, 1)
    kept = {(line["scenario"], line["variant"], line["seed"]): line for line in ray_page.lines_of(ray_page.CHANNEL)}
    line = kept[str(variant.number), variant.name, "1"]
    assert line == {key: "" if value is None else str(value) for key, value in facts.items()}


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
    assert line == {key: str(value) for key, value in ours.items()}


def test_our_own_reckoning_holds() -> None:
    """The numbers that were reckoned before the models were built, in the issue that asked for them."""
    stated = {variant.number: ray.fades(variant, 1) for variant in ray.VARIANTS if variant.name == "stated"}
    calibrated = {variant.number: ray.fades(variant, 1) for variant in ray.VARIANTS if variant.name != "stated"}

    def numbers(facts: ray.Row) -> tuple[float, int, float]:
        return facts["down_percent"], facts["fades"], facts["fade_s"]

    assert numbers(stated[1]) == pytest.approx((16.1, 2, 1.61), abs=0.05)
    lower = power_of("ray-1", threshold_dbm=-74).fades
    assert lower is not None
    assert (100 * lower.down_share, lower.number, lower.mean_s) == pytest.approx((21.5, 2, 2.15), abs=0.05)
    assert numbers(stated[2]) == pytest.approx((9.4, 4, 0.47), abs=0.05)
    assert numbers(calibrated[5]) == pytest.approx((45.2, 49, 0.18), abs=0.3)


def test_all_transports_meet_the_same_twenty_seeds() -> None:
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

    assert [better("3", first) for first in ("8", "16", "32")] == [20, 20, 20]
    assert max(better("4", first) for first in ("8", "16")) == 2


def test_the_page_says_the_numbers_of_the_paper() -> None:
    assert ray_page.PAPER["4"] == (45, 4, 2.2, 116, 183, 107)
    text = ray_page.PAGE.read_text("utf-8")
    for words in ("likely a misprint", "when_down", "146 m", "Nothing gives 50 fades"):
        assert words in text
