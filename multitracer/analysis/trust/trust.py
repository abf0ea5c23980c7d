"""What of a capture is weighed to say how far it can be trusted: counted here, judged in `rules.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.trust.clock_steps import clock_steps
from multitracer.analysis.trust.rules import (
    ETHERNET_PAYLOAD_BYTES,
    JUMBO_PAYLOAD_BYTES,
    MARKED,
    TOTALS,
    Seen,
    Some,
    Trust,
    weighed,
)
from multitracer.tables import NA
from multitracer.tcp import Initiator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.analysis.connections import Partition
    from multitracer.capture import Capture
    from multitracer.captured import Mark, SourceFile
    from multitracer.tables import Array, Table


@dataclass(slots=True)
class SegmentFacts:
    """What the segments themselves say; a stream gathers it while they are there."""

    segments: int = 0
    marked: dict[Mark, int] = field(default_factory=dict)
    """How many have each mark that limits trust."""
    giants: int = 0
    """Data segments larger than their receiver accepts."""
    steps: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """By how many ns the clock stepped: int64, shape (n_steps,)."""

    def add(self, marks: Array) -> None:
        """Count further segments by their marks: uint16, shape (n,)."""
        self.segments += len(marks)
        present = int(np.bitwise_or.reduce(marks)) if len(marks) else 0
        for mark, *_ in MARKED:
            if present & mark:
                count = int(np.count_nonzero(marks & np.uint16(mark)))
                self.marked[mark] = self.marked.get(mark, 0) + count


def facts_of(capture: Capture, parts: Partition, directions: Table) -> SegmentFacts:
    """Return what the segments of a capture say, given its DIRECTIONS."""
    if not len(capture.segments):
        return SegmentFacts()
    count = giants(capture.segments["payload_bytes"], parts.direction, directions["mss_bytes"])
    facts = SegmentFacts(giants=count, steps=clock_steps(capture, parts, directions))
    facts.add(capture.segments["marks"])
    return facts


def giants(payload: Array, direction: Array, mss_bytes: Array) -> int:
    """Return how many segments carry more than their receiver accepts.

    Parameters
    ----------
    payload : ndarray of int32, bytes, shape (n_segments,)
    direction : ndarray of integers, shape (n_segments,)
        Index into `mss_bytes`.
    mss_bytes : ndarray of int32, bytes, shape (n_directions,)
        As announced in each direction; NA if unknown.
    """
    large = np.flatnonzero(payload > ETHERNET_PAYLOAD_BYTES)
    mss = mss_bytes[direction[large] ^ 1].astype(np.int64)
    limit = np.where(mss == NA, JUMBO_PAYLOAD_BYTES, mss)
    return int(np.count_nonzero(payload[large] > limit))


def trust_of(
    files: Sequence[SourceFile], facts: SegmentFacts, connections: Table, directions: Table
) -> Trust:
    """Return how far a capture can be trusted: by its files, its segments, CONNECTIONS and DIRECTIONS."""
    return weighed(files, _seen(facts, connections, directions))


def _seen(facts: SegmentFacts, connections: Table, directions: Table) -> Seen:
    packets = directions["packets"].reshape(-1, 2)
    answered = packets.min(axis=1) > 0
    attempts = directions["syn"].reshape(-1, 2).sum(axis=1) == packets.sum(axis=1)
    by = np.bincount(connections["initiator_by"], minlength=len(Initiator)).tolist()
    return Seen(
        segments=facts.segments,
        marked=facts.marked,
        giants=facts.giants,
        steps=facts.steps.tolist(),
        totals={name: int(directions[name].sum()) for name in TOTALS},
        connections=len(connections),
        late=_some(directions, ~connections["syn_seen"]),
        one_sided=_some(directions, ~answered & ~attempts),
        initiator_by=dict(zip(Initiator, by, strict=True)),
    )


def _some(directions: Table, chosen: Array) -> Some:
    """Return the chosen connections, and their share of payload, of packets where there is no payload."""
    carried = directions["payload_bytes"].reshape(-1, 2).sum(axis=1)
    weight = carried if carried.any() else directions["packets"].reshape(-1, 2).sum(axis=1)
    share = float(weight[chosen].sum() / weight.sum()) if chosen.any() else 0.0
    return Some(int(np.count_nonzero(chosen)), share)
