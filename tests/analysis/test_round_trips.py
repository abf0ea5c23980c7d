"""Which segments give a round-trip time, and which do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from multitracer.analysis import analyse
from multitracer.analysis.series.rtt import Provenance
from multitracer.captured import CaptureInterface
from multitracer.tables import NOT_A_TIME
from tests.analysis.traffic import ACK, FIN, MS, RST, START_NS, SYN, Segment, capture, handshake

BEGUN = handshake()
C, S = 1001, 5001


def data(offset: int, size: int = 100, **how: Any) -> Segment:
    return Segment(0, C + offset, size, ack=S, **how)


def ack(offset: int, **how: Any) -> Segment:
    return Segment(1, S, ack=C + offset, **how)


def samples(*segments: Segment, provenance: Provenance = Provenance.EXACT_ACK) -> list[tuple[int, int]]:
    """Return (segment, answer) after a handshake, both numbered from the first of `segments`."""
    table = analyse(capture([*BEGUN, *segments])).rtt_samples(1)
    mine = (table["provenance"] == provenance) & (table["answer_row"] >= len(BEGUN))
    return [
        (row - len(BEGUN), answer - len(BEGUN))
        for row, answer in zip(table["row"][mine].tolist(), table["answer_row"][mine].tolist(), strict=True)
    ]


def test_the_handshake_gives_a_sample_each_way() -> None:
    table = analyse(capture(BEGUN)).rtt_samples(1)
    assert list(zip(table["row"].tolist(), table["answer_row"].tolist(), strict=True)) == [(0, 1), (1, 2)]
    assert table["reverse"].tolist() == [False, True]


def test_an_ack_measures_only_the_segment_that_ends_where_it_points() -> None:
    assert samples(data(0), data(100), data(200), ack(200), ack(300)) == [(1, 3), (2, 4)]
    assert samples(data(0), data(100), ack(150)) == []


def test_data_that_acknowledges_gives_a_sample_too() -> None:
    answer = Segment(1, S, 50, ack=C + 100)
    assert samples(data(0), answer, Segment(0, C + 100, ack=S + 50)) == [(0, 1), (1, 2)]


def test_a_fin_gives_a_sample() -> None:
    assert samples(Segment(0, C, flags=FIN | ACK, ack=S), ack(1)) == [(0, 1)]


def test_the_refusal_of_a_syn_answers_it() -> None:
    refused = [Segment(0, 1000, flags=SYN), Segment(1, 0, flags=RST | ACK, ack=1001)]
    assert analyse(capture(refused)).directions["rtt_count"].tolist() == [1, 0]


def test_what_was_sent_twice_gives_none() -> None:
    assert samples(data(0), data(0), ack(100)) == []


def test_what_was_sent_again_after_its_ack_keeps_its_sample() -> None:
    assert samples(data(0), ack(100), data(0)) == [(0, 1)]


def test_what_was_sent_behind_a_hole_gives_none() -> None:
    assert samples(data(0), data(100), data(0), ack(200)) == []
    assert samples(data(100), data(0), ack(200)) == []


def test_what_was_sent_before_the_hole_keeps_its_sample() -> None:
    assert samples(data(0), data(200), data(100), ack(100)) == [(0, 3)]


def test_a_segment_that_fills_a_hole_is_measured_from_when_it_came() -> None:
    assert samples(data(100), data(0), ack(100), ack(200)) == [(1, 2)]


def test_partly_new_segments_give_none() -> None:
    assert samples(data(0), ack(100), data(50), ack(150)) == [(0, 1)]


def test_a_copy_made_by_the_capture_does_not_spoil_a_sample() -> None:
    assert samples(data(0, ip_id=5), data(0, ip_id=5), ack(100)) == [(0, 2)]


def test_a_window_probe_gives_none_however_long_its_answer_takes() -> None:
    assert samples(data(0), ack(100, window=0), data(100, 1), ack(101)) == [(0, 1)]


def test_an_ack_seen_before_its_data_gives_none() -> None:
    assert samples(ack(100), data(0), ack(100)) == []


def test_a_sack_measures_the_segment_that_triggered_it() -> None:
    behind_a_hole = [data(0), data(100), data(200), data(300)]
    sacks = [
        ack(100, sack=((C + 200, C + 300),)),
        ack(100, sack=((C + 200, C + 400),)),
        ack(100, sack=((C + 200, C + 400),)),
    ]
    assert samples(*behind_a_hole, *sacks, provenance=Provenance.SACK) == [(2, 4), (3, 5)]


def test_a_sack_of_data_that_were_not_captured_measures_nothing() -> None:
    table = analyse(capture([ack(0, sack=((C + 100, C + 200),))])).rtt_samples(1)
    assert len(table) == 0


def test_a_sack_of_a_segment_sent_twice_gives_none() -> None:
    sent = [data(0), data(100), data(200), data(200), ack(100, sack=((C + 200, C + 300),))]
    assert samples(*sent, provenance=Provenance.SACK) == []


def test_a_dsack_measures_nothing() -> None:
    sent = [data(0), ack(100), data(100), ack(100, sack=((C, C + 100),))]
    assert samples(*sent, provenance=Provenance.SACK) == []


def test_a_sack_with_its_edges_swapped_is_ignored() -> None:
    sent = [data(0), data(100), ack(0, sack=((C + 200, C + 100),)), ack(0, sack=((C + 900, C + 100),))]
    assert samples(*sent, provenance=Provenance.SACK) == []


def test_a_timestamp_measures_the_first_segment_that_carried_it_and_is_covered() -> None:
    sent = [data(0, stamp=(7, 1)), data(100, stamp=(7, 1)), ack(100, stamp=(1, 7)), ack(200, stamp=(1, 7))]
    assert samples(*sent, provenance=Provenance.TIMESTAMP) == [(0, 2)]


def test_percentiles_lie_between_the_samples() -> None:
    segments = [*BEGUN]
    for i, delay in enumerate((1, 2, 3, 4, 10)):
        sent_ns = 100 * MS * (i + 1)
        segments += [data(100 * i, time_ns=sent_ns), ack(100 * (i + 1), time_ns=sent_ns + delay * MS)]
    segments[0] = Segment(**(segments[0].__dict__ | {"payload": 0}))
    row = next(analyse(capture([*segments[3:]])).directions.rows())
    assert row["rtt_count"] == 5
    assert [row[f"rtt_{name}_ns"] / MS for name in ("min", "mean", "p50", "p95", "max")] == pytest.approx(
        [1, 4, 3, 8.8, 10]
    )


def test_a_mean_is_not_finer_than_the_clock() -> None:
    delays = (27_000, 27_000, 28_000)
    segments = []
    for i, delay in enumerate(delays):
        segments += [data(100 * i, time_ns=i * MS), ack(100 * (i + 1), time_ns=i * MS + delay)]
    row = next(analyse(capture(segments, interfaces=[CaptureInterface(1, resolution_ns=1000.0)])).directions.rows())
    assert row["rtt_mean_ns"] == 27_000
    finer = next(analyse(capture(segments, interfaces=[CaptureInterface(1, resolution_ns=1.0)])).directions.rows())
    assert finer["rtt_mean_ns"] == pytest.approx(27_333)


def test_the_column_and_the_samples_tell_the_same() -> None:
    analysis = analyse(capture([*BEGUN, data(0), data(100), ack(100), ack(200)]))
    table, samples_of = analysis.tcp_segments(1), analysis.rtt_samples(1)
    exact = samples_of.take(samples_of["provenance"] == Provenance.EXACT_ACK)
    assert (table["rtt_ns"][exact["row"]] == exact["rtt_ns"]).all()
    assert np.count_nonzero(table["rtt_ns"] > 0) == len(exact)
    assert analysis.directions["rtt_count"].sum() == len(exact)


@pytest.mark.parametrize("untimed", [{0}, {0, 1}, {3, 4}, {0, 1, 2, 3, 4}])
def test_segments_without_a_time_measure_nothing_and_bound_nothing(untimed: set[int]) -> None:
    segments = [*BEGUN, data(0, time_ns=START_NS + 3 * MS), ack(100, time_ns=START_NS + 4 * MS)]
    segments = [replace(s, time_ns=NOT_A_TIME if i in untimed else s.time_ns) for i, s in enumerate(segments)]
    analysis = analyse(capture(segments, without_time=len(untimed)))
    timed = [START_NS + i * MS for i in range(5) if i not in untimed]
    assert analysis.connections["start_ns"].tolist() == [min(timed, default=NOT_A_TIME)]
    assert analysis.connections["end_ns"].tolist() == [max(timed, default=NOT_A_TIME)]
    pairs = [pair for pair in [(0, 1), (1, 2), (3, 4)] if untimed.isdisjoint(pair)]
    table = analysis.rtt_samples(1)
    assert list(zip(table["row"].tolist(), table["answer_row"].tolist(), strict=True)) == pairs
    assert analysis.directions["rtt_count"].sum() == len(pairs)
    assert table["rtt_ns"].tolist() == [MS] * len(pairs)
    rtt = analysis.tcp_segments(1)["rtt_ns"]
    assert sorted(np.flatnonzero(rtt != NOT_A_TIME).tolist()) == [sent for sent, _ in pairs]
