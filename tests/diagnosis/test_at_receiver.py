"""What a receiver's capture alone tells of a path, as a phone's of a download."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from multitracer.units import NS_PER_MS, NS_PER_S
from tests.analysis.traffic import SYN
from tests.diagnosis.exchange import FULL, Exchange, kinds, of
from tests.diagnosis.path import ROAD, diagnosed

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.diagnosis.diagnosis import Diagnosis

_DEAD = {"dead_from_ns": 2 * NS_PER_S, "dead_until_ns": 5 * NS_PER_S}
_SILENCES = {"outage", "blackout", "ack-loss", "path-mtu-black-hole"}


def _received(folder: Path, drive: Any = ROAD, **does: Any) -> Diagnosis:
    return diagnosed(folder, drive, both=False, host="fixed", **does)


def test_a_silence_in_which_retries_failed_is_an_outage(tmp_path: Path) -> None:
    found = _received(tmp_path, **_DEAD)
    dead = of(found, "outage")
    assert dead.numbers["outage_s"] == pytest.approx(3.5, abs=1.0), "until the try that came through"
    assert _SILENCES & kinds(found) == {"outage"}


def test_data_that_had_arrived_and_come_again_and_again_tell_of_lost_acks(tmp_path: Path) -> None:
    found = _received(tmp_path, **_DEAD, no_acks=True)
    lost = of(found, "ack-loss")
    assert lost.numbers["repeated_packets"] >= 2
    assert _SILENCES & kinds(found) == {"ack-loss"}


def test_a_path_without_a_silence_has_none(tmp_path: Path) -> None:
    assert not _SILENCES & kinds(_received(tmp_path, replace(ROAD, loss=0.03, queue_packets=200)))


@pytest.mark.parametrize(("queue_packets", "bloated"), [(200, True), (10, False)])
def test_a_long_queue_shows_in_the_senders_timestamps(tmp_path: Path, queue_packets: int, bloated: bool) -> None:
    drive = replace(ROAD, delay_ns=5 * NS_PER_MS, queue_packets=queue_packets)
    found = _received(tmp_path, drive, size=4_000_000)
    assert ("bufferbloat" in kinds(found)) is bloated
    if bloated:
        queue = of(found, "bufferbloat")
        assert queue.numbers["added_delay_error_s"] == pytest.approx(0.001), "it rests on timestamps that tick each ms"
        assert "± 1.0 ms, a tick of the TCP timestamps" in queue.sentence


def test_a_link_that_becomes_slower_changed_its_rate(tmp_path: Path) -> None:
    found = _received(tmp_path, size=3_000_000, slower_from_ns=3 * NS_PER_S, slower_bps=1_500_000)
    change = of(found, "rate-change")
    assert change.numbers["rate_after_bps"] == pytest.approx(1.46e6, rel=0.05)


def test_others_on_the_link_do_not_change_its_rate(tmp_path: Path) -> None:
    others = {"others_from_ns": 2 * NS_PER_S, "others_until_ns": 4 * NS_PER_S, "others_bps": 2_000_000}
    assert not {"competing-traffic", "rate-change"} & kinds(_received(tmp_path, size=3_000_000, **others))


def _hole(*, after: int) -> Exchange:
    """Return full segments, four seconds of silence, and segments of `after` bytes, noted where they arrive.

    Six packets of the sender were not: its IP identifications say so.
    """
    exchange = Exchange()
    exchange.note(0, 0, seq=1000, flags=SYN, options={"mss": FULL, "scale": 0}, ip_id=1)
    exchange.syn_ack(0.1)
    exchange.note(50, 0, seq=1001, ack=5001, ip_id=2)
    at_ms, seq = 50.2, 1001
    for number in range(140):
        size, lost = (FULL, 0) if number < 100 else (after, 6)
        at_ms += 4000 if number == 100 else 50
        exchange.note(at_ms, 0, seq=seq, ack=5001, payload=size, ip_id=3 + number + lost)
        seq += size
        exchange.note(at_ms + 0.1, 1, seq=5001, ack=seq)
    return exchange


def test_a_silence_after_which_all_is_smaller_is_a_hole_for_what_is_larger(tmp_path: Path) -> None:
    found = _hole(after=500).diagnosed(tmp_path)
    hole = of(found, "path-mtu-black-hole")
    assert (hole.numbers["vanished_bytes"], hole.numbers["passed_bytes"]) == (FULL, 500)
    assert _SILENCES & kinds(found) == {"path-mtu-black-hole"}


def test_options_make_no_hole(tmp_path: Path) -> None:
    found = _hole(after=FULL - 36).diagnosed(tmp_path)
    assert _SILENCES & kinds(found) == {"outage"}


def test_arrivals_joined_in_twos_alone_have_no_mean_gap(tmp_path: Path) -> None:
    exchange = Exchange().opened()
    at_ms, seq = 60.0, 5001
    for size in 30 * [2 * FULL, 2 * FULL, FULL // 10]:
        exchange.note(at_ms, 1, seq=seq, ack=1001, payload=size)
        exchange.note(at_ms + 0.05, 0, seq=1001, ack=seq + size)
        at_ms, seq = at_ms + 5, seq + size
    found = exchange.diagnosed(tmp_path, reverse=True)
    assert found.arrival_gaps is None
