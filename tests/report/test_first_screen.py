"""The first screen: the answer, three numbers, lanes of time, and the figure of the culprit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.diagnosis.diagnose import explain
from multitracer.diagnosis.limits.names import Limit
from multitracer.figures.series import Series
from multitracer.figures.stack import SECONDS, Panel
from multitracer.recording.read import read
from multitracer.report.cause import cause, lost_run
from multitracer.report.first_screen import heights
from multitracer.report.limit_words import shares_of
from multitracer.report.primary_cause import static
from multitracer.report.time_axis import TimeAxis, times
from multitracer.report.write import Request, write_report
from multitracer.units import NS_PER_S
from tests.conftest import SAMPLES
from tests.report.test_markup import parsed

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.diagnosis.diagnosis import Diagnosis
    from tests.report.chromium import Browser

WHOLE_S = 27.5
FIRST = re.compile(r'<section class="first">.*?</section>', re.DOTALL)
RECORDED = SAMPLES.parent / "tests" / "causes" / "recordings"


@pytest.fixture(scope="module")
def found() -> Diagnosis:
    return explain(read(SAMPLES / "cellular_upload"))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("first") / "r.html"
    write_report(read(SAMPLES / "cellular_upload"), path)
    return path


def first_screen(path: Path) -> str:
    screen = FIRST.search(path.read_text("utf-8"))
    assert screen is not None
    return screen[0].replace("\xa0", " ")  # between a number and its unit


def axis_of(found: Diagnosis) -> TimeAxis:
    limited = found.limited
    return TimeAxis(limited.begin_ns, int(limited.cells.end[-1]), limited.begin_ns)


def test_headline_cause_help_and_numbers_come_before_the_lanes(found: Diagnosis, report: Path) -> None:
    said = parsed(first_screen(report)).text
    words = ("Trust:", "Why was it slow?", found.headline.sentence[:40], "bufferbloat: A queue",
             "What would help", "Speed", "Round trip", "Lost", "22.9 s",
             "of delay", "Round-trip time")  # fmt: skip
    places = [said.index(word) for word in words]
    assert places == sorted(places)


def test_the_lanes_hold_as_much_time_as_the_headline_says(found: Diagnosis) -> None:
    """What is drawn over time and what is counted are one: of three connections, too."""
    axis = axis_of(found)
    for row in shares_of(found):
        own = [each.seconds for each in shares_of(found) if each.limit is row.limit]
        drawn = heights(found, axis, row.limit).mean() * axis.length_ns / NS_PER_S
        assert drawn == pytest.approx(sum(own), abs=0.02), row.limit


def test_no_moment_holds_more_than_one(found: Diagnosis) -> None:
    axis = axis_of(found)
    assert np.all(sum(heights(found, axis, limit) for limit in Limit) <= 1.001)


def test_what_explains_the_headline_goes_before_what_cost_more(found: Diagnosis, report: Path) -> None:
    """An outage cost 2.2 s; but the link held 83 %, and it is the queue that tells why."""
    assert found.incidents[0].kind == "outage"
    first = cause(found)
    assert first is not None
    assert first.kind == "bufferbloat"
    rows = re.findall(r'<button type="button" class="marks"[^>]*>([^< ]+)', first_screen(report))
    assert rows[:2] == ["bufferbloat", "outage"]
    assert len(set(rows)) == len(rows), "an incident has one row"


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("00191-deep-queue", "Round-trip time"),
        ("00062-slow-reader", "Data in flight"),
        ("00021-server-think", "Bytes sent and acknowledged"),
        ("00004-policer", "Rate of the delivered data"),
    ],
)
def test_the_one_figure_is_that_of_the_culprit(name: str, title: str, tmp_path: Path) -> None:
    write_report(read(RECORDED / name / "session"), tmp_path / "r.html")
    screen = first_screen(tmp_path / "r.html")
    assert screen.count('class="track title"') == 1
    assert title in screen


def test_known_numbers_are_never_missing_at_a_receiver(tmp_path: Path) -> None:
    write_report(read(SAMPLES / "download" / "mobile"), tmp_path / "r.html")
    said = parsed(first_screen(tmp_path / "r.html")).text
    assert "not here" not in said
    assert "not known" not in said
    assert "inferred from arrivals" in said


def test_a_size_is_never_called_a_speed(tmp_path: Path) -> None:
    """A path dropped all full segments: what was sent is known, a rate is not."""
    write_report(read(RECORDED / "00131-mtu-hole" / "session"), tmp_path / "r.html")
    screen = first_screen(tmp_path / "r.html")
    assert "<dt>Speed</dt>" not in screen
    assert "<dt>Sent</dt><dd>15.9 kB<small>no speed: no ACK of the data with a time was captured" in screen


def test_trust_is_told_of_the_answer_too(report: Path, tmp_path: Path) -> None:
    """A good capture does not make a weak answer sure; its cause may be known better than the share."""
    assert 'trust good"><span>✓ Trust: numbers good, answer measured.</span>' in first_screen(report)
    write_report(read(RECORDED / "00199-random-loss" / "session"), tmp_path / "r.html")
    screen = first_screen(tmp_path / "r.html")
    assert 'caution"><span>! Trust: numbers good, cause inferred, its share of the time weak: at most ' in screen


def test_what_a_link_that_marks_left_idle_could_carry_stands_beside_the_speed(tmp_path: Path) -> None:
    """Two readers could not tell a well used link from one that is marked too early."""
    write_report(read(RECORDED / "00195-ecn" / "session"), tmp_path / "r.html")
    assert "1.6 MB at the link&#x27;s 3.32 Mbit/s take 3.85 s;" in first_screen(tmp_path / "r.html")
    write_report(read(RECORDED / "00004-policer" / "session"), tmp_path / "p.html")
    assert "the link&#x27;s" not in first_screen(tmp_path / "p.html"), "a policer hides it"


def test_the_reason_of_a_caution_is_read_without_unfolding(tmp_path: Path) -> None:
    recording = read(RECORDED / "30081-client-think" / "session")
    note = next(capture.analysis.trust.notes[0] for capture in recording.captures if capture.analysis.trust.notes)
    write_report(recording, tmp_path / "r.html")
    summary = first_screen(tmp_path / "r.html").partition("</summary>")[0]
    assert "Trust: numbers caution, answer measured." in summary
    assert note.sentence in parsed(summary).text
    assert "1 more note<" in summary


@pytest.mark.parametrize(
    ("recording", "limit", "left_out", "below"),
    [
        ("00004-policer", ">link", "link-limited", "shown by the tokens of a policer"),
        ("30002-small-wmem", ">sender-buffer", "send-buffer-limited", ">send-buffer-limited"),
        ("00154-bbr", ">link", "pacing", ">pacing"),
    ],
)
def test_an_incident_that_repeats_a_limit_or_costs_nothing_has_no_row(
    tmp_path: Path, recording: str, limit: str, left_out: str, below: str
) -> None:
    """A limit's row has gaps where an outage held; its incident's bar ran through them, and cost nothing."""
    write_report(read(RECORDED / recording / "session"), tmp_path / "r.html")
    screen = first_screen(tmp_path / "r.html")
    assert limit in screen
    assert f">{left_out}" not in screen
    page = (tmp_path / "r.html").read_text("utf-8")
    assert below in page, "the list below the screen has it, or the row of the limit"


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("00004-policer", "known", "policer's rate, 1.09"),
        ("00131-mtu-hole", "dead", "outage: full-size packets vanished"),
        ("00027-small-sndbuf", "known", "the send buffer held 46.7 kB"),
        ("00191-deep-queue", "known", "minimum RTT of a data segment, 34.7 ms"),
        ("00009-random-loss", "lost", "lost: 4 segments"),
        ("00195-ecn", "marked", "ECN mark in 122 ACKs"),
    ],
)
def test_the_culprits_figure_shows_the_cause(name: str, kind: str, words: str, tmp_path: Path) -> None:
    write_report(read(RECORDED / name / "session"), tmp_path / "r.html")
    screen = first_screen(tmp_path / "r.html")
    assert screen.count(f'class="{kind}"') == 2, "in the picture and in its legend"
    assert words in parsed(screen).text


def test_data_that_were_lost_in_a_row_are_shown_as_such(tmp_path: Path) -> None:
    """In an outage of one way ACKs go on: readers took it for a full queue and a timer."""
    recording = read(RECORDED / "00167-outage-data" / "session")
    write_report(recording, tmp_path / "r.html")
    screen = first_screen(tmp_path / "r.html")
    said = parsed(screen).text
    assert "For 429 ms no data arrived, as in an outage: 88 segments in a row were lost" in said
    assert "88 segments lost in a row" in said
    assert "What would help: the part of the path that lost all data for a while; a faster link" in said
    assert "Bytes sent and acknowledged" in said
    assert screen.count('class="dead"') == 2, "in the picture and in its legend"


@pytest.mark.parametrize(
    "name", ["20121-competing-tcp", "20036-two-at-once", "00004-policer", "00190-short-queue", "33037-bursty-loss"]
)
def test_a_queue_a_policer_and_chance_lose_no_data_for_long(name: str) -> None:
    assert lost_run(explain(read(RECORDED / name / "session"))) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("00199-random-loss", "made congestion-window the limit"),
        ("30080-server-think", "of it 84 % thinking, 9 % round trips"),
        ("00101-pausing-reader", "of it 45 % closed"),
    ],
)
def test_shares_and_costs_of_one_thing_do_not_contradict(name: str, words: str, tmp_path: Path) -> None:
    """A fault cost less than the limit that it made; 94 % stood beside 84 % without a word."""
    write_report(read(RECORDED / name / "session"), tmp_path / "r.html")
    assert words in parsed(first_screen(tmp_path / "r.html")).text


@pytest.mark.parametrize(
    ("name", "party"),
    [
        ("30080-server-think", "application (server)"),
        ("00060-client-think", "application (client"),
        ("00134-steady-writes", "application (client, own pace)"),
    ],
)
def test_the_row_of_the_application_says_which_end_it_is(name: str, party: str, tmp_path: Path) -> None:
    write_report(read(RECORDED / name / "session"), tmp_path / "r.html")
    assert party in parsed(first_screen(tmp_path / "r.html")).text


def test_words_of_the_links_protocol_are_explained_where_they_stand(tmp_path: Path) -> None:
    write_report(read(SAMPLES / "fig11-fade"), tmp_path / "r.html")
    said = parsed(first_screen(tmp_path / "r.html")).text
    for words in ("stopped by its far end (xoff)", "repeating frames (arq)", "radio frames retransmitted (RLP)"):
        assert words in said


@pytest.mark.parametrize("name", ["00027-small-sndbuf", "00101-pausing-reader", "00191-deep-queue"])
def test_time_begins_with_zero_at_the_left_edge(name: str, tmp_path: Path) -> None:
    """Half a round trip before the first packet here the other end had begun the handshake."""
    write_report(read(RECORDED / name / "session"), tmp_path / "r.html")
    assert 'data-begin="0.000000"' in first_screen(tmp_path / "r.html")


def test_a_stretch_that_was_asked_for_is_the_axis(tmp_path: Path) -> None:
    recording = read(SAMPLES / "cellular_upload")
    zero = recording.captures[0].tables.first_ns or 0
    write_report(recording, tmp_path / "r.html", Request(from_ns=zero + 10 * NS_PER_S, to_ns=zero + 12 * NS_PER_S))
    assert 'data-begin="10.000000" data-end="12.000000"' in first_screen(tmp_path / "r.html")


@pytest.mark.parametrize(
    ("from_s", "to_s", "words"),
    [
        (10, 12, "show the part between --from and --to, 10.000 s to 12.000 s.<"),
        (17.1, 17.11, "17.110 s. No data segment was captured in it.<"),
        (100, 200, "none of its packets lies between --from and --to.<"),
    ],
)
def test_a_part_that_was_asked_for_is_not_what_the_answer_is_of(
    from_s: float, to_s: float, words: str, tmp_path: Path
) -> None:
    recording = read(SAMPLES / "cellular_upload")
    zero = recording.captures[0].tables.first_ns or 0
    asked = Request(from_ns=zero + round(from_s * NS_PER_S), to_ns=zero + round(to_s * NS_PER_S))
    write_report(recording, tmp_path / "r.html", asked)
    screen = first_screen(tmp_path / "r.html")
    assert '<p class="asked">The answer and its numbers describe the whole transfer' in screen
    assert words in screen


def test_a_part_that_holds_all_needs_no_words(report: Path, tmp_path: Path) -> None:
    recording = read(SAMPLES / "cellular_upload")
    zero = recording.captures[0].tables.first_ns or 0
    write_report(recording, tmp_path / "r.html", Request(from_ns=zero, to_ns=zero + 100 * NS_PER_S))
    for path in (report, tmp_path / "r.html"):
        assert 'class="asked"' not in first_screen(path)


@pytest.mark.parametrize("name", ["fig8-resets-vj", "fig10-exhaustion"])
def test_the_sum_of_the_time_names_nothing_twice(name: str, tmp_path: Path) -> None:
    write_report(read(SAMPLES / name), tmp_path / "r.html")
    said = re.search(r"The other [^<]*", first_screen(tmp_path / "r.html"))
    assert said is not None
    assert said[0].count("recovery") == 1


@pytest.mark.parametrize("length_s", [1e-9, 1e-6, 0.5, 27.5, 280, 4_000, 90_000, 3.2e8])
def test_any_length_of_time_has_a_few_ticks(length_s: float) -> None:
    row = times(TimeAxis(0, max(round(length_s * NS_PER_S), 1), 0))
    places = [float(place) for place in re.findall(r"left:([-\d.]+)%", row)]
    assert 1 <= len(places) == row.count("<span") <= 12
    assert all(0 <= place <= 100 for place in places)


def test_of_many_marks_some_are_drawn_all_over_the_row() -> None:
    axis = TimeAxis(0, 10_000, 0)
    drawn = axis.spread((at, at, str(at)) for at in range(10_000))
    assert 300 < len(drawn) <= 401
    assert drawn[-1][0] > 9_900


def test_a_single_far_sample_does_not_squash_the_others() -> None:
    rtt = np.full(1_000, NS_PER_S // 20)
    rtt[500] = 60 * NS_PER_S
    samples = Series("TcpSnd_rtt", "rtt", np.arange(1_000) * NS_PER_S, rtt)
    levels, picture = static(
        Panel("rtt", "Round-trip time", SECONDS, 1, [samples]), TimeAxis(0, 1_000 * NS_PER_S, 0), ("rtt",), label="rtt"
    )
    assert "60 ms" in levels
    assert "M500 2h0" in picture, "it is drawn at the upper edge"


@pytest.mark.browser
@pytest.mark.parametrize(("width", "height", "screens"), [(1440, 900, 1), (390, 844, 2)])
def test_the_answer_fits_the_first_screen(
    browser: Browser, report: Path, width: int, height: int, screens: int
) -> None:
    browser.resize(width, height, mobile=width < 600)
    browser.open(report)
    end = browser.evaluate("document.querySelector('.times').getBoundingClientRect().bottom")
    assert end <= screens * height
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate("[...document.querySelectorAll('details.fold')].every((each) => !each.open)")
    heights = browser.evaluate("[...document.querySelectorAll('.first button')].map((each) => each.offsetHeight)")
    assert width > 640 or min(height for height in heights if height) >= 44
    assert browser.complaints == []


@pytest.fixture(scope="module")
def typical(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of 28 minutes, of which an outage took 0.1 %."""
    path = tmp_path_factory.mktemp("typical") / "report.html"
    write_report(read(SAMPLES / "typical-1450k"), path)
    return path


