"""The statistics of draft-ietf-ippm-responsiveness: numbers that the draft's formulas give by hand."""

from __future__ import annotations

import pytest

from multitracer.measure.responsiveness import (
    Probe,
    ProbeKind,
    WorkingConditions,
    class_of,
    probes_per_s,
    responsiveness_rpm,
    trimmed_mean,
)

MS = 1_000_000
MBPS_BYTES = 125_000
"""Bytes in an interval of a second at 1 Mbit/s."""


def _probes(kind: ProbeKind, *rtts_ms: float) -> list[Probe]:
    return [Probe(kind, 0, round(rtt_ms * MS)) for rtt_ms in rtts_ms]


def test_the_largest_twentieth_is_trimmed() -> None:
    assert trimmed_mean([1.0] * 95 + [1000.0] * 5) == 1
    assert trimmed_mean([5.0]) == 5
    assert trimmed_mean([]) is None


def test_new_connections_and_those_of_the_load_count_alike() -> None:
    """60000 / ((200 + 400) / 2) = 200, 60000 / 600 = 100; their mean is 150."""
    probes = _probes("connect", 200) + _probes("request", 400) + _probes("loaded", 600)
    assert responsiveness_rpm(probes) == pytest.approx(150)
    assert responsiveness_rpm(probes[:2]) is None
    assert [class_of(rpm) for rpm in (299, 300, 1000, 6000)] == ["poor", "fair", "good", "excellent"]


def test_probes_take_a_twentieth_of_the_capacity_at_most() -> None:
    assert probes_per_s(100e6) == 20
    assert probes_per_s(720_000) == pytest.approx(5)  # 5 pairs of 900 bytes are 36 kbit/s
    assert probes_per_s(0) == 0.5


def test_goodput_is_saturated_before_responsiveness_is_judged() -> None:
    conditions = WorkingConditions()
    every = _probes("connect", 100) + _probes("request", 100) + _probes("loaded", 100)
    for megabits in (1, 5, 9, 10, 10, 10):
        conditions.add(megabits * MBPS_BYTES, every)
        assert conditions.saturated_bps is None
    while conditions.saturated_bps is None:
        conditions.add(10 * MBPS_BYTES, every)
    assert conditions.saturated_bps == pytest.approx(10e6, rel=0.01)
    assert str(conditions.confidence) == "low"
    for _ in range(4):
        assert not conditions.is_stable
        conditions.add(10 * MBPS_BYTES, every)
    assert conditions.is_stable
    assert conditions.confidence == "high"
    assert conditions.rpm == pytest.approx(600)


def test_responsiveness_that_goes_on_to_fall_is_of_medium_confidence() -> None:
    conditions = WorkingConditions()
    for number in range(12):
        rtt_ms = 100 * 1.5**number
        probes = _probes("connect", rtt_ms) + _probes("request", rtt_ms) + _probes("loaded", rtt_ms)
        conditions.add(10 * MBPS_BYTES, probes)
    assert (conditions.is_stable, conditions.confidence) == (False, "medium")


def test_a_path_that_carries_nothing_is_never_stable() -> None:
    conditions = WorkingConditions()
    for _ in range(10):
        conditions.add(0, [])
    assert (conditions.goodput_bps, conditions.rpm, conditions.confidence) == (0, None, "low")
