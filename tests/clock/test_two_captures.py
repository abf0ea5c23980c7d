"""What a user relies on when two captures are put onto one clock: signs, order, steps, bounds, refusals."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from multitracer.clock.captures.two_captures import relate
from multitracer.errors import ClockError
from tests.clock.altered import both_ends, error_ns, virtual, with_clock
from tests.clock.paths import UP, Case, Clock, Path, captures, run, true_offset_ns
from tests.narrowed import known

if TYPE_CHECKING:
    import pathlib

    from multitracer.capture import CaptureTables
    from tests.clock.paths import Packet

SLOW = Case(
    up=Path(rate_bps=64_000, jitter_s=0.02),
    down=Path(rate_bps=256_000, jitter_s=0.02),
    transfer_bytes=150_000,
    directions=(0, 1),
    duration_s=150,
    seed=5,
)


@cache
def packets() -> list[Packet]:
    return run(SLOW)


def shown(clock: Clock, **fields: Any) -> tuple[CaptureTables, CaptureTables]:
    return captures(replace(SLOW, fixed=clock, **fields), packets())


def test_a_clock_that_is_ahead_and_fast_has_positive_offset_and_skew() -> None:
    one = replace(SLOW, fixed=Clock(offset_s=12.5, skew_ppm=80))
    near, far = captures(one, packets())
    (e,) = relate(near, far)
    assert abs(e.offset_ns - true_offset_ns(one, e.first_ns)) < 5e6
    assert abs(e.skew_ppm - 80) < max(5.0, e.skew_uncertainty_ppm)
    assert e.uncertainty_ns < 10e6
    assert known(e.lower_ns) < e.offset_ns < known(e.upper_ns)


@pytest.mark.parametrize("offset_s", [-30.0, 30.0])
def test_clocks_half_a_minute_apart_do_not_break_the_matching(offset_s: float) -> None:
    near, far = shown(Clock(offset_s=offset_s))
    (e,) = relate(near, far)
    assert abs(e.offset_ns / 1e9 - offset_s) < 0.01


@pytest.mark.slow
def test_exchanging_the_captures_gives_exactly_the_inverse() -> None:
    near, far = shown(Clock(offset_s=3.0, skew_ppm=-40, steps=((70.0, 2.0),)))
    there, back = relate(near, far), relate(far, near)
    assert len(there) == len(back) == 2
    for one, other in zip(there, back, strict=True):
        stamps = np.linspace(one.first_ns, one.last_ns, 50).astype(np.int64)
        assert np.abs(other.at(one.at(stamps)) - stamps).max() <= 1
        assert other.uncertainty_ns == pytest.approx(one.uncertainty_ns, rel=1e-3)


@pytest.mark.parametrize("jump_s", [-2.0, 2.0])
@pytest.mark.parametrize("host", ["mobile", "fixed"])
def test_a_step_of_either_clock_begins_a_new_interval(jump_s: float, host: str) -> None:
    clock = Clock(steps=((70.0, jump_s),))
    case = replace(SLOW, fixed=clock) if host == "fixed" else replace(SLOW, mobile=clock)
    near, far = captures(case, packets())
    first, second = relate(near, far)
    moved = second.offset_ns - first.offset_ns
    assert abs(moved - (jump_s if host == "fixed" else -jump_s) * 1e9) < 20e6
    sent = near.segments["time_ns"]
    here = (sent >= second.first_ns) & (sent <= second.last_ns)
    assert 0.3 < here.mean() < 0.7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mobile", "fixed", "offsets_s"),
    [
        ((40.0, 37.0), (95.0, -2.0), [0, -37, -39]),
        ((40.0, -2.0), (95.0, 37.0), [0, 2, 39]),
        ((70.0, 2.0), (70.0, -2.0), [0, -4]),
        ((70.0, 37.0), (70.0, 37.0), [0]),
    ],
)
def test_two_clocks_that_both_jump_while_capturing(
    mobile: tuple[float, float], fixed: tuple[float, float], offsets_s: list[int]
) -> None:
    case = replace(SLOW, mobile=Clock(steps=(mobile,)), fixed=Clock(steps=(fixed,)))
    near, far = captures(case, packets())
    intervals = relate(near, far)
    assert len(intervals) == len(offsets_s)
    for interval, true_s in zip(intervals, offsets_s, strict=True):
        assert abs(interval.offset_ns - true_s * 1e9) < min(5e6, 2 * interval.uncertainty_ns)
    sent = near.segments["time_ns"]
    within = [(sent >= each.first_ns) & (sent <= each.last_ns) for each in intervals]
    assert np.any(within, axis=0).mean() > 0.95, "packets in no interval have no partner"


def test_queues_that_fill_and_drain_are_no_steps() -> None:
    one = replace(SLOW, up=replace(SLOW.up, rate_bps=9_600), mss=460, transfer_bytes=20_000, window=25)
    assert len(relate(*captures(one))) == 1


def test_serialization_of_long_packets_is_no_offset(tmp_path: pathlib.Path) -> None:
    """On 9.6 kb/s a segment takes half a second, its ACK a tenth of that: a quarter of a second's error."""
    near, far = virtual("clean-bulk", tmp_path / "session", seed=1)
    (e,) = relate(near, far)
    assert abs(e.offset_ns) < 15e6
    assert abs(e.offset_ns) <= e.uncertainty_ns < 25e6


@pytest.mark.slow
def test_a_session_with_data_both_ways_is_recovered_to_two_milliseconds_and_one_ppm(tmp_path: pathlib.Path) -> None:
    near, far = virtual("clock-shift", tmp_path / "session", seed=1)
    (e,) = relate(near, far)
    assert abs(e.offset_ns - 800_000_000) < 2e6
    assert abs(e.skew_ppm - 30.0) < 1.0


def test_on_an_asymmetric_path_causality_still_holds() -> None:
    one = replace(SLOW, up=replace(SLOW.up, propagation_s=0.4), fixed=Clock(offset_s=-7.0, skew_ppm=90))
    near, far = captures(one)
    (e,) = relate(near, far)
    lower_ns, upper_ns = known(e.lower_ns), known(e.upper_ns)
    assert lower_ns <= true_offset_ns(one, e.first_ns) <= upper_ns
    assert upper_ns - lower_ns < 2e9


def test_a_real_recording_with_one_clock_has_offset_zero() -> None:
    near, far = both_ends("sample_traces/cellular_upload")
    (e,) = relate(near, far)
    assert abs(e.offset_ns) < 500_000
    clock = Clock(offset_s=-3.25, skew_ppm=60.0)
    begin = int(near.segments["time_ns"][0])
    (moved,) = relate(near, with_clock(far, clock, begin))
    assert abs(moved.offset_ns - error_ns(clock, moved.first_ns, begin)) < 1e6
    assert abs(moved.skew_ppm - 60.0) < 5.0


def test_captures_of_other_packets_are_refused() -> None:
    near, _ = shown(Clock())
    _, other = captures(replace(SLOW, seed=99, duration_s=30))
    with pytest.raises(ClockError, match=r"cannot determine the clock offset, because .* what would help"):
        relate(near, other)


def test_packets_of_one_direction_only_are_refused() -> None:
    near, far = shown(Clock())
    outgoing = near.where((near.segments["flow"] & 1) == UP)
    with pytest.raises(ClockError, match="one direction only"):
        relate(outgoing, far)
