"""How fast data got through: from acknowledgments, or arrivals near the receiver, and never from sends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from multitracer.analysis import analyse
from multitracer.analysis.segments.goodput import COLUMNS, DeliveryBounds, put_rates
from multitracer.schemas.tcp import GoodputBy, RoundTrips
from tests.analysis.traffic import ACK, FIN, MS, START_NS, SYN, Segment, capture

C, S = 1000, 5000
SIZE = 1000


def at(ms: float, side: int, seq: int, payload: int = 0, **how: Any) -> Segment:
    return replace(Segment(side, seq, payload, **({"ack": S + 1} | how)), time_ns=START_NS + round(ms * MS))


def opened(*, answer_ms: float, confirm_ms: float) -> list[Segment]:
    """Return a handshake of 50 ms, seen where the SYN-ACK comes after so long and the ACK of it then."""
    return [
        at(0, 0, C, flags=SYN, ack=0),
        at(answer_ms, 1, S, flags=SYN | ACK, ack=C + 1),
        at(answer_ms + confirm_ms, 0, C + 1),
    ]


def data(ms: float, number: int, **how: Any) -> Segment:
    return at(ms, 0, C + 1 + number * SIZE, SIZE, **how)


def acked(ms: float, number: int) -> Segment:
    return at(ms, 1, S + 1, ack=C + 1 + number * SIZE)


def row(*segments: Segment) -> dict[str, Any]:
    in_order = sorted(segments, key=lambda each: each.time_ns or 0)
    return next(analyse(capture(in_order)).directions.rows())


AT_SENDER = opened(answer_ms=50, confirm_ms=0.1)
AT_RECEIVER = opened(answer_ms=0.1, confirm_ms=50)


def test_a_window_sent_at_once_is_as_fast_as_its_acks() -> None:
    """Ten segments handed to the network within a millisecond, acknowledged 10 ms apart."""
    sent = [data(100 + 0.1 * i, i) for i in range(10)]
    found = row(*AT_SENDER, *sent, *(acked(150 + 10 * i, i + 1) for i in range(10)))
    assert GoodputBy(found["goodput_by"]) is GoodputBy.ACKNOWLEDGED
    assert found["goodput_ns"] == 90 * MS
    assert found["goodput_bytes_per_s"] == pytest.approx(9 * SIZE / 0.09)


def test_near_the_receiver_what_arrives_counts_and_its_acks_do_not() -> None:
    came = [data(100 + 10 * i, i) for i in range(10)]
    found = row(*AT_RECEIVER, *came, acked(190.01, 10))
    assert GoodputBy(found["goodput_by"]) is GoodputBy.ARRIVED
    assert found["goodput_bytes_per_s"] == pytest.approx(9 * SIZE / 0.09)


def test_a_late_fin_and_a_repeated_segment_do_not_lengthen_the_time() -> None:
    body = [data(100, 0), acked(150, 1), data(151, 1), acked(250, 2), data(900, 1)]
    end = [at(5000, 0, C + 1 + 2 * SIZE, flags=FIN | ACK), at(5050, 1, S + 1, ack=C + 2 + 2 * SIZE)]
    found = row(*AT_SENDER, *body, *end)
    assert found["goodput_ns"] == 100 * MS
    assert found["goodput_bytes_per_s"] == pytest.approx(SIZE / 0.1)


def test_what_was_sent_and_never_acknowledged_has_no_goodput() -> None:
    found = row(*AT_SENDER, data(100, 0), data(200, 1))
    assert found["goodput_bytes_per_s"] is None
    assert GoodputBy(found["goodput_by"]) is GoodputBy.NOTHING_CAME_THROUGH


def test_a_single_ack_is_a_moment_not_a_rate() -> None:
    found = row(*AT_SENDER, data(100, 0), data(100.1, 1), acked(150, 2))
    assert (found["goodput_bytes_per_s"], found["goodput_ns"]) == (None, None)
    assert GoodputBy(found["goodput_by"]) is GoodputBy.ONE_MOMENT


def test_a_direction_without_data_says_so() -> None:
    assert GoodputBy(row(*AT_SENDER)["goodput_by"]) is GoodputBy.NO_DATA


def test_near_the_receiver_delays_of_acks_are_no_round_trips() -> None:
    """The receiver holds its ACK back for 40 ms: the samples are no RTT, and the reason is there."""
    analysis = analyse(capture([*AT_RECEIVER, data(100, 0), data(101, 1), acked(141, 2)]))
    forward = next(analysis.directions.rows())
    assert RoundTrips(forward["rtt_absent"]) is RoundTrips.NEAR_RECEIVER
    assert analysis.rtt_samples(1)["reverse"].all(), "its own SYN-ACK was answered: that one is a round trip"
    assert analysis.directions["rtt_min_ns"][1] == 50 * MS


def test_why_there_is_no_round_trip_elsewhere() -> None:
    alone = row(data(100, 0), data(200, 1))
    assert RoundTrips(alone["rtt_absent"]) is RoundTrips.NO_ACK
    assert RoundTrips(row(*AT_SENDER, data(100, 0), acked(150, 1))["rtt_absent"]) is RoundTrips.MEASURED


def test_a_hundred_gigabytes_have_a_goodput() -> None:
    rows = {name: np.zeros(1, dtype=np.float64) for name in ("goodput_by", *COLUMNS)}
    begin, end, carried = (np.array([each], dtype=np.int64) for each in (0, 10**9, 10**11))
    put_rates(rows, np.array([0]), GoodputBy.ACKNOWLEDGED, DeliveryBounds(begin, end, carried))
    assert rows["goodput_bytes_per_s"].tolist() == [1e11]
