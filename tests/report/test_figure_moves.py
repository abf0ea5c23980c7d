"""Ways through the figure in a real browser: links, keys, search, marks, and what a press copies."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.figures.time_sequence import time_sequence_panels
from multitracer.report.figure_section import figure_section
from multitracer.report.page import document, write
from tests.figures.traffic import transfer
from tests.report.figure_pages import figure, opened, status, traces, view

if TYPE_CHECKING:
    from pathlib import Path

    from tests.report.chromium import Browser

pytestmark = pytest.mark.browser


def test_a_link_leads_to_a_view_and_a_hostile_one_to_the_whole(browser: Browser, short_page: Path) -> None:
    opened(browser, short_page)
    complete = view(browser)
    for fragment, wanted in (
        ("#from=1&to=1.5", [1.0, 1.5]),
        ("#from=<img src=x onerror=bad()>&to=1e999", complete),
        ("#from=NaN&to=2", complete),
        ("#from=3&to=1", complete),
        ("#%ff", complete),
    ):
        browser.open("about:blank")
        browser.call("Page.navigate", url=short_page.as_uri() + fragment)
        browser.wait("document.readyState === 'complete' && window.report")
        assert view(browser) == pytest.approx(wanted), fragment
    assert browser.evaluate("window.bad") is None


def test_the_window_before_comes_back(browser: Browser, short_page: Path) -> None:
    opened(browser, short_page)
    browser.evaluate("window.report.then((shown) => shown.look(1.0, 1.5))")
    browser.evaluate("window.report.then((shown) => shown.look(1.1, 1.2))")
    browser.evaluate("Timeline.undo()")
    assert view(browser) == [1.0, 1.5]
    assert "from=1&to=1.5" in browser.evaluate("Timeline.address()")


def test_panels_out_of_sight_follow_a_zoom_when_the_browser_is_idle(browser: Browser, short_page: Path) -> None:
    browser.resize(390, 300)
    opened(browser, short_page)
    last = "[...document.querySelectorAll('.plot canvas')].at(-1)"
    browser.evaluate("document.querySelector('.plot').scrollIntoView()")
    browser.wait(f"{last}.getBoundingClientRect().top > innerHeight")
    browser.evaluate(f"window.before = {last}.toDataURL()")
    browser.evaluate("window.report.then((shown) => shown.look(1.0, 1.1))")
    browser.wait(f"{last}.toDataURL() !== before")
    saved, parts = browser.evaluate(
        "window.report.then(({plot}) => [plot.picture().height, plot.panels().map(({canvas}) => canvas.height)])"
    )
    assert saved == sum(parts), "all panels are in the picture that is saved"


def test_a_mark_names_a_stretch_in_the_figure(browser: Browser, short_page: Path) -> None:
    opened(browser, short_page)
    browser.evaluate("Timeline.mark(1.0, 1.5, 'a <b>wait</b>')")
    mark, words = (f"document.querySelector('{each}')" for each in (".plot .mark", ".drawing > .evidence"))
    assert browser.evaluate(f"[{mark}.hidden, {words}.hidden, {words}.textContent]") == [False, False, "a <b>wait</b>"]
    browser.evaluate("Timeline.mark(null)")
    assert browser.evaluate(f"[{mark}.hidden, {words}.hidden]") == [True, True]


def key(browser: Browser, name: str) -> None:
    browser.evaluate("document.querySelector('.plot').focus()")
    browser.call("Input.dispatchKeyEvent", type="keyDown", key=name, text=name)


def test_the_search_finds_a_frame_and_a_time(browser: Browser, short_page: Path) -> None:
    opened(browser, short_page)
    enter = "new KeyboardEvent('keydown', {key: 'Enter'})"
    for entry, wanted in (
        ("frame 100", None),
        ("1.25 s", 1.25),
        ("0:01.25", 1.25),
        ("#100", None),
        ("<b>nothing", None),
    ):
        browser.evaluate("window.report.then((shown) => shown.look(1.0, 1.1))")
        field = "document.querySelector('.seek')"
        browser.evaluate(f"{field}.value = {json.dumps(entry)}; {field}.dispatchEvent({enter})")
        begin, end = view(browser)
        if wanted is not None:
            assert begin < wanted < end
        elif "100" in entry:
            frames = [name for each in traces(browser).values() for name in each["frames"]]
            assert any(name.startswith("frame 100") for name in frames)
    assert status(browser) == "Nothing here is called \u201c<b>nothing\u201d."


def test_a_press_copies_a_filter_and_a_command_that_no_file_name_can_leave(browser: Browser, tmp_path: Path) -> None:
    direction = transfer(lost=(20, 21, 150))
    bad = "a'; touch x; '.pcap"
    facts = {"files": [{"name": bad, "quoted": shlex.quote(bad)}], "verdicts": {"0 7": "rto, necessary"}}
    page = figure(time_sequence_panels(direction), packets=facts)
    write(tmp_path / "p.html", document("p", figure_section(["one"]), figures=[page]))
    opened(browser, tmp_path / "p.html")
    words = browser.evaluate(
        "(() => {const f = JSON.parse(document.getElementById('figures').text)[0];"
        " const series = f.series.find((s) => s.label === 'TcpSnd_data');"
        " series.table = Columns.table(series);"
        " return Packets.command(f, series, 3)})()"
    )
    filter_, command = words.split("\n")
    assert filter_.startswith("frame.number == ")
    assert shlex.split(command) == ["tshark", "-r", bad, "-Y", filter_]


def test_keys_go_back_and_open_the_help(browser: Browser, short_page: Path) -> None:
    opened(browser, short_page)
    complete = view(browser)
    browser.evaluate("window.report.then((shown) => shown.look(1.0, 1.1))")
    key(browser, "u")
    assert view(browser) == complete
    key(browser, "?")
    assert browser.evaluate("document.querySelector('.how').open") is True


def test_bytes_less_their_trend_keep_the_shape_and_lose_the_slope(browser: Browser, short_page: Path) -> None:
    before = traces(opened(browser, short_page))["sequence TcpSnd_data"]
    browser.evaluate("document.querySelector('[data-action=trend]').click()")
    after = traces(browser)["sequence TcpSnd_data"]
    level = traces(browser)["sequence TcpSnd_ack"]
    browser.evaluate("document.querySelector('[data-action=trend]').click()")
    time, value = np.array(before["time"]), np.array(before["value"])
    rate = (value[-1] - value[0]) / (time[-1] - time[0])
    assert len(before["value"]) > 100
    np.testing.assert_allclose(after["value"], value - value[0] - rate * (time - time[0]), atol=1)
    assert traces(browser)["sequence TcpSnd_data"] == before
    slope = np.diff(level["value"][:2]) / np.diff(level["time"][:2])
    assert slope == pytest.approx(-rate)  # where nothing is acknowledged the line falls behind the trend
