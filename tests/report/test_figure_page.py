"""The figure in a real browser: it draws, zooms to every packet, and asks the network for nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from multitracer.report.figure_section import figure_section
from multitracer.report.page import document, write
from tests.figures.traffic import START_NS, transfer
from tests.narrowed import known
from tests.report.figure_pages import POINTS, figure, long_panels, opened, press, status, traces, view

if TYPE_CHECKING:
    from pathlib import Path

    from tests.report.chromium import Browser

pytestmark = pytest.mark.browser


def test_the_page_is_silent_and_fetches_nothing_but_itself(browser: Browser, long_page: Path) -> None:
    browser.open(long_page)
    opened(browser, long_page)
    assert browser.complaints == []
    assert {r for r in browser.requests if not r.startswith(("data:", "blob:"))} == {long_page.as_uri()}
    assert browser.evaluate("document.title") == "long </script>"


def test_the_policy_stops_a_script_that_came_in(browser: Browser, long_page: Path) -> None:
    browser.open(long_page)
    browser.evaluate(
        "{const s = document.createElement('script'); s.textContent = 'window.bad = 1'; document.body.append(s)}"
    )
    browser.evaluate("{const i = new Image(); i.src = 'http://192.0.2.1/x.png'; document.body.append(i)}")
    assert browser.evaluate("window.bad") is None
    assert any("Content Security Policy" in complaint for complaint in browser.complaints)


def test_every_point_is_in_the_page_and_dense_ones_become_an_envelope(browser: Browser, long_page: Path) -> None:
    drawn = traces(opened(browser, long_page))
    assert [drawn[key]["points"] for key in drawn] == [POINTS, POINTS, 900, POINTS]
    assert [drawn[key]["single"] for key in drawn] == [False, False, True, False]
    assert all(each["columns"] <= 1280 for each in drawn.values())


def test_every_retransmission_is_drawn_from_afar(browser: Browser, long_page: Path) -> None:
    drawn = traces(opened(browser, long_page))
    wanted = long_panels()[0].series[2]
    assert drawn["sequence TcpSnd_rexmt"]["frames"] == [f"frame {n}" for n in known(wanted.frame)]
    np.testing.assert_array_equal(drawn["sequence TcpSnd_rexmt"]["value"], wanted.value)


def test_extremes_are_drawn_from_afar(browser: Browser, long_page: Path) -> None:
    opened(browser, long_page)
    complete = long_panels()[1].series[0]
    (found,) = extremes(browser, [[0, POINTS]])
    assert found == pytest.approx([complete.value.min() / 1e9, complete.value.max() / 1e9])


def extremes(browser: Browser, stretches: list[list[int]]) -> list[list[float]]:
    """Return the lowest and the highest of some round-trip times, as the blocks of the page have them."""
    browser.wait("!document.querySelector('.status').textContent.includes('are being read')")
    return browser.evaluate(
        f"window.report.then((s) => {json.dumps(stretches)}.map(([first, end]) => {{"
        "const r = Columns.range(s.plot.panels()[1].parts[0].series.table, first, end);"
        " return [r.low, r.high]}))"
    )


def test_blocks_give_the_extremes_of_any_stretch(browser: Browser, long_page: Path) -> None:
    opened(browser, long_page)
    ends = np.sort(np.random.default_rng(11).integers(0, POINTS, (200, 2)), axis=1)
    ends[:, 1] += 1
    ends[:60, 1] = np.minimum(ends[:60, 0] + np.arange(1, 61) * 7, POINTS)  # within one block, and a few
    value = long_panels()[1].series[0].value / 1e9
    wanted = [[value[first:end].min(), value[first:end].max()] for first, end in ends]
    assert np.allclose(extremes(browser, ends.tolist()), wanted, rtol=1e-12)


def test_zooming_in_brings_every_packet(browser: Browser, long_page: Path) -> None:
    opened(browser, long_page)
    browser.evaluate("window.report.then((shown) => shown.look(20, 20.02))")
    near = traces(browser)["sequence TcpSnd_data"]
    times = (long_panels()[0].series[1].time_ns - START_NS) / 1e9
    inside = (times >= 20) & (times <= 20.02)
    assert near["single"] is True
    assert near["time"] == pytest.approx(times[inside], abs=1e-9)
    assert near["frames"] == [f"frame {n + 1}" for n in np.flatnonzero(inside)]
    assert "every packet of this interval is drawn" in status(browser)


def test_the_narrowest_window_is_a_microsecond(browser: Browser, long_page: Path) -> None:
    opened(browser, long_page)
    browser.evaluate("window.report.then((shown) => shown.look(20, 20))")
    begin, end = view(browser)
    assert end - begin == pytest.approx(1e-6, rel=1e-3)


def test_a_page_without_room_for_all_says_how_to_see_every_packet(browser: Browser, tmp_path: Path) -> None:
    small = figure(long_panels(), budget_bytes=400_000)
    write(tmp_path / "small.html", document("small", figure_section(["one"]), figures=[small]))
    opened(browser, tmp_path / "small.html")
    browser.evaluate("window.report.then((shown) => shown.look(20, 20.05))")
    browser.wait("!document.querySelector('.status').textContent.includes('are being read')")
    assert "make it again with --connection 1 --from 20.000 --to 20.050" in status(browser)
    assert "The finest points are left out." in status(browser)


def test_without_a_worker_the_page_reads_the_points_itself(browser: Browser, long_page: Path, tmp_path: Path) -> None:
    refusing = tmp_path / "refusing.html"
    refusing.write_text(long_page.read_text("utf-8").replace("worker-src blob:", "worker-src 'none'"), "utf-8")
    opened(browser, refusing)
    assert traces(browser)["sequence TcpSnd_data"]["points"] == POINTS


def test_without_inflation_the_overview_stays_and_says_so(browser: Browser, long_page: Path) -> None:
    script = browser.call("Page.addScriptToEvaluateOnNewDocument", source="delete window.DecompressionStream")[
        "identifier"
    ]
    try:
        browser.open(long_page)
        browser.wait("document.querySelector('.status').textContent.includes('DecompressionStream')")
    finally:
        browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
        browser.open("about:blank")


def test_an_empty_panel_says_why(browser: Browser, long_page: Path) -> None:
    opened(browser, long_page)
    assert "Nothing to see, because this is a test." in browser.evaluate("document.querySelector('.plot').textContent")


def test_an_axis_has_at_least_two_ticks(browser: Browser, short_page: Path) -> None:
    """A low panel up to 0.48 s had the tick 0 alone: its values could not be read."""
    browser.open(short_page)
    for low, high, ticks in ((0, 0.48, [0, 0.2, 0.4]), (0, 0.52, [0, 0.5]), (-1, 7, [0, 5])):
        assert browser.evaluate(f"Axes.ticks({low}, {high}, 2).values") == pytest.approx(ticks)


def test_times_of_a_minute_and_more_are_minutes_and_seconds(browser: Browser, short_page: Path) -> None:
    browser.open(short_page)
    for low, high, ticks in (
        (0, 186, [0, 30, 60, 90, 120, 150, 180]), (0, 7300, [0, 1800, 3600, 5400, 7200]),
        (0, 30, [0, 5, 10, 15, 20, 25, 30]),
        (100, 100.8, [100, 100.1, 100.2, 100.3, 100.4, 100.5, 100.6, 100.7, 100.8]),
    ):  # fmt: skip
        assert browser.evaluate(f"Axes.times({low}, {high}, 8).values") == pytest.approx(ticks)
    for seconds, decimals, said in (
        (65, 0, "1:05"), (3725, 0, "1:02:05"), (136.25, 2, "2:16.25"), (59.99, 1, "1:00.0"), (-3, 0, "−0:03"),
    ):  # fmt: skip
        assert browser.evaluate(f"Axes.clock({seconds}, {decimals})") == said


def test_the_legend_hides_and_shows_a_series(browser: Browser, long_page: Path) -> None:
    opened(browser, long_page)
    button = "[data-series='sequence TcpSnd_data']"
    press(browser, button)
    assert "sequence TcpSnd_data" not in traces(browser)
    assert browser.evaluate(f'document.querySelector("{button}").getAttribute("aria-pressed")') == "false"
    press(browser, button)
    assert traces(browser)["sequence TcpSnd_data"]["points"] == POINTS


def test_buttons_and_keys_move_the_view(browser: Browser, long_page: Path) -> None:
    opened(browser, long_page)
    complete = view(browser)
    press(browser, "[data-action=in]")
    half = view(browser)
    assert half[1] - half[0] == pytest.approx((complete[1] - complete[0]) / 2)
    browser.evaluate("document.querySelector('.plot').focus()")
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight")
    assert view(browser)[0] > half[0]
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="0", text="0")
    assert view(browser) == complete
    press(browser, "[data-action=out]")
    assert view(browser) == complete


def test_a_drag_zooms_and_a_double_click_shows_the_whole(browser: Browser, long_page: Path) -> None:
    opened(browser, long_page)
    complete = view(browser)
    browser.evaluate("document.querySelector('.plot').scrollIntoView()")
    box = browser.evaluate("document.querySelector('.plot canvas').getBoundingClientRect().toJSON()")
    y = box["y"] + box["height"] / 2
    places = [box["x"] + box["width"] * share for share in (0.25, 0.3, 0.4, 0.5)]
    mouse(browser, "mousePressed", places[0], y)
    for x in places:
        mouse(browser, "mouseMoved", x, y)
    mouse(browser, "mouseReleased", places[-1], y)
    browser.wait("window.report.then((s) => s.view()[0] > 10)")
    assert view(browser)[1] - view(browser)[0] < (complete[1] - complete[0]) / 2
    for _ in range(20):  # on a busy machine two clicks may be too far apart to be one
        for clicks in (1, 2):
            mouse(browser, "mousePressed", places[1], y, clicks)
            mouse(browser, "mouseReleased", places[1], y, clicks)
        if view(browser) == complete:
            return
    pytest.fail(f"{view(browser)} is not the whole")


def mouse(browser: Browser, kind: str, x: float, y: float, clicks: int = 1) -> None:
    browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=clicks)


def test_a_place_is_one_press_away(browser: Browser, short_page: Path) -> None:
    opened(browser, short_page)
    titles = browser.evaluate("[...document.querySelectorAll('.places button')].map((b) => b.textContent)")
    assert "Most retransmissions" in titles
    browser.evaluate("[...document.querySelectorAll('.places button')].at(-1).click()")
    begin, end = view(browser)
    resent = traces(browser)["sequence TcpSnd_rexmt"]["time"]
    assert resent
    assert all(begin <= x <= end for x in resent)


def test_another_figure_can_be_chosen(browser: Browser, short_page: Path) -> None:
    opened(browser, short_page)
    assert "sequence TcpSnd_syn_fin" in traces(browser)
    browser.evaluate(
        "{const s = document.querySelector('select'); s.value = '1'; s.dispatchEvent(new Event('change'))}"
    )
    assert "sequence TcpSnd_syn_fin" not in traces(browser)
    assert view(browser)[1] > 59


def test_the_theme_follows_the_system_and_the_button(browser: Browser, short_page: Path) -> None:
    browser.prefer("dark")
    browser.open(short_page)
    opened(browser, short_page)
    assert paper(browser) == [21, 26, 33, 255]
    press(browser, ".theme")
    assert paper(browser) == [255, 255, 255, 255]


def paper(browser: Browser) -> list[int]:
    corner = "document.querySelector('.plot canvas').getContext('2d').getImageData(0, 0, 1, 1).data"
    return browser.evaluate(f"[...{corner}]")


def test_a_phone_shows_the_page_without_sideways_scrolling(browser: Browser, short_page: Path) -> None:
    browser.resize(390, 844, mobile=True)
    browser.open(short_page)
    opened(browser, short_page)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 390
    assert browser.evaluate("document.querySelector('.plot canvas').clientWidth") <= 390


def touch(browser: Browser, x: float, y: float, *, drag: float = 0) -> None:
    browser.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
    for step in range(1, 11 if drag else 1):
        moved = [{"x": x, "y": y + drag * step / 10}]
        browser.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=moved)
    browser.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])


def test_a_finger_scrolls_the_page_and_a_tap_names_the_frame(browser: Browser, short_page: Path) -> None:
    browser.resize(390, 600, mobile=True)
    browser.call("Emulation.setTouchEmulationEnabled", enabled=True)
    browser.open(short_page)
    opened(browser, short_page)
    browser.evaluate("document.querySelector('.plot').scrollIntoView({block: 'center'})")
    before = browser.evaluate("scrollY")
    touch(browser, 200, 400, drag=-120)
    browser.wait(f"scrollY > {before} + 50")
    assert view(browser) == browser.evaluate("JSON.parse(document.getElementById('figures').text)[0].view")
    browser.until(lambda: a_tap_names_a_frame(browser))  # the page may still be rolling out at the first


def a_tap_names_a_frame(browser: Browser) -> Any:
    browser.evaluate("document.querySelector('.plot').scrollIntoView()")
    for share in (0.3, 0.4, 0.5):
        touch(browser, 60 + 300 * share, 30 + 230 * (1 - share))
    return browser.evaluate("document.querySelector('.plot .hover').textContent.includes('frame ')")


def test_the_value_axis_fits_what_a_view_shows(browser: Browser, short_page: Path) -> None:
    opened(browser, short_page)
    browser.evaluate("window.report.then((shown) => shown.look(1.0, 1.5))")
    drawn = traces(browser)
    values = [v for key, each in drawn.items() if key.startswith("sequence") for v in each["value"]]
    low, high = browser.evaluate("window.report.then((s) => s.plot.panels()[0].range)")
    assert low <= min(values)
    assert high - low < 3 * (max(values) - min(values))
    assert high < 0.8 * max(transfer(lost=(20, 21, 150)).segments["seq"])


def test_a_figure_without_panels_is_an_empty_one(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "none.html"
    write(page, document("none", figure_section(["1: a", "2: b"]), figures=[figure([]), figure(long_panels()[2:])]))
    opened(browser, page)
    assert browser.evaluate("window.report.then((s) => s.plot.panels().length)") == 0
    browser.evaluate("window.report.then((s) => s.open(1)).then(() => true)")
    assert browser.evaluate("document.querySelector('.plot .empty').textContent").startswith("Nothing to see")
    assert browser.complaints == []


def test_what_unfolds_on_a_phone_has_a_triangle_and_room_for_a_finger(browser: Browser, short_page: Path) -> None:
    browser.resize(390, 844, mobile=True)
    browser.open(short_page)
    seen = browser.evaluate(
        "[...document.querySelectorAll('summary')].map((each) => [getComputedStyle(each).display,"
        " getComputedStyle(each).listStyleType, each.getBoundingClientRect().height >= 44])"
    )
    assert seen == [["list-item", "disclosure-closed", True]] * 2, "Legend, and how to read this"
