"""The report of a measurement, in a real browser."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.cli.program import call
from tests.transactions import cdpd_like, transactions, write_session

if TYPE_CHECKING:
    from pathlib import Path

    from tests.report.chromium import Browser

pytestmark = pytest.mark.browser

INF = np.inf


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("width", [390, 1400])
def test_the_report_draws_in_both_themes_and_asks_nothing_of_the_network(
    tmp_path: Path, browser: Browser, width: int
) -> None:
    write_session(tmp_path / "tcp", cdpd_like("tcp", 25, connection="per-session", connect_s=2.0))
    write_session(tmp_path / "cc", cdpd_like("centauruscomm", 25))
    call("report", "tcp", "cc", "-o", "out")
    browser.resize(width, 900, mobile=width < 700)
    browser.open(tmp_path / "out" / "index.html")
    browser.evaluate("window.charts.then(() => true)")
    said = browser.evaluate("document.querySelector('.lead').textContent")
    assert "TCP was faster than CentaurusComm at 128 to 2048 bytes" in said
    assert "and failed at 8192 bytes (" in said
    assert browser.evaluate("document.querySelectorAll('.chart .scatterlayer .trace').length") > 30
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
    columns = browser.evaluate("document.querySelectorAll('.chart')[1].layout.xaxis2.domain[0] > 0")
    assert columns == (width > 700), "panels side by side only where there is room"
    ink = "document.querySelector('.chart .xtick text').style.fill"
    light = browser.evaluate(ink)
    browser.evaluate("document.querySelector('.theme').click()")
    assert browser.wait(f"{ink} !== {json.dumps(light)} && {ink}")
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith(("file:", "blob:", "data:"))] == []


def test_hostile_names_stay_text(tmp_path: Path, browser: Browser) -> None:
    evil = "<img src=x onerror=window.ran=1>"
    for n, protocol in enumerate(("tcp", "tcp", "centauruscomm")):
        table = transactions({64: [1.0, 2.0], 128: [2.0, INF]}, protocol=protocol, labels=f"{evil}={evil}")
        write_session(tmp_path / f"s{n}", table, name=f"{evil}{n}", link=evil)
    call("report", "s0", "s1", "s2", "-o", "out")
    browser.open(tmp_path / "out" / "index.html")
    browser.evaluate("window.charts.then(() => true)")
    assert browser.evaluate("window.ran === undefined && !document.querySelector('img')")
    assert "onerror" in browser.evaluate("document.body.textContent")
    assert browser.complaints == []
