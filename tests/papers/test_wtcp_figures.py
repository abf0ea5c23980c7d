"""The shapes of paper 001's figures: who delivers more, by about what factor, and how evenly flows share.

The bounds are wide: they hold what the paper concludes, not our numbers. docs/papers/data/wtcp has those.
"""

from __future__ import annotations

import csv
from functools import cache
from statistics import median
from typing import TYPE_CHECKING

import pytest

from docs.papers.programs import wtcp_loss
from docs.papers.programs.wtcp import FIGURES, FOLDER, PAGE, SEEDS, TRANSPORTS, Traced, figure_row, table
from docs.papers.programs.wtcp_pictures import IMAGES, PICTURES, draw
from multitracer.errors import InputError
from multitracer.lab.scenario.library import load_scenario
from tests.cli.program import call

if TYPE_CHECKING:
    from pathlib import Path

Row = dict[str, str]


@cache
def kept() -> dict[tuple[str, str], Row]:
    """Return the lines of docs/papers/data/wtcp/figures.csv by figure and transport."""
    with (FOLDER / "figures.csv").open(encoding="utf-8", newline="") as stream:
        return {(row["figure"], row["transport"]): row for row in csv.DictReader(stream)}


def gain(figure: str, other: str) -> float:
    """Return how many times as many packets WTCP delivers, in the median."""
    ours, theirs = (float(kept()[figure, name]["packets_median"]) for name in ("wtcp", other))
    return ours / theirs


def test_every_figure_has_all_transports_and_seeds() -> None:
    assert set(kept()) == {(figure, transport) for figure in FIGURES for transport in TRANSPORTS}
    assert {row["seeds"] for row in kept().values()} == {str(SEEDS)}
    for row in kept().values():
        minimum, middle, most = (float(row[f"packets_{name}"]) for name in ("least", "median", "most"))
        assert 0 < minimum <= middle <= most


def test_the_page_has_the_kept_numbers() -> None:
    assert table(kept().values()) in PAGE.read_text("utf-8")


def test_a_run_of_now_lies_within_the_kept_range() -> None:
    now = figure_row("3b", "newreno", list(Traced("3b", "newreno", 7).rows()))
    row = kept()["3b", "newreno"]
    assert float(row["packets_least"]) <= now["packets_median"] <= float(row["packets_most"])


@pytest.mark.parametrize("other", ["newreno", "vegas"])
def test_random_losses_cost_tcp_much_and_wtcp_little(other: str) -> None:
    """Figures 3 and 4: "about 200 % improvement" at 50 kb/s and 6 %, less at 19.2 kb/s, none at 0 %."""
    assert gain("3b", other) > 2.5
    assert 1.3 < gain("3a", other) < gain("3b", other)
    assert 0.9 < gain("4a", other) < 1.1
    assert gain("4a", other) < gain("4b", other) < gain("3b", other)


def test_wtcp_uses_nearly_all_of_the_channel_whatever_is_lost() -> None:
    most = float(kept()["4a", "newreno"]["packets_median"])
    for figure in ("3b", "4a", "4b"):
        assert float(kept()[figure, "wtcp"]["packets_median"]) > 0.8 * most


def test_blackouts_do_not_make_wtcp_wait_for_a_timer() -> None:
    """Figure 1: TCP took 134 s on a real channel; here it backs off and takes longer than WTCP."""
    ended_s = {name: float(kept()["1", name]["ended_s_median"]) for name in TRANSPORTS}
    assert 120 < ended_s["wtcp"] < min(ended_s["newreno"], ended_s["vegas"])


def test_flows_of_wtcp_share_evenly_in_the_end() -> None:
    assert float(kept()["5", "wtcp"]["late_jain_median"]) > 0.95
    assert float(kept()["6", "wtcp"]["late_jain_median"]) > 0.75


def test_a_scenario_runs_over_another_transport_by_option(tmp_path: Path) -> None:
    shown = call("testbed", "run", "wtcp-fig1", "--virtual", "--transport", "vegas", "-o", tmp_path / "a")
    assert "rlp_retransmissions" in shown.stdout
    toml = tmp_path / "a" / "scenario.toml"
    assert toml.read_text("utf-8").endswith("\n# repeat it with --transport vegas\n")
    call("testbed", "run", toml, "--virtual", "--as-linux", "-o", tmp_path / "again")
    lines = (tmp_path / "again" / "scenario.toml").read_text("utf-8").splitlines()
    assert [line for line in lines if line.startswith("# repeat")] == ["# repeat it with --as-linux"]
    with pytest.raises(InputError, match=r"wtcp-fig1: \"transport\" must be one of tcp, "):
        load_scenario("wtcp-fig1").with_transport("quic")
    refused = call("testbed", "run", "wtcp-fig1", "--transport", "vegas", "-o", tmp_path / "b", status=2)
    assert "--transport needs --virtual" in refused.stderr


def lost() -> list[Row]:
    """Return the lines of docs/papers/data/wtcp/loss.csv."""
    with (FOLDER / "loss.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_five_percent_loss_costs_newreno_half_or_more_and_wtcp_a_tenth() -> None:
    """Paper 001: "packet losses of 5 % cost TCP 66 %"."""
    assert wtcp_loss.table(lost()) in PAGE.read_text("utf-8")
    rows = lost()
    assert {int(row["seed"]) for row in rows} == set(range(1, SEEDS + 1))

    def packets(link: str, transport: str, loss: str) -> float:
        wanted = (link, transport, loss)
        each = [row for row in rows if (row["link"], row["transport"], row["loss"]) == wanted]
        return median(int(row["delivered_packets"]) for row in each)

    for link in wtcp_loss.LINKS:
        costs = {name: 1 - packets(link, name, "0.05") / packets(link, name, "0.0") for name in wtcp_loss.TRANSPORTS}
        assert 0.4 < costs["newreno"] < 0.85
        assert costs["wtcp"] < 0.15


def test_a_run_with_loss_of_now_is_the_kept_one() -> None:
    row = next(r for r in lost() if (r["link"], r["transport"], r["loss"]) == ("50 kb/s", "newreno", "0.05"))
    now = wtcp_loss.delivered("50 kb/s", "newreno", wtcp_loss.LOSS, int(row["seed"]))
    assert now == int(row["delivered_packets"])


def test_the_page_shows_every_picture_and_how_one_is_drawn() -> None:
    page = PAGE.read_text("utf-8")
    for picture in PICTURES:
        assert f"](images/{picture.name}.png)" in page
        assert (IMAGES / f"{picture.name}.png").read_bytes()[:4] == b"\x89PNG"
    (shown,) = (picture for picture in PICTURES if picture.figure == "3b")
    assert shown.shown() in page


def test_a_picture_is_drawn_by_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    picture = next(picture for picture in PICTURES if picture.figure == "6")
    draw(picture)
    text = (tmp_path / f"{picture.name}.html").read_text("utf-8")
    assert all(f"mobile-{number}:1025" in text for number in (1, 2, 3))
