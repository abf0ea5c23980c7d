"""Each congestion control against its own document."""

from __future__ import annotations

import pytest

from multitracer.errors import LocalProtocolError
from multitracer.lab.tcp.congestion import ALGORITHMS, congestion_control
from multitracer.lab.tcp.congestion.base import Acked, CongestionControl
from multitracer.lab.tcp.congestion.cubic import BETA, C, Cubic
from multitracer.units import NS_PER_MS, NS_PER_S

MSS = 1_000


def control(name: str, *, window: int = 1) -> CongestionControl:
    return congestion_control(name, mss_bytes=MSS, initial_window_bytes=window * MSS)


def ack(now_ns: int = 0, *, acked: int = MSS, una: int = 0, rtt_ns: int | None = None) -> Acked:
    return Acked(
        now_ns=now_ns,
        acked_bytes=acked,
        flight_bytes=10 * MSS,
        snd_una=una,
        snd_max=una + 10 * MSS,
        rtt_ns=rtt_ns,
        srtt_ns=rtt_ns,
    )


@pytest.mark.parametrize("name", ["tahoe", "reno", "newreno", "cubic", "vegas"])
def test_slow_start_adds_a_segment_for_each_ack(name: str) -> None:
    window = control(name)
    for _ in range(4):
        window.on_ack(ack())
    assert window.cwnd_bytes == 5 * MSS


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_a_timeout_leaves_one_segment_and_half_the_flight(name: str) -> None:
    window = control(name, window=20)
    window.on_timeout(flight_bytes=20 * MSS, first=True, now_ns=0)
    threshold = window.ssthresh_bytes
    window.on_timeout(flight_bytes=2 * MSS, first=False, now_ns=1)

    assert window.cwnd_bytes == MSS
    assert window.ssthresh_bytes == threshold == (14 * MSS if "cubic" in name else 10 * MSS)


def test_congestion_avoidance_adds_a_segment_per_window() -> None:
    window = control("reno", window=10)
    window.ssthresh_bytes = 5 * MSS
    for _ in range(10):
        window.on_ack(ack())
    assert 10.9 * MSS < window.cwnd_bytes <= 11 * MSS


def test_reno_inflates_in_recovery_and_leaves_at_a_partial_ack() -> None:
    window = control("reno", window=16)
    assert window.enter_fast_recovery(flight_bytes=16 * MSS, now_ns=0)
    assert (window.ssthresh_bytes, window.cwnd_bytes) == (8 * MSS, 11 * MSS)

    window.on_duplicate_ack(flight_bytes=16 * MSS)
    assert window.cwnd_bytes == 12 * MSS
    assert not window.on_partial_ack(MSS, flight_bytes=15 * MSS)
    window.leave_fast_recovery()
    assert window.cwnd_bytes == 8 * MSS


def test_newreno_deflates_by_a_partial_ack_and_stays() -> None:
    window = control("newreno", window=16)
    window.enter_fast_recovery(flight_bytes=16 * MSS, now_ns=0)
    assert window.on_partial_ack(3 * MSS, flight_bytes=13 * MSS)
    assert window.cwnd_bytes == (11 - 3 + 1) * MSS


def test_tahoe_has_no_fast_recovery() -> None:
    window = control("tahoe", window=16)
    assert not window.enter_fast_recovery(flight_bytes=16 * MSS, now_ns=0)
    assert (window.ssthresh_bytes, window.cwnd_bytes) == (8 * MSS, MSS)


TAHOE = [  # event, then cwnd and ssthresh in bytes, reckoned by hand from Jacobson, SIGCOMM 1988, appendix B
    *(("ack", cwnd, 1 << 30) for cwnd in range(2_000, 17_000, 1_000)),
    ("loss", 1_000, 8_000),
    *(("ack", cwnd, 8_000) for cwnd in range(2_000, 9_000, 1_000)),
    *(("ack", cwnd, 8_000) for cwnd in (8_125, 8_248, 8_369, 8_488, 8_605, 8_721, 8_835, 8_948, 9_059)),
    ("timeout", 1_000, 4_529),
    *(("ack", cwnd, 4_529) for cwnd in (2_000, 3_000, 4_000, 5_000, 5_200, 5_392)),
    ("loss", 1_000, 2_696),
    *(("ack", cwnd, 2_696) for cwnd in (2_000, 3_000, 3_333)),
    ("timeout", 1_000, 2_000),
    ("timeout", 1_000, 2_000),
]
"""One segment, doubled to 16; a loss; to the threshold, then a segment a round; a timer; each flight full."""


def test_tahoe_follows_its_vectors() -> None:
    window = control("tahoe")
    for event, cwnd_bytes, ssthresh_bytes in TAHOE:
        if event == "ack":
            window.on_ack(ack())
        elif event == "loss":
            window.enter_fast_recovery(flight_bytes=window.cwnd_bytes, now_ns=0)
        else:
            window.on_timeout(flight_bytes=window.cwnd_bytes, first=True, now_ns=0)
        assert (window.cwnd_bytes, window.ssthresh_bytes) == (cwnd_bytes, ssthresh_bytes)


