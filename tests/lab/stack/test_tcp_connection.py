"""Opening, closing, giving up: the life of a connection as RFC 9293 tells it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from multitracer.captured import Flag
from multitracer.errors import LocalProtocolError
from multitracer.lab.tcp.connection import Connection
from multitracer.lab.tcp.packet import Segment, TcpPacket
from multitracer.lab.tcp.profile import BSD, MODERN
from multitracer.lab.tcp.state import ConnectionState
from tests.lab.stack.tcp_pair import START_NS, A, B, Pair, Seen, lossy


def flags(seen: list[Seen]) -> list[Flag]:
    return [Flag(packet.packet.segment.flags) for packet in seen]


def all_packets(end: Connection, now_ns: int) -> list[TcpPacket]:
    packets = []
    while (packet := end.next_packet(now_ns)) is not None:
        packets.append(packet)
    return packets


def test_three_way_handshake_and_both_fins() -> None:
    pair = Pair()
    pair.transfer(b"hello")

    assert flags(pair.sent["a"])[:2] == [Flag.SYN, Flag.ACK | Flag.PSH | Flag.FIN]
    assert flags(pair.sent["b"])[0] == Flag.SYN | Flag.ACK
    assert bytes(pair.received["b"]) == b"hello"
    assert (pair.a.state, pair.b.state) == (ConnectionState.CLOSED, ConnectionState.CLOSED)
    assert (pair.a.error, pair.b.error) == (None, None)


def test_who_closes_first_waits_two_segment_lifetimes() -> None:
    pair = Pair()
    pair.run(seconds=1)
    pair.a.close()
    pair.run(seconds=1)
    pair.b.close()
    pair.run(seconds=1)
    assert (pair.a.state, pair.b.state) == (ConnectionState.TIME_WAIT, ConnectionState.CLOSED)

    closed_ns = pair.now_ns
    pair.run()
    assert pair.a.state is ConnectionState.CLOSED
    assert pair.now_ns >= closed_ns + BSD.msl_ns


def test_both_ends_may_close_at_once() -> None:
    pair = Pair()
    pair.run(seconds=1)
    pair.a.close()
    pair.b.close()
    pair.run()
    assert (pair.a.state, pair.b.state) == (ConnectionState.CLOSED, ConnectionState.CLOSED)


def test_a_lost_syn_is_sent_again_with_back_off() -> None:
    pair = Pair(fate=lossy(0, 1))
    pair.run(until=lambda: pair.a.state is ConnectionState.ESTABLISHED)

    times = [seen.seconds for seen in pair.sent["a"] if seen.packet.segment.flags & Flag.SYN]
    assert times == [0, 6, 18]  # 6 s, then 12 s
    assert pair.a.sender.congestion.cwnd_bytes == pair.a.sender.mss_bytes


def test_a_lost_syn_ack_is_sent_again() -> None:
    pair = Pair(client=MODERN, fate=lossy(1))
    pair.run(until=lambda: pair.a.state is ConnectionState.ESTABLISHED, seconds=30)
    assert pair.a.state is ConnectionState.ESTABLISHED


def test_simultaneous_open() -> None:
    ends = {
        "a": Connection.connect(BSD, local=A, remote=B, isn=1),
        "b": Connection.connect(BSD, local=B, remote=A, isn=2),
    }
    now_ns = START_NS
    for _ in range(6):
        sent = {name: all_packets(end, now_ns) for name, end in ends.items()}
        for name, packets in sent.items():
            for packet in packets:
                ends["b" if name == "a" else "a"].receive(packet, now_ns=now_ns)
        now_ns += 10**8
    assert [end.state for end in ends.values()] == [ConnectionState.ESTABLISHED, ConnectionState.ESTABLISHED]


def test_an_aborted_connection_resets_its_peer() -> None:
    pair = Pair()
    pair.run(seconds=1)
    pair.a.abort()
    pair.run()

    assert pair.sent["a"][-1].packet.segment.flags & Flag.RST
    assert (pair.a.error, pair.b.error) == ("aborted", "reset")


def test_a_reset_with_a_wrong_number_is_only_challenged() -> None:
    pair = Pair()
    pair.run(seconds=1)
    forged = pair.sent["a"][-1].packet
    segment = Segment(A.port, B.port, forged.segment.seq + 100, 0, Flag.RST, 0)
    pair.b.receive(replace(forged, segment=segment), now_ns=pair.now_ns)

    assert pair.b.state is ConnectionState.ESTABLISHED
    answer = pair.b.next_packet(pair.now_ns)
    assert answer is not None
    assert answer.segment.flags == Flag.ACK


def test_refusal_of_the_syn_ends_the_connection() -> None:
    pair = Pair()
    syn = pair.a.next_packet(pair.now_ns)
    assert syn is not None
    refusal = Segment(B.port, A.port, 0, syn.segment.seq + 1, Flag.RST | Flag.ACK, 0)
    pair.a.receive(replace(syn, source=B.address, destination=A.address, segment=refusal), now_ns=pair.now_ns)
    assert (pair.a.state, pair.a.error) == (ConnectionState.CLOSED, "refused")


def test_a_peer_that_is_gone_is_given_up_after_the_last_back_off() -> None:
    profile = replace(MODERN, max_retransmissions=4)
    pair = Pair(client=profile)
    pair.run(seconds=1)
    pair.fate = lambda _n, _packet: []
    pair.a.write(b"anyone?")
    pair.run()

    assert pair.a.error == "timed out"
    times = [seen.seconds for seen in pair.data_sent()]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert len(times) == 5
    assert gaps == pytest.approx([gaps[0] * 2**i for i in range(4)], rel=0.02)


def test_writing_after_close_is_our_own_mistake() -> None:
    pair = Pair()
    pair.a.close()
    with pytest.raises(LocalProtocolError, match="cannot write"):
        pair.a.write(b"more")


def test_options_are_used_only_if_both_ends_offer_them() -> None:
    for client, server, expected in ((MODERN, BSD, False), (BSD, MODERN, False), (MODERN, MODERN, True)):
        pair = Pair(client=client, server=server)
        pair.run(seconds=1)
        assert (pair.a.sender.sack, pair.b.sender.sack) == (expected, expected)


def test_timestamps_cost_twelve_bytes_of_each_segment() -> None:
    for timestamps, size in ((True, 460), (False, 472)):
        pair = Pair(client=replace(BSD, mtu_bytes=512, timestamps=timestamps))
        pair.transfer(bytes(2_000))
        assert len(pair.data_sent()[0].packet.segment.payload) == size


@pytest.mark.parametrize("scaling", [True, False])
def test_only_scaling_lets_more_than_64_kb_fly(scaling: bool) -> None:
    profile = replace(MODERN, window_scaling=scaling, receive_buffer_bytes=400_000)
    pair = Pair(client=profile, delay_ns=10**9)
    flights: list[int] = []
    pair.on_step = lambda: flights.append(pair.a.sender.flight_bytes)
    pair.transfer(bytes(700_000))

    assert len(pair.received["b"]) == 700_000
    assert (max(flights) > 65_535) is scaling
