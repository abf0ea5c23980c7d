"""Each kind of evidence on the smallest capture that has it, and what must not be concluded from others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.analysis import analyse
from multitracer.analysis.segments.segment_class import SegmentClass, classify
from multitracer.analysis.verdicts import (
    Necessity,
    OtherLogs,
    RetransmissionCause,
    VerdictEvidence,
    evidence_words,
    judge,
    word,
)
from multitracer.protocols.sock_diag import ReadBy, TcpCaState, TcpEvent
from multitracer.schemas.sender import JOINED_EVENTS, JOINED_STATE
from multitracer.tables import NA, NOT_A_TIME, Schema, Table
from tests.analysis.judging import proof, said, without_sack, without_stamps
from tests.analysis.test_engine_equals_oracle import exchanges, transfers
from tests.analysis.test_slow_links import MSS, C, S, acked, at, fast_retransmit, opened, sent, slow_handshake, stall
from tests.analysis.traffic import ACK, MS, Segment, capture

NEAR_SENDER = 1


def test_a_stall_makes_a_timeout_spurious_by_timestamps_and_d_sack() -> None:
    assert said(stall()) == [(RetransmissionCause.TIMEOUT, Necessity.SPURIOUS)]
    assert {VerdictEvidence.EIFEL, VerdictEvidence.D_SACK, VerdictEvidence.F_RTO} <= set(proof(stall()))


@pytest.mark.parametrize("strip", [without_stamps, without_sack])
def test_one_kind_of_evidence_is_enough(strip: Any) -> None:
    assert said(strip(stall()))[0][1] is Necessity.SPURIOUS


def test_later_data_acknowledged_apart_prove_it_without_any_option() -> None:
    """F-RTO: the ACK of the resent segment lacks the one behind it, which comes on its own."""
    assert proof(without_stamps(without_sack(stall()))) & VerdictEvidence.F_RTO


def test_fast_retransmission_of_a_lost_segment() -> None:
    assert said(fast_retransmit()) == [(RetransmissionCause.FAST, Necessity.NECESSARY)]
    assert {VerdictEvidence.DUPLICATE_ACKS, VerdictEvidence.HOLE, VerdictEvidence.ECHOED} <= set(
        proof(fast_retransmit())
    )


def test_go_back_n_after_a_timeout() -> None:
    assert said(slow_handshake()) == [
        (RetransmissionCause.TIMEOUT, Necessity.NECESSARY),
        (RetransmissionCause.SLOW_START, Necessity.NECESSARY),
        (RetransmissionCause.SLOW_START, Necessity.NECESSARY),
    ]


def test_a_timer_that_expires_in_a_recovery_is_told_from_the_ack_just_before_it() -> None:
    """A recovery without SACK resends a segment once, so no duplicate ACK can have caused the second time."""
    exchange = [
        *opened(600),
        *(sent(600, k) for k in range(8)),
        acked(1200, 1, echo=600),
        *(acked(1200 + k, 1, echo=600) for k in (1, 2, 3)),
        sent(1203, 1),
        *(acked(3600 + k, 1, echo=600) for k in (1, 2)),
        sent(3602.5, 1),
        acked(4300, 8, echo=3602),
    ]
    assert [cause for cause, _ in said(without_sack(exchange))] == [
        RetransmissionCause.FAST,
        RetransmissionCause.TIMEOUT,
    ]


def lost_ack() -> list[Segment]:
    """The only segment arrives, its ACK does not; the copy is acknowledged with a D-SACK."""
    return [
        *opened(600),
        sent(600, 0),
        acked(1200, 1, echo=600),
        sent(1200, 1),
        sent(2600, 1),
        acked(3200, 2, echo=1200, sack=((C + MSS, C + 2 * MSS),)),
    ]


def test_a_lost_ack_is_not_a_late_one() -> None:
    assert said(lost_ack())[0][1] is Necessity.ACK_LOST
    assert said(without_sack(lost_ack()))[0][1] is Necessity.ACK_LOST


def copy_behind_the_edge(*, above: bool) -> list[Segment]:
    """RTT 600 ms; the host refuses segment 2 and sends it anew; one delayed ACK covers it and segment 1."""
    return [
        *opened(600),
        sent(600, 0),
        acked(1200, 1, echo=600),
        sent(1200, 1),
        sent(1201, 2),
        *([sent(1202, 3)] if above else []),
        sent(1204, 2),
        acked(1900, 4 if above else 3, echo=1200),
        *([acked(1903, 4, echo=1200)] if above else []),
    ]


def test_the_echo_of_a_delayed_ack_says_nothing_of_a_copy_behind_the_left_edge() -> None:
    """RFC 7323, 4.3: the ACK echoes segment 1 whichever copy of segment 2 came with it."""
    assert said(copy_behind_the_edge(above=False)) == [(RetransmissionCause.LOCAL_DROP, Necessity.NECESSARY)]
    assert not proof(copy_behind_the_edge(above=False)) & VerdictEvidence.EIFEL


def test_no_ack_is_delayed_behind_a_hole_so_the_echo_tells_again() -> None:
    """Had segment 2 been missing when segment 3 came, that would have been acknowledged at once."""
    assert said(copy_behind_the_edge(above=True))[0][1] is Necessity.SPURIOUS
    assert proof(copy_behind_the_edge(above=True)) & VerdictEvidence.EIFEL


def test_an_ack_sooner_than_the_shortest_round_trip_answers_the_first_copy() -> None:
    early = [*opened(600), sent(600, 0), acked(1200, 1, echo=600), sent(1200, 1), sent(2600, 1), acked(2700, 2, echo=0)]
    assert said(without_stamps(early))[0][1] is Necessity.SPURIOUS
    assert proof(without_stamps(early)) & VerdictEvidence.EARLY_ACK


def test_without_an_answer_nothing_is_decided() -> None:
    unanswered = [*opened(600), sent(600, 0), sent(2000, 0)]
    assert said(unanswered) == [(RetransmissionCause.TIMEOUT, Necessity.UNDECIDED)]
    assert proof(unanswered) & VerdictEvidence.NO_ANSWER


def test_an_ack_that_the_sender_ignored_counts_as_lost() -> None:
    """With header compression a damaged ACK passes the capture, not the checksum."""
    ignored = [*opened(600), sent(600, 0), acked(1200, 1, echo=600), sent(2600, 0), acked(3200, 1, echo=600)]
    assert said(ignored)[0][1] is Necessity.ACK_LOST
    assert proof(ignored) & VerdictEvidence.ACK_IGNORED


def test_an_echo_that_is_the_earlier_copy_s_too_tells_of_neither() -> None:
    """A clock that ticks every 500 ms: both copies carry the same timestamp."""
    coarse = [*opened(600), sent(600, 0), sent(601, 1), sent(900, 0), acked(1500, 2, echo=1)]
    coarse = [replace(s, stamp=(1, s.stamp[1])) if s.side == 0 and s.stamp else s for s in coarse]
    assert not proof(coarse) & (VerdictEvidence.ECHOED | VerdictEvidence.EIFEL)


# --- what beside the capture is known ---


def test_the_receiver_s_trace_decides() -> None:
    """At the receiver the first copy of the stalled segment is there, or it is not."""
    plain = without_stamps(without_sack(lost_ack()))
    numbered = [replace(s, ip_id=i + 1) for i, s in enumerate(plain)]
    arrived = analyse(capture(numbered)).tcp_segments(1)
    assert said(numbered, receiver=arrived)[0][1] is Necessity.ACK_LOST
    first_copy = next(i for i, s in enumerate(numbered) if s.payload and s.seq == C + MSS)
    lost = analyse(capture([s for i, s in enumerate(numbered) if i != first_copy])).tcp_segments(1)
    assert said(numbered, receiver=lost)[0][1] is Necessity.NECESSARY
    assert proof(numbered, receiver=lost) & VerdictEvidence.RECEIVER


def test_of_copies_that_look_alike_at_the_receiver_the_first_was_lost() -> None:
    """IPv6 without timestamps: the one that arrived is too late to be the first copy."""
    alike = without_stamps(without_sack(lost_ack()))
    assert not any(s.ip_id for s in alike)
    assert said(alike, receiver=analyse(capture(alike)).tcp_segments(1))[0][1] is Necessity.ACK_LOST
    first_copy = next(i for i, s in enumerate(alike) if s.payload and s.seq == C + MSS)
    lost = analyse(capture([s for i, s in enumerate(alike) if i != first_copy])).tcp_segments(1)
    assert said(alike, receiver=lost)[0][1] is Necessity.NECESSARY


@pytest.mark.parametrize(("fate", "necessity"), [(1, Necessity.ACK_LOST), (0, Necessity.NECESSARY)])
def test_the_link_s_log_decides(fate: int, necessity: Necessity) -> None:
    plain = without_stamps(without_sack(lost_ack()))
    arrived = np.array([fate if s.side == 0 else NA for s in plain], dtype=np.int8)
    assert said(plain, arrived=arrived)[0][1] is necessity
    assert proof(plain, arrived=arrived) & VerdictEvidence.LINK_LOG


def table(schema: Schema, rows: list[dict[str, Any]]) -> Table:
    columns = {}
    for column in schema:
        nothing = NOT_A_TIME if column.unit.startswith("ns") else NA if column.na else 0
        zero = b"" if column.dtype[0] == "V" else "" if column.dtype[0] == "U" else nothing
        columns[column.name] = np.array([row.get(column.name, zero) for row in rows], dtype=column.dtype)
    return Table(schema, columns)


def event(ms: float, **what: Any) -> dict[str, Any]:
    return {"time_ns": int(ms * MS), "connection": 1} | what


@pytest.mark.parametrize(
    ("ca_state", "cause"),
    [
        (TcpCaState.LOSS, RetransmissionCause.TIMEOUT),
        (TcpCaState.RECOVERY, RetransmissionCause.FAST),
        (TcpCaState.OPEN, RetransmissionCause.TAIL_LOSS_PROBE),
    ],
)
def test_the_kernel_s_congestion_state_tells_the_cause(ca_state: TcpCaState, cause: RetransmissionCause) -> None:
    events = table(
        JOINED_EVENTS,
        [
            event(2299.99, event=TcpEvent.CA_STATE, ca_state=ca_state),
            event(2300.01, event=TcpEvent.RETRANSMISSION, left_host=1),
        ],
    )
    assert said(stall(), events=events)[0][0] is cause
    assert {VerdictEvidence.CA_STATE, VerdictEvidence.KERNEL_EVENT} <= set(proof(stall(), events=events))


def test_a_copy_that_the_kernel_could_not_hand_over_is_a_local_drop() -> None:
    assert said(fast_retransmit())[0][0] is RetransmissionCause.FAST
    refused = table(JOINED_EVENTS, [event(1234.01, event=TcpEvent.RETRANSMISSION, left_host=0)])
    assert said(fast_retransmit(), events=refused)[0][0] is RetransmissionCause.LOCAL_DROP


def cut() -> list[Segment]:
    """The first two of four segments are lost, and resent together after a timeout."""
    return [
        *opened(600),
        *(sent(600, k) for k in range(4)),
        acked(1200, 1, echo=600),
        sent(2600, 1),
        sent(2601, 2),
        acked(3200, 4, echo=2601),
    ]


@pytest.mark.parametrize(
    ("reports", "second"),
    [
        ([(2601.02, 1)], RetransmissionCause.SLOW_START),
        ([(2600.02, 1), (2601.02, 0)], RetransmissionCause.LOCAL_DROP),
        ([(2600.02, 1), (2640, 1)], RetransmissionCause.SLOW_START),
        ([(2600.02, 1), (2740, 1)], RetransmissionCause.LOCAL_DROP),
    ],
    ids=["one for both", "one each", "late", "of another packet"],
)
def test_a_report_is_of_all_segments_that_were_cut_from_it(
    reports: list[tuple[float, int]], second: RetransmissionCause
) -> None:
    """A host that was held writes it late; segments of one retransmission are sent one after the other."""
    changes = event(2599.99, event=TcpEvent.CA_STATE, ca_state=TcpCaState.LOSS)
    resent = [event(ms, event=TcpEvent.RETRANSMISSION, left_host=left) for ms, left in reports]
    events = table(JOINED_EVENTS, [changes, *resent])
    assert [cause for cause, _ in said(cut(), events=events)] == [RetransmissionCause.TIMEOUT, second]


def test_a_segment_that_the_host_refused_is_no_retransmission_of_tcp() -> None:
    """The newest segment again on an ACK of something else, though nothing asked for it (Linux, tun ring)."""
    refused = [
        *opened(600),
        sent(600, 0),
        sent(601, 1),
        acked(1200, 1, echo=600),
        sent(1200.1, 1),
        acked(1800, 2, echo=1200),
    ]
    assert said(refused) == [(RetransmissionCause.LOCAL_DROP, Necessity.NECESSARY)]
    assert proof(refused) & VerdictEvidence.UNASKED


def test_a_window_that_collapses_tells_of_a_timeout() -> None:
    """A log without congestion state: siftr, or ss."""
    readings = [(2000, 10), (2310, 1)]
    state = table(
        JOINED_STATE,
        [{"time_ns": ms * MS, "method": ReadBy.SS, "cwnd_segments": cwnd, "connection": 1} for ms, cwnd in readings],
    )
    assert said(stall(), state=state)[0][0] is RetransmissionCause.TIMEOUT
    assert proof(stall(), state=state) & VerdictEvidence.CWND_DROP


# --- classes ---


def test_at_the_sender_what_fills_a_hole_was_sent_before() -> None:
    """The capture missed the first copy."""
    missed = [*opened(600), sent(600, 0), sent(601, 2), acked(1200, 1, echo=600), sent(1800, 1)]
    segments = analyse(capture(missed)).tcp_segments(1)
    kinds = [SegmentClass(k) for k in classify(segments, at_sender=(True, False)).tolist()]
    assert kinds[-1] is SegmentClass.RETRANSMISSION
    assert SegmentClass(classify(segments, at_sender=(False, False))[-1]) is SegmentClass.OUT_OF_ORDER
    assert proof(missed) & VerdictEvidence.FIRST_COPY_UNSEEN


def test_a_syn_sent_again_is_a_retransmission_by_the_timer() -> None:
    resent = [at(0, 0, C - 1, flags=2, ack=0), at(1000, 0, C - 1, flags=2, ack=0), *opened(600)[1:]]
    resent[2:] = [at(1600, 1, S - 1, flags=2 | ACK, ack=C, echo=1000), at(1600, 0, C)]
    assert said(resent)[0][0] is RetransmissionCause.TIMEOUT


def test_words_are_those_of_the_files() -> None:
    assert [word(cause) for cause in RetransmissionCause] == [
        "unknown", "timeout", "slow-start", "fast", "tail-loss-probe", "local-drop",
    ]  # fmt: skip
    assert [word(necessity) for necessity in Necessity] == ["undecided", "necessary", "spurious", "ack-lost"]
    assert evidence_words(VerdictEvidence.EIFEL | VerdictEvidence.D_SACK) == "d-sack+eifel"


# --- whatever a capture holds ---


@given(st.one_of(exchanges(), transfers()), st.booleans(), st.booleans())
def test_every_retransmission_of_a_hostile_capture_has_one_verdict(
    segments: list[Segment], stamped: bool, reverse: bool
) -> None:
    if stamped:
        segments = [replace(s, stamp=(i // 3, i // 5)) for i, s in enumerate(segments)]
    analysis = analyse(capture(segments))
    for number in range(1, len(analysis.connections) + 1):
        table, sacks = analysis.tcp_segments(number), analysis.sack_blocks(number)
        fates = np.resize(np.array([1, 0, NA], dtype=np.int8), len(table))
        for beside in (OtherLogs(), OtherLogs(receiver=table), OtherLogs(arrived=fates)):
            found = judge(table, sacks, reverse=reverse, vantage=NEAR_SENDER, logs=beside)
            kind = classify(table, at_sender=(True, True))
            resent = (kind == SegmentClass.RETRANSMISSION) & (table["reverse"] == reverse)
            assert found["row"].tolist() == np.flatnonzero(resent).tolist()
            assert (found["earlier_row"] < found["row"]).all()
