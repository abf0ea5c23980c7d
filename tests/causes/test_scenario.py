"""The corpus can be made again: a seed means the same recording for ever, within promised bounds."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.causes.kinds import KINDS, RANGE, TERRITORIES, UNSEEN, kind_of
from tests.causes.scenario import Hosts, scenario
from tests.causes.truth import LIMITS

_OF_FIRST = [scenario(seed) for seed in range(10 * len(TERRITORIES[0]))]
_OF_OTHERS = [
    scenario(RANGE * number + place)
    for number, kinds in enumerate(TERRITORIES)
    for place in range(3 * len(kinds))
    if number
]
_SOME = _OF_FIRST + _OF_OTHERS


def test_a_seed_is_the_same_recording_whenever_it_is_drawn() -> None:
    assert [asdict(scenario(seed)) for seed in range(5)] == [asdict(each) for each in _SOME[:5]]
    assert asdict(scenario(1)) != asdict(scenario(1 + len(TERRITORIES[0])))


def test_kinds_take_turns_and_build_in_every_limit() -> None:
    assert set(Counter(each.kind for each in _OF_FIRST).values()) == {10}
    assert {each.limit for each in _OF_FIRST} == set(LIMITS) - {"unknown"}
    assert set(Counter(each.kind for each in _OF_OTHERS).values()) == {3}
    assert len({kind.name for kind in KINDS}) == len(KINDS)


def test_the_page_of_the_corpus_names_each_kind() -> None:
    page = (Path(__file__).parents[2] / "docs/contributing/causes.md").read_text()
    assert [kind.name for kind in KINDS if f"`{kind.name}`" not in page] == []


def test_each_million_of_seeds_has_kinds_of_its_own_that_take_turns() -> None:
    assert kind_of(43).name == kind_of(0).name == kind_of(95_417).name == "short-queue"
    assert kind_of(RANGE).name == kind_of(RANGE + len(TERRITORIES[1])).name == "cellular-bulk"
    assert asdict(scenario(RANGE + UNSEEN)) != asdict(scenario(RANGE + UNSEEN + len(TERRITORIES[1])))
    with pytest.raises(ValueError, match="no kind has seed"):
        kind_of(RANGE * len(TERRITORIES))


def test_a_trace_of_capacity_is_around_its_rate_and_moves_on_at_last() -> None:
    for each in _OF_OTHERS:
        rates = [setting[3] for setting in each.path if setting[1] == "trace"]
        if rates:
            assert 0.6 < sum(rates) / len(rates) / each.rate_bps < 1.5
            assert rates[-1] > 0
            assert sum(rate == 0 for rate in rates) < 0.2 * len(rates)


def test_rates_delays_and_sizes_stay_in_the_bounds_of_the_corpus() -> None:
    for each in _SOME:
        assert 0.2e6 <= each.rate_bps <= (300e6 if each.kind.startswith("fast-") else 100e6)
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
