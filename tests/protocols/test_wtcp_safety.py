"""WTCP against peers that lie, flood or send anything: bounded rate, bounded memory, no amplification."""

from __future__ import annotations

import random
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import LocalProtocolError
from multitracer.protocols.wtcp.connection import WtcpConnection
from multitracer.protocols.wtcp.packet import (
    NO_IDENTITY,
    Data,
    Hello,
    PacketFlag,
    Reset,
    WtcpAck,
    WtcpOpening,
    WtcpPacket,
    WtcpPacketType,
    decode,
    encode,
)
from multitracer.protocols.wtcp.state import IP_UDP_BYTES, WtcpConfig, WtcpState
from multitracer.protocols.wtcp.worker import WtcpWorker
from multitracer.units import NS_PER_MS, NS_PER_S
from tests.examples import examples
from tests.protocols.wtcp_path import Direction, Path

if TYPE_CHECKING:
    from collections.abc import Hashable

PEER = b"the peer"


def _established(config: WtcpConfig | None = None) -> WtcpConnection:
    """Return an initiator whose peer has answered with an endless window."""
    end = WtcpConnection(config, initiator=True, random_bytes=random.Random(3).randbytes)
    end.open(0)
    assert end.outgoing(0) is not None
    hello = Hello(PEER, (1 << 32) - 1)
    end.receive(encode(end.identity, WtcpOpening(WtcpPacketType.SYN_ACK, hello)), 100 * NS_PER_MS)
    assert end.state is WtcpState.ESTABLISHED
    return end


def _drained(end: WtcpConnection, now_ns: int) -> list[bytes]:
    """Return all that leaves at an instant."""
    left = []
    while (octets := end.outgoing(now_ns)) is not None:
        left.append(octets)
        assert len(left) < 100
    return left


def _ack(serial: int, number: int, **more: Any) -> WtcpAck:
    plain = WtcpAck(serial, number, 0, 50_000, 0, (1 << 32) - 1)
    return plain._replace(**more)


# --- the format ---

identities = st.binary(min_size=8, max_size=8)
numbers = st.integers(0, (1 << 32) - 1)
small = st.integers(0, 0xFFFF)
hellos = st.builds(Hello, identities, numbers)
bodies = st.one_of(
    st.builds(
        WtcpOpening, st.sampled_from([WtcpPacketType.SYN, WtcpPacketType.SYN_ACK, WtcpPacketType.CONFIRM]), hellos
    ),
    st.builds(
        Data,
        *(numbers, numbers, numbers, small, small, st.integers(0, 1 << 47)),
        payload=st.binary(min_size=1, max_size=1400),
        flags=st.sampled_from([PacketFlag.NONE, PacketFlag.FIN, PacketFlag.PAIR | PacketFlag.LIMITED]),
        hello=st.none() | hellos,
        is_probe=st.just(False),
    ),
    st.builds(
        WtcpAck,
        *(numbers, numbers, numbers, numbers, st.integers(0, 1 << 40), numbers),
        ranges=st.just(()),
        flags=st.sampled_from([PacketFlag.NONE, PacketFlag.STARTING, PacketFlag.DONE]),
    ),
    st.builds(
        WtcpAck,
        *(numbers, numbers, numbers, numbers, st.just(0), numbers),
        ranges=st.lists(st.tuples(numbers, numbers).filter(lambda each: each[0] <= each[1]), max_size=16).map(tuple),
        flags=st.just(PacketFlag.NONE),
    ),
    st.just(Reset()),
)


@given(identity=identities, body=bodies)
def test_what_is_written_is_read(identity: bytes, body: WtcpOpening | Data | WtcpAck | Reset) -> None:
    octets = encode(identity, body)
    assert decode(octets) == WtcpPacket(identity, body)
    for length in range(min(len(octets), 40)):
        decode(octets[:length])


