"""The rate at which the link was the limit: of the time that it had work, and of the link itself."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.diagnosis.clauses import at_rate
from multitracer.diagnosis.diagnose import diagnose, explain
from multitracer.diagnosis.limits.link import Paths, Rates
from multitracer.diagnosis.limits.names import Confidence, Limit, LimitSubtype
from multitracer.diagnosis.limits.observed import DelaySamples
from multitracer.diagnosis.sentence import rows_in_words
from multitracer.diagnosis.service_times import ArrivalGaps, _is_own
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from multitracer.units import NS_PER_MS, NS_PER_S
from tests.diagnosis.exchange import Exchange, of
from tests.diagnosis.path import ROAD, diagnosed

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.tables import Array

_SERVICE_NS = 3 * NS_PER_MS
_RECORDINGS = Path(__file__).parents[1] / "causes" / "recordings"


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
    assert "a policer let no more through than 1.97 Mbit/s with headers" in found.headline.sentence
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


def _bursts(tmp_path: Path) -> Limited:
    exchange = Exchange().opened()
    for burst in range(10):
        exchange.data(51 + 500 * burst, 40 * burst, count=40)
        for number in range(40):
            exchange.ack(103 + 500 * burst + 2 * number, 40 * burst + number + 1)
    return exchange.diagnosed(tmp_path).limited


def _at(limited: Limited, *rates_bps: float) -> Limited:
    """Return the same with other rates of its link: low, median and high."""
    shown = limited.shown
    assert shown is not None
    rates = Rates(*(each / 8 for each in (*rates_bps, rates_bps[-1])))
    return replace(limited, shown=replace(shown, link=shown.link._replace(rate=rates)))


def test_a_rate_that_the_delivered_bytes_contradict_is_not_told(tmp_path: Path) -> None:
    """A busy link delivers at its rate: while it was the limit, 4 Mbit/s came through."""
    limited = _bursts(tmp_path)
    assert at_rate(limited) == ", at 4.0 Mbit/s"
    limited = _at(limited, 1.3e9, 1.32e9, 92e12)
    assert at_rate(limited) == ""
    assert not any("bit/s" in numbers for *_, numbers in rows_in_words(limited))
    assert {row.confidence for row in limited.shares if row.limit is Limit.LINK} == {Confidence.WEAK}


def test_a_link_whose_rate_varies_is_told_by_its_mean_and_each_number_by_its_unit(tmp_path: Path) -> None:
    limited = _at(_bursts(tmp_path), 12e3, 42e3, 6.15e6)
    assert re.fullmatch(r", at 12 kbit/s to 6\.15 Mbit/s, \d\.\d\d Mbit/s at the median", at_rate(limited))
    (told,) = {numbers for *_, numbers in rows_in_words(limited) if numbers}
    assert "Mbit/s of payload (12 kbit/s to 6.15 Mbit/s), shown by" in told


def test_losses_and_acks_in_bunches_give_a_constant_link_no_range() -> None:
    """Short intervals made 2.7 to 6.01 Mbit/s of a link of 6."""
    found = diagnose(Transfer.of(read(_RECORDINGS / "00011-bursty-loss" / "session"))).limited
    assert found.link_rate is not None
    assert found.link_rate.low > 0.95 * found.link_rate.high


def test_a_link_that_was_the_limit_for_a_moment_has_no_range(tmp_path: Path) -> None:
    numbers = of(diagnosed(tmp_path, size=600_000), "link-limited").numbers
    assert numbers["rate_low_bps"] == numbers["rate_bps"] == numbers["rate_high_bps"]


def test_the_rate_of_a_link_is_not_in_the_row_of_the_acks(tmp_path: Path) -> None:
    """They wait in the queue of the other direction."""
    limited = _bursts(tmp_path)
    part = np.array(limited.cells.part)
    part[np.flatnonzero(limited.cells.limit == Limit.LINK)[:-1]] = LimitSubtype.ACKS
    rows = rows_in_words(replace(limited, cells=limited.cells._replace(part=part)))
    assert not any(numbers for name, *_, numbers in rows if name == "link (acks)")
    assert len({name for name, *_ in rows if name.startswith("link")}) == 2


@pytest.mark.parametrize("seed", range(4))
def test_gaps_in_bunches_show_no_rate_of_the_link(seed: int) -> None:
    """A device that holds back segments makes many short gaps and few long ones."""
    chance = np.random.default_rng(seed)
    link = chance.normal(1.0, 0.08, 400) * NS_PER_MS
    bunched = np.where(np.arange(400) % 8, 0.005, 8.0) * NS_PER_MS
    shared = np.where(chance.random(400) < 0.5, 1.0, 2.0) * NS_PER_MS

    def is_own(gap_ns: Array, own_ns: float) -> bool:
        none = np.zeros(400, dtype=np.int64)
        gaps = ArrivalGaps(none, gap_ns, none, none + 1, none != 0)
        return _is_own(gaps, none == 0, own_ns)

    assert is_own(link, NS_PER_MS)
    assert is_own(shared, NS_PER_MS), "cross traffic in every other gap"
    assert not is_own(bunched, 0.005 * NS_PER_MS)


@pytest.mark.fixtures
def test_no_rate_is_told_of_a_reported_capture_of_cut_packets(fixture_folder: Path) -> None:
    found = explain(read(fixture_folder / "reports" / "snap68_truth_full.pcap.gz"))
    texts = [found.headline.sentence, *(cell for row in rows_in_words(found.limited) for cell in row)]
    assert not any("bit/s" in text for text in texts)


@pytest.mark.fixtures
def test_a_device_that_bunches_segments_changed_no_rate(fixture_folder: Path) -> None:
    found = diagnose(Transfer.of(read(fixture_folder / "causes" / "n73" / "session")))
    assert "rate-change" not in {finding.kind for finding in found.findings}


def test_a_changed_rate_is_not_above_what_the_link_carries() -> None:
    """It rose to 2.22 Mbit/s with headers; gaps of packets that came together alone show 2.51 Mbit/s of payload."""
    found = diagnose(Transfer.of(read(_RECORDINGS / "20002-rate-step-up" / "session")))
    (change,) = (each for each in found.findings if each.kind == "rate-change")
    assert change.numbers["rate_before_bps"] < 560_901
    assert change.numbers["rate_after_bps"] < 1.02 * 2_223_616
