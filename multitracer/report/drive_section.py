"""The sections of a report on a drive: the bad segments and their causes, the map, the radio, and the cells.

The input is a `Drive` (a recording on a route, with the limits of its connection) and the origin of the
page's time axis. The output is markup of the sections, and JSON for the figures and the map of the page. The
bad segments come first, then the tables of cells and of cell changes.

Invariants: times in the JSON are seconds of the page's axis, positions are metres from the middle of the
route; text from a log is escaped; nothing is loaded from a network; the page states which data it omits.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.mobility.cells import cell_name
from multitracer.analysis.series.labelled import packet_series, rtt_series, series_table
from multitracer.diagnosis.drive import (
    CAUSE_WORDS,
    answer_of,
    caveats_of,
    evidence_of,
    length_s,
    place_of,
    rule_of,
    span_of_the_cause,
)
from multitracer.diagnosis.limits.names import Limit
from multitracer.errors import InputError
from multitracer.figures.drive_figure import TIME_TITLE, over_distance
from multitracer.figures.environment import radio_context_panels
from multitracer.figures.palette import LIMITS
from multitracer.figures.stack import SharedAxis
from multitracer.recording.phones import drives_beside
from multitracer.report.embed import embed
from multitracer.report.figure_section import static_figure
from multitracer.report.markup import Markup, element, fold, unbroken, with_code
from multitracer.report.route_map import BadStretch, MappedDrive, RouteEvent, Stretches, drawn_route
from multitracer.tables import NA
from multitracer.units import BITS_PER_BYTE, NS_PER_S
from multitracer.words import clock_time, count, duration, interval, moment, printable, rate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from multitracer.diagnosis.drive import Drive
    from multitracer.recording.radio_context import RadioContext
    from multitracer.recording.transfer import Transfer
    from multitracer.report.base_map import BaseMap
    from multitracer.report.route_map import DrawnRoute
    from multitracer.tables import Document, Row, Table

_TITLE = "Where was it bad, and why?"
_FIRST = 5
"""Number of bad segments that are visible at first; the others can be unfolded."""
_MOST_STRETCHES = 100
_ROOM_S = 5.0
"""Margin in seconds before and after a bad segment when its button moves the figure."""
EVIDENCE_PANELS = {
    "coverage": "radio_power radio_quality",
    "interference": "radio_quality radio_power",
    "technology": "cell radio_power",
    "handover": "cell radio_power",
    "load": "radio_share throughput radio_rate",
    "server": "sequence",
    "TCP": "sequence",
    "unknown": "throughput radio_rate radio_power",
}
"""Keys of the panels of the figure that show the evidence of a cause, the best one first."""


def stretches_section(drive: Drive, *, origin_ns: int, speed: float, is_aggregated: bool = False) -> Markup | None:
    """Return the ranked list of bad route segments; None if no phone logged its radio.

    Parameters
    ----------
    drive : Drive
    origin_ns : int
        Origin of the time axis of the page's figure, ns.
    speed : float
        Seconds of the figure in a second of the recording.
    is_aggregated : bool
        Whether a sentence summarizes the list above it; not possible if the times come from two clocks.
    """
    if not drive.phones:
        return None
    try:
        table = drive.stretches
    except InputError as error:  # times of two clocks: the page still shows the rest
        why = f"Nothing can be said: {printable(str(error))}."
        section = element("section", element("h2", _TITLE), element("p", why, class_="lead"))
        return fold(_TITLE, section, id="stretches") if is_aggregated else section
    cells = drive.cell_names
    shown = table.take(slice(_MOST_STRETCHES))
    last_s = length_s(drive, speed)
    items = [element("li", _stretch(row, cells, origin_ns, speed, last_s)) for row in shown.rows()]
    left = len(table) - len(items)
    answer = answer_of(drive)
    lead = " ".join((answer, *caveats_of(drive)))
    rest = element("li", f"and {left:,} more") if left else None
    aggregated = element(
        "details",
        element("summary", f"{len(items) - _FIRST} more that cost less"),
        element("ol", items[_FIRST:], rest, class_="findings", start=_FIRST + 1),
    )
    section = element(
        "section",
        element("h2", _TITLE),
        element("p", printable(lead), class_="lead"),
        element("ol", items[:_FIRST], class_="findings") if items else None,
        aggregated if len(items) > _FIRST else None,
        element("p", unbroken(rule_of(drive, origin_ns, speed)), class_="muted"),
        class_="stretches long",
    )
    return fold(_TITLE, section, note=answer, id="stretches") if is_aggregated else section


def _stretch(row: Row, cells: list[str], origin_ns: int, speed: float, last_s: float) -> list[Markup | None]:
    """Return the list entry of a bad segment: cause, button, location, evidence, duration of the cause."""
    begin_s, end_s = ((row[name] - origin_ns) * speed / NS_PER_S for name in ("begin_ns", "end_ns"))
    ends = {
        "data_from": f"{begin_s - _ROOM_S:.3f}",
        "data_to": f"{end_s + _ROOM_S:.3f}",
        "data_mark_from": f"{begin_s:.3f}",
        "data_mark_to": f"{end_s:.3f}",
        "data_panels": EVIDENCE_PANELS[row["cause"]],
    }
    when = f"{interval(begin_s, end_s, last_s=last_s)} ({duration(row['seconds'] * NS_PER_S)})"
    return [
        element("strong", CAUSE_WORDS[row["cause"]]),
        element("span", f" {when} ", class_="muted"),
        element("button", "Show", type="button", data_show="0", **ends),
        element("p", unbroken(printable(place_of(row, cells)))),
        element("p", unbroken(printable(evidence_of(row)))),
        element("p", words) if (words := span_of_the_cause(row)) else None,
    ]


def route_map(
    drive: Drive, series: Mapping[str, Table], *, origin_ns: int, speed: float = 1, base: BaseMap | None = None
) -> DrawnRoute | None:
    """Return the map of a drive; None if its positions do not form a route.

    Parameters
    ----------
    drive : Drive
        The drive, with the limits of the connection if there is one.
    series : mapping of str to Table
        SERIES of the connection, in recorded time, that can colour the route.
    origin_ns : int
        Origin of the time axis of the page's figure, ns.
    speed : float
        Seconds of the figure in a second of the recording.
    base : BaseMap, optional
        Lines to draw below the route.
    """
    if drive.route is None:
        return None
    limits: list[Stretches] = []
    events: list[RouteEvent] = []
    if drive.diagnosis is not None:
        cells = drive.diagnosis.limited.cells
        words, colours = [limit.label for limit in Limit], [LIMITS[limit] for limit in Limit]
        code = cells.limit.astype(np.int64)
        limits.append(Stretches("What limited it", words, colours, cells.begin, cells.end, code))
    for placed in drive.radio_context.markers:
        times = placed.table["time_ns"].tolist()
        for time_ns, note in zip(times, placed.table["note"].tolist(), strict=True):
            events.append(RouteEvent(time_ns, "marker", note or "marked"))
    begins, ends = ([], []) if drive.outages is None else (each.tolist() for each in drive.outages)
    for begin, end in zip(begins, ends, strict=True):
        events.append(RouteEvent(begin, "outage", f"the path was interrupted for {duration(end - begin)}"))
    handovers = drive.phones[0].handovers.take(slice(_MOST_EVENTS)).rows() if drive.phones else ()
    for row in handovers:
        change = f"{row['kind']}, {_cell_at(row, 'source')} to {_cell_at(row, 'target')}"
        judged = _judged(row)
        events.append(RouteEvent(row["time_ns"], "handover", f"{change}; {judged}" if judged else change))
    gaps = zip(drive.route.gaps["begin_ns"].tolist(), drive.route.gaps["reason"].tolist(), strict=True)
    events += [RouteEvent(begin, "gap", reason) for begin, reason in islice(gaps, _MOST_EVENTS)]
    everything = {**drive.radio_context.series, **series}
    return drawn_route(MappedDrive(drive.route, everything, limits, events, origin_ns, speed, base, _bad(drive)))


def worst_list(drive: Drive, *, origin_ns: int, speed: float) -> Markup | None:
    """Return the worst stretches as a short list with the numbers of the map; None if there are none."""
    every = _bad(drive)
    if not every:
        return None
    ends_s = [[(at - origin_ns) * speed / NS_PER_S for at in each[:2]] for each in every]
    last_s = length_s(drive, speed)
    items = [
        element("li", element("b", interval(*own, last_s=last_s)), f" {each.words}")
        for own, each in zip(ends_s[:_FIRST], every, strict=False)
    ]
    more = len(every) - len(items)
    rest = element("p", f"and {more:,} more, listed below", class_="muted") if more else None
    return element("div", element("h3", "Where it was bad"), element("ol", items), rest, class_="worst")


def _bad(drive: Drive) -> list[BadStretch]:
    """Return the bad stretches that the page lists, in that order; none if the clocks do not allow a list."""
    try:
        rows = drive.stretches.take(slice(_MOST_STRETCHES)).rows() if drive.phones else ()
    except InputError:  # `stretches_section` says why
        return []
    return [BadStretch(row["begin_ns"], row["end_ns"], CAUSE_WORDS[row["cause"]]) for row in rows]


def tcp_on_the_road(transfer: Transfer) -> dict[str, Table]:
    """Return the series of a connection that can colour a route, in recorded time.

    These are its RTT samples, and TcpSnd_goodput: the data acknowledged in each second, in bit/s.
    """
    segments, reverse, label = transfer.sender, transfer.reverse, "TcpSnd_goodput"
    acked = packet_series(segments, reverse=reverse, at="Snd")["TcpSnd_ack"]
    time_ns, highest = acked["time_ns"], np.maximum.accumulate(acked["value"])
    shown = {}
    if len(time_ns) > 1 and time_ns[-1] - time_ns[0] <= _LONGEST_NS:
        edges = np.arange(time_ns[0], time_ns[-1] + NS_PER_S, NS_PER_S)
        last = np.searchsorted(time_ns, edges, side="right") - 1
        rate = np.diff(highest[last]) * BITS_PER_BYTE
        doc = "acknowledged in the second that begins here"
        shown[label] = series_table(label, edges[:-1], rate, unit="bit/s", doc=doc)
    samples = transfer.at_sender.capture.analysis.rtt_samples(transfer.at_sender.connection)
    return shown | rtt_series(samples, reverse=reverse)


_LONGEST_NS = 10 * 86_400 * NS_PER_S
"""Maximum duration of a transfer on a map: a longer duration is a wrong time, and needs too much memory."""


_MOST_EVENTS = 5_000
"""Maximum number of handovers on a map: a malicious log may contain any number of them."""


def drive_picture(radio_context: RadioContext, *, origin_ns: int) -> Markup | None:
    """Return the figure of radio and route over time as static SVG; None if nothing is drawn."""
    return static_figure(radio_context_panels(radio_context), title="Over time", origin_ns=origin_ns)


def drive_figure_documents(
    radio_context: RadioContext, *, origin_ns: int, identity: str, budget_bytes: int
) -> list[Document]:
    """Return the figure of radio and route as JSON: over time and, with a route, over distance."""
    panels = radio_context_panels(radio_context)
    shown = [(panels, SharedAxis(TIME_TITLE), origin_ns, "reading")]
    try:
        placed = over_distance(panels, radio_context.route)
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


def drive_summary(radio_context: RadioContext, *, load: bool = False) -> Markup:
    """Return a sentence that summarizes a recording without packets; `load`: it has logs of load programs."""
    phones = radio_context.phones
    readings = len(phones[0].radio) if phones else 0
    facts = [f"{count(readings, 'reading')} of the radio"] if readings else []
    if radio_context.drive is not None:
        route = radio_context.drive[1]
        table = route.table
        took_ns = int(table["time_ns"][-1] - table["time_ns"][0])
        facts.append(f"a route of {route.length_m / 1000:.1f} km in {duration(took_ns)}")
    facts += [radio_context.placeless] if radio_context.placeless else []
    first_ns = radio_context.first_ns
    begin = "" if first_ns is None else f", from {moment(first_ns)} on"
    nothing = "the counts of load programs" if load else "no reading of radio or position"
    what = " and ".join(facts) or nothing
    caveat = f" {radio_context.caveats}" if radio_context.caveats else ""
    without = "TCP connection was" if radio_context.recording.captures else "packets were"
    logs = "logs of this drive" if drives_beside(phones) else "logs"
    sentence = f"No {without} captured. The {logs} hold {what}{begin}. {_UNANSWERED}{caveat}"
    return element("section", element("h2", "Summary"), element("p", printable(sentence), class_="lead"))


_UNANSWERED = "They do not show what limited a transfer or what was lost: capture its packets, too."


_MOST = 200
_KILOMETRE_M = 1000
_AROUND_S = 10
"""Margin in seconds before and after a cell change when its button moves the figure."""
_CELL_HEADS = (
    ("Cell", False, "As the phone or modem named it"),
    ("Time", True, "Time in which it served"),
    ("Distance", True, "Distance that was driven meanwhile"),
    ("Level", True, "RSRP, or the one that is named: median, and the range of the middle half"),
    ("Quality", True, "SINR, or the one that is named: median, and the range of the middle half"),
    ("Throughput", True, "Median of its seconds"),
    ("RTT", True, "Median"),
    ("Outages", True, "Intervals in which the path was interrupted"),
    ("In", True, "Changes to it"),
    ("Out", True, "Changes from it"),
)
_CHANGE_HEADS = (
    ("At", True, "Seconds on the axis of the figure"),
    ("What", False, ""),
    ("From", False, ""),
    ("To", False, ""),
    ("Took", True, "From the command to its completion"),
    ("Result", False, ""),
    ("Cause", False, ""),
    ("Known by", False, "Signalling, or which identity changed from one reading to the next"),
    ("Judged", False, "Ping-pong (TR 36.839); too early, too late, wrong cell (TS 36.300, 22.4.2)"),
)


def phone_sections(drive: Drive, *, origin_ns: int, speed: float) -> list[Markup | None]:
    """Return the tables of the cells of the phone and of its cell changes."""
    if not drive.phones:
        return []
    phone, drives = drive.phones[0], drives_beside(drive.phones)
    notes = [drive.throughput_words] if drive.throughput_words else []
    if drives:
        more = count(drives, "other drive")
        notes.append(f"`export tables` writes the cells and the changes of {more}, too.")
    if others := len(drive.phones) - 1 - drives:
        more = count(others, "other radio")
        notes.append(
            f"This page shows the radio with most readings; `export tables` has {more}, too (another phone, "
            "or another SIM card of it)."
        )
    return [cells_section(drive.cells(phone), notes), changes_section(phone.changes, origin_ns=origin_ns, speed=speed)]


def cells_section(cells: Table, notes: Sequence[str]) -> Markup | None:
    """Return the table of cells, the longest-serving cell first; None if there are no cells.

    `notes` are sentences below the table, such as the definition of the throughput.
    """
    if not len(cells):
        return None
    rows = [_cell(row) for row in cells.take(slice(_MOST)).rows()]
    named = int(((cells["cell_id"] != NA) | (cells["physical_cell_id"] != NA)).sum())
    others = " and others that no log names" if len(cells) > named else ""
    title = f"{count(named, 'serving cell')}{others}" if named else "Serving cells that no log names"
    notes = [*notes, *([] if named else [_NAMELESS])]
    more = [f"{len(cells) - _MOST:,} more in `export tables`."] if len(cells) > _MOST else []
    return fold(
        title,
        _table(_CELL_HEADS, rows, "The cells that served"),
        element("p", with_code(" ".join([*notes, *more])), class_="muted"),
        id="cells",
        class_="long",
    )


_NAMELESS = "How many cells served, and when they changed, is not known: record a log that names the serving cell."


def changes_section(changes: Table, *, origin_ns: int, speed: float) -> Markup | None:
    """Return the table of the changes of the serving cell, in order of time; None if there are no changes."""
    if not len(changes):
        return None
    rows = [_change(row, origin_ns, speed) for row in changes.take(slice(_MOST)).rows()]
    rest = f"The first {_MOST} are shown; `export tables` writes all." if len(changes) > _MOST else ""
    return fold(
        f"{count(len(changes), 'change')} of the serving cell",
        _table(_CHANGE_HEADS, rows, "Changes of the serving cell"),
        element("p", with_code(rest), class_="muted") if rest else None,
        id="changes",
        class_="long",
    )


def _table(heads: Sequence[tuple[str, bool, str]], rows: list[Markup], caption: str) -> Markup:
    cells = [
        element(
            "th",
            element("button", name, type="button"),
            scope="col",
            class_="number" if number else None,
            title=title or None,
        )
        for name, number, title in heads
    ]
    table = element(
        "table",
        element("caption", caption, class_="unseen"),
        element("thead", element("tr", cells)),
        element("tbody", rows),
        class_="sortable free",
    )
    return element("div", table, class_="scroll", tabindex="0", role="group", aria_label=caption)


def _cell(row: Row) -> Markup:
    return element(
        "tr",
        element("td", printable(cell_name(row))),
        _number(row["seconds"], lambda s: duration(s * NS_PER_S)),
        _number(row["distance_m"], lambda m: f"{m:.0f} m" if m < _KILOMETRE_M else f"{m / _KILOMETRE_M:.1f} km"),
        _spread(row, ("rsrp", "rscp", "rssi"), "dbm", "dBm"),
        _spread(row, ("sinr", "rsrq"), "db", "dB"),
        _number(row["throughput_median_bps"], rate),
        _number(row["rtt_median_ns"], duration),
        _number(row["outages"], lambda n: f"{n:,}"),
        _number(row["handovers_in"], lambda n: f"{n:,}"),
        _number(row["handovers_out"], lambda n: f"{n:,}"),
    )


def _change(row: Row, origin_ns: int, speed: float) -> Markup:
    at_s = (row["time_ns"] - origin_ns) * speed / NS_PER_S
    took = None if row["complete_ns"] is None else row["complete_ns"] - row["time_ns"]
    took = took or None  # a reselection is seen when it is done: nobody knows how long it took
    ends = {"data_from": f"{at_s - _AROUND_S:.3f}", "data_to": f"{at_s + _AROUND_S:.3f}"}
    show = element("button", clock_time(at_s, 1), type="button", data_show="0", data_panels="cell radio_power", **ends)
    return element(
        "tr",
        element("td", show, class_="number", data_value=f"{at_s:.3f}"),
        element("td", row["kind"]),
        element("td", printable(_cell_at(row, "source"))),
        element("td", printable(_cell_at(row, "target"))),
        _number(took, duration),
        element("td", row["result"]),
        element("td", printable(row["cause"])),
        element("td", row["evidence"]),
        element("td", _judged(row)),
    )


def _cell_at(row: Row, side: str) -> str:
    """Return the text for the old or the new cell of a cell change, as `side` selects."""
    names = ("rat", "cell_id", "physical_cell_id", "channel")
    return cell_name({"plmn": "", **{name: row[f"{side}_{name}"] for name in names}})


def _judged(row: Row) -> str:
    words = [row["verdict"]] if row["verdict"] not in ("", "none") else []
    return ", ".join([*words, *(["ping-pong"] if row["ping_pong"] == 1 else [])])


def _number(value: float | None, words: Callable[[float], str]) -> Markup:
    """Return a table cell with a number; for a missing value an empty cell that sorts below all others."""
    if value is None or np.isnan(value) or value == NA:
        return element("td", class_="number", data_value="-1e99")
    return element("td", words(value), class_="number", data_value=value)


def _spread(row: Row, names: Sequence[str], unit: str, words: str) -> Markup:
    """Return a table cell with the first of the quantities `names` that is known in the row.

    The cell has the name of the quantity, unless this is `names[0]`.
    """
    name = next((each for each in names if row[f"{each}_median_{unit}"] is not None), names[0])
    low, high = row[f"{name}_q1_{unit}"], row[f"{name}_q3_{unit}"]
    shown = "" if name == names[0] else f"{name.upper()} "
    return _number(row[f"{name}_median_{unit}"], lambda m: f"{shown}{m:.0f} {words} ({low:.0f} to {high:.0f})")
