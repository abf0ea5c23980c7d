"""cross_layer.md: its numbers are those of the kept runs, which anybody makes again; shapes hold."""

from __future__ import annotations

import pytest

from docs.papers.programs import cross_layer_nmi
from docs.papers.programs.cross_layer import COLUMNS, Point, kept, points_of, run_at
from docs.papers.programs.cross_layer_page import PAGE, PICTURES, parts, runs_of
from docs.papers.programs.cross_layer_plan import OFTEN_S, SACK, SWEEPS, base
from docs.papers.programs.cross_layer_shapes import SHAPES, Shape
from docs.papers.programs.page_part import read_part
from docs.papers.programs.studies_page import IMAGES
from multitracer.lab.channel.cdma2000_radio import Cdma2000Config

TEXT = PAGE.read_text("utf-8")
_LARGEST_PICTURE = 150_000
COMES_BACK = {
    "window",
    "coupled",
    "cost",
    "handoffs",
    "losses",
    "flatten",
    "radio",
    "control",
    "learnt",
    "share",
    "gap",
    "speed",
    "ecio",
    "rtt",
    "throughput",
}
"""Shapes of paper 003 that our runs have; docs/papers/cross_layer.md says why the others do not come back."""


@pytest.mark.parametrize("name", list(parts()))
def test_each_generated_part_is_what_the_runs_say(name: str) -> None:
    assert read_part(PAGE, name) == parts()[name](), "run: python -m docs.papers.programs.cross_layer tables"


@pytest.mark.parametrize("name", list(SWEEPS))
def test_each_point_of_a_sweep_has_every_seed_once(name: str) -> None:
    points = [Point(row["arm"], float(row["value"]), int(row["seed"])) for row in kept(name)]
    assert points == list(points_of(SWEEPS[name]))
    assert tuple(kept(name)[0]) == COLUMNS


@pytest.mark.parametrize("name", list(PICTURES))
def test_the_pictures_are_on_the_page(name: str) -> None:
    picture = IMAGES / f"cross_layer_{name}.png"
    assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert picture.stat().st_size < _LARGEST_PICTURE
    assert f"images/{picture.name}" in TEXT


@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("window", Point(SACK, 16, 2)),
        ("window", Point("mean rate", 16, 2)),
        ("window", Point("mean rate with RLP", 128, 1)),
        ("options", Point("Linux: SACK and timestamps", 64, 1)),
        ("pauses", Point(f"{SACK}, a pause every {OFTEN_S:g} s", 8, 1)),
        ("load", Point(SACK, 2, 1)),
        ("speed", Point(SACK, 60, 1)),
        ("ecio", Point(SACK, -2, 1)),
        ("rules", Point(f"{SACK}, asked from 12,000 bytes on", 16, 1)),
        ("coupled", Point(SACK, 128, 1)),
        ("highway", Point("handoffs of 2 s", 75, 1)),
    ],
)
def test_a_run_of_now_is_the_kept_one(name: str, point: Point) -> None:
    rows = {Point(row["arm"], float(row["value"]), int(row["seed"])): row for row in kept(name)}
    now = run_at(SWEEPS[name], point, rows)
    assert {key: "" if value is None else str(value) for key, value in now.items()} == rows[point]


def test_the_mutual_information_of_runs_of_now_is_the_kept_one() -> None:
    known = [row for row in cross_layer_nmi.kept() if row["window_kb"] == "64"]
    now = [
        {"x": pair.name, "y": pair.y, "lag_s": f"{result.peak_lag_s:g}", "nmi": f"{result.peak_nmi:.4g}"}
        for pair, result in cross_layer_nmi.pairs_of(64)
    ]
    assert now == [{name: row[name] for name in ("x", "y", "lag_s", "nmi")} for row in known]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_shape_of_the_paper_comes_back_or_the_page_says_why_not(shape: Shape) -> None:
    does, words = shape.judge(runs_of)
    assert does == (shape.name in COMES_BACK), words


def test_one_connection_has_no_gap() -> None:
    alone = runs_of("load")[f"{SACK} 1"]
    assert {(run["gap_percent"], run["jain"]) for run in alone} == {("", "")}


def test_the_download_is_the_papers() -> None:
    scenario = base()
    assert scenario.fixed.sack
    assert not scenario.fixed.timestamps
    assert scenario.mobile.receive_buffer_bytes == 64 * 1024
    assert isinstance(scenario.link, Cdma2000Config)
    assert 25_000 <= scenario.link.buffer_bytes <= 35_000
