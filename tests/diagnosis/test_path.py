"""What a path does to packets is named, from both ends and from the sender's, and nothing else is."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from multitracer.diagnosis.diagnose import diagnose, explain
from multitracer.diagnosis.limits.names import Limit
from multitracer.diagnosis.limits.partition import Cells
from multitracer.diagnosis.packets.packet_delays import path_changes
from multitracer.diagnosis.rules.link.competing_traffic import _shared, _watched
from multitracer.diagnosis.rules.link.rate_change import _has_company
from multitracer.diagnosis.service_times import ArrivalGaps, rate_step
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from multitracer.units import NS_PER_MS, NS_PER_S
from tests.conftest import SAMPLES
from tests.diagnosis.exchange import Exchange, kinds, of
from tests.diagnosis.path import ROAD, diagnosed

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.limited import Limited

FAULTS = {"ack-loss", "random-loss", "policer", "bufferbloat", "outage", "blackout", "path-mtu-black-hole"}
"""What nobody may be told of a path that is well."""
_EQUAL_ENDS = re.compile(r"\b([\d.]+)( \w?bit/s)? to \1\b")
views = pytest.mark.parametrize("both", [True, False], ids=["both", "sender"])


@views
def test_a_short_queue_that_overflows_loses_packets_and_is_no_fault(tmp_path: Path, both: bool) -> None:
    found = diagnosed(tmp_path, replace(ROAD, queue_packets=30), both=both)
    lost = of(found, "congestion-loss")
    assert lost.numbers["lost_packets"] > 5
    assert lost.numbers["queue_before_s"] > 0.02
    assert not FAULTS & kinds(found)


@views
def test_chance_loses_packets_that_did_not_wait(tmp_path: Path, both: bool) -> None:
    """Round trips of a receiver that delays its ACKs do not tell; then nothing is said."""
    found = diagnosed(tmp_path, replace(ROAD, loss=0.03, queue_packets=200), both=both)
    assert not {"congestion-loss", "policer", "bufferbloat"} & kinds(found)
    if both:
        lost = of(found, "random-loss")
        assert 0.02 < lost.numbers["lost_share"] < 0.05
        assert "no queue was full" in lost.sentence


@pytest.mark.parametrize("second", [range(94, 97), range(0)], ids=["two rows", "one row"])
def test_two_rows_of_losses_with_nothing_ahead_are_chance(tmp_path: Path, second: range) -> None:
    """The queue was seen to hold a dozen; of one row nobody knows whether the path was down for a moment."""
    drive = replace(ROAD, rate_bps=20_000_000, delay_ns=60 * NS_PER_MS, queue_packets=1000)
    found = diagnosed(tmp_path, drive, size=600_000, vanish=frozenset([*range(86, 91), *second]))
    assert ("random-loss" in kinds(found)) == bool(second)


@pytest.mark.parametrize("is_served", [True, False])
def test_what_the_link_served_before_it_was_lost_fell_to_chance(tmp_path: Path, is_served: bool) -> None:
    """Single losses at a queue of a few packets: a managed one drops such, too, but before the link."""
    drive = replace(ROAD, rate_bps=6_000_000, delay_ns=70 * NS_PER_MS, queue_packets=1000)
    vanish = frozenset([90, 93, 96, 99, 102, 110])
    found = diagnosed(tmp_path, drive, size=600_000, vanish=vanish, is_served=is_served)
    assert ("random-loss" in kinds(found)) == is_served
    assert not is_served or "as if the link had carried them" in of(found, "random-loss").sentence
    assert "congestion-loss" not in kinds(found)


def test_chance_is_told_beside_a_queue_that_overflows(tmp_path: Path) -> None:
    """Most losses are the queue's; some happen to packets that nothing was ahead of."""
    found = diagnosed(tmp_path, replace(ROAD, queue_packets=15, loss=0.001), size=8_000_000)
    overflow, chance = of(found, "congestion-loss"), of(found, "random-loss")
    assert chance.numbers["queue_before_s"] < 0.004, "one segment takes 3 ms"
    assert 3 <= chance.numbers["lost_packets"] < overflow.numbers["lost_packets"] / 2


@pytest.mark.parametrize("loss", [0.0, 0.001])
def test_chance_is_told_at_a_queue_that_is_half_full(tmp_path: Path, loss: float) -> None:
    """It drops only when it is full, as most losses show; behind the others packets waited for less."""
    found = diagnosed(tmp_path, replace(ROAD, queue_packets=30, loss=loss), size=8_000_000)
    assert ("random-loss" in kinds(found)) == bool(loss)


