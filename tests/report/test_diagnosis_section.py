"""How a report opens: a sentence, the account as one bar, and findings that lead into the figure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from multitracer.diagnosis.diagnose import diagnose, headline
from multitracer.diagnosis.transfer import Transfer
from multitracer.recording.open import open_recording
from multitracer.report.diagnosis_section import diagnosis_section
from multitracer.units import NS_PER_S
from tests.cli.program import call
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.diagnosis.diagnose import Diagnosis
    from tests.report.chromium import Browser

SESSION = SAMPLES / "fig8-resets-vj"
BAR = re.compile(r"flex-grow:([0-9.]+)")
SHOWN = re.compile(r'data-from="([-0-9.]+)" data-to="([-0-9.]+)"')


@pytest.fixture(scope="module")
def found() -> Diagnosis:
    return diagnose(Transfer.of(open_recording(SESSION)))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "r.html"
    call("report", "-o", str(path), str(SESSION))
    return path


def _shown(found: Diagnosis, *, origin_ns: int, speed: float) -> list[list[float]]:
    section = str(diagnosis_section(found, origin_ns=origin_ns, speed=speed, figure=True))
    return [[float(second) for second in pair] for pair in SHOWN.findall(section)]


def test_the_report_opens_with_the_sentence_the_bar_and_the_findings(found: Diagnosis, report: Path) -> None:
    text = report.read_text("utf-8")
    words = ("Why was it slow?", headline(found)[:40], "class=\"account\"",
             "header-decompressor-failure</strong>", "<h2>Summary")  # fmt: skip
    places = [text.index(word) for word in words]
    assert places == sorted(places)


def test_the_bar_is_the_whole(found: Diagnosis) -> None:
    section = str(diagnosis_section(found, origin_ns=0, speed=1, figure=False))
    assert sum(map(float, BAR.findall(section))) == pytest.approx(1, abs=1e-4)
    assert not SHOWN.search(section), "no figure, nothing to show"


@pytest.mark.parametrize(("before_s", "speed"), [(0, 1), (7, 1), (0, 20), (7, 20)])
def test_a_finding_leads_to_its_own_time_on_the_axis_of_the_figure(
    found: Diagnosis, before_s: int, speed: float
) -> None:
    """Also where the capture begins before the connection, or its link ran faster than a real one."""
    origin_ns = found.transfer.begin_ns - before_s * NS_PER_S
    for finding, (first, last) in zip(
        found.findings, _shown(found, origin_ns=origin_ns, speed=speed), strict=True
    ):
        begin_s, end_s = ((at - origin_ns) / NS_PER_S * speed for at in (finding.begin_ns, finding.end_ns))
        assert first < begin_s <= end_s < last
        assert last - first <= 1.3 * (end_s - begin_s) + 2 + 1e-2


@pytest.mark.browser
def test_pressing_show_zooms_to_the_finding(browser: Browser, found: Diagnosis, report: Path) -> None:
    browser.open(report)
    whole = browser.evaluate("window.report.then((shown) => shown.view())")
    for number in range(2):
        button = f"document.querySelectorAll('.findings button')[{number + 1}]"
        browser.evaluate(f"{button}.click()")
        first, last = browser.evaluate("window.report.then((shown) => shown.view())")
        finding = found.findings[number + 1]
        begin_s, end_s = (
            (at - found.transfer.begin_ns) / NS_PER_S for at in (finding.begin_ns, finding.end_ns)
        )
        assert whole[0] < first < begin_s < end_s < last < whole[1]
    assert browser.complaints == []
