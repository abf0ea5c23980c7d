"""The whole figure as a picture: without a script, without a canvas, and on paper."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.figures.series import Series
from multitracer.figures.stack import BIT_RATE, BYTES, Panel
from multitracer.recording.read import read
from multitracer.report.figure_section import static_figure
from multitracer.report.write import write_report
from tests.conftest import SAMPLES
from tests.figures.traffic import START_NS
from tests.report.figure_pages import long_panels, press

if TYPE_CHECKING:
    from pathlib import Path

    from tests.report.chromium import Browser

SHOWN = "[...document.querySelectorAll('.figure :is(.still, .plot, .bar, .series)')].filter("
SHOWN += "(each) => each.checkVisibility()).map((each) => each.className)"
NO_CANVAS = "HTMLCanvasElement.prototype.getContext = () => null"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("still") / "r.html"
    write_report(read(SAMPLES / "cellular_upload"), path)
    return path


def picture(panels: list[Panel]) -> str:
    drawn = static_figure(panels, title="1: a → b", origin_ns=START_NS)
    assert drawn is not None
    return drawn


def test_all_panels_are_there_and_an_empty_one_says_why() -> None:
    drawn = picture(long_panels())
    assert drawn.count('class="culprit panel"') == 2
    assert "Nothing to see, because this is a test." in drawn


def test_a_long_transfer_costs_no_more_than_its_pixels() -> None:
    """400,000 points a series; two of them fill every column, and 900 single events are all there."""
    drawn = picture(long_panels())
    assert len(drawn) < 150_000
    events = max(each.count("M") for each in re.findall(r'd="((?:M\d+ \d+h\.1)+)"', drawn))
    assert events > 550, "of 900 those that do not share a pixel"


@pytest.mark.parametrize("origin_ns", [0, 1_795_371_780_514_198_122])
def test_a_line_reaches_the_last_point(origin_ns: int) -> None:
    """A double holds stamps of today to 256 ns: the last point was left out, and a line of two with it."""
    times = origin_ns + np.array([0, 8_912_345_677], dtype=np.int64)
    line = Series("the link's rate", "capacity", times, np.full(2, 1_000_000), bound=True)
    panels = [Panel("throughput", "Throughput", BIT_RATE, 1, [line])]
    drawn = static_figure(panels, title="1: a → b", origin_ns=origin_ns)
    assert drawn is not None
    assert re.search(r'd="M0 \d+h1000"', drawn)


def test_names_of_hosts_are_text_and_extreme_times_are_drawn() -> None:
    times = np.array([-(2**63) + 1, 2**63 - 1], dtype=np.int64)
    series = Series("<script>", "data", times, np.array([0, 9]))
    panels = [Panel("sequence", "<b>", BYTES, 1, [series])]
    drawn = static_figure(panels, title="<script>alert(1)</script>", origin_ns=0)
    assert drawn is not None
    assert "<script" not in drawn
    assert "<b><b>" not in drawn


def test_without_a_point_there_is_no_picture() -> None:
    empty = [Panel("sequence", "Time / sequence", BYTES, 3, [], "Nothing was captured.")]
    assert static_figure(empty, title="none", origin_ns=START_NS) is None


@pytest.mark.browser
def test_a_browser_without_scripts_shows_the_picture_and_why(browser: Browser, page: Path) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(page)
        browser.evaluate("document.querySelector('#figure').open = true")
        assert browser.evaluate(SHOWN) == ["still"]
        said = browser.evaluate("document.querySelector('.still figcaption').textContent")
        assert "A browser that runs JavaScript" in said
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.browser
def test_a_browser_without_a_canvas_shows_the_picture(browser: Browser, page: Path) -> None:
    early = browser.call("Page.addScriptToEvaluateOnNewDocument", source=NO_CANVAS)
    try:
        browser.open(page)
        press(browser, "#figure summary")
        assert browser.evaluate(SHOWN) == ["still"]
        assert browser.complaints == []
    finally:
        browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=early["identifier"])


@pytest.mark.browser
def test_paper_has_the_picture_and_a_screen_the_canvas(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.evaluate("window.report.then(() => true)")
    press(browser, "#figure summary")
    assert set(browser.evaluate(SHOWN)) == {"bar", "places bar", "plot", "series"}
    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        assert browser.evaluate(SHOWN) in (["still"], ["series", "still"])
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")
