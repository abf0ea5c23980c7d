"""A queue of so many packets on a link whose rate changes is full at any wait: its losses are no chance."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.diagnosis.diagnose import diagnose
from multitracer.diagnosis.packets.packet_delays import PacketDelays, may_be_full, packets_ahead
from multitracer.diagnosis.queue_at_losses import _follows_overload, _unless_longest, _waits_without_queue
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.simulator.run import record_virtual
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from multitracer.units import NS_PER_MS, NS_PER_S
from tests.diagnosis.exchange import kinds as kinds_of

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = """
limit_s = 60
[tcp]
profile = "modern"
mtu_bytes = 1500
congestion = "cubic"
receive_buffer_bytes = 1_000_000
send_buffer_bytes = 1_000_000
[link]
kind = "capacity"
[link.down]
trace = "radio.down"
[link.queue]
limit_packets = {queue}
[[traffic]]
direction = "down"
bytes = 8_000_000
"""


def radio(seed: int, *, stalls: float = 0, mbps: tuple[float, float] = (1, 30)) -> str:
    """Return a capacity trace of 40 s: each 0.2 to 1 s another rate, some after 0.4 to 1.3 s of none."""
    luck = random.Random(seed)
    stamps: list[int] = []
    at_ms = 0.0
    while at_ms < 40_000:
        if luck.random() < stalls:
            at_ms += luck.uniform(400, 1300)
        gap_ms = 12 / luck.uniform(*mbps)
        for _ in range(int(luck.uniform(200, 1000) / gap_ms)):
            at_ms += gap_ms
            stamps.append(int(at_ms))
    return "".join(f"{stamp}\n" for stamp in stamps)


@pytest.mark.parametrize(("seed", "queue"), [(1, 40), (2, 100), (3, 200)])
def test_a_full_queue_of_a_radio_is_never_taken_for_chance(tmp_path: Path, seed: int, queue: int) -> None:
    (tmp_path / "radio.down").write_text(radio(seed))
    scenario = tmp_path / "radio.toml"
    scenario.write_text(SCENARIO.format(queue=queue))
    record_virtual(load_scenario(str(scenario)), tmp_path / "run")
    for log in (tmp_path / "run").glob("*/rlp*"):
        log.unlink()  # the link tells its drops; here the packets alone must
    found = diagnose(Transfer.of(read(tmp_path / "run"))).findings
    kinds = {each.kind for each in found}
    assert "random-loss" not in kinds
    assert "congestion-loss" in kinds


@pytest.mark.parametrize("seed", [1, 4, 11])
def test_data_that_a_stalled_radio_delays_are_no_lost_acks(tmp_path: Path, seed: int) -> None:
    """The sender's timer repeats what still waits at the radio; at the phone both copies arrive."""
    (tmp_path / "radio.down").write_text(radio(seed, stalls=0.25, mbps=(0.5, 12)))
    scenario = tmp_path / "radio.toml"
    scenario.write_text(SCENARIO.format(queue=40))
    record_virtual(load_scenario(str(scenario)), tmp_path / "run")
    phone = tmp_path / "run" / "mobile" / "tcp-0.pcap"
    kinds = {each.kind for each in diagnose(Transfer.of(read(phone))).findings}
    assert "ack-loss" not in kinds


def test_what_left_before_and_is_not_through_is_ahead() -> None:
    """Three packets at once, one each 10 ms through the link, and one that comes late."""
    sent_ns = np.array([0, 0, 0, 25]) * 1_000_000
    wait_ns = np.array([0, 10, 20, 5]) * 1_000_000
    nothing = np.empty(0, dtype=np.int64)
    place = np.array([0, 1, 2, 4])
    delays = PacketDelays(place, place, sent_ns, wait_ns, 0, nothing, nothing, is_one_way=True)
    assert packets_ahead(delays, place, sent_ns).tolist() == [0, 0, 1, 0]
    lost = np.array([3])
    assert packets_ahead(delays, lost, np.array([5_000_000])).tolist() == [2]
    assert not may_be_full(delays, lost, np.array([5_000_000])).any(), "so few are no full queue"


