"""Verdicts on senders that forget SACKs and receivers that renege (RFC 2018, section 8)."""

from __future__ import annotations

from typing import Any

import pytest

from multitracer.analysis.verdicts import Necessity, VerdictEvidence
from tests.analysis.judging import proof, said, without_stamps
from tests.analysis.test_slow_links import MSS, C, S, acked, at, opened, sent
from tests.analysis.traffic import ACK, FIN, Segment

NEAR_SENDER = 1


def block(first: int, last: int) -> tuple[tuple[int, int], ...]:
    return ((C + first * MSS, C + last * MSS),)


def go_back_n(*answers: Segment) -> list[Segment]:
    """RTT 600 ms; of segments 1 to 4 the first is lost; after the timer 1, then 2 and 3 are sent again."""
    return [
        *opened(600),
        sent(600, 0),
        acked(1200, 1, echo=600),
        *(sent(1200 + i, i) for i in range(1, 5)),
        *(acked(1801 + i, 1, echo=600, sack=block(2, 3 + i)) for i in range(3)),
        sent(3300, 1),
        sent(3301, 2),
        sent(3302, 3),
        *answers,
    ]


@pytest.mark.parametrize("strip", [list, without_stamps])
def test_what_a_sack_had_reported_is_sent_again_in_vain(strip: Any) -> None:
    kept = strip(go_back_n(acked(3900, 5, echo=3300)))
    assert [necessity for _, necessity in said(kept)] == [Necessity.NECESSARY, Necessity.SPURIOUS, Necessity.SPURIOUS]
    assert proof(kept) & VerdictEvidence.SACKED
    assert not proof(kept) & VerdictEvidence.ACK_IGNORED


@pytest.mark.parametrize("strip", [list, without_stamps])
def test_a_receiver_that_throws_away_what_it_reported_needs_it_again(strip: Any) -> None:
    acks = [acked(3900 + i, 2 + i, echo=3300 + i) for i in range(3)]
    reneged = strip(go_back_n(*acks))
    assert [necessity for _, necessity in said(reneged)] == 3 * [Necessity.NECESSARY]
    assert proof(reneged) & VerdictEvidence.RENEGED


def test_of_a_damaged_ack_nothing_was_read_not_even_its_blocks() -> None:
    """The ACK of segments 1 and 2 is damaged: TCP discards it, and the SACK of segment 4 in it."""
    damaged = [
        *opened(600),
        sent(600, 0),
        acked(1200, 1, echo=600),
        *(sent(1200 + i, i) for i in range(1, 5)),
        acked(1800, 3, echo=1202, sack=block(4, 5)),
        *(sent(3300 + i, i) for i in range(1, 5)),
        acked(3950, 5, echo=3303),
    ]
    assert [necessity for _, necessity in said(damaged)][1::2] == [Necessity.ACK_LOST, Necessity.ACK_LOST]


def test_an_ack_that_stops_short_of_data_sent_in_vain_left_before_either_copy_came() -> None:
    """No option at all: segment 2 is acknowledged at once when it is sent again, so 1 had arrived before."""
    late = [
        *opened(600),
        sent(600, 0),
        acked(1200, 1, echo=600),
        sent(1200, 1),
        sent(1201, 2),
        sent(2300, 1),
        acked(5200, 2, echo=1200),
        sent(5200, 2),
        acked(5206, 3, echo=1201),
    ]
    plain = without_stamps(late)
    assert [necessity for _, necessity in said(plain)] == [Necessity.SPURIOUS, Necessity.SPURIOUS]


def test_a_narrow_link_spaces_late_acks_as_far_apart_as_answers() -> None:
    """After a stall of 3 s the ACKs of 12 segments come 200 ms apart; slow start resends two on each."""
    spaced = [*opened(500), *(sent(600 + n, n) for n in range(12)), acked(1300, 1, echo=600), sent(5700, 1)]
    resent = 2
    for arrived in range(2, 13):
        now = 7500 + 200 * arrived
        spaced.append(acked(now, arrived, echo=600))
        again = [n for n in (resent, resent + 1) if n < 12]
        spaced += [sent(now + i, n) for i, n in enumerate(again, 1)]
        resent += len(again)
    found = [necessity for _, necessity in said(without_stamps(spaced))]
    assert found[0] is Necessity.SPURIOUS
    assert Necessity.NECESSARY not in found


def test_no_block_reports_a_fin_so_its_absence_says_nothing() -> None:
    """The FIN and its copy arrive; the receiver sends SACKs, but has no data to call duplicate."""
    closing = [
        *opened(600),
        *(sent(600 + i, i) for i in range(2)),
        acked(1200, 1, echo=600, sack=block(0, 1)),
        acked(1201, 2, echo=601),
        at(1300, 0, C + 2 * MSS, flags=FIN | ACK),
        at(2800, 0, C + 2 * MSS, flags=FIN | ACK),
        at(3400, 1, S, ack=C + 2 * MSS + 1, echo=1300),
    ]
    assert not proof(without_stamps(closing)) & VerdictEvidence.NO_D_SACK


def test_what_a_joined_copy_repeats_in_vain_proves_nothing_of_its_other_segments() -> None:
    """Of segments 1 to 5 only 4 arrives; 3 and 4 leave again as one (offload), and 4 is a duplicate."""
    joined = [
        *opened(600),
        sent(600, 0),
        acked(1200, 1, echo=600),
        *(sent(1200 + i, i) for i in range(1, 6)),
        acked(1804, 1, echo=600, sack=block(4, 5)),
        sent(3300, 1),
        acked(3900, 2, echo=3300, sack=block(4, 5)),
        sent(3900, 2),
        acked(4500, 3, echo=3900, sack=block(4, 5)),
        at(4500, 0, C + 3 * MSS, 2 * MSS),
        acked(5100, 5, echo=4500, sack=block(4, 5)),
        sent(5100, 5),
        acked(5700, 6, echo=5100),
    ]
    assert [necessity for _, necessity in said(without_stamps(joined))][:2] == 2 * [Necessity.NECESSARY]
