"""One cursor and one window of time: the rows of the first screen, the panels, the tables and the map."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from multitracer.recording.read import read
from multitracer.report.write import write_report
from tests.conftest import SAMPLES
from tests.report.figure_pages import view
from tests.report.test_static_figure import NO_CANVAS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.report.chromium import Browser

pytestmark = pytest.mark.browser
LAYER = "document.querySelector('.over div').getBoundingClientRect()"


@pytest.fixture(scope="module")
def upload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("linked") / "r.html"
    write_report(read(SAMPLES / "cellular_upload"), path)
    return path


@pytest.fixture
def page(browser: Browser, upload: Path) -> Browser:
    browser.open("about:blank")
    browser.open(upload)
    browser.wait("window.report")
    browser.evaluate("window.report.then(() => true)")
    return browser


def mouse(browser: Browser, kind: str, x: float, y: float) -> None:
    browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)


def place(browser: Browser, share: float) -> tuple[float, float]:
    """Return where in the window a share of the time of the first screen is, on the row of the limit."""
    box = browser.evaluate(f"{LAYER}.toJSON()")
    return box["x"] + share * box["width"], box["y"] + 10


def left_of(browser: Browser, selector: str) -> float:
    return browser.evaluate(f"document.querySelector('{selector}').getBoundingClientRect().left")


def test_the_address_of_a_section_is_not_replaced_by_a_window_from_before_it(page: Browser) -> None:
    page.evaluate("Timeline.zoom(1, 2), (location.hash = 'connections')")
    page.evaluate("new Promise((done) => setTimeout(done, 1500))")  # the window is remembered when the browser is idle
    assert page.evaluate("location.hash") == "#connections"
    page.evaluate("Timeline.zoom(2, 3)")
    page.wait("location.hash.startsWith('#from=2')")


def test_a_drag_over_the_rows_zooms_the_figure(page: Browser) -> None:
    begin, end = page.evaluate("Object.values(document.querySelector('.tracks').dataset).map(Number)")
    x, y = place(page, 0.5)
    mouse(page, "mousePressed", x, y)
    mouse(page, "mouseMoved", place(page, 0.55)[0], y)
    mouse(page, "mouseMoved", place(page, 0.6)[0], y)
    assert page.evaluate("document.querySelector('.over .brush').hidden") is False
    mouse(page, "mouseReleased", place(page, 0.6)[0], y)
    assert view(page) == pytest.approx([begin + s * (end - begin) for s in (0.5, 0.6)], abs=0.05)
    assert left_of(page, ".over .window") == pytest.approx(x, abs=2)
    assert page.complaints == []


def test_a_drag_marks_the_lists_without_a_canvas(browser: Browser, upload: Path) -> None:
    """The picture cannot zoom; what lies in the window that was dragged stands out all the same."""
    early = browser.call("Page.addScriptToEvaluateOnNewDocument", source=NO_CANVAS)
    try:
        browser.open("about:blank")
        browser.open(upload)
        browser.wait("Timeline.bounds()[1] > 20")
        begin, end = browser.evaluate("Object.values(document.querySelector('.tracks').dataset).map(Number)")
        first, last = (place(browser, (at - begin) / (end - begin)) for at in (16, 18))
        for kind, at in (("mousePressed", first), ("mouseMoved", last), ("mouseReleased", last)):
            mouse(browser, kind, *at)
        inside = "[...document.querySelectorAll('#happened li.inside')].map((li) => li.firstChild.textContent)"
        assert "outage" in browser.evaluate(inside)
        assert left_of(browser, ".over .window") == pytest.approx(first[0], abs=2)
    finally:
        browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=early["identifier"])


def test_a_zoom_of_the_figure_is_seen_in_the_rows_and_the_lists(page: Browser) -> None:
    assert page.evaluate("document.querySelector('.over .window').hidden") is True
    rows = "[...document.querySelectorAll('#happened li')]"
    outage = f"{rows}.find((li) => li.textContent.startsWith('outage'))"
    page.evaluate("window.report.then((s) => s.look(16.5, 17)).then(() => true)")
    assert page.evaluate("document.querySelector('.over .window').hidden") is False
    assert page.evaluate(f"{outage}.classList.contains('inside')") is True
    page.evaluate("window.report.then((s) => s.look(5, 6)).then(() => true)")
    assert page.evaluate(f"{outage}.classList.contains('inside')") is False


def test_the_cursor_is_one(page: Browser) -> None:
    mouse(page, "mouseMoved", *place(page, 0.62))
    row = "[...document.querySelectorAll('#happened li.here')].map((li) => li.firstChild.textContent)"
    assert "outage" in page.evaluate(row)
    assert page.evaluate("document.querySelector('.plot .cursor').hidden") is False
    page.evaluate("Timeline.cursor(10)")
    begin, end = page.evaluate("Object.values(document.querySelector('.tracks').dataset).map(Number)")
    wanted = place(page, (10 - begin) / (end - begin))[0]
    assert left_of(page, ".over .cursor") == pytest.approx(wanted, abs=2)
    page.evaluate("Timeline.cursor(null)")
    assert page.evaluate("document.querySelector('.over .cursor').hidden") is True


def test_the_map_moves_the_cursor_of_the_rows(page: Browser) -> None:
    page.evaluate("document.dispatchEvent(new CustomEvent('cursor', {detail: {seconds: 17, from: 'map'}}))")
    assert page.evaluate("document.querySelector('.over .cursor').hidden") is False


def test_keys_step_through_the_findings(page: Browser) -> None:
    page.evaluate("document.querySelector('#figure').open = true; document.querySelector('.plot').focus()")
    seen = []
    for name in ("n", "n", "p"):
        page.call("Input.dispatchKeyEvent", type="keyDown", key=name, text=name)
        seen.append(page.evaluate("document.querySelector('.over .mark').style.left"))
    assert seen[0] != seen[1]
    assert seen[2] == seen[0]


def test_the_search_finds_a_finding_and_a_port(page: Browser) -> None:
    enter = "new KeyboardEvent('keydown', {key: 'Enter'})"
    field = "document.querySelector('.seek')"
    page.evaluate(f"{field}.value = 'outage'; {field}.dispatchEvent({enter})")
    first, last = view(page)
    assert 10 < first < last < 25
    page.evaluate(f"{field}.value = '43648'; {field}.dispatchEvent({enter})")
    assert "43648" in page.evaluate("document.querySelector('tr.current').textContent")


CHOICE = "document.querySelector('.figure select')"
EVIDENCE = """[document.querySelector('.evidence').hidden, document.querySelector('.plot .mark').hidden,
  document.querySelector('.over .mark').hidden]"""


@pytest.fixture(scope="module")
def four_connections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("connections") / "r.html"
    write_report(read(SAMPLES / "second-connection"), path)
    return path


@pytest.mark.parametrize(
    "away",
    [
        f"{CHOICE}.value = '3'; {CHOICE}.dispatchEvent(new Event('change'))",
        "document.querySelector('button[data-show=\"3\"]').click()",
        "document.querySelector('[data-action=whole]').click()",
        "document.querySelector('[data-action=undo]').click()",
    ],
    ids=["another figure", "show another", "fit all", "back"],
)
def test_frames_and_sentence_of_evidence_go_together(browser: Browser, four_connections: Path, away: str) -> None:
    browser.open("about:blank")
    browser.open(four_connections)
    browser.evaluate("window.report.then((s) => s.look(20, 70)).then(() => true)")
    order = "window.report.then((s) => s.plot.panels().map(({panel}) => panel.key).join())"
    usual = (
        f"JSON.parse(document.getElementById('figures').textContent)[{CHOICE}.value].panels.map((p) => p.key).join()"
    )
    assert browser.evaluate(order) == browser.evaluate(usual)
    browser.evaluate("document.querySelector('button[data-show][data-panels^=rtt]').click()")
    assert browser.evaluate(EVIDENCE) == [False, False, False]
    assert browser.evaluate(order) != browser.evaluate(usual)
    browser.evaluate("window.report.then((s) => s.look(30, 60)).then(() => true)")
    browser.evaluate("document.querySelector('[data-action=undo]').click()")
    assert browser.evaluate(EVIDENCE) == [False, False, False], "back in the view of the evidence"
    browser.evaluate(f"(() => {{{away}}})()")
    assert browser.evaluate(EVIDENCE) == [True, True, True]
    assert browser.evaluate(order) == browser.evaluate(usual)
    assert browser.complaints == []
