"""The page that `plot` writes, in a real browser."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from multitracer.lab.scenario.library import load_scenario
from multitracer.report.plot_page import plotly_js
from tests.cli.program import call
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.shared_runs import SharedRuns
    from tests.report.chromium import Browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, shared_runs: SharedRuns) -> Path:
    recorded = shared_runs.session(load_scenario("fig12-flow-control")).folder
    return shutil.copytree(recorded, tmp_path_factory.mktemp("call") / "<b>call")


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1400])
def test_the_page_draws_under_its_own_policy(folder: Path, tmp_path: Path, browser: Browser, width: int) -> None:
    call("plot", folder, "-o", tmp_path / "f.html", "--mark", "<i>zoom=0:10")
    browser.resize(width, 844)
    browser.open(tmp_path / "f.html")
    browser.evaluate("window.plot.then(() => true)")
    assert browser.evaluate("document.title").startswith("fig12-flow-control: 10.64.0.1:")
    assert "Content-Security-Policy" in (tmp_path / "f.html").read_text()
    assert browser.evaluate("document.querySelectorAll('.scatterlayer .trace').length") > 15
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
    buttons = browser.evaluate("[...document.querySelectorAll('.modebar-btn')].map((b) => b.dataset.title)")
    assert any("Download" in title for title in buttons)
    assert not [title for title in buttons if "Share" in title], "a field's data leave by no single click"
    plot_share = "document.querySelector('.nsewdrag').getBoundingClientRect().width / innerWidth"
    assert browser.evaluate(plot_share) > 0.6, "the legend leaves the panels room"
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith(("file:", "blob:", "data:"))] == []
    drawn = "document.querySelector('.main-svg').getBoundingClientRect().width"
    on_screen = browser.evaluate(drawn)
    browser.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert browser.evaluate(drawn) == 680, "paper cuts off nothing"
    browser.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert browser.evaluate(drawn) == on_screen
    ran = "new Promise((no) => { const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
    assert browser.evaluate(f"{ran} document.body.append(s); no(window.ran ?? 0); }})") == 0


@pytest.mark.browser
def test_a_screen_that_turns_shows_the_buttons_of_its_width_alone(
    folder: Path, tmp_path: Path, browser: Browser
) -> None:
    """The menu of the narrow screen lay over the buttons of the wide one."""
    call("plot", folder, "-o", tmp_path / "f.html")
    browser.resize(390, 844)
    browser.open(tmp_path / "f.html")
    wide, narrow = (f"document.querySelectorAll('.updatemenu-{each}').length" for each in ("button", "header"))
    for width, drawn, gone in ((390, narrow, wide), (1280, wide, narrow), (390, narrow, wide)):
        browser.resize(width, 844)
        browser.wait(f"window.plot.then(() => {drawn} > 0 && {gone} === 0)")
    assert browser.complaints == []


@pytest.mark.browser
def test_on_a_phone_no_words_are_cut_or_below_the_buttons(tmp_path: Path, browser: Browser) -> None:
    call("plot", "--axis", "distance", SAMPLES / "rehearsal", "-o", tmp_path / "route.html")
    call("plot", SAMPLES / "load" / "lo.pcap.gz", "-o", tmp_path / "receiver.html")
    browser.resize(390, 844)
    for page in ("route", "receiver"):
        browser.open(tmp_path / f"{page}.html")
        browser.evaluate("window.plot.then(() => true)")
        left, right, top, buttons = browser.evaluate(
            "(() => {const of = (q) => [...document.querySelectorAll(q)].map(e => e.getBoundingClientRect());"
            " const said = of('.annotation-text, .xtitle, .ytick text');"
            " return [Math.min(...said.map((b) => b.left)), Math.max(...said.map((b) => b.right)),"
            " Math.min(...said.map((b) => b.top)), of('.modebar')[0].bottom]})()"
        )
        assert left >= 0
        assert right <= 390
        assert top >= buttons


def test_plotly_is_never_imported_for_its_javascript() -> None:
    assert plotly_js().count("</script") == 0
    assert len(plotly_js()) > 1_000_000
