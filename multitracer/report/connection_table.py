"""The directions of connections that a report draws, and the table of the largest ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.series.rtt import Provenance
from multitracer.errors import InputError
from multitracer.figures.direction import FigureDirection
from multitracer.figures.stack import axis_origin_ns
from multitracer.report.markup import Markup, element, fold
from multitracer.schemas.tcp import Close, GoodputBy, Vantage
from multitracer.units import BITS_PER_BYTE, NS_PER_S
from multitracer.words import count, duration, printable, share, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.recording.capture import Capture
    from multitracer.recording.recording import Recording
    from multitracer.report.markup import Child
    from multitracer.tables import Row

_WORTH_DRAWING = 0.1
"""Minimum share of bytes, relative to the larger direction, at which the first connection's smaller direction
is drawn too."""


class Worst(NamedTuple):
    """The largest round-trip time of a direction, and its time."""

    rtt_ns: int
    at_s: float
    """Time at which its ACK was captured, in seconds from the start of the capture."""
    provenance: Provenance


@dataclass(frozen=True)
class Drawn:
    """One direction of a connection for which the page has a figure."""

    capture: Capture
    connection: int
    """Number of the connection in the capture, from 1."""
    reverse: bool

    @property
    def number(self) -> int:
        """Number of the connection as shown to the user."""
        return self.capture.offset + self.connection

    @cached_property
    def ends(self) -> tuple[str, str]:
        """Sender and receiver of the direction as HOST:PORT."""
        ends = self.capture.analysis.ends(self.connection)
        return (ends.destination, ends.source) if self.reverse else (ends.source, ends.destination)

    @cached_property
    def direction(self) -> Row:
        """The row of this direction in the table `DIRECTIONS`."""
        return self._row(reverse=self.reverse)

    @cached_property
    def opposite(self) -> Row:
        """The row of the opposite direction, in which the ACKs travel."""
        return self._row(reverse=not self.reverse)

    @property
    def goodput_by(self) -> GoodputBy:
        """Method by which the goodput is known, or the reason why it is not known."""
        return GoodputBy(self.direction["goodput_by"])

    @property
    def goodput_bps(self) -> float | None:
        """Goodput of this direction in bit/s, from the first to the last arrival; None if it is not known."""
        if not self.goodput_by.is_known:
            return None
        return float(self.direction["goodput_bytes_per_s"]) * BITS_PER_BYTE

    @property
    def is_at_receiver(self) -> bool:
        """Whether the capture was made near the receiver: unnecessary retransmissions are then invisible."""
        return bool(self.direction["vantage"] == Vantage.NEAR_RECEIVER)

    def _row(self, *, reverse: bool) -> Row:
        row = 2 * (self.connection - 1) + reverse
        return next(self.capture.analysis.directions.take(np.array([row])).rows())

    @cached_property
    def tables(self) -> FigureDirection:
        """The tables of this direction that a figure draws."""
        return FigureDirection.of(self.capture.analysis, self.connection, reverse=self.reverse)

    @cached_property
    def worst_rtt(self) -> Worst | None:
        """Largest RTT sample, also of retransmitted data: samples that obey Karn's rule omit stalls."""
        samples = self.tables.rtt_samples
        samples = samples.take((samples["reverse"] == self.reverse) & (samples["rtt_ns"] >= 0))
        if not len(samples):
            return None
        row = int(np.argmax(samples["rtt_ns"]))
        at_ns = int(samples["time_ns"][row]) - axis_origin_ns(self.capture)
        return Worst(int(samples["rtt_ns"][row]), at_ns / NS_PER_S, Provenance(samples["provenance"][row]))


def choose(captures: Sequence[Capture], *, connection: int | None, most: int) -> list[Drawn]:
    """Return the directions to draw; those of the chosen (by default the largest) connection come first.

    Raises
    ------
    InputError
        If no connection has the number `connection`.
    """
    chosen = largest(captures, most)
    if connection is not None:
        numbered = ((capture, connection - capture.offset) for capture in captures)
        first = next((each for each in numbered if 0 < each[1] <= len(each[0])), None)
        if first is None:
            raise InputError(f"there is no connection {connection}; `multitracer inspect` lists the connections")
        chosen = [first, *(each for each in chosen if each != first)]
    drawn = [Drawn(capture, n, capture.analysis.bulk_direction(n)) for capture, n in chosen]
    if drawn:
        bulk = drawn[0]
        sent, back = bulk.direction["unique_bytes"], bulk.opposite["unique_bytes"]
        if back and back >= _WORTH_DRAWING * sent:
            drawn.insert(1, replace(bulk, reverse=not bulk.reverse))
    return drawn[:most]


