"""The first screen of a report of captures: the answer in ten seconds, and where to look for its proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from multitracer.report.connection_table import origin_ns
from multitracer.report.limit_words import SEEN_FROM
from multitracer.report.markup import Markup, element
from multitracer.report.screen.cause import help_of, why
from multitracer.report.screen.culprit import culprit_rows
from multitracer.report.screen.lead import arithmetic, lead, numbers
from multitracer.report.screen.rows import clock_shift_ns, incident_rows, limit_rows, road_rows
from multitracer.report.screen.time_axis import TimeAxis, time_row
from multitracer.units import NS_PER_S
from multitracer.words import duration, printable

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.figures.stack import Panel
    from multitracer.recording.surroundings import Surroundings
    from multitracer.report.connection_table import Drawn


_NEAR_ZERO = 0.05
"""Share of the time by which the first packet here may differ from the begin of the work: the axis begins
with 0 s then. It is half a round trip of a handshake that the other end began. Not measured."""


_DATA = {"data", "retransmission", "out_of_order", "received"}
"""Roles of the series that show data segments."""


class FirstScreenContent(NamedTuple):
    """What the first screen is made of.

    Attributes
    ----------
    diagnosis : Diagnosis
    drawn : Drawn
        The direction that is explained, as its sender's capture has it.
    panels : list of Panel
        Of that direction, in link time; empty if the page draws another one.
    surroundings : Surroundings or None
        Cells and markers on the same clock.
    bounds_ns : pair of int or None
        What the user asked to see, link time.
    """

    diagnosis: Diagnosis
    drawn: Drawn
    panels: list[Panel]
    surroundings: Surroundings | None
    bounds_ns: tuple[int | None, int | None] = (None, None)


def first_screen(answer: FirstScreenContent, *, trust: Markup) -> Markup:
    """Return the section; `trust` says how far the captures can be trusted."""
    diagnosis = answer.diagnosis
    axis = axis_of(answer)
    return element(
        "section",
        trust,
        element("p", note, class_="asked") if (note := _note_of_part(answer, axis)) else None,
        element(
            "div",
            element(
                "div",
                element("h2", "Why was it slow?"),
                element("p", printable(lead(diagnosis)), class_="lead"),
                _cause(diagnosis),
                element("p", element("em", "What would help: "), f"{help_of(diagnosis)}.", class_="help"),
            ),
            element(
                "div",
                numbers(diagnosis, answer.drawn),
                element("p", arithmetic(diagnosis, answer.drawn), class_="least"),
            ),
            class_="answer",
        ),
        element(
            "div",
            limit_rows(diagnosis, axis),
            incident_rows(diagnosis, axis),
            road_rows(answer.surroundings, axis),
            culprit_rows(diagnosis, answer.panels, axis),
            time_row(axis),
            element("div", element("div"), class_="over", aria_hidden="true"),
            class_="tracks",
            role="group",
            aria_label="What happened over time",
            data_begin=f"{axis.seconds(axis.begin_ns):.6f}",
            data_end=f"{axis.seconds(axis.begin_ns + axis.length_ns):.6f}",
        ),
        element("p", _seen(diagnosis), class_="marked muted", role="status"),
        class_="first",
    )


def axis_of(answer: FirstScreenContent) -> TimeAxis:
    """Return the time of the work, or of that part of it which the user asked for, if there is any."""
    diagnosis, zero_ns = answer.diagnosis, origin_ns(answer.drawn.part)
    speed, shift = diagnosis.transfer.speed, clock_shift_ns(diagnosis)
    timed = [each for each in diagnosis.group.members if len(each.begin)]
    begin = min(int(each.begin[0]) for each in timed) - shift
    end = max(int(each.end[-1]) for each in timed) - shift
    first, last = _bounds_ns(answer)
    if abs(zero_ns - begin) <= _NEAR_ZERO * (end - begin):
        begin = zero_ns
    shown = max(begin, begin if first is None else first), min(end, end if last is None else last)
    begin, end = shown if shown[0] < shown[1] else (begin, end)
    return TimeAxis(begin, max(end, begin + 1), zero_ns, speed)


def _bounds_ns(answer: FirstScreenContent) -> tuple[int | None, int | None]:
    """Return the part that the user asked for, as recorded; the end is included."""
    zero_ns, speed = origin_ns(answer.drawn.part), answer.diagnosis.transfer.speed
    first, last = (
        None if each is None else round(zero_ns + (each - zero_ns) / speed) for each in answer.bounds_ns
    )
    return first, last


def _note_of_part(answer: FirstScreenContent, axis: TimeAxis) -> str:
    """Return that what stands here is not of the part that is drawn, if the user asked for a part."""
    whole = axis_of(answer._replace(bounds_ns=(None, None)))
    first, last = _bounds_ns(answer)
    begin, end = whole.begin_ns if first is None else first, whole.end_ns if last is None else last
    if begin <= whole.begin_ns and end >= whole.end_ns:
        return ""
    words = "The answer and its numbers are of the whole transfer"
    if begin > whole.end_ns or end < whole.begin_ns:
        return f"{words}, and so are the rows: nothing of it was recorded between --from and --to."
    shown = " to ".join(f"{axis.seconds(at):.3f} s" for at in (axis.begin_ns, axis.end_ns))
    roles = {each.role for panel in answer.panels for each in panel.drawn}
    empty = "" if roles & _DATA or not answer.panels else " No data segment was captured in it."
    return f"{words}; the rows and the figures show the part between --from and --to, {shown}.{empty}"


def _cause(diagnosis: Diagnosis) -> Markup | None:
    """Return the sentence of the incident that tells why the limit held."""
    kind, sentence = why(diagnosis)
    return element("p", element("strong", f"{kind}: "), printable(sentence), class_="cause") if kind else None


def _seen(diagnosis: Diagnosis) -> str:
    ends = diagnosis.transfer.layers.at_sender.ends
    took = duration(diagnosis.limited.total_s * NS_PER_S)
    return (
        f"{printable(ends[0])} → {printable(ends[1])}, {took}, seen from {SEEN_FROM[diagnosis.limited.view]}."
    )
