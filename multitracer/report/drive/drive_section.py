"""What a report says of the radio and the road: a sentence, the map, and the figure where no packet is."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.series.labelled import packet_series, rtt_series, series_table
from multitracer.diagnosis.limits.names import Limit
from multitracer.errors import InputError
from multitracer.figures.drive_figure import TIME_TITLE, over_distance
from multitracer.figures.environment import surroundings_panels
from multitracer.figures.palette import LIMITS
from multitracer.figures.stack import Axis
from multitracer.recording.phones import drives_beside
from multitracer.report.drive.cells_section import change_words
from multitracer.report.drive.route_map import Drive, Event, Stretches, drawn_route
from multitracer.report.embed import embed
from multitracer.report.markup import Markup, element
from multitracer.report.points.still_figure import still_figure
from multitracer.units import BITS_PER_BYTE, NS_PER_S
from multitracer.words import count, duration, moment, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.analysis.mobility.route import Route
    from multitracer.diagnosis.diagnose import Diagnosis
    from multitracer.diagnosis.road import Road
    from multitracer.recording.layers import Layers
    from multitracer.recording.surroundings import Surroundings
    from multitracer.report.drive.base_map import BaseMap
    from multitracer.report.drive.route_map import DrawnRoute
    from multitracer.tables import Document, Table


def route_map(
    road: Road,
    series: Mapping[str, Table],
    *,
    origin_ns: int,
    speed: float = 1,
    base: BaseMap | None = None,
) -> DrawnRoute | None:
    """Return the map of a recording; None where its positions make no route.

    Parameters
    ----------
    road : Road
        With what limited the connection, if there is one.
    series : mapping of str to Table
        SERIES of the connection, as recorded, to colour the route by.
    origin_ns : int
        What the page's figure calls 0.
    speed : float
        Seconds of the figure in a second of the recording.
    base : BaseMap, optional
        Drawn below the route.
    """
    if road.route is None:
        return None
    limits = [] if road.diagnosis is None else [_limits(road.diagnosis)]
    events = [*_markers(road.surroundings), *_outages(road), *_handovers(road), *_gaps(road.route)]
    everything = {**road.surroundings.series, **series}
    return drawn_route(Drive(road.route, everything, limits, events, origin_ns, speed, base))


def tcp_on_the_road(layers: Layers) -> dict[str, Table]:
    """Return the series of a connection that can colour a route, as recorded: its goodput and round trips."""
    segments, reverse = layers.segments, layers.reverse
    acked = packet_series(segments, reverse=reverse, at="Snd")["TcpSnd_ack"]
    samples = layers.part.analysis.rtt_samples(layers.connection)
    return _goodput(acked) | rtt_series(samples, reverse=reverse)


_LONGEST_NS = 10 * 86_400 * NS_PER_S
"""A transfer whose times span more than ten days has two clocks, and its seconds would fill the memory."""


def _goodput(acked: Table) -> dict[str, Table]:
    """Return TcpSnd_goodput, in bit/s: what was acknowledged in each second of the transfer."""
    time_ns, highest = acked["time_ns"], np.maximum.accumulate(acked["value"])
    if len(time_ns) < 2 or time_ns[-1] - time_ns[0] > _LONGEST_NS:
        return {}
    edges = np.arange(time_ns[0], time_ns[-1] + NS_PER_S, NS_PER_S)
    last = np.searchsorted(time_ns, edges, side="right") - 1
    rate = np.diff(highest[last]) * BITS_PER_BYTE
    doc = "acknowledged in the second that begins here"
    return {"TcpSnd_goodput": series_table("TcpSnd_goodput", edges[:-1], rate, unit="bit/s", doc=doc)}


def _limits(diagnosis: Diagnosis) -> Stretches:
    cells = diagnosis.limited.cells
    words = [limit.label for limit in Limit]
    colours = [LIMITS[limit] for limit in Limit]
    code = cells.limit.astype(np.int64)
    return Stretches("What limited it", words, colours, cells.begin, cells.end, code)


def _outages(road: Road) -> list[Event]:
    begins, ends = ([], []) if road.outages is None else (each.tolist() for each in road.outages)
    return [
        Event(begin, "outage", f"nothing came through for {duration(end - begin)}")
        for begin, end in zip(begins, ends, strict=True)
    ]


def _gaps(route: Route) -> list[Event]:
    """Return the gaps of a route, each at the last position before it."""
    gaps = zip(route.gaps["begin_ns"].tolist(), route.gaps["reason"].tolist(), strict=True)
    return [Event(begin_ns, "gap", reason) for begin_ns, reason in islice(gaps, _MOST_EVENTS)]


def _handovers(road: Road) -> list[Event]:
    if not road.phones:
        return []
    changes = road.phones[0].handovers
    shown = changes.take(np.arange(min(len(changes), _MOST_EVENTS)))
    return [Event(row["time_ns"], "handover", change_words(row)) for row in shown.rows()]


_MOST_EVENTS = 5_000
"""Handovers on a map: more are no picture, and a hostile log may claim any number."""


def _markers(surroundings: Surroundings) -> list[Event]:
    return [
        Event(int(time_ns), "marker", note or "marked")
        for placed in surroundings.markers
        for time_ns, note in zip(placed.table["time_ns"].tolist(), placed.table["note"].tolist(), strict=True)
    ]


def drive_picture(surroundings: Surroundings, *, origin_ns: int) -> Markup | None:
    """Return the figure of radio and road over time as a still picture; None where nothing is drawn."""
    return still_figure(surroundings_panels(surroundings), title="Over time", origin_ns=origin_ns)


def drive_figure_documents(
    surroundings: Surroundings, *, origin_ns: int, identity: str, budget_bytes: int
) -> list[Document]:
    """Return the figure of radio and road as JSON: over time and, with a route, over distance."""
    panels = surroundings_panels(surroundings)
    shown = [(panels, Axis(TIME_TITLE), origin_ns, "reading")]
    try:
        placed = over_distance(panels, surroundings.route)
        shown.append((placed.panels, placed.axis, 0, "reading with a place"))
    except InputError:  # no route, or none of these readings on it
        pass
    documents = []
    for each, axis, zero_ns, point in shown:
        figure = embed(
            each,
            [],
            identity=f"{identity} {axis.unit}",
            origin_ns=zero_ns,
            budget_bytes=budget_bytes // len(shown),
            x_axis=axis,
        )
        documents.append(figure | {"options": "", "filename": "drive", "point": point})
    return documents


def drive_summary(surroundings: Surroundings) -> Markup:
    """Return what was recorded, in a sentence, of a recording without packets."""
    return element(
        "section", element("h2", "Summary"), element("p", printable(_sentence(surroundings)), class_="lead")
    )


_UNANSWERED = "What limited a transfer, and what was lost, they do not tell: capture its packets, too."


def _sentence(surroundings: Surroundings) -> str:
    phones = surroundings.phones
    readings = len(phones[0].radio) if phones else 0
    facts = [f"{count(readings, 'reading')} of the radio"] if readings else []
    if surroundings.drive is not None:
        route = surroundings.drive[1]
        table = route.table
        took_ns = int(table["time_ns"][-1] - table["time_ns"][0])
        facts.append(f"a route of {route.length_m / 1000:.1f} km in {duration(took_ns)}")
    facts += [surroundings.placeless] if surroundings.placeless else []
    first_ns = surroundings.first_ns
    begin = "" if first_ns is None else f", from {moment(first_ns)} on"
    what = " and ".join(facts) or "no reading of radio or position"
    doubt = f" {surroundings.doubts}" if surroundings.doubts else ""
    without = "TCP connection was" if surroundings.recording.parts else "packets were"
    logs = "logs of this drive" if drives_beside(phones) else "logs"
    return f"No {without} captured. The {logs} hold {what}{begin}. {_UNANSWERED}{doubt}"
