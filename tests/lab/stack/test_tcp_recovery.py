"""How the sender repairs losses, and how fast it may be: RFC 5681, 6298, 6582, 6675, 3042, 3168."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from multitracer.captured import Flag
from multitracer.lab.tcp.packet import Ecn, TcpPacket
from multitracer.lab.tcp.profile import BSD, MODERN, TcpProfile
from multitracer.lab.tcp.state import CongestionState
from multitracer.units import NS_PER_MS, NS_PER_S
from tests.lab.stack.tcp_pair import START_NS, Fate, Pair, Seen, lose_data

if TYPE_CHECKING:
    from collections.abc import Callable

PLAIN = replace(BSD, mtu_bytes=552, timestamps=False, initial_window_segments=2, delayed_ack_ns=0)
"""Reno without options: segments of 512 bytes, a window of 16 of them."""
MSS = 512
LONG = bytes(60 * MSS)


def transferred(profile: TcpProfile, *lost: int) -> Pair:
    pair = Pair(client=profile, fate=lose_data(*lost))
    pair.transfer(LONG)
    assert bytes(pair.received["b"]) == LONG
    return pair


def place_of(seen: Seen) -> int:
    """Return which segment of the stream it is, from 0."""
    return (seen.packet.segment.seq - 8) // MSS


def sent_again(pair: Pair) -> list[int]:
    """Return the places of the segments that were sent more than once."""
    places = [place_of(seen) for seen in pair.data_sent()]
    return sorted({place for place in places if places.count(place) > 1})


def test_no_loss_no_retransmission() -> None:
    counters = transferred(PLAIN).a.sender.counters
    assert (counters.retransmitted_segments, counters.timeouts) == (0, 0)


@pytest.mark.parametrize("congestion", ["reno", "newreno", "cubic", "tahoe"])
def test_one_loss_is_repaired_after_three_duplicate_acks(congestion: str) -> None:
    pair = transferred(replace(PLAIN, congestion=congestion), 20)
    counters = pair.a.sender.counters
    assert (counters.fast_retransmits, counters.timeouts) == (1, 0)
    assert 20 in sent_again(pair)


def test_two_duplicate_acks_are_not_enough() -> None:
    data = bytes(9 * MSS)
    pair = Pair(client=PLAIN, fate=lose_data(6))  # only segments 7 and 8 follow
    pair.transfer(data)
    assert pair.a.sender.counters.fast_retransmits == 0
    assert pair.a.sender.counters.timeouts == 1


def test_newreno_repairs_three_losses_of_one_window_in_three_round_trips() -> None:
    pair = transferred(replace(PLAIN, congestion="newreno"), 20, 22, 24)
    counters = pair.a.sender.counters
    assert (counters.fast_retransmits, counters.timeouts) == (1, 0)
    assert sent_again(pair) == [20, 22, 24]
    times = [max(s.seconds for s in pair.data_sent() if place_of(s) == place) for place in (20, 22, 24)]
    assert all(later - earlier > 0.09 for earlier, later in pairwise(times))


def test_reno_needs_a_timeout_for_three_losses_of_one_window() -> None:
    assert transferred(replace(PLAIN, congestion="reno"), 20, 22, 24).a.sender.counters.timeouts == 1


def test_sack_repairs_three_losses_in_one_round_trip() -> None:
    pair = transferred(replace(PLAIN, sack=True), 20, 22, 24)
    counters = pair.a.sender.counters
    assert (counters.retransmitted_segments, counters.fast_retransmits, counters.timeouts) == (3, 1, 0)
    assert sent_again(pair) == [20, 22, 24]


def test_sack_does_not_send_again_what_arrived_after_a_timeout() -> None:
    profile = replace(PLAIN, sack=True)
    pair = Pair(client=profile, fate=lose_data(20, 22, 24, *range(34, 40)))
    pair.transfer(LONG)
    assert bytes(pair.received["b"]) == LONG
    assert pair.a.sender.counters.timeouts >= 1
    assert not {21, 23, 25} & set(sent_again(pair))


def test_half_of_what_was_in_flight_is_left_after_a_loss() -> None:
    pair = Pair(client=replace(PLAIN, congestion="newreno"), fate=lose_data(40))
    windows: list[tuple[CongestionState, int, int]] = []
    sender = pair.a.sender

    def note() -> None:
        state = sender.ca_state, sender.flight_bytes, sender.congestion.ssthresh_bytes
        if not windows or windows[-1] != state:
            windows.append(state)

    pair.on_step = note
    pair.transfer(LONG)
    entered = next(i for i, window in enumerate(windows) if window[0] is CongestionState.RECOVERY)
    flight_bytes = windows[entered - 1][1]
    assert windows[entered][2] == pytest.approx(flight_bytes / 2, abs=MSS)


def test_the_timeout_backs_off_until_an_ack_comes() -> None:
    pair = Pair(client=PLAIN, fate=lose_data(10, *range(11, 30)))
    pair.transfer(LONG)
    first = [s.seconds for s in pair.data_sent() if place_of(s) == 10]
    gaps = [later - earlier for earlier, later in pairwise(first)]
    assert len(gaps) >= 3
    assert gaps[1:4] == pytest.approx([2 * gap for gap in gaps[:3]], rel=0.3)


def test_no_rtt_sample_is_taken_from_a_retransmitted_segment() -> None:
    """Karn's rule: the ACK may be of either copy."""
    pair = Pair(client=PLAIN, fate=lose_data(10))
    pair.transfer(LONG)
    assert pair.a.sender.rto.srtt_ns is not None
    assert pair.a.sender.rto.srtt_ns <= 500 * NS_PER_MS


