"""Phases of a sender, from its variables and from its packets alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given

from multitracer.analysis import analyse
from multitracer.analysis.sender_state import TcpPhase, phases_of_packets, phases_of_state, with_ca_state
from multitracer.protocols.sock_diag import ReadBy, TcpCaState
from tests.analysis.test_engine_equals_oracle import exchanges
from tests.analysis.test_tcp_state import S, capture, change, events_of, joined, probe, reading
from tests.analysis.traffic import MS, START_NS, Segment, handshake
from tests.analysis.traffic import capture as traffic

if TYPE_CHECKING:
    from multitracer.tables import Table

MSS = 100
CLIENT, SERVER = 1001, 5001
RTT_MS = 100


def shown(phases: Table, *, since_ns: int = 0, unit_ns: int = S) -> list[tuple[float, TcpPhase]]:
    begin = (phases["begin_ns"] - since_ns) / unit_ns
    return list(zip(begin.tolist(), map(TcpPhase, phases["phase"].tolist()), strict=True))


def of_rows(*rows: dict[str, Any]) -> Table:
    return phases_of_state(joined(list(rows), capture((1, 99))))


def test_window_below_the_threshold_is_slow_start() -> None:
    known: dict[str, Any] = {"cookie": 7, "ca_state": TcpCaState.OPEN}
    phases = of_rows(
        reading(1, cwnd_segments=10, **known),
        reading(2, cwnd_segments=20, ssthresh_segments=30, **known),
        reading(3, cwnd_segments=30, ssthresh_segments=30, **known),
        reading(4, cwnd_segments=31, ssthresh_segments=30, **known),
    )
    assert shown(phases) == [(1, TcpPhase.SLOW_START), (3, TcpPhase.CONGESTION_AVOIDANCE)]
    assert phases["begin_after_ns"].tolist() == [1 * S, 2 * S]
    assert phases["end_ns"].tolist() == [3 * S, 4 * S]
    assert not phases["reconstructed"].any()


@pytest.mark.parametrize(
    ("ca_state", "phase"),
    [(TcpCaState.CWR, TcpPhase.REDUCTION), (TcpCaState.RECOVERY, TcpPhase.RECOVERY), (TcpCaState.LOSS, TcpPhase.LOSS)],
)
def test_congestion_state_counts_more_than_the_window(ca_state: TcpCaState, phase: TcpPhase) -> None:
    rows = [
        reading(at, cookie=7, cwnd_segments=5, ssthresh_segments=9, ca_state=state)
        for at, state in enumerate((TcpCaState.DISORDER, ca_state, TcpCaState.OPEN))
    ]
    assert [found for _, found in shown(of_rows(*rows))] == [TcpPhase.SLOW_START, phase, TcpPhase.SLOW_START]


def test_reading_without_congestion_state_is_marked() -> None:
    phases = of_rows(reading(1, method=ReadBy.SIFTR, cwnd_bytes=5000, ssthresh_bytes=9000))
    assert shown(phases) == [(1, TcpPhase.SLOW_START)]
    assert phases["reconstructed"].all()


def test_reading_without_congestion_state_does_not_contradict_one_that_has_it() -> None:
    recovery = reading(2, cookie=7, cwnd_segments=5, ssthresh_segments=5, ca_state=TcpCaState.RECOVERY)
    later = recovery | {name: recovery[name] + S for name in ("time_ns", "read_before_ns", "read_after_ns")}
    traced = [probe(at, cwnd_segments=5, ssthresh_segments=5) for at in (2.2, 2.4, 2.6)]
    assert shown(of_rows(recovery, *traced, later)) == [(2, TcpPhase.RECOVERY)]


def test_reading_without_window_shows_nothing() -> None:
    assert len(of_rows(reading(1, cookie=7), reading(2, cookie=7, srtt_ns=5))) == 0


def test_timeout_between_two_records_begins_the_loss() -> None:
    tables = capture((1, 99))
    state = joined([probe(2, cwnd_segments=20), probe(3, cwnd_segments=21), probe(9, cwnd_segments=1)], tables)
    events = events_of(tables, change(5, TcpCaState.LOSS))
    phases = phases_of_state(with_ca_state(state, events), events=events)
    assert shown(phases) == [(2, TcpPhase.SLOW_START), (5, TcpPhase.LOSS)]


def data(at_ms: float, number: int) -> Segment:
    """Segment `number`, from 0, sent by the client."""
    at = START_NS + round(at_ms * MS)
    return Segment(0, CLIENT + number * MSS, MSS, ack=SERVER, time_ns=at)


def ack(at_ms: float, count: int, *, sack: int | None = None) -> Segment:
    """Acknowledge `count` segments; `sack` names one beyond a hole."""
    left = CLIENT + MSS * (sack or 0)
    blocks = () if sack is None else ((left, left + MSS),)
    return Segment(1, SERVER, ack=CLIENT + count * MSS, time_ns=START_NS + round(at_ms * MS), sack=blocks)


def of_packets(*segments: Segment) -> list[tuple[float, TcpPhase]]:
    opening = [replace(segment, time_ns=START_NS - MS) for segment in handshake()]
    analysis = analyse(traffic([*opening, *sorted(segments, key=lambda s: s.time_ns or 0)]))
    phases = phases_of_packets(analysis.tcp_segments(1), reverse=False)
    assert phases["reconstructed"].all()
    return shown(phases, since_ns=START_NS, unit_ns=MS)


def rounds(*sizes: int) -> list[Segment]:
    """Send each round's segments at once, each acknowledged after a round trip."""
    segments, number = [], 0
    for turn, size in enumerate(sizes):
        for i in range(size):
            segments.append(data(turn * RTT_MS + i * 0.01, number))
            number += 1
            segments.append(ack((turn + 1) * RTT_MS - 1 + i * 0.01, number))
    return segments


