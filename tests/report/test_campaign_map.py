"""The map of a campaign in a browser: it draws every quantity, over hexagons and over squares by heading."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from multitracer.campaign.report.write import write_campaign_report
from tests.campaign.synthetic import make_catalogue
from tests.report.axe import serious_findings

if TYPE_CHECKING:
    from pathlib import Path

    from tests.report.chromium import Browser

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    campaign = make_catalogue(folder / "drives", 6_000, length_s=150)
    return write_campaign_report(campaign, folder / "report").page


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_the_map_draws_each_quantity_in_both_forms(page: Path, browser: Browser, width: int, height: int) -> None:
    browser.resize(width, height)
    browser.open(page)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    seen = set()
    for level in (0, 1):
        for quantity in range(browser.evaluate("document.querySelectorAll('.map select')[1].length")):
            browser.evaluate(
                f"document.querySelectorAll('.map select')[0].value = {level};"
                f"document.querySelectorAll('.map select')[1].value = {quantity};"
                "window.campaignMap.choose()"
            )
            browser.evaluate("new Promise(requestAnimationFrame)")
            seen.add(browser.evaluate("document.querySelector('.map canvas').toDataURL()"))
    assert len(seen) == 18, "two forms of nine quantities: no two look alike"
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith("file:")] == []


def test_axe_finds_nothing_serious_on_a_campaign(page: Path, browser: Browser) -> None:
    """A column without a name had a button without one."""
    browser.open(page)
    assert serious_findings(browser) == []


def test_tables_fit_on_paper(page: Path, browser: Browser) -> None:
    """The last columns of the worst stretches were cut off, and each row as high as the command in it."""
    browser.resize(718, 1000)  # 190 mm
    browser.open(page)
    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        widths = browser.evaluate(
            "[...document.querySelectorAll('table')].map((t) => [t.scrollWidth, t.parentElement.clientWidth])"
        )
        heights = browser.evaluate("[...document.querySelectorAll('td details')].map((d) => d.clientHeight)")
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")
    assert len(widths) > 5
    assert [(width, room) for width, room in widths if width > room] == []
    assert set(heights) == {0}


def test_a_phone_shows_findings_and_stretches_as_cards(page: Path, browser: Browser) -> None:
    browser.resize(390, 844, mobile=True)
    browser.open(page)
    widths = browser.evaluate("[...document.querySelectorAll('table.cards tbody tr')].map((row) => row.scrollWidth)")
    assert len(widths) > 5
    assert max(widths) < 390
    assert browser.evaluate("document.querySelector('table.cards td[data-name=Cost]').textContent")


def test_a_cell_tells_its_value_and_heading(page: Path, browser: Browser) -> None:
    browser.open(page)
    browser.evaluate("document.querySelectorAll('.map select')[0].value = 1; window.campaignMap.choose()")
    words = browser.evaluate("window.campaignMap.words(0)")
    assert re.fullmatch(r"\d+\.\d{5}, \d+\.\d{5}, (heading [NESW]+|standing): Bad time .*; \d+ s of .*", words)