def test_coarse_timers_fire_on_half_seconds() -> None:
    pair = Pair(client=PLAIN, fate=lose_data(5, 6, 7))
    pair.transfer(bytes(8 * MSS))
    resent = [s for s in pair.data_sent() if place_of(s) == 5][1]
    assert (resent.time_ns - START_NS) % (500 * NS_PER_MS) == 0


def test_timestamps_time_every_segment() -> None:
    profile = replace(MODERN, delayed_ack_ns=0, timestamps=True)
    pair = Pair(client=profile, delay_ns=70 * NS_PER_MS)
    pair.transfer(bytes(100_000))
    assert pair.a.sender.rto.srtt_ns == pytest.approx(140 * NS_PER_MS, rel=0.02)
    assert pair.a.sender.rto.rto_ns == pytest.approx(200 * NS_PER_MS, rel=0.2)


@pytest.mark.parametrize(("limited", "timeouts"), [(False, 1), (True, 0)])
def test_limited_transmit_brings_a_third_duplicate_ack(limited: bool, timeouts: int) -> None:
    pair = Pair(client=replace(PLAIN, limited_transmit=limited), fate=lose_data(0))
    pair.run(seconds=1)
    pair.a.sender.congestion.cwnd_bytes = 3 * MSS  # two duplicate ACKs, unless two more segments leave
    pair.transfer(bytes(40 * MSS))
    assert pair.a.sender.counters.timeouts == timeouts


def test_a_local_drop_quenches_bsd_only() -> None:
    for profile, expected in ((PLAIN, MSS), (replace(PLAIN, quench_on_local_drop=False), 4 * MSS)):
        pair = Pair(client=profile)
        pair.run(seconds=1)
        pair.a.sender.congestion.cwnd_bytes = 4 * MSS
        pair.a.sender.on_local_drop(pair.now_ns)
        assert pair.a.sender.congestion.cwnd_bytes == expected
        assert pair.a.sender.counters.local_drops == 1


def test_an_idle_connection_starts_again_from_the_initial_window() -> None:
    pair = Pair(client=PLAIN)
    pair.run(seconds=1)
    pair.a.write(bytes(15 * MSS))
    pair.run(seconds=20)
    assert pair.a.sender.congestion.cwnd_bytes > 4 * MSS

    pair.a.write(bytes(15 * MSS))
    pair.next_ns()
    assert pair.a.sender.flight_bytes == 2 * MSS


def ecn_pair(marked: set[int]) -> Pair:
    profile = replace(PLAIN, ecn=True)
    pair = Pair(client=profile)
    seen = iter(range(10_000))

    def fate(_: int, packet: TcpPacket) -> Fate:
        if packet.segment.payload and next(seen) in marked:
            packet.ecn = Ecn.CE
        return [0]

    pair.fate = fate
    pair.transfer(LONG)
    return pair


