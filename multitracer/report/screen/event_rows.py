"""What happened, over time: incidents, changes of the cell, and the engineer's marks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.limits.limited import stretches as stopped
from multitracer.diagnosis.limits.names import Limit, Part
from multitracer.report.markup import Markup, element
from multitracer.report.screen.cause import AFTER_LOSSES, cause, in_order
from multitracer.report.screen.limit_rows import limits_shown
from multitracer.report.screen.lost_run import lost_run
from multitracer.report.screen.rows import row, stretches, when
from multitracer.units import NS_PER_S
from multitracer.words import count, duration, printable

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnose import Diagnosis
    from multitracer.diagnosis.incidents import Incident
    from multitracer.recording.surroundings import Surroundings
    from multitracer.report.screen.time_axis import TimeAxis

_MOST = 3
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
_WORTH = 0.02
"""Share of the time that an incident with a row costs at least; of less no reader of the screen named one."""


def incident_rows(diagnosis: Diagnosis, axis: TimeAxis) -> list[Markup]:
    """Return a row for each of the first incidents that matter, every part of it a mark."""
    worth = [each for each in in_order(diagnosis) if _worth_a_row(diagnosis, each)]
    rows = [cell for each in worth[:_MOST] for cell in _incident(diagnosis, axis, each)]
    return [*_lost_row(diagnosis, axis), *rows]


def _worth_a_row(diagnosis: Diagnosis, incident: Incident) -> bool:
    """Return whether an incident says more than the rows of the limits do; the list below has them all.

    What repeats a limit has no second row: its bar would run through all that held between.
    """
    if _REPEAT_ROWS.get(incident.kind) in limits_shown(diagnosis):
        return False
    costs = incident.cost_s >= _WORTH * diagnosis.limited.total_s
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
    begin, end = stopped(diagnosis.limited, Limit.LINK, Part.XOFF)
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
