"""Each scenario shows what it is named after: the effects and numbers of paper 004, in virtual time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from statistics import mean, median

import pytest

from multitracer.captured import Flag
from multitracer.lab.channel.gsm import LinkConfig
from multitracer.lab.scenario.library import bundled_names, load_scenario
from multitracer.lab.simulator.run import VirtualRun
from multitracer.protocols.link_events import AccessWaitEnded, BurstSent, PacketDropped, ResetStarted
from tests.lab.simulator.watch import Watched, gaps, slope, watch, watched
from tests.narrowed import call_of, known

CALLS = [name for name in bundled_names() if isinstance(load_scenario(name).link, LinkConfig)]


@pytest.mark.parametrize("name", CALLS)
def test_the_ledger_is_even_and_the_transfer_ends(name: str) -> None:
    seen = watched(name)
    assert known(seen.summary.ledger).is_even
    assert known(seen.summary.ledger).bytes_in > 10_000
    assert max(p.time_s for p in seen.packets) < 200 + sum(t.bytes for t in seen.scenario.traffic) / 600


@pytest.mark.parametrize("name", CALLS)
def test_without_a_reset_nothing_is_flushed(name: str) -> None:
    summary = watched(name).summary
    assert (known(summary.ledger).flushed > 0) is (summary.rlp_resets > 0)


class TestCleanBulk:
    """Section 4.5 and Figure 12: what the link gives at best."""

    def test_data_arrive_at_848_bytes_a_second(self) -> None:
        assert slope(watched("clean-bulk").data("fixed", outgoing=False)) == pytest.approx(848, rel=0.02)

    def test_the_link_carries_960_bytes_a_second(self) -> None:
        seen = watched("clean-bulk")
        assert seen.summary.rlp_slope_bytes_per_s == pytest.approx(960, rel=0.01)
        points = [(e.time_ns / 1e9, e.offset_bytes or 0) for e in seen.sent_frames("mobile")]
        assert slope(points) == pytest.approx(seen.summary.rlp_slope_bytes_per_s, rel=1e-6)

    def test_between_the_gaps_it_sends_1200_bytes_a_second(self) -> None:
        frames = watched("clean-bulk").sent_frames("mobile")
        idle_gap = [(a, b) for a, b in pairwise(frames) if b.tick - a.tick > 20]
        starts = [b for _, b in idle_gap]
        ends = [a for a, _ in idle_gap[1:]]
        rates = [
            (end.offset_bytes - start.offset_bytes) / ((end.tick - start.tick) * 0.02)  # type: ignore[operator]
            for start, end in zip(starts, ends, strict=False)
        ]
        settled = rates[2:]  # in slow start the link also waits for segments
        assert len(settled) > 20
        assert settled == pytest.approx([1_200] * len(settled), rel=0.02)

    def test_the_gaps_last_about_a_second(self) -> None:
        lengths = watched("clean-bulk").summary.xoff_gaps_s
        assert len(lengths) > 20
        assert all(0.95 <= length <= 1.35 for length in lengths)

    def test_nothing_is_lost_or_sent_twice(self) -> None:
        summary = watched("clean-bulk").summary
        assert (summary.rlp_retransmissions, summary.tcp_retransmissions, summary.tcp_timeouts) == (0, 0, 0)
        assert (summary.checksum_errors, known(summary.ledger).flushed, known(summary.ledger).queued) == (0, 0, 0)

    def test_the_queue_makes_the_round_trip_ten_times_longer(self) -> None:
        summary = watched("clean-bulk").summary
        assert summary.max_rtt_s is not None
        assert 9 < summary.max_rtt_s < 10.5  # 17 segments of 519 octets at 960 B/s


class TestOverflow:
    """Figure 7: a local drop, duplicate ACKs, a fast retransmit, a pause, a burst."""

    def test_one_packet_is_dropped_and_repaired_by_a_fast_retransmit(self) -> None:
        summary = watched("fig7-overflow").summary
        assert summary.tcp_timeouts == 0
        assert 1 <= summary.tcp_fast_retransmits <= summary.tcp_retransmissions <= 4

    def test_the_sequence_of_the_figure(self) -> None:
        seen = watched("fig7-overflow")
        dropped_s = next(e.time_ns / 1e9 for side, e in seen.link if side == "mobile" and isinstance(e, PacketDropped))
        cwnd = [s.cwnd_bytes for s in seen.states if s.side == "mobile" and s.time_s >= dropped_s]
        assert cwnd[0] == 460  # quenched

        sent = seen.data("mobile", outgoing=True)
        idle_s = next(t for t, _ in sent if t > dropped_s) - dropped_s
        assert idle_s > 3  # half a round trip

        acks = [(t, a) for t, a in seen.acks("mobile") if t > dropped_s]
        repeated = max(acks, key=lambda ack: sum(a == ack[1] for _, a in acks))[1]
        duplicates = [t for t, a in acks if a == repeated]
        assert len(duplicates) > 4
        resent_s = next(t for t, s in sent if t > dropped_s and s == repeated)
        assert resent_s == pytest.approx(duplicates[3], abs=0.01)  # with the third duplicate

    def test_a_burst_of_about_eight_segments_follows(self) -> None:
        largest = max(count for _, count in watched("fig7-overflow").bursts())
        assert 6 <= largest <= 9

    def test_throughput_does_not_suffer(self) -> None:
        assert watched("fig7-overflow").summary.goodput_bytes_per_s == pytest.approx(848, rel=0.03)


def test_figure_4_shows_the_pause_and_the_fast_retransmit_where_the_paper_has_them() -> None:
    seen = watched("fig4-slow-start")
    sent = seen.data("mobile", outgoing=True)
    start_s = sent[0][0]
    highest, resent = -1, []
    for time_s, first_byte in sent:
        resent += [time_s - start_s] if first_byte <= highest else []
        highest = max(highest, first_byte)
    idle_gaps = [(a - start_s, b - start_s) for (a, _), (b, _) in pairwise(sent) if b - a > 3]
    assert resent[0] == pytest.approx(20, abs=2)
    assert idle_gaps[0] == pytest.approx((8.5, 14), abs=2)


class TestTypical:
    """Figure 5, of which Figures 7, 11 and 12 are zooms."""

    def test_it_holds_an_early_burst_of_rlp_retransmissions(self) -> None:
        seen = watched("fig5-typical")
        start_s = seen.data("mobile", outgoing=True)[0][0]
        early = [f for f in seen.sent_frames("mobile") if f.attempt > 1 and f.time_ns / 1e9 < start_s + 10]
        assert len(early) >= 10

    def test_it_holds_a_local_overflow_and_gaps(self) -> None:
        summary = watched("fig5-typical").summary
        assert summary.tcp_fast_retransmits >= 1
        assert len(summary.xoff_gaps_s) > 10
        assert (summary.tcp_timeouts, summary.rlp_resets) == (0, 0)

    def test_its_throughput_is_nearly_the_best(self) -> None:
        seen = watched("fig5-typical")
        assert slope(seen.data("fixed", outgoing=False)) == pytest.approx(848, rel=0.03)


class TestResets:
    """Figures 8 and 9: link resets, with and without header compression."""

    def test_with_compression_the_decompressor_fails_and_tcp_times_out(self) -> None:
        summary = watched("fig8-resets-vj").summary
        assert summary.rlp_resets == 2
        assert summary.tcp_timeouts >= 2
        assert summary.checksum_errors > 10
        assert summary.longest_receiver_hole_s is not None
        assert summary.longest_receiver_hole_s > 5

    def test_each_reset_makes_a_hole_of_many_seconds(self) -> None:
        seen = watched("fig8-resets-vj")
        arrivals = [time for time, _ in seen.data("fixed", outgoing=False)]
        assert sum(gap > 5 for gap in gaps(arrivals)) == 2

    def test_without_compression_tcp_does_not_time_out(self) -> None:
        summary = watched("fig8-resets-plain").summary
        assert (summary.rlp_resets, summary.tcp_timeouts, summary.checksum_errors) == (2, 0, 0)
        assert summary.tcp_fast_retransmits == 2
        assert summary.longest_receiver_hole_s is not None
        assert summary.longest_receiver_hole_s < 3

    def test_the_two_differ_only_in_compression(self) -> None:
        plain, compressed = watched("fig8-resets-plain").scenario, watched("fig8-resets-vj").scenario
        same = replace(call_of(compressed), header_compression="none")
        alike = replace(compressed, name=plain.name, title=plain.title, source=plain.source, link=same)
        assert alike == plain
        assert not plain.mobile.timestamps

    def test_throughput_falls_as_the_paper_says(self) -> None:
        with_vj = watched("fig8-resets-vj").summary.goodput_bytes_per_s
        without = watched("fig8-resets-plain").summary.goodput_bytes_per_s
        assert with_vj is not None
        assert without is not None
        assert with_vj < 0.9 * without

    def test_tossing_hides_the_damage_from_tcp(self) -> None:
        scenario = watched("fig8-resets-vj").scenario
        tossing = watch(replace(scenario, link=replace(call_of(scenario), header_compression="vj"))).summary
        assert tossing.checksum_errors == 0
        assert tossing.tcp_timeouts >= 2


def test_figure_10_backs_off_exponentially() -> None:
    seen = watched("fig10-backoff")
    assert seen.summary.rlp_resets == 3
    assert seen.summary.tcp_timeouts == 3
    rto = [s.rto_s for s in seen.states if s.side == "mobile" and s.backoff > 0]
    steps = sorted(set(rto))
    assert steps == pytest.approx([steps[0], 2 * steps[0], 64])  # 64 s is the largest
    assert steps[0] > 20
    assert seen.summary.longest_receiver_hole_s is not None
    assert seen.summary.longest_receiver_hole_s > 60


def test_figure_10_backs_off_behind_resets_that_n2_brings_about() -> None:
    seen = watch(load_scenario("fig10-exhaustion").as_linux())
    resets = [event for _, event in seen.link if isinstance(event, ResetStarted)]
    assert [event.cause for event in resets if event.cause != "peer"] == ["n2"] * seen.summary.rlp_resets
    assert seen.summary.rlp_resets == 2
    assert all(event.attempts == 6 for event in resets if event.cause == "n2")
    rto = [s.rto_s for s in seen.states if s.side == "mobile" and s.backoff > 0]
    assert sorted(set(rto)) == pytest.approx([36.5, 64], rel=0.02)  # twice the first; 64 s is the largest
    hole_s = seen.summary.longest_receiver_hole_s
    assert hole_s is not None
    assert hole_s > 40


def test_figure_11_rlp_repairs_a_fade_and_tcp_does_not_notice() -> None:
    seen = watched("fig11-fade")
    assert seen.summary.rlp_retransmissions >= 20
    assert (seen.summary.tcp_retransmissions, seen.summary.tcp_timeouts, seen.summary.rlp_resets) == (0, 0, 0)
    resent = [f.time_ns / 1e9 for f in seen.sent_frames("mobile") if f.attempt > 1]
    assert max(resent) - min(resent) < 2
    assert seen.summary.longest_receiver_hole_s is not None
    assert 1.2 < seen.summary.longest_receiver_hole_s < 2.5


def _burst_and_hole_s(seen: Watched) -> tuple[float, float]:
    """Return how long the link repeated frames in the first ten seconds, and the hole at the receiver."""
    start_s = seen.data("mobile", outgoing=True)[0][0]
    sent = [f.time_ns / 1e9 - start_s for f in seen.sent_frames("mobile") if f.attempt > 1]
    resent = [at_s for at_s in sent if 3 < at_s < 10]
    arrived = [time - start_s for time, _ in seen.data("fixed", outgoing=False)]
    return resent[-1] - resent[0], max(gaps([at_s for at_s in arrived if 3 < at_s < 10]))


def test_figure_11_has_a_burst_and_a_hole_as_long_as_the_papers() -> None:
    burst_s, hole_s = _burst_and_hole_s(watched("fig11-opening"))
    assert burst_s == pytest.approx(1.325, rel=0.05)
    assert hole_s == pytest.approx(2.26, rel=0.1)


@pytest.mark.slow
def test_the_fade_of_figure_11_has_many_like_it() -> None:
    """The seed is a free parameter: over others, burst and hole are as long as the paper's, too."""
    scenario = load_scenario("fig11-opening")
    short = replace(scenario, traffic=(replace(scenario.traffic[0], bytes=9_000),))
    runs = [watch(short, seed=seed) for seed in range(1, 21)]
    bursts_s, holes_s = zip(*map(_burst_and_hole_s, runs), strict=True)
    assert 1.0 < median(bursts_s) < 2.0
    assert 1.7 < median(holes_s) < 2.4
    assert {(each.summary.tcp_retransmissions, each.summary.rlp_resets) for each in runs} == {(0, 0)}


