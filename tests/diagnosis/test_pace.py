"""Whose clock data leave on: a writer's, that of the ACKs, or that of a queue in the sender's own host."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner

from multitracer.cli._program import cli
from multitracer.diagnosis.limits.gaps import SenderIdleGaps, may_be_losses
from multitracer.diagnosis.limits.link import Busy
from multitracer.diagnosis.limits.names import Limit, LimitSubtype, Viewpoint
from multitracer.diagnosis.limits.observed import Answers, DelaySamples, Observed, Sends
from multitracer.diagnosis.limits.pace import ack_queue, own_queue, pace
from multitracer.diagnosis.limits.partition import Cells, RuleEvidence, _complete_rounds, partition
from multitracer.diagnosis.limits.spans import Spans
from multitracer.diagnosis.limits.windows import is_spaced
from multitracer.tables import NA
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.tables import Array

MSS, FLOOR_NS = 1448, 30 * NS_PER_MS
NONE = Spans.none()
IDLE = Busy(NONE, NONE, NONE, None)
"""A link that seems never busy."""


def written(
    *, small: int = 300, apart_ms: float = 14, many: int = 300, service_ms: float = 0.2, late_ms: float = 25
) -> Observed:
    """Return what a program writes: two full segments and a small one every some ms, over a path whose delay varies."""
    chance = np.random.default_rng(1)
    sizes = np.tile([MSS, MSS, small], many)
    sent = np.repeat(np.arange(many) * apart_ms, 3) + np.tile([0, 0.01, 0.02], many) + 1
    late = np.repeat(chance.uniform(0, late_ms, many), 3)
    came = np.maximum.accumulate(sent + FLOOR_NS / NS_PER_MS / 2 + late + np.tile([1, 2, 3], many) * service_ms)
    return observed(sent, sizes, came)


def observed(sent_ms: Array, sizes: Array, came_ms: Array) -> Observed:
    """Return segments that left and arrived at these times, each second one acknowledged at once."""
    sent, came = (np.asarray(each * NS_PER_MS, dtype=np.int64) for each in (sent_ms, came_ms))
    end = 1 + np.cumsum(sizes)
    back = np.flatnonzero((np.arange(len(sent)) % 3 != 0) | (sizes == MSS) & (np.arange(len(sent)) % 3 == 2))
    time, nothing = came[back] + FLOOR_NS // 2, np.zeros(len(back), dtype=np.int64)
    no, zero = np.zeros(len(sent), dtype=bool), np.zeros(len(sent), dtype=np.int64)
    sends = Sends(sent, end - sizes, end, no, no, no, zero.astype(np.int8), np.arange(len(sent)), no, zero)
    acks = Answers(
        time, end[back], end[back], end[back] + 10**9, nothing, nothing > 0, np.arange(len(back)), nothing
    )  # fmt: skip
    return Observed(
        Viewpoint.BOTH_ENDS, 0, int(time[-1]), 0, sends, acks, DelaySamples(sent, came - sent, np.arange(len(sent))),
        floor_ns=FLOOR_NS, mss_bytes=MSS, reaction_ns=NS_PER_MS // 2, one_way=True, host_delay_ns=zero,
    )  # fmt: skip


def buffered(many: int = 200) -> Observed:
    """Return a program that fills its buffer of twelve segments, woken 2 ms after the ACK of the last one."""
    trips = np.random.default_rng(2).uniform(20, 70, many)
    began = 1 + np.append(0, np.cumsum(trips + 2)[:-1])
    after = np.tile(np.arange(12) * 0.01, many)
    came = np.repeat(began + trips - FLOOR_NS // 2 / NS_PER_MS - 0.2, 12) + after
    return observed(np.repeat(began, 12) + after, np.full(12 * many, MSS), came)


def main_limit(seen: Observed) -> Limit:
    cells = partition(seen, RuleEvidence.of(seen))
    return Limit(int(np.bincount(cells.limit, cells.end - cells.begin).argmax()))


def test_a_steady_writer_on_a_path_whose_delay_varies_is_the_application() -> None:
    assert main_limit(written()) is Limit.APPLICATION


def test_a_writer_who_fills_the_link_is_limited_by_it() -> None:
    """Trains of three segments take 13 of 14 ms, so there is nearly no room."""
    assert main_limit(written(service_ms=4.3)) is Limit.LINK


def test_a_buffer_is_no_program_that_writes_in_its_own_time_though_it_is_woken_late() -> None:
    """What is in flight behind it is always the same, however long the round trip."""
    seen = buffered()
    assert pace(seen, NONE, NONE, NONE, IDLE).buffer.total_ns > 0.8 * seen.end_ns
    assert main_limit(seen) is Limit.SENDER_BUFFER
    assert not pace(written(), NONE, NONE, NONE, IDLE).buffer.total_ns


def test_a_rate_shown_by_a_short_queue_is_no_busy_link_behind_a_full_buffer() -> None:
    """No delay is near the least, but a queue shows little of the time for which the link seems busy."""
    seen = buffered()
    way = seen.delays.way_ns + 40 * NS_PER_MS
    way[0] = 0
    late = replace(seen, delays=seen.delays._replace(way_ns=way))
    all_, start = (Spans.of(np.array([0]), np.array([end])) for end in (seen.end_ns, seen.end_ns // 10))
    assert pace(late, NONE, NONE, NONE, Busy(all_, start, NONE, None)).refuted.total_ns > 0.8 * seen.end_ns
    assert not pace(late, NONE, NONE, NONE, Busy(all_, all_, NONE, None)).refuted.total_ns, "a standing queue"
    assert not pace(late, NONE, NONE, NONE, Busy(all_, NONE, NONE, None)).refuted.total_ns, "no delay shows any"


def shaped(*, jitter_ms: float = 0.0, released: bool = False, many: int = 400) -> Observed:
    """Return full segments that leave at one rate, each acknowledged a round trip later."""
    sent = 1 + 3.0 * np.arange(many) + np.random.default_rng(3).uniform(0, 1, many) * jitter_ms
    back_ms = 29.9 if released else 28.4  # 0.1 ms before another one leaves, or far from it
    seen = observed(sent, np.full(many, MSS), sent + back_ms - FLOOR_NS // 2 / NS_PER_MS)
    each = np.arange(many)
    end = seen.sends.end
    time = seen.sends.time_ns + int(back_ms * NS_PER_MS)
    no = np.zeros(many, dtype=np.int64)
    acks = Answers(time, end, end, end + 10**9, no, no > 0, each, no)
    return replace(seen, view=Viewpoint.SENDER, answers=acks, host_delay_ns=None, one_way=False)


def test_segments_that_leave_at_one_rate_whenever_acks_come_wait_in_their_own_host() -> None:
    for seen, is_host in ((shaped(), True), (shaped(jitter_ms=2), False), (shaped(released=True), False)):
        steady = Spans.of(np.array([0]), np.array([seen.end_ns]))
        assert is_spaced(seen, steady) is is_host
    stamped = replace(shaped(), host_delay_ns=np.zeros(400, dtype=np.int64))
    assert RuleEvidence.of(shaped()).spaced.total_ns > 0.8 * shaped().end_ns
    assert not RuleEvidence.of(stamped).spaced.total_ns, "its timestamps show that nothing waited there"


def test_a_rate_alone_is_no_sure_link_where_delays_seldom_show_a_queue() -> None:
    """Full segments that a program writes in its own time have one rate, too: a queue of a moment seems to show it."""
    seen = written(small=MSS, late_ms=0)
    all_, start = (Spans.of(np.array([0]), np.array([end])) for end in (seen.end_ns, seen.end_ns // 3))
    alone = pace(seen, NONE, NONE, NONE, Busy(all_, start, NONE, None)).doubtful
    assert alone.total_ns > 0.6 * seen.end_ns
    assert not alone.overlap_ns(*start).any(), "while a queue stands, the link is sure"
    assert not pace(seen, NONE, NONE, NONE, Busy(all_, all_, NONE, None)).doubtful.total_ns
    marked = replace(seen, answers=replace(seen.answers, marked=np.ones(len(seen.answers), dtype=bool)))
    assert not pace(marked, NONE, NONE, NONE, Busy(all_, start, NONE, None)).doubtful.total_ns, "a router had a queue"
    busy = written(small=MSS, late_ms=0, service_ms=4.4)
    assert not pace(busy, NONE, NONE, NONE, Busy(all_, start, NONE, None)).doubtful.total_ns, "trains need all the time"


def test_a_long_gap_at_the_receiver_may_be_a_loss_unless_the_packets_are_numbered() -> None:
    """Of gaps that are much alike none is a loss, and the receiver's own program is known."""
    ends_ms = np.array([300, 600, 900, 5_000, 5_300])
    begin, end = ((ends_ms - length) * NS_PER_MS for length in (np.array([200, 200, 200, 4_000, 200]), 0))
    think = SenderIdleGaps(begin, end, np.full(5, LimitSubtype.THINK.value))
    seen = written()
    unknown = np.full(len(seen.sends), NA, dtype=np.int64)
    at_receiver = replace(seen, view=Viewpoint.RECEIVER, sends=replace(seen.sends, missing=unknown))
    assert may_be_losses(at_receiver, think).tolist() == [False, False, False, True, False]
    assert not may_be_losses(replace(at_receiver, sends=seen.sends), think).any(), "numbered: none is missing"
    assert not may_be_losses(at_receiver, think._replace(part=np.full(5, LimitSubtype.PEER.value))).any()
    assert not may_be_losses(replace(at_receiver, view=Viewpoint.SENDER), think).any()
    repair = think._replace(part=np.full(5, LimitSubtype.REPAIR.value))
    assert may_be_losses(at_receiver, repair).all(), "the answer to a repeated request may have been lost"
    alike = SenderIdleGaps(np.arange(5) * 10**10, np.arange(5) * 10**10 + 4 * 10**9, think.part)
    assert not may_be_losses(at_receiver, alike).any()


