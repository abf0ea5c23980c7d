"""Each fault of a clock is found in a file that has it, and in none that has not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest

import parsers
from multitracer.clock.doctor.examination import compare, compare_spans, examine
from multitracer.clock.doctor.faults import Stamps
from multitracer.clock.model.estimate import Estimate
from multitracer.clock.model.relation import Clock, Relation
from multitracer.errors import MultiTracerError
from multitracer.tables import NOT_A_TIME
from tests.clock.restamp import MS, S, restamp, stamps_of
from tests.conftest import SAMPLES
from tests.recording.captures import Conversation, write_conversations

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from multitracer.capture import CaptureTables
    from multitracer.clock.doctor.faults import Complaint
    from multitracer.tables import Times

MOBILE = SAMPLES / "cellular_upload" / "mobile" / "tcp-0.pcap.gz"
FIXED = SAMPLES / "cellular_upload" / "fixed" / "tcp-0.pcap.gz"
NOW = int(datetime(2026, 11, 12, 9, 19, 2, tzinfo=UTC).timestamp()) * S


def stamps(path: Path) -> Stamps:
    return Stamps.of_capture(path.name, parsers.read_capture([path]))


@pytest.fixture
def faulty(tmp_path: Path) -> Callable[..., Stamps]:
    """Return a function that writes the sample's capture with other stamps and reads it."""

    def make(change: Callable[[Times], Times], *, source: Path = MOBILE, **how: bool) -> Stamps:
        return stamps(restamp(source, tmp_path / "faulty.pcap", change, **how))

    return make


def only(found: list[Complaint], code: str) -> Complaint:
    assert [complaint.code for complaint in found] == [code]
    return found[0]


# --- one log by itself ---


