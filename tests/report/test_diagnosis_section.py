"""Below the first screen: what happened, with what leads into the figure, and the limits as bars."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from multitracer.diagnosis.diagnose import diagnose, explain, headline
from multitracer.diagnosis.limits.group import ConnectionGroup, Stage
from multitracer.diagnosis.limits.names import Viewpoint
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from multitracer.report.cause import explanation
from multitracer.report.diagnosis_section import happened_section, lanes, limits_section
from multitracer.report.limit_words import RECEIVER_ONLY
from multitracer.report.write import write_report
from multitracer.units import NS_PER_S
from tests.cli.program import call
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.finding import Finding, Incident
    from tests.report.chromium import Browser

SESSION = SAMPLES / "fig8-resets-vj"
CHUNK = re.compile(r'class="(limit|use) [^"]*" style="flex-grow:([0-9.]+)')
SHOWN = re.compile(r'data-from="([-0-9.]+)" data-to="([-0-9.]+)"')
DOWNLOAD = SAMPLES / "download"


@pytest.fixture(scope="module")
def found() -> Diagnosis:
    return diagnose(Transfer.of(read(SESSION)))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "r.html"
    call("report", "-o", str(path), str(SESSION))
    return path


def _shown(found: Diagnosis, *, origin_ns: int, speed: float) -> list[list[float]]:
    section = str(happened_section(found, origin_ns=origin_ns, speed=speed, figure=True))
    return [[float(second) for second in pair] for pair in SHOWN.findall(section)]


def _section(found: Diagnosis) -> str:
    return f"{happened_section(found, origin_ns=0, speed=1, figure=False)}{limits_section(found)}"


def test_a_moment_is_written_once(found: Diagnosis) -> None:
    first = found.findings[0]
    section = _section(replace(found, find=lambda _: [first._replace(end_ns=first.begin_ns + 1)]))
    assert re.search(r"cost [0-9.]+ s, (-?[0-9.]+ s|[0-9:.]+)[ <]", section)
    assert not re.search(r"\b([0-9.:]+( s)?) to \1\b", section)


def _sums(section: str) -> dict[str, float]:
    sums: dict[str, float] = {}
    for bar, share in CHUNK.findall(section):
        sums[bar] = sums.get(bar, 0.0) + float(share)
    return sums


def test_the_report_opens_with_the_answer_then_what_would_help_then_the_limits(found: Diagnosis, report: Path) -> None:
    text = report.read_text("utf-8")
    words = ("Why was it slow?", headline(found)[:40], "What would help:", explanation(found).help,
             'class="tracks"', "link-reset</strong>", 'class="limits"', 'class="account"',
             "<h2>Summary")  # fmt: skip
    places = [text.index(word) for word in words]
    assert places == sorted(places)


def test_the_bars_are_the_whole(found: Diagnosis) -> None:
    section = _section(found)
    assert _sums(section) == {"limit": pytest.approx(1, abs=1e-4), "use": pytest.approx(1, abs=1e-4)}
    assert not SHOWN.search(section), "no figure, nothing to show"


def test_the_largest_limit_alone_has_the_strongest_colour(found: Diagnosis) -> None:
    strongest = re.findall(r'class="limit shade0[^"]*" style="[^"]*" title="([a-z-]+)', _section(found))
    assert set(strongest) == {found.headline.limit.label}
    assert len(strongest) == 2, "the link, and what of it was the far end's doing, beside each other"


def test_an_account_that_is_inferred_is_no_bar() -> None:
    inferred = diagnose(Transfer.of(read(SAMPLES / "cellular_upload")))
    assert set(_sums(_section(inferred))) == {"limit"}
    assert "channel was used" not in _section(inferred)


def test_a_share_that_rests_on_weak_signs_shows_its_range() -> None:
    section = _section(diagnose(Transfer.of(read(SAMPLES / "cellular_upload"))))
    low, high = map(int, re.search(r"weak: (\d+) % to (\d+) %", section).groups())  # type: ignore[union-attr]
    assert low < high


def test_a_view_of_the_receiver_alone_says_what_it_cannot_show() -> None:
    at_phone = explain(read(DOWNLOAD / "mobile"))
    assert at_phone.limited.view is Viewpoint.RECEIVER
    assert RECEIVER_ONLY in _section(at_phone)
    both = explain(read(DOWNLOAD))
    assert RECEIVER_ONLY not in _section(both)


def test_what_one_cause_brought_about_is_one_entry_that_unfolds(found: Diagnosis) -> None:
    section = _section(found)
    entries = re.findall(r"<li><strong>([a-z-]+)</strong>", section[: section.index("</ol>")])
    assert [kind for kind in entries if kind == "link-reset"] == ["link-reset"] * 4, "two, each its own part"
    assert "3 occurrences: link-reset, header-decompressor-failure, ack-loss" in section


def test_connections_that_were_one_piece_of_work_are_lanes() -> None:
    found = explain(read(SAMPLES / "cellular_upload"))
    section = _section(found)
    assert "3 connections as one piece of work: 27.5 s" in section
    lanes = section[section.index('class="lanes"') :]
    assert lanes.count("<span>connection ") == len({stage.connection for stage in found.group.chain})
    assert "handshake 70.8 ms" in lanes


def test_more_lanes_than_a_page_takes_are_counted() -> None:
    found = explain(read(SAMPLES / "cellular_upload"))
    chain = [Stage(n, "transfer", n * NS_PER_S, (n + 1) * NS_PER_S) for n in range(1, 51)]
    group = ConnectionGroup(found.group.numbers, found.group.members)
    vars(group)["chain"] = chain
    section = "".join(lanes(group))
    assert section.count("<span>connection ") == 40
    assert "and 10 more connections" in section


@pytest.mark.parametrize("session", ["cellular_upload", "download", "fig8-resets-vj"])
def test_what_is_explained_is_what_the_first_figure_shows(session: str, tmp_path: Path) -> None:
    recording = read(SAMPLES / session)
    write_report(recording, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text("utf-8")
    first = re.search(r'"options":"--connection (\d+)"', text)
    assert first is not None
    assert int(first[1]) == explain(recording).transfer.at_sender.number
    assert 'data-show="0" data-from' in text or "No known fault" in text


@pytest.mark.parametrize(("before_s", "speed"), [(0, 1), (7, 1), (0, 20), (7, 20)])
def test_an_incident_leads_to_its_own_time_on_the_axis_of_the_figure(
    found: Diagnosis, before_s: int, speed: float
) -> None:
    """Also where the capture begins before the connection, or its link ran faster than a real one."""
    origin_ns = found.transfer.begin_ns - before_s * NS_PER_S
    expected = _listed(found)
    for each, (first, last) in zip(expected, _shown(found, origin_ns=origin_ns, speed=speed), strict=True):
        begin_s, end_s = ((at - origin_ns) / NS_PER_S * speed for at in (each.begin_ns, each.end_ns))
        assert first < begin_s <= end_s < last
        assert last - first <= 1.3 * (end_s - begin_s) + 2 + 1e-2


def _listed(found: Diagnosis) -> list[Incident | Finding]:
    """Return what has a place in the figure, as the page lists it: incidents, each before its parts."""
    listed: list[Incident | Finding] = []
    for incident in found.incidents:
        parts = [found.findings[place] for place in incident.parts]
        listed += [incident, *(parts if len(parts) > 1 else [])]
    return listed


@pytest.mark.browser
def test_pressing_show_zooms_to_the_incident(browser: Browser, found: Diagnosis, report: Path) -> None:
    browser.open(report)
    complete = browser.evaluate("window.report.then((shown) => shown.view())")
    for number in (1, 5):
        button = f"document.querySelectorAll('.findings button')[{number}]"
        browser.evaluate(f"{button}.click()")
        first, last = browser.evaluate("window.report.then((shown) => shown.view())")
        each = _listed(found)[number]
        begin_s, end_s = ((at - found.transfer.begin_ns) / NS_PER_S for at in (each.begin_ns, each.end_ns))
        assert complete[0] < first < begin_s < end_s < last < complete[1]
    mark = "document.querySelector('.plot .mark')"
    assert browser.evaluate(f"{mark}.hidden") is False
    browser.evaluate("document.querySelector('.plot').focus()")
    before = browser.evaluate("window.report.then((shown) => shown.view())")
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="n", text="n")
    assert browser.evaluate("window.report.then((shown) => shown.view())") != before
    facts = browser.evaluate("JSON.parse(document.getElementById('figures').text)[0].packets")
    assert facts["files"][0]["name"].endswith(".pcap.gz")
    assert any("; evidence: " in words for words in facts["verdicts"].values())
    assert browser.complaints == []
