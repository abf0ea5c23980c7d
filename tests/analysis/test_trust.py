"""Each thing that makes captures lie is noticed, counted and said; a clean capture is called good."""

from __future__ import annotations

import inspect
import re
from itertools import pairwise
from math import gcd
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from multitracer.analysis import analyse, trust
from multitracer.captured import CaptureInterface, CaptureMark
from parsers import read_capture
from tests.analysis.traffic import MS, START_NS, SYN, Segment, capture, handshake

if TYPE_CHECKING:
    from multitracer.analysis.trust import Note, Trust

C, S = 1001, 5001
RECORDED = Path(__file__).parents[2] / "sample_traces"


def data(offset: int, size: int = 100, **how: Any) -> Segment:
    return Segment(0, C + offset, size, ack=S, **how)


def ack(offset: int, **how: Any) -> Segment:
    return Segment(1, S, ack=C + offset, **how)


CLEAN = [*handshake(), *(s for i in range(20) for s in (data(100 * i), ack(100 * i + 100)))]


def judged(segments: list[Segment], **facts: Any) -> tuple[str, dict[str, Note]]:
    """Return the verdict and the notes by their codes."""
    found = analyse(capture(segments, **facts)).trust
    assert len({note.code for note in found.notes}) == len(found.notes)
    return found.verdict, {note.code: note for note in found.notes}


def test_a_clean_capture_is_good() -> None:
    assert judged(CLEAN) == ("good", {})


def test_the_bundled_session_is_good(sample_sender: Path, sample_receiver: Path) -> None:
    for path in (sample_sender, sample_receiver):
        assert analyse(read_capture([path])).trust.verdict == "good"


@pytest.mark.parametrize(
    ("facts", "code", "count", "verdict"),
    [
        ({"damaged": "cut at byte 90"}, "damaged-file", 1, "caution"),
        ({"interfaces": [CaptureInterface(1, dropped_packets=1)] * 2}, "kernel-drops", 2, "poor"),
        ({"not_decoded": {"link type 182": 40}}, "not-decoded", 40, "poor"),
        ({"without_time": 3}, "no-time", 3, "poor"),
        ({"time_steps_back": 5, "largest_step_back_ns": 3_000}, "time-backwards", 5, "good"),
        ({"time_steps_back": 5, "largest_step_back_ns": 30 * MS}, "time-backwards", 5, "caution"),
        ({"time_steps_back": 1, "largest_step_back_ns": 5000 * MS}, "time-backwards", 1, "poor"),
        ({"expansion_ratio": 1032.0}, "compression-bomb", 1, "caution"),
    ],
)
def test_facts_of_a_file_become_notes_that_name_it(facts: dict[str, Any], code: str, count: int, verdict: str) -> None:
    said, notes = judged(CLEAN, **facts)
    assert (said, notes[code].count, notes[code].file) == (verdict, count, "made.pcap")
    assert notes[code].sentence.endswith((".", "missing"))


@pytest.mark.parametrize(
    ("mark", "code"),
    [
        (CaptureMark.HEADER_CUT, "headers-cut"),
        (CaptureMark.LENGTH_FROM_CAPTURE, "ip-length-zero"),
        (CaptureMark.BAD_LENGTH, "bad-length"),
        (CaptureMark.FRAGMENT, "fragments"),
    ],
)
def test_how_a_segment_was_captured_is_said(mark: CaptureMark, code: str) -> None:
    verdict, notes = judged([*CLEAN, data(2000, marks=int(mark))])
    assert (verdict, notes[code].count) == ("caution", 1)


def test_packets_captured_twice_are_noticed() -> None:
    doubled = [s for i in range(10) for s in [data(100 * i, ip_id=i + 1)] * 2]
    verdict, notes = judged([*handshake(), *doubled])
    assert (verdict, notes["captured-twice"].count) == ("poor", 10)


