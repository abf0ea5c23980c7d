"""The sections below the first screen: the incidents, largest cost first, and the time by limit.

Three bars show how the time was divided among limits: for a group of connections, with one lane for each
connection that waited for another; for the transfer; and for the channel of the link, if a log measured it.
Each bar has a legend and shows the primary cause in the strongest colour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.account.uses import LOST, Use
from multitracer.diagnosis.diagnose import channel_use
from multitracer.diagnosis.finding import Incident, cost_of
from multitracer.diagnosis.limits.names import Confidence, Limit, Viewpoint, by_limit
from multitracer.diagnosis.sentence import name_of, numbers_of
from multitracer.report.limit_words import COARSE, RECEIVER_ONLY, SEEN_FROM, says, shares_of, surely
from multitracer.report.markup import Markup, element, fold, unbroken
from multitracer.report.primary_cause import evidence_panels
from multitracer.report.time_axis import TimeAxis
from multitracer.units import NS_PER_S
from multitracer.words import count, duration, interval, percent, printable, size

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.finding import Finding
    from multitracer.diagnosis.limits.group import ConnectionGroup, Stage
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.diagnosis.limits.names import LimitShare
    from multitracer.diagnosis.quic import QuicDiagnosis
    from multitracer.recording.recording import Recording
    from multitracer.tables import Array

_FIRST = 6
"""Number of incidents that are visible at first; the others can be unfolded."""
_MOST = 60
"""Maximum number of incidents, and of parts of one incident."""
_REST = "and {:,} more; `multitracer diagnose` lists all"
_AROUND = 0.15
"""Margin on each side of an incident when the figure shows it, as a share of its duration."""
_MIN_ROOM_S = 1.0


def happened_section(diagnosis: Diagnosis, *, origin_ns: int, speed: float, figure: bool) -> Markup | None:
    """Return the list of incidents, each with its cause, cost and details; None if there are no incidents.

    Parameters
    ----------
    diagnosis : Diagnosis
    origin_ns : int
        Time at 0 s of the figure.
    speed : float
        Seconds of the figure in a second of the recording.
    figure : bool
        Whether the first figure of the page shows the transfer: incidents then have a button that moves the figure.
    """
    if diagnosis.limited.view is Viewpoint.NOWHERE:
        return None

    last_ns = max((each.end_ns for each in diagnosis.incidents), default=origin_ns)
    last_s = max((last_ns - origin_ns) * speed / NS_PER_S, diagnosis.limited.total_s)

    def occurrence(what: Incident | Finding, times: str = "") -> list[Markup]:
        """Return the text of an incident, its cost, and the button that shows it in the figure."""
        begin_s, end_s = ((ns - origin_ns) * speed / NS_PER_S for ns in (what.begin_ns, what.end_ns))
        when, room_s = interval(begin_s, end_s, last_s=last_s), max((end_s - begin_s) * _AROUND, _MIN_ROOM_S)
        is_weak = what.is_weak if isinstance(what, Incident) else diagnosis.is_weak(what)
        cost = cost_of(f"{what.cost_s:.1f} s", is_weak=is_weak) if what.cost_s > 0 else "no time"
        button = element(
            "button", "Show", type="button", data_show="0", data_from=f"{begin_s - room_s:.3f}",
            data_to=f"{end_s + room_s:.3f}", data_mark_from=f"{begin_s:.6f}",
            data_mark_to=f"{end_s:.6f}", data_panels=evidence_panels(what.kind),
            title=f"Show {when} in the figure",
        )  # fmt: skip
        return [
            element("strong", what.kind),
            element("span", f" {times}cost {cost}, {when} ", class_="muted"),
            *([button] if figure else []),
            element("p", unbroken(printable(what.sentence))),
        ]

    items = []
    for incident in diagnosis.listed[:_MOST]:
        entry = occurrence(incident, f"{incident.count:,} times, " if incident.count > 1 else "")
        if incident.help:
            entry.append(element("p", element("em", "What would help: "), printable(incident.help)))
        parts = [diagnosis.findings[place] for place in incident.parts]
        if len(parts) > 1:
            kinds = ", ".join(dict.fromkeys(part.kind for part in parts))
            summary = element("summary", f"{len(parts):,} occurrences: {kinds}")
            listed = [element("li", occurrence(part)) for part in parts[:_MOST]]
            rest = element("li", _REST.format(len(parts) - _MOST)) if len(parts) > _MOST else None
            entry.append(element("details", summary, element("ul", listed, rest), class_="parts"))
        items.append(element("li", entry))
    many = len(diagnosis.listed)
    items += [element("li", _REST.format(many - _MOST))] if many > _MOST else []
    shown = (
        [element("ol", items[:_FIRST], class_="findings")]
        if many
        else [element("p", diagnosis.no_fault, class_="muted")]
    )
    if many and diagnosis.unexplained_losses:
        shown.append(element("p", diagnosis.unexplained_losses, class_="muted"))
    if len(items) > _FIRST:
        summary = element("summary", f"{many - _FIRST:,} more that cost less")
        others = element("ol", items[_FIRST:], class_="findings", start=_FIRST + 1)
        shown.append(element("details", summary, others))
    return fold(
        "What happened",
        shown,
        note=count(many, "incident") if many else "no known fault",
        id="happened",
        class_="diagnosis long",
    )


_USES = (
    Use.USEFUL, Use.ARQ, Use.XOFF, Use.ACCESS, Use.OTHER, Use.IDLE_APP, Use.OUTAGE, Use.HANDSHAKE,
    Use.IDLE_RTO, Use.IDLE_CWND, Use.IDLE_RWND, Use.IDLE_SNDBUF, Use.REDUNDANT, Use.WASTED, Use.UNKNOWN,
)  # fmt: skip
"""Order of the classes in the bar of the channel: useful time, unavoidable waits, then time that TCP lost."""


def limits_section(diagnosis: Diagnosis) -> Markup:
    """Return the section with the bars of time by limit, for the group, the transfer and the channel."""
    group, limited, at_sender = diagnosis.group, diagnosis.limited, diagnosis.transfer.at_sender
    which, work = "the transfer", []
    if len(group.members) > 1:
        which, took = "the longest transfer", duration(group.total_s * NS_PER_S)
        is_part = len(group.numbers) > len(group.members)
        longest = f" (the {len(group.members):,} longest of them are explained)" if is_part else ""
        work = [
            element("h3", f"{count(len(group.numbers), 'connection')} as one piece of work: {took}{longest}"),
            *_limits_bar(limited, shares_of(diagnosis), label="What limited the connections together"),
            *lanes(group),
        ]
    # the link's account, where its log measured how the channel was used
    sentence, account, channel = channel_use(diagnosis), diagnosis.account, []
    if sentence:
        chunks, legend, words = [], [], []
        for use in [each for each in _USES if account.seconds[each] > 0]:
            seconds, share = account.seconds[use], account.seconds[use] / account.total_s
            look = f"use {use.label.replace(':', '-')}{' lost' if use in LOST else ''}"
            title, grow = f"{use.label}: {seconds:.1f} s", f"flex-grow:{share:.6f}"
            chunks.append(element("span", class_=look, style=grow, title=title))
            name = element("dt", element("span", class_=look, aria_hidden="true"), use.label)
            took = element("dd", f"{seconds:.1f} s · {100 * share:.1f} %", element("small", account.says(use)))
            legend.append(element("div", name, took))
            words.append(f"{use.label} {100 * share:.1f} %")
        label = f"Where the time went: {', '.join(words)}"
        channel = [
            element("h3", "How the channel was used"),
            element("p", printable(sentence)),
            element("div", chunks, class_="account", role="img", aria_label=label),
            element("dl", legend, class_="uses"),
        ]
    number, (sender, receiver) = group.members[0].number, at_sender.ends
    where = "" if number == at_sender.number else f" ({at_sender.number} where it was sent)"
    seen = [f"{duration(limited.total_s * NS_PER_S)}, seen from {SEEN_FROM[limited.view]}."]
    seen += [RECEIVER_ONLY] if limited.view is Viewpoint.RECEIVER else []
    seen += [COARSE] if limited.seen is not None and limited.seen.coarse else []
    return fold(
        "What limited it, in detail",
        work,
        element("h3", printable(f"What limited {which}: connection {number}{where}, {sender} → {receiver}")),
        element("p", " ".join(seen), class_="muted"),
        _limits_bar(limited, limited.shares, numbers_of(limited, Limit.LINK), label="What limited the transfer"),
        channel,
        note="every limit with its meaning and its certainty",
        id="limits",
        class_="diagnosis long",
    )


_WIDE = 0.16
"""Minimum share of a limit at which its name fits into the bar."""
_SHADES = 3
"""Number of colours: for the primary cause, the next one, and all others."""


def _limits_bar(limited: Limited, rows: list[LimitShare], of_link: str = "", *, label: str) -> list[Markup]:
    """Return the bar of limits and its legend.

    Parameters
    ----------
    limited : Limited
        The transfer, or the longest of several; a row of the other direction's data says so.
    rows : list of LimitShare
        The limits with their shares; subtypes of one limit are drawn next to each other.
    of_link : str
        Text with numbers for the legend entry of the limit "link".
    label : str
        Text alternative for screen readers.
    """
    order = list(by_limit(rows))
    ordered = sorted((row for row in rows if row.seconds > 0), key=lambda row: order.index(row.limit))
    chunks, legend, words = [], [], []
    for row in ordered:
        is_unsure = row.confidence is Confidence.WEAK or row.limit is Limit.UNKNOWN
        look = f"limit shade{min(order.index(row.limit), _SHADES - 1)}{' unsure' if is_unsure else ''}"
        name = name_of(limited, row)
        title = f"{name} {100 * row.share:.0f} %"
        chunks.append(
            element(
                "div",
                element("span", title) if row.share >= _WIDE else None,
                class_=look,
                style=f"flex-grow:{row.share:.6f}",
                title=f"{title}: {says(row)}",
            )
        )
        is_link = row.limit is Limit.LINK and row.reverse == limited.transfer.reverse
        meaning = f"{says(row)}; {of_link}" if of_link and is_link else says(row)
        took = f"{duration(row.seconds * NS_PER_S)} · {percent(row.share)} · {surely(row)}"
        swatch = element("span", class_=look, aria_hidden="true")
        explained = element("dd", took, element("small", printable(meaning)))
        legend.append(element("div", element("dt", swatch, name), explained))
        words.append(f"{name} {percent(row.share)}")
    return [
        element("div", chunks, class_="limits", role="img", aria_label=f"{label}: {', '.join(words)}"),
        element("dl", legend, class_="uses"),
    ]


_MOST_LANES = 40
_MIN_WIDTH = 0.001
"""Minimum width of a wait as a share of the axis; narrower ones are only counted in the text."""
_STAGES = {
    "handshake": "opening the connection",
    "request": "waiting for the client's request",
    "think": "waiting for the answer to begin",
    "transfer": "transfer of the data",
}


def lanes(group: ConnectionGroup) -> list[Markup]:
    """Return the connections of a group as lanes on one time axis.

    A connection may wait for the one above.
    """
    if not group.chain:
        return []
    rows: dict[int, list[Stage]] = {}
    for stage in group.chain:
        rows.setdefault(stage.connection, []).append(stage)
    begin_ns, end_ns = min(each.begin_ns for each in group.chain), max(each.end_ns for each in group.chain)
    axis, speed = TimeAxis(begin_ns, end_ns, begin_ns), group.longest.transfer.speed
    shown = []
    for number, stages in list(rows.items())[:_MOST_LANES]:
        # the transfer as a line, and on it what it waited for; beside it how long each took
        waits: list[Markup] = []
        lengths_ns: dict[str, list[int]] = {}
        for each in stages:
            took_ns = each.end_ns - each.begin_ns
            lengths_ns.setdefault(each.stage, []).append(took_ns)
            if each.stage != "transfer" and took_ns / axis.length_ns >= _MIN_WIDTH:
                title = f"{_STAGES[each.stage]}: {duration(took_ns * speed)}"
                place = axis.style(each.begin_ns, each.end_ns)
                waits.append(element("i", class_=each.stage, style=place, title=title))
        sums = ", ".join(
            f"{name} {duration(sum(each) * speed)}" + (f" in {len(each):,} intervals" if len(each) > 1 else "")
            for name, each in lengths_ns.items()
        )
        after_ns = stages[0].begin_ns - begin_ns
        label = f"{f'after {duration(after_ns * speed)}: ' if after_ns else ''}{sums}"
        complete = element("i", class_="transfer", style=axis.style(stages[0].begin_ns, stages[-1].end_ns))
        drawn = element("div", complete, waits, role="img", aria_label=label)
        words = element("small", label, class_="muted")
        shown.append(element("div", element("span", f"connection {number}"), drawn, words))
    took = duration((end_ns - begin_ns) * speed)
    sentence = (
        f"{count(len(rows), 'connection')} one after the other determined the end time: {took} together."
        if len(rows) > 1
        else f"One connection determined the end time: {took}. The others ran in parallel."
    )
    rest = len(rows) - _MOST_LANES
    signs = [(element("i", class_=name, aria_hidden="true"), f"{name}: {_STAGES[name]}") for name in _STAGES]
    return [
        element("p", sentence, class_="muted"),
        element("div", shown, class_="lanes"),
        element("p", f"and {count(rest, 'more connection')}", class_="muted") if rest > 0 else Markup(),
        element("p", [element("span", *sign) for sign in signs], class_="key muted"),
    ]


# --- QUIC ---

_WIDE, _HIGH, _MOST_MARKS = 960, 320, 2000


def quic_section(recording: Recording) -> Markup | None:
    """Return the answer for the QUIC connection with most bytes, and its data over time; None without one."""
    from multitracer.recording.quic import may_hold_quic  # noqa: PLC0415  # few recordings hold QUIC

    path = recording.quic.chosen() if may_hold_quic(recording) else None
    if path is None:
        return None
    from multitracer.diagnosis.quic import explain_quic  # noqa: PLC0415  # as above

    answer = explain_quic(recording, path)
    sender, receiver = answer.ends
    rows = [
        element("tr", element("td", row.limit.label, f" ({row.part})" if row.part else ""),
                element("td", f"{row.seconds:.2f} s"), element("td", f"{100 * row.share:.1f} %"),
                element("td", row.confidence.label)) for row in answer.rows
    ]  # fmt: skip
    titles = ("what limited it", "time", "share", "confidence")
    head = element("tr", *(element("th", title, scope="col") for title in titles))
    findings = [element("li", f"{each.kind}: {each.sentence}") for each in answer.findings]
    return element(
        "section",
        element("h2", "QUIC"),
        element("p", element("strong", printable(answer.sentence))),
        element("p", f"What would help: {answer.help}."),
        element("p", f"Connection {path.number} of {len(recording.quic.paths):,}: {sender} -> {receiver}."),
        element("div", element("table", head, *rows), class_="scroll"),
        element("ul", *findings) if findings else None,
        *(element("p", sentence) for sentence in answer.known),
        _data_over_time(answer),
        id="quic",
    )


def _data_over_time(answer: QuicDiagnosis) -> Markup | None:
    """Return a drawing of stream data, the limit of flow control and lost packets over time; None if not known."""
    view = next((each for each in answer.path.views if each.is_read), None)
    if view is None:
        return None
    from multitracer.recording.quic import data_over_time  # noqa: PLC0415  # few recordings hold QUIC

    time_ns, octets, limit, lost = data_over_time(view, reverse=answer.reverse)
    if len(time_ns) < 2:
        return None
    first, span = int(time_ns[0]), max(int(time_ns[-1] - time_ns[0]), 1)
    most = max(int(octets.max()), 1)
    step = max(len(time_ns) // _MOST_MARKS, 1)

    def points(values: Array, rows: Array) -> str:
        pairs = zip(((time_ns[rows] - first) / span).tolist(), (values[rows] / most).tolist(), strict=True)
        return " ".join(f"{x * _WIDE:.1f},{_HIGH * (1 - min(y, 1)):.1f}" for x, y in pairs)

    every = np.arange(0, len(time_ns), step)
    known = every[limit[every] > 0]
    marks = [
        element("circle", cx=f"{(time_ns[row] - first) / span * _WIDE:.1f}",
                cy=f"{_HIGH * (1 - octets[row] / most):.1f}",
                r=3, fill="currentColor") for row in np.flatnonzero(lost)[:_MOST_MARKS].tolist()
    ]  # fmt: skip
    window = element(
        "polyline", points=points(limit, known), fill="none", stroke="currentColor", stroke_dasharray="3 3"
    )
    label = f"Stream data over {duration(span)}, up to {size(most)}"
    return element(
        "figure",
        element(
            "svg",
            element("polyline", points=points(octets, every), fill="none", stroke="currentColor"),
            window if len(known) else None,
            *marks,
            viewBox=f"0 0 {_WIDE} {_HIGH}", role="img", aria_label=label, width="100%",
        ),
        element("figcaption", f"{label}. Dotted: what flow control allowed. Dots: lost packets."),
    )  # fmt: skip
