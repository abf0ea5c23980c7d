"""From analysed captures to one self-contained HTML file, and to an index of several."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multitracer.figures.link_time import axis_title, in_link_time, place_in_link_time
from multitracer.figures.places import places
from multitracer.figures.stacked import View, stacked_panels, stacked_places
from multitracer.figures.time_sequence import cut, time_sequence_panels
from multitracer.layers import Layers, SenderLogs
from multitracer.report.connection_table import connection_section
from multitracer.report.diagnosis_section import diagnosis_section
from multitracer.report.drawn import choose, origin_ns
from multitracer.report.embed import embed
from multitracer.report.figure_section import figure_section
from multitracer.report.markup import printable
from multitracer.report.page import document, write
from multitracer.report.provenance import digests, provenance_section
from multitracer.report.sections import summary_section, trust_section, verdict_of
from multitracer.report.sentence import NOTHING, sentence
from multitracer.report.words import size

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from multitracer.clock.session_clock import Clocks
    from multitracer.diagnosis.diagnose import Diagnosis
    from multitracer.figures.places import Place
    from multitracer.figures.stack import Panel
    from multitracer.recording import Part
    from multitracer.report.drawn import Drawn
    from multitracer.report.markup import Markup

MOST_FIGURES = 6
MOST_ROWS = 200
FIRST_BYTES = 1_900_000
FURTHER_BYTES = 800_000
"""Of packed series in the first figure, and in all others together: a page stays below 8 MB."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for.

    Parameters
    ----------
    connection : int, optional
        Number of the connection to draw first and to summarise; by default the one with most unique bytes.
    from_ns, to_ns : int, optional
        Draw only this interval (link time); the numbers are those of the analysis.
    title : str
        By default the names of the capture points.
    command : str
        The command line, for the provenance.
    notes : sequence of str
        What was passed over when the input was opened.
    logs : SenderLogs, optional
        What the hosts logged of their TCP; drawn beside the packets of its senders.
    clocks : Clocks, optional
        How the recording's clocks relate; without them the receiver's times are those of its own clock.
    diagnosis : Diagnosis, optional
        Of the connection that is drawn first; the report opens with it.
    """

    connection: int | None = None
    from_ns: int | None = None
    to_ns: int | None = None
    title: str = ""
    command: str = ""
    notes: Sequence[str] = ()
    logs: SenderLogs | None = None
    clocks: Clocks | None = None
    diagnosis: Diagnosis | None = None

    @property
    def speed(self) -> float:
        """Link seconds in a recorded second."""
        return 1.0 if self.logs is None else self.logs.speed


def write_report(parts: Sequence[Part], path: str | os.PathLike[str], request: Request = Request()) -> None:
    """Write one self-contained HTML report.

    Parameters
    ----------
    parts : sequence of Part
        The capture points of one recording; usually one.
    path : path
        Of the file to write; it appears whole or not at all.
    request : Request

    Raises
    ------
    InputError
        If there is no such connection, the file cannot be written or plotly is not installed.
    """
    drawn = choose(parts, connection=request.connection, most=MOST_FIGURES)
    first = drawn[0] if drawn else None
    body = [
        *_opening(parts, first, request),
        summary_section(
            first, connections=_count(parts), clock=_clock(parts, first, request), speed=request.speed
        ),
        figure_section([_title(each, several=len(parts) > 1) for each in drawn]) if drawn else None,
        connection_section(parts, drawn, most=MOST_ROWS),
        provenance_section(parts, command=request.command, notes=request.notes, hashes=digests(parts)),
    ]
    title = request.title.strip() or ", ".join(
        Path(part.point.name).name or part.point.name for part in parts
    )
    write(path, document(printable(title), body, figures=_figures(parts, drawn, request)))


def _opening(parts: Sequence[Part], drawn: Drawn | None, request: Request) -> list[Markup | None]:
    """Return why it was slow and how far that can be trusted; a doubt comes first."""
    opening = [_diagnosis(drawn, request), trust_section(parts)]
    return opening if verdict_of(parts) == "good" else opening[::-1]


def _diagnosis(drawn: Drawn | None, request: Request) -> Markup | None:
    """Return how the report opens; None if there is nothing to explain."""
    found = request.diagnosis
    if drawn is None or found is None or not found.account.total_s:
        return None
    layers = found.transfer.layers
    shows = layers.part is drawn.part and layers.connection == drawn.connection
    return diagnosis_section(found, origin_ns=origin_ns(layers.part), speed=request.speed, figure=shows)


def summary(parts: Sequence[Part], connection: int | None = None) -> str:
    """Return the sentence on the chosen or largest connection."""
    drawn = choose(parts, connection=connection, most=1)
    if not drawn:
        return NOTHING
    return sentence(drawn[0])


def _count(parts: Sequence[Part]) -> int:
    return sum(map(len, parts))


def _title(drawn: Drawn, *, several: bool) -> str:
    sender, receiver = drawn.ends
    where = f", captured at {printable(drawn.part.point.name)}" if several else ""
    return f"{drawn.number}: {sender} → {receiver}, {size(drawn.direction['unique_bytes'])}{where}"


def _figures(parts: Sequence[Part], drawn: list[Drawn], request: Request) -> list[dict[str, Any]]:
    further = FURTHER_BYTES // max(len(drawn) - 1, 1)
    budgets = [FIRST_BYTES] + [further] * len(drawn)
    return [
        _figure(
            _layers(parts, each, request), each, request, identity=f"figure {number}", budget_bytes=budget
        )
        for number, (each, budget) in enumerate(zip(drawn, budgets, strict=False))
    ]


def _layers(parts: Sequence[Part], drawn: Drawn, request: Request) -> Layers | None:
    """Return what more the recording holds of what is drawn; at the receiver of a connection, nothing."""
    logs = request.logs or SenderLogs.none()
    layers = Layers.of(
        parts, logs, drawn.part, drawn.connection, reverse=drawn.reverse, clocks=request.clocks
    )
    return layers if layers.has_more and layers.part is drawn.part else None


def _clock(parts: Sequence[Part], drawn: Drawn | None, request: Request) -> str:
    """Return how sure the report's clock is, in a line; "" where there is one clock only."""
    if drawn is None or request.clocks is None:
        return ""
    logs = request.logs or SenderLogs.none()
    layers = Layers.of(
        parts, logs, drawn.part, drawn.connection, reverse=drawn.reverse, clocks=request.clocks
    )
    return layers.clock.sentence if layers.clock else ""


def _of_packets(
    drawn: Drawn, begin: int | None, end: int | None, speed: float
) -> tuple[list[Panel], list[Place]]:
    """Return what one capture alone shows, in link time."""
    first_ns = origin_ns(drawn.part)
    panels = in_link_time(time_sequence_panels(drawn.tables, speed=speed), speed=speed, origin_ns=first_ns)
    worth = [place_in_link_time(p, speed=speed, origin_ns=first_ns) for p in places(drawn.tables)]
    return cut(panels, begin, end), worth


def _figure(
    layers: Layers | None, drawn: Drawn, request: Request, *, identity: str, budget_bytes: int
) -> dict[str, Any]:
    begin, end = request.from_ns, request.to_ns
    if layers is None:
        panels, worth = _of_packets(drawn, begin, end, request.speed)
    else:
        panels, worth = stacked_panels(layers, View(begin, end)), stacked_places(layers)
    figure = embed(
        panels,
        [place for place in worth if place.meets(begin, end)],
        identity=identity,
        origin_ns=origin_ns(drawn.part),
        budget_bytes=budget_bytes,
        time_title=axis_title(request.speed),
    )
    return figure | {
        "options": f"--connection {drawn.number}",
        "filename": f"connection-{drawn.number}",
    }
