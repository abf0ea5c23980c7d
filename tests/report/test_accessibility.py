"""Reports for people who use a keyboard, a screen reader, or paper."""

from __future__ import annotations

import base64
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from multitracer import compare
from multitracer.recording.read import read
from multitracer.report.write import write_report
from tests.conftest import SAMPLES
from tests.report.axe import serious_findings
from tests.report.test_route_map import mounted, page, pressed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.report.chromium import Browser

__all__ = ["page"]

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory, sample_session: Path) -> Path:
    """The report of a session with captures."""
    path = tmp_path_factory.mktemp("captured") / "report.html"
    write_report(read(sample_session), path)
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_serious_on_a_drive(browser: Browser, page: Path, width: int, scheme: str) -> None:
    browser.resize(width, 900)
    browser.prefer(scheme)
    assert serious_findings(mounted(browser, page)) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_a_capture(browser: Browser, captured: Path, scheme: str) -> None:
    browser.prefer(scheme)
    browser.open(captured)
    browser.evaluate("window.report.then(() => true)")
    assert serious_findings(browser) == []


def test_axe_sees_a_fault(browser: Browser, page: Path) -> None:
    mounted(browser, page)
    browser.evaluate("(() => {const s = document.querySelector('.map select'); s.closest('label').replaceWith(s)})()")
    assert [each["rule"] for each in serious_findings(browser)] == ["select-name"]


def press(browser: Browser, key: str, text: str = "") -> None:
    code = {"Tab": 9, "Enter": 13, " ": 32}.get(key, 0)
    facts: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": code}
    browser.call("Input.dispatchKeyEvent", type="keyDown", text=text, **facts)
    browser.call("Input.dispatchKeyEvent", type="keyUp", **facts)


def test_the_map_is_reached_and_used_by_real_keys(browser: Browser, page: Path) -> None:
    """From the choice of the quantity on, Tab leads over boxes and buttons to the canvas, and past it."""
    mounted(browser, page)
    browser.evaluate("document.querySelector('.map select').focus()")
    visited = []
    for _ in range(12):
        press(browser, "Tab")
        visited.append(browser.evaluate("document.activeElement.dataset.map ?? document.activeElement.tagName"))
        if visited[-1] == "CANVAS":
            break
    assert visited[-4:] == ["in", "out", "whole", "CANVAS"]
    assert browser.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    press(browser, "+", "+")
    press(browser, ".", ".")
    assert browser.evaluate("window.routeMap.cursor()") == 0
    assert browser.evaluate("document.querySelector('.map .status').innerText").startswith("0:00.0")  # it is visible
    press(browser, "Tab")
    assert browser.evaluate("document.activeElement.tagName") != "CANVAS"


def test_the_canvas_has_a_name_and_its_words_are_announced(browser: Browser, page: Path) -> None:
    mounted(browser, page)
    assert browser.evaluate("document.querySelector('.map canvas').ariaLabel").startswith("Map of the route")
    assert browser.evaluate("document.querySelector('.map .status').getAttribute('role')") == "status"


COLOURS = (
    "(() => {const c = document.querySelector('.map canvas');"
    " const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; const seen = new Set();"
    " for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255)"
    " seen.add('#' + [d[i], d[i + 1], d[i + 2]].map((n) => n.toString(16).padStart(2, '0')).join(''));"
    " return [...seen]})()"
)


def test_paper_shows_the_map_in_light_colours(browser: Browser, page: Path) -> None:
    browser.prefer("dark")
    mounted(browser, page)
    dark = browser.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()")
    browser.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    light = browser.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()")
    seen = browser.evaluate(COLOURS)
    assert light != dark
    assert light in seen
    assert dark not in seen
    assert {"#91bfdb", "#e0f3f8"} & set(seen)
    browser.evaluate("window.dispatchEvent(new Event('afterprint'))")


def test_the_printed_page_holds_the_map_and_its_key_but_no_buttons(browser: Browser, page: Path) -> None:
    mounted(browser, page)
    complete = len(base64.b64decode(browser.call("Page.printToPDF", printBackground=False)["data"]))
    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        shown = "(s) => document.querySelector(s).getBoundingClientRect().height > 0"
        assert browser.evaluate(f"({shown})('.map canvas')")
        assert browser.evaluate(f"({shown})('.map .classes')")
        assert not browser.evaluate(f"({shown})('.map .bar')")
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")
    browser.evaluate("document.querySelector('.map canvas').remove()")
    without = len(base64.b64decode(browser.call("Page.printToPDF", printBackground=False)["data"]))
    assert complete > without


def test_without_scripts_the_still_picture_takes_the_place_of_the_map(browser: Browser, page: Path) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(page)
        height = "document.querySelector('{}').getBoundingClientRect().height"
        assert browser.evaluate(height.format(".map .still")) > 200
        assert browser.evaluate(height.format(".map canvas")) == 0
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def test_long_paths_do_not_widen_a_phone(browser: Browser, tmp_path: Path) -> None:
    folder = tmp_path / ("a_drive_" * 12)
    shutil.copytree(SAMPLES / "rehearsal", folder)
    path = tmp_path / "report.html"
    write_report(read(folder), path)
    browser.resize(390, 844, mobile=True)
    browser.open(path)
    browser.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    assert browser.evaluate("document.documentElement.scrollWidth") == 390


def test_the_tables_of_a_comparison_fit_on_paper(browser: Browser, tmp_path: Path) -> None:
    """The interval and whether it is shown were cut off."""
    path = tmp_path / "compared.html"
    compare(SAMPLES / "download", SAMPLES / "sack-modern").report(path)
    browser.open(path)
    assert serious_findings(browser) == []
    browser.resize(718, 1000)  # 190 mm
    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        wide, room = browser.evaluate(
            "((t) => [t.scrollWidth, t.parentElement.clientWidth])(document.querySelector('table'))"
        )
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")
    assert wide <= room


SHAPE = (
    "(() => {const c = document.querySelector('.map canvas'); const b = c.getBoundingClientRect();"
    " return [c.width / c.height, b.width / b.height, b.width]})()"
)


@pytest.mark.parametrize("width", [1280, 390])
def test_on_paper_north_and_east_have_one_scale(browser: Browser, page: Path, width: int) -> None:
    """The canvas is drawn anew for the size of paper, not stretched; the screen then shows what it did."""
    browser.resize(width, 900)
    mounted(browser, page)
    pressed(browser, "+")
    before = browser.evaluate("window.routeMap.place()")
    browser.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    drawn, shown, wide = browser.evaluate(SHAPE)
    on_paper = browser.evaluate("window.routeMap.place()")
    browser.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert drawn == pytest.approx(shown, rel=0.01)
    assert wide == 680
    assert (on_paper["x"], on_paper["y"]) == (before["x"], before["y"])
    assert browser.evaluate("window.routeMap.place()") == before
    drawn, shown, wide = browser.evaluate(SHAPE)
    assert drawn == pytest.approx(shown, rel=0.01)
    assert wide != 680