def largest(captures: Sequence[Capture], most: int) -> list[tuple[Capture, int]]:
    """Return at most `most` connections (capture, index) with the most unique bytes in both directions."""
    ranked = []
    for order, capture in enumerate(captures):
        unique = capture.analysis.unique_bytes()
        rows = np.argsort(-unique, kind="stable")[:most]
        ranked += [(-int(unique[row]), order, int(row) + 1) for row in rows]
    return [(captures[order], n) for _, order, n in sorted(ranked)[:most]]


_CLOSES = {
    Close.OPEN: "still open",
    Close.FIN_ONE_WAY: "FIN one way",
    Close.FIN_BOTH_WAYS: "FIN both ways",
    Close.RESET: "RST",
}
_MISSING = -1
"""Sort key of a missing value, so that it is last."""
_HEADS = (
    ("#", True, "Number of the connection"),
    ("Start", True, "Seconds from the start of the capture"),
    ("Initiator", False, "Who sent the first SYN, or the first segment"),
    ("Responder", False, ""),
    ("Took", True, "First to last segment"),
    ("Bytes →", True, "Unique payload bytes from the initiator"),
    ("Bytes ←", True, "Unique payload bytes from the responder"),
    (
        "Retransmitted",
        True,
        "Retransmitted segments in the direction with more bytes, and their share of its data segments",
    ),
    ("RTT median", True, "By Karn's rule, in the direction with more bytes"),
    ("RTT worst", True, "By Karn's rule, in the direction with more bytes"),
    ("End", False, "How the connection ended in this capture"),
)


def connection_section(recording: Recording, figures: Sequence[Drawn], *, most: int) -> Markup:
    """Return the table of the `most` largest connections, and the number of omitted connections."""
    captures, total = recording.captures, len(recording)
    picked = largest(captures, most)
    shown = {drawn.number: i for i, drawn in reversed(list(enumerate(figures)))}
    where = len(captures) > 1
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
    table = element(
        "table",
        element("caption", "Connections, the largest first", class_="unseen"),
        element("thead", element("tr", cells)),
        element("tbody", [_row(capture, n, shown.get(capture.offset + n), where=where) for capture, n in picked]),
        class_="sortable",
        data_filter="filter",
    )
    words = "Filter: address, port, end…"
    box = element("input", id="filter", type="search", placeholder=words, aria_label="Filter rows")
    status = element("span", id="filter-told", class_="muted", role="status")
    left = total - len(picked)
    more = f"The {len(picked):,} with the most bytes; {count(left, 'more connection')} not listed. "
    tool = [element("code", "multitracer analyze --csv"), " writes all of them with every number."]
    return fold(
        recording.connections_in_words,
        element("div", box, status, class_="bar") if len(picked) > 1 else None,
        element("div", table, class_="scroll") if picked else None,
        element("p", more if left else "", tool, class_="muted") if total else None,
        id="connections",
        class_="long",
    )


def _row(capture: Capture, n: int, figure: int | None, *, where: bool) -> Markup:
    """Return the table row of a connection; `figure` is the number of its figure on the page, or None."""
    row = next(capture.analysis.connections.take(np.array([n - 1])).rows())
    ways = list(capture.analysis.directions.take(np.array([2 * n - 2, 2 * n - 1])).rows())
    start, end, ends = row["start_ns"], row["end_ns"], capture.analysis.ends(n)
    since = None if start is None else (start - axis_origin_ns(capture)) / NS_PER_S
    took = None if start is None or end is None else end - start
    bulk = ways[row["bulk_direction"]]
    again, data = bulk["retransmitted_segments"], bulk["data_segments"]
    # near the receiver, round trips would be the receiver's own delay
    round_trips = (None, None) if bulk["rtt_absent"] else (bulk["rtt_p50_ns"], bulk["rtt_max_ns"])
    show = None if figure is None else element("button", "Show", type="button", data_show=figure)
    cells: list[tuple[Child, float | None]] = [  # each with the number by which it sorts, None for a text
        (str(capture.offset + n), capture.offset + n),
        ("", _MISSING) if since is None else (f"{since:,.3f} s", since),
        (ends.source, None),
        (ends.destination, None),
        (duration(took), _MISSING if took is None else took),
        *((size(way["unique_bytes"]), way["unique_bytes"]) for way in ways),
        (f"{again:,} ({share(again, data)})" if again and data else f"{again:,}", again),
        *(("", _MISSING) if value is None else (duration(value), value) for value in round_trips),
        (_CLOSES[row["close"]], None),
        *([(printable(capture.point.name), None)] if where else []),
        (show, None),
    ]
    shown = [
        element("td", content, class_=None if number is None else "number", data_value=number)
        for content, number in cells
    ]
    return element("tr", shown, data_figure=figure)
