"""One report in the table of several: what limited it, and the numbers by which field engineers compare."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np

from multitracer.report.markup import Markup, element
from multitracer.report.screen.first_screen import axis_of
from multitracer.report.screen.numbers import goodput_bps, grows, in_share, loss, round_trip
from multitracer.report.screen.still import sparkline
from multitracer.words import moment, printable, rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.recording.recording import Recording
    from multitracer.report.screen.first_screen import Answer

HEADS = (
    ("Report", False), ("Limit", False), ("Goodput", True), ("Over time", False), ("Round trip", True),
    ("Loss", True), ("Radio", True), ("Trust", False), ("Start, UTC", True), ("Label", False),
    ("Connections", True), ("Place", False),
)  # fmt: skip
"""Columns, and whether each sorts by number."""
_POWERS = ("Radio_rsrp", "Radio_rscp", "Radio_rssi")


def order(answer: Answer | None) -> float:
    """Return by what reports are listed: the slowest first, those without a goodput last."""
    speed = None if answer is None else goodput_bps(answer.diagnosis, answer.drawn)
    return float("inf") if speed is None else speed


def index_row(recording: Recording, answer: Answer | None, *, title: str, page: str) -> list[Markup]:
    """Return the cells of a report's row, one for each of `HEADS`; what is not known has an empty one.

    Parameters
    ----------
    recording : Recording
    answer : Answer, optional
        What its first screen shows; None where no transfer could be explained.
    title : str
        What the user called it.
    page : str
        Its file, beside the index.
    """
    trust = recording.trust if recording.parts else ""
    start_ns = _start_ns(recording)
    return [
        element("td", element("a", printable(title), href=quote(page))),
        *(_explained(answer) if answer is not None else [element("td")] * 5),
        _radio(recording),
        element("td", trust or "no packets", class_=f"verdict {trust}".rstrip(), data_name="Trust"),
        _number(start_ns, "" if start_ns is None else moment(start_ns)[:_TO_SECONDS], name="Start, UTC"),
        _text(_label(recording), name="Label"),
        _number(len(recording), f"{len(recording):,}", name="Connections"),
        _text(_place(recording), name="Place"),
    ]


def is_empty(cell: Markup) -> bool:
    """Return whether a cell of a row shows nothing."""
    return cell.index(">") == len(cell) - len("></td>")


_TO_SECONDS = len("2026-11-23 20:15:00")


def _text(words: str, *, name: str) -> Markup:
    return element("td", printable(words), data_name=name)


def _explained(answer: Answer) -> Iterator[Markup]:
    """Yield what the diagnosis tells."""
    diagnosis, drawn = answer.diagnosis, answer.drawn
    headline, speed = diagnosis.headline, goodput_bps(diagnosis, drawn)
    trip, lost = round_trip(diagnosis, drawn), loss(diagnosis, drawn)
    yield element(
        "td",
        f"{headline.limit.label} {headline.share:.0%}",
        data_name="Limit",
        title=printable(headline.sentence),
    )
    yield _number(speed, "" if speed is None else rate(speed), name="Goodput")
    yield element("td", _spark(answer))
    known = (None, "") if trip is None else (trip.usual_ns, grows(trip.least_ns, trip.usual_ns))
    yield _number(*known, name="Round trip")
    yield _number(lost.segments / max(lost.of, 1), in_share(lost), name="Loss", title=lost.name)


def _spark(answer: Answer) -> Markup | None:
    """Return the goodput over time; None if it is not drawn."""
    series = [each for panel in answer.panels for each in panel.drawn if each.role == "goodput"]
    return sparkline(series[0], axis_of(answer)) if series else None


def _radio(recording: Recording) -> Markup:
    """Return the median received power of the first phone."""
    series = recording.surroundings().series if recording.surroundings().phones else {}
    label = next((name for name in _POWERS if name in series), "")
    if not label:
        return _number(None, "", name="Radio")
    power = float(np.nanmedian(series[label]["value"]))
    return _number(
        power, f"{power:.0f} dBm", name="Radio", title=f"{label.removeprefix('Radio_').upper()}, median"
    )


def _start_ns(recording: Recording) -> int | None:
    first = [part.capture.first_ns for part in recording.parts if part.capture.first_ns is not None]
    return min(first, default=recording.surroundings().first_ns)


def _label(recording: Recording) -> str:
    """Return what the manifest calls the run."""
    manifest = recording.manifest
    return "" if manifest is None else manifest.variables.title or manifest.variables.scenario or ""


def _place(recording: Recording) -> str:
    """Return where the route begins; empty without one."""
    route = recording.surroundings().route
    if route is None or not len(route.table):
        return ""
    return f"{route.table['lat_deg'][0]:.4f}, {route.table['lon_deg'][0]:.4f}"


def _number(value: float | None, text: str, *, name: str, title: str | None = None) -> Markup:
    """Return a cell that sorts by its value; `name` stands before it where there is no room for a head."""
    key = "" if value is None else value
    return element("td", text, class_="number", data_value=key, data_name=name, title=title)
