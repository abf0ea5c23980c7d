"""What happened, largest cost first: each incident with its first cause, its cost, and what belongs to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from multitracer.report.markup import Markup, element
from multitracer.units import NS_PER_S
from multitracer.words import ends, printable

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnosis import Diagnosis, Incident
    from multitracer.diagnosis.finding import Finding

_FIRST = 6
"""Incidents that are seen at once; the others unfold."""
_MOST = 60
"""Of incidents, and of the parts of one."""
_AROUND = 0.15
"""Room on both sides of what an incident shows, as a part of its length."""
_LEAST_ROOM_S = 1.0


@dataclass(frozen=True)
class FigureTimeAxis:
    """The time axis of the figure below.

    Attributes
    ----------
    origin_ns : int
        What the figure calls 0.
    speed : float
        Seconds of the figure in a second of the recording.
    is_shown : bool
        Whether the first figure of the page shows the transfer, so that incidents can lead there.
    """

    origin_ns: int
    speed: float
    is_shown: bool

    def seconds(self, stamp_ns: int) -> float:
        """Return the position of a stamp on it."""
        return (stamp_ns - self.origin_ns) * self.speed / NS_PER_S


def incident_list(diagnosis: Diagnosis, axis: FigureTimeAxis) -> list[Markup]:
    """Return the incidents; without any, that no known fault was found."""
    incidents = diagnosis.listed
    if not incidents:
        return [element("p", diagnosis.no_fault, class_="muted")]
    items = [element("li", _incident(each, diagnosis.findings, axis)) for each in incidents[:_MOST]]
    items += _rest(len(incidents) - _MOST)
    listed = [element("ol", items[:_FIRST], class_="findings")]
    if len(items) <= _FIRST:
        return listed
    folded = element(
        "details",
        element("summary", f"{len(incidents) - _FIRST:,} more that cost less"),
        element("ol", items[_FIRST:], class_="findings", start=_FIRST + 1),
    )
    return [*listed, folded]


def _rest(number: int) -> list[Markup]:
    return [element("li", f"and {number:,} more; `multitracer diagnose` lists all")] if number > 0 else []


def _incident(incident: Incident, findings: list[Finding], axis: FigureTimeAxis) -> list[Markup]:
    times = f"{incident.count:,} times, " if incident.count > 1 else ""
    helps = element("em", "What would help: ")
    return [
        element("strong", incident.kind),
        element("span", f" {times}{_when(incident, axis)} ", class_="muted"),
        *_show(incident, axis),
        element("p", printable(incident.sentence)),
        *([element("p", helps, printable(incident.help))] if incident.help else []),
        *_parts(incident, findings, axis),
    ]


def _parts(incident: Incident, findings: list[Finding], axis: FigureTimeAxis) -> list[Markup]:
    """Return the findings of an incident, unless it is one and the same."""
    if len(incident.parts) < 2:
        return []
    parts = [findings[place] for place in incident.parts]
    kinds = ", ".join(dict.fromkeys(part.kind for part in parts))
    items = [
        element(
            "li",
            element("strong", part.kind),
            element("span", f" {_when(part, axis)} ", class_="muted"),
            *_show(part, axis),
            element("p", printable(part.sentence)),
        )
        for part in parts[:_MOST]
    ]
    summary = element("summary", f"its {len(parts):,} parts: {kinds}")
    return [element("details", summary, element("ul", items, _rest(len(parts) - _MOST)), class_="parts")]


def _when(what: Incident | Finding, axis: FigureTimeAxis) -> str:
    cost = f"{what.cost_s:.1f} s" if what.cost_s > 0 else "no time"
    return f"cost {cost}, {_times(what, axis)}"


def _times(what: Incident | Finding, axis: FigureTimeAxis) -> str:
    return ends(f"{axis.seconds(what.begin_ns):.1f} s", f"{axis.seconds(what.end_ns):.1f} s")


def _show(what: Incident | Finding, axis: FigureTimeAxis) -> list[Markup]:
    """Return the button that leads to its place in the figure, if there is one."""
    if not axis.is_shown:
        return []
    begin_s, end_s = axis.seconds(what.begin_ns), axis.seconds(what.end_ns)
    room_s = max((end_s - begin_s) * _AROUND, _LEAST_ROOM_S)
    button = element(
        "button", "Show", type="button", data_show="0", data_from=f"{begin_s - room_s:.3f}",
        data_to=f"{end_s + room_s:.3f}", data_mark_from=f"{begin_s:.6f}",
        data_mark_to=f"{end_s:.6f}", title=f"Show {_times(what, axis)} in the figure",
    )  # fmt: skip
    return [button]