@pytest.mark.parametrize(("is_full", "one_ms", "chance"), [(1, 0.4, False), (0, 0.4, True), (1, 1.5, True)])
def test_losses_behind_the_longest_waits_of_a_short_queue_are_no_chance(
    is_full: bool, one_ms: float, chance: bool
) -> None:
    """A queue of four packets on a fast link is full at 1.2 ms; a busy host made a few waits of 30 ms."""
    places, nothing = np.arange(1000), np.empty(0, dtype=np.int64)
    wait_ns = np.where(places % 5 == 0, 1_200_000, places % 5 * 100_000)
    wait_ns[::50] = 30_000_000
    delays = PacketDelays(places, places, places * 1_000_000, wait_ns, 0, nothing, nothing, is_one_way=True)
    before = wait_ns[places % 5 == 0 if is_full else places % 5 > 0][1:60]
    few = _unless_longest(delays, before, 1_700_000, one_ms * 1e6)
    assert few.any() == chance


@pytest.mark.parametrize("seed", range(4))
def test_losses_soon_after_a_long_queue_are_those_of_a_managed_one(seed: int) -> None:
    """A queue is long for half a second, then short for nine; what is lost by chance lies anywhere."""
    chance = np.random.default_rng(seed)
    none, sent_ns = np.empty(0, dtype=np.int64), np.arange(10_000) * NS_PER_MS
    queue_ns = np.where(sent_ns < NS_PER_S // 2, 200 * NS_PER_MS, chance.integers(0, 10 * NS_PER_MS, len(sent_ns)))
    row = np.arange(len(sent_ns))
    delays = PacketDelays(row, row, sent_ns, queue_ns, 0, none, none, is_one_way=True)
    waited = np.full(20, 5.0 * NS_PER_MS)
    soon_ns, any_ns = (np.sort(chance.integers(NS_PER_S // 2, until * NS_PER_S, 20)) for until in (2, 10))
    assert _follows_overload(delays, soon_ns, waited, 200 * NS_PER_MS)
    assert not _follows_overload(delays, any_ns, waited, 200 * NS_PER_MS)


@pytest.mark.fixtures
def test_losses_of_pie_are_no_chance(fixture_folder: Path) -> None:
    found = diagnose(Transfer.of(read(fixture_folder / "causes" / "n210" / "session")))
    assert "random-loss" not in kinds_of(found)


@pytest.mark.parametrize("is_queue", [False, True])
def test_a_packet_that_did_not_wait_beside_a_loss_shows_that_there_was_no_queue(is_queue: bool) -> None:
    """Wi-Fi lets packets out together: most wait, none for long; behind a queue all near the losses wait."""
    many = 2_000
    sent_ns = np.arange(many) * NS_PER_MS
    late_ns = np.random.default_rng(7).uniform(0, 20, many) * NS_PER_MS
    lost = np.arange(100, many, 190)
    if is_queue:
        for each in lost:
            late_ns[each - 15 : each + 16] += 12 * NS_PER_MS
    late_ns[0] = 0
    none = np.empty(0, dtype=np.int64)
    place = np.arange(many)
    delays = PacketDelays(place, place, sent_ns, late_ns.astype(np.int64), 0, none, none, is_one_way=True)
    told = _waits_without_queue(delays, sent_ns[lost], 10 * NS_PER_MS, np.ones(len(lost), dtype=bool), 0.0)
    assert bool(np.isfinite(told).mean() > 0.5) is not is_queue
    assert bool(np.isfinite(told).any()) is not is_queue


def test_on_a_slow_link_a_queue_of_one_segment_is_no_deep_one() -> None:
    """Packets wait for at most 20 ms, on a link that needs 12 ms for one: its queue was full at two."""
    many = 2_000
    place, none = np.arange(many), np.empty(0, dtype=np.int64)
    sent_ns = place * 25 * NS_PER_MS
    late_ns = np.random.default_rng(7).uniform(0, 20, many) * NS_PER_MS
    delays = PacketDelays(place, place, sent_ns, late_ns.astype(np.int64), 0, none, none, is_one_way=True)
    lost = place[100::190]
    one_ns, every = 12.0 * NS_PER_MS, np.ones(len(lost), dtype=bool)
    assert np.isfinite(_waits_without_queue(delays, sent_ns[lost], 40 * NS_PER_MS, every, one_ns / 12)).any()
    assert not np.isfinite(_waits_without_queue(delays, sent_ns[lost], 40 * NS_PER_MS, every, one_ns)).any()
