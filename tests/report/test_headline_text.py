"""The words of the first screen: what made the limit, what it cost, and what would help."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from multitracer.diagnosis.diagnose import explain
from multitracer.diagnosis.limits.names import Limit
from multitracer.recording.read import read
from multitracer.report.headline_text import headline_text
from multitracer.report.write import write_report
from tests.conftest import SAMPLES
from tests.report.test_first_screen import RECORDED, first_screen
from tests.report.test_markup import parsed

if TYPE_CHECKING:
    from pathlib import Path


def test_help_speaks_of_a_cell_only_where_a_log_shows_a_radio() -> None:
    found = explain(read(SAMPLES / "cellular_upload"))
    wired = explain(read(RECORDED / "00191-deep-queue" / "session"))
    radio = explain(read(SAMPLES / "rehearsed-drive"))
    assert not found.transfer.radio
    assert radio.transfer.radio
    assert {each.headline.limit for each in (found, wired, radio)} == {Limit.LINK}
    assert ["cell" in each.headline.help for each in (found, wired, radio)] == [False, False, True]


@pytest.mark.parametrize(
    ("recording", "has_radio"),
    [(RECORDED / "00090-outage-both" / "session", False), (SAMPLES / "rehearsed-drive", True)],
)
def test_help_of_an_outage_or_a_full_link_names_a_radio_only_if_one_was_seen(
    recording: Path, *, has_radio: bool
) -> None:
    found = explain(read(recording))
    assert found.transfer.has_radio == has_radio
    told = [each for each in found.findings if each.kind in ("blackout", "outage", "link-limited")]
    assert len(told) >= 2
    for each in told:
        assert bool(re.search("radio|cover|cell", each.help)) == has_radio, each.help


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        (
            "00004-policer",
            "The link limited it: a policer let no more through than 1.09 Mbit/s with headers (95 % of 8.9 s",
        ),
        ("00195-ecn", "A router's ECN marks slowed the sender down 19 times (measured). So the limit was"),
        ("00191-deep-queue", "The link limited it, at 2.56 Mbit/s (99 % of 7.3 s, measured); no other cause"),
        (
            "00090-outage-both",
            "The path was dead both ways for at least 5.18 s; the timer had backed off, and tried again only",
        ),
        (
            "00009-random-loss",
            "4 of 373 segments were lost (why is not known, but hardly in a full queue: none waited longer",
        ),
        ("00164-heavy-loss", "33 packets were lost by chance, not by a full queue (inferred). So the limit"),
        ("00167-outage-data", "For 429 ms no data arrived, as in an outage: 88 segments in a row"),
        ("00034-unanswered", "The connection was never opened: "),
        ("00027-small-sndbuf", "Mostly the send buffer"),
    ],
)
def test_the_large_sentence_begins_with_what_made_the_limit(name: str, begin: str) -> None:
    """It is asserted only where a finding explains the limit, and says how sure that is.

    Two readers named all causes right, but were not sure where a symptom stood first.
    """
    assert headline_text(explain(read(RECORDED / name / "session"))).startswith(begin)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("00190-short-queue", "400 kB at the link's 710 kbit/s take 4.51 s; the transfer took 4.61 s."),
        ("00004-policer", "1.09 MB at the policer's 1.09 Mbit/s take 8.04 s; the transfer took 8.92 s."),
        ("00090-outage-both", "1.03 MB at the link's 1.3 Mbit/s take 6.37 s; the transfer took 17 s, 10.7 s longer."),
        ("30002-small-wmem", "24.1 kB in each round trip of 253 ms are 764 kbit/s."),
        ("30020-rate-step", ""),
        ("00062-slow-reader", "135 kB at the link's 3.77 Mbit/s take 287 ms; the transfer took 2.57 s, 2.29 s longer."),
    ],
)
def test_the_arithmetic_of_a_rate_or_a_buffer_is_told_where_it_is_known(name: str, words: str, tmp_path: Path) -> None:
    write_report(read(RECORDED / name / "session"), tmp_path / "r.html")
    minimum = re.search(r'<p class="least">(.*?)</p>', first_screen(tmp_path / "r.html"))
    assert minimum is not None
    assert parsed(minimum[1]).text == words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("00191-deep-queue", "50 of 1,633 data segments; retransmitting them cost no time"),
        ("00062-slow-reader", "11 of 106 data segments; retransmitting them cost at most 15"),
        ("00164-heavy-loss", "33 of 495 data segments</small>"),
    ],
)
def test_losses_that_cost_next_to_nothing_are_told_to(name: str, words: str, tmp_path: Path) -> None:
    write_report(read(RECORDED / name / "session"), tmp_path / "r.html")
    assert words in first_screen(tmp_path / "r.html")


def test_help_against_a_queue_says_that_it_saves_others_and_no_time(tmp_path: Path) -> None:
    write_report(read(RECORDED / "00191-deep-queue" / "session"), tmp_path / "r.html")
    said = parsed(first_screen(tmp_path / "r.html")).text
    assert "for everybody who uses it. It cost this transfer no time." in said
    assert "less other traffic on it; to reduce the delay, which slows other and interactive traffic: a sh" in said


def test_a_fade_and_the_stops_of_a_link_name_each_other_and_each_stop_is_a_bar(tmp_path: Path) -> None:
    write_report(read(SAMPLES / "fade-n2-20"), tmp_path / "r.html")
    screen = first_screen(tmp_path / "r.html")
    said = parsed(screen).text
    assert "measured): the radio carries 9.59 kbit/s, and its far end stopped it for 12.1 s (xoff)" in said
    assert "At the same time the radio failed for a while (rlp-retransmission-burst)." in said
    assert "to avoid lost frames: a better place, antenna or cell" in said
    assert screen.count('title="link-flow-control, ') >= 9


@pytest.mark.parametrize(("name", "has_room"), [("00195-ecn", False), ("00009-random-loss", True)])
def test_a_path_with_marks_had_no_room(name: str, *, has_room: bool) -> None:
    found = explain(read(RECORDED / name / "session"))
    assert found.headline.limit is Limit.CONGESTION_WINDOW
    assert ("though the path seemed to have room" in found.headline.sentence) == has_room


def test_a_short_fade_of_the_radio_is_told() -> None:
    """5 % of the time: the headline does not speak of it, but it is what happened to the link."""
    said = headline_text(explain(read(SAMPLES / "fade-n2-20")))
    assert said.endswith(" For 4.0 s the path was interrupted: the radio lost frames (a fade, or interference).")


@pytest.mark.parametrize(
    ("recording", "words"),
    [
        (
            RECORDED / "00053-outage-data" / "session",
            "no data arrived for 6.2 s, from 3.9 s to 10.1 s (51 % of 12.3 s, 23 % to 52 %).",
        ),
        (RECORDED / "00195-ecn" / "session", "for 3.2 s (at most 61 % of 5.3 s)."),
        (RECORDED / "00101-pausing-reader" / "session", "(45 % of 3.7 s, measured), the limit for 70 % in all."),
        (RECORDED / "30080-server-think" / "session", "typically 0.26 s each (84 % of 7.4 s, measured)."),
        (
            SAMPLES / "typical-1450k",
            "(99 % of 28 min 41 s, measured): the radio carries 9.6 kbit/s, and its far end stopped it for",
        ),
        (SAMPLES / "fig11-fade", "(86 % of 26.0 s, measured): the radio carries 9.57 kbit/s."),
    ],
)
def test_a_share_is_told_with_its_bounds_its_whole_and_its_rate(recording: Path, words: str) -> None:
    """The word "weak" behind a cause that was measured, and 48 % above a row of 94 %, made readers unsure."""
    assert words in headline_text(explain(read(recording)))


def test_a_link_without_a_long_queue_is_shown_by_its_rate(tmp_path: Path) -> None:
    """Round trips of a short queue looked like a fault, and did not prove the answer."""
    write_report(read(RECORDED / "00190-short-queue" / "session"), tmp_path / "r.html")
    said = parsed(first_screen(tmp_path / "r.html")).text
    assert "Rate of the delivered data" in said
    assert "link's rate, 710 kbit/s" in said


def test_the_legend_has_no_window_that_lies_above_the_picture(tmp_path: Path) -> None:
    for name, there in (("00195-ecn", False), ("30002-small-wmem", True)):
        write_report(read(RECORDED / name / "session"), tmp_path / "r.html")
        assert ("advertised window" in first_screen(tmp_path / "r.html")) == there


def test_the_log_of_a_link_tells_what_it_can_carry(tmp_path: Path) -> None:
    write_report(read(SAMPLES / "fig11-fade"), tmp_path / "r.html")
    said = (
        "The link can carry 9.57 kbit/s by its log, headers included: 20 kB alone take 16.7 s; the transfer"
        " took 26 s. The other 9.26 s: 2.88 s stopped by its far end (xoff), 1.36 s application, 1.2 s"
        " outage, 640 ms repeating frames (arq), 599 ms handshake, 2.58 s headers and the rest."
    )
    assert said in parsed(first_screen(tmp_path / "r.html")).text


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("00004-policer", ("link (policer)", "a policer let no more through")),
        ("00199-random-loss", ("made by random-loss",)),
        ("00100-slow-reader", ("The receiving program read more slowly than data came", "So the limit was")),
        ("00191-deep-queue", ("Side effect, bufferbloat",)),
    ],
)
def test_a_row_and_the_sentence_name_the_cause_and_not_its_mechanism_alone(
    name: str, says: tuple[str, ...], tmp_path: Path
) -> None:
    """Two readers missed it in the name of the largest row, and read a side effect as a second cause."""
    write_report(read(RECORDED / name / "session"), tmp_path / "r.html")
    shown = parsed(first_screen(tmp_path / "r.html")).text
    assert all(words in shown for words in says)


def test_the_queue_has_no_hole_while_it_empties_and_the_sender_waits(tmp_path: Path) -> None:
    """By the time of sending three holes of 7 s looked like stalls beside a link that was full for 96 %."""
    write_report(read(SAMPLES / "download" / "mobile"), tmp_path / "r.html")
    dots = max(re.findall(r'<path d="((?:M\d+ \d+h0)+)"', first_screen(tmp_path / "r.html")), key=len)
    x = sorted(int(each) for each in re.findall(r"M(\d+) ", dots))
    assert max(after - before for before, after in pairwise(x)) * 120 / 1000 < 2  # s


@pytest.mark.fixtures
def test_no_speed_is_told_over_a_step_of_the_clock(fixture_folder: Path, tmp_path: Path) -> None:
    """1.71 MB in 0.98 s by a clock that was set by 7.3 s meanwhile."""
    recording = read(fixture_folder / "reports" / "step_fwd_7s.pcap.gz")
    write_report(recording, tmp_path / "step.html")
    screen = first_screen(tmp_path / "step.html")
    assert "no speed: the capture" in screen
    assert "Mbit/s" not in screen.partition("Rate of the delivered data")[0]