def test_doubling_per_round_trip_is_slow_start_until_it_ceases() -> None:
    (_, first), (since, second) = of_packets(*rounds(2, 4, 8, 16, 17, 18, 19, 20))
    assert (first, second) == (TcpPhase.SLOW_START, TcpPhase.CONGESTION_AVOIDANCE)
    assert 3 * RTT_MS < since < 5 * RTT_MS


def test_retransmission_upon_duplicate_acks_is_recovery_until_all_is_acknowledged() -> None:
    opening = rounds(4)
    lost = [data(200 + n, n) for n in range(4, 10)]
    duplicates = [ack(300 + n, 4, sack=n) for n in range(5, 10)]
    again = data(303.1 + 4, 4)
    found = of_packets(*opening, *lost, *duplicates, again, ack(420, 10), data(421, 10), ack(521, 11))
    assert found[1:] == [(pytest.approx(307.1), TcpPhase.RECOVERY), (420, TcpPhase.CONGESTION_AVOIDANCE)]


def test_retransmission_after_silence_is_loss_then_slow_start_up_to_half() -> None:
    opening = rounds(8)
    lost = [data(200 + n, n) for n in range(8, 16)]
    again = [data(1500, 8), data(1601, 9)]
    after = [ack(1600, 9), ack(1700, 16), data(1701, 16), ack(1801, 17)]
    after += [data(1802 + n / 10, 17 + n) for n in range(6)]
    found = of_packets(*opening, *lost, *again, *after, ack(1999, 23))
    assert [phase for _, phase in found[1:]] == [TcpPhase.LOSS, TcpPhase.SLOW_START, TcpPhase.CONGESTION_AVOIDANCE]
    assert [at for at, _ in found[1:3]] == [1500, 1700]


def test_silence_within_recovery_is_loss() -> None:
    lost = [data(200 + n, n) for n in range(4, 10)]
    duplicates = [ack(300 + n, 4, sack=n) for n in range(5, 10)]
    found = of_packets(*rounds(4), *lost, *duplicates, data(307.1, 4), data(1900, 4), ack(2000, 10))
    assert [phase for _, phase in found[1:3]] == [TcpPhase.RECOVERY, TcpPhase.LOSS]


def test_direction_without_data_has_no_phases() -> None:
    analysis = analyse(traffic([data(0, 0), ack(100, 1)]))
    assert len(phases_of_packets(analysis.tcp_segments(1), reverse=True)) == 0


@given(exchanges())
def test_phases_of_any_packets_follow_each_other(segments: list[Segment]) -> None:
    analysis = analyse(traffic(segments))
    for connection in analysis.connections["connection"]:
        for reverse in (False, True):
            phases = phases_of_packets(analysis.tcp_segments(int(connection)), reverse=reverse)
            assert (phases["end_ns"][:-1] == phases["begin_ns"][1:]).all()
            assert (np.diff(phases["begin_ns"]) >= 0).all()
            assert (phases["begin_after_ns"] <= phases["begin_ns"]).all()
            assert (np.diff(phases["phase"].astype(int)) != 0).all()


def test_no_state_has_no_phases() -> None:
    assert len(of_rows()) == 0
