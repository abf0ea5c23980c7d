"""From analysed captures to one self-contained HTML file, and to an index of several."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from multitracer.diagnosis.diagnose import diagnose
from multitracer.diagnosis.limits.group import group_of
from multitracer.diagnosis.limits.names import Confidence, Limit
from multitracer.diagnosis.road import Road
from multitracer.diagnosis.transfer import Transfer
from multitracer.figures.link_panels import axis_title, in_link_time, place_in_link_time
from multitracer.figures.stack import SharedAxis
from multitracer.figures.stacked import StackedView, stacked_panels, stacked_places
from multitracer.figures.time_sequence import cut, time_sequence_panels
from multitracer.figures.zooms import places
from multitracer.recording.layers import Layers
from multitracer.recording.phones import drives_beside
from multitracer.report.connection_table import Drawn, choose, connection_section, origin_ns
from multitracer.report.diagnosis_section import happened_section, limits_section
from multitracer.report.drive_section import (
    cells_section,
    changes_section,
    drive_figure_documents,
    drive_picture,
    drive_summary,
    route_map,
    stretches_note,
    stretches_section,
    tcp_on_the_road,
)
from multitracer.report.embed import embed, packet_facts
from multitracer.report.explained_panels import explained_panels
from multitracer.report.figure_section import drive_figure_section, figure_section, still_figure
from multitracer.report.first_screen import FirstScreenContent, first_screen, sureness
from multitracer.report.markup import fold
from multitracer.report.page import document, write
from multitracer.report.route_map import map_section
from multitracer.report.sections import provenance_section, summary_section, trust_line
from multitracer.words import count, printable, size

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.figures.stack import Panel
    from multitracer.figures.zooms import NamedInterval
    from multitracer.recording.recording import Recording
    from multitracer.recording.surroundings import Surroundings
    from multitracer.recording.window import Bounds
    from multitracer.report.base_map import BaseMap
    from multitracer.report.markup import Markup
    from multitracer.report.page import Assets
    from multitracer.report.route_map import DrawnRoute
    from multitracer.tables import Document

MOST_FIGURES = 6
MOST_ROWS = 200
FIRST_BYTES = 20_000_000
FURTHER_BYTES = 6_000_000
"""Of points in the first figure, and in all others together: a page stays below 28 MB."""


@dataclass(frozen=True, slots=True)
class Request:
    """The options of the user.

    Parameters
    ----------
    connection : int, optional
        Number of the connection to draw first and to explain; by default the longest of the group that took
        longest.
    from_ns, to_ns : int, optional
        Draw only this interval (link time); the numbers are those of the analysis.
    title : str
        By default the names of the capture points.
    command : str
        The command line, for the provenance.
    base_map : BaseMap, optional
        Drawn below the route of a drive.
    assets : Assets, optional
        Where script and style of the page go; by default into the page.
    """

    connection: int | None = None
    from_ns: int | None = None
    to_ns: int | None = None
    title: str = ""
    command: str = ""
    base_map: BaseMap | None = None
    assets: Assets | None = None

    def recorded_ns(self, origin_ns: int, speed: float) -> Bounds:
        """Return the interval as recorded, the end not included, on the clock whose `origin_ns` is 0."""
        begin, end = (
            None if each is None else origin_ns + round((each - origin_ns) / speed)
            for each in (self.from_ns, None if self.to_ns is None else self.to_ns + 1)
        )
        return begin, end


def write_report(
    recording: Recording, path: str | os.PathLike[str], request: Request = Request()
) -> FirstScreenContent | None:
    """Write one self-contained HTML report, and return what its first screen shows.

    Parameters
    ----------
    recording : Recording
    path : path
        Of the file to write; it appears whole or not at all.
    request : Request

    Returns
    -------
    Answer or None
        None where no transfer could be explained.

    Raises
    ------
    InputError
        If there is no such connection, or the file cannot be written.
    """
    surroundings = recording.surroundings()
    is_drive = not len(recording) and (surroundings or not recording.parts)
    page = _of_logs(recording, request) if is_drive else _of_captures(recording, request)
    points = ", ".join(Path(part.point.name).name or part.point.name for part in recording.parts)
    title = request.title.strip() or points or recording.name
    sections = [*page.sections, provenance_section(recording, command=request.command)]
    route = None if page.route is None else page.route.document
    write(
        path,
        document(printable(title), sections, figures=page.figures, route=route, assets=request.assets),
    )
    return page.answer


class _Page(NamedTuple):
    """What a report shows, without where it comes from."""

    sections: list[Markup | None]
    figures: list[Document]
    route: DrawnRoute | None
    answer: FirstScreenContent | None = None


def _of_captures(recording: Recording, request: Request) -> _Page:
    """Return a report of captures: the answer, the largest connections, and the drive if there was one."""
    parts = recording.parts
    diagnosis = _explained(recording, request.connection) if len(recording) else None
    drawn = choose(parts, connection=_first(diagnosis, request), most=MOST_FIGURES)
    layers = [Layers.of(recording, d.part, d.connection, reverse=d.reverse) for d in drawn]
    first = drawn[0] if drawn else None
    surroundings = (layers[0].surroundings if layers else None) or recording.surroundings()
    first_ns = _first_ns(layers, surroundings)
    shown_ns = request.recorded_ns(first_ns, recording.speed)
    road = Road(surroundings, _on_its_clock(layers, diagnosis), shown_ns)
    of_tcp = tcp_on_the_road(layers[0]) if layers else {}
    route = route_map(road.part, of_tcp, origin_ns=first_ns, speed=recording.speed, base=request.base_map)
    each_shown = (_panels(each, of, recording.speed, request) for each, of in zip(layers, drawn, strict=True))
    shown = next(each_shown, None)
    shown = _explained_figure(shown, diagnosis, request)
    answer = None if diagnosis is None else _answer(diagnosis, shown, surroundings, request)
    bad = stretches_section(road, origin_ns=first_ns, speed=recording.speed)
    sections = [
        *_opening(recording, answer),
        None
        if bad is None
        else fold("Where was it bad, and why?", bad, note=stretches_note(road), id="stretches"),
        _figures(drawn, shown, several=len(parts) > 1),
        None if route is None else fold("Where it was", map_section(route), id="map"),
        None if diagnosis is None else limits_section(diagnosis),
        summary_section(first, connections=len(recording), clock=_clock(layers), speed=recording.speed),
        *_of_phone(road.part, first_ns, recording.speed),
        connection_section(parts, drawn, most=MOST_ROWS),
    ]
    figures = [
        _figure(each, recording.speed, request, budget_bytes=budget, identity=f"figure {number}")
        | {"packets": packet_facts(each.drawn.part, _transfer_of(each.drawn, diagnosis))}
        for number, (each, budget) in enumerate(
            zip(filter(None, chain([shown], each_shown)), _budgets(len(drawn), _length(route)), strict=True)
        )
    ]
    return _Page(sections, figures, route, answer)


def _of_logs(recording: Recording, request: Request) -> _Page:
    """Return a report of a recording without a TCP connection: its radio and its road."""
    surroundings = recording.surroundings()
    first_ns = surroundings.first_ns or 0
    road = Road(surroundings, shown_ns=request.recorded_ns(first_ns, 1))
    route = route_map(road.part, {}, origin_ns=first_ns, base=request.base_map)
    shown = road.part.surroundings
    figures = (
        drive_figure_documents(
            shown, origin_ns=first_ns, identity="drive", budget_bytes=_budgets(1, _length(route))[0]
        )
        if shown.series
        else []
    )
    sections = [
        stretches_section(road, origin_ns=first_ns, speed=1),
        trust_line(recording) if recording.parts else None,
        drive_summary(shown),
        None if route is None else map_section(route),
        drive_figure_section(len(figures), picture=drive_picture(shown, origin_ns=first_ns))
        if figures
        else None,
        *_of_phone(road.part, first_ns, recording.speed),
    ]
    return _Page(sections, figures, route)


def _length(route: DrawnRoute | None) -> int:
    """Return how many bytes of the page a map takes."""
    return 0 if route is None else len(json.dumps(route.document))


def _on_its_clock(layers: Sequence[Layers], diagnosis: Diagnosis | None) -> Diagnosis | None:
    """Return the diagnosis if its times are those of the first figure, whose clock the road is on."""
    if diagnosis is None or not layers or diagnosis.transfer.layers.part is not layers[0].part:
        return None
    return diagnosis


def _first_ns(layers: Sequence[Layers], surroundings: Surroundings) -> int:
    """Return what the page's time axis calls 0."""
    return origin_ns(layers[0].part) if layers else surroundings.first_ns or 0


