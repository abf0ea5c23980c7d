"""The time axis that all rows of the first screen share, and the markup of a row."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from multitracer.report.markup import Markup, element
from multitracer.units import NS_PER_S
from multitracer.words import clock_time, interval

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multitracer.report.markup import Child

_TICKS = 8
"""Approximate number of ticks: labels of six characters fit into 700 pixels. Not measured."""
_MOST_MARKS = 400
"""Maximum number of marks in a row: one for each two pixels."""
_STEPS = (1, 2, 5, 10)
_MINUTE_S = 60
_TIME_STEPS = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 18_000, 36_000,
    86_400, 172_800, 432_000, 864_000, 2_592_000, 8_640_000,
)  # fmt: skip
"""Possible tick distances of an axis of a minute and more, in seconds, as in points/axes.js."""


class TimeAxis(NamedTuple):
    """The time axis of a page: a time interval, and the conversion of times to positions in it.

    Attributes
    ----------
    begin_ns, end_ns : int
        Begin and end, recorded time, by the clock of the figure.
    origin_ns : int
        Time at 0 s of the figure.
    speed : float
        Seconds of the figure in a recorded second.
    shift_ns : int
        Offset of the clock of the diagnosed group from the clock of the figure.
    """

    begin_ns: int
    end_ns: int
    origin_ns: int
    speed: float = 1.0
    shift_ns: int = 0

    @property
    def length_ns(self) -> int:
        """Length of the axis in ns, at least 1."""
        return max(self.end_ns - self.begin_ns, 1)

    def place(self, stamp_ns: int) -> float:
        """Return the relative position of a time: 0 at the begin, 1 at the end; times outside are clipped."""
        return min(max((stamp_ns - self.begin_ns) / self.length_ns, 0.0), 1.0)

    def seconds(self, stamp_ns: int) -> float:
        """Return a time in seconds of the figure."""
        return (stamp_ns - self.origin_ns) * self.speed / NS_PER_S

    def style(self, begin_ns: int, end_ns: int) -> str:
        """Return the CSS position of an interval within a row."""
        left, right = self.place(begin_ns), self.place(end_ns)
        return f"left:{left:.3%};width:{right - left:.3%}"

    def spread(self, stretches: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
        """Return those intervals (begin, end, text) that are drawn.

        Of intervals that begin within two pixels of each other, only the one that ends last is drawn.
        """
        kept: dict[int, tuple[int, int, str]] = {}
        for each in stretches:
            place = int(self.place(each[0]) * _MOST_MARKS)
            if place not in kept or each[1] > kept[place][1]:
                kept[place] = each
        return list(kept.values())


def round_step(span: float, about: int) -> float:
    """Return a tick distance (1, 2 or 5 times a power of ten) for about `about` ticks.

    `span` must be above 0.
    """
    power = 10.0 ** math.floor(math.log10(span / about))
    return next((step * power for step in _STEPS if step * power * about >= span), 10 * power)


def row(name: Child, track: Child, value: Child, *, kind: str = "") -> list[Markup]:
    """Return the three table cells of a row: its name, its picture (`track`) and its value."""
    added = f" {kind}" if kind else ""
    return [
        element("div", name, class_=f"name{added}"),
        element("div", value, class_=f"value{added}"),
        element("div", track, class_=f"track{added}"),
    ]


def stretches(axis: TimeAxis, spans: Iterable[tuple[int, int, str]], *, label: str, kind: str = "") -> list[Markup]:
    """Return intervals as bars, each with its text; `label` is the text for screen readers."""
    bars = [
        element("i", class_=kind or None, style=axis.style(begin, end), title=words)
        for begin, end, words in spans
        if end >= axis.begin_ns and begin <= axis.end_ns
    ]
    return [element("div", bars, class_="bars", role="img", aria_label=label)]


def when(axis: TimeAxis, begin_ns: int, end_ns: int) -> str:
    """Return begin and end of an interval as text, in the time of the figure."""
    return interval(axis.seconds(begin_ns), axis.seconds(end_ns), last_s=axis.seconds(axis.end_ns))


def times(axis: TimeAxis) -> Markup:
    """Return the tick labels below an axis; empty if the axis is too short."""
    first, last = axis.seconds(axis.begin_ns), axis.seconds(axis.begin_ns + axis.length_ns)
    ticks = []
    if last > first:
        step, is_clock = round_step(last - first, _TICKS), last >= _MINUTE_S
        if is_clock and last - first >= _TICKS:
            step = next((each for each in _TIME_STEPS if each * _TICKS >= last - first), step)
        for number in range(math.ceil(first / step), math.floor(last / step) + 1):
            place = (number * step - first) / (last - first)
            decimals = max(0, -math.floor(math.log10(step) + 1e-9))
            words = clock_time(number * step, decimals) if is_clock else f"{number * step:.10g} s"
            ticks.append(element("span", words, style=f"left:{place:.3%}"))
    return element("div", ticks, class_="times", aria_hidden="true")
