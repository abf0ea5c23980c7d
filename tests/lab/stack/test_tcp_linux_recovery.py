"""How Linux with SACK finds losses, reduces its window, and undoes what was needless."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from multitracer.lab.tcp.congestion.base import Acked
from multitracer.lab.tcp.congestion.cubic import LinuxCubic
from multitracer.lab.tcp.profile import MODERN, TcpProfile, as_linux
from multitracer.lab.tcp.state import CongestionState
from multitracer.units import NS_PER_MS, NS_PER_S
from tests.lab.stack.tcp_pair import START_NS, Fate, Pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.lab.tcp.packet import TcpPacket

MSS = 1448
LINUX = replace(as_linux(MODERN), initial_window_segments=20)
BEGIN_NS, END_NS = START_NS + 2 * NS_PER_S, START_NS + 3 * NS_PER_S


def paused(profile: TcpProfile, *, loses: bool = False) -> Pair:
    """Return a pair after a transfer in which nothing arrived for a second, late then or never."""
    pair = Pair(client=profile)

    def fate(_: int, packet: TcpPacket) -> Fate:
        if not BEGIN_NS <= pair.now_ns < END_NS:
            return [0]
        return [] if loses else [END_NS - pair.now_ns]

    pair.fate = fate
    pair.run(seconds=1.9)
    pair.a.write(bytes(400 * MSS))
    pair.run(seconds=1.05)
    pair.run(seconds=20)
    assert len(pair.received["b"]) == 400 * MSS
    assert pair.a.sender.ca_state is CongestionState.OPEN
    return pair


def limited(profile: TcpProfile) -> TcpProfile:
    """Return a profile whose window does not grow: slow start is over at 20 segments."""
    return replace(profile, initial_ssthresh_segments=20)


@pytest.mark.parametrize("congestion", ["linux-reno", "linux-cubic"])
@pytest.mark.parametrize("timestamps", [True, False])
def test_a_timeout_in_a_pause_is_undone(congestion: str, timestamps: bool) -> None:
    """By the echoed timestamp (Eifel), or because segments sent only once arrive (F-RTO)."""
    profile = replace(limited(LINUX), congestion=congestion, timestamps=timestamps)
    sender = paused(profile).a.sender
    counters = sender.counters
    assert counters.timeouts >= 1
    assert counters.undone >= 1
    assert sender.congestion.cwnd_bytes >= 20 * MSS
    assert sender.congestion.ssthresh_bytes >= 15 * MSS, "three quarters of the window before"
    assert counters.retransmitted_segments <= counters.timeouts + 1, "the first segment, and a probe"


def test_without_undoing_the_window_stays_reduced() -> None:
    """The control: by RFC 6675 alone the same pause costs half of the window."""
    sender = paused(replace(limited(LINUX), congestion="linux-reno", recovery="rfc6675")).a.sender
    assert sender.counters.undone == 0
    assert sender.congestion.ssthresh_bytes <= 10 * MSS


@pytest.mark.parametrize("timestamps", [True, False])
def test_a_timeout_that_was_needed_is_not_undone(timestamps: bool) -> None:
    sender = paused(replace(limited(LINUX), timestamps=timestamps), loses=True).a.sender
    assert sender.counters.timeouts >= 1
    assert sender.counters.undone == 0
    assert sender.congestion.ssthresh_bytes < 15 * MSS


def losing(lost: dict[int, int]) -> Callable[[int, TcpPacket], Fate]:
    """Return a path that loses segment n (by its place in the stream) as often as `lost` says."""
    left = dict(lost)
    first: list[int] = []

    def fate(_: int, packet: TcpPacket) -> Fate:
        if not packet.segment.payload:
            return [0]
        first[:] = first or [packet.segment.seq]
        place = (packet.segment.seq - first[0]) // MSS
        if left.get(place, 0):
            left[place] -= 1
            return []
        return [0]

    return fate


def sent_over(profile: TcpProfile, lost: dict[int, int]) -> Pair:
    pair = Pair(client=profile, fate=losing(lost))
    pair.run(seconds=1)
    pair.a.write(bytes(300 * MSS))
    pair.run(seconds=30)
    assert len(pair.received["b"]) == 300 * MSS
    return pair


def test_a_lost_retransmission_is_found_by_what_was_sent_after_it() -> None:
    """RACK (RFC 8985, section 6.2); RFC 6675 has to wait for its timer."""
    ours = sent_over(LINUX, {30: 2}).a.sender.counters
    assert (ours.timeouts, ours.retransmitted_segments) == (0, 2)
    plain = sent_over(replace(LINUX, recovery="rfc6675", tail_loss_probe=False), {30: 2})
    assert plain.a.sender.counters.timeouts == 1


def test_a_hole_before_the_last_segment_is_repaired_without_the_timer() -> None:
    """One SACK above it, FIN and all: it is lost when a quarter of the round trip is over (RFC 8985, 6.2)."""
    pair = Pair(client=LINUX, fate=losing({98: 1}))
    pair.run(seconds=1)
    pair.a.write(bytes(100 * MSS))
    pair.a.close()
    pair.run(seconds=30)
    counters = pair.a.sender.counters
    assert len(pair.received["b"]) == 100 * MSS
    assert (counters.timeouts, counters.retransmitted_segments) == (0, 1)


def test_a_reduction_lets_out_one_segment_for_two_that_arrive() -> None:
    """RFC 6937: in the round trip after the loss 19 of 20 arrive, and ten leave instead."""
    pair = sent_over(replace(limited(LINUX), congestion="linux-reno"), {40: 1})
    sender = pair.a.sender
    assert sender.counters.fast_retransmits == 1
    assert sender.congestion.ssthresh_bytes < 15 * MSS
    sent = pair.data_sent()
    numbers = [seen.packet.segment.seq for seen in sent]
    place = next(n for n, number in enumerate(numbers) if number in numbers[:n])
    over_ns = sent[place].time_ns + 100 * NS_PER_MS
    assert 9 <= sum(seen.time_ns < over_ns for seen in sent[place:]) <= 12


def test_needless_copies_of_a_late_segment_are_seen_by_the_duplicates_they_make() -> None:
    """A segment that is 30 ms behind its followers is not lost: its D-SACK undoes the recovery."""
    seen = [0]

    def late(_: int, packet: TcpPacket) -> Fate:
        seen[0] += bool(packet.segment.payload)
        return [0 if seen[0] != 30 or not packet.segment.payload else 30 * NS_PER_MS]

    profile = replace(limited(LINUX), timestamps=False)
    pair = Pair(client=profile, fate=late)
    pair.run(seconds=1)
    pair.a.write(bytes(300 * MSS))
    pair.run(seconds=30)
    counters = pair.a.sender.counters
    assert len(pair.received["b"]) == 300 * MSS
    assert (counters.fast_retransmits, counters.dsacks, counters.undone) == (1, 1, 1)


# --- CUBIC ---


def cubic(window: int) -> LinuxCubic:
    return LinuxCubic(mss_bytes=MSS, initial_window_bytes=window * MSS)


def acked(now_ms: float, *, rtt_ms: float, place: int, outstanding: int) -> Acked:
    return Acked(
        now_ns=int(now_ms * NS_PER_MS),
        acked_bytes=MSS,
        flight_bytes=outstanding * MSS,
        snd_una=place * MSS,
        snd_max=(place + outstanding) * MSS,
        rtt_ns=int(rtt_ms * NS_PER_MS),
        srtt_ns=int(rtt_ms * NS_PER_MS),
    )


@pytest.mark.parametrize(("rise_ms", "ends"), [(0.0, False), (4.5, False), (5.5, True)])
def test_slow_start_ends_when_delays_rise_by_an_eighth(rise_ms: float, ends: bool) -> None:
    """40 ms: an eighth is 5 ms (hystart_update); ACKs 5 ms apart are no train."""
    window = cubic(20)
    for place in range(1, 60):
        late_ms = rise_ms if place > 20 else 0
        window.on_ack(acked(place * 5, rtt_ms=40 + late_ms, place=place, outstanding=20))
    assert (window.ssthresh_bytes < 1 << 30) is ends
    assert (window.cwnd_bytes < 70 * MSS) is ends


def test_slow_start_ends_after_a_train_of_acks_as_long_as_half_the_delay() -> None:
    window = cubic(20)
    for place in range(1, 60):
        window.on_ack(acked(place, rtt_ms=40, place=place, outstanding=70))
    assert 40 * MSS <= window.ssthresh_bytes <= 45 * MSS  # 20 ms after the round began, one a ms


def test_a_window_below_16_segments_is_never_judged() -> None:
    window = cubic(2)
    for place in range(1, 14):
        window.on_ack(acked(place * 5, rtt_ms=40 + 20 * (place > 3), place=place, outstanding=2))
    assert window.cwnd_bytes == 15 * MSS
    assert window.ssthresh_bytes == 1 << 30


def test_a_timeout_forgets_the_largest_window() -> None:
    """bictcp_reset: the next epoch does not aim at it, and grows by a twentieth of the window at least."""
    window = cubic(100)
    window.on_loss(flight_bytes=100 * MSS, now_ns=0)
    window.on_timeout(flight_bytes=70 * MSS, first=False, now_ns=0)
    window.cwnd_bytes = window.ssthresh_bytes = 50 * MSS
    for place in range(1, 51):
        window.on_ack(acked(1000 + place, rtt_ms=100, place=place, outstanding=50))
    assert window.cwnd_bytes == 52 * MSS


def test_the_window_returns_to_the_last_maximum_after_k_seconds() -> None:
    window = cubic(100)
    window.on_loss(flight_bytes=100 * MSS, now_ns=0)
    assert window.cwnd_bytes == 70 * MSS
    k_ms = (30 / 0.4) ** (1 / 3) * 1000
    place, now_ms = 0, 0.0
    while now_ms < k_ms:
        for _ in range(window.cwnd_bytes // MSS):
            place += 1
            window.on_ack(acked(now_ms, rtt_ms=100, place=place, outstanding=70))
        now_ms += 100
    assert window.cwnd_bytes == pytest.approx(100 * MSS, rel=0.03)