def _of_phone(road: Road, first_ns: int, speed: float) -> list[Markup | None]:
    """Return the tables of the phone's cells and of its changes between them."""
    if not road.phones:
        return []
    phone, drives = road.phones[0], drives_beside(road.phones)
    notes = [road.throughput_words] if road.throughput_words else []
    if drives:
        more = count(drives, "other drive")
        notes.append(f"Of {more} `export tables` has the cells and the changes.")
    if others := len(road.phones) - 1 - drives:
        more = count(others, "other radio")
        notes.append(
            f"This page shows the radio with most readings; `export tables` has {more}, too (another phone, "
            "or another card of it)."
        )
    return [
        cells_section(road.cells(phone), notes),
        changes_section(phone.changes, origin_ns=first_ns, speed=speed),
    ]


def _figures(drawn: list[Drawn], first: _Shown | None, *, several: bool) -> Markup | None:
    """Return the section of the figures, with the first one as a picture; None without any figure."""
    if first is None:
        return None
    titles = [_title(each, several=several) for each in drawn]
    picture = still_figure(first.panels, title=titles[0], origin_ns=origin_ns(first.drawn.part))
    at_receiver = any(each.is_at_receiver for each in drawn)
    section = figure_section(titles, at_receiver=at_receiver, picture=picture)
    return fold("Every packet", section, note="all panels, from hours to single packets", id="figure")


