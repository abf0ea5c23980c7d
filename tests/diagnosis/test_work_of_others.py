"""What packets waited beyond our own is others' work: a queue with one server, reckoned packet by packet."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.diagnosis.packets.packet_delays import PacketDelays
from multitracer.diagnosis.service_times import AggregatedArrivals, joined, own_ns, queued_means
from multitracer.diagnosis.work_of_others import Joined, beside_ours, not_kept_back
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.tables import Array

OWN_NS = 2 * NS_PER_MS
MANY = 1600
NONE = np.zeros(MANY, dtype=int)


def queued(sent_ns: Array, others: Array, service_ns: Array | None = None) -> Array:
    """Return what packets wait that are sent at these times, each behind so many whole ones of others."""
    service = np.full(len(sent_ns), OWN_NS) if service_ns is None else service_ns
    free_ns, waits = 0, []
    for at, ahead, needs in zip(sent_ns.tolist(), others.tolist(), service.tolist(), strict=True):
        begins = max(at, free_ns) + ahead * OWN_NS
        waits.append(begins - at)
        free_ns = begins + needs
    return np.array(waits)


def delays(sent_ns: Array, wait_ns: Array) -> PacketDelays:
    nothing = np.empty(0, dtype=np.int64)
    here = np.arange(len(sent_ns))
    return PacketDelays(here, here, sent_ns, wait_ns, 0, nothing, nothing, is_one_way=True)


def paced(random: np.random.Generator, load: float) -> Array:
    """Return times at which a sender fills so much of the link, in bursts of some packets."""
    gaps = np.where(random.random(MANY) < 0.5, 0, random.exponential(2 * OWN_NS / load, MANY))
    return np.cumsum(gaps).astype(np.int64)


@pytest.mark.parametrize("seed", range(5))
def test_others_are_found_with_their_share_of_the_time(seed: int) -> None:
    random = np.random.default_rng(seed)
    sent_ns = paced(random, 0.6)
    others = np.where(random.random(MANY) < 0.3, random.integers(1, 4, MANY), 0)
    others[MANY // 3 :] = 0
    noise_ns = random.integers(0, 50_000, MANY)
    found = beside_ours(delays(sent_ns, queued(sent_ns, others) + noise_ns), OWN_NS)
    assert found is not None
    begin_ns, end_ns = sent_ns[0], sent_ns[MANY // 3 + 16]  # a piece more
    assert begin_ns <= found.time_ns[0] < found.time_ns[-1] <= end_ns
    assert found.others_ns.sum() == pytest.approx(others.sum() * OWN_NS, rel=0.15)
    assert (found.others_ns <= found.took_ns).all()


def _alone(random: np.random.Generator) -> Array:
    return queued(paced(random, 0.9), NONE)


def _slower_link(random: np.random.Generator) -> Array:
    slow = np.where(np.arange(MANY) > MANY // 2, 2 * OWN_NS, OWN_NS)
    return queued(paced(random, 0.6), NONE, slow)


def _rough_link(random: np.random.Generator) -> Array:
    return queued(paced(random, 0.6), NONE, random.exponential(OWN_NS, MANY))


def _jitter(random: np.random.Generator) -> Array:
    return queued(paced(random, 0.6), NONE) + random.exponential(OWN_NS, MANY).astype(np.int64)


@pytest.mark.parametrize("path", [_alone, _slower_link, _rough_link, _jitter])
@pytest.mark.parametrize("seed", range(3))
def test_a_link_of_our_own_is_never_shared(path: Callable[[np.random.Generator], Array], seed: int) -> None:
    sent_ns = paced(np.random.default_rng(seed), 0.6 if path is not _alone else 0.9)
    wait_ns = path(np.random.default_rng(seed))
    assert beside_ours(delays(sent_ns, wait_ns), OWN_NS) is None


def kept_back(sent_ns: Array, wait_ns: Array) -> Array:
    """Return the waits where a host keeps a packet back that another follows at once, to join both."""
    came = sent_ns + wait_ns
    is_first = (np.arange(MANY) % 2 == 0) & (np.diff(came, append=came[-1] + 9 * OWN_NS) <= OWN_NS)
    return wait_ns + np.where(is_first, 7 * OWN_NS // 10, 0)


@pytest.mark.parametrize("seed", range(3))
def test_others_are_found_though_a_host_keeps_packets_back(seed: int) -> None:
    random = np.random.default_rng(seed)
    sent_ns, served = paced(random, 1.5), np.arange(MANY)
    others = np.where(random.random(MANY) < 0.3, random.integers(1, 4, MANY), 0)
    others[MANY // 3 :] = 0
    for theirs in (others, NONE):
        seen = delays(sent_ns, kept_back(sent_ns, queued(sent_ns, theirs)))
        assert beside_ours(seen, OWN_NS) is None
        found = beside_ours(not_kept_back(seen, OWN_NS, served), OWN_NS)
        assert (found is not None) == theirs.any()
        if found is not None:
            assert found.others_ns.sum() == pytest.approx(others.sum() * OWN_NS, rel=0.15)


def test_others_before_each_packet_are_found_by_their_unlike_number() -> None:
    random = np.random.default_rng(4)
    sent_ns = paced(random, 0.9)
    others = random.integers(2, 5, MANY)
    others[: 3 * MANY // 4] = 0
    found = beside_ours(delays(sent_ns, queued(sent_ns, others)), OWN_NS)
    assert found is not None
    assert found.others_ns.sum() == pytest.approx(others.sum() * OWN_NS, rel=0.15)
    others[others > 0] = 2
    assert beside_ours(delays(sent_ns, queued(sent_ns, others)), OWN_NS) is None, "a link three times slower"


@pytest.mark.parametrize("is_shared", [True, False])
def test_others_are_found_between_segments_that_a_device_joined(is_shared: bool) -> None:
    """Only the last segment of each four is seen to arrive."""
    random = np.random.default_rng(5)
    sent_ns = np.repeat(np.cumsum(random.exponential(5 * OWN_NS, MANY)).astype(np.int64), 4)
    others = np.where(random.random(len(sent_ns)) < 0.2, 1, 0) * is_shared
    others[MANY:] = 0
    wait_ns = queued(sent_ns, others)
    of_all = delays(sent_ns, wait_ns)
    last = np.arange(3, len(sent_ns), 4)
    seen = replace(of_all, **{name: getattr(of_all, name)[last] for name in ("row", "place", "time_ns", "queue_ns")})
    groups = Joined(np.diff(last), sent_ns[last[:-1] + 1])
    assert beside_ours(seen, OWN_NS) is None
    assert (beside_ours(seen, OWN_NS, groups) is not None) == is_shared


def test_what_a_host_kept_back_counts_as_one_arrival_and_pairs_of_a_slow_sender_do_not() -> None:
    came_ns = OWN_NS * np.arange(1, MANY + 1)
    came_ns[100:111] = came_ns[110] - 1000 * np.arange(10, -1, -1)  # the host was busy
    place = np.arange(MANY)
    came = AggregatedArrivals(place, place, place, 0 * came_ns, came_ns, np.ones(MANY))
    means = queued_means(came, np.full(MANY, 50 * OWN_NS))
    assert own_ns(means) == pytest.approx(OWN_NS)
    found = joined(came, means)
    assert found.many.max() == 11
    assert len(found.row) == MANY - 10
    np.testing.assert_array_equal(np.diff(found.came_ns), OWN_NS * found.many[1:])
    pairs_ns = np.repeat(20 * OWN_NS * np.arange(MANY // 2), 2) + OWN_NS * (place % 2)
    pairs = came._replace(came_ns=pairs_ns)
    waited_ns = OWN_NS * (place % 2)
    assert joined(pairs, queued_means(pairs, waited_ns)) is pairs
