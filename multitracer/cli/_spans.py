"""Options of `plot` that give a name and a range of seconds on the figure's axis: NAME=FROM:TO."""

from __future__ import annotations

import math
from typing import NamedTuple

import click

from multitracer.units import NS_PER_S

_MOST_S = 1e9
"""Longer than any recording: 30 years."""

_LONGEST_S = 86_400
"""A window of a day."""


class Span(NamedTuple):
    """A name, and nanoseconds on the axis; None leaves that end open."""

    name: str
    from_ns: int | None = None
    to_ns: int | None = None


class Wish(NamedTuple):
    """Which parts of the stacked figure the user asked for."""

    series: tuple[str, ...] = ()
    offset_bytes: int | None = None
    trends: tuple[Span, ...] = ()
    marks: tuple[Span, ...] = ()
    distance: bool = False
    """Whether the axis is the distance along the route."""

    @property
    def of_time(self) -> bool:
        """Whether a part of it has a meaning over time only."""
        return bool(self.trends or self.marks)

    @property
    def patterns(self) -> list[str]:
        """The patterns of the labels to draw."""
        return [pattern for given in self.series for pattern in given.split(",") if pattern]


def trend(text: str) -> Span:
    """Return what `--trend LABEL` or `--trend LABEL=FROM:TO` asks for."""
    label, equals, seconds = text.partition("=")
    if not label:
        raise click.BadParameter(f"{text!r} names no series; write for example TcpRcv_data=10:60")
    return Span(label, *_seconds(seconds)) if equals else Span(label)


def mark(text: str) -> Span:
    """Return what `--mark FROM:TO` or `--mark NAME=FROM:TO` asks for."""
    name, _, seconds = text.rpartition("=")
    return Span(name, *_seconds(seconds))


def length_s(text: str) -> float:
    """Return the seconds that `--window` states."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= _LONGEST_S:
        raise click.BadParameter(f"{text} is no number of seconds above 0, up to {_LONGEST_S}")
    return seconds


def _seconds(text: str) -> tuple[int, int]:
    try:
        begin, end = (float(number) for number in text.split(":"))
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no interval; write seconds as 10:60") from error
    if not all(math.isfinite(s) and abs(s) <= _MOST_S for s in (begin, end)) or begin >= end:
        raise click.BadParameter(f"{text!r}: the end is not after the begin, or too far away")
    return round(begin * NS_PER_S), round(end * NS_PER_S)
