"""The corpus can be made again: a seed means the same recording for ever, within promised bounds."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

from tests.causes.kinds import KINDS
from tests.causes.scenario import Hosts, scenario
from tests.causes.truth import LIMITS

_SOME = [scenario(seed) for seed in range(10 * len(KINDS))]


def test_a_seed_is_the_same_recording_whenever_it_is_drawn() -> None:
    assert [asdict(scenario(seed)) for seed in range(5)] == [asdict(each) for each in _SOME[:5]]
    assert asdict(scenario(1)) != asdict(scenario(1 + len(KINDS)))


def test_kinds_take_turns_and_build_in_every_limit() -> None:
    assert set(Counter(each.kind for each in _SOME).values()) == {10}
    assert {each.limit for each in _SOME} == set(LIMITS) - {"unknown"}


def test_rates_delays_and_sizes_stay_in_the_bounds_of_the_corpus() -> None:
    for each in _SOME:
        assert 0.2e6 <= each.rate_bps <= 100e6
        assert 0.005e9 <= each.rtt_ns <= 0.6e9
        sent = _sent(each.plan["connections"])
        assert sent <= 100_000_000, each.kind


def test_some_of_every_sort_of_host_are_there_and_change_nothing_else() -> None:
    many = [Hosts.draw(seed, upload=True, timestamps=True) for seed in range(1000)]
    assert 150 < sum(each.ip_version == 6 for each in many) < 250
    assert 150 < sum(each.offload for each in many) < 250
    assert 100 < sum(each.ticks_ms.get("mobile", 1) >= 4 for each in many) < 200
    assert not any(Hosts.draw(seed, upload=True, timestamps=False).ticks_ms for seed in range(100))
    addresses = {each.hosts.ip_version: each.plan["address"] for each in _SOME if each.kind != "unanswered"}
    assert addresses == {4: "10.0.1.2", 6: "fd00:1::2"}


def test_the_queue_of_a_control_is_a_healthy_one() -> None:
    waits = {each.queue_bytes * 8 / each.rate_bps for each in _SOME if each.control and each.rate_bps > 1e6}
    assert max(waits) <= 0.15 + 1e-6


def _sent(operations: object) -> int:
    """Return the bytes of all sends in a plan."""
    if isinstance(operations, dict):
        return sum(_sent(value) for value in operations.values())
    if not isinstance(operations, list):
        return 0
    if operations[:1] == ["send"]:
        return int(operations[1])
    if operations[:1] == ["repeat"]:
        return int(operations[1]) * _sent(operations[2])
    return sum(_sent(each) for each in operations)