@pytest.mark.browser
def test_an_outage_of_a_thousandth_of_the_time_can_be_seen(browser: Browser, typical: Path) -> None:
    """The legend named a colour that was nowhere in the panel: a band of 0.1 % is narrower than a pixel."""
    browser.open(typical)
    stroke, stroke_px, effect, width = browser.evaluate(
        "((band, look) => [look.stroke, look.strokeWidth, look.vectorEffect, band.getBoundingClientRect().width])"
        "(document.querySelector('.track .dead'), getComputedStyle(document.querySelector('.track .dead')))"
    )
    assert "outage: the path was interrupted" in typical.read_text("utf-8")
    assert width < 2
    assert stroke != "none"
    assert (stroke_px, effect) == ("1px", "non-scaling-stroke")


@pytest.mark.browser
def test_the_figure_writes_times_as_the_first_screen_does(browser: Browser, typical: Path) -> None:
    browser.open(typical)
    browser.evaluate("document.getElementById('figure').open = true")
    browser.evaluate("window.report.then((shown) => shown.look(65, 125.5))")
    assert "1:05.000 to 2:05.500: " in browser.evaluate("document.querySelector('.figure .status').textContent")


@pytest.mark.browser
@pytest.mark.parametrize("name", ["damaged", "fade-n2-20", "fig10-exhaustion"])
def test_on_a_phone_a_long_value_leaves_room_for_the_name_of_its_row(
    browser: Browser, name: str, tmp_path: Path
) -> None:
    """Names were broken into single letters, one below the other."""
    write_report(read(SAMPLES / name), tmp_path / "r.html")
    browser.resize(390, 844, mobile=True)
    browser.open(tmp_path / "r.html")
    highest = browser.evaluate(
        "Math.max(...[...document.querySelectorAll('.tracks .name:not(.culprit)')].map(n => n.offsetHeight))"
    )
    assert highest <= 50, "two lines"
    assert browser.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.browser