@pytest.mark.parametrize(
    ("lengths_ms", "expected"),
    [([250], [True]), ([150], [False]), ([50, 4_000], [False, True]), ([4_000, 4_000], [False, False])],
)
def test_one_or_two_gaps_may_be_losses_as_well(lengths_ms: list[int], expected: list[bool]) -> None:
    """A gap is compared with the others: with itself in the median, no single one could be unlike them."""
    seen, length = written(), np.array(lengths_ms) * NS_PER_MS
    begin = np.arange(len(length)) * 10**10
    gaps = SenderIdleGaps(begin, begin + length, np.full(len(length), LimitSubtype.WRITES.value))
    unknown = np.full(len(seen.sends), NA, dtype=np.int64)
    at_receiver = replace(seen, view=Viewpoint.RECEIVER, sends=replace(seen.sends, missing=unknown))
    assert may_be_losses(at_receiver, gaps).tolist() == expected


def test_full_segments_alone_show_no_writer() -> None:
    whose = pace(written(small=MSS), NONE, NONE, NONE, IDLE)
    assert not whose.writes.total_ns
    assert not whose.refuted.total_ns


def test_what_a_full_window_lets_go_is_not_the_writers() -> None:
    seen = written()
    full = Spans.of(np.array([0]), np.array([seen.end_ns]))
    assert not pace(seen, full, NONE, NONE, IDLE).writes.total_ns
    assert not pace(seen, NONE, full, NONE, IDLE).writes.total_ns


