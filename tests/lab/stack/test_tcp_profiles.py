"""The TCPs of paper 000: what they offer, their timers, and why a cap below the round trip is fatal."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from multitracer.lab.tcp.profile import LINUX22, PALM, TcpProfile
from multitracer.units import NS_PER_MS, NS_PER_S
from tests.lab.stack.tcp_pair import Pair

BOTH = pytest.mark.parametrize("profile", [PALM, LINUX22])


@BOTH
def test_a_syn_offers_the_segment_size_and_nothing_else(profile: TcpProfile) -> None:
    pair = Pair(client=replace(profile, mtu_bytes=576), server=LINUX22)
    pair.run(seconds=1)
    for end in ("a", "b"):
        syn = pair.sent[end][0].packet.segment
        assert syn.timestamps is None
        assert not syn.sack_permitted
        assert syn.window_scale is None
    assert pair.sent["a"][0].packet.segment.mss_bytes == 536


@BOTH
def test_the_first_timeout_is_3_s_and_they_double_up_to_the_cap(profile: TcpProfile) -> None:
    cap_s = profile.max_rto_ns / NS_PER_S
    pair = Pair(client=profile, fate=lambda _n, _packet: [])
    pair.run(seconds=400)
    gaps = [later.seconds - earlier.seconds for earlier, later in pairwise(pair.sent["a"])]
    assert gaps[:7] == pytest.approx([min(3 * 2**n, cap_s) for n in range(7)], rel=0.01)


@BOTH
def test_one_segment_of_a_window_is_timed(profile: TcpProfile) -> None:
    pair = Pair(client=profile, server=LINUX22, delay_ns=NS_PER_S // 2)
    deviations: list[int | None] = []
    samples: list[int] = []

    def watch() -> None:
        deviation = pair.a.sender.rto.rttvar_ns  # each sample of a constant round trip lessens it
        if deviation is not None and deviation not in deviations:
            deviations.append(deviation)
            samples.append(pair.now_ns)

    pair.on_step = watch
    pair.transfer(bytes(8192))
    assert len(samples) > 3
    assert not any(seen.packet.segment.timestamps for seen in pair.sent["a"])
    assert len(samples) < len(pair.data_sent()), "fewer samples than segments"
    assert all(later - earlier >= NS_PER_S for earlier, later in pairwise(samples)), "one a round trip"


@pytest.mark.parametrize(("cap_s", "learns"), [(1, False), (4, True)])
def test_a_cap_below_the_round_trip_never_gives_a_sample(cap_s: int, learns: bool) -> None:
    """Karn: what was under way when anything was sent again is not timed; here something always is."""
    pair = Pair(
        client=replace(PALM, mtu_bytes=576, max_rto_ns=cap_s * NS_PER_S), server=LINUX22, delay_ns=600 * NS_PER_MS
    )
    pair.transfer(bytes(4096))
    assert pair.received["b"] == bytes(4096)
    assert (pair.a.sender.rto.srtt_ns is not None) == learns
    resent = pair.a.sender.counters.retransmitted_segments
    assert (resent > 0) == (not learns)


def test_the_application_ends_before_the_palm_does() -> None:
    """R2 is at least 100 s (RFC 1122, 4.2.3.5), at the least cap of the sweep, too."""
    pair = Pair(client=replace(PALM, max_rto_ns=NS_PER_S))
    pair.run(seconds=1)
    pair.fate = lambda _n, _packet: []
    pair.a.write(b"anyone?")
    pair.run(seconds=99)
    assert pair.a.error is None
    pair.run(seconds=3)
    assert pair.a.error == "timed out"
