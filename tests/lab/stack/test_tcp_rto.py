"""The retransmission timeout against the formulas of RFC 6298."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from multitracer.lab.tcp.transmitter import RtoEstimator
from multitracer.units import NS_PER_MS, NS_PER_S

rtts = st.lists(st.integers(1, 30 * NS_PER_S), min_size=1, max_size=50)


def estimator(**changes: int) -> RtoEstimator:
    values = {"initial_ns": NS_PER_S, "min_ns": NS_PER_S, "max_ns": 60 * NS_PER_S, "tick_ns": NS_PER_MS}
    return RtoEstimator(**(values | changes))


def test_first_and_second_sample_follow_the_rfc() -> None:
    rto = estimator()
    rto.sample(2 * NS_PER_S)
    assert (rto.srtt_ns, rto.rttvar_ns, rto.rto_ns) == (2 * NS_PER_S, NS_PER_S, 6 * NS_PER_S)

    rto.sample(4 * NS_PER_S)
    assert rto.rttvar_ns == (3 * NS_PER_S + 2 * NS_PER_S) // 4  # uses the old SRTT
    assert rto.srtt_ns == (7 * 2 * NS_PER_S + 4 * NS_PER_S) // 8
    assert rto.rto_ns == rto.srtt_ns + 4 * rto.rttvar_ns


@given(rtts)
def test_the_timeout_stays_within_its_bounds_and_above_the_mean(samples: list[int]) -> None:
    rto = estimator()
    for sample in samples:
        rto.sample(sample)
        assert NS_PER_S <= rto.rto_ns <= 60 * NS_PER_S
        assert rto.srtt_ns is not None
        assert rto.rto_ns >= min(rto.srtt_ns, 60 * NS_PER_S)


def test_back_off_doubles_up_to_the_maximum_and_a_sample_ends_it() -> None:
    rto = estimator(max_ns=64 * NS_PER_S)
    timeouts = []
    for _ in range(9):
        timeouts.append(rto.rto_ns // NS_PER_S)
        rto.back_off()
    assert timeouts == [1, 2, 4, 8, 16, 32, 64, 64, 64]

    rto.sample(100 * NS_PER_MS)
    assert (rto.backoff, rto.rto_ns) == (0, NS_PER_S)


def test_a_coarse_clock_measures_whole_ticks_and_fires_on_one() -> None:
    rto = estimator(tick_ns=500 * NS_PER_MS)
    rto.sample_between(400 * NS_PER_MS, 1_600 * NS_PER_MS)  # ticks 0 and 3

    assert rto.srtt_ns == 1_500 * NS_PER_MS
    assert rto.rto_ns % (500 * NS_PER_MS) == 0
    deadline = rto.deadline_ns(1_600 * NS_PER_MS)
    assert deadline % (500 * NS_PER_MS) == 0
    assert deadline >= 1_600 * NS_PER_MS + rto.rto_ns


def test_a_syn_timeout_makes_the_timeout_of_data_three_seconds() -> None:
    rto = estimator()
    rto.back_off()
    rto.restart_after_syn_timeout()
    assert rto.rto_ns == 3 * NS_PER_S