def test_figure_12_shows_five_gaps_or_more() -> None:
    assert len(watched("fig12-flow-control").summary.xoff_gaps_s) >= 5


def test_with_xon_nearer_to_xoff_the_gaps_are_as_long_as_the_papers() -> None:
    stops_s = watched("fig11-opening").summary.xoff_gaps_s
    assert len(stops_s) >= 5
    assert all(0.95 <= stop_s <= 1.3 for stop_s in stops_s)


def test_active_queue_management_shortens_queue_and_rtt_at_equal_goodput() -> None:
    """Section 5.2: what the paper asks for at both ends of wireless links."""
    plain, managed = watched("clean-bulk"), watched("aqm-ecn")
    rtts = {
        name: mean(s.rtt_s for s in seen.states if s.side == "mobile" and s.rtt_s)
        for name, seen in (("plain", plain), ("managed", managed))
    }
    assert mean(managed.queue("mobile")) < mean(plain.queue("mobile")) / 4
    assert rtts["managed"] < rtts["plain"] / 3
    assert managed.summary.goodput_bytes_per_s == pytest.approx(plain.summary.goodput_bytes_per_s, rel=0.01)
    assert managed.summary.tcp_retransmissions == 0


def test_an_overbuffered_link_has_half_a_minute_of_queue() -> None:
    summary = watched("overbuffered").summary
    assert summary.max_rtt_s is not None
    assert summary.max_rtt_s > 25
    assert summary.goodput_bytes_per_s == pytest.approx(848, rel=0.02)


