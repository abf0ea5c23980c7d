"""Connections that waited for each other, as lanes: one bar each, on one axis of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from multitracer.report.markup import Markup, element
from multitracer.words import count, duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.limits.group import ConnectionGroup, Stage

_MOST = 40
_LEAST_WIDTH = 0.001
"""Of the axis: a wait that is narrower than that is no picture; the words beside the lane count it."""
_STAGES = {
    "handshake": "opening the connection",
    "request": "waiting for the client's request",
    "think": "waiting for the answer to begin",
    "transfer": "data on their way",
}


class _Axis(NamedTuple):
    """The time that all lanes share."""

    begin_ns: int
    length_ns: int
    speed: float
    """Link seconds in a recorded second."""

    def width(self, stage: Stage) -> float:
        """Return how much of the axis a stage takes."""
        return (stage.end_ns - stage.begin_ns) / self.length_ns

    def style(self, begin_ns: int, end_ns: int) -> str:
        """Return the position of a stretch."""
        left, width = (ns / self.length_ns for ns in (begin_ns - self.begin_ns, end_ns - begin_ns))
        return f"left:{left:.3%};width:{width:.3%}"

    def timespan(self, ns: int) -> str:
        """Return a length of time in words."""
        return duration(ns * self.speed)


def lanes(group: ConnectionGroup) -> list[Markup]:
    """Return the chain of a group: connections each of which may have waited for the one above it."""
    chain = group.chain
    if not chain:
        return []
    rows: dict[int, list[Stage]] = {}
    for stage in chain:
        rows.setdefault(stage.connection, []).append(stage)
    begin, end = min(each.begin_ns for each in chain), max(each.end_ns for each in chain)
    axis = _Axis(begin, max(end - begin, 1), group.longest.transfer.speed)
    shown = [_lane(number, stages, axis) for number, stages in list(rows.items())[:_MOST]]
    took = axis.timespan(end - begin)
    sentence = (
        f"{count(len(rows), 'connection')} one after the other decided when it ended: {took} together."
        if len(rows) > 1
        else f"One connection decided when it ended: {took}. The others ran beside it."
    )
    rest = len(rows) - _MOST
    return [
        element("p", sentence, class_="muted"),
        element("div", shown, class_="lanes"),
        element("p", f"and {count(rest, 'more connection')}", class_="muted") if rest > 0 else Markup(),
        element("p", list(_key()), class_="key muted"),
    ]


def _lane(number: int, stages: list[Stage], axis: _Axis) -> Markup:
    """Return one lane: the transfer as a line, and on it what it waited for."""
    whole = element("i", class_="transfer", style=axis.style(stages[0].begin_ns, stages[-1].end_ns))
    waits = [
        element(
            "i",
            class_=each.stage,
            style=axis.style(each.begin_ns, each.end_ns),
            title=f"{_STAGES[each.stage]}: {axis.timespan(each.end_ns - each.begin_ns)}",
        )
        for each in stages
        if each.stage != "transfer" and axis.width(each) >= _LEAST_WIDTH
    ]
    after_ns = stages[0].begin_ns - axis.begin_ns
    label = f"{f'after {axis.timespan(after_ns)}: ' if after_ns else ''}{_sums(stages, axis)}"
    return element(
        "div",
        element("span", f"connection {number}"),
        element("div", whole, waits, role="img", aria_label=label),
        element("small", label, class_="muted"),
    )


def _sums(stages: list[Stage], axis: _Axis) -> str:
    """Return how long a connection was in each stage, and how often."""
    lengths: dict[str, list[int]] = {}
    for each in stages:
        lengths.setdefault(each.stage, []).append(each.end_ns - each.begin_ns)
    return ", ".join(
        f"{name} {axis.timespan(sum(each))}" + (f" in {len(each):,} pieces" if len(each) > 1 else "")
        for name, each in lengths.items()
    )


def _key() -> Iterator[Markup]:
    for name, words in _STAGES.items():
        yield element("span", element("i", class_=name, aria_hidden="true"), f"{name}: {words}")