def test_vegas_measures_anew_after_a_loss() -> None:
    """As Linux, tcp_vegas_enable: round trips of before the loss say nothing of the new window."""
    window = control("vegas", window=16)
    window.ssthresh_bytes = 8 * MSS
    for _ in range(4):
        window.on_ack(ack(rtt_ns=100 * NS_PER_MS))
    window.on_loss(flight_bytes=16 * MSS, now_ns=0)
    before_bytes = window.cwnd_bytes
    for _ in range(4):
        window.on_ack(ack(una=20 * MSS, rtt_ns=400 * NS_PER_MS))
    assert window.cwnd_bytes == before_bytes, "the round is not over"
    window.on_ack(ack(una=40 * MSS, rtt_ns=400 * NS_PER_MS))
    assert window.cwnd_bytes == before_bytes - MSS, "six segments wait, by the round trips after the loss"


def test_the_threshold_never_falls_below_two_segments() -> None:
    window = control("reno")
    window.on_loss(flight_bytes=MSS, now_ns=0)
    assert window.ssthresh_bytes == 2 * MSS


def test_cubic_follows_its_function() -> None:
    window = control("cubic", window=100)
    assert isinstance(window, Cubic)
    window.on_loss(flight_bytes=100 * MSS, now_ns=0)
    assert window.cwnd_bytes == pytest.approx(100 * MSS * BETA)

    window.on_ack(ack(0, rtt_ns=NS_PER_MS))  # begins the epoch
    k_s = (100 * (1 - BETA) / C) ** (1 / 3)
    assert window.window_at(0) == pytest.approx(100 * BETA, rel=1e-6)
    assert window.window_at(int(k_s * NS_PER_S)) == pytest.approx(100, rel=1e-6)
    assert window.window_at(int((k_s + 2) * NS_PER_S)) == pytest.approx(100 + C * 8, rel=1e-6)


def test_cubic_reaches_the_last_maximum_about_k_seconds_later() -> None:
    window = control("cubic", window=100)
    window.on_loss(flight_bytes=100 * MSS, now_ns=0)
    k_s = (100 * (1 - BETA) / C) ** (1 / 3)
    now_ns, rtt_ns = 0, 100 * NS_PER_MS
    while now_ns < k_s * NS_PER_S:
        for i in range(window.cwnd_bytes // MSS):
            window.on_ack(ack(now_ns + i, rtt_ns=rtt_ns))
        now_ns += rtt_ns
    assert window.cwnd_bytes == pytest.approx(100 * MSS, rel=0.03)


def test_linux_reduces_cubic_by_its_window_once_for_a_recovery_and_its_timeout() -> None:
    """As cubictcp_recalc_ssthresh and tcp_enter_loss: 100 segments fall to 70, though 180 are outstanding."""
    window = control("linux-cubic", window=100)
    window.on_loss(flight_bytes=180 * MSS, now_ns=0)
    assert window.ssthresh_bytes == pytest.approx(70 * MSS, rel=1e-4)
    window.on_timeout(flight_bytes=180 * MSS, first=True, now_ns=1)
    assert window.cwnd_bytes == MSS
    assert window.ssthresh_bytes == pytest.approx(70 * MSS, rel=1e-4)
    window.on_ack(ack(2, rtt_ns=NS_PER_MS))
    window.on_timeout(flight_bytes=2 * MSS, first=True, now_ns=3)
    assert window.ssthresh_bytes == 2 * MSS, "another loss, of a window of two"
    plain = control("cubic", window=100)
    plain.on_loss(flight_bytes=180 * MSS, now_ns=0)
    assert plain.ssthresh_bytes == pytest.approx(126 * MSS, rel=1e-4), "RFC 9438 has what is outstanding"


@pytest.mark.parametrize(("queued", "change"), [(1, MSS), (3, 0), (8, -MSS)])
def test_vegas_holds_two_to_four_segments_in_the_queue(queued: int, change: int) -> None:
    window = control("vegas", window=20)
    window.ssthresh_bytes = 2 * MSS
    base_ns = 100 * NS_PER_MS
    window.on_ack(ack(rtt_ns=base_ns, una=1))  # the shortest RTT ever, and a round begins
    rtt_ns = base_ns + base_ns * queued // 20 + NS_PER_MS // 10
    before = window.cwnd_bytes
    for una in (2, 3):
        window.on_ack(ack(rtt_ns=rtt_ns, una=una))
    window.on_ack(ack(rtt_ns=rtt_ns, una=1 + 10 * MSS))  # the round ends
    assert window.cwnd_bytes - before == change


def test_an_unknown_name_lists_the_known_ones() -> None:
    known = "cubic, linux-cubic, linux-reno, newreno, reno, tahoe, vegas"
    with pytest.raises(LocalProtocolError, match=rf"bbr.*{known}"):
        control("bbr")