def test_whole_seconds(faulty: Callable[..., Stamps]) -> None:
    log = faulty(lambda t: t // S * S)
    complaint = only(examine(log), "whole-seconds")
    raw = log.time_ns.copy()
    repaired = complaint.repaired(log.time_ns)
    truth = stamps_of(MOBILE)
    assert np.abs(repaired - truth).max() < S
    assert np.abs(repaired - truth).mean() < np.abs(raw - truth).mean() / 2
    assert (np.diff(repaired) > 0).all()
    assert (log.time_ns == raw).all()  # the raw stamp is kept


@pytest.mark.parametrize("step_s", [2.0, 0.05])
def test_a_clock_that_was_set_back(faulty: Callable[..., Stamps], step_s: float) -> None:
    log = faulty(lambda t: t - round(step_s * S) * (np.arange(len(t)) > 3000))
    complaint = only(examine(log), "steps-back")
    said = complaint.sentence.split("by up to ")[1]
    assert float(said.split(" s")[0]) == pytest.approx(step_s, abs=0.02)
    assert said.endswith("(before record 3,002)")
    repaired = complaint.repaired(log.time_ns)
    assert np.abs(repaired - stamps_of(MOBILE)).max() < 20 * MS
    assert (np.diff(repaired) >= 0).all()


IN_ORDER = [(ahead_ms, False) for ahead_ms in (-5000, -300, -5, 5, 300, 5000)]
SORTED = [(ahead_ms, True) for ahead_ms in (-5000, -300, 300, 5000)]
"""Sorted by time, nothing shows what is less than the round trip."""


@pytest.mark.parametrize(("ahead_ms", "order"), IN_ORDER + SORTED)
def test_one_clock_per_direction(faulty: Callable[..., Stamps], ahead_ms: int, order: bool) -> None:
    back = from_server(parsers.read_capture([MOBILE]))
    log = faulty(lambda t: t + np.where(back, ahead_ms * MS, 0), order=order)
    complaint = only(examine(log), "direction-clocks")
    said = float(complaint.sentence.split("about ")[1].split(" ms")[0].replace(",", ""))
    assert said == pytest.approx(abs(ahead_ms), abs=60 if order else 3)
    shifted = complaint.repaired(log.time_ns) - log.time_ns
    assert log.capture is not None
    ahead = from_server(log.capture) == (ahead_ms > 0)
    assert (shifted[ahead] < 0).all()
    assert (shifted[~ahead] == 0).all()


def from_server(capture: CaptureTables) -> np.ndarray:
    flow = capture.segments["flow"]
    ports = np.stack([capture.flows[name][flow >> 1] for name in ("port_a", "port_b")], axis=1)
    return ports[np.arange(len(flow)), flow & 1] == 5001


def test_a_saw_tooth_as_dlf_readers_make_it(faulty: Callable[..., Stamps]) -> None:
    """The part below 20 ms taken for a fraction of a second (the DLF formula of QCSuper)."""
    log = faulty(lambda t: t // (20 * MS) * (20 * MS) + t % (20 * MS) * 46)
    complaint = only(examine(log), "saw-tooth")
    repaired = complaint.repaired(log.time_ns)
    assert (np.diff(repaired) >= 0).all()
    truth = stamps_of(MOBILE)
    assert np.abs(repaired - truth).mean() < np.abs(log.time_ns - truth).mean()


def test_a_clock_that_gains_and_is_reset_is_a_saw_tooth(faulty: Callable[..., Stamps]) -> None:
    log = faulty(lambda t: t + (t - t[0]) % (2 * S) // 20)
    only(examine(log), "saw-tooth")


def test_stamps_that_are_missing_stay_missing() -> None:
    time_ns = NOW + np.repeat(np.arange(20), 5) * S
    time_ns[7] = NOT_A_TIME
    complaint = only(examine(Stamps("log", time_ns)), "whole-seconds")
    assert complaint.repaired(time_ns)[7] == NOT_A_TIME


@pytest.mark.parametrize("path", [MOBILE, FIXED], ids=["mobile", "fixed"])
def test_the_samples_are_sound(path: Path) -> None:
    assert examine(stamps(path)) == []


def test_packets_that_a_capture_mixes_a_little_are_sound(faulty: Callable[..., Stamps]) -> None:
    """Several capture queues: neighbours change places, stragglers come late; no clock moved."""

    def mixed(t: Times) -> Times:
        random = np.random.default_rng(5)
        return t - np.where(random.random(len(t)) < 0.2, random.integers(0, 9 * MS, len(t)), 0)

    assert examine(faulty(mixed)) == []


def test_a_few_stragglers_are_sound(faulty: Callable[..., Stamps]) -> None:
    late = np.array([500, 1500, 4000])
    assert examine(faulty(lambda t: t - 300 * MS * np.isin(np.arange(len(t)), late))) == []


@pytest.mark.fixtures
def test_no_fault_is_seen_in_captures_of_other_projects(fixture_folder: Path) -> None:
    examined, found = 0, []
    for path in sorted(p for p in fixture_folder.rglob("*") if p.is_file()):
        try:
            log = stamps(path)
        except MultiTracerError:
            continue
        examined += len(log.time_ns) > 20
        found += [(path.name, complaint.sentence) for complaint in examine(log)]
    assert examined > 100
    assert found == []


# --- one log against another ---


def related(offset_s: float, *, error_s: float = 0.001, at_ns: int = NOW) -> list[Complaint]:
    estimate = Estimate(
        at_ns, at_ns + 60 * S, round(offset_s * S), 0.0, error_s * S, 1.0, "two captures", 100
    )  # fmt: skip
    relation = Relation(Clock("fixed"), Clock("mobile"), (estimate,))
    return compare(relation, source="mobile", reference="fixed")


DAY = 86_400.0
FAULTS = [
    (37.02, "tai", -37, "mobile"),
    (-36.9, "tai", -37, "fixed"),
    (18.2, "gps", -18, "mobile"),
    (-18.0, "gps", -18, "fixed"),
    (-315_964_800.4, "gps-epoch", 315_964_800, "mobile"),
    (315_964_782.1, "gps-epoch", 315_964_782, "fixed"),
    (3600.7, "time-zone", -3600, "mobile"),
    (-19_800.2, "time-zone", 19_800, "mobile"),
    (20_700.0, "time-zone", -20_700, "mobile"),
    (29 * DAY + 0.3, "day-month", -29 * DAY, "mobile"),
    (365 * DAY, "year", -365 * DAY, "mobile"),
    (-365 * DAY - 1.2, "year", 365 * DAY, "mobile"),
    (-20454 * DAY, "year", 20454 * DAY, "mobile"),
]


@pytest.mark.parametrize(("offset_s", "code", "shift_s", "source"), FAULTS)
def test_scales_zones_and_calendars(offset_s: float, code: str, shift_s: float, source: str) -> None:
    complaint = only(related(offset_s), code)
    assert (complaint.source, complaint.shift_ns) == (source, round(shift_s * S))
    raw = np.array([NOW, NOT_A_TIME])
    assert complaint.repaired(raw).tolist() == [NOW + round(shift_s * S), NOT_A_TIME]
    left = offset_s + shift_s if source == "mobile" else -offset_s + shift_s
    assert abs(left) < 2


@pytest.mark.parametrize("offset_s", [0, 0.8, -2.4, 12.7, 17, 19.5, 36, 38.2, 30, 62, 893, 907, 2 * DAY, 400 * DAY])
def test_any_other_difference_is_no_fault(offset_s: float) -> None:
    assert related(offset_s) == []


def test_a_difference_that_is_hardly_known_says_nothing() -> None:
    assert related(37, error_s=3) == []
    assert related(900, error_s=400) == []


def test_a_virtual_run_of_the_year_2000_may_still_be_37_seconds_ahead() -> None:
    then = int(datetime(2000, 1, 1, tzinfo=UTC).timestamp()) * S
    only(related(37, at_ns=then), "tai")
    only(related(32, at_ns=then), "tai")
    assert related(32) == []


def test_a_clock_that_drifts_and_is_set_again_and_again_is_a_saw_tooth() -> None:
    teeth = [
        Estimate(NOW + i * 64 * S, NOW + (i * 64 + 63) * S, 0, 50.0, 1e5, 0.1, "two captures", 50)
        for i in range(6)
    ]  # fmt: skip
    relation = Relation(Clock("fixed"), Clock("mobile"), tuple(teeth))
    only(compare(relation, source="mobile", reference="fixed"), "saw-tooth")
    steps = Relation(Clock("fixed"), Clock("mobile"), (teeth[0], *(e for e in teeth[2:4])))
    assert compare(steps, source="mobile", reference="fixed") == []


def test_logs_of_one_session_that_nothing_relates_are_compared_by_when_they_were_made() -> None:
    mobile = Stamps("mobile", NOW + np.arange(0, 600, 5) * S)
    radio = Stamps("radio", NOW + (np.arange(3, 640, 5) + 7200) * S)
    assert only(compare_spans(radio, mobile), "time-zone").shift_ns == -7200 * S
    epoch = Stamps("gps", NOW + (np.arange(3, 640, 5) - 315_964_800) * S)
    assert only(compare_spans(epoch, mobile), "gps-epoch").shift_ns == 315_964_800 * S
    for sound in (radio.time_ns - 7200 * S, radio.time_ns - 7100 * S, radio.time_ns[:20]):
        assert compare_spans(Stamps("radio", sound), mobile) == []
    assert compare_spans(Stamps("none", np.array([NOT_A_TIME])), mobile) == []


def test_a_small_capture_is_not_judged(tmp_path: Path) -> None:
    assert examine(stamps(write_conversations(tmp_path / "a.pcap", Conversation(segments=2)))) == []
