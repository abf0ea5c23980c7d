"""The first screen of a report of captures: the main result, and links to its evidence.

The input is a `Diagnosis` and the panels of its connection. The output is markup that is readable without
JavaScript and without colour; scripts add a mark and a cursor. All rows share one `TimeAxis`. The row of a
limit shows its share of the time at each moment; below are incidents, cell changes, and the engineer's marks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.diagnosis.clauses import is_policed
from multitracer.diagnosis.finding import cost_of
from multitracer.diagnosis.limits.limited import stretches as stopped
from multitracer.diagnosis.limits.names import Confidence, Limit, LimitSubtype, by_limit
from multitracer.figures.stack import axis_origin_ns
from multitracer.report.cause import AFTER_LOSSES, cause, confidence_of, explanation, lost_run, lost_segments
from multitracer.report.headline_text import arithmetic, headline_text, numbers
from multitracer.report.limit_words import SEEN_FROM, SHORT, says, shares_of, surely
from multitracer.report.markup import Markup, element, unbroken
from multitracer.report.primary_cause import primary_cause_rows
from multitracer.report.sections import trust_line
from multitracer.report.time_axis import TimeAxis, row, stretches, times, when
from multitracer.units import NS_PER_S
from multitracer.words import count, duration, percent, printable

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.figures.stack import Panel
    from multitracer.recording.radio_context import RadioContext
    from multitracer.recording.recording import Recording
    from multitracer.report.connection_table import Drawn
    from multitracer.tables import Array

_NEAR_ZERO = 0.05
"""Maximum time from the first packet to the start of the transfer, as a share of the total time, for which
the axis begins at 0 s (half a round trip, if the other endpoint sent first). Not measured."""
_DATA = {"data", "retransmission", "out_of_order", "received"}
"""Roles of the series that show data segments."""
_MOST = 4
"""Maximum rows of limits; one more line names the remaining limits."""
_BINS = 500
"""Number of bins of a row, which is about 800 pixels wide. Not measured."""
_MIN_HEIGHT = 0.3
"""Minimum height of a bar, as a share of its row, so that a small share is visible."""
_ROW = 0.02
"""Minimum share of the time at which a limit has a row of its own: test readers did not notice smaller shares."""
_WORTH = 0.005
"""Minimum share of the time at which the row of a limit names a subtype."""


class RouteContent(NamedTuple):
    """The route of a drive on the first screen: the map, and the list of its worst stretches."""

    map: Markup
    worst: Markup | None


class FirstScreenContent(NamedTuple):
    """The content of the first screen.

    Attributes
    ----------
    diagnosis : Diagnosis
    drawn : Drawn
        The explained direction in the sender's capture.
    panels : list of Panel
        Panels of that direction, in link time; empty if the page draws another one.
    radio_context : RadioContext or None
        Cells and markers on the same clock.
    bounds_ns : pair of int or None
        Interval that the user requested, link time.
    """

    diagnosis: Diagnosis
    drawn: Drawn
    panels: list[Panel]
    radio_context: RadioContext | None
    bounds_ns: tuple[int | None, int | None] = (None, None)

    @property
    def recorded_bounds_ns(self) -> tuple[int | None, int | None]:
        """The interval that the user requested, in recorded time; the end is included."""
        zero_ns, speed = axis_origin_ns(self.drawn.capture), self.diagnosis.transfer.speed
        first, last = (None if each is None else round(zero_ns + (each - zero_ns) / speed) for each in self.bounds_ns)
        return first, last


def first_screen(recording: Recording, answer: FirstScreenContent, route: RouteContent | None = None) -> Markup:
    """Return the section: the quality of the captures, the main result, the map of a drive, and the rows over time."""
    diagnosis, axis, headline = answer.diagnosis, axis_of(answer), answer.diagnosis.headline
    is_sure = headline.limit is not Limit.UNKNOWN and headline.confidence is not Confidence.WEAK
    known = explanation(diagnosis)
    sums = by_limit(shares_of(diagnosis))
    limits = [limit for place, limit in enumerate(sums) if place == 0 or sums[limit] >= _ROW][:_MOST]
    sender, receiver = map(printable, diagnosis.transfer.at_sender.ends)
    took, seen_from = duration(diagnosis.limited.total_s * NS_PER_S), SEEN_FROM[diagnosis.limited.view]
    return element(
        "section",
        trust_line(recording, answer=sureness(diagnosis), is_sure=is_sure),
        element("p", note, class_="asked") if (note := _note_of_part(answer, axis)) else None,
        element(
            "div",
            element(
                "div",
                element("h2", "Why was it slow?"),
                element("p", unbroken(printable(headline_text(diagnosis))), class_="lead"),
                element("p", element("strong", f"{known.kind}: "), unbroken(printable(known.sentence)), class_="cause")
                if known.kind
                else None,
                element("p", element("em", "What would help: "), f"{known.help}.", class_="help"),
            ),
            element(
                "div",
                numbers(diagnosis, answer.drawn),
                element("p", unbroken(arithmetic(diagnosis, answer.drawn)), class_="least"),
                route and route.worst,
            ),
            route and route.map,
            class_="answer mapped" if route else "answer",
        ),
        element(
            "div",
            _limit_rows(diagnosis, axis, limits),
            _incident_rows(diagnosis, axis, limits),
            [] if answer.radio_context is None else _route_rows(answer.radio_context, axis),
            primary_cause_rows(diagnosis, answer.panels, axis),
            row("", times(axis), "", kind="clock"),
            element("div", element("div"), class_="over", aria_hidden="true"),
            class_="tracks",
            role="group",
            aria_label="What happened over time",
            data_begin=f"{axis.seconds(axis.begin_ns):.6f}",
            data_end=f"{axis.seconds(axis.begin_ns + axis.length_ns):.6f}",
        ),
        element("p", f"{sender} → {receiver}, {took}, seen from {seen_from}.", class_="marked muted", role="status"),
        class_="first",
    )


def axis_of(answer: FirstScreenContent) -> TimeAxis:
    """Return the time axis of the transfer, or of the interval that the user requested."""
    diagnosis, zero_ns = answer.diagnosis, axis_origin_ns(answer.drawn.capture)
    first_member = diagnosis.group.members[0]
    shift = first_member.begin_ns - first_member.limited.begin_ns
    timed = [each for each in diagnosis.group.members if len(each.begin)]
    begin = min(int(each.begin[0]) for each in timed) - shift
    end = max(int(each.end[-1]) for each in timed) - shift
    first, last = answer.recorded_bounds_ns
    if abs(zero_ns - begin) <= _NEAR_ZERO * (end - begin):
        begin = zero_ns
    shown = max(begin, begin if first is None else first), min(end, end if last is None else last)
    begin, end = shown if shown[0] < shown[1] else (begin, end)
    return TimeAxis(begin, max(end, begin + 1), zero_ns, diagnosis.transfer.speed, shift)


def _note_of_part(answer: FirstScreenContent, axis: TimeAxis) -> str:
    """Return a note that the result describes the complete transfer; "" if the user requested no interval."""
    complete = axis_of(answer._replace(bounds_ns=(None, None)))
    first, last = answer.recorded_bounds_ns
    begin, end = complete.begin_ns if first is None else first, complete.end_ns if last is None else last
    if begin <= complete.begin_ns and end >= complete.end_ns:
        return ""
    words = "The answer and its numbers describe the whole transfer"
    if begin > complete.end_ns or end < complete.begin_ns:
        return f"{words}, and so do the rows: none of its packets lies between --from and --to."
    shown = " to ".join(f"{axis.seconds(at):.3f} s" for at in (axis.begin_ns, axis.end_ns))
    roles = {each.role for panel in answer.panels for each in panel.drawn}
    empty = "" if roles & _DATA or not answer.panels else " No data segment was captured in it."
    return f"{words}; the rows and the figures show the part between --from and --to, {shown}.{empty}"


def sureness(diagnosis: Diagnosis) -> str:
    """Return a text on the confidence of the result.

    For a weak share, the text also has its range and the confidence of its cause.
    """
    headline = diagnosis.headline
    own = [each for each in shares_of(diagnosis) if each.limit is headline.limit]
    if headline.limit is Limit.UNKNOWN or not own:
        return "answer unknown"
    sure = surely(own[0]) if len(own) == 1 else headline.confidence.label
    first = cause(diagnosis)
    if headline.confidence is not Confidence.WEAK:
        return f"answer {sure}"
    if first is None:
        lost, _ = lost_segments(diagnosis)
        return f"losses measured, their share of the time {sure}" if lost else f"answer {sure}"
    return f"cause {confidence_of(first, diagnosis.limited.view).label}, its share of the time {sure}"


def _limit_rows(diagnosis: Diagnosis, axis: TimeAxis, limits: list[Limit]) -> list[Markup]:
    """Return the rows of the largest limits, in descending order, and one line that names the others."""
    headline, first, rows = diagnosis.headline, cause(diagnosis), []
    for shade, limit in enumerate(limits):
        own = [each for each in shares_of(diagnosis) if each.limit is limit]
        share, took = sum(each.share for each in own), duration(sum(each.seconds for each in own) * NS_PER_S)
        is_unsure = own[0].confidence is Confidence.WEAK or limit is Limit.UNKNOWN
        look = f"limit shade{min(shade, 2)}{' unsure' if is_unsure else ''}"
        meaning = "; ".join(f"{each.part.label}: {says(each)}" if each.part else says(each) for each in own)
        # the name has the endpoint, as in the headline, and the only subtype
        largest = max(own, key=lambda each: each.share)
        main, ends = largest.part, ("server", "client") if largest.reverse else ("client", "server")
        is_an_end = limit is Limit.APPLICATION and main not in (LimitSubtype.LATENCY, LimitSubtype.REPAIR)
        more = [ends[main is LimitSubtype.PEER]] if is_an_end else []
        if limit is not Limit.APPLICATION and largest.reverse != diagnosis.transfer.reverse:
            more.append(f"{ends[0]}'s data")
        more += [SHORT[own[0].part]] if len(own) == 1 and own[0].part else []
        side = diagnosis.limited.side(reverse=largest.reverse)
        more += ["policer"] if limit is Limit.LINK and "policer" not in more and is_policed(side) else []
        named = f"{limit.label} ({', '.join(more)})" if more else limit.label
        swatch = element("span", class_=f"swatch {look}", aria_hidden="true")
        name = [element("span", swatch, named, title=meaning)]
        if limit is headline.limit and limit in AFTER_LOSSES and first is not None:  # a mechanism, no cause
            name.append(element("small", f"made by {first.kind}", class_="muted"))
        sure = surely(own[0]) if len(own) == 1 else own[0].confidence.label
        value = [element("b", percent(share, is_short=True)), f" {took}, {sure}"]
        parts = [each for each in own if each.part and each.share >= _WORTH] if len(own) > 1 else []
        if parts:
            parts.sort(key=lambda each: each.part is not headline.part)
            listed = ", ".join(f"{percent(p.share, is_short=True)} {SHORT[p.part]}" for p in parts[:2])
            value.append(element("small", "of it ", listed))
        label = f"{limit.label}: {percent(share)} of the time, {took}"
        rows += row(name, _area(heights(diagnosis, axis, limit), look, label), value)
    sums = by_limit(shares_of(diagnosis))
    rest = [f"{each.label} {percent(sums[each])}" for each in sums if each not in limits and sums[each] > 0]
    others = element("small", unbroken(", ".join(rest)), class_="muted")
    return [*rows, *(row("others", others, "", kind="rest") if rest else [])]


def heights(diagnosis: Diagnosis, axis: TimeAxis, limit: Limit) -> Array:
    """Return the share of each bin of time in which a limit was active: float64, 0 to 1, shape (n_bins,).

    For a group, all connections that are active at a moment have the same weight, as in the headline.
    """
    group, bin_ns = diagnosis.group, axis.length_ns / _BINS
    edges = axis.begin_ns + np.arange(_BINS + 1) * bin_ns + axis.shift_ns
    taken_ns = np.zeros(_BINS)
    for member in group.members:
        own = member.limited.cells.limit == limit
        if own.any():
            ends = np.column_stack([member.begin[own], member.end[own]]).ravel().astype(np.float64)
            counted = group.counted(ends)
            held_ns = np.diff(counted) * (np.arange(len(ends) - 1) % 2 == 0)
            passed = np.concatenate([[0.0], np.cumsum(held_ns)])
            taken_ns += np.diff(np.interp(group.counted(edges), counted, passed))
    return np.asarray(np.clip(taken_ns / bin_ns, 0, 1))


def _area(height: Array, kind: str, label: str) -> Markup:
    """Return the SVG shape of a row; a bin with any value above 0 is high enough to be visible."""
    tall = np.where(height > 0, np.maximum(np.round(height, 2), _MIN_HEIGHT), 0)
    bounds = np.flatnonzero(np.diff(tall, prepend=-1.0))
    ends = np.append(bounds[1:], len(tall))
    bars = [
        f"M{begin} 1V{1 - tall[begin]:.2f}H{end}V1z"
        for begin, end in zip(bounds.tolist(), ends.tolist(), strict=True)
        if tall[begin] > 0
    ]
    path = element("path", d="".join(bars))
    return element(
        "svg", path, viewBox=f"0 0 {_BINS} 1", preserveAspectRatio="none", class_=kind, role="img",
        aria_label=label,
    )  # fmt: skip


_MOST_INCIDENTS = 3
"""Maximum number of incidents with a row; the list below the first screen has all of them."""
_JARGON = {
    "rlp-retransmission-burst": "radio frames retransmitted (RLP)",
    "competing-retransmission": "TCP retransmitted what the link was repeating",
    "link-reset": "the link discarded its queued data",
}
_REPEAT_ROWS = {
    "link-limited": Limit.LINK, "receiver-limited": Limit.RECEIVER_WINDOW,
    "send-buffer-limited": Limit.SENDER_BUFFER, "application-limited": Limit.APPLICATION,
    "slow-start-limited": Limit.SLOW_START, "zero-window": Limit.RECEIVER_WINDOW,
    "server-think-time": Limit.APPLICATION, "client-think-time": Limit.APPLICATION,
}  # fmt: skip
"""Kinds of incidents that get no row, because the row of a limit shows the same."""
_WORTH_A_ROW = 0.02
"""Minimum cost, as a share of the time, at which an incident has a row: test readers did not notice smaller costs."""


def _incident_rows(diagnosis: Diagnosis, axis: TimeAxis, limits: list[Limit]) -> list[Markup]:
    """Return a row for a run of lost segments, and for each of the first notable incidents.

    An incident is notable if it adds information to the rows of `limits`; the list below the first screen has
    all incidents. Each part of an incident is a mark. The value of the row is the time that the incident
    cost, or the delay that it adds. For a cause of losses, the value names the limit that it led to: the row
    of that limit has the cost, because a loss costs first the recovery and then a small congestion window.
    """
    rows, run = [], lost_run(diagnosis)
    if run is not None:
        words = when(axis, run.begin_ns, run.end_ns)
        span, label = (run.begin_ns, run.end_ns, words), f"no data arrived, {words}"
        bar = stretches(axis, [span], label=label, kind="incident")
        rows += row("no data arrived", bar, f"{run.segments:,} segments lost in a row")
    first, least_s = cause(diagnosis), _WORTH_A_ROW * diagnosis.limited.total_s
    in_order = [*([first] if first else []), *(each for each in diagnosis.incidents if each is not first)]
    worth = [
        (each, added_s)
        for each in in_order
        for added_s in [diagnosis.findings[each.parts[0]].numbers.get("added_delay_s", 0.0)]
        if _REPEAT_ROWS.get(each.kind) not in limits
        if each.cost_s >= least_s or each == first or added_s > 0
    ]
    for incident, added_s in worth[:_MOST_INCIDENTS]:
        kind, limit, is_cause = incident.kind, diagnosis.headline.limit, incident == first
        parts = [diagnosis.findings[place] for place in incident.parts]
        spans = [(each.kind, each.begin_ns, each.end_ns) for each in parts]
        if kind == "link-flow-control":  # a mark for each stop
            begins, ends = stopped(diagnosis.limited, Limit.LINK, LimitSubtype.XOFF)
            stops = zip(begins.tolist(), ends.tolist(), strict=True)
            spans = [(kind, *stop) for stop in stops] or spans
        shown = axis.spread((begin, end, f"{part}, {when(axis, begin, end)}") for part, begin, end in spans)
        if limit in AFTER_LOSSES and is_cause:
            cost = f"made {limit.label} the limit"
        elif incident.cost_s > 0:
            cost = f"cost {cost_of(duration(incident.cost_s * NS_PER_S), is_weak=incident.is_weak)}"
        else:
            cost = f"adds {duration(added_s * NS_PER_S)} of delay" if added_s > 0 else "no time lost"
        times = f" ×{incident.count:,}" if incident.count > 1 else ""
        begin_s, end_s = axis.seconds(incident.begin_ns), axis.seconds(incident.end_ns)
        name = element(
            "button", kind, times, type="button", class_="marks", data_mark_from=f"{begin_s:.6f}",
            data_mark_to=f"{end_s:.6f}", data_words=printable(incident.sentence), aria_pressed="false",
            title=printable(incident.sentence),
        )  # fmt: skip
        label = f"{kind}: {when(axis, incident.begin_ns, incident.end_ns)}"
        look = "incident" if incident.cost_s > 0 or is_cause else "incident free"
        meaning = element("small", _JARGON[kind]) if kind in _JARGON else None
        rows += row(name, stretches(axis, shown, label=label, kind=look), [cost, meaning])
    return rows


def _route_rows(radio_context: RadioContext, axis: TimeAxis) -> list[Markup]:
    """Return the rows of cell changes and of the engineer's marks.

    The result is empty if there are none in the interval.
    """
    changes = radio_context.phones[0].handovers["time_ns"].tolist() if radio_context.phones else []
    marks = [
        (at, printable(note or "marked"))
        for placed in radio_context.markers
        for at, note in zip(placed.table["time_ns"].tolist(), placed.table["note"].tolist(), strict=True)
    ]
    rows = []
    for name, noun, moments in (
        ("cell changes", "", [(at, "change of the cell") for at in changes]),
        ("markers", "mark", marks),
    ):
        seen = [(at, words) for at, words in moments if axis.begin_ns <= at <= axis.end_ns]
        if seen:
            spans = axis.spread((at, at, f"{words} at {when(axis, at, at)}") for at, words in seen)
            many = count(len(seen), noun) if noun else f"{len(seen):,}"
            rows += row(name, stretches(axis, spans, label=f"{name}: {many}", kind="moment"), many)
    return rows
