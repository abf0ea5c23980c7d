"""Where a capture was made that has no handshake and data one way only: timestamps tell, if anything does."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from multitracer.analysis import analyse
from multitracer.schemas.tcp import RoundTrips, Vantage
from tests.analysis.traffic import MS, START_NS, Segment, capture

C, S = 1001, 5001
SIZE, SEGMENTS = 1000, 200


def middle(*, queue_ms: float, at_receiver: bool, tick_ms: int = 1, stamped: bool = True) -> list[Segment]:
    """Return the middle of an upload over a path that delays data by up to so much, as one end saw it."""
    dice = random.Random(7)
    found, last = [], 0.0
    for i in range(SEGMENTS):
        left = 3.7 * i
        came = max(left + 20 + dice.uniform(0, queue_ms), last + 0.01)
        last = came
        data = Segment(0, C + i * SIZE, SIZE, ack=S, stamp=(10**6 + int(left // tick_ms), 0))
        ack = Segment(1, S, ack=C + (i + 1) * SIZE, stamp=(7 * 10**6 + int((came + 0.01) // tick_ms), 0))
        seen = (came, came + 0.01) if at_receiver else (left, came + 20.01)
        for segment, ms in zip((data, ack), seen, strict=True):
            found.append(replace(segment, time_ns=START_NS + round(ms * MS)))
    found.sort(key=lambda segment: segment.time_ns or 0)
    return found if stamped else [replace(segment, stamp=None) for segment in found]


def vantage(segments: list[Segment]) -> Vantage:
    """Return where it was made as seen from the data."""
    directions = analyse(capture(segments)).directions
    sender = int(directions["payload_bytes"].argmax())
    return Vantage(directions["vantage"][sender])


@pytest.mark.parametrize("tick_ms", [1, 4])
def test_at_the_receiver_data_stray_from_their_stamps_and_acks_do_not(tick_ms: int) -> None:
    segments = middle(queue_ms=50, at_receiver=True, tick_ms=tick_ms)
    assert vantage(segments) is Vantage.NEAR_RECEIVER
    directions = analyse(capture(segments)).directions
    sender = int(directions["payload_bytes"].argmax())
    assert RoundTrips(directions["rtt_absent"][sender]) is RoundTrips.NEAR_RECEIVER


def test_at_the_sender_it_is_the_acks_that_stray() -> None:
    segments = [
        replace(segment, time_ns=(segment.time_ns or 0) + (i % 9) * 3 * MS) if segment.side else segment
        for i, segment in enumerate(middle(queue_ms=0, at_receiver=False))
    ]
    assert vantage(sorted(segments, key=lambda segment: segment.time_ns or 0)) is Vantage.NEAR_SENDER


@pytest.mark.parametrize("at_receiver", [True, False])
def test_a_path_without_a_queue_tells_nothing(at_receiver: bool) -> None:
    assert vantage(middle(queue_ms=0, at_receiver=at_receiver)) is Vantage.UNKNOWN


def test_without_stamps_nothing_is_told() -> None:
    assert vantage(middle(queue_ms=50, at_receiver=True, stamped=False)) is Vantage.UNKNOWN
