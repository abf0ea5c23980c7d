"""Times of a log that jump: back, or far ahead, as where a phone takes its time from two clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.units import NS_PER_S
from multitracer.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator

_BACK_NS = NS_PER_S
"""Loggers write some lines of one second in another order."""
_AHEAD_NS = 86_400 * NS_PER_S
"""A day between two lines; not measured."""


class Jumps:
    """The jumps among the times of a log, as they are taken in its order."""

    def __init__(self) -> None:
        self._last_ns: int | None = None
        self._jumps: dict[str, tuple[int, int, int]] = {}
        self._later_less_earlier = 0

    def take(self, number: int, at_ns: int) -> None:
        """Take the time of a line, in ns since 1970."""
        passed = 0 if self._last_ns is None else at_ns - self._last_ns
        self._last_ns = at_ns
        self._later_less_earlier += (passed > 0) - (passed < 0)
        if -_BACK_NS < passed < _AHEAD_NS:
            return
        way = "back" if passed < 0 else "ahead"
        times, most, line = self._jumps.get(way, (0, 0, number))
        self._jumps[way] = (times + 1, max(most, abs(passed)), line)

    def sentences(self) -> Iterator[str]:
        """Yield a sentence for the jumps back, unless the newest line is first, and one for those ahead."""
        for way, (times, most_ns, line) in self._jumps.items():
            if way == "back" and self._later_less_earlier < 0:
                continue
            seconds = most_ns // NS_PER_S
            often = count(times, "time")
            yield f"the times jump {way} {often}, by up to {seconds:,} s, first at line {line:,}: two clocks?"