def test_a_mark_halves_the_window_once_and_is_echoed_until_heeded() -> None:
    pair = ecn_pair({20, 21, 22})
    sender = pair.a.sender
    assert (sender.counters.ecn_reductions, sender.counters.retransmitted_segments) == (1, 0)

    echoes = [Flag.ECE in Flag(s.packet.segment.flags) for s in pair.sent["b"][1:]]
    cwr = [Flag.CWR in Flag(s.packet.segment.flags) for s in pair.data_sent()]
    assert 1 < sum(echoes) < len(echoes) / 2
    assert sum(cwr) == 1


def test_only_new_data_are_ecn_capable() -> None:
    pair = ecn_pair(set())
    assert {s.packet.ecn for s in pair.data_sent()} == {Ecn.ECT_0}
    assert {s.packet.ecn for s in pair.sent["b"]} == {Ecn.NOT_ECT}
    assert pair.sent["a"][0].packet.ecn == Ecn.NOT_ECT


def test_ecn_needs_both_ends() -> None:
    pair = Pair(client=replace(PLAIN, ecn=True), server=PLAIN)
    pair.transfer(LONG)
    assert not pair.a.options.ecn
    assert {s.packet.ecn for s in pair.data_sent()} == {Ecn.NOT_ECT}


def test_nothing_is_outstanding_above_the_smaller_window() -> None:
    pair = Pair(client=PLAIN, delay_ns=NS_PER_S)
    most: list[int] = []
    pair.on_step = lambda: most.append(pair.a.sender.flight_bytes)
    pair.transfer(LONG)
    assert max(most) == 16 * MSS


def lose_place(*places: int, copies: int) -> Callable[[int, TcpPacket], Fate]:
    """Lose the first copies of some segments."""
    seen: Counter[int] = Counter()

    def fate(_: int, packet: TcpPacket) -> Fate:
        place = (packet.segment.seq - 8) // MSS
        seen[place] += len(packet.segment.payload) > 0
        return [] if packet.segment.payload and place in places and seen[place] <= copies else [0]

    return fate


def test_after_a_timeout_only_the_holes_are_sent_again() -> None:
    """RFC 6675, section 5.1: what was SACKed before the timeout stays out of it, and out of the pipe."""
    pair = Pair(client=replace(PLAIN, sack=True), fate=lose_place(20, 22, copies=2))
    pair.transfer(LONG)
    assert bytes(pair.received["b"]) == LONG
    assert pair.a.sender.counters.timeouts == 1
    rescued = set(sent_again(pair)) - {20, 22}  # the one rescue retransmission, at the end of the window
    assert len(rescued) <= 1
    assert min(rescued, default=31) > 30

    times = {place_of(seen): seen.time_ns for seen in pair.data_sent()}  # of the last copy
    beyond = next(seen for seen in pair.data_sent() if seen.time_ns == times[22] and place_of(seen) > 25)
    assert place_of(beyond) not in sent_again(pair)


def test_a_segment_behind_a_hole_gives_no_rtt() -> None:
    """Karn's rule, where every segment is timed: its ACK waits for the repair."""
    profile = replace(PLAIN, sample_every_ack=True, timer_tick_ns=NS_PER_MS)
    pair = Pair(client=profile, fate=lose_place(20, copies=1))
    rto = pair.a.sender.rto
    samples: list[int] = []
    take = rto.sample

    def noted(rtt_ns: int, **_: object) -> None:
        samples.append(rtt_ns)
        take(rtt_ns)

    rto.sample = noted  # type: ignore[method-assign]
    pair.transfer(LONG)
    assert pair.a.sender.counters.fast_retransmits == 1
    assert len(samples) > 30
    assert max(samples) < 150 * NS_PER_MS


def test_a_lost_last_segment_is_rescued_without_a_timeout() -> None:
    """NextSeg() rule 4 of RFC 6675."""
    pair = Pair(client=replace(PLAIN, sack=True), fate=lose_place(20, 29, copies=1))
    pair.transfer(bytes(30 * MSS))
    assert len(pair.received["b"]) == 30 * MSS
    assert (pair.a.sender.counters.timeouts, pair.a.sender.counters.fast_retransmits) == (0, 1)