def test_a_long_fade_does_not_reset_a_persistent_link() -> None:
    seen = watched("fade-n2-20")
    assert (seen.summary.rlp_resets, seen.summary.tcp_timeouts) == (0, 0)
    impatient = replace(seen.scenario, link=replace(call_of(seen.scenario), n2=6))
    assert watch(impatient).summary.rlp_resets == 1


def test_a_poor_radio_costs_throughput_by_link_retransmissions_alone() -> None:
    summary = watched("radio-poor").summary
    assert summary.goodput_bytes_per_s is not None
    assert summary.goodput_bytes_per_s * 8 == pytest.approx(7_000, rel=0.03)
    assert summary.rlp_retransmissions > 500
    assert (summary.tcp_retransmissions, summary.tcp_timeouts, summary.rlp_resets) == (0, 0, 0)


def test_a_second_connection_times_out_on_its_syn() -> None:
    """Section 5.2: the queue drains more slowly than the SYN's timer."""
    seen = watched("second-connection")
    syns = [
        p
        for p in seen.packets
        if p.side == "mobile"
        and p.outgoing
        and p.packet.segment.flags & Flag.SYN
        and p.packet.segment.destination_port == 5002
    ]
    answer = next(
        p
        for p in seen.packets
        if p.side == "mobile"
        and not p.outgoing
        and p.packet.segment.flags & Flag.SYN
        and p.packet.segment.source_port == 5002
    )
    assert len(syns) == 2
    assert answer.time_s - syns[0].time_s > 6
    assert seen.summary.tcp_timeouts == 1


