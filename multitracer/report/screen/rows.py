"""A row of the first screen: its name, what happened over time, and a number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.report.markup import Markup, element

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multitracer.report.markup import Child
    from multitracer.report.screen.time_axis import TimeAxis


def row(name: Child, track: Child, value: Child, *, kind: str = "") -> list[Markup]:
    """Return the three cells of a row; the style sheet places them."""
    added = f" {kind}" if kind else ""
    return [
        element("div", name, class_=f"name{added}"),
        element("div", value, class_=f"value{added}"),
        element("div", track, class_=f"track{added}"),
    ]


def stretches(
    axis: TimeAxis, spans: Iterable[tuple[int, int, str]], *, label: str, kind: str = ""
) -> list[Markup]:
    """Return stretches of time as bars, each with its words; the row as a whole is read as `label`."""
    bars = [
        element("i", class_=kind or None, style=axis.style(begin, end), title=words)
        for begin, end, words in spans
        if end >= axis.begin_ns and begin <= axis.end_ns
    ]
    return [element("div", bars, class_="bars", role="img", aria_label=label)]


def when(axis: TimeAxis, begin_ns: int, end_ns: int) -> str:
    """Return begin and end of a stretch in seconds of the figure."""
    return f"{axis.seconds(begin_ns):.1f} s to {axis.seconds(end_ns):.1f} s"


def time_row(axis: TimeAxis) -> list[Markup]:
    """Return the row with the times."""
    ticks = [element("span", words, style=f"left:{place:.3%}") for place, words in axis.ticks()]
    return row("", element("div", ticks, class_="times", aria_hidden="true"), "", kind="clock")
