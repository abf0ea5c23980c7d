"""The same packets at two capture points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis import Analysis, analyse
from multitracer.analysis.two_points import Counterparts, PacketOutcome, compare
from parsers import read_capture
from tests.analysis.traffic import MS, Segment, capture, handshake

if TYPE_CHECKING:
    from pathlib import Path


def sent(count: int, *, first_id: int = 100) -> list[Segment]:
    return [Segment(0, 1 + 100 * i, 100, ip_id=first_id + i, time_ns=10 * i * MS) for i in range(count)]


def later(segments: list[Segment], ms: int) -> list[Segment]:
    return [Segment(**(s.__dict__ | {"time_ns": (s.time_ns or 0) + ms * MS})) for s in segments]


def both(near: list[Segment], far: list[Segment]) -> tuple[Analysis, Analysis]:
    return analyse(capture(near)), analyse(capture(far))


def test_what_only_the_near_point_shows_was_lost_between() -> None:
    packets = sent(6)
    near, far = both(packets, later([p for i, p in enumerate(packets) if i != 2], 40))
    seen = compare(near, 1, far, 1, reverse=False)
    assert seen.count(PacketOutcome.LOST) == 1
    assert seen.pairs["near_row"][seen.pairs["outcome"] == PacketOutcome.LOST].tolist() == [2]
    assert (seen.delays_ns == 40 * MS).all()


def test_a_retransmission_is_another_packet_than_its_original() -> None:
    original, again = sent(1)[0], Segment(0, 1, 100, ip_id=777, time_ns=50 * MS)
    near, far = both([original, again, *sent(3)[1:]], later([again, *sent(3)[1:]], 5))
    seen = compare(near, 1, far, 1, reverse=False)
    assert seen.count(PacketOutcome.MATCHED) == 3
    assert seen.pairs["far_row"][seen.pairs["near_row"] == 0].tolist() == [-1]


def test_what_lies_beyond_both_captures_is_not_called_lost() -> None:
    packets = sent(6)
    near, far = both(packets, later(packets[2:5], 5))
    seen = compare(near, 1, far, 1, reverse=False)
    assert seen.count(PacketOutcome.NOT_COVERED) == 3
    assert seen.count(PacketOutcome.LOST) == 0


def test_of_copies_that_look_alike_the_first_was_lost() -> None:
    packets = [Segment(**(p.__dict__ | {"ip_id": 0})) for p in sent(4)]
    again = Segment(**(packets[1].__dict__ | {"time_ns": 100 * MS}))
    near, far = both([*packets, again], later([packets[0], *packets[2:], again], 5))
    seen = compare(near, 1, far, 1, reverse=False)
    assert seen.pairs["near_row"][seen.pairs["outcome"] == PacketOutcome.LOST].tolist() == [1]
    assert (seen.delays_ns == 5 * MS).all()


def test_a_copy_that_left_after_the_arrival_is_not_what_arrived() -> None:
    """Without the times the last of two would be it: a delay of -95 ms, and all others seem late."""
    packets = [Segment(**(p.__dict__ | {"ip_id": 0})) for p in sent(4)]
    needless = Segment(**(packets[1].__dict__ | {"time_ns": 110 * MS}))
    near, far = both([*packets, needless], later(packets, 5))
    seen = compare(near, 1, far, 1, reverse=False)
    assert (seen.delays_ns == 5 * MS).all()
    assert seen.count(PacketOutcome.MATCHED) == 4


def test_segments_that_offload_cut_are_lost_by_their_bytes() -> None:
    long = [Segment(0, 1 + 300 * i, 300, ip_id=10 + i, time_ns=30 * i * MS) for i in range(4)]
    short = sent(12, first_id=50)
    del short[4]  # of the second long segment the middle third got lost, and came when it was sent again
    again = Segment(0, 401, 100, ip_id=99, time_ns=200 * MS)
    ends = [Segment(0, 1201 + i, 1, ip_id=200 + i, time_ns=(250 + i) * MS) for i in range(2)]
    begin = [Segment(0, 0, 1, ip_id=9, time_ns=0)]
    near, far = both([*begin, *long, again, *ends], later([*begin, *short, again, *ends], 5))
    seen = compare(near, 1, far, 1, reverse=False)
    assert seen.pairs["near_row"][seen.pairs["outcome"] == PacketOutcome.LOST].tolist() == [2]
    assert seen.count(PacketOutcome.ONLY_FAR) == 0
    assert seen.count(PacketOutcome.RESEGMENTED) == 3 + 11


def test_a_packet_doubled_on_the_way_is_a_duplicate() -> None:
    packets = sent(4)
    near, far = both(packets, later([packets[0], packets[1], packets[1], *packets[2:]], 5))
    seen = compare(near, 1, far, 1, reverse=False)
    assert (seen.duplicates, seen.count(PacketOutcome.ONLY_FAR)) == (1, 1)


def test_packets_without_an_identification_are_told_by_the_rest() -> None:
    packets = [Segment(**(p.__dict__ | {"ip_id": 0})) for p in sent(4)]
    near, far = both(packets, later(packets[1:], 5))
    assert compare(near, 1, far, 1, reverse=False).count(PacketOutcome.MATCHED) == 3


def test_the_same_ports_used_again_are_matched_by_their_packets() -> None:
    first = handshake(1000, 5000, ip_id=1)
    second = handshake(70000, 90000, ip_id=2)
    near, far = both([*first, *second], [*second])
    assert len(near.connections) == 2
    assert Counterparts(near, far).all() == [(2, (1, False))]


def test_captures_of_other_traffic_share_nothing() -> None:
    near, far = both(sent(3), [Segment(0, 9, 5, pair=3)])
    assert Counterparts(near, far).all() == []


def test_a_real_session_agrees_with_itself_at_both_ends(sample_sender: Path, sample_receiver: Path) -> None:
    """The phone's own capture and the server's: what the server lacks is what was lost between them."""
    near, far = (analyse(read_capture([path])) for path in (sample_sender, sample_receiver))
    assert len(Counterparts(near, far).all()) == len(near.connections) == len(far.connections)
    seen = compare(near, 1, far, 1, reverse=False)
    packets = near.directions["packets"][0], far.directions["packets"][0]
    assert seen.count(PacketOutcome.LOST) == packets[0] - packets[1] > 0
    assert seen.count(PacketOutcome.ONLY_FAR) == 0
    resent = near.directions["retransmitted_segments"][0]
    arrived_twice = far.directions["retransmitted_segments"][0]
    assert seen.count(PacketOutcome.LOST) == resent - arrived_twice
    assert np.ptp(seen.delays_ns) > 0
