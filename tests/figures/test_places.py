"""The places that the buttons above a figure lead to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from multitracer.analysis.group import SegmentKind
from multitracer.captured import Flag
from multitracer.figures.direction import FigureDirection
from multitracer.figures.zooms import NamedInterval, places
from multitracer.schemas.tcp import RTT_SAMPLES, TCP_SACK_BLOCKS, TCP_SEGMENTS
from multitracer.tables import NOT_A_TIME, Table
from tests.figures.traffic import START_NS, transfer

SECOND = 1_000_000_000


def found(direction: FigureDirection) -> dict[str, NamedInterval]:
    return {place.key: place for place in places(direction)}


def test_a_smooth_transfer_has_a_start_and_a_worst_rtt_only() -> None:
    assert set(found(transfer())) == {"start", "worst_rtt", "pause"}


def test_the_worst_rtt_spans_from_the_segment_to_its_answer() -> None:
    direction = transfer(segments=100, rtt_ms=100)
    samples = direction.rtt_samples
    row = 40
    samples.columns["rtt_ns"][row] = 3 * SECOND
    place = found(direction)["worst_rtt"]
    answered = int(samples["time_ns"][row])
    assert place.from_ns < answered - 3 * SECOND < answered < place.to_ns
    assert place.about_ns == 3 * SECOND


def test_the_longest_pause_is_where_something_was_outstanding() -> None:
    direction = transfer(segments=100)
    segments = direction.segments
    late = segments["time_ns"] > START_NS + SECOND // 2
    segments.columns["time_ns"][late] += 4 * SECOND
    place = found(direction)["pause"]
    assert place.from_ns < START_NS + SECOND // 2 < place.to_ns
    assert place.about_ns == pytest.approx(4 * SECOND, rel=0.1)


def test_a_pause_with_nothing_outstanding_is_the_applications() -> None:
    direction = transfer(segments=100)
    segments = direction.segments
    late = segments["time_ns"] > START_NS + SECOND // 2
    segments.columns["time_ns"][late] += 4 * SECOND
    segments.columns["flight_bytes"][:] = 0
    assert "pause" not in found(direction)


def test_the_most_retransmissions_are_in_their_place() -> None:
    place = found(transfer(segments=500, lost=(10, 400, 401, 402, 403)))["retransmissions"]
    assert place.from_ns < START_NS + 4.3 * SECOND < place.to_ns


@pytest.mark.parametrize(("key", "kind", "flag"), [("zero_window", SegmentKind.ZERO_WINDOW, 0), ("reset", 0, Flag.RST)])
def test_the_first_rare_event_has_a_place(key: str, kind: int, flag: int) -> None:
    direction = transfer(segments=100)
    segments = direction.segments
    row = np.flatnonzero(segments["reverse"])[50]
    segments.columns["kind"][row] |= int(kind)
    segments.columns["flags"][row] |= int(flag)
    place = found(direction)[key]
    assert place.from_ns < segments["time_ns"][row] < place.to_ns


def test_nothing_timed_has_no_places() -> None:
    empty = FigureDirection(Table.empty(TCP_SEGMENTS), Table.empty(TCP_SACK_BLOCKS), Table.empty(RTT_SAMPLES))
    assert places(empty) == []
    untimed = transfer(segments=5)
    untimed.segments.columns["time_ns"][:] = NOT_A_TIME
    assert places(untimed) == []


def test_places_are_those_of_the_direction() -> None:
    other = found(replace(transfer(lost=(5,)), reverse=True))
    assert "retransmissions" not in other


def test_a_place_meets_an_interval_or_not() -> None:
    place = NamedInterval("pause", 10, 20)
    assert place.meets(None, None)
    assert place.meets(20, None)
    assert place.meets(None, 10)
    assert not place.meets(21, 30)
    assert not place.meets(None, 9)