def test_the_data_of_an_aborted_download_drain_first() -> None:
    """Section 5.2: stale data."""
    seen = watched("aborted-download")
    resets = [p for p in seen.packets if p.side == "mobile" and p.outgoing and p.packet.segment.flags & Flag.RST]
    given_up_s = resets[0].time_s
    to_mobile = [p for p in seen.packets if p.side == "mobile" and not p.outgoing and p.time_s > given_up_s]
    stale = [p for p in to_mobile if p.packet.segment.source_port == 5001 and p.packet.segment.payload]
    fresh = [p for p in to_mobile if p.packet.segment.source_port == 5002 and p.packet.segment.payload]
    assert len(stale) >= 10
    assert fresh[0].time_s - given_up_s > 8


def test_a_slow_reader_closes_the_window() -> None:
    seen = watched("slow-reader")
    windows = [s.window_bytes for s in seen.states if s.side == "mobile" and s.time_s > 40]
    assert min(windows) < 1_000
    settled = [(time_s, first) for time_s, first in seen.data("fixed", outgoing=False) if time_s > 30]
    assert slope(settled) == pytest.approx(400, rel=0.05)


def test_a_small_send_buffer_limits_what_is_in_flight() -> None:
    seen = watched("small-sndbuf")
    assert max(s.send_queue_bytes for s in seen.states if s.side == "mobile") == 1_024
    assert seen.summary.goodput_bytes_per_s is not None
    assert seen.summary.goodput_bytes_per_s < 800


