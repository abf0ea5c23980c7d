"""What each count of a direction counts, one small exchange at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from multitracer.analysis import SegmentKind, analyse
from multitracer.schemas.tcp import DIRECTIONS
from tests.analysis.traffic import ACK, FIN, RST, SYN, Segment, capture, handshake

BEGUN = handshake()
C, S = 1001, 5001
"""Next sequence numbers after the handshake."""


def data(offset: int, size: int = 100, **how: Any) -> Segment:
    return Segment(0, C + offset, size, ack=S, **how)


def ack(offset: int, **how: Any) -> Segment:
    return Segment(1, S, ack=C + offset, **how)


def counted(*segments: Segment, reverse: bool = False) -> dict[str, Any]:
    """Return the row of DIRECTIONS of one way after a handshake and these segments."""
    analysis = analyse(capture([*BEGUN, *segments]))
    assert len(analysis.connections) == 1
    return next(analysis.directions.take(np.array([int(reverse)])).rows())


def kinds(*segments: Segment) -> list[SegmentKind]:
    """Return what is said of each segment after a handshake."""
    table = analyse(capture([*BEGUN, *segments])).tcp_segments(1)
    return [SegmentKind(int(kind)) for kind in table["kind"][len(BEGUN) :]]


def again(row: dict[str, Any]) -> tuple[int, int, int, int]:
    names = ("retransmitted_segments", "retransmitted_bytes", "partial_retransmissions", "out_of_order")
    return tuple(row[name] for name in names)


def test_payload_is_counted_with_every_copy_and_once() -> None:
    row = counted(data(0), data(100), data(100), data(200, 50))
    assert (row["data_segments"], row["payload_bytes"], row["unique_bytes"]) == (4, 350, 250)
    assert (row["packets"], row["syn"], row["fin"], row["rst"]) == (6, 1, 0, 0)


def test_a_segment_sent_again_is_a_retransmission() -> None:
    assert again(counted(data(0), data(0))) == (1, 100, 0, 0)


def test_a_retransmission_may_carry_new_bytes_too() -> None:
    row = counted(data(0), data(50))
    assert again(row) == (1, 50, 1, 0)
    assert row["unique_bytes"] == 150
    assert (
        kinds(data(0), data(50))[1]
        == SegmentKind.DATA | SegmentKind.RETRANSMISSION | SegmentKind.PARTIAL_RETRANSMISSION
    )


def test_a_segment_that_fills_a_hole_is_out_of_order_not_a_retransmission() -> None:
    row = counted(data(100), data(0))
    assert again(row) == (0, 0, 0, 1)
    assert row["missing_bytes"] == 0


def test_a_segment_over_the_edge_of_a_hole_is_partly_new() -> None:
    assert again(counted(data(0), data(200), data(50, 100))) == (1, 50, 1, 0)


def test_a_hole_is_filled_once() -> None:
    row = counted(data(200), data(0, 100), data(50, 100), data(0, 200))
    assert again(row) == (2, 200, 2, 1)
    assert row["unique_bytes"] == 300


def test_one_segment_may_fill_several_holes() -> None:
    row = counted(data(0), data(200), data(400), data(0, 500))
    assert again(row) == (1, 300, 1, 0)
    assert row["missing_bytes"] == 0


def test_syn_and_fin_sent_again_are_retransmissions_of_one_unit() -> None:
    row = counted(BEGUN[0], Segment(0, C, flags=FIN | ACK, ack=S), Segment(0, C, flags=FIN | ACK, ack=S))
    assert again(row) == (2, 2, 0, 0)
    assert row["unique_bytes"] == 0


def test_a_fin_on_resent_data_is_a_new_unit_and_no_new_byte() -> None:
    row = counted(data(0), Segment(0, C, 100, flags=FIN | ACK, ack=S))
    assert again(row) == (1, 100, 1, 0)
    assert row["unique_bytes"] == 100


def test_a_fin_that_fills_a_hole_with_old_data_before_it() -> None:
    """The FIN unit lies in the hole: it is new, the payload before it is old."""
    row = counted(data(0), data(150, 50), Segment(0, C + 50, 50, flags=FIN | ACK, ack=S))
    assert again(row) == (1, 50, 1, 0)
    assert row["unique_bytes"] == 150


def test_the_payload_of_a_rst_is_counted_but_occupies_nothing() -> None:
    row = counted(data(0), Segment(0, C + 100, 58, flags=RST | ACK, ack=S))
    assert (row["payload_bytes"], row["unique_bytes"], row["max_flight_bytes"]) == (158, 158, 100)


def test_a_keep_alive_is_not_a_retransmission() -> None:
    alive = Segment(0, C + 99, 1, ack=S)
    row = counted(data(0), ack(100), alive, alive)
    assert again(row) == (0, 0, 0, 0)
    assert row["keep_alives"] == 2
    assert row["unique_bytes"] == 100
    empty = Segment(0, C + 99, ack=S)
    assert kinds(data(0), ack(100), empty)[2] == SegmentKind.KEEP_ALIVE


def test_a_byte_resent_before_its_ack_is_no_keep_alive() -> None:
    """Each keystroke of a terminal is a segment of one byte; losing one must not hide the retransmission."""
    assert again(counted(data(0, 1), data(0, 1)))[0] == 1


def test_a_probe_of_a_closed_window_is_not_a_retransmission() -> None:
    closed, probe = ack(100, window=0), data(100, 1)
    row = counted(data(0), closed, probe, closed, probe, closed, ack(100), data(100))
    assert again(row) == (0, 0, 0, 0)
    assert (row["zero_window_probes"], row["unique_bytes"]) == (2, 200)
    assert counted(data(0), closed, probe, closed, reverse=True)["zero_window_segments"] == 2


def test_the_byte_of_a_probe_that_was_taken_counts() -> None:
    row = counted(data(0), ack(100, window=0), data(100, 1), ack(101), data(101))
    assert (row["unique_bytes"], row["missing_bytes"]) == (201, 0)
    assert counted(data(0), ack(100, window=0), data(100, 1), ack(101), reverse=True)["acks_of_unseen"] == 0


def test_an_empty_probe_of_linux_is_told_by_the_window() -> None:
    probe = Segment(0, C + 99, ack=S)
    row = counted(data(0), ack(100, window=0), probe, ack(100, window=0), probe)
    assert (row["zero_window_probes"], row["keep_alives"]) == (2, 0)


def test_the_window_of_a_rst_does_not_close_anything() -> None:
    """A RST offers a window of 0 by habit."""
    row = counted(data(0), ack(100, flags=RST | ACK, window=0), data(100, 1), reverse=True)
    assert row["zero_window_segments"] == 0
    assert counted(data(0), ack(100, flags=RST | ACK, window=0), data(100, 1))["zero_window_probes"] == 0


def test_duplicate_acks_need_outstanding_data_and_the_same_window() -> None:
    lost = [data(0), data(100), data(200), ack(100)]
    assert counted(*lost, ack(100), ack(100), ack(100), reverse=True)["duplicate_acks"] == 3
    assert counted(*lost, *[ack(100)] * 7, reverse=True)["triple_duplicate_acks"] == 1
    assert counted(data(0), ack(100), ack(100), reverse=True)["duplicate_acks"] == 0
    row = counted(*lost, ack(100, window=2000), ack(100, window=3000), reverse=True)
    assert (row["duplicate_acks"], row["window_updates"]) == (0, 2)


def test_an_old_ack_repeated_is_no_duplicate_ack() -> None:
    row = counted(data(0), data(100), data(200), ack(200), ack(100), ack(100), reverse=True)
    assert row["duplicate_acks"] == 0


def test_three_duplicate_acks_of_each_loss_are_counted_apart() -> None:
    first, second = [ack(100)] * 4, [ack(200)] * 4
    row = counted(data(0), data(100), data(200), data(300), *first, *second, reverse=True)
    assert (row["duplicate_acks"], row["triple_duplicate_acks"]) == (6, 2)


def test_the_same_packet_captured_twice_is_marked() -> None:
    row = counted(data(0, ip_id=7), data(0, ip_id=7), data(100, ip_id=8))
    assert row["capture_duplicates"] == 1
    assert (
        kinds(data(0, ip_id=7), data(0, ip_id=7), data(100, ip_id=8))[1]
        == SegmentKind.DATA | SegmentKind.CAPTURE_DUPLICATE
    )
    resent = kinds(data(0, ip_id=7), data(0, ip_id=9), data(0, ip_id=9))
    assert resent[1] == SegmentKind.DATA | SegmentKind.RETRANSMISSION
    assert resent[2] == SegmentKind.DATA | SegmentKind.CAPTURE_DUPLICATE


def test_an_ack_captured_twice_is_no_duplicate_ack() -> None:
    sent = [data(0), data(100), ack(100, ip_id=4), ack(100, ip_id=4)]
    row = counted(*sent, reverse=True)
    assert (row["duplicate_acks"], row["capture_duplicates"]) == (0, 1)


def test_an_identification_that_never_changes_tells_nothing() -> None:
    same = {"ip_id": 1}
    row = counted(data(0, **same), data(0, **same))
    assert row["capture_duplicates"] == 1  # the handshake has another one
    segments = [Segment(**(s.__dict__ | same)) for s in (*BEGUN, data(0), data(0))]
    assert analyse(capture(segments)).directions["capture_duplicates"].sum() == 0


def test_acks_of_what_the_capture_does_not_hold() -> None:
    row = counted(data(0), ack(100), data(200), ack(300), reverse=True)
    assert row["acks_of_unseen"] == 1
    assert counted(data(0), ack(100), data(200), ack(300))["missing_bytes"] == 100
    assert counted(data(0), ack(500), reverse=True)["acks_of_unseen"] == 1


def test_each_ack_over_a_long_hole_is_one_of_unseen_data() -> None:
    row = counted(data(0), data(400), ack(200), ack(300), ack(400), ack(500), reverse=True)
    assert row["acks_of_unseen"] == 3


def test_an_ack_captured_before_its_data_is_not_one_of_unseen_data() -> None:
    row = counted(ack(100), data(0), reverse=True)
    assert (row["acks_before_data"], row["acks_of_unseen"]) == (1, 0)


def test_one_direction_alone_has_no_acks_of_unseen_data() -> None:
    analysis = analyse(capture([Segment(0, 1, ack=100), Segment(0, 1, ack=900)]))
    assert analysis.directions["acks_of_unseen"].sum() == 0


def test_flight_is_the_highest_end_less_the_highest_ack() -> None:
    assert counted(data(0), data(100), ack(100), data(200), ack(300))["max_flight_bytes"] == 200
    assert counted(data(0), data(100), data(0))["max_flight_bytes"] == 200
    assert counted()["max_flight_bytes"] == 1  # the SYN


def test_flight_may_or_may_not_subtract_what_is_sacked() -> None:
    sacked = ack(100, sack=((C + 200, C + 300),))
    table = analyse(capture([*BEGUN, *(data(100 * i) for i in range(4)), sacked, data(400)])).tcp_segments(1)
    assert table["flight_bytes"][-1] == 400
    assert table["flight_sack_bytes"][-1] == 300
    assert table["flight_bytes"][-2] == 300  # an ACK's row tells of what it acknowledges


def test_a_sacked_byte_is_subtracted_once_and_until_it_is_acknowledged() -> None:
    blocks = ((C + 200, C + 300),)
    segments = [
        *(data(100 * i) for i in range(4)),
        ack(100, sack=blocks),
        ack(100, sack=((C + 200, C + 400), (C + 200, C + 300))),
        ack(300, sack=((C + 300, C + 400),)),
        ack(400),
    ]
    table = analyse(capture([*BEGUN, *segments])).tcp_segments(1)
    assert table["flight_sack_bytes"][-4:].tolist() == [200, 100, 0, 0]
    assert table["flight_bytes"][-4:].tolist() == [300, 300, 100, 0]


def test_sack_and_dsack_are_told_apart() -> None:
    segments = [
        *(data(100 * i) for i in range(6)),
        ack(100, sack=((C + 200, C + 300),)),
        ack(100, sack=((C + 0, C + 50), (C + 200, C + 300))),
        ack(100, sack=((C + 220, C + 250), (C + 200, C + 300))),
        ack(100, sack=((C + 400, C + 500), (C + 200, C + 300))),
    ]
    row = counted(*segments, reverse=True)
    assert (row["sack_segments"], row["dsack_segments"]) == (4, 2)
    blocks = analyse(capture([*BEGUN, *segments])).sack_blocks(1)
    assert blocks["dsack"].tolist() == [False, True, False, True, False, False, False]
    assert blocks["left_bytes"].tolist() == [201, 1, 201, 221, 201, 401, 201]
    assert blocks["right_bytes"].tolist()[0] == 301


def test_options_of_the_handshake_are_kept() -> None:
    options = {"mss": 1400, "scale": 7, "sack": True}
    begun = [
        Segment(0, 1000, flags=SYN, options=options, stamp=(1, 0), window=64000),
        Segment(0, 1000, flags=SYN, options={"mss": 536}, window=64000),
        Segment(1, 5000, flags=SYN | ACK, ack=1001, options={"mss": 1300, "mptcp": True, "scale": 200}),
        Segment(0, 1001, ack=5001, window=300),
        Segment(1, 5001, ack=1001, window=1),
    ]
    forward, reverse = analyse(capture(begun)).directions.rows()
    assert (forward["mss_bytes"], forward["window_scale"], forward["sack_permitted"]) == (1400, 7, True)
    assert (reverse["mss_bytes"], reverse["mptcp"], reverse["window_scale"]) == (1300, True, 200)
    assert (forward["timestamps"], reverse["timestamps"]) == (True, False)
    assert forward["max_window_bytes"] == 64000  # a SYN's window is not scaled; 300 << 7 is less
    assert reverse["max_window_bytes"] == 1 << 14  # no larger shift is used (RFC 7323, 2.3)
    table = analyse(capture(begun)).tcp_segments(1)
    assert table["window_bytes"].tolist() == [64000, 64000, 1000, 300 << 7, 1 << 14]


def test_windows_are_scaled_only_if_both_agree() -> None:
    begun = [
        Segment(0, 1000, flags=SYN, options={"scale": 7}),
        Segment(1, 5000, flags=SYN | ACK, ack=1001),
        Segment(0, 1001, ack=5001, window=300),
    ]
    assert analyse(capture(begun)).tcp_segments(1)["window_bytes"].tolist()[2] == 300
    assert analyse(capture([begun[0], begun[2]])).tcp_segments(1)["window_bytes"].tolist()[1] == 300 << 7


def test_timestamps_are_believed_without_a_syn_if_most_segments_carry_them() -> None:
    stamped = [Segment(0, 1 + i, 1, stamp=(i, 0)) for i in range(3)]
    assert analyse(capture([*stamped, Segment(0, 9, 1)])).directions["timestamps"].tolist() == [True, False]
    assert not analyse(capture([stamped[0], Segment(0, 9, 1)])).directions["timestamps"].any()


def test_times_of_a_direction_are_those_of_its_segments() -> None:
    base = 1_700_000_000_000_000_000
    row = counted(data(0), ack(100), data(100))
    assert (row["first_ns"], row["last_ns"]) == (base, base + 5_000_000)
    assert (row["first_payload_ns"], row["last_payload_ns"]) == (base + 3_000_000, base + 5_000_000)
    silent = counted(data(0), reverse=True)
    assert silent["first_payload_ns"] is None


def test_numbers_of_a_connection_begin_at_zero_and_pass_the_wrap() -> None:
    near_wrap = handshake(2**32 - 50, 2**32 - 2)
    segments = [*near_wrap, Segment(0, 2**32 - 49, 100, ack=2**32 - 1), Segment(1, 2**32 - 1, ack=51)]
    table = analyse(capture(segments)).tcp_segments(1)
    assert table["seq_bytes"].tolist() == [0, 0, 1, 1, 1]
    assert table["end_bytes"].tolist() == [1, 1, 1, 101, 1]
    assert table["ack_bytes"].tolist()[1:] == [1, 1, 1, 101]
    next_rows = [row["ack_bytes"] for row in table.rows()]
    assert next_rows[0] is None  # a SYN acknowledges nothing


def test_without_a_syn_numbers_begin_at_the_lowest_that_either_side_mentions() -> None:
    table = analyse(capture([Segment(0, 900, 100, ack=7), Segment(1, 7, ack=500)])).tcp_segments(1)
    assert table["seq_bytes"].tolist() == [400, 0]
    assert table["ack_bytes"].tolist() == [0, 0]


@pytest.mark.parametrize(("client_ms", "server_ms", "vantage"), [(50, 1, 1), (1, 50, 2), (20, 20, 3)])
def test_the_vantage_is_told_by_how_the_two_directions_share_the_round_trip(
    client_ms: int, server_ms: int, vantage: int
) -> None:
    begun = handshake()
    times = (0, client_ms, client_ms + server_ms)
    timed = [Segment(**(s.__dict__ | {"time_ns": t * 1_000_000})) for s, t in zip(begun, times, strict=True)]
    mirrored = {1: 2, 2: 1, 3: 3}
    assert analyse(capture(timed)).directions["vantage"].tolist() == [vantage, mirrored[vantage]]


def test_every_column_of_a_direction_is_filled() -> None:
    analysis = analyse(capture([*BEGUN, data(0)]))
    assert set(analysis.directions.columns) == set(DIRECTIONS.names)
    assert analysis.directions["connection"].tolist() == [1, 1]
    assert analysis.connections["bulk_direction"].tolist() == [0]


def test_the_vantage_of_a_path_that_was_empty_at_first_is_told_by_its_typical_round_trip() -> None:
    """In one room the first round trip is as short as a host's own; then a queue builds up."""
    segments, times_ms = handshake(), [0.0, 0.06, 0.1]
    for i in range(5):
        segments += [Segment(0, 1001 + i, 1, ack=5001), Segment(1, 5001, ack=1002 + i)]
        times_ms += [50 * i + 1, 50 * i + 31]
    timed = [replace(s, time_ns=int(t * 1e6)) for s, t in zip(segments, times_ms, strict=True)]
    assert analyse(capture(timed)).directions["vantage"].tolist() == [1, 2]
