"""One bucket explains what a policer drops, whatever is sent through it, and nothing that chance drops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from multitracer.diagnosis.packets.losses import Carried, _in_order
from multitracer.diagnosis.packets.packet_delays import PacketDelays
from multitracer.diagnosis.packets.policing import (
    ArrivedStream,
    TokenBucket,
    _at_full_queue,
    bucket,
    is_even,
    own_rate,
    policer_of_arrivals,
    used,
)

RATE, PACKET = 250_000.0, 1500.0
"""Octets a second: 2 Mbit/s; octets of a packet."""
ROUND_S = 0.05


def sent(rounds: int, chance: np.random.Generator) -> np.ndarray:
    """Return times of a window that grows by a packet a round, and is halved at random, s."""
    window, times = 4, []
    for k in range(rounds):
        times += [k * ROUND_S + 0.0002 * i for i in range(window)]
        window = window // 2 if chance.random() < 0.1 and window > 6 else window + 1
        window = min(window, 25)
    return np.array(times)


def policed(times: np.ndarray, size: float) -> tuple[ArrivedStream, np.ndarray]:
    """Return what a policer makes of packets, from its first drop to its last, and the tokens at each."""
    level, before, lost, levels = size, 0.0, [], []
    for now in times:
        level = min(size, level + (now - before) * RATE)
        before = now
        lost.append(level < PACKET)
        level -= 0.0 if lost[-1] else PACKET
        levels.append(level)
    drops = np.flatnonzero(lost)
    within = slice(drops[0], drops[-1] + 1)
    stream = ArrivedStream(times[within] - times[drops[0]], np.full(len(times[within]), PACKET), np.array(lost)[within])
    return stream, np.array(levels)[within]


@pytest.mark.parametrize("packets", [8, 12, 40])
def test_a_bucket_explains_what_it_dropped(packets: int) -> None:
    """Also one that is full again and again, whose mean rate is far below its own."""
    stream, _ = policed(sent(400, np.random.default_rng(packets)), packets * PACKET)
    found = bucket(stream)
    assert found is not None
    assert found.stretches > 20
    assert found.explained >= 0.95
    assert found.too_many < 0.05
    assert found.rate == pytest.approx(RATE, rel=0.06)


def test_a_policer_is_the_limit_while_nearly_all_tokens_are_used() -> None:
    """A sender at 0.9 of the contract between two losses used them; at half of it, it did not."""
    for part, is_used in ((0.95, True), (0.9, True), (0.5, False)):
        apart = PACKET / RATE / part
        times = np.append(np.arange(200) * apart, 200 * apart)
        lost = np.zeros(201, dtype=bool)
        lost[[0, 100, 200]] = True
        stream = ArrivedStream(times, np.full(201, PACKET), lost)
        begin, end = used(stream, TokenBucket(RATE, 30 * PACKET, 2, 1.0, 0.0))
        assert float((end - begin).sum()) == pytest.approx(times[-1] * is_used)


@pytest.mark.parametrize("packets", [8, 12, 40])
def test_the_rate_is_the_contracts_and_not_the_mean(packets: int) -> None:
    stream, _ = policed(sent(400, np.random.default_rng(packets)), packets * PACKET)
    of = bucket(stream)
    assert of is not None
    assert own_rate(stream, of) == pytest.approx(RATE, rel=0.03)


@pytest.mark.parametrize("seed", range(5))
def test_no_bucket_explains_what_chance_dropped(seed: int) -> None:
    chance = np.random.default_rng(seed)
    times = sent(400, chance)
    lost = chance.random(len(times)) < 0.03
    lost[[0, -1]] = True
    found = bucket(ArrivedStream(times, np.full(len(times), PACKET), lost))
    assert found is not None
    assert found.explained < 0.8


def test_without_delays_a_policer_shows_where_trains_are_faster_than_a_queue_at_its_rate() -> None:
    stream, _ = policed(sent(400, np.random.default_rng(12)), 12 * PACKET)
    queued = replace(stream, time_s=np.maximum.accumulate(stream.time_s + stream.passed / RATE))
    for arrived, is_found in ((stream, True), (queued, False)):
        rows = np.zeros(len(arrived.time_s), dtype=np.int64)
        assert (policer_of_arrivals(arrived, rows, None, round(ROUND_S * 1e9), 0) is not None) is is_found


def test_losses_in_a_row_are_no_evidence() -> None:
    times = np.arange(20) / 100
    assert bucket(ArrivedStream(times, np.full(20, PACKET), np.ones(20, bool))) is None


def test_a_paced_sender_that_always_loses_shows_an_even_bucket() -> None:
    """It leaves few stretches without a loss, as BBR does."""
    stream, _ = policed(np.arange(1500) * PACKET / RATE / 1.15, 10 * PACKET)
    found = bucket(stream)
    assert found is None or found.stretches < 5
    assert is_even(stream)


def test_what_was_overtaken_does_not_show_how_long_a_queue_is() -> None:
    """Ten in a hundred come 30 ms late, behind what was sent later; the queue holds 9 ms."""
    place = np.arange(1000)
    late = place % 10 == 5
    queue_ns = np.where(late, 30, 9 - np.abs(place % 18 - 9)).astype(np.int64) * 1_000_000
    none = np.empty(0, dtype=np.int64)
    delays = PacketDelays(place, place, place * 2_000_000, queue_ns, 0, none, none, is_one_way=True)
    assert not _in_order(delays)[late].any()
    assert delays.queue_ns[_in_order(delays)].max() == 9_000_000
    assert _in_order(replace(delays, is_one_way=False)).all()


@pytest.mark.parametrize("seed", range(20))
def test_chance_leaves_no_even_bucket(seed: int) -> None:
    chance = np.random.default_rng(seed)
    times = np.arange(1500) * PACKET / RATE
    lost = chance.random(len(times)) < 0.05
    assert not is_even(ArrivedStream(times, np.full(len(times), PACKET), lost))


def lost_behind(*waits_ms: float) -> np.ndarray:
    """Return which of some losses, each behind a packet that waited so long, a full queue dropped."""
    place = np.arange(0, 20 * len(waits_ms), 20)
    queue_ns = (np.array(waits_ms) * 1e6).astype(np.int64)
    none = np.empty(0, dtype=np.int64)
    delays = PacketDelays(place, place, place * 1_000_000, queue_ns, 0, none, none, is_one_way=True)
    return _at_full_queue(Carried(None, None, place + 1, delays))  # type: ignore[arg-type]


def test_what_a_full_queue_dropped_is_none_of_a_policers() -> None:
    found = lost_behind(12.2, 0.0, 1.2, 3.5, 12.0, 0.3, 0.0, 6.4)
    assert found.tolist() == [True, False, False, False, True, False, False, False]


@pytest.mark.parametrize("waits_ms", [(4.0, 0.0, 1.2, 3.5, 0.3), (12.0, 11.9, 12.0, 0.0)])
def test_a_short_or_a_usual_wait_shows_no_queue_behind_a_policer(waits_ms: tuple[float, ...]) -> None:
    assert not lost_behind(*waits_ms).any()
