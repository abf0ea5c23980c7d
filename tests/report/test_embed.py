"""What is embedded stays within its budget, and rare events are the last to go."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import resources
from typing import Any

import numpy as np
import pytest

from multitracer.figures.drive_figure import drive_panels
from multitracer.figures.palette import LOOKS
from multitracer.figures.series import Series, names
from multitracer.figures.stack import BYTES, Panel
from multitracer.figures.stacked import stacked_panels
from multitracer.figures.zooms import NamedInterval
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from multitracer.report.embed import embed
from tests.conftest import SAMPLES

START_NS = 1_700_000_000_000_000_000


def random_series(label: str, points: int, *, rare: bool = False, wild: bool = False) -> Series:
    random = np.random.default_rng(points)
    times = START_NS + np.sort(random.integers(0, 10**11, points))
    most = 2**62 if wild else 2**30
    frames = random.integers(1, 2**32, points) if wild else np.arange(points)
    return Series(label, "data", times, random.integers(-most, most, points), frame=frames, rare=rare)


def embedded(*series: Series, budget_bytes: int) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return what the page holds of each series, and the texts behind the page."""
    panel = Panel("sequence", "Time / sequence", BYTES, 1, list(series))
    figure = embed([panel], [], identity="x", origin_ns=START_NS, budget_bytes=budget_bytes)
    return {packed["label"]: packed for packed in figure["series"]}, figure["lines"]


def points(packed: dict[str, Any]) -> int:
    """Return how many points of a series a page ends up with."""
    return packed.get("stored", packed)["points"]


@pytest.mark.slow
@pytest.mark.parametrize("wild", [False, True])
@pytest.mark.parametrize("budget_bytes", [200_000, 1_900_000])
def test_any_series_stay_within_the_budget_and_use_it(budget_bytes: int, *, wild: bool) -> None:
    series = [random_series(f"s{n}", n, wild=wild) for n in (300_000, 200_000, 150_001, 60_000, 3)]
    packs, lines = embedded(*series, budget_bytes=budget_bytes)
    spent = sum(len(packed["data"]) for packed in packs.values()) + sum(map(len, lines))
    assert budget_bytes / 3 < spent <= budget_bytes


def test_rare_events_are_kept_whole_beside_long_series() -> None:
    rare = random_series("rare", 9_000, rare=True)
    packs, _ = embedded(random_series("long", 800_000), rare, budget_bytes=400_000)
    assert points(packs["rare"]) == packs["rare"]["of"] == 9_000
    assert points(packs["long"]) < packs["long"]["of"] == 800_000


def test_the_rarest_events_are_kept_when_not_all_of_them_fit() -> None:
    packs, _ = embedded(*(random_series(f"r{n}", n, rare=True) for n in (19_000, 100, 18_000, 7)), budget_bytes=300_000)
    assert [points(packs[f"r{n}"]) for n in (7, 100)] == [7, 100]
    assert points(packs["r19000"]) < 19_000


def test_a_short_connection_is_embedded_whole() -> None:
    packs, lines = embedded(random_series("a", 4_000), random_series("b", 11), budget_bytes=200_000)
    assert all(packed["points"] == packed["of"] for packed in packs.values())
    assert lines == []


def test_equal_columns_are_written_once() -> None:
    one = random_series("a", 50_000)
    packs, lines = embedded(one, replace(one, label="b", value=one.value + 1_000), budget_bytes=10**7)
    assert packs["a"]["stored"]["lines"][::2] == packs["b"]["stored"]["lines"][::2] == [0, 2]
    assert len(lines) == 4


def test_places_are_in_seconds_from_the_start() -> None:
    panel = Panel("sequence", "Time / sequence", BYTES, 1, [random_series("a", 10)])
    place = NamedInterval("pause", START_NS + 10**9, START_NS + 3 * 10**9)
    figure = embed([panel], [place], identity="x", origin_ns=START_NS, budget_bytes=10_000)
    assert figure["places"] == [{"title": "Longest pause", "from": 1.0, "to": 3.0}]


def test_a_figure_without_a_point_can_be_embedded() -> None:
    figure = embed(
        [Panel("none", "Nothing", BYTES, 1, [], "Why there is nothing.")],
        [],
        identity="x",
        origin_ns=START_NS,
        budget_bytes=10_000,
    )
    assert figure["series"] == []
    assert figure["panels"][0]["empty"] == "Why there is nothing."


def test_the_legend_knows_the_shape_of_every_mark() -> None:
    script = (resources.files("multitracer.report") / "points/marks.js").read_text("utf-8")
    shapes = script.partition("const SHAPES = {")[2].partition("};")[0]
    symbols = {look.symbol for look in LOOKS.values() if look.mark == "points"}
    assert {symbol for symbol in symbols if not re.search(rf'^    "?{symbol}"?:', shapes, re.MULTILINE)} == set()


def test_a_series_is_called_in_words_and_two_alike_by_their_sides_too() -> None:
    panel = [
        Series(label, role, np.array([START_NS]), np.array([1]))
        for label, role in (
            ("TcpRcv_data", "data"), ("RlpSnd_srej", "link_request"), ("RlpRcv_srej", "link_request"),
            ("Radio_rsrp", "radio_rsrp"), ("LTE cell 1", "cell_1"), ("TcpRcv_data trend: 844 B/s", "trend"),
            ("RlpSnd_srej trend: 9 B/s", "trend_2"), ("first gauge", "event"), ("Link_queue", "event"),
        )
    ]  # fmt: skip
    assert names(panel) == [
        "arrived",
        "link frames requested, at the sender",
        "link frames requested, at the receiver",
        "RSRP",
        "LTE cell 1",
        "arrived, trend: 844 B/s",
        "link frames requested, trend: 9 B/s",
        "first gauge",
        "bytes waiting",
    ]


@pytest.mark.parametrize("session", ["typical-1450k", "rehearsed-drive", "rehearsal"])
def test_no_legend_and_no_title_has_a_name_of_code(session: str) -> None:
    """Labels such as TcpSnd_data are for options and Python; a figure says them only in tooltips."""
    recording = read(SAMPLES / session)
    panels = stacked_panels(Transfer.of(recording)) if recording.captures else drive_panels(recording.radio_context())
    words = [word for panel in panels for word in (panel.title, panel.short_title, panel.empty, *names(panel.drawn))]
    assert len(words) > 10
    assert [each for each in words if re.search(r"[a-z]_[a-z]|(Tcp|Rlp)(Snd|Rcv)|\*", each)] == []
