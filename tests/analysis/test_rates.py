"""Rates over time, and lines through them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.analysis import analyse
from multitracer.analysis.series.throughput import (
    default_window_ns,
    delivered,
    goodput,
    throughput,
    trendline,
    unique_share,
    wire_rate,
)
from multitracer.errors import InputError
from tests.analysis.traffic import MS, START_NS, Segment, capture

if TYPE_CHECKING:
    from multitracer.tables import Table


def steady(count: int = 40, *, gap_ms: int = 10, size: int = 1000) -> list[Segment]:
    return [Segment(0, 1 + size * i, size, time_ns=START_NS + gap_ms * i * MS) for i in range(count)]


def at(rates: Table, time_ns: int) -> float:
    """Return the value of a series of steps at a time."""
    return float(rates["bytes_per_s"][np.searchsorted(rates["time_ns"], time_ns, side="right") - 1])


def segments_of(sent: list[Segment]) -> Table:
    return analyse(capture(sent)).tcp_segments(1)


def test_the_window_is_the_time_of_sixteen_segments_at_the_mean_rate() -> None:
    assert default_window_ns(segments_of(steady()), reverse=False) == 160 * MS
    assert default_window_ns(segments_of(steady(1)), reverse=False) == 1000 * MS


def test_a_steady_sender_has_a_steady_rate_once_the_window_is_full() -> None:
    rates = goodput(segments_of(steady()), reverse=False)
    assert at(rates, START_NS + 200 * MS) == pytest.approx(100_000)
    assert at(rates, START_NS + 395 * MS) == pytest.approx(100_000)
    assert rates["bytes_per_s"][-1] == 0
    assert rates.provenance == {"window_ns": 160 * MS}


def test_a_stall_is_a_zero() -> None:
    before, after = steady(10), steady(10)
    late = [Segment(0, 20_001 + s.seq, 1000, time_ns=s.time_ns + 2000 * MS) for s in after if s.time_ns]
    rates = goodput(segments_of([*before, *late]), reverse=False, window_ns=100 * MS)
    assert at(rates, START_NS + 1000 * MS) == 0


def test_goodput_counts_once_what_throughput_counts_with_every_copy() -> None:
    sent = [*steady(3), Segment(0, 1, 1000, time_ns=START_NS + 30 * MS)]
    table = segments_of(sent)
    window: dict[str, Any] = {"reverse": False, "window_ns": 1000 * MS}
    assert goodput(table, **window)["bytes_per_s"].max() == 3000
    assert throughput(table, **window)["bytes_per_s"].max() == 4000
    assert wire_rate(table, **window, headers_bytes=52)["bytes_per_s"].max() == 4208


def test_what_is_delivered_comes_when_it_is_acknowledged_and_no_hole_makes_a_jump() -> None:
    """Twenty segments in one burst, the first lost; SACK blocks report the others 10 ms apart."""
    sent = [Segment(0, 1 + 1000 * i, 1000, time_ns=START_NS + i) for i in range(20)]
    told = [
        Segment(1, 1, ack=1, sack=((1001, 1001 + 1000 * i),), time_ns=START_NS + (100 + 10 * i) * MS)
        for i in range(1, 20)
    ]
    repaired = Segment(0, 1, 1000, time_ns=START_NS + 300 * MS)
    closed = Segment(1, 1, ack=20_001, time_ns=START_NS + 400 * MS)
    analysis = analyse(capture([*sent, *told, repaired, closed]))
    rates = delivered(analysis.tcp_segments(1), reverse=False, window_ns=50 * MS)
    assert rates["bytes_per_s"].max() == pytest.approx(100_000), "five segments in 50 ms; sends: 400,000"
    assert at(rates, START_NS + 401 * MS) == pytest.approx(20_000), "only the one that was missing"


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(1, 1000)), min_size=1, max_size=30), st.integers(1, 300))
def test_the_area_under_a_rate_is_what_was_carried(sent: list[tuple[int, int]], window_ms: int) -> None:
    moments = sorted(ms for ms, _ in sent)
    sizes = [size for _, size in sent]
    begins = np.cumsum([1, *sizes]).tolist()
    segments = [
        Segment(0, begin, size, time_ns=START_NS + ms * MS)
        for begin, size, ms in zip(begins, sizes, moments, strict=False)
    ]
    rates = throughput(segments_of(segments), reverse=False, window_ns=window_ms * MS)
    seconds = np.diff(rates["time_ns"]) / 1e9
    assert (rates["bytes_per_s"][:-1] * seconds).sum() == pytest.approx(sum(sizes))
    assert (rates["bytes_per_s"] >= 0).all()


def test_a_direction_without_payload_has_no_rate() -> None:
    table = segments_of(steady(3))
    assert len(goodput(table, reverse=True)) == 0


def test_the_share_of_unique_bytes_is_missing_without_payload() -> None:
    directions = analyse(capture([*steady(3), Segment(0, 1, 1000)])).directions
    efficiency = unique_share(directions["unique_bytes"], directions["payload_bytes"])
    assert efficiency[0] == 0.75
    assert np.isnan(efficiency[1])


def test_a_trendline_has_the_rate_as_its_slope() -> None:
    table = segments_of(steady())
    line = trendline(table["time_ns"], table["seq_bytes"])
    assert line.slope_per_s == pytest.approx(100_000)
    assert line.at_begin == pytest.approx(0)
    assert line.r_squared == pytest.approx(1)
    assert line.at(START_NS + 1000 * MS) == pytest.approx(100_000)
    assert line.points == 40


def test_a_trendline_keeps_to_its_interval() -> None:
    table = segments_of(steady())
    line = trendline(table["time_ns"], table["seq_bytes"], begin_ns=START_NS + 100 * MS, end_ns=START_NS + 200 * MS)
    assert (line.begin_ns, line.end_ns, line.points) == (START_NS + 100 * MS, START_NS + 200 * MS, 11)


@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**9)), min_size=3, max_size=40))
def test_a_trendline_is_the_least_squares_line(points: list[tuple[int, int]]) -> None:
    time_ns = START_NS + np.array([t for t, _ in points], dtype=np.int64)
    value = np.array([v for _, v in points], dtype=np.int64)
    if len(set(time_ns.tolist())) < 2:
        return
    line = trendline(time_ns, value)
    seconds = (time_ns - time_ns.min()) / 1e9
    residual = value - (line.at_begin + line.slope_per_s * seconds)
    scale = max(float(np.abs(value).max()), 1)
    assert abs(residual.sum()) <= 1e-6 * scale * len(points)
    assert abs((residual * (seconds - seconds.mean())).sum()) <= 1e-6 * scale * max(seconds.max(), 1) * len(points)


def test_one_moment_gives_no_line() -> None:
    with pytest.raises(InputError, match="cannot fit a line"):
        trendline(np.array([5, 5]), np.array([1, 2]))