@examples(200)
@given(octets=st.binary(max_size=200), kind=st.integers(0, 15), mark=st.integers(0, 255), now=st.integers(0, 1 << 62))
def test_any_octets_are_counted_and_never_raise(octets: bytes, kind: int, mark: int, now: int) -> None:
    for end in (_established(), WtcpConnection(initiator=False, random_bytes=bytes)):
        worker = WtcpWorker(random_bytes=random.Random(1).randbytes)
        for each in (octets, bytes([0x10 | kind, mark]) + end.identity + octets):
            end.receive(each, now)
            worker.receive(each, "anybody", now)
            _drained(end, now)
            while worker.outgoing(now) is not None:
                pass
        assert end.rate_bps <= end.config.max_rate_bps


@examples(60)
@given(packets=st.lists(st.tuples(bodies, st.integers(0, 5 * NS_PER_S)), max_size=30))
def test_any_packets_of_the_peer_leave_the_connection_within_its_bounds(
    packets: list[tuple[WtcpOpening | Data | WtcpAck | Reset, int]],
) -> None:
    end, now_ns = _established(), 200 * NS_PER_MS
    end.write(bytes(5000))
    for body, later_ns in packets:
        now_ns += later_ns
        end.receive(encode(end.identity, body), now_ns)
        _drained(end, now_ns)
        assert end.config.min_rate_bps <= end.rate_bps <= end.config.max_rate_bps
        assert end.config.min_rate_bps <= end.asked_rate_bps <= end.config.max_rate_bps
        assert end.readable_bytes <= end.config.receive_buffer_bytes


# --- a peer that lies ---


def test_a_rate_beyond_the_maximum_is_bounded_and_counted() -> None:
    config = WtcpConfig(max_rate_bps=40_000.0)
    end = _established(config)
    end.write(bytes(60_000))
    sent_octets = serial = 0
    for now_ns in range(100 * NS_PER_MS, 10 * NS_PER_S, 10 * NS_PER_MS):
        sent_octets += sum(len(octets) + IP_UDP_BYTES for octets in _drained(end, now_ns))
        ack = _ack(serial, end.counters.data_sent, rate_bps=(1 << 32) - 1)
        end.receive(encode(end.identity, ack), now_ns)
        serial += 1
    assert end.rate_bps == 40_000
    assert end.counters.rates_out_of_bounds == serial
    assert sent_octets * 8 <= 40_000 * 10 + 3 * config.packet_bits


@pytest.mark.parametrize(
    "lie",
    [
        {"number": 77},
        {"cumulative": 100_000},
        {"ranges": ((10, 90_000),)},
        {"ranges": ((1, 1),)},
        {"ranges": ((0, 5),)},
    ],
)
def test_acknowledgments_of_what_was_never_sent_are_counted(lie: dict[str, Any]) -> None:
    end = _established()
    end.write(bytes(2000))
    _drained(end, NS_PER_S)
    before = end.unacknowledged_bytes
    end.receive(encode(end.identity, _ack(0, 1)._replace(**lie)), 2 * NS_PER_S)
    assert end.counters.impossible_acks == 1
    assert end.unacknowledged_bytes == before


def test_a_hold_longer_than_the_round_trip_is_counted() -> None:
    end = _established()
    end.write(bytes(2000))
    _drained(end, NS_PER_S)
    before = end.srtt_ns
    end.receive(encode(end.identity, _ack(0, 1, hold_us=1 << 31)), 2 * NS_PER_S)
    assert end.counters.impossible_times == 1
    assert end.srtt_ns == before


def test_times_that_lie_change_the_rate_within_its_bounds_alone() -> None:
    end = _established()
    luck = random.Random(5)
    for number in range(500):
        times = luck.getrandbits(32), luck.choice([0, 1, 10**6, (1 << 32) - 1])
        data = Data(number, *times, 0, luck.getrandbits(16), number * 10, bytes(10), PacketFlag(luck.choice([0, 4])))
        end.receive(encode(end.identity, data), (1 + number) * 80 * NS_PER_MS)
        _drained(end, (1 + number) * 80 * NS_PER_MS)
        end.read()
        assert end.config.min_rate_bps <= end.asked_rate_bps <= end.config.max_rate_bps


