"""Reports of what hardly anybody records: each opens, complains of nothing, and is silent about nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from multitracer.recording.read import read
from multitracer.report.write import MOST_ROWS, write_report
from tests.analysis.pcap_file import write_pcap
from tests.analysis.traffic import ACK, MS, START_NS, Segment, handshake

if TYPE_CHECKING:
    from pathlib import Path

    from tests.report.chromium import Browser

pytestmark = pytest.mark.browser

YEARS_NS = 10 * 365 * 86_400 * 10**9
MANY = 10_000


def exchange(*times_ns: int) -> list[Segment]:
    """Return a handshake, 20 data segments and their ACKs; the last of `times_ns` is for the rest."""
    talk = handshake()
    for i in range(20):
        talk.append(Segment(0, 1001 + 1000 * i, 1000, ACK, 5001))
        talk.append(Segment(1, 5001, 0, ACK, 2001 + 1000 * i))
    return [replace(each, time_ns=times_ns[min(i, len(times_ns) - 1)]) for i, each in enumerate(talk)]


def at_ms(*moments: float) -> list[int]:
    return [START_NS + round(each * MS) for each in moments]


CASES = {
    "no-packet": [],
    "one-packet": handshake()[:1],
    "one-data-segment": [Segment(0, 1, 1000, ACK, 1)],
    "no-time-passes": exchange(START_NS),
    "ten-years": exchange(*at_ms(*range(22)), START_NS + YEARS_NS),
    "time-jumps-ahead": exchange(*at_ms(*range(20)), *at_ms(*range(4 * 10**6, 4 * 10**6 + 23))),
    "time-jumps-back": exchange(*at_ms(*range(20)), *at_ms(*range(-(10**6), -(10**6) + 23))),
    "ten-thousand-connections": [each for pair in range(MANY) for each in handshake(pair=pair)],
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("odd")
    made = {}
    for name, segments in CASES.items():
        made[name] = folder / f"{name}.html"
        write_report(read(write_pcap(folder / f"{name}.pcap", segments)), made[name])
    return made


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_the_page_is_silent_and_fits(
    browser: Browser, pages: dict[str, Path], name: str, width: int, height: int
) -> None:
    browser.resize(width, height, mobile=width < 600)
    browser.open(pages[name])
    browser.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    browser.evaluate("Promise.resolve(window.report).then((s) => s && s.look(0, 1e-6)).then(() => true)")
    assert browser.complaints == []
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    said = browser.evaluate("document.body.innerText")
    assert not any(word in said for word in ("NaN", "Infinity", "undefined", "null")), said


def test_nothing_to_draw_says_what_would_help(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["no-packet"])
    said = browser.evaluate("document.querySelector('main').innerText")
    assert "There is no TCP connection in this capture." in said


def test_of_many_connections_the_largest_are_listed_and_the_rest_counted(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.open(pages["ten-thousand-connections"])
    assert browser.evaluate("document.querySelectorAll('#connections tbody tr').length") == MOST_ROWS
    said = browser.evaluate("document.querySelector('#connections').textContent")
    assert f"{MANY - MOST_ROWS:,} more connections not listed" in said


def test_ten_years_and_a_microsecond_are_both_shown(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["ten-years"])
    browser.wait("window.report && document.querySelector('.status').textContent")
    first, last = browser.evaluate("window.report.then((s) => s.view())")
    assert last - first > YEARS_NS / 1e9
    browser.evaluate("window.report.then((s) => s.look(0.0099995, 0.0100005)).then(() => true)")
    points = browser.evaluate("window.report.then((s) => s.drawn().map((each) => each.points))")
    assert 1 in points, "the packet of that microsecond"
