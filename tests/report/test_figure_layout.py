"""Where the parts of a figure lie on a phone, a tablet and a desk: titles, notes, panels, legend and evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from multitracer.diagnosis.rules import RULES
from multitracer.figures.drive_figure import drive_panels
from multitracer.figures.stacked import stacked_panels
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from multitracer.report.drive_section import EVIDENCE_PANELS
from multitracer.report.primary_cause import evidence_panels
from multitracer.report.write import write_report
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.report.chromium import Browser

pytestmark = pytest.mark.browser

WIDTHS = pytest.mark.parametrize("width", [390, 768, 1280])
LEAST_PX = 90
WORDS = """[...document.querySelectorAll('.plot .words > *')].map((each) => {
  const plot = document.querySelector('.plot').getBoundingClientRect();
  const range = document.createRange();
  range.selectNodeContents(each);
  const {left, right, top, bottom} = range.getBoundingClientRect();
  return {words: each.textContent, kind: each.className, left: left - plot.left, right: right - plot.left,
          top: top - plot.top, bottom: bottom - plot.top, over: plot.width - right + plot.left};
})"""
PANELS = """window.report.then((s) => s.plot.panels().map(({panel, box, parts}) =>
  ({key: panel.key, shades: panel.shades, points: parts.length, ...box, bottom: box.top + box.height})))"""


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a drive, whose first figure has twelve panels."""
    path = tmp_path_factory.mktemp("drive") / "report.html"
    write_report(read(SAMPLES / "rehearsed-drive"), path)
    return path


def shown(browser: Browser, page: Path, width: int) -> Browser:
    browser.resize(width, 844)
    browser.open("about:blank")
    browser.open(page)
    browser.evaluate("window.report.then(() => {document.getElementById('figure').open = true})")
    browser.wait("document.querySelector('.plot canvas').width > 300")
    browser.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return browser


def pressed_show(browser: Browser, kind: str) -> str:
    """Press "Show" in the first row of this kind, and return the sentence of the row."""
    row = (
        "[...document.querySelectorAll('.findings li')].find("
        f"(each) => each.querySelector('strong').textContent === '{kind}')"
    )
    return str(browser.evaluate(f"(() => {{const row = {row}; row.querySelector('button[data-show]').click();"
                                " return row.querySelector('p').textContent})()"))  # fmt: skip


@WIDTHS
def test_no_word_is_cut_and_none_lies_on_data(browser: Browser, drive: Path, width: int) -> None:
    shown(browser, drive, width)
    words, panels = browser.evaluate(WORDS), browser.evaluate(PANELS)
    assert len([each for each in words if each["kind"] == "title"]) == len(panels) > 10
    for each in words:
        assert each["left"] >= 0
        assert each["over"] >= 0, each["words"]
        assert not [p["key"] for p in panels if each["top"] + 1 < p["bottom"] and each["bottom"] - 1 > p["top"]]
    for one, other in ((a, b) for a in words for b in words if a is not b):
        beside = one["right"] <= other["left"] or other["right"] <= one["left"]
        assert beside or one["bottom"] - 2 <= other["top"] or other["bottom"] - 2 <= one["top"], (one, other)


@WIDTHS
def test_no_panel_is_squeezed(browser: Browser, drive: Path, width: int) -> None:
    shown(browser, drive, width)
    panels = browser.evaluate(PANELS)
    assert min(each["height"] for each in panels if not each["shades"]) >= LEAST_PX
    plot = browser.evaluate("document.querySelector('.plot').getBoundingClientRect().height")
    assert panels[-1]["bottom"] < plot - 30, "the times stand below"


@pytest.mark.parametrize("width", [768, 1280])
def test_one_legend_stands_beside_the_panels_and_folds(browser: Browser, drive: Path, width: int) -> None:
    shown(browser, drive, width)
    places = "['.plot', '.series'].map((each) => document.querySelector(each).getBoundingClientRect().toJSON())"
    browser.evaluate("document.querySelector('.series').open = true; undefined")
    plot, legend = browser.evaluate(places)
    assert legend["left"] >= plot["right"]
    assert browser.evaluate("document.querySelectorAll('.legend').length") == 1
    browser.evaluate("document.querySelector('.series').open = false; undefined")
    wider, folded = browser.evaluate(places)
    assert wider["width"] > plot["width"] + 100
    assert folded["left"] >= wider["right"]
    names = browser.evaluate("[...document.querySelectorAll('.legend button')].map((each) => each.textContent)")
    assert not [each for each in names if "_" in each]
    assert browser.evaluate("document.querySelector('.legend button').title").strip()


@WIDTHS
def test_show_puts_the_panel_with_the_evidence_first_and_in_view(browser: Browser, drive: Path, width: int) -> None:
    shown(browser, drive, width)
    usual = [each["key"] for each in browser.evaluate(PANELS)]
    for kind, key in (("congestion-loss", "sequence"), ("handover", "cell"), ("blackout", "sequence")):
        browser.evaluate("document.querySelector('.series').open = true; undefined")
        sentence = pressed_show(browser, kind)
        panels: list[dict[str, Any]] = browser.evaluate(PANELS)
        assert [panels[0]["key"], *sorted(each["key"] for each in panels[1:])] == [key, *sorted({*usual} - {key})]
        assert browser.evaluate("document.querySelector('.evidence').innerText") == f"{kind}: {sentence}"
        top = browser.evaluate("document.querySelector('.plot').getBoundingClientRect().top")
        assert 0 <= top < top + panels[0]["bottom"] <= 844
    browser.evaluate("document.querySelector('[data-action=whole]').click()")
    assert [each["key"] for each in browser.evaluate(PANELS)] == usual
    assert browser.evaluate("document.querySelector('.evidence').hidden") is True


def test_every_kind_of_finding_has_panels_that_there_are() -> None:
    keys = {panel.key for panel in stacked_panels(Transfer.of(read(SAMPLES / "rehearsed-drive")))} | {"one_way"}
    keys |= {panel.key for panel in drive_panels(read(SAMPLES / "rehearsal").radio_context())} | {"radio_rate"}
    asked = [*(evidence_panels(rule.KIND) for rule in RULES), *EVIDENCE_PANELS.values()]
    assert len(asked) > 40
    assert {key for each in asked for key in each.split()} - keys == set()