def test_a_limit_that_is_only_possible_stays_so_where_it_fills_a_round_trip() -> None:
    at = np.array([0, 40, 50, 90]) * NS_PER_MS
    limit = np.array([Limit.LINK, Limit.CONGESTION_WINDOW, Limit.LINK], dtype=np.int16)
    cells = Cells(at[:-1], at[1:], limit, np.zeros(3, dtype=np.int16), np.array([True, False, True]))
    joined = _complete_rounds(cells, written(), NONE).joined()
    assert (joined.limit.tolist(), joined.possible.tolist()) == ([Limit.LINK], [True])


@pytest.mark.parametrize("many", [1, 2, 7])
def test_of_few_segments_nothing_is_said(many: int) -> None:
    seen = written(many=many)
    assert not any(each.total_ns for each in pace(seen, NONE, NONE, NONE, IDLE))


def test_no_time_and_no_answers_are_no_pace() -> None:
    seen = written()
    nothing = np.empty(0, dtype=np.int64)
    mute = replace(seen, answers=Answers(nothing, nothing, nothing, nothing, nothing, nothing > 0, nothing, nothing))
    for each in (replace(seen, end_ns=seen.opened_ns), replace(seen, floor_ns=0), mute):
        pace(each, NONE, NONE, NONE, IDLE)


