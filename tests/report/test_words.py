"""Numbers read as an engineer says them."""

from __future__ import annotations

import pytest

from multitracer.tables import NOT_A_TIME
from multitracer.words import clock_time, count, duration, ends, moment, percent, rate, share, size


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0 B"), (1, "1 B"), (999, "999 B"), (1500, "1.5 kB"), (2_400_000, "2.4 MB"), (10**13, "10 TB")],
)
def test_sizes(number: int, said: str) -> None:
    assert size(number) == said


def test_a_range_whose_ends_are_written_alike_is_one_value() -> None:
    assert ends("1.9", "2.1") == "1.9 to 2.1"
    assert ends("1.95 Mbit/s", "1.95 Mbit/s") == "1.95 Mbit/s"


@pytest.mark.parametrize(
    ("part", "short", "long"),
    [
        (1.0, "100 %", "100.0 %"),
        (1 - 1e-12, "100 %", "100.0 %"),
        (0.99974, "> 99.9 %", "> 99.9 %"),
        (0.99999, "> 99.9 %", "> 99.9 %"),
        (0.996, "99.6 %", "99.6 %"),
        (0.374, "37 %", "37.4 %"),
        (0.004, "0.4 %", "0.4 %"),
        (0.0003, "< 0.1 %", "< 0.1 %"),
        (0.0, "0.0 %", "0.0 %"),
    ],
)
def test_only_all_is_100_percent_and_only_nothing_0(part: float, short: str, long: str) -> None:
    assert (percent(part, is_short=True), percent(part)) == (short, long)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.2, "0:00"), (17.4, "0:17"), (59.6, "1:00"), (725, "12:05"), (3725, "1:02:05"), (-3, "−0:03"), (-0.2, "0:00")],
)
def test_times_on_an_axis(seconds: float, said: str) -> None:
    assert clock_time(seconds) == said


def test_a_short_time_on_an_axis_has_tenths() -> None:
    assert clock_time(136.25, 1) == "2:16.2"
    assert clock_time(59.97, 1) == "1:00.0"


def test_rates() -> None:
    assert rate(612_345) == "612 kbit/s"
    assert rate(0) == "0 bit/s"


@pytest.mark.parametrize(
    ("ns", "said"),
    [
        (31_000_000_000, "31 s"),
        (120_000_000, "120 ms"),
        (4_000_000_000, "4.0 s"),
        (4_250_000_000, "4.25 s"),
        (31_500_000_000, "31.5 s"),
        (1_500, "1.5 µs"),
        (7, "7 ns"),
        (0, "0 s"),
        (7_530_000_000_000, "2 h 5 min"),
        (100_000_000_000, "1 min 40 s"),
        (3_600_000_000_000, "1 h"),
        (None, "unknown"),
        (NOT_A_TIME, "unknown"),
        (float("nan"), "unknown"),
    ],
)
def test_durations(ns: float | None, said: str) -> None:
    assert duration(ns) == said


@pytest.mark.parametrize(
    ("part", "complete", "said"),
    [(18, 1000, "1.8 %"), (0, 10, "0.0 %"), (1, 10**6, "< 0.01 %"), (1, 0, "unknown"), (10, 10, "100 %")],
)
def test_shares(part: int, complete: int, said: str) -> None:
    assert share(part, complete) == said


def test_counts_agree_with_their_noun() -> None:
    assert count(1, "packet") == "1 packet"
    assert count(1234, "packet") == "1,234 packets"


def test_moments_no_calendar_reaches_are_numbers() -> None:
    assert moment(1_700_000_000_123_000_000) == "2023-11-14 22:13:20.123 UTC"
    assert moment(2**63 - 1) == "2262-04-11 23:47:16.854 UTC"
    assert moment(-(2**63) + 1).startswith("1677")
    assert moment(None) == moment(NOT_A_TIME) == "unknown"
