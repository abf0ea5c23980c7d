"""Writes the report of a recording as one self-contained HTML file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from multitracer.diagnosis.diagnose import diagnose
from multitracer.diagnosis.drive import Drive
from multitracer.diagnosis.limits.group import group_of
from multitracer.errors import InputError
from multitracer.figures.link_panels import axis_title, in_link_time, place_in_link_time
from multitracer.figures.stack import SharedAxis, axis_origin_ns
from multitracer.figures.stacked import StackedView, stacked_panels, stacked_places
from multitracer.figures.time_sequence import cut, time_sequence_panels
from multitracer.figures.zooms import places
from multitracer.recording.transfer import Transfer
from multitracer.report.connection_table import Drawn, choose, connection_section
from multitracer.report.diagnosis_section import happened_section, limits_section, quic_section
from multitracer.report.drive_section import (
    drive_figure_documents,
    drive_picture,
    drive_summary,
    phone_sections,
    route_map,
    stretches_section,
    tcp_on_the_road,
    worst_list,
)
from multitracer.report.embed import VIEW_MARGIN, embed, packet_facts
from multitracer.report.explained_panels import explained_panels
from multitracer.report.figure_section import drive_figure_section, figure_section, static_figure
from multitracer.report.first_screen import FirstScreenContent, RouteContent, first_screen
from multitracer.report.markup import fold
from multitracer.report.page import document, write
from multitracer.report.route_map import map_figure, map_section
from multitracer.report.sections import load_section, provenance_section, summary_section, trust_line
from multitracer.report.signalling_section import TITLE, Axis, first_message_ns, signalling_viewer
from multitracer.words import printable, size

if TYPE_CHECKING:
    import os

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.figures.stack import Panel
    from multitracer.figures.zooms import NamedInterval
    from multitracer.recording.recording import Recording
    from multitracer.recording.window import Bounds
    from multitracer.report.base_map import BaseMap
    from multitracer.report.markup import Markup
    from multitracer.report.page import Assets
    from multitracer.report.route_map import DrawnRoute
    from multitracer.report.signalling_section import Viewer
    from multitracer.tables import Document

MOST_FIGURES = 6
MOST_ROWS = 200
FIRST_BYTES = 20_000_000
FURTHER_BYTES = 6_000_000
"""Maximum bytes of points in the further figures together, so that a page is smaller than 28 MB."""


@dataclass(frozen=True, slots=True)
class Request:
    """The user's options for a report.

    Parameters
    ----------
    connection : int, optional
        Number of the connection to diagnose and to draw first; by default the longest connection of the longest group.
    from_ns, to_ns : int, optional
        Interval to draw (link time); the numbers of the report describe the complete recording.
    title : str
        Title of the page; by default the names of the capture points.
    command : str
        The command line, for the section on provenance.
    base_map : BaseMap, optional
        Lines to draw below the route of a drive.
    assets : Assets, optional
        Folder for script and style of the page; by default the page contains them.
    card : int, optional
        The card of a phone with several whose radio and messages are shown; by default all.
    """

    connection: int | None = None
    from_ns: int | None = None
    to_ns: int | None = None
    title: str = ""
    command: str = ""
    base_map: BaseMap | None = None
    assets: Assets | None = None
    card: int | None = None

    def recorded_ns(self, origin_ns: int, speed: float) -> Bounds:
        """Return the requested interval in recorded time; its end is not included.

        `origin_ns` is the recorded time of 0 s.
        """
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
        File to write; it appears only when it is complete.
    request : Request

    Returns
    -------
    FirstScreenContent or None
        None if no transfer could be diagnosed.

    Raises
    ------
    InputError
        If there is no such connection, or the file cannot be written.
    """
    if request.card is not None:
        recording.choose_card(request.card)
    radio_context = recording.radio_context()
    is_drive = not len(recording) and (radio_context or not recording.captures)
    page = _of_logs(recording, request) if is_drive else _of_captures(recording, request)
    points = ", ".join(Path(capture.point.name).name or capture.point.name for capture in recording.captures)
    title = request.title.strip() or points or recording.name
    sections = [*page.sections, provenance_section(recording, command=request.command)]
    route = None if page.route is None else page.route.document
    write(
        path,
        document(
            printable(title),
            sections,
            figures=page.figures,
            route=route,
            signalling=page.signalling,
            assets=request.assets,
        ),
    )
    return page.answer


class _Page(NamedTuple):
    """The content of a report, without the section on provenance."""

    sections: list[Markup | None]
    figures: list[Document]
    route: DrawnRoute | None
    answer: FirstScreenContent | None = None
    signalling: Viewer | None = None


