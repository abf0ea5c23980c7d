"""Three sender captures on which today's tools mislead: a stall, a long path, a slow handshake.

Wireshark calls the retransmissions of the second and third "out of order" (they come within its initial RTT)
and measures RTT from the first copy; tcptrace drops the samples of the stall. At a sender nothing can be out
of order, and timestamps say which copy was answered.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from multitracer.analysis import Analysis, analyse
from multitracer.analysis.series.rtt import LINUX, Provenance, reconstruct_rto
from multitracer.schemas.tcp import RTT_SAMPLES
from multitracer.tables import Table
from tests.analysis.traffic import ACK, MS, SYN, Segment, capture

C, S = 1001, 5001
MSS = 1000


def at(ms: float, side: int, seq: int, payload: int = 0, **how: Any) -> Segment:
    """Return a segment at a time in ms; the sender's timestamps tick in ms, the receiver's stand at 1."""
    echo = how.pop("echo", 0)
    stamp = (int(ms), 1) if side == 0 else (1, echo)
    return Segment(side, seq, payload, time_ns=int(ms * MS), stamp=stamp, **{"flags": ACK, "ack": S, **how})


def opened(rtt_ms: int) -> list[Segment]:
    return [at(0, 0, C - 1, flags=SYN, ack=0), at(rtt_ms, 1, S - 1, flags=SYN | ACK, ack=C, echo=0), at(rtt_ms, 0, C)]


def sent(ms: float, number: int) -> Segment:
    return at(ms, 0, C + number * MSS, MSS)


def acked(ms: float, number: int, *, echo: int, **how: Any) -> Segment:
    return at(ms, 1, S, ack=C + number * MSS, echo=echo, **how)


def samples_ms(analysis: Analysis, provenance: Provenance) -> list[float]:
    table = analysis.rtt_samples(1)
    mine = (table["provenance"] == provenance) & ~table["reverse"]
    return (table["rtt_ns"][mine] / MS).tolist()


def stall() -> list[Segment]:
    """RTT 600 ms; at 1.2 s the link holds everything for 4 s; the timer resends segment 1 in vain."""
    return [
        *opened(600),
        sent(600, 0),
        acked(1200, 1, echo=600),
        sent(1200, 1),
        sent(1201, 2),
        sent(2300, 1),  # the retransmission timer
        acked(5200, 2, echo=1200),
        acked(5201, 3, echo=1201),
        acked(5900, 3, echo=1201, sack=((C + MSS, C + 2 * MSS),)),
    ]


def test_the_stall_shows_as_a_round_trip_of_four_seconds() -> None:
    analysis = analyse(capture(stall()))
    assert samples_ms(analysis, Provenance.TIMESTAMP) == [600, 600, 4000, 4000]
    assert samples_ms(analysis, Provenance.EXACT_ACK) == [600, 600]  # Karn cannot tell which copy was answered
    assert np.nanmax(analysis.tcp_segments(1).to_pandas()["rtt_timestamp_ns"].astype(float)) == 4000 * MS


def test_a_dsack_says_that_the_retransmission_of_the_stall_was_not_needed() -> None:
    forward, reverse = analyse(capture(stall())).directions.rows()
    assert (forward["retransmitted_segments"], forward["out_of_order"]) == (1, 0)
    assert reverse["dsack_segments"] == 1


def fast_retransmit() -> list[Segment]:
    """RTT 600 ms; segment 1 is lost and sent again 30 ms after the third duplicate ACK."""
    return [
        *opened(600),
        *(sent(600 + i, i) for i in range(6)),
        acked(1200, 1, echo=600),
        *(acked(1202 + i, 1, echo=600, sack=((C + 2 * MSS, C + (3 + i) * MSS),)) for i in range(4)),
        sent(1234, 1),
        acked(1834, 6, echo=1234),
    ]


def test_a_fast_retransmission_on_a_long_path_is_not_out_of_order() -> None:
    analysis = analyse(capture(fast_retransmit()))
    forward, reverse = analysis.directions.rows()
    assert (forward["retransmitted_segments"], forward["out_of_order"]) == (1, 0)
    assert (reverse["duplicate_acks"], reverse["triple_duplicate_acks"]) == (4, 1)


def test_the_round_trip_after_a_loss_is_that_of_the_copy_that_was_answered() -> None:
    analysis = analyse(capture(fast_retransmit()))
    assert samples_ms(analysis, Provenance.TIMESTAMP)[-1] == 600
    assert samples_ms(analysis, Provenance.SACK) == [600, 600, 600, 600]
    assert max(samples_ms(analysis, Provenance.EXACT_ACK)) == 600  # 600 + 634 ms would be from the first copy


def slow_handshake() -> list[Segment]:
    """The handshake takes 2.5 s (the radio channel is set up); RTT is 600 ms; the timer fires after 1 s."""
    return [
        *opened(2500),
        *(sent(2500 + i, i) for i in range(3)),
        sent(3500, 0),
        acked(4100, 1, echo=3500),
        sent(4100, 1),
        sent(4101, 2),
        acked(4700, 2, echo=4100),
        acked(4701, 3, echo=4101),
    ]


def test_timeouts_within_the_handshake_time_are_retransmissions() -> None:
    analysis = analyse(capture(slow_handshake()))
    forward, _ = analysis.directions.rows()
    assert (forward["retransmitted_segments"], forward["out_of_order"]) == (3, 0)
    assert samples_ms(analysis, Provenance.TIMESTAMP) == [2500, 600, 600, 600]
    assert samples_ms(analysis, Provenance.EXACT_ACK) == [2500]


def test_a_sample_names_the_two_segments_it_lies_between() -> None:
    table = analyse(capture(slow_handshake())).rtt_samples(1)
    segments = analyse(capture(slow_handshake())).tcp_segments(1)
    difference = segments["time_ns"][table["answer_row"]] - segments["time_ns"][table["row"]]
    assert difference.tolist() == table["rtt_ns"].tolist()
    assert (segments["time_ns"][table["answer_row"]] == table["time_ns"]).all()


def test_the_timer_is_reconstructed_by_the_book() -> None:
    """RFC 6298, sections 2.2 and 2.3, by hand: samples of 100, 200 and 100 ms."""
    segments = [
        *opened(100),
        *(s for i in range(2) for s in (sent(1000 * i + 100, i), acked(1000 * i + (300, 200)[i], i + 1, echo=0))),
    ]
    table = analyse(capture(segments)).rtt_samples(1)
    exact = table.take((table["provenance"] == Provenance.EXACT_ACK) & ~table["reverse"])
    states = reconstruct_rto(exact)
    np.testing.assert_allclose(states["srtt_ns"] / MS, [100, 112.5, 110.9375])
    np.testing.assert_allclose(states["rttvar_ns"] / MS, [50, 62.5, 50])
    np.testing.assert_allclose(states["rto_ns"] / MS, [1000, 1000, 1000])
    np.testing.assert_allclose(reconstruct_rto(exact, profile=LINUX)["rto_ns"] / MS, [300, 362.5, 310.9375])
    assert "reconstructed" in states.provenance


def test_samples_of_a_clock_that_went_back_are_passed_over_by_the_timer() -> None:
    table = analyse(capture([*opened(100), sent(200, 0), acked(150, 1, echo=0)])).rtt_samples(1)
    exact = table.take((table["provenance"] == Provenance.EXACT_ACK) & ~table["reverse"])
    assert (exact["rtt_ns"] / MS).tolist() == [100, -50]
    assert (reconstruct_rto(exact)["rtt_ns"] / MS).tolist() == [100]


def test_many_samples_are_smoothed_as_one_after_the_other() -> None:
    """RFC 6298, section 2.3, sample after sample, through the places where the arithmetic is cut in runs."""
    rtt_ns = np.random.default_rng(1).gamma(2, 5e7, 1_000).astype(np.int64)
    none = np.zeros(len(rtt_ns), dtype=np.int64)
    columns = {"time_ns": none, "reverse": none > 0, "row": none, "answer_row": none, "rtt_ns": rtt_ns,
               "provenance": none.astype(np.uint8)}  # fmt: skip
    states = reconstruct_rto(Table(RTT_SAMPLES, columns))
    srtt, rttvar = float(rtt_ns[0]), rtt_ns[0] / 2
    expected = [(srtt, rttvar)]
    for sample in rtt_ns[1:].tolist():
        rttvar = 3 / 4 * rttvar + abs(srtt - sample) / 4
        srtt = 7 / 8 * srtt + sample / 8
        expected.append((srtt, rttvar))
    found = np.column_stack([states["srtt_ns"], states["rttvar_ns"]])
    np.testing.assert_allclose(found, expected, rtol=1e-12)
