"""Verdicts by captures that were not made at the sender."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from multitracer.analysis.verdicts import Necessity, RetransmissionCause, VerdictEvidence
from tests.analysis.judging import proof, said, without_stamps
from tests.analysis.test_slow_links import MSS, C, S, acked, at, fast_retransmit, opened, sent, stall
from tests.analysis.traffic import ACK, Segment

NEAR_SENDER = 1


@pytest.mark.parametrize("vantage", [2, 3])
def test_what_the_order_of_packets_proves_holds_at_any_point(vantage: int) -> None:
    assert said(stall(), vantage=vantage) == [(RetransmissionCause.TIMEOUT, Necessity.SPURIOUS)]
    assert {VerdictEvidence.EIFEL, VerdictEvidence.D_SACK, VerdictEvidence.F_RTO} <= set(
        proof(stall(), vantage=vantage)
    )
    assert said(fast_retransmit(), vantage=vantage) == [(RetransmissionCause.FAST, Necessity.NECESSARY)]
    assert not proof(fast_retransmit(), vantage=vantage) & VerdictEvidence.NOT_AT_SENDER


def at_receiver(*then: Segment, stamped: bool = True) -> list[Segment]:
    """RTT 600 ms, at the receiver: segment 1 is acknowledged at once, and comes again 1.4 s later."""
    seen = [
        at(0, 0, C - 1, flags=2, ack=0),
        said_at(0, S - 1, C, echo=0, flags=2 | ACK),
        heard_at(600, C, 0, said=0),
        heard_at(600, C, MSS, said=0),
        said_at(601, S, C + MSS, echo=600),
        heard_at(1200, C + MSS, MSS, said=601),
        said_at(1201, S, C + 2 * MSS, echo=1200),
        heard_at(2600, C + MSS, MSS, said=601),
        said_at(2601, S, C + 2 * MSS, echo=1200),
        *then,
    ]
    return seen if stamped else without_stamps(seen)


def said_at(ms: int, seq: int, ack: int, *, echo: int, **how: Any) -> Segment:
    """Return what the receiver sends, stamped by its clock."""
    return replace(at(ms, 1, seq, ack=ack, **how), stamp=(5000 + ms, echo))


def heard_at(ms: int, seq: int, payload: int, *, said: int) -> Segment:
    """Return what arrives from the sender, which had heard what the receiver said at a time."""
    return replace(at(ms, 0, seq, payload), stamp=(ms, 5000 + said))


@pytest.mark.parametrize(("heard", "necessity"), [(1201, Necessity.SPURIOUS), (2601, Necessity.ACK_LOST)])
def test_what_the_sender_echoes_tells_which_ack_reached_it(heard: int, necessity: Necessity) -> None:
    """The copy passes long after the ACK; next the sender echoes that ACK, or only the copy's own."""
    seen = at_receiver(heard_at(3900, C + 2 * MSS, MSS, said=heard))
    assert said(seen, vantage=2) == [(RetransmissionCause.TIMEOUT, necessity)]
    assert proof(seen, vantage=2) & VerdictEvidence.PASSED_BEFORE


def test_without_timestamps_it_is_open_whether_the_ack_was_lost_or_late() -> None:
    late = at_receiver(heard_at(5900, C + 2 * MSS, MSS, said=0), stamped=False)
    assert said(late, vantage=2)[0][1] is Necessity.UNDECIDED
    assert {VerdictEvidence.PASSED_BEFORE, VerdictEvidence.NOT_AT_SENDER} <= set(proof(late, vantage=2))


@pytest.mark.parametrize("vantage", [2, 3])
def test_early_acks_and_refusals_are_the_sender_s_alone(vantage: int) -> None:
    early = [
        *opened(600),
        sent(600, 0),
        acked(1200, 1, echo=600),
        sent(1200, 1),
        sent(1200.1, 1),
        acked(1300, 2, echo=0),
    ]
    assert said(without_stamps(early), vantage=vantage) == [(RetransmissionCause.UNKNOWN, Necessity.UNDECIDED)]
    assert proof(without_stamps(early), vantage=vantage) == VerdictEvidence.NOT_AT_SENDER


def test_the_ack_s_own_timestamp_shows_that_it_left_before_the_copy_could_arrive() -> None:
    """RTT 600 ms; the ACK of segment 1 was held for 3 s behind its clock; that of the copy is lost."""
    held_up = [
        at(0, 0, C - 1, flags=2, ack=0),
        said_at(600, S - 1, C, echo=0, flags=2 | ACK),
        at(600, 0, C),
        sent(600, 0),
        said_at(1200, S, C + MSS, echo=600),
        sent(1200, 1),
        sent(2600, 1),
        replace(said_at(4800, S, C + 2 * MSS, echo=1200), stamp=(5000 + 1800, 1200)),
        sent(4800, 2),
        said_at(5400, S, C + 3 * MSS, echo=4800),
    ]
    assert said(held_up)[0][1] is Necessity.SPURIOUS
    assert proof(held_up) & VerdictEvidence.EARLY_STAMP