def test_islands_of_single_bytes_take_bounded_memory() -> None:
    end = _established()
    tracemalloc.start()
    for number in range(20_000):
        data = Data(number, 0, 0, 0, 0, 1 + 3 * number, b"x")
        end.receive(encode(end.identity, data), NS_PER_S + number)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert end.counters.beyond_window > 19_000
    assert taken < 1 << 20
    assert end.read() == b""


def test_numbers_that_jump_take_bounded_time_and_memory() -> None:
    end = _established()
    tracemalloc.start()
    for jump in range(200):
        data = Data((jump * 2**30) % 2**32, 0, 0, 0, 0, 0, b"x")
        end.receive(encode(end.identity, data), NS_PER_S + jump)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken < 1 << 20


def test_packets_of_another_identity_change_nothing() -> None:
    end = _established()
    end.receive(encode(b"not mine", Reset()), NS_PER_S)
    assert end.counters.wrong_identity == 1
    assert end.state is WtcpState.ESTABLISHED
    end.receive(encode(end.identity, Reset()), NS_PER_S)
    assert end.error == "reset by the peer"


def test_abort_tells_the_peer() -> None:
    path = Path(Direction(bits_per_s=9600))
    exchange = path.add(data=bytes(9000))
    path.run(1)
    exchange.a.abort()
    path.run(2)
    assert (exchange.a.error, exchange.b.error) == ("aborted", "reset by the peer")


# --- an address that has proved nothing ---


@pytest.mark.parametrize("syns", [1, 5])
def test_who_has_not_proved_his_address_gets_no_more_than_he_sent(syns: int) -> None:
    worker = WtcpWorker(random_bytes=random.Random(1).randbytes)
    single = WtcpConnection(initiator=False, random_bytes=random.Random(2).randbytes)
    syn = encode(NO_IDENTITY, WtcpOpening(WtcpPacketType.SYN, Hello(PEER, 1000)))
    got = {"worker": 0, "single": 0}
    for _ in range(syns):
        worker.receive(syn, ("10.0.0.1", 7), 0)
        single.receive(syn, 0)
        got["single"] += sum(map(len, _drained(single, 0)))
    for now_ns in range(0, 100 * NS_PER_S, NS_PER_S):
        while (packet := worker.outgoing(now_ns)) is not None:
            got["worker"] += len(packet.octets)
        got["single"] += sum(map(len, _drained(single, now_ns)))
    assert got == {"worker": syns * len(syn), "single": syns * len(syn)}
    assert not worker.connections


def test_a_flood_of_syns_leaves_no_trace() -> None:
    worker = WtcpWorker(random_bytes=random.Random(1).randbytes)
    syn = encode(NO_IDENTITY, WtcpOpening(WtcpPacketType.SYN, Hello(PEER, 1000)))
    tracemalloc.start()
    for port in range(20_000):
        worker.receive(syn, ("10.0.0.1", port), 0)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken < 1 << 20
    assert worker.counters.unanswered_syns > 19_000


def _answer(worker: WtcpWorker, address: Hashable, now_ns: int, peer: bytes = PEER) -> bytes:
    """Return the identity with which a worker answers a SYN."""
    worker.receive(encode(NO_IDENTITY, WtcpOpening(WtcpPacketType.SYN, Hello(peer, 1000))), address, now_ns)
    packet = worker.outgoing(now_ns)
    assert packet is not None
    read = decode(packet.octets)
    assert read is not None
    assert isinstance(read.body, WtcpOpening)
    return read.body.hello.identity


def _confirm(identity: bytes, peer: bytes = PEER) -> bytes:
    return encode(identity, WtcpOpening(WtcpPacketType.CONFIRM, Hello(peer, 1000)))