@views
def test_a_policer_is_told_by_its_rate(tmp_path: Path, both: bool) -> None:
    drive = replace(ROAD, rate_bps=40_000_000, delay_ns=10 * NS_PER_MS, queue_packets=400)
    found = diagnosed(tmp_path, drive, both=both, size=6_000_000, policed_bps=12_000_000, bucket_bytes=30_000)
    (policer,) = [each for each in found.findings if each.kind == "policer"]
    assert policer.numbers["policed_bytes_per_s"] == pytest.approx(1_500_000, rel=0.15)
    assert not {"random-loss", "congestion-loss"} & kinds(found)


def test_a_policer_whose_tokens_are_used_is_the_link(tmp_path: Path) -> None:
    """At 2 Mbit/s four segments are on their way: halved, the window still sends more than tokens come."""
    drive = replace(ROAD, rate_bps=40_000_000, delay_ns=10 * NS_PER_MS, queue_packets=400)
    found = diagnosed(tmp_path, drive, size=1_500_000, policed_bps=2_000_000)
    assert found.headline.limit is Limit.LINK
    assert "a policer let no more through" in found.headline.sentence
    assert "policing" in found.headline.help
    assert "tokens of a policer" in of(found, "link-limited").sentence


@views
@pytest.mark.parametrize(("rate_mbps", "size"), [(40, 100_000), (80, 200_000)])
def test_a_slow_start_that_overshoots_a_short_queue_is_no_fault(
    tmp_path: Path, both: bool, rate_mbps: int, size: int
) -> None:
    drive = replace(ROAD, rate_bps=rate_mbps * 1_000_000, delay_ns=3 * NS_PER_MS, queue_packets=15)
    assert not FAULTS & kinds(diagnosed(tmp_path, drive, both=both, size=size))


@views
def test_a_queue_of_many_round_trips_is_graded(tmp_path: Path, both: bool) -> None:
    drive = replace(ROAD, delay_ns=5 * NS_PER_MS, queue_packets=200)
    bloated = of(found := diagnosed(tmp_path, drive, both=both), "bufferbloat")
    assert bloated.numbers["added_delay_s"] > 0.08
    assert bloated.numbers["unloaded_rtt_s"] == pytest.approx(0.016, abs=0.004)
    assert not FAULTS - {"bufferbloat"} & kinds(found)
    a_minute = 60 / (bloated.numbers["unloaded_rtt_s"] + bloated.numbers["added_delay_s"])
    assert bloated.numbers["round_trips_per_minute"] == pytest.approx(a_minute)
    assert "in the direction of the data" in bloated.sentence or not both
    assert bloated.cost_s == 0


@views
def test_a_queue_below_grade_c_is_no_fault_however_short_the_path(tmp_path: Path, both: bool) -> None:
    drive = replace(ROAD, delay_ns=3 * NS_PER_MS, queue_packets=20)
    found = diagnosed(tmp_path, drive, both=both)
    assert not FAULTS & kinds(found)
    assert "congestion-loss" in kinds(found)


