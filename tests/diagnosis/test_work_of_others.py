"""What packets waited beyond our own is others' work: a queue with one server, reckoned packet by packet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.diagnosis.bottleneck.work_of_others import beside_ours
from multitracer.diagnosis.packets.packet_delays import Delays
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


def delays(sent_ns: Array, wait_ns: Array) -> Delays:
    nothing = np.empty(0, dtype=np.int64)
    here = np.arange(len(sent_ns))
    return Delays(here, here, sent_ns, wait_ns, 0, nothing, nothing, is_one_way=True)


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