class _Shown(NamedTuple):
    """What a figure shows: a direction, its panels in link time, and the places worth a look."""

    drawn: Drawn
    panels: list[Panel]
    places: list[NamedInterval]


def _answer(
    diagnosis: Diagnosis, first: _Shown | None, surroundings: Surroundings, request: Request
) -> FirstScreenContent:
    """Return what the first screen shows; the panels only if the first figure is of that transfer."""
    view = diagnosis.transfer.layers.at_sender
    of = Drawn(view.part, view.connection, reverse=view.reverse)
    bounds_ns = (request.from_ns, request.to_ns)
    if first is None or first.drawn != of:
        return FirstScreenContent(diagnosis, of, [], None, bounds_ns)
    return FirstScreenContent(diagnosis, of, first.panels, surroundings, bounds_ns)


def _explained_figure(shown: _Shown | None, diagnosis: Diagnosis | None, request: Request) -> _Shown | None:
    """Return the first figure with what the explanation of its transfer adds, if it is of that."""
    if shown is None or diagnosis is None or _transfer_of(shown.drawn, diagnosis) is None:
        return shown
    more = explained_panels(shown.panels, diagnosis, origin_ns=origin_ns(shown.drawn.part))
    return shown._replace(panels=cut(more, request.from_ns, request.to_ns))


