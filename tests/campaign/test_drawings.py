"""A value lies on the axis of a drawing where a reader looks for it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.campaign.report.drawings import fitting, line, linear
from multitracer.campaign.report.write import days_section

VALUES = st.lists(st.floats(0, 1e12), min_size=1, max_size=30)


def test_values_that_differ_much_lie_at_their_logarithms() -> None:
    axis = fitting([0.0, 1e3, 1e5], str)
    assert axis.ticks == [1e3, 1e4, 1e5]
    assert [axis.share(value) for value in (0.0, 1e3, 1e4, 1e5)] == pytest.approx([0, 0, 0.5, 1])


def test_values_that_differ_little_lie_on_a_linear_axis_from_nothing() -> None:
    axis = fitting([30.0, 40.0], str)
    assert [axis.share(value) for value in (0.0, 20.0, 40.0)] == [0, 0.5, 1]
    assert axis.ticks == [0, 10, 20, 30, 40]


@given(VALUES)
def test_every_value_lies_on_its_axis_with_few_ticks(values: list[float]) -> None:
    axis = fitting(values, str)
    assert len(axis.ticks) <= 7
    assert all(axis.low <= tick <= axis.high * (1 + 1e-9) for tick in axis.ticks)
    assert all(0 <= axis.share(value) <= 1 for value in values)
    highest = max(values)
    assert axis.share(highest) == pytest.approx(1 if highest > 1e-300 else 0)  # below it a float has no tick


def test_a_drawing_says_what_it_shows_and_escapes_it() -> None:
    drawn = line([(0, 0), (1, 1)], linear(0, 1, str), linear(0, 1, str), says="<script>")
    assert "<title>&lt;script&gt;</title>" in drawn
    assert len(re.findall("NaN|nan", drawn)) == 0


@pytest.mark.parametrize(("last", "words"), [(40, "01 Jan"), (800, "Jan 1970")])
def test_days_of_several_years_are_told_by_their_year(last: int, words: str) -> None:
    known = {"judged": 9, "throughput_bps": 1e6, "rtt_ns": 1e8, "loss": None, "sessions": 1}
    page = str(days_section([{"day": day, "bad": 1, **known} for day in (0, last)]))
    assert f">{words}<" in page
