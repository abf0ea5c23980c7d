"""The directions of connections that a report draws, and the sentences about them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.series.rtt import Provenance
from multitracer.errors import InputError
from multitracer.figures.direction import Direction
from multitracer.tcp import Vantage
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.recording.part import Part
    from multitracer.tables import Row

_WORTH_DRAWING = 0.1
"""The lesser direction of the first connection is drawn too from this share of the greater one's bytes."""


class Worst(NamedTuple):
    """The largest round-trip time of a direction."""

    rtt_ns: int
    at_s: float
    """When its answer was captured, in seconds from the start of the capture."""
    provenance: Provenance


@dataclass(frozen=True)
class Drawn:
    """One direction of a connection that gets a figure."""

    part: Part
    connection: int
    """From 1 within the part."""
    reverse: bool

    @property
    def number(self) -> int:
        """The connection's number for the user."""
        return self.part.offset + self.connection

    @cached_property
    def ends(self) -> tuple[str, str]:
        """Sender and receiver of the direction as HOST:PORT."""
        ends = self.part.analysis.ends(self.connection)
        return (ends.destination, ends.source) if self.reverse else (ends.source, ends.destination)

    @cached_property
    def direction(self) -> Row:
        """Its row of `DIRECTIONS`."""
        return self._row(reverse=self.reverse)

    @cached_property
    def opposite(self) -> Row:
        """The row of the direction in which its ACKs travel."""
        return self._row(reverse=not self.reverse)

    @property
    def is_at_receiver(self) -> bool:
        """Whether the capture was made near the receiver: there, unneeded retransmissions do not show."""
        return bool(self.direction["vantage"] == Vantage.NEAR_RECEIVER)

    def _row(self, *, reverse: bool) -> Row:
        row = 2 * (self.connection - 1) + reverse
        return next(self.part.analysis.directions.take(np.array([row])).rows())

    @cached_property
    def tables(self) -> Direction:
        """The tables that a figure draws."""
        return Direction.of(self.part.analysis, self.connection, reverse=self.reverse)

    @cached_property
    def worst_rtt(self) -> Worst | None:
        """Its largest RTT sample, whatever way it was found: stalls are what Karn's rule is silent about."""
        samples = self.tables.rtt_samples
        samples = samples.take((samples["reverse"] == self.reverse) & (samples["rtt_ns"] >= 0))
        if not len(samples):
            return None
        row = int(np.argmax(samples["rtt_ns"]))
        at_ns = int(samples["time_ns"][row]) - origin_ns(self.part)
        return Worst(int(samples["rtt_ns"][row]), at_ns / NS_PER_S, Provenance(samples["provenance"][row]))


def origin_ns(part: Part) -> int:
    """Return the first packet's time, which figures and sentences call 0."""
    return part.capture.first_ns or 0


def choose(parts: Sequence[Part], *, connection: int | None, most: int) -> list[Drawn]:
    """Return the directions to draw, the chosen connection's or the largest one's first.

    Raises
    ------
    InputError
        If there is no connection with that number.
    """
    chosen = largest(parts, most)
    if connection is not None:
        first = _numbered(parts, connection)
        chosen = [first, *(each for each in chosen if each != first)]
    both = [drawn for each in chosen[:1] for drawn in _both_ways(*each)]
    return (both + [_bulk(*each) for each in chosen[1:]])[:most]


def largest(parts: Sequence[Part], most: int) -> list[tuple[Part, int]]:
    """Return the connections with the most unique bytes both ways, as part and number within it."""
    ranked = []
    for order, part in enumerate(parts):
        unique = part.analysis.unique_bytes()
        rows = np.argsort(-unique, kind="stable")[:most]
        ranked += [(-int(unique[row]), order, int(row) + 1) for row in rows]
    return [(parts[order], n) for _, order, n in sorted(ranked)[:most]]


def _numbered(parts: Sequence[Part], number: int) -> tuple[Part, int]:
    for part in parts:
        if 0 < number - part.offset <= len(part):
            return part, number - part.offset
    raise InputError(f"no connection {number}; `multitracer inspect` lists them")


def _bulk(part: Part, n: int) -> Drawn:
    return Drawn(part, n, bool(part.analysis.connections["bulk_direction"][n - 1]))


def _both_ways(part: Part, n: int) -> list[Drawn]:
    bulk = _bulk(part, n)
    sent, back = bulk.direction["unique_bytes"], bulk.opposite["unique_bytes"]
    worth = back and back >= _WORTH_DRAWING * sent
    return [bulk, Drawn(part, n, not bulk.reverse)] if worth else [bulk]