def _opening(recording: Recording, answer: FirstScreenContent | None) -> list[Markup | None]:
    """Return the first screen and what happened; without an answer how far the capture can be trusted."""
    if answer is None:
        return [trust_line(recording)]
    happened = happened_section(
        answer.diagnosis,
        origin_ns=origin_ns(answer.drawn.part),
        speed=recording.speed,
        figure=bool(answer.panels),
    )
    headline = answer.diagnosis.headline
    is_sure = headline.limit is not Limit.UNKNOWN and headline.confidence is not Confidence.WEAK
    trust = trust_line(recording, answer=sureness(answer.diagnosis), is_sure=is_sure)
    return [first_screen(answer, trust=trust), happened]


def _explained(recording: Recording, connection: int | None) -> Diagnosis | None:
    """Return the first sentence; None without data or without times."""
    group = group_of(recording) if connection is None else None
    transfer = group.longest.transfer if group is not None else Transfer.of(recording, connection)
    if transfer.without_time:
        return None
    diagnosis = diagnose(transfer, group)
    return diagnosis if diagnosis.limited.total_s else None


def _first(diagnosis: Diagnosis | None, request: Request) -> int | None:
    """Return the connection to draw first: the one that is explained, as its sender's capture has it."""
    if request.connection is not None or diagnosis is None:
        return request.connection
    return diagnosis.transfer.layers.at_sender.number


def _title(drawn: Drawn, *, several: bool) -> str:
    sender, receiver = drawn.ends
    where = f", captured at {printable(drawn.part.point.name)}" if several else ""
    return f"{drawn.number}: {sender} → {receiver}, {size(drawn.direction['unique_bytes'])}{where}"


def _transfer_of(drawn: Drawn, diagnosis: Diagnosis | None) -> Transfer | None:
    """Return the explained transfer if it is this direction, as this capture has it."""
    if diagnosis is None:
        return None
    view = diagnosis.transfer.layers.at_sender
    of = Drawn(view.part, view.connection, reverse=view.reverse)
    return diagnosis.transfer if of == drawn else None


def _budgets(figures: int, spent: int) -> list[int]:
    """Return how many bytes of packed series each figure may have, after those that the map has spent."""
    first = max(FIRST_BYTES - spent, FIRST_BYTES // 2)
    further = FURTHER_BYTES // max(figures - 1, 1)
    return [first, *[further] * (figures - 1)][:figures]


def _clock(layers: Sequence[Layers]) -> str:
    """Return the certainty of the report's clock, in a line; "" if there is only one clock."""
    clock = layers[0].clock if layers else None
    return clock.sentence if clock is not None else ""


def _of_packets(
    drawn: Drawn, begin: int | None, end: int | None, speed: float
) -> tuple[list[Panel], list[NamedInterval]]:
    """Return what one capture alone shows, in link time."""
    first_ns = origin_ns(drawn.part)
    panels = in_link_time(time_sequence_panels(drawn.tables, speed=speed), speed=speed, origin_ns=first_ns)
    worth = [place_in_link_time(p, speed=speed, origin_ns=first_ns) for p in places(drawn.tables)]
    return cut(panels, begin, end), worth


def _panels(layers: Layers, drawn: Drawn, speed: float, request: Request) -> _Shown:
    begin, end = request.from_ns, request.to_ns
    if layers.has_more and layers.part is drawn.part:
        return _Shown(drawn, stacked_panels(layers, StackedView(begin, end)), stacked_places(layers))
    # at the receiver, too: what the sender knew is drawn on the sender's clock
    return _Shown(drawn, *_of_packets(drawn, begin, end, speed))


def _figure(shown: _Shown, speed: float, request: Request, *, identity: str, budget_bytes: int) -> Document:
    drawn = shown.drawn
    figure = embed(
        shown.panels,
        [place for place in shown.places if place.meets(request.from_ns, request.to_ns)],
        identity=identity,
        origin_ns=origin_ns(drawn.part),
        budget_bytes=budget_bytes,
        x_axis=SharedAxis(axis_title(speed)),
    )
    return figure | {
        "options": f"--connection {drawn.number}",
        "filename": f"connection-{drawn.number}",
    }
