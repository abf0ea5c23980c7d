"""The rows of the first screen over time: the limits, and what happened.

A limit has a row as high as its share of each moment. Below stand incidents, changes of the cell, and the
engineer's marks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.limits.limited import stretches as stopped
from multitracer.diagnosis.limits.names import Confidence, Limit, LimitSubtype, by_limit
from multitracer.diagnosis.sentence import is_policed
from multitracer.report.limit_words import percent, says, shares_of, short, surely
from multitracer.report.markup import Markup, element
from multitracer.report.screen.cause import (
    AFTER_LOSSES,
    cause,
    confidence_of,
    in_order,
    lost_run,
    lost_segments,
)
from multitracer.report.screen.time_axis import row, stretches, when
from multitracer.units import NS_PER_S
from multitracer.words import count, duration, printable

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnosis import Diagnosis, Incident
    from multitracer.diagnosis.limits.group import GroupConnection
    from multitracer.diagnosis.limits.names import LimitShare
    from multitracer.recording.surroundings import Surroundings
    from multitracer.report.screen.time_axis import TimeAxis
    from multitracer.tables import Array

_MOST = 4
"""Rows; the limits beyond them are named in one."""
_BINS = 500
"""Of a row that is some 800 pixels wide: the eye tells two pixels apart. Not measured."""
_LEAST_HEIGHT = 0.3
"""Of a row: what held for a moment is seen, too."""
_ROW = 0.02
"""Share below which a limit has no row of its own: of less no reader of the screen named one."""
_WORTH = 0.005
"""Share below which percent have a fraction."""


def limit_rows(diagnosis: Diagnosis, axis: TimeAxis) -> list[Markup]:
    """Return the rows of the limits, the largest first, and one line that names the others."""
    rows, shown = shares_of(diagnosis), limits_shown(diagnosis)
    sums = by_limit(rows)
    drawn = [_row(diagnosis, axis, limit, rows, shade) for shade, limit in enumerate(shown)]
    rest = [
        f"{limit.label} {percent(sums[limit])}" for limit in sums if limit not in shown and sums[limit] > 0
    ]
    more = row("others", element("small", ", ".join(rest), class_="muted"), "", kind="rest") if rest else []
    return [*(cell for cells in drawn for cell in cells), *more]


def limits_shown(diagnosis: Diagnosis) -> list[Limit]:
    """Return the limits that have a row, the largest first."""
    sums = by_limit(shares_of(diagnosis))
    return [limit for place, limit in enumerate(sums) if place == 0 or sums[limit] >= _ROW][:_MOST]


def sureness(diagnosis: Diagnosis) -> str:
    """Return how sure the answer is; a share that is weak has a range, and its cause may be better known."""
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


def _row(
    diagnosis: Diagnosis, axis: TimeAxis, limit: Limit, rows: list[LimitShare], shade: int
) -> list[Markup]:
    own = [each for each in rows if each.limit is limit]
    share, seconds = sum(each.share for each in own), sum(each.seconds for each in own)
    unsure = own[0].confidence is Confidence.WEAK or limit is Limit.UNKNOWN
    kind = f"limit shade{min(shade, 2)}{' unsure' if unsure else ''}"
    took = duration(seconds * NS_PER_S)
    label = f"{limit.label}: {percent(share)} of the time, {took}"
    swatch = element("span", class_=f"swatch {kind}", aria_hidden="true")
    value = [element("b", _rounded(share)), f" {took}, {_sure(own)}", _parts(diagnosis, limit, own)]
    meaning = "; ".join(f"{each.part.label}: {says(each)}" if each.part else says(each) for each in own)
    return row(
        [element("span", swatch, _name(diagnosis, limit, own), title=meaning), _made_by(diagnosis, limit)],
        _area(heights(diagnosis, axis, limit), kind, label),
        value,
    )


def _name(diagnosis: Diagnosis, limit: Limit, own: list[LimitShare]) -> str:
    """Return a limit's name with whose it is, as the headline calls that end, and with its only part."""
    ends = ("server", "client") if diagnosis.transfer.reverse else ("client", "server")
    main = max(own, key=lambda each: each.share).part
    is_an_end = limit is Limit.APPLICATION and main not in (LimitSubtype.LATENCY, LimitSubtype.REPAIR)
    more = [ends[main is LimitSubtype.PEER]] if is_an_end else []
    more += [short(own[0].part)] if len(own) == 1 and own[0].part else []
    more += ["policer"] if limit is Limit.LINK and is_policed(diagnosis.limited) else []
    return f"{limit.label} ({', '.join(more)})" if more else limit.label


def _made_by(diagnosis: Diagnosis, limit: Limit) -> Markup | None:
    """Return what made the largest limit, where its name tells the mechanism only; else None."""
    headline, first = diagnosis.headline, cause(diagnosis)
    if limit is not headline.limit or limit not in AFTER_LOSSES or first is None:
        return None
    return element("small", f"made by {first.kind}", class_="muted")


