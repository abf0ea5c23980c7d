"""What paper 002 changes of a sender: first threshold, window after a timeout, copies of a segment."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from multitracer.errors import LocalProtocolError
from multitracer.lab.tcp.congestion.base import UNLIMITED_BYTES
from multitracer.lab.tcp.profile import MODERN
from multitracer.units import NS_PER_MS
from tests.lab.stack.tcp_pair import Pair

if TYPE_CHECKING:
    from multitracer.lab.tcp.packet import TcpPacket
    from multitracer.lab.tcp.profile import TcpProfile

MSS = 1460
TAHOE = replace(
    MODERN,
    congestion="tahoe",
    sack=False,
    timestamps=False,
    limited_transmit=False,
    delayed_ack_ns=0,
    initial_window_segments=1,
    receive_buffer_bytes=64 * MSS,
    timer_tick_ns=NS_PER_MS,
)


def bursts(profile: TcpProfile, **more: object) -> list[int]:
    """Return how many segments with data left in each round trip of 100 ms."""
    pair = Pair(client=profile, **more)  # type: ignore[arg-type]
    pair.transfer(bytes(120 * MSS))
    times = Counter((seen.time_ns - 50 * NS_PER_MS) // (100 * NS_PER_MS) for seen in pair.data_sent())
    return [times[key] for key in sorted(times)]


@pytest.mark.parametrize(
    ("segments", "grows"), [(0, [1, 2, 4, 8, 16, 32]), (8, [1, 2, 4, 8, 8, 9, 10]), (16, [1, 2, 4, 8, 16, 16, 17])]
)
def test_growth_is_linear_from_the_first_threshold(segments: int, grows: list[int]) -> None:
    assert bursts(replace(TAHOE, initial_ssthresh_segments=segments))[: len(grows)] == grows


def test_without_one_the_threshold_is_arbitrarily_high() -> None:
    pair = Pair(client=TAHOE)
    pair.transfer(bytes(MSS))
    assert pair.a.sender.congestion.ssthresh_bytes == UNLIMITED_BYTES


@pytest.mark.parametrize("congestion", ["tahoe", "reno", "newreno", "cubic"])
def test_after_a_fade_half_of_the_window_leaves_at_once(congestion: str) -> None:
    def fate(number: int, packet: TcpPacket) -> list[int]:
        return [] if fade[0] <= number < fade[1] and packet.segment.payload else [0]

    fade = 80, 130  # all that is outstanding, and with it every duplicate ACK
    windows = {}
    for kept in ("one", "half"):
        profile = replace(TAHOE, congestion=congestion, initial_ssthresh_segments=16, timeout_window=kept)
        pair = Pair(client=profile, fate=fate)
        pair.transfer(bytes(120 * MSS))
        assert pair.a.sender.counters.timeouts >= 1
        times = [seen.time_ns for seen in pair.data_sent()]
        idle_gap = max(range(1, len(times)), key=lambda at: times[at] - times[at - 1])
        windows[kept] = sum(time_ns == times[idle_gap] for time_ns in times)
    assert windows["one"] == 1
    assert windows["half"] >= 6


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_each_segment_with_data_leaves_as_often_as_its_copies(copies: int) -> None:
    pair = Pair(client=replace(TAHOE, copies=copies))
    pair.transfer(bytes(20 * MSS))
    sent = Counter(seen.packet.segment.seq for seen in pair.data_sent())
    assert set(sent.values()) == {copies}
    assert len(sent) == 20
    identifications = [seen.packet.identification for seen in pair.data_sent()]
    assert len(set(identifications)) == len(identifications)
    counters = pair.a.sender.counters
    assert (counters.retransmitted_segments, counters.timeouts, counters.fast_retransmits) == (0, 0, 0)


def test_a_copy_replaces_a_lost_segment_without_a_timeout() -> None:
    def fate(number: int, packet: TcpPacket) -> list[int]:
        del number
        lost = bool(packet.segment.payload) and packet.identification % 2 == 0
        return [] if lost else [0]

    pair = Pair(client=replace(TAHOE, copies=2), fate=fate)
    pair.transfer(bytes(40 * MSS))
    assert pair.a.sender.counters.timeouts == 0
    assert pair.data_sent()[-1].seconds < 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"copies": 4}, '"copies" must be 1 to 3, but is 4'),
        ({"copies": 0}, '"copies" must be 1 to 3, but is 0'),
        ({"initial_ssthresh_segments": -1}, '"initial_ssthresh_segments" must be 0 (no threshold) to'),
    ],
)
def test_a_wrong_number_is_refused(changes: dict[str, int], says: str) -> None:
    with pytest.raises(LocalProtocolError) as refused:
        replace(TAHOE, **changes)  # type: ignore[arg-type]
    assert says in str(refused.value)