def _of_captures(recording: Recording, request: Request) -> _Page:
    """Return the content for captures: diagnosis, largest connections, and the drive if there is one."""
    captures, speed = recording.captures, recording.speed
    diagnosis = _explained(recording, request.connection) if len(recording) else None
    at_sender = None if diagnosis is None else diagnosis.transfer.at_sender
    explained = None if at_sender is None else Drawn(at_sender.capture, at_sender.connection, at_sender.reverse)
    first_drawn = explained.number if explained and request.connection is None else request.connection
    drawn = choose(captures, connection=first_drawn, most=MOST_FIGURES)
    transfers = [Transfer.of(recording, each.number, reverse=each.reverse) for each in drawn]
    first = transfers[0] if transfers else None
    radio_context = (first and first.radio_context) or recording.radio_context()
    first_ns = axis_origin_ns(first.at_sender.capture) if first else _first_ns(recording)

    is_on_its_clock = first and at_sender and at_sender.capture is first.at_sender.capture  # as the road is
    shown_ns = request.recorded_ns(first_ns, speed)
    drive = Drive(radio_context, diagnosis if is_on_its_clock else None, shown_ns)
    of_tcp = tcp_on_the_road(first) if first else {}
    route = route_map(drive.part, of_tcp, origin_ns=first_ns, speed=speed, base=request.base_map)

    each_shown = (_shown(each, of, speed, request) for each, of in zip(transfers, drawn, strict=True))
    shown = next(each_shown, None)
    answer = happened = None
    if diagnosis is not None and explained is not None:
        bounds_ns = request.from_ns, request.to_ns
        answer = FirstScreenContent(diagnosis, explained, [], None, bounds_ns)
        if shown is not None and shown.drawn == explained:
            panels = explained_panels(shown.panels, diagnosis, origin_ns=axis_origin_ns(explained.capture))
            shown = shown._replace(panels=cut(panels, *bounds_ns))
            answer = answer._replace(panels=shown.panels, radio_context=radio_context)
        zero_ns, has_figure = axis_origin_ns(explained.capture), bool(answer.panels)
        happened = happened_section(diagnosis, origin_ns=zero_ns, speed=speed, figure=has_figure)
    worst = worst_list(drive, origin_ns=first_ns, speed=speed)
    incidents_ns = [*_incidents_ns(drive), *([] if diagnosis is None else (f.begin_ns for f in diagnosis.findings))]
    viewer = signalling_viewer(recording, radio_context, Axis(first_ns, speed, shown_ns), incidents_ns)
    content = None if route is None else RouteContent(map_figure(route), worst)
    sections = [
        trust_line(recording) if answer is None else first_screen(recording, answer, content),
        None if route is None or answer is not None else map_section(route),
        of_quic := quic_section(recording),
        happened,
        stretches_section(drive, origin_ns=first_ns, speed=speed, is_aggregated=True),
        _figures_section(drawn, shown, several=len(captures) > 1),
        None if viewer is None else fold(TITLE, viewer.section, note=viewer.note, id="signalling-section"),
        None if diagnosis is None else limits_section(diagnosis),
        None
        if of_quic is not None and not drawn
        else summary_section(
            drawn[0] if drawn else None,
            connections=len(recording),
            clock=first.clock.sentence if first and first.clock else "",
            speed=speed,
        ),
        *phone_sections(drive.part, origin_ns=first_ns, speed=speed),
        connection_section(recording, drawn, most=MOST_ROWS),
        load_section(recording),
    ]
    figures = []
    every_shown = filter(None, chain([shown], each_shown))
    for number, (each, budget) in enumerate(zip(every_shown, _budgets(len(drawn), route), strict=True)):
        transfer = diagnosis.transfer if diagnosis and each.drawn == explained else None
        figure = embed(
            each.panels,
            [place for place in each.places if place.meets(request.from_ns, request.to_ns)],
            identity=f"figure {number}",
            origin_ns=axis_origin_ns(each.drawn.capture),
            budget_bytes=budget,
            x_axis=SharedAxis(axis_title(speed)),
        )
        name = each.drawn.number
        figure |= {"options": f"--connection {name}", "filename": f"connection-{name}"}
        figures.append(figure | {"packets": packet_facts(each.drawn.capture, transfer)})
    return _Page(sections, figures, route, answer, viewer)


def _first_ns(recording: Recording) -> int:
    """Return the recorded time that a page without TCP calls 0: the first reading, else the first message."""
    first_ns = recording.radio_context().first_ns
    return first_message_ns(recording) if first_ns is None else first_ns


def _widen(figure: Document, span_s: tuple[float, float]) -> None:
    """Let a figure over time show all of a span: messages begin before the first reading, and end after the last."""
    low, high = figure["view"]
    room_s = (span_s[1] - span_s[0]) * VIEW_MARGIN
    figure["view"] = [min(low, span_s[0] - room_s), max(high, span_s[1] + room_s)]
    figure["span"] = [min(figure["span"][0], span_s[0]), max(figure["span"][1], span_s[1])]