def test_acks_of_data_that_was_never_captured_are_noticed() -> None:
    verdict, notes = judged([*CLEAN, data(2100), ack(2200)])
    assert notes["ack-of-unseen-data"].count == 1
    assert "100 bytes" in notes["ack-of-unseen-data"].sentence
    assert verdict == "caution"


def test_acks_captured_before_their_data_are_noticed() -> None:
    verdict, notes = judged([*CLEAN, ack(2100), data(2000)])
    assert (verdict, notes["ack-before-data"].count) == ("caution", 1)


def test_a_capture_that_began_too_late_is_noticed() -> None:
    verdict, notes = judged(CLEAN[3:])
    assert (verdict, notes["missing-syn"].count) == ("caution", 1)


def test_little_that_began_before_the_capture_does_not_spoil_it() -> None:
    verdict, notes = judged([Segment(0, 5, 10, pair=1), Segment(1, 9, ack=15, pair=1), *CLEAN])
    assert (verdict, notes["missing-syn"].count) == ("good", 1)


def test_a_one_sided_capture_is_noticed() -> None:
    verdict, notes = judged([s for s in CLEAN if s.side == 0])
    assert (verdict, notes["one-sided"].count) == ("caution", 1)


def test_syns_that_nobody_answers_are_not_one_sided() -> None:
    assert judged([Segment(0, 5, flags=SYN, pair=i) for i in range(9)]) == ("good", {})


def test_segments_larger_than_the_mss_are_noticed() -> None:
    begun = handshake()
    accepts = Segment(**(begun[1].__dict__ | {"options": {"mss": 1460}}))
    verdict, notes = judged([begun[0], accepts, begun[2], data(0, 14600), ack(14600)])
    assert (verdict, notes["offload"].count) == ("caution", 1)


def test_large_segments_that_the_receiver_accepts_are_fine() -> None:
    begun = handshake()
    accepts = Segment(**(begun[1].__dict__ | {"options": {"mss": 8960}}))
    assert judged([begun[0], accepts, begun[2], data(0, 8960), ack(8960)])[0] == "good"


def stamped(steps_ms: dict[int, int]) -> list[Segment]:
    """Return a transfer whose capture clock steps before the n-th segment; timestamps tick at 100 Hz."""
    segments, shift = [], 0
    for i in range(60):
        shift += steps_ms.get(i, 0)
        time_ns = START_NS + (i * 50 + shift) * MS
        segments.append(data(100 * i, time_ns=time_ns, stamp=(i * 5, 0)))
        segments.append(ack(100 * i + 100, time_ns=time_ns + MS, stamp=(0, i * 5)))
    return segments


def test_a_step_of_the_clock_is_told_by_the_timestamps_of_a_sender() -> None:
    assert "clock-step" not in judged(stamped({}))[1]
    verdict, notes = judged(stamped({30: 37_000}))
    assert (verdict, notes["clock-step"].count) == ("poor", 1)
    assert "+37.0" in notes["clock-step"].sentence
    assert "(± 10 ms, a tick of the TCP timestamps)" in notes["clock-step"].sentence
    back = judged(stamped({20: 5000, 40: -9000}))[1]["clock-step"]
    assert back.count == 2
    assert "-9.0" in back.sentence


@pytest.mark.parametrize(("rate_hz", "tick"), [(1000, "1.0 ms"), (250, "4.0 ms"), (10, "100 ms"), (1, "1.0 s")])
def test_the_error_of_a_step_is_a_tick_of_the_timestamps(rate_hz: int, tick: str) -> None:
    segments, now_ns = [], START_NS
    for i in range(120):
        now_ns += 400 * MS + 20_000 * MS * (i == 70)
        value = 7 + (400 * i * rate_hz) // 1000
        segments.append(data(100 * i, time_ns=now_ns, stamp=(value, 0)))
        segments.append(ack(100 * i + 100, time_ns=now_ns + MS, stamp=(0, value)))
    step = judged(segments)[1]["clock-step"]
    size, error = re.search(r"by \+([\d.]+) s at most \(± (.*?), a tick", step.sentence).groups()  # type: ignore[union-attr]
    assert error == tick
    assert abs(float(size) - 20) <= 1.001 / rate_hz