def test_a_finding_is_marked_in_the_lanes_and_the_figure(browser: Browser, report: Path) -> None:
    browser.resize(1440, 900)
    browser.open(report)
    browser.evaluate("window.report.then(() => true)")
    browser.evaluate("document.querySelectorAll('.marks')[1].click()")
    mark, bar = browser.evaluate(
        "[document.querySelector('.over .mark'), document.querySelectorAll('.bars .incident')[1]].map("
        "(each) => each.getBoundingClientRect().x)"
    )
    assert mark == pytest.approx(bar, abs=3)
    assert "No packet arrived" in browser.evaluate("document.querySelector('.marked').textContent")
    browser.evaluate("document.querySelectorAll('.marks')[1].click()")
    assert browser.evaluate("document.querySelector('.over .mark').hidden") is True


@pytest.mark.browser
def test_a_link_to_a_section_opens_it(browser: Browser, report: Path) -> None:
    browser.open(f"{report.as_uri()}#connections")
    assert browser.evaluate("document.querySelector('#connections').open")
    assert not browser.evaluate("document.querySelector('#provenance').open")
    browser.evaluate("document.querySelector('#figure').open = true")
    browser.evaluate("window.report.then(() => new Promise((drawn) => setTimeout(drawn, 500)))")
    assert browser.evaluate("location.hash") == "#connections", "the address still leads here"
    browser.open(f"{report.as_uri()}#%E0%A4%A")
    assert browser.complaints == []
