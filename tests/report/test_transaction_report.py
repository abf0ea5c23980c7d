"""The report of a measurement, in a real browser."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.analysis.transports import SessionContent, transports_of
from multitracer.figures.palette import LOOKS, TRANSPORTS
from multitracer.figures.rtt_size import rtt_size_sheet
from multitracer.report.static_sheet import _SHAPES, static_sheet
from tests.cli.program import call
from tests.transactions import cdpd_like, transactions, write_session

if TYPE_CHECKING:
    from pathlib import Path

    from tests.report.chromium import Browser

INF = np.inf


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1400])
def test_the_report_draws_in_both_themes_and_asks_nothing_of_the_network(
    tmp_path: Path, browser: Browser, width: int
) -> None:
    write_session(tmp_path / "tcp", cdpd_like("tcp", 25, connection="per-session", connect_s=2.0))
    write_session(tmp_path / "cc", cdpd_like("centauruscomm", 25))
    call("report", "tcp", "cc", "-o", "out")
    browser.resize(width, 900, mobile=width < 700)
    browser.open(tmp_path / "out" / "index.html")
    said = browser.evaluate("document.querySelector('.lead').textContent")
    assert "TCP was faster than CentaurusComm at 128 to 2048 bytes" in said
    assert "and failed at 8192 bytes (" in said
    assert browser.evaluate("document.querySelectorAll('.sheet .stretched g path').length") > 30
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tops = "[...document.querySelectorAll('.several figure')].map((each) => each.offsetTop)"
    first, second, *_ = browser.evaluate(tops)
    assert (first == second) == (width > 700), "panels side by side only where there is room"
    ink = "getComputedStyle(document.querySelector('.sheet .stretched g path')).stroke"
    light = browser.evaluate(ink)
    browser.evaluate("document.querySelector('.theme').click()")
    assert browser.wait(f"{ink} !== {json.dumps(light)} && {ink}")
    clock = "document.querySelector('.times').scrollWidth <= document.querySelector('.picture').scrollWidth + 20"
    assert browser.evaluate(clock), "no word of an axis leaves its panel"
    size = (tmp_path / "out" / "index.html").stat().st_size
    assert size < 300_000, "still pictures, no library"
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith(("file:", "blob:", "data:"))] == []


@pytest.mark.browser
def test_hostile_names_stay_text(tmp_path: Path, browser: Browser) -> None:
    evil = "<img src=x onerror=window.ran=1>"
    for n, protocol in enumerate(("tcp", "tcp", "centauruscomm")):
        table = transactions({64: [1.0, 2.0], 128: [2.0, INF]}, protocol=protocol, labels=f"{evil}={evil}")
        write_session(tmp_path / f"s{n}", table, name=f"{evil}{n}", link=evil)
    call("report", "s0", "s1", "s2", "-o", "out")
    browser.open(tmp_path / "out" / "index.html")
    assert browser.evaluate("window.ran === undefined && !document.querySelector('img')")
    assert "onerror" in browser.evaluate("document.body.textContent")
    assert browser.complaints == []


def test_a_still_picture_shows_what_the_figure_of_a_notebook_draws() -> None:
    tables = (cdpd_like("tcp", 25, connection="per-session", connect_s=2.0), cdpd_like("centauruscomm", 25))
    transports = transports_of([SessionContent(str(n), table) for n, table in enumerate(tables)])
    sheet = rtt_size_sheet(transports)
    drawn = static_sheet(sheet)
    lines = [trace for trace in sheet.traces if "lines" in trace["mode"]]
    assert drawn.count("<g><title>") == len(lines)
    for trace in lines:
        assert f"<title>{trace['name']}</title>" in drawn
        assert f"color:{trace['line']['color']};color:light-dark(" in drawn
    points = sum(int(np.isfinite(trace["y"]).sum()) for trace in sheet.traces if "markers" in trace["mode"])
    assert drawn.count("</title>") == points + len(lines)
    dropped = "23 of 25 dropped"
    assert f">{dropped}</text>" in drawn


def test_every_mark_of_a_sheet_has_a_shape() -> None:
    symbols = {look.symbol for look in TRANSPORTS} | {LOOKS[role].symbol for role in ENVIRONMENT}
    assert {symbol.removesuffix("-open") for symbol in symbols} - {"circle"} <= set(_SHAPES)


ENVIRONMENT = (
    "transaction_rtt", "transaction_efficiency", "transaction_dropped", "radio_rssi", "radio_bler",
    "radio_busy",
)  # fmt: skip
