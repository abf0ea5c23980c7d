"""Jumps amid full queues on the sample of a GSM call, and what is said where no jump explains the packets."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.clock.captures.two_captures import relate
from tests.clock.altered import both_ends, error_ns, thinned, with_clock
from tests.clock.paths import Clock
from tests.narrowed import known

if TYPE_CHECKING:
    from multitracer.capture import CaptureTables
    from multitracer.clock.model.estimate import Estimate

SAMPLE = "sample_traces/clock-shift"
OWN = Clock(offset_s=0.8, skew_ppm=30.0)
"""What the sample's fixed host is off by itself."""

ends = cache(both_ends)


def truth_ns(clock: Clock, near: CaptureTables, stamp: int) -> float:
    begin = int(near.segments["time_ns"][0])
    own = error_ns(OWN, stamp, begin)
    return error_ns(clock, stamp + round(float(own)), begin) + own


def stepped(clock: Clock, *, missing: float = 0.0, seed: int = 0) -> tuple[CaptureTables, list[Estimate]]:
    near, far = ends(SAMPLE)
    changed = with_clock(far, clock, int(near.segments["time_ns"][0]))
    return near, relate(thinned(near, missing, seed=seed), thinned(changed, missing, seed=seed + 1))


@pytest.mark.parametrize(
    "clock",
    [
        Clock(offset_s=5.0, skew_ppm=-20.0, steps=((90.0, 2.0),)),
        Clock(offset_s=-5.0, skew_ppm=77.0, steps=((120.0, -2.0),)),
    ],
    ids=["forward", "back"],
)
def test_a_jump_amid_full_queues_of_both_directions_is_found(clock: Clock) -> None:
    near, found = stepped(clock)
    assert len(found) == 2
    for each in found:
        truth = truth_ns(clock, near, each.first_ns)
        assert abs(each.offset_ns - truth) <= max(each.uncertainty_ns, 15e6)
        assert known(each.lower_ns) <= truth <= known(each.upper_ns)
        assert each.uncertainty_ns < 30e6
        assert each.skew_ppm == pytest.approx(clock.skew_ppm + OWN.skew_ppm, abs=2.0)


@pytest.mark.slow
def test_where_packets_are_missing_besides_the_stated_error_holds_the_truth() -> None:
    clock = Clock(offset_s=-5.0, skew_ppm=77.0, steps=((120.0, -2.0),))
    near, found = stepped(clock, missing=0.3, seed=2)
    assert len(found) == 2
    for each in found:
        assert abs(each.offset_ns - truth_ns(clock, near, each.first_ns)) <= each.uncertainty_ns
    for seed in (0, 3):  # queues mislead here
        _, found = stepped(clock, missing=0.3, seed=seed)
        for each in (found[0], found[-1]):
            stamp = each.first_ns if each is found[0] else each.last_ns
            assert abs(each.offset_at(stamp) - truth_ns(clock, near, stamp)) <= each.bound_ns(stamp)


def test_the_slots_of_the_link_tell_the_skew_where_queues_with_packets_missing_mislead() -> None:
    clock = Clock(offset_s=23.4, skew_ppm=61.0)
    for seed in range(2):
        _, (found,) = stepped(clock, missing=0.3, seed=seed)
        assert found.skew_ppm == pytest.approx(91.0, abs=max(2.0, found.skew_uncertainty_ppm))


def test_packets_that_arrive_before_they_are_sent_widen_the_interval_and_are_told() -> None:
    near, far = ends(SAMPLE)
    times = far.segments["time_ns"].copy()
    stranger = len(times) // 2
    late = far.where(np.ones(len(times), dtype=bool))
    sender = far.segments["flow"][stranger]
    times[stranger] += 60_000_000_000 if sender == 0 else -60_000_000_000
    late.segments.columns["time_ns"] = times
    (sound,), (unexpected,) = relate(near, far), relate(near, late)
    if "before they are sent" not in unexpected.notes[0]:  # the packet went the other way: then it is only slow
        times[stranger] = 2 * far.segments["time_ns"][stranger] - times[stranger]
        (unexpected,) = relate(near, late)
    assert "before they are sent" in unexpected.notes[0]
    assert unexpected.uncertainty_ns > 10 * sound.uncertainty_ns
    assert abs(unexpected.offset_ns - sound.offset_ns) < unexpected.uncertainty_ns
