"""The rate at which the link was the limit: of the time that it had work, and of the link itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.diagnosis.limits.link import Paths
from multitracer.diagnosis.limits.observed import DelaySamples
from multitracer.units import NS_PER_MS, NS_PER_S
from tests.diagnosis.exchange import Exchange, of
from tests.diagnosis.path import ROAD, diagnosed

if TYPE_CHECKING:
    from pathlib import Path

_SERVICE_NS = 3 * NS_PER_MS


def test_bursts_are_served_at_the_links_rate_not_at_that_of_their_pauses(tmp_path: Path) -> None:
    """Forty segments at once, 2 ms each on the link, every half a second: 4 Mbit/s, 16 % used."""
    exchange = Exchange().opened()
    for burst in range(10):
        at_ms, first = 51 + 500 * burst, 40 * burst
        exchange.data(at_ms, first, count=40)
        for number in range(40):
            exchange.ack(at_ms + 52 + 2 * number, first + number + 1)
    link = of(exchange.diagnosed(tmp_path), "link-limited")
    assert link.numbers["rate_bps"] == pytest.approx(4e6, rel=0.02)
    assert link.numbers["rate_low_bps"] == pytest.approx(4e6, rel=0.05)


def test_a_rate_counts_for_the_time_that_it_held(tmp_path: Path) -> None:
    """Most of the segments are served before the link becomes slower, but in the lesser part of the time."""
    found = diagnosed(tmp_path, size=2_000_000, slower_from_ns=3 * NS_PER_S, slower_bps=1_000_000)
    assert of(found, "link-limited").numbers["rate_bps"] == pytest.approx(0.97e6, rel=0.05)


def test_a_policer_is_told_by_what_it_passes(tmp_path: Path) -> None:
    drive = replace(ROAD, rate_bps=40_000_000, delay_ns=10 * NS_PER_MS, queue_packets=400)
    found = diagnosed(tmp_path, drive, size=1_500_000, policed_bps=2_000_000)
    assert "a policer let no more through than 2.06 Mbit/s with headers" in found.headline.sentence
    assert "rate_bps" not in of(found, "link-limited").numbers


def test_acks_in_bunches_do_not_tell_the_rate_behind_a_policer(tmp_path: Path) -> None:
    drive = replace(ROAD, rate_bps=100_000_000, delay_ns=10 * NS_PER_MS, queue_packets=400)
    found = diagnosed(tmp_path, drive, both=False, size=6_000_000, policed_bps=12_000_000, bucket_bytes=30_000)
    policer = of(found, "policer")
    assert "the link itself is faster" in policer.sentence
    assert "link_bytes_per_s" not in policer.numbers


def test_a_host_that_was_busy_made_no_longer_path() -> None:
    """What came meanwhile comes at once; the queue, which had grown before, is there as it was."""
    sent_ns = np.arange(2000) * _SERVICE_NS
    grown_ns = np.minimum(np.arange(2000), 1400) * (NS_PER_MS // 4)
    came_ns = sent_ns + grown_ns
    for stall in (1500, 1510, 1520):
        resumed_ns = came_ns[stall] + 30 * NS_PER_MS
        came_ns[stall:] = np.maximum(came_ns[stall:], resumed_ns)
    busy = DelaySamples(sent_ns, came_ns - sent_ns, np.arange(2000))
    assert Paths.of(busy, _SERVICE_NS).is_one
    grown_ns = np.minimum(np.arange(2000), 400) * (NS_PER_MS // 4)
    longer = DelaySamples(sent_ns, grown_ns + 30 * NS_PER_MS * (np.arange(2000) >= 1500), np.arange(2000))
    assert len(Paths.of(longer, _SERVICE_NS).begin_ns) == 2