def test_only_the_address_that_got_the_answer_can_connect_and_not_for_ever() -> None:
    worker = WtcpWorker(random_bytes=random.Random(1).randbytes)
    identity = _answer(worker, ("10.0.0.1", 7), 0)
    worker.receive(_confirm(identity), ("10.0.0.2", 7), 0)
    worker.receive(_confirm(identity, b"somebody"), ("10.0.0.1", 7), 0)
    worker.receive(_confirm(identity), ("10.0.0.1", 7), 200 * NS_PER_S)
    assert worker.counters.unknown_connection == 3
    worker.receive(_confirm(identity), ("10.0.0.1", 7), 60 * NS_PER_S)
    assert [address for address, _ in worker.take_accepted()] == [("10.0.0.1", 7)]


def test_an_answer_that_comes_back_to_its_sender_opens_nothing() -> None:
    worker = WtcpWorker(random_bytes=random.Random(1).randbytes)
    syn = encode(NO_IDENTITY, WtcpOpening(WtcpPacketType.SYN, Hello(PEER, 1000)))
    worker.receive(syn, "a", 0)
    answer = worker.outgoing(0)
    assert answer is not None
    identity = _answer(worker, "a", 0)
    swapped = encode(PEER, WtcpOpening(WtcpPacketType.CONFIRM, Hello(identity, 1000)))
    for octets in (answer.octets, swapped):
        worker.receive(octets, "a", 0)
    assert not worker.connections
    assert worker.take_accepted() == []


def test_too_many_connections_are_refused_until_one_is_finished() -> None:
    worker = WtcpWorker(random_bytes=random.Random(1).randbytes, max_connections=3, max_connections_per_host=2)
    places = [("10.0.0.1", 1), ("10.0.0.1", 2), ("10.0.0.1", 3), ("10.0.0.2", 1), ("10.0.0.3", 1)]
    for place in places:
        worker.receive(_confirm(_answer(worker, place, 0)), place, 0)
        while worker.outgoing(0) is not None:
            pass
    assert [address for address, _ in worker.take_accepted()] == [places[0], places[1], places[3]]
    assert worker.counters.refused == 2
    with pytest.raises(LocalProtocolError, match="there are already"):
        worker.connect(("10.0.0.9", 1), 0)
    next(iter(worker.connections.values())).abort()
    worker.connect(("10.0.0.9", 1), 0)


def test_a_connection_that_ended_is_not_made_again_by_a_late_copy() -> None:
    worker = WtcpWorker(random_bytes=random.Random(1).randbytes)
    identity = _answer(worker, "a", 0)
    worker.receive(_confirm(identity), "a", 0)
    worker.receive(encode(identity, Reset()), "a", 0)
    assert worker.outgoing(0) is None
    assert not worker.connections
    worker.receive(_confirm(identity), "a", 0)
    assert not worker.connections


def test_twenty_peers_of_one_worker_are_served_alike() -> None:
    luck = random.Random(1)
    server = WtcpWorker(random_bytes=luck.randbytes)
    clients = {("10.0.0.1", port): WtcpWorker(random_bytes=luck.randbytes) for port in range(20)}
    data = {place: luck.randbytes(3000) for place in clients}
    ends = {place: clients[place].connect("server", 0) for place in clients}
    got: dict[Hashable, bytes] = dict.fromkeys(clients, b"")
    for place, end in ends.items():
        end.write(data[place])
        end.close()
    accepted = []
    for now_ns in range(0, 60 * NS_PER_S, 50 * NS_PER_MS):
        for place, client in clients.items():
            while (packet := client.outgoing(now_ns)) is not None:
                server.receive(packet.octets, place, now_ns)
        while (packet := server.outgoing(now_ns)) is not None:
            clients[packet.address].receive(packet.octets, "server", now_ns)  # type: ignore[index]
        accepted += server.take_accepted()
        for address, connection in accepted:
            got[address] += connection.read()
            if connection.at_end and not connection.is_finished:
                connection.close()
    assert got == data
    assert all(end.is_finished for end in ends.values())
    assert not server.connections
    assert server.next_ns is None
