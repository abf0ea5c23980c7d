"""Pages with a long and a short figure, and what a browser shows of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from multitracer.figures.series import Series
from multitracer.figures.stack import BYTES, SECONDS, Panel
from multitracer.report.embed import embed
from tests.figures.traffic import START_NS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.report.chromium import Browser

POINTS = 400_000
LONGEST_NS = 60 * 10**9


def long_panels() -> list[Panel]:
    random = np.random.default_rng(3)
    times = START_NS + np.sort(random.integers(0, LONGEST_NS, POINTS))
    rows = np.arange(POINTS)
    rare = np.sort(random.choice(rows, 900, replace=False))
    data = Series("TcpSnd_data", "data", times, 1448 * rows, frame=rows + 1)
    resent = Series("TcpSnd_rexmt", "retransmission", times[rare], 1448 * rare, frame=rare + 1, rare=True)
    ack = Series("TcpSnd_ack", "ack", times, 1448 * rows - 100_000, frame=rows + 1)
    rtt = Series("TcpSnd_rtt", "rtt", times, random.integers(10**7, 10**9, POINTS), frame=rows + 1)
    return [
        Panel("sequence", "Time / sequence", BYTES, 3, [ack, data, resent]),
        Panel("rtt", "Round-trip time", SECONDS, 1, [rtt]),
        Panel("none", "Throughput", BYTES, 1, [], "Nothing to see, because this is a test."),
    ]


def figure(panels: list[Panel], *, budget_bytes: int = 20_000_000, **more: Any) -> dict[str, Any]:
    return embed(panels, [], identity="one", origin_ns=START_NS, budget_bytes=budget_bytes) | {
        "options": "--connection 1",
        "filename": "connection-1",
        **more,
    }


def opened(browser: Browser, page: Path) -> Browser:
    """Show the first figure of a page in whole; the page is loaded only if it is not there already."""
    if browser.evaluate("location.href") != page.as_uri():
        browser.open(page)
    browser.evaluate("window.report.then((shown) => shown.open(0)).then(() => true)")
    return browser


def traces(browser: Browser) -> dict[str, Any]:
    """Return what is drawn of each series, by its panel and label, once all points have been read."""
    browser.wait("!document.querySelector('.status').textContent.includes('are being read')")
    return browser.evaluate("window.report.then((s) => Object.fromEntries(s.drawn().map((each) => [each.key, each])))")


def press(browser: Browser, selector: str) -> None:
    browser.evaluate(f"document.querySelector({json.dumps(selector)}).click()")


def view(browser: Browser) -> list[float]:
    return browser.evaluate("window.report.then((shown) => shown.view())")


def status(browser: Browser) -> str:
    return browser.evaluate("document.querySelector('.status').textContent")
