"""The corpus can be made again: a seed means the same recording for ever, within promised bounds."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

from tests.causes.kinds import KINDS
from tests.causes.scenario import scenario
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
