"""Reports of several inputs: one report for each, and an index page that compares their main numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np

from multitracer.errors import InputError
from multitracer.recording.efficiency import transfer_bytes
from multitracer.report.connection_table import Drawn
from multitracer.report.first_screen import axis_of
from multitracer.report.headline_text import goodput_bps, loss, round_trip
from multitracer.report.markup import Markup, element
from multitracer.report.page import document, write
from multitracer.report.primary_cause import sparkline
from multitracer.report.write import Request, write_report
from multitracer.words import count, moment, percent, printable, rate

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from multitracer.recording.recording import Recording
    from multitracer.report.first_screen import FirstScreenContent
    from multitracer.report.page import Assets

INDEX = "index.html"
_LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class Input:
    """The input of one report."""

    name: str
    """Name as the user gave it; the last part of the path becomes the name of the report."""
    recording: Recording
    request: Request = field(default_factory=Request)


def write_reports(inputs: Iterable[Input], folder: str | os.PathLike[str], *, assets: Assets | None = None) -> Path:
    """Write a report of each input and an index page into a folder, and return the index page's path.

    Parameters
    ----------
    inputs : iterable of Input
        Read one by one: with a generator, only one input is in memory.
    folder : path
        Created if it does not exist.
    assets : Assets, optional
        Folder for the script and style of all pages; by default each page contains them.

    Raises
    ------
    InputError
        If the folder or a file cannot be written; see also `write_report`.
    """
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise InputError(f"{place}: cannot create this folder: {failure.strerror}; choose another folder") from failure
    taken: set[str] = set()
    rows: list[tuple[float, list[Markup]]] = []
    try:
        for each in inputs:
            name = file_name(each.name, taken)
            answer = write_report(each.recording, place / name, replace(each.request, assets=assets))
            rows.append((order(answer), index_row(each.recording, answer, title=each.name, page=name)))
    finally:  # what was written before a failure is whole, and stays to be found
        listed = [row for _, row in sorted(rows, key=lambda row: row[0])]
        write(place / INDEX, document(count(len(rows), "report"), _section(listed), assets=assets))
    return place / INDEX


def file_name(title: str, taken: set[str]) -> str:
    """Return a safe file name that is not in `taken`, and add it to `taken`.

    The name has only the ASCII letters, digits, dots, hyphens and underscores of the last part of the title,
    so that a malicious name cannot become a path.
    """
    last = re.split(r"[/\\]", title.rstrip("/\\"))[-1]
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip(".-")[:_LONGEST_NAME] or "report"
    names = (f"{stem}{number}.html" for number in ("", *(f"-{n}" for n in range(2, len(taken) + 4))))
    name = next(n for n in names if n.lower() not in taken and n.lower() != INDEX)
    taken.add(name.lower())
    return name


def _section(rows: list[list[Markup]]) -> Markup:
    """Return the table of reports; a column without values is omitted."""
    shown = [at for at in range(len(HEADS)) if not all(is_empty(row[at]) for row in rows)]
    cells = [
        element("th", element("button", name, type="button"), scope="col", class_="number" if number else None)
        for name, number in (HEADS[at] for at in shown)
    ]
    box = element("input", id="filter", type="search", placeholder="Filter…", aria_label="Filter rows")
    status = element("span", id="filter-told", class_="muted", role="status")
    table = element(
        "table",
        element("caption", "Reports, the slowest first"),
        element("thead", element("tr", cells)),
        element("tbody", [element("tr", [row[at] for at in shown]) for row in rows]),
        class_="sortable free cards index",
        data_filter="filter",
    )
    return element(
        "section", element("div", box, status, class_="bar"), element("div", table, class_="scroll"), class_="long"
    )


HEADS = (
    ("Report", False), ("Limit", False), ("Goodput", True), ("Over time", False), ("Round trip", True),
    ("Loss", True), ("Utilization", True), ("Link limit", True), ("Efficiency", True), ("Radio", True),
    ("Trust", False), ("Start, UTC", True), ("Label", False), ("Connections", True), ("Place", False),
)  # fmt: skip
"""Column titles of the index, and whether the column sorts by number."""
_POWERS = ("Radio_rsrp", "Radio_rscp", "Radio_rssi")


def order(answer: FirstScreenContent | None) -> float:
    """Return the sort key of a report: the lowest goodput first, reports without a goodput last."""
    speed = None if answer is None else goodput_bps(answer.diagnosis, _of_most_data(answer))
    return float("inf") if speed is None else speed


def _of_most_data(answer: FirstScreenContent) -> Drawn:
    """Return the transfer of the explained group with the most payload.

    The first screen shows the longest one, which may only control the others, as iperf3's first connection does.
    """
    senders = [each.limited.transfer.at_sender for each in answer.diagnosis.group.members]
    every = [answer.drawn, *(Drawn(each.capture, each.connection, each.reverse) for each in senders)]
    return max(every, key=lambda each: int(each.direction["unique_bytes"]))


def index_row(recording: Recording, answer: FirstScreenContent | None, *, title: str, page: str) -> list[Markup]:
    """Return the cells of a report's row, one for each of `HEADS`; unknown values are empty.

    Parameters
    ----------
    recording : Recording
    answer : FirstScreenContent, optional
        Content of the first screen; None if no transfer could be diagnosed.
    title : str
        Name as the user gave it.
    page : str
        File name of the report, in the folder of the index.
    """
    trust = recording.trust if recording.captures else ""
    start_ns = _start_ns(recording)
    return [
        element("td", element("a", printable(title), href=quote(page))),
        *(_explained(answer) if answer is not None else [element("td")] * 8),
        _radio(recording),
        element("td", trust or "no packets", class_=f"verdict {trust}".rstrip(), data_name="Trust"),
        _number(start_ns, "" if start_ns is None else moment(start_ns)[:_TO_SECONDS], name="Start, UTC"),
        _text(_label(recording), name="Label"),
        _number(len(recording), f"{len(recording):,}", name="Connections"),
        _text(_place(recording), name="Place"),
    ]


def is_empty(cell: Markup) -> bool:
    """Return whether a table cell is empty."""
    return cell.index(">") == len(cell) - len("></td>")


_TO_SECONDS = len("2026-11-23 20:15:00")


def _text(words: str, *, name: str) -> Markup:
    return element("td", printable(words), data_name=name)


def _explained(answer: FirstScreenContent) -> Iterator[Markup]:
    """Yield the table cells that come from the diagnosis."""
    diagnosis, drawn = answer.diagnosis, _of_most_data(answer)
    headline, speed = diagnosis.headline, goodput_bps(diagnosis, drawn)
    trip, lost = round_trip(diagnosis, drawn), loss(diagnosis, drawn)
    yield element(
        "td",
        f"{headline.limit.label} {100 * headline.share:.0f} %",
        data_name="Limit",
        title=printable(headline.sentence),
    )
    yield _number(speed, "" if speed is None else rate(speed), name="Goodput", title=f"of connection {drawn.number}")
    yield element("td", _spark(answer) if drawn.number == answer.drawn.number else None)
    known = (None, "") if trip is None else (trip.typical_ns, trip.words)
    yield _number(*known, name="Round trip")
    yield _number(lost.segments / max(lost.of, 1), lost.words, name="Loss", title=lost.name)
    yield _share(diagnosis.account.utilization, name="Utilization", title="of the channel, by the log of the link")
    shared = diagnosis.limited.link_limited_share
    yield _share(shared, name="Link limit", title="share of this transfer's time in which the link was the limit")
    transfer = diagnosis.transfer
    counted = transfer_bytes((transfer.at_sender, transfer.at_receiver))
    ratio = counted.efficiency if counted.arrived else counted.efficiency_sent
    of, mark = (
        ("arrived at the receiver", "") if counted.arrived else ("was sent: what arrived is not known", " (sent)")
    )
    yield _share(ratio, name="Efficiency", title=f"unique payload over payload that {of}", mark=mark)


def _share(value: float, *, name: str, title: str, mark: str = "") -> Markup:
    """Return the table cell of a share from 0 to 1; empty for NaN."""
    if np.isnan(value):
        return _number(None, "", name=name)
    return _number(value, f"{percent(value)}{mark}", name=name, title=title)


def _spark(answer: FirstScreenContent) -> Markup | None:
    """Return the goodput over time as a small picture; None if there is no goodput panel."""
    series = [each for panel in answer.panels for each in panel.drawn if each.role == "goodput"]
    return sparkline(series[0], axis_of(answer)) if series else None


def _radio(recording: Recording) -> Markup:
    """Return the table cell with the median received power of the first phone."""
    series = recording.radio_context().series if recording.radio_context().phones else {}
    label = next((name for name in _POWERS if name in series), "")
    if not label:
        return _number(None, "", name="Radio")
    power = float(np.nanmedian(series[label]["value"]))
    return _number(power, f"{power:.0f} dBm", name="Radio", title=f"{label.removeprefix('Radio_').upper()}, median")


def _start_ns(recording: Recording) -> int | None:
    first = [capture.tables.first_ns for capture in recording.captures if capture.tables.first_ns is not None]
    return min(first, default=recording.radio_context().first_ns)


def _label(recording: Recording) -> str:
    """Return the label of the run in the manifest."""
    manifest = recording.manifest
    return "" if manifest is None else manifest.variables.title or manifest.variables.scenario or ""


def _place(recording: Recording) -> str:
    """Return the position at which the route begins, as text; "" without a route."""
    route = recording.radio_context().route
    if route is None or not len(route.table):
        return ""
    return f"{route.table['lat_deg'][0]:.4f}, {route.table['lon_deg'][0]:.4f}"


def _number(value: float | None, text: str, *, name: str, title: str | None = None) -> Markup:
    """Return a cell that sorts by its value.

    On narrow screens, which show no table head, `name` stands before the value.
    """
    key = "" if value is None else value
    return element("td", text, class_="number", data_value=key, data_name=name, title=title)