def test_a_pause_of_the_sender_is_no_step_of_the_clock() -> None:
    segments = stamped({})
    late = [
        Segment(**(s.__dict__ | {"time_ns": s.time_ns + 60_000 * MS, "stamp": (s.stamp[0] + 6000, 0)}))
        for s in stamped({})
        if s.side == 0 and s.time_ns is not None and s.stamp
    ]
    assert "clock-step" not in judged([*segments, *late])[1]


def test_round_trips_below_zero_are_noticed() -> None:
    back = [data(0, time_ns=START_NS + 9 * MS), ack(100, time_ns=START_NS)]
    assert judged(back)[1]["negative-rtt"].count == 1
    directions = analyse(capture(back)).directions
    assert directions["rtt_count"].tolist() == [0, 0]
    assert directions["negative_rtts"].tolist() == [1, 0]


def test_the_worst_reason_comes_first_and_decides() -> None:
    verdict, notes = judged([s for s in CLEAN if s.side == 0], without_time=9)
    assert verdict == "poor"
    assert list(notes) == ["no-time", "one-sided"]


def test_a_deep_queue_that_drains_is_no_step_of_the_clock() -> None:
    """Segments stamped at 100 Hz leave a queue half a second apart; it fills, and drains while TCP pauses."""
    segments, sent_ms, seen_ms = [], 0, 0
    for i in range(200):
        sent_ms += 3000 if i % 40 == 0 else 420
        seen_ms = max(seen_ms + 450, sent_ms)
        segments.append(data(100 * i, time_ns=START_NS + seen_ms * MS, stamp=(sent_ms // 10, 0)))
        segments.append(ack(100 * i + 100, time_ns=START_NS + (seen_ms + 1) * MS, stamp=(0, sent_ms // 10)))
    assert "clock-step" not in judged(segments)[1]


def test_the_rate_of_a_sender_is_not_read_off_the_one_gap_that_is_short() -> None:
    """Segments leave a queue 540 ms apart, two of each tick; the last is small and comes sooner."""
    segments = [data(460 * i, 460, time_ns=START_NS + i * 540 * MS, stamp=(i // 2 * 600, 0)) for i in range(48)]
    last = data(460 * 48, 99, time_ns=START_NS + (47 * 540 + 300) * MS, stamp=(23 * 600 + 30, 0))
    acks = [ack(460 * i + 460, time_ns=START_NS + (i * 540 + 1) * MS) for i in range(48)]
    in_order = sorted([*segments, *acks, last], key=lambda s: s.time_ns or 0)
    assert "clock-step" not in judged(in_order)[1]


def test_a_rate_that_no_clock_has_shows_no_step() -> None:
    """Pairs of segments 97 ms apart, 20 s between pairs, ticks of 2 Hz: the pairs alone suggest 1.7 Hz."""
    segments = []
    for i in range(24):
        pair, is_second = divmod(i, 2)
        begin_ms = pair * 20_000 + (450 if pair in (3, 7) else 100)
        for side, add in enumerate((data(100 * i), ack(100 * i + 100))):
            now_ms = begin_ms + 97 * is_second + side
            stamp = (now_ms // 500, 0)
            segments.append(Segment(**(add.__dict__ | {"time_ns": START_NS + now_ms * MS, "stamp": stamp})))
    assert "clock-step" not in judged(segments)[1]


def test_what_only_one_of_two_senders_shows_is_its_queue_and_no_step() -> None:
    """The timestamps of the receiver, beside the capture, ran on with the capture's clock."""
    steps = stamped({30: 37_000})
    steady = [
        Segment(**(s.__dict__ | {"stamp": ((s.time_ns - START_NS) // (10 * MS), s.stamp[1])}))
        if s.side == 1 and s.time_ns is not None and s.stamp
        else s
        for s in steps
    ]
    assert "clock-step" not in judged(steady)[1]
    both = [
        Segment(**(s.__dict__ | {"stamp": (s.stamp[1], s.stamp[1])})) if s.side == 1 and s.stamp else s for s in steps
    ]
    assert judged(both)[1]["clock-step"].count == 1


@pytest.mark.parametrize("session", sorted(RECORDED.glob("fig*")), ids=lambda folder: folder.name)
def test_the_recorded_calls_are_good_at_both_ends(session: Path) -> None:
    for end in ("mobile", "fixed"):
        assert analyse(read_capture(sorted((session / end).glob("tcp-*")))).trust.verdict == "good"


def test_a_capture_of_nothing_is_not_good() -> None:
    verdict, notes = judged([])
    assert verdict == "caution"
    assert "No packet was captured" in notes["no-packets"].sentence


def test_a_reading_that_was_stopped_says_that_there_may_be_more(sample_sender: Path) -> None:
    stopped = analyse(read_capture([sample_sender], max_packets=100)).trust
    assert stopped.verdict == "caution"
    assert [(note.code, note.count) for note in stopped.notes if note.code == "stopped"] == [("stopped", 100)]
    assert "only the first 100 packets" in stopped.notes[0].sentence.lower()


def test_files_that_were_not_even_opened_count_as_stopped(sample_sender: Path, sample_receiver: Path) -> None:
    packets = analyse(read_capture([sample_sender])).capture.files[0].packets
    both = read_capture([sample_sender, sample_receiver], max_packets=packets)
    assert "stopped" in {note.code for note in analyse(both).trust.notes}


def trust_at(times_ns: list[int]) -> Trust:
    """Return the trust in a file whose packets have these times."""
    steps = [b - a for a, b in pairwise(times_ns)]
    grain_ns = gcd(*steps)
    made = capture(CLEAN)
    (file,) = made.files
    file.packets, file.first_ns, file.last_ns = len(times_ns), times_ns[0], times_ns[-1]
    file.time_repeats, file.time_grain_ns = steps.count(0), grain_ns if grain_ns >= MS else min(grain_ns, 1)
    return analyse(made).trust


@pytest.mark.parametrize(
    ("times_ns", "code", "verdict", "says"),
    [
        ([START_NS] * 43, "one-time", "poor", "All 43 packets have the same time"),
        ([START_NS + n // 64 * 30_123_457 for n in range(640)], "coarse-time", "caution", "some 64 packets"),
        ([START_NS + n // 5 * 10 * MS for n in range(400)], "coarse-time", "caution", "some 5 packets"),
        ([START_NS + n // 5 * 1000 * MS for n in range(400)], "coarse-time", "poor", "are whole seconds"),
        ([START_NS + n * 1000 * MS for n in range(40)], "coarse-time", "caution", "are whole seconds"),
    ],
)
def test_coarse_stamps_are_noticed(times_ns: list[int], code: str, verdict: str, says: str) -> None:
    trust = trust_at(times_ns)
    (note,) = trust.notes
    assert (trust.verdict, note.code, says in note.sentence) == (verdict, code, True)


@pytest.mark.parametrize(
    "times_ns",
    [
        [START_NS, START_NS],
        [START_NS + n * 10 * MS for n in range(400)],
        [START_NS + n // 4 * 12_345 for n in range(400)],
    ],
    ids=["too few", "regular packets", "a few in one interrupt"],
)
def test_stamps_that_may_be_right_are_good(times_ns: list[int]) -> None:
    assert trust_at(times_ns).verdict == "good"


def test_every_reason_says_what_it_makes_doubtful() -> None:
    """A code without an entry would end the command that shows it."""
    source = Path(inspect.getfile(trust)).read_text("utf-8")
    codes = set(re.findall(r'Note\(\s*"([a-z-]+)"', source)) | {code for _, code, *_ in trust.MARKED}
    assert codes == set(trust.AFFECTS)
