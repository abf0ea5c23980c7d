"""Acknowledgments and windows: RFC 1122, 2018, 2883, 5681, 9293."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from multitracer.lab.tcp.connection import TcpReceiver
from multitracer.lab.tcp.profile import BSD, MODERN
from multitracer.units import NS_PER_MS, NS_PER_S
from tests.lab.stack.tcp_pair import Fate, Pair, lose_data

if TYPE_CHECKING:
    from multitracer.lab.tcp.packet import TcpPacket

PLAIN = replace(BSD, mtu_bytes=552, timestamps=False, initial_window_segments=2)
MSS = 512


def receiver(*, buffer_bytes: int = 8192) -> TcpReceiver:
    made = TcpReceiver(replace(PLAIN, receive_buffer_bytes=buffer_bytes))
    made.rcv_nxt = 1
    made.peer_mss_bytes = MSS
    made.window_field(0)
    return made


def test_a_single_segment_is_acknowledged_after_the_delay() -> None:
    pair = Pair(client=PLAIN)
    pair.run(seconds=1)
    pair.a.write(bytes(100))
    pair.run(seconds=5)
    data, ack = pair.data_sent()[0], pair.sent["b"][-1]
    assert ack.time_ns - data.time_ns == pair.delay_ns + PLAIN.delayed_ack_ns


def test_every_second_full_segment_is_acknowledged_at_once() -> None:
    pair = Pair(client=PLAIN)
    pair.transfer(bytes(40 * MSS))
    acks = [s for s in pair.sent["b"] if s.packet.segment.ack]
    assert 20 <= len(acks) <= 25


def test_each_segment_behind_a_hole_brings_a_duplicate_ack_at_once() -> None:
    pair = Pair(client=PLAIN, fate=lose_data(20))
    pair.transfer(bytes(40 * MSS))
    numbers = [s.packet.segment.ack for s in pair.sent["b"]]
    hole = pair.isn + 1 + 20 * MSS
    assert numbers.count(hole) >= 4


def test_sack_blocks_tell_the_newest_first() -> None:
    end = receiver()
    for place in (2, 4, 6):
        end.take(1 + place * MSS, bytes(MSS), fin=False, now_ns=0)
    blocks = [(1 + place * MSS, 1 + (place + 1) * MSS) for place in (6, 4, 2)]
    assert end.sack_blocks(4) == tuple(blocks)
    assert end.sack_blocks(2) == tuple(blocks[:2])

    end.take(1 + 3 * MSS, bytes(MSS), fin=False, now_ns=0)  # joins two blocks
    assert end.sack_blocks(4)[0] == (1 + 2 * MSS, 1 + 5 * MSS)


def test_a_duplicate_is_told_once_as_d_sack() -> None:
    end = receiver()
    end.take(1, bytes(MSS), fin=False, now_ns=0)
    end.note_duplicate(1, 1 + MSS)
    assert end.sack_blocks(3) == ((1, 1 + MSS),)
    assert end.sack_blocks(3) == ()


def test_a_duplicate_of_a_sacked_segment_is_told_before_its_block() -> None:
    end = receiver()
    for _ in range(2):
        end.take(1 + MSS, bytes(MSS), fin=False, now_ns=0)
    block = (1 + MSS, 1 + 2 * MSS)
    assert end.sack_blocks(3) == (block, block)
    assert end.duplicate_bytes == MSS


def test_the_sender_counts_d_sacks_of_a_network_that_duplicates() -> None:
    def twice(_: int, packet: TcpPacket) -> Fate:
        return [0, 10 * NS_PER_MS] if packet.segment.payload else [0]

    pair = Pair(client=replace(PLAIN, sack=True), fate=twice)
    pair.transfer(bytes(20 * MSS))
    assert pair.a.sender.counters.dsacks == 20
    assert pair.a.sender.counters.retransmitted_segments == 0


def test_a_window_that_closes_is_probed_and_opens_again() -> None:
    pair = Pair(client=PLAIN, reads=False)
    pair.run(seconds=1)
    data = bytes(i % 251 for i in range(12_000))
    sent = pair.a.write(data)
    pair.run(seconds=10)
    sent += pair.a.write(data[sent:])
    pair.run(seconds=90)
    assert pair.a.sender.snd_wnd_bytes == 0
    assert pair.b.receiver.readable_bytes == 8192
    assert pair.a.sender.counters.zero_window_probes >= 2
    assert pair.a.sender.counters.timeouts == 0

    pair.reads = True
    pair.run(seconds=100)
    assert bytes(pair.received["b"]) == data[:sent] == data
    assert pair.a.sender.counters.retransmitted_segments == 0


def test_probes_back_off() -> None:
    pair = Pair(client=PLAIN, reads=False)
    pair.run(seconds=1)
    pair.a.write(bytes(8192))
    pair.run(seconds=20)
    pair.a.write(bytes(8192))
    pair.run(seconds=300)
    probes = [s.seconds for s in pair.data_sent() if len(s.packet.segment.payload) == 1]
    gaps = [later - earlier for earlier, later in pairwise(probes)]
    assert len(gaps) >= 3
    assert gaps == sorted(gaps)
    assert gaps[-1] > 2 * gaps[0]


def test_a_slow_reader_gets_no_silly_segments() -> None:
    pair = Pair(client=PLAIN, reads=False)
    pair.run(seconds=1)
    left = 20_000
    left -= pair.a.write(bytes(left))
    for _ in range(400):
        pair.run(seconds=0.25)
        pair.received["b"] += pair.b.read(100)
        left -= pair.a.write(bytes(left))
    assert len(pair.received["b"]) == 20_000
    sent = pair.data_sent()
    for earlier, later in pairwise(sent[:-1]):
        small = len(later.packet.segment.payload) < MSS
        assert not small or later.seconds - earlier.seconds >= 1  # the override timer of RFC 1122


def test_the_window_never_shrinks() -> None:
    pair = Pair(client=replace(PLAIN, mtu_bytes=296), reads=False)
    pair.run(seconds=1)
    pair.a.write(bytes(8_192))
    pair.run(seconds=60)
    edges = [s.packet.segment.ack + s.packet.segment.window for s in pair.sent["b"][1:]]
    assert edges == sorted(edges)


@pytest.mark.parametrize("size", [30_000, 65_535, 65_536, 1 << 20])
def test_the_window_field_fits_whatever_the_buffer(size: int) -> None:
    profile = replace(MODERN, receive_buffer_bytes=size)
    pair = Pair(client=profile)
    pair.transfer(bytes(200_000), seconds=3_000)
    assert len(pair.received["b"]) == 200_000
    assert pair.a.sender.snd_wnd_bytes <= size + (1 << 14)


def test_nagle_holds_a_short_segment_while_data_are_out() -> None:
    for nagle, expected in ((True, 2), (False, 6)):
        pair = Pair(client=replace(PLAIN, nagle=nagle, initial_window_segments=8), delay_ns=NS_PER_S)
        pair.run(seconds=5)
        for _ in range(6):
            pair.a.write(bytes(10))
            pair.run(seconds=0.01)
        pair.run(seconds=30)
        assert len(pair.data_sent()) == expected


def test_old_timestamps_are_refused() -> None:
    """PAWS: a segment of the past with a sequence number of the present."""
    pair = Pair(client=MODERN)
    pair.run(seconds=1)
    pair.a.write(b"now")
    pair.run(seconds=1)
    old = pair.data_sent()[0].packet
    assert old.segment.timestamps is not None
    old.segment.seq = (old.segment.seq + 3) % (1 << 32)
    old.segment.timestamps = (old.segment.timestamps[0] - 10_000, 0)
    pair.b.receive(old, now_ns=pair.now_ns)
    pair.run(seconds=1)
    assert bytes(pair.received["b"]) == b"now"


def test_an_overtaken_segment_does_not_bring_its_old_window_back() -> None:
    """SND.WL1 and SND.WL2 of RFC 9293: a window is as old as the sequence number it came with."""
    pair = Pair(client=PLAIN)
    pair.run(seconds=1)
    pair.a.write(bytes(100))
    pair.run(seconds=5)
    late = pair.sent["b"][-1].packet
    for _ in range(2):
        pair.b.write(b"data from the other side")
        pair.run(seconds=5)
    window = pair.a.sender.snd_wnd_bytes
    late.segment.window = 7
    pair.a.receive(late, now_ns=pair.now_ns)
    assert pair.a.sender.snd_wnd_bytes == window > 7


def test_a_segment_that_was_overtaken_is_not_taken_for_an_old_one() -> None:
    """TS.Recent follows what was acknowledged, not what came last (RFC 7323, section 4.3)."""
    pair = Pair(client=MODERN)
    pair.run(seconds=1)
    pair.fate = lambda _n, _packet: []
    for word in (b"first ", b"second"):
        pair.a.profile = replace(MODERN, nagle=False)
        pair.a.sender.profile = pair.a.profile
        pair.a.write(word)
        pair.run(seconds=0.05)
    first, second = (seen.packet for seen in pair.data_sent()[:2])
    for packet in (second, first):
        pair.b.receive(packet, now_ns=pair.now_ns)
    assert pair.b.read() == b"first second"