def test_acks_that_wait_behind_an_upload_are_the_link_of_the_acks() -> None:
    """The queue grows and shrinks; a longer path delays all by the same."""
    seen = written()
    wave = 80 + 40 * np.sin(np.arange(len(seen.answers)) / 30)
    for lag_ms, is_queue in ((wave, True), (np.full(len(wave), 80.0), False)):
        lag_ns = (lag_ms * NS_PER_MS).astype(np.int64)
        late = replace(seen, answers=replace(seen.answers, lag_ns=lag_ns))
        assert (ack_queue(late).total_ns > 0.9 * seen.end_ns) is is_queue


def test_data_that_are_stamped_and_not_captured_yet_wait_in_their_own_host() -> None:
    seen = written()
    late = replace(seen, host_delay_ns=np.full(len(seen.sends), 12 * NS_PER_MS))
    assert own_queue(late).total_ns > 0.7 * seen.end_ns
    assert not own_queue(seen).total_ns


def test_a_step_of_the_captures_clock_is_no_queue_of_the_host() -> None:
    """It delays what comes back as well."""
    seen = written()
    late = np.full(len(seen.answers), 12 * NS_PER_MS)
    stepped = replace(
        seen, host_delay_ns=np.full(len(seen.sends), 12 * NS_PER_MS), answers=replace(seen.answers, lag_ns=late)
    )
    assert not own_queue(stepped).total_ns


@pytest.mark.parametrize(
    ("unsent", "is_queue"), [([0, 1, 1, 0], False), ([1] * 10, True), ([1, 1, 0, 1, 1, 0, 1, 1], True)]
)
def test_a_queue_of_the_host_is_no_matter_of_two_readings(unsent: list[int], is_queue: bool) -> None:
    """Ten readings of the kernel with unsent data, or three bursts of them, are no chance."""
    time = (1000 + 40 * np.arange(len(unsent))) * NS_PER_MS
    same = {"srtt_ns": 10_000 * NS_PER_MS, "cwnd_segments": 100, "unacked_segments": 1}
    state = {name: np.full(len(time), value) for name, value in same.items()}
    state |= {"time_ns": time, "notsent_bytes": 10 * MSS * np.array(unsent)}
    assert (own_queue(replace(written(), state=state)).total_ns > 0) is is_queue  # type: ignore[arg-type]


CASES = {
    "d01": Limit.LINK, "d11": Limit.LINK, "d13": Limit.APPLICATION, "d15": Limit.LINK, "d21": Limit.LINK,
    "n107": Limit.APPLICATION, "n116": Limit.APPLICATION, "n121": Limit.APPLICATION, "n128": Limit.APPLICATION,
    "n171": Limit.RECEIVER_WINDOW, "n173": Limit.APPLICATION, "n194": Limit.APPLICATION, "n12": Limit.LINK,
    "n25": Limit.LINK, "n111": Limit.LINK,
}  # fmt: skip


@pytest.mark.fixtures
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("view", ["both", "sender", "receiver"])
def test_recordings_of_known_cause(fixture_folder: Path, tmp_path: Path, name: str, view: str) -> None:
    folder = fixture_folder / "causes" / name
    truth = json.loads((folder / "truth.json").read_text())
    other = "server" if truth["sender"] == "phone" else "phone"
    host = folder / "session" / (truth["sender"] if view == "sender" else other)
    path = folder / "session" if view == "both" else next(host.glob("tcp-0.pcap*"))
    direction = "forward" if truth["direction"] == "up" else "reverse"
    options = ["--json", "-c", truth["connection"], "--direction", direction, "-o", str(tmp_path / "a.json")]
    assert CliRunner().invoke(cli, ["diagnose", *options, str(path)]).exit_code == 0
    headline = json.loads((tmp_path / "a.json").read_text())["headline"]
    assert headline["limit"] == CASES[name].label
    assert headline["confidence"] != "weak"
    if name in ("n25", "n111"):
        assert headline["part"] == "policer"
    if name in ("d01", "d11") and view != "receiver":
        assert headline["part"] == "host"