def _incidents_ns(drive: Drive) -> list[int]:
    """Return the recorded times at which bad stretches of a drive begin."""
    try:
        return drive.stretches["begin_ns"].tolist() if drive.phones else []
    except InputError:  # times of two clocks: the page says so where it lists the stretches
        return []


def _of_logs(recording: Recording, request: Request) -> _Page:
    """Return the content for a recording without a TCP connection: radio and route."""
    radio_context = recording.radio_context()
    first_ns = _first_ns(recording)
    shown_ns = request.recorded_ns(first_ns, 1)
    drive = Drive(radio_context, shown_ns=shown_ns)
    route = route_map(drive.part, {}, origin_ns=first_ns, base=request.base_map)
    shown = drive.part.radio_context
    figures = (
        drive_figure_documents(shown, origin_ns=first_ns, identity="drive", budget_bytes=_budgets(1, route)[0])
        if shown.series
        else []
    )
    load = load_section(recording)
    viewer = signalling_viewer(recording, radio_context, Axis(first_ns, bounds_ns=shown_ns), _incidents_ns(drive))
    if figures and viewer is not None and viewer.span_s is not None:
        _widen(figures[0], viewer.span_s)
    sections = [
        quic_section(recording),
        stretches_section(drive, origin_ns=first_ns, speed=1),
        trust_line(recording) if recording.captures else None,
        drive_summary(shown, load=load is not None),
        load,
        None if route is None else map_section(route),
        drive_figure_section(len(figures), picture=drive_picture(shown, origin_ns=first_ns)) if figures else None,
        None if viewer is None else viewer.section,
        *phone_sections(drive.part, origin_ns=first_ns, speed=recording.speed),
    ]
    return _Page(sections, figures, route, signalling=viewer)


class _Shown(NamedTuple):
    """The content of a figure: a direction, its panels in link time, and notable intervals."""

    drawn: Drawn
    panels: list[Panel]
    places: list[NamedInterval]


def _shown(transfer: Transfer, drawn: Drawn, speed: float, request: Request) -> _Shown:
    """Return the content of a direction's figure, made from all logs of the transfer."""
    begin_ns, end_ns, first_ns = request.from_ns, request.to_ns, axis_origin_ns(drawn.capture)
    if transfer.has_more and transfer.at_sender.capture is drawn.capture:
        return _Shown(drawn, stacked_panels(transfer, StackedView(begin_ns, end_ns)), stacked_places(transfer))
    # at the receiver, too: what the sender knew is drawn on the sender's clock
    panels = in_link_time(time_sequence_panels(drawn.tables, speed=speed), speed=speed, origin_ns=first_ns)
    worth = [place_in_link_time(p, speed=speed, origin_ns=first_ns) for p in places(drawn.tables)]
    return _Shown(drawn, cut(panels, begin_ns, end_ns), worth)


def _figures_section(drawn: list[Drawn], first: _Shown | None, *, several: bool) -> Markup | None:
    """Return the section of the figures, with the first figure also as a static picture.

    The result is None without figures.
    """
    if first is None:
        return None
    titles = []
    for each in drawn:
        sender, receiver = each.ends
        where = f", captured at {printable(each.capture.point.name)}" if several else ""
        titles.append(f"{each.number}: {sender} → {receiver}, {size(each.direction['unique_bytes'])}{where}")
    picture = static_figure(first.panels, title=titles[0], origin_ns=axis_origin_ns(first.drawn.capture))
    at_receiver = any(each.is_at_receiver for each in drawn)
    section = figure_section(titles, at_receiver=at_receiver, picture=picture)
    return fold("Every packet", section, note="all panels, from hours to single packets", id="figure")


def _explained(recording: Recording, connection: int | None) -> Diagnosis | None:
    """Return the diagnosis for the page; None if there is no data or there are no times."""
    group = group_of(recording) if connection is None else None
    transfer = group.longest.transfer if group is not None else Transfer.of(recording, connection)
    if transfer.without_time:
        return None
    diagnosis = diagnose(transfer, group, both=True)
    return diagnosis if diagnosis.limited.total_s else None


def _budgets(figures: int, route: DrawnRoute | None) -> list[int]:
    """Return the maximum number of bytes for the encoded series of each figure; the map's are subtracted."""
    spent = 0 if route is None else len(json.dumps(route.document))
    first = max(FIRST_BYTES - spent, FIRST_BYTES // 2)
    further = FURTHER_BYTES // max(figures - 1, 1)
    return [first, *[further] * (figures - 1)][:figures]