def test_a_download_does_as_well_as_an_upload() -> None:
    down, up = watched("download").summary, watched("fig7-overflow").summary
    assert down.goodput_bytes_per_s == pytest.approx(up.goodput_bytes_per_s, rel=0.02)
    assert len(down.xoff_gaps_s) > 5


def test_a_present_tcp_loses_less_time_to_the_same_resets() -> None:
    modern, old = watched("sack-modern").summary, watched("fig8-resets-vj").summary
    assert modern.rlp_resets == old.rlp_resets == 2
    assert modern.longest_receiver_hole_s is not None
    assert old.longest_receiver_hole_s is not None
    assert modern.longest_receiver_hole_s < old.longest_receiver_hole_s


def test_a_reset_by_n2_is_told_as_such() -> None:
    scenario = watched("fade-n2-20").scenario
    seen = watch(replace(scenario, link=replace(call_of(scenario), n2=6)))
    causes = [e.cause for _, e in seen.link if isinstance(e, ResetStarted)]
    assert "n2" in causes
    assert "forced" not in causes


class TestContendedChannel:
    """CDPD: the mobile waits for its turn before each burst, and the data link repairs what is lost."""

    def test_the_transfer_ends_and_waits_for_the_channel_longer_than_it_sends(self) -> None:
        seen = watched("cdpd-contended")
        sent = [e for side, e in seen.link if side == "mobile" and isinstance(e, BurstSent)]
        waits = [e for side, e in seen.link if side == "mobile" and isinstance(e, AccessWaitEnded)]
        assert seen.summary.ledger is None
        assert sum(e.waited_us for e in waits) > sum(e.air_us for e in sent) > 0
        last = max(first for _, first in seen.data("fixed", outgoing=False))
        assert last < seen.scenario.traffic[0].bytes <= last + 536

    def test_the_same_seed_runs_the_same_way_and_another_does_not(self) -> None:
        scenario = watched("cdpd-contended").scenario
        runs = [VirtualRun(scenario, seed=seed).run() for seed in (1, 1, 2)]
        assert runs[0] == runs[1] != runs[2]
