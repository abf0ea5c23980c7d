"""The numbers of a summary, each from a few packets or events made by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.captured import Flag
from multitracer.lab.scenario.summary import LinkMeter, RunningFit, TransferMeter
from multitracer.lab.tcp.packet import Segment, TcpPacket
from multitracer.protocols.link_events import (
    FrameSent,
    PeerBusy,
    PeerReady,
    ResetDone,
    ResetStarted,
    XoffReceived,
    XonReceived,
)
from multitracer.units import NS_PER_S

A, B = (bytes([10, 0, 0, 1]), 1025), (bytes([10, 0, 0, 2]), 80)
ISN = 2**32 - 500


def data(first: int, size: int = 100, *, flags: Flag = Flag.ACK, checksum_ok: bool = True) -> TcpPacket:
    segment = Segment(A[1], B[1], (ISN + 1 + first) % 2**32, 1, flags, 8192, bytes(size))
    return TcpPacket(A[0], B[0], segment, checksum_ok=checksum_ok)


def syn() -> TcpPacket:
    return TcpPacket(A[0], B[0], Segment(A[1], B[1], ISN, 0, Flag.SYN, 8192))


def ack(number: int) -> TcpPacket:
    return TcpPacket(B[0], A[0], Segment(B[1], A[1], 1, (ISN + 1 + number) % 2**32, Flag.ACK, 8192))


def at_sender(*seen: tuple[float, TcpPacket]) -> TransferMeter:
    meter = TransferMeter(A, B)
    meter.at_sender(syn(), now_ns=0)
    for seconds, packet in seen:
        meter.at_sender(packet, now_ns=int(seconds * NS_PER_S))
    return meter


def rtt_s(meter: TransferMeter) -> float | None:
    return None if meter.max_rtt_ns is None else meter.max_rtt_ns / NS_PER_S


def test_the_largest_round_trip_is_that_of_an_exact_ack() -> None:
    assert rtt_s(at_sender((1, data(0)), (2, ack(100)), (3, data(100)), (6, ack(200)))) == 3
    assert rtt_s(at_sender((1, data(0)), (2, ack(50)))) is None


def test_the_ack_of_two_segments_times_the_second() -> None:
    assert rtt_s(at_sender((1, data(0)), (3, data(100)), (5, ack(200)))) == 2


def test_a_retransmitted_segment_is_not_timed() -> None:
    assert rtt_s(at_sender((1, data(0)), (5, data(0)), (6, ack(100)))) is None


def test_what_was_out_when_a_hole_opened_is_not_timed() -> None:
    seen = (1, data(0)), (1, data(100)), (5, data(0)), (6, ack(200))
    assert rtt_s(at_sender(*seen)) is None


def test_what_is_sent_behind_a_hole_is_not_timed_until_it_is_closed() -> None:
    seen = (1, data(0)), (1, data(100)), (5, data(0)), (5.5, data(200)), (9, ack(300))
    assert rtt_s(at_sender(*seen)) is None
    assert rtt_s(at_sender(*seen, (10, data(300)), (10.5, ack(400)))) == 0.5


def test_the_syn_is_timed_too() -> None:
    assert rtt_s(at_sender((2, ack(0)))) == 2


def test_an_ack_with_a_wrong_checksum_is_none() -> None:
    wrong = ack(100)
    wrong.checksum_ok = False
    assert rtt_s(at_sender((1, data(0)), (2, wrong))) is None


def test_goodput_counts_each_byte_once_from_the_syn_to_the_last_new_byte() -> None:
    meter = at_sender((1, data(0, 1_000)), (1, data(1_000, 1_000)))
    for seconds, packet in ((2, data(0, 1_000)), (4, data(1_000, 1_000)), (9, data(0, 1_000))):
        meter.at_receiver(packet, now_ns=seconds * NS_PER_S)
    assert meter.goodput_bytes_per_s == 500


def test_the_longest_hole_lies_between_two_intact_arrivals_of_new_data() -> None:
    meter = at_sender((1, data(0)))
    seen = ((2, data(0)), (3, data(0)), (4, data(100, checksum_ok=False)), (7, data(100)), (8, data(200)))
    for seconds, packet in seen:
        meter.at_receiver(packet, now_ns=seconds * NS_PER_S)
    assert meter.longest_hole_ns == 5 * NS_PER_S
    assert meter.checksum_errors == 1


def test_another_connection_does_not_count() -> None:
    meter = at_sender()
    other = data(0)
    other.segment.source_port = 9
    meter.at_sender(other, now_ns=1)
    meter.at_receiver(other, now_ns=2)
    assert (meter.goodput_bytes_per_s, meter.longest_hole_ns) == (None, None)


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(-10_000, 10_000)), min_size=2, max_size=50))
def test_the_slope_is_that_of_least_squares(points: list[tuple[int, int]]) -> None:
    line = RunningFit()
    for x, y in points:
        line.add(x, y)
    x, y = np.array(points, dtype=float).T
    if len(set(x)) < 2:
        assert line.slope is None
    else:
        assert line.slope == pytest.approx(np.polyfit(x - x[0], y, 1)[0], rel=1e-6, abs=1e-6)


def link(*events: tuple[str, object]) -> LinkMeter:
    meter = LinkMeter("mobile")
    for side, event in events:
        meter.note(side, event)  # type: ignore[arg-type]
    return meter


def sent(seconds: float, offset: int, *, attempt: int = 1) -> FrameSent:
    return FrameSent(int(seconds * NS_PER_S), 0, bytes(30), offset, attempt)


def test_the_rlp_slope_takes_first_transmissions_of_the_data_sender() -> None:
    meter = link(
        *(("mobile", sent(t, 960 * t)) for t in range(5)), ("mobile", sent(2, 0, attempt=2)), ("fixed", sent(3, 10))
    )
    assert meter.rlp.slope == pytest.approx(960)
    assert meter.retransmissions == 1


@pytest.mark.parametrize(("stop", "go"), [(XoffReceived, XonReceived), (PeerBusy, PeerReady)])
def test_a_gap_lasts_from_the_stop_to_the_go_ahead(stop: type, go: type) -> None:
    meter = link(("mobile", stop(1, 0)), ("mobile", go(5, 0)), ("fixed", stop(6, 0)), ("fixed", go(9, 0)))
    assert meter.xoff_gaps_ns == [4]


def test_a_reset_ends_a_gap() -> None:
    meter = link(("mobile", XoffReceived(1, 0)), ("mobile", ResetStarted(3, 0, "n2")))
    assert meter.xoff_gaps_ns == [2]


def test_both_ends_of_a_reset_are_one_reset() -> None:
    one = (
        ("mobile", ResetStarted(1, 0, "n2")),
        ("fixed", ResetStarted(2, 0, "peer")),
        ("fixed", ResetDone(2, 0)),
        ("mobile", ResetDone(3, 0)),
    )
    assert link(*one).resets == 1
    assert link(*one, *one).resets == 2