def _parts(diagnosis: Diagnosis, limit: Limit, own: list[LimitShare]) -> Markup | None:
    """Return the parts of a limit with their shares, that of the headline first; None where it has one."""
    headline = diagnosis.headline
    parts = sorted(
        (each for each in own if each.part and each.share >= _WORTH),
        key=lambda each: each.part is not headline.part,
    )
    if len(own) == 1 or not parts:
        return None
    return element(
        "small", "of it ", ", ".join(f"{_rounded(each.share)} {short(each.part)}" for each in parts[:2])
    )


def _rounded(share: float) -> str:
    return f"{share:.0%}" if _WORTH <= share < 1 - _WORTH or share == 1 else percent(share)


def _sure(own: list[LimitShare]) -> str:
    """Return how sure a limit is; of one that is weak, between which shares it lies."""
    return surely(own[0]) if len(own) == 1 else own[0].confidence.label


def heights(diagnosis: Diagnosis, axis: TimeAxis, limit: Limit) -> Array:
    """Return for which part of each bin of time a limit held: float64, 0 to 1, shape (n_bins,).

    Of several connections each counts as in the headline: those that were active share the moment equally.
    """
    group = diagnosis.group
    edges = axis.edges(_BINS) + clock_shift_ns(diagnosis)
    spent = np.zeros(_BINS)
    for member in group.members:
        spent += np.diff(_spent(diagnosis, member, limit, edges))
    return np.asarray(np.clip(spent / (axis.length_ns / _BINS), 0, 1))


def clock_shift_ns(diagnosis: Diagnosis) -> int:
    """Return what the group's clock shows when the explained transfer's, which the figure has, shows 0."""
    first = diagnosis.group.members[0]
    return first.begin_ns - first.limited.begin_ns


def _spent(diagnosis: Diagnosis, member: GroupConnection, limit: Limit, times: Array) -> Array:
    """Return how much time of a member a limit had taken by each time: float64, ns, shape of `times`."""
    own = member.limited.cells.limit == limit
    if not own.any():
        return np.zeros(len(times))
    ends = np.column_stack([member.begin[own], member.end[own]]).ravel().astype(np.float64)
    counted = diagnosis.group.counted(ends)
    passed = np.concatenate([[0.0], np.cumsum(np.diff(counted) * (np.arange(len(ends) - 1) % 2 == 0))])
    return np.asarray(np.interp(diagnosis.group.counted(times), counted, passed))


def _area(height: Array, kind: str, label: str) -> Markup:
    """Return the row as one shape: a bin with something in it is seen, however little it is."""
    tall = np.where(height > 0, np.maximum(np.round(height, 2), _LEAST_HEIGHT), 0)
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
"""Incidents with a row; the list below the screen has all."""
_JARGON = {
    "rlp-retransmission-burst": "radio frames sent again (RLP)",
    "competing-retransmission": "TCP sent again what the link was repeating",
    "link-reset": "the link threw away what it held",
}
_REPEAT_ROWS = {
    "link-limited": Limit.LINK, "receiver-limited": Limit.RECEIVER_WINDOW,
    "send-buffer-limited": Limit.SENDER_BUFFER, "application-limited": Limit.APPLICATION,
    "slow-start-limited": Limit.SLOW_START, "zero-window": Limit.RECEIVER_WINDOW,
    "server-think-time": Limit.APPLICATION, "client-think-time": Limit.APPLICATION,
}  # fmt: skip
"""Incidents that say what the row of a limit shows, moment by moment."""
_WORTH_A_ROW = 0.02
"""Share of the time that an incident with a row costs at least; of less no reader of the screen named one."""


def incident_rows(diagnosis: Diagnosis, axis: TimeAxis) -> list[Markup]:
    """Return a row for each of the first incidents that matter, every part of it a mark."""
    worth = [each for each in in_order(diagnosis) if _worth_a_row(diagnosis, each)]
    rows = [cell for each in worth[:_MOST_INCIDENTS] for cell in _incident(diagnosis, axis, each)]
    return [*_lost_row(diagnosis, axis), *rows]


def _worth_a_row(diagnosis: Diagnosis, incident: Incident) -> bool:
    """Return whether an incident says more than the rows of the limits do; the list below has them all.

    What repeats a limit has no second row: its bar would run through all that held between.
    """
    if _REPEAT_ROWS.get(incident.kind) in limits_shown(diagnosis):
        return False
    costs = incident.cost_s >= _WORTH_A_ROW * diagnosis.limited.total_s
    return costs or incident == cause(diagnosis) or _added_delay_s(diagnosis, incident) > 0


