"""The table of connections: the largest ones, to sort and filter in the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.report.drawn import largest, origin_ns
from multitracer.report.markup import Markup, element, fold
from multitracer.tcp import Close
from multitracer.units import NS_PER_S
from multitracer.words import count, duration, printable, share, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.recording.part import Part
    from multitracer.report.drawn import Drawn
    from multitracer.tables import Row

_CLOSES = {
    Close.OPEN: "still open",
    Close.FIN_ONE_WAY: "FIN one way",
    Close.FIN_BOTH_WAYS: "FIN both ways",
    Close.RESET: "RST",
}
_HEADS = (
    ("#", True, "Number of the connection"),
    ("Start", True, "Seconds from the start of the capture"),
    ("Initiator", False, "Who sent the first SYN, or the first segment"),
    ("Responder", False, ""),
    ("Took", True, "First to last segment"),
    ("Bytes →", True, "Unique payload bytes from the initiator"),
    ("Bytes ←", True, "Unique payload bytes from the responder"),
    ("Retransmitted", True, "Retransmitted segments, both directions, and their share of the data segments"),
    ("RTT median", True, "By Karn's rule, in the direction with more bytes"),
    ("RTT worst", True, "By Karn's rule, in the direction with more bytes"),
    ("End", False, "How the connection ended in this capture"),
)


def connection_section(parts: Sequence[Part], figures: Sequence[Drawn], *, most: int) -> Markup:
    """Return the table of the `most` connections with the most unique bytes, and how many more there are."""
    total = sum(map(len, parts))
    picked = largest(parts, most)
    shown = {drawn.number: i for i, drawn in reversed(list(enumerate(figures)))}
    where = len(parts) > 1
    body = [_row(part, n, shown.get(part.offset + n), where=where) for part, n in picked]
    left = total - len(picked)
    note = (
        f"The {len(picked):,} with the most bytes; {count(left, 'more connection')} not listed. "
        if left
        else ""
    )
    tool = [note, element("code", "multitracer analyze --csv"), " writes all of them with every number."]
    return fold(
        count(total, "TCP connection"),
        _filter() if len(picked) > 1 else None,
        element("div", _table(body, where=where), class_="scroll") if picked else None,
        element("p", tool, class_="muted") if total else None,
        id="connections",
        class_="long",
    )


def _filter() -> Markup:
    box = element(
        "input",
        id="filter",
        type="search",
        placeholder="Filter: address, port, end…",
        aria_label="Filter rows",
    )
    status = element("span", id="filter-told", class_="muted", role="status")
    return element("div", box, status, class_="bar")


def _table(body: list[Markup], *, where: bool) -> Markup:
    heads = [*_HEADS, *([("Captured at", False, "")] if where else []), ("Figure", False, "")]
    cells = [
        element(
            "th",
            element("button", name, type="button", title=says or None),
            scope="col",
            class_="number" if number else None,
        )
        for name, number, says in heads
    ]
    return element(
        "table",
        element("caption", "Connections, the largest first", class_="unseen"),
        element("thead", element("tr", cells)),
        element("tbody", body),
        class_="sortable",
        data_filter="filter",
    )


def _row(part: Part, n: int, figure: int | None, *, where: bool) -> Markup:
    row = next(part.analysis.connections.take(np.array([n - 1])).rows())
    ways = list(part.analysis.directions.take(np.array([2 * n - 2, 2 * n - 1])).rows())
    cells = [
        *_times(part, n, row),
        *_amounts(ways),
        *_rtt(ways[row["bulk_direction"]]),
        element("td", _CLOSES[row["close"]]),
        element("td", printable(part.point.name)) if where else None,
        element("td", None if figure is None else _show(figure)),
    ]
    return element("tr", cells, data_figure=figure)


def _times(part: Part, n: int, row: Row) -> list[Markup]:
    start, end = row["start_ns"], row["end_ns"]
    since = None if start is None else (start - origin_ns(part)) / NS_PER_S
    took = None if start is None or end is None else end - start
    ends = part.analysis.ends(n)
    return [
        _number(part.offset + n, str(part.offset + n)),
        _number(since, "" if since is None else f"{since:,.3f} s"),
        element("td", ends.source),
        element("td", ends.destination),
        _number(took, duration(took)),
    ]


def _amounts(ways: list[Row]) -> list[Markup]:
    again = sum(way["retransmitted_segments"] for way in ways)
    data = sum(way["data_segments"] for way in ways)
    return [
        *(_number(way["unique_bytes"], size(way["unique_bytes"])) for way in ways),
        _number(again, f"{again:,} ({share(again, data)})" if again and data else f"{again:,}"),
    ]


def _rtt(way: Row) -> list[Markup]:
    """Return median and worst; near the receiver they would be its own delay, so the cells stay empty."""
    values = (None, None) if way["rtt_absent"] else (way["rtt_p50_ns"], way["rtt_max_ns"])
    return [_number(value, "" if value is None else duration(value)) for value in values]


def _number(value: float | None, text: str) -> Markup:
    """Return a cell that sorts by its value; a missing one comes after all others."""
    return element("td", text, class_="number", data_value=-1 if value is None else value)


def _show(figure: int) -> Markup:
    return element("button", "Show", type="button", data_show=figure)