def test_a_path_that_dies_for_good_is_told_by_what_was_never_answered(tmp_path: Path) -> None:
    """The other capture shows nothing of what came after its last packet: not that it arrived."""
    drive = replace(ROAD, queue_packets=30)
    found = diagnosed(tmp_path, drive, size=4_000_000, dead_from_ns=36 * NS_PER_S // 10)
    (dead,) = [each for each in found.findings if each.kind in {"outage", "blackout"}]
    assert "nor was any later one in this recording" in dead.sentence
    assert not _EQUAL_ENDS.search(dead.sentence), "all of it is certain"


def test_a_rate_that_never_changes_is_one_value(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, replace(ROAD, queue_packets=200), size=8_000_000)
    for sentence in (found.headline.sentence, of(found, "link-limited").sentence):
        assert "at 3.86 Mbit/s" in sentence
        assert not _EQUAL_ENDS.search(sentence)


def test_a_path_that_is_never_full_has_no_faults(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, replace(ROAD, rate_bps=400_000_000, queue_packets=10_000))
    assert kinds(found) <= {"slow-start-limited", "receiver-limited", "send-buffer-limited"}


@views
def test_only_full_size_vanishes(tmp_path: Path, both: bool) -> None:
    found = diagnosed(tmp_path, both=both, size=30_000, largest_bytes=1400)
    (hole,) = [each for each in found.incidents if each.kind == "path-mtu-black-hole"]
    assert found.findings[hole.parts[0]].numbers["vanished_bytes"] > 1400 - 60
    assert not {"outage", "blackout"} & kinds(found), "it has its own name"


def test_what_vanishes_whatever_its_size_is_an_outage(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, size=30_000, largest_bytes=100)
    assert kinds(found) & {"outage", "blackout", "path-mtu-black-hole"} != set()


@views
def test_overtaken_packets_are_reordering_not_loss(tmp_path: Path, both: bool) -> None:
    found = diagnosed(tmp_path, replace(ROAD, queue_packets=400), both=both, size=1_000_000, every=50)
    late = of(found, "reordering")
    assert late.numbers["reordered_packets"] >= 5
    assert not {"random-loss", "congestion-loss"} & kinds(found)


@views
def test_a_path_that_becomes_longer_changed(tmp_path: Path, both: bool) -> None:
    """A sender that never fills it: its queue is empty. The way back changes with it."""
    drive = replace(ROAD, rate_bps=400_000_000, queue_packets=10_000)
    found = diagnosed(
        tmp_path, drive, both=both, size=20_000_000, longer_from_ns=NS_PER_S // 2, longer_ns=40 * NS_PER_MS
    )
    change = of(found, "path-change")
    assert change.numbers["step_s"] == pytest.approx(0.04 if both else 0.08, abs=0.002)
    assert "bufferbloat" not in kinds(found)


def test_one_segment_more_in_the_queue_of_a_slow_link_is_no_longer_path() -> None:
    """A window that grew by one keeps the link busy, with one more in the queue: 18 ms at 0.7 Mbit/s."""
    sent_ns = np.arange(100) * 18 * NS_PER_MS
    one_more = np.where(np.arange(100) < 50, 1, 19) * NS_PER_MS
    sent_ns[50:] -= 18 * NS_PER_MS
    assert not len(path_changes(sent_ns, one_more))
    assert path_changes(sent_ns, 3 * one_more).tolist() == [50]
    assert path_changes(np.arange(100) * 18 * NS_PER_MS, one_more + NS_PER_MS * (one_more > NS_PER_MS)).tolist() == [50]


@pytest.mark.parametrize("seed", range(4))
def test_a_satellite_keeps_its_path_for_some_seconds(seed: int) -> None:
    """Packets that leave each 5 ms; when the longer path ends, those sent last arrive with the next ones."""
    chance = np.random.default_rng(seed)
    sent_ns = np.arange(4_000) * 5 * NS_PER_MS
    up, down = chance.integers(700, 1_200), chance.integers(2_000, 3_000)
    longer_ns = chance.uniform(12, 60) * NS_PER_MS
    way_ns = 20 * NS_PER_MS + chance.uniform(0, 1.5 * NS_PER_MS, len(sent_ns))
    way_ns[up:down] += longer_ns
    came_ns = np.maximum.accumulate(sent_ns + way_ns)  # first in, first out
    delay_ns = (came_ns - sent_ns).astype(np.int64)
    changes = path_changes(sent_ns, delay_ns)
    assert changes[0] == up
    assert len(changes) == 2
    assert down <= changes[1] <= down + longer_ns / (5 * NS_PER_MS) + 1


@pytest.mark.parametrize(("spread_ms", "changes"), [(2, [400, 800]), (20, [])])
def test_a_path_of_two_seconds_is_one_if_its_delays_are_even(spread_ms: int, changes: list[int]) -> None:
    """The queue of another flow is never so even; around the steps both are."""
    sent_ns = np.arange(1_200) * 5 * NS_PER_MS
    delay_ns = 20 * NS_PER_MS + np.random.default_rng(5).uniform(0, spread_ms * NS_PER_MS, len(sent_ns))
    for step in (0, 400, 800, 1_200):
        delay_ns[max(step - 10, 0) : step + 10] = 20 * NS_PER_MS
    delay_ns[400:800] += 30 * NS_PER_MS
    assert path_changes(sent_ns, delay_ns.astype(np.int64)).tolist() == changes


@pytest.mark.parametrize("seed", range(4))
def test_a_queue_that_fills_and_drains_is_no_other_path(seed: int) -> None:
    """A second flow fills the queue of a steady one for some seconds, and lets it drain."""
    chance = np.random.default_rng(seed)
    sent_ns = np.arange(4_000) * 5 * NS_PER_MS
    grows = chance.uniform(0.2, 0.9, len(sent_ns)) * 5 * NS_PER_MS
    rate = np.where((np.arange(4_000) % 1_500) < 300, grows, -grows)
    queue_ns, queued = np.zeros(len(sent_ns)), 0.0
    for number, more in enumerate(rate.tolist()):
        queued = min(max(queued + more, 0.0), 80 * NS_PER_MS)
        queue_ns[number] = queued
    assert not len(path_changes(sent_ns, (20 * NS_PER_MS + queue_ns).astype(np.int64)))


@pytest.mark.fixtures
@pytest.mark.parametrize("name", ["n168", "n194"])
def test_a_path_over_satellites(fixture_folder: Path, name: str) -> None:
    found = diagnose(Transfer.of(read(fixture_folder / "causes" / name / "session")))
    steps = [finding.numbers["step_s"] for finding in found.findings if finding.kind == "path-change"]
    assert [np.sign(step) for step in steps] == [1, -1]


def test_a_link_that_becomes_slower_changed_its_rate(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, size=3_000_000, slower_from_ns=3 * NS_PER_S, slower_bps=1_500_000)
    change = of(found, "rate-change")
    assert change.numbers["rate_before_bps"] == pytest.approx(3.9e6, rel=0.05)
    assert change.numbers["rate_after_bps"] == pytest.approx(1.46e6, rel=0.05)
    assert change.begin_ns - found.transfer.begin_ns == pytest.approx(3.1e9, abs=0.3e9)
    assert "competing-traffic" not in kinds(found)


def test_others_on_the_link_are_told_from_both_ends_and_do_not_change_its_rate(tmp_path: Path) -> None:
    others: dict[str, Any] = {"others_from_ns": 2 * NS_PER_S, "others_until_ns": 4 * NS_PER_S, "others_bps": 2_000_000}
    found = diagnosed(tmp_path, size=3_000_000, **others)
    shared = of(found, "competing-traffic")
    assert shared.numbers["others_share"] == pytest.approx(0.5, abs=0.1)
    assert (shared.begin_ns - found.transfer.begin_ns) / NS_PER_S == pytest.approx(2, abs=0.2)
    assert (shared.end_ns - found.transfer.begin_ns) / NS_PER_S == pytest.approx(4, abs=0.2)
    assert "rate-change" not in kinds(found)


@pytest.mark.parametrize(("times", "is_shared"), [((1, 2, 2, 3), True), ((2, 2, 2, 2), False)])
def test_gaps_of_whole_packets_are_others_and_even_longer_ones_a_slower_link(
    times: tuple[int, ...], is_shared: bool
) -> None:
    """Even beside traffic as heavy as their own most segments have one packet of others before them."""
    alone = [1.0] * 400
    gaps = 1_500_000 * np.array([*alone, *np.random.default_rng(1).choice(times, 300), *alone])
    here = np.arange(len(gaps))
    everywhere = np.ones(len(gaps), dtype=bool)
    watched = _watched(ArrivalGaps(here, gaps, here, np.ones(len(gaps)), everywhere))
    assert watched is not None
    found = _shared(watched)
    assert (found is not None) == is_shared
    if found is not None:
        assert watched.many[found[0]].sum() > 250


def test_one_end_cannot_tell_others_from_a_slower_link(tmp_path: Path) -> None:
    others: dict[str, Any] = {"others_from_ns": 2 * NS_PER_S, "others_until_ns": 4 * NS_PER_S, "others_bps": 2_000_000}
    found = diagnosed(tmp_path, both=False, size=3_000_000, **others)
    assert not {"competing-traffic", "rate-change"} & kinds(found)


def _sent(*, paced: bool) -> Exchange:
    """Return a bulk sender of four segments each 4 ms, for a timer or for the ACKs that it answers."""
    exchange = Exchange().opened()
    exchange.data(50.2, 0)
    exchange.ack(100.3, 0)
    exchange.data(350.3, 0)  # it was lost: from here on its window is not a growing one
    for turn in range(200):
        at_ms = 400.4 + 4 * turn
        exchange.ack(at_ms, 1 + 4 * max(turn - 12, 0))
        for each in range(4):
            exchange.data(at_ms + (0.6 + 0.9 * each if paced else 0.01), 1 + 4 * turn + each)
    for turn in range(13):
        exchange.ack(1201 + 4 * turn, 1 + 4 * (turn + 188))
    return exchange


def test_a_sender_that_is_paced_is_no_fault(tmp_path: Path) -> None:
    paced = of(_sent(paced=True).diagnosed(tmp_path), "pacing")
    assert paced.cost_s == 0
    assert paced.numbers["paced_share"] > 0.9


def test_a_sender_that_acks_set_free_is_not_paced(tmp_path: Path) -> None:
    assert "pacing" not in kinds(_sent(paced=False).diagnosed(tmp_path))


# --- small segments ---


def _writes(*, delayed_ms: float, gap_ms: float = 0.3) -> Exchange:
    """Return a program that writes two small pieces for each question; the second waits for the ACK."""
    exchange = Exchange(rtt_ms=10).opened()
    now = 20.0
    for number in range(0, 20, 2):
        exchange.data(now, number, size=200)
        exchange.ack(now + 10 + delayed_ms, number, extra=200)
        sent = now + 10 + delayed_ms + gap_ms
        exchange.note(sent, 0, seq=1001 + number * 1000 + 200, ack=5001, payload=1800)
        exchange.segments[-1] = replace(exchange.segments[-1], payload=800)
        exchange.note(sent, 0, seq=1001 + number * 1000 + 1000, ack=5001, payload=1000)
        exchange.ack(sent + 10, number + 2)
        now = sent + 100
    return exchange


def test_a_small_segment_that_waits_for_a_delayed_ack(tmp_path: Path) -> None:
    found = of(_writes(delayed_ms=40).diagnosed(tmp_path), "nagle-delayed-ack")
    assert found.numbers == {"waits": 10, "delayed_ack_s": pytest.approx(0.04, abs=0.001)}
    assert found.cost_s == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize(("delayed_ms", "gap_ms"), [(0, 0.3), (40, 30)])
def test_nothing_waited_for_an_ack_at_once_or_for_the_program(tmp_path: Path, delayed_ms: float, gap_ms: float) -> None:
    found = _writes(delayed_ms=delayed_ms, gap_ms=gap_ms).diagnosed(tmp_path)
    assert "nagle-delayed-ack" not in kinds(found)


@pytest.mark.parametrize(("every", "is_known"), [(20, True), (100, False)])
def test_few_waits_on_a_link_with_room_show_no_rate(every: int, is_known: bool) -> None:
    """Of the segments after the step one in `every` waited, of those before one in twenty."""
    place, none = np.arange(12_800), np.empty(0, dtype=np.int64)
    is_after = place >= 6400
    gap_ns, waited = np.where(is_after, 2e6, 1e6), place % np.where(is_after, every, 20) == 0
    gaps = ArrivalGaps(place * NS_PER_MS, gap_ns, place, np.ones(len(place)), waited)
    cells = Cells(none, none, none, none, none)
    limited = SimpleNamespace(cells=cells, is_theirs=none > 0, shown=None, transfer=SimpleNamespace(speed=1.0))
    step = rate_step(cast("Limited", limited), gaps)
    assert (step is not None) == is_known


def test_one_piece_of_gaps_of_two_rates_is_a_step_at_the_end() -> None:
    gaps = 1_500_000 * np.array([*[1.0] * 408, *[2.0] * 8])
    here = np.arange(len(gaps))
    joined = np.full(len(gaps), 4.0)
    watched = _watched(ArrivalGaps(here, gaps, here, joined, np.ones(len(gaps), dtype=bool)))
    assert watched is not None
    assert (watched.mean_ns > 1.4 * watched.service_ns).sum() == 1
    assert _shared(watched) is None


@pytest.mark.parametrize(("name", "shared"), [("20036-two-at-once", True), ("30020-rate-step", False)])
def test_a_receiver_that_gets_more_at_once_tells_no_rate_of_the_link(name: str, shared: bool) -> None:
    """A connection that begins or ends beside ours changes the gaps between our packets for good, too."""
    session = Path(__file__).parents[1] / "causes" / "recordings" / name / "session"
    found = diagnose(Transfer.of(read(session / "fixed" / "tcp-0.pcap.gz")))
    assert _has_company(found) == shared
    assert ("rate-change" in kinds(found)) == (not shared)


def test_a_few_packets_of_a_burst_that_arrive_apart_show_no_other_traffic() -> None:
    """Of a link whose rate varies, for 50 ms: shared if the transfer took half a second, not if it took ten."""
    gaps = 1_000_000 * np.repeat([1.0, 2.0, 1.0], [200, 32, 200])
    gaps[200:232:2] = 3_000_000
    here = np.arange(len(gaps))
    watched = _watched(ArrivalGaps(here, gaps, here, np.ones(len(gaps)), np.ones(len(gaps), dtype=bool)))
    assert watched is not None
    assert _shared(watched, 0.04 * 500 * NS_PER_MS) is not None
    assert _shared(watched, 0.04 * 10_000 * NS_PER_MS) is None


def test_a_delay_that_comes_back_within_seconds_is_no_other_path() -> None:
    """At the second handover of the drive, packets wait for 1.8 s: 0.93 s longer, and 0.92 s less after it."""
    found = explain(read(SAMPLES / "rehearsed-drive"))
    assert "handover" in {each.kind for each in found.findings}
    assert "path-change" not in {each.kind for each in found.findings}