def _lost_row(diagnosis: Diagnosis, axis: TimeAxis) -> list[Markup]:
    """Return the row of data that were lost in a row; empty where none were."""
    run = lost_run(diagnosis)
    if run is None:
        return []
    words = when(axis, run.begin_ns, run.end_ns)
    bar = stretches(
        axis, [(run.begin_ns, run.end_ns, words)], label=f"no data came through, {words}", kind="incident"
    )
    return row("no data came through", bar, f"{run.segments:,} segments lost in a row")


def _incident(diagnosis: Diagnosis, axis: TimeAxis, incident: Incident) -> list[Markup]:
    spans = axis.spread(
        (begin, end, f"{kind}, {when(axis, begin, end)}") for kind, begin, end in _times(diagnosis, incident)
    )
    times = f" ×{incident.count:,}" if incident.count > 1 else ""
    begin, end = axis.seconds(incident.begin_ns), axis.seconds(incident.end_ns)
    name = element(
        "button", incident.kind, times, type="button", class_="marks", data_mark_from=f"{begin:.6f}",
        data_mark_to=f"{end:.6f}", data_words=printable(incident.sentence), aria_pressed="false",
        title=printable(incident.sentence),
    )  # fmt: skip
    label = f"{incident.kind}: {when(axis, incident.begin_ns, incident.end_ns)}"
    value = [_cost(diagnosis, incident), _meaning(incident.kind)]
    kind = "incident" if incident.cost_s > 0 or incident == cause(diagnosis) else "incident free"
    return row(name, stretches(axis, spans, label=label, kind=kind), value)


def _times(diagnosis: Diagnosis, incident: Incident) -> list[tuple[str, int, int]]:
    """Return kind, begin and end of what happened; of a link that was stopped again and again each stop."""
    parts = [diagnosis.findings[place] for place in incident.parts]
    begin, end = stopped(diagnosis.limited, Limit.LINK, LimitSubtype.XOFF)
    if incident.kind != "link-flow-control" or not len(begin):
        return [(each.kind, each.begin_ns, each.end_ns) for each in parts]
    return [(incident.kind, *each) for each in zip(begin.tolist(), end.tolist(), strict=True)]


def _meaning(kind: str) -> Markup | None:
    """Return what a word of the link's protocol means."""
    return element("small", _JARGON[kind]) if kind in _JARGON else None


def _cost(diagnosis: Diagnosis, incident: Incident) -> str:
    """Return what an incident cost: time, or delay that everybody has; of a cause what it stands behind.

    A loss costs its repair, and then a small window for long: the limit's row has that number.
    """
    headline = diagnosis.headline
    if headline.limit in AFTER_LOSSES and incident == cause(diagnosis):
        return f"made {headline.limit.label} the limit"
    if incident.cost_s > 0:
        return f"cost {duration(incident.cost_s * NS_PER_S)}"
    added_s = _added_delay_s(diagnosis, incident)
    return f"adds {duration(added_s * NS_PER_S)} of delay" if added_s > 0 else "no time lost"


def _added_delay_s(diagnosis: Diagnosis, incident: Incident) -> float:
    return diagnosis.findings[incident.parts[0]].numbers.get("added_delay_s", 0.0)


def road_rows(surroundings: Surroundings | None, axis: TimeAxis) -> list[Markup]:
    """Return the rows of cell changes and of the engineer's marks; empty without any in this time."""
    if surroundings is None:
        return []
    return [*_changes(surroundings, axis), *_marks(surroundings, axis)]


def _changes(surroundings: Surroundings, axis: TimeAxis) -> list[Markup]:
    if not surroundings.phones:
        return []
    times = [int(each) for each in surroundings.phones[0].handovers["time_ns"]]
    return _points(
        axis, [(each, "change of the cell") for each in times], "cell changes", "change of the cell"
    )


def _marks(surroundings: Surroundings, axis: TimeAxis) -> list[Markup]:
    notes = [
        (int(each), printable(note or "marked"))
        for placed in surroundings.markers
        for each, note in zip(placed.table["time_ns"].tolist(), placed.table["note"].tolist(), strict=True)
    ]
    return _points(axis, notes, "markers", "mark")


def _points(axis: TimeAxis, stamps: list[tuple[int, str]], name: str, noun: str) -> list[Markup]:
    """Return the row of moments that lie on the axis; empty if none does."""
    seen = [(at, words) for at, words in stamps if axis.begin_ns <= at <= axis.end_ns]
    if not seen:
        return []
    spans = axis.spread((at, at, f"{words} at {axis.seconds(at):.1f} s") for at, words in seen)
    many = f"{len(seen):,}" if noun.startswith("change") else count(len(seen), noun)
    return row(name, stretches(axis, spans, label=f"{name}: {many}", kind="moment"), many)
