"""A server on a public port: strangers, floods, replays; and what a thousand peers cost."""

from __future__ import annotations

import gc
import random
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import LocalProtocolError
from multitracer.protocols.centaurus.events import ObjectDelivered, Received, SessionEnded
from multitracer.protocols.centaurus.level1_udp import UdpWorker
from multitracer.protocols.centaurus.messages import (
    NO_TOKEN,
    CentaurusConfig,
    Extension,
    Message,
    Obj,
    ObjectDone,
    Offer,
    Pk,
    encode,
)
from multitracer.protocols.centaurus.packet import CentaurusPacket, seal
from tests.examples import examples
from tests.protocols import centaurus_wire as wire
from tests.protocols.centaurus_net import MS, START_NS, Network, S

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = b"sixteen or more bytes"


def _packet(session: int, message: Message, clock_ns: int = START_NS) -> bytes:
    return seal(CentaurusPacket(session, clock_ns, True, encode(message)))


def _obj(size: int = 1000, *, stamp_ns: int = START_NS, kind: int = 1, padding: int = 0) -> Obj:
    return Obj(kind, stamp_ns, size, 60_000, 512, NO_TOKEN, Offer(0, 512), padding)


def _answers(end: UdpWorker, now_ns: int = START_NS) -> list[bytes]:
    found = []
    while packet := end.outgoing(now_ns):
        end.sent(packet, now_ns)
        found.append(packet.octets)
    return found


def _server(**options: Any) -> UdpWorker:
    return UdpWorker(CentaurusConfig(**options), random_bytes=random.Random(1).randbytes)


@given(st.lists(st.sampled_from(["obj", "pk", "done", "noise"]), max_size=12), st.integers(0, 2_000_000))
def test_unproven_peer_gets_at_most_what_it_sent(steps: list[str], size: int) -> None:
    server = _server(max_message_bytes=2 << 20)
    server.send(("victim", 1), 1, bytes(4000), START_NS)
    _answers(server)
    server.sessions.clear()
    arrived = left = 0
    for i, step in enumerate(steps):
        messages: dict[str, Message] = {"obj": _obj(size), "pk": Pk(0, 5, bytes(400)), "done": ObjectDone(5, 0)}
        octets = _packet(i // 3, messages[step]) if step in messages else b"noise" * i
        server.receive(octets, ("victim", 1), START_NS + i)
        arrived += len(octets)
        left += sum(map(len, _answers(server, START_NS + i)))
    assert left <= arrived


@pytest.mark.parametrize(("slots", "answered"), [(72, True), (73, False)])
def test_answer_that_is_longer_than_the_offer_is_withheld(slots: int, answered: bool) -> None:
    """An OBJ without its zeros has 46 bytes, and PROCEED one for each eight slots beside its 37."""
    server = _server(max_message_bytes=2 << 20)
    server.receive(_packet(1, _obj(slots * 512)), ("victim", 1), START_NS)
    assert [len(octets) for octets in _answers(server)] == ([46] if answered else [])
    assert server.counters.amplification == (not answered)


@pytest.mark.parametrize("slots", [72, 512, 2120])
def test_zeros_of_an_offer_let_a_stranger_have_the_answer(slots: int) -> None:
    net = Network("a", "b", config=CentaurusConfig(max_message_bytes=2 << 20))
    net.ends["a"].send("b", 1, bytes(slots * 512), net.now_ns)
    net.run(60)
    assert len(net.received("b")) == 1
    obj, proceed = (octets for _, _, _, octets in net.wire[:2])
    assert len(proceed) == len(obj) <= 302
    assert net.ends["b"].counters.amplification == 0


def test_longest_bitmap_is_sent_to_who_has_a_token() -> None:
    net = Network("a", "b", config=CentaurusConfig(max_message_bytes=2 << 20))
    for data in (b"hello", bytes(2 << 20)):
        net.ends["a"].send("b", 1, data, net.now_ns)
        net.run(60)
    assert len(net.received("b")) == 2


def test_peer_whose_segments_were_all_lost_is_still_proven_by_its_token() -> None:
    """An older peer has no zeros in its offer, and gets an answer of 100 octets to 46 only if it is proven."""
    server, address = _server(), ("10.0.0.1", 1)
    _proven_peer(server, address, done=True)
    token = next(iter(server.peers[address].nonces))
    for session in (11, 12, 13):
        now_ns = START_NS + session * 20 * S
        server.on_timer(now_ns)
        offer = _obj(500 * 512, stamp_ns=START_NS + S)._replace(token=token)
        server.receive(_packet(session, offer, now_ns), address, now_ns)
        (proceed,) = _answers(server, now_ns)  # no segment that echoes its nonce arrives
        token = wire.read_packet(proceed)["nonce"]
    assert server.counters.amplification == 0


def test_client_whose_half_open_session_a_flood_ended_completes_in_its_next_one() -> None:
    """The cookie in the first PROCEED is the token of the next OBJ, and proves the address without any state."""
    net = Network("a", "b", config=CentaurusConfig(max_half_open=4))
    net.ends["a"].send("b", 1, b"request", net.now_ns)
    net.run(0.07)  # the offer has arrived, the answer is on its way
    for i in range(8):
        net.ends["b"].receive(_packet(i, _obj(), net.now_ns), (f"10.0.{i}.1", 1), net.now_ns)
    net.run(5)
    assert net.received("b") == []
    for i in range(400):
        for each in range(8):
            net.ends["b"].receive(_packet(i, _obj(), net.now_ns), (f"10.{each}.{i % 256}.1", 1), net.now_ns)
        net.run(0.02)
    net.run(10)
    assert net.received("b") == [b"request"]
    sessions = [event for event in net.events["a"] if isinstance(event, SessionEnded)]
    assert [event.cause for event in sessions] == ["watchdog", "complete"]


def test_cookie_is_of_one_address_and_ends_after_two_minutes() -> None:
    for address, later_ns, proven in (("a", 0, True), ("a", 60 * S, True), ("a", 130 * S, False), ("b", 0, False)):
        server = _server()
        server.receive(_packet(1, _obj()), ("a", 1), START_NS)
        (proceed,) = _answers(server)
        for _ in range(2):
            server.on_timer(START_NS + 20 * S)
        assert (server.half_open, len(server.peers)) == (0, 0)
        offer = _obj()._replace(token=wire.read_packet(proceed)["nonce"])
        server.receive(_packet(2, offer, START_NS + later_ns), (address, 1), START_NS + later_ns)
        assert (len(server.peers), server.half_open) == ((1, 0) if proven else (0, 1))


def test_half_open_sessions_of_a_network_end_no_others() -> None:
    server = _server()
    server.receive(_packet(7, _obj()), ("10.0.1.1", 5), START_NS)
    for i in range(10_000):
        server.receive(_packet(i, _obj()), (f"10.0.0.{i % 250}", 1000 + i % 7), START_NS)
    assert server.half_open == 1 + 64
    assert (("10.0.1.1", 5), 7) in server.sessions
    for i in range(10):
        server.receive(_packet(i, _obj()), ("10.0.1.1", 6), START_NS)
    assert server.half_open == 1 + 64 + 2


def test_spoofed_offer_neither_ends_a_session_nor_supersedes_a_part() -> None:
    net = Network("a", "b")
    net.ends["a"].send("b", 1, bytes(3000), net.now_ns)
    net.run(0.12)  # segments are on their way
    net.post("a", "b", _packet(0xFFFFFFFF, _obj(stamp_ns=net.now_ns + S), net.now_ns + S), 1)
    net.run(2)
    assert net.received("b") == [bytes(3000)]
    assert net.messages().count("a: OBJ") == 1


@pytest.mark.parametrize(("late", "causes"), [(True, ["complete"]), (False, ["replaced", "complete"])])
def test_late_offer_of_a_proven_peer_does_not_end_the_session_that_runs(late: bool, causes: list[str]) -> None:
    net = Network("a", "b")
    net.ends["a"].send("b", 1, b"first", net.now_ns)
    net.run(1)
    token = net.ends["a"].peers["b"].token
    net.events.clear()
    before_ns = net.now_ns
    net.ends["b"].send("a", 1, bytes(3000), net.now_ns)
    net.run(0.12)  # a said PROCEED, b's segments are on their way
    made_ns = before_ns if late else net.now_ns
    offer = _obj(stamp_ns=made_ns)._replace(token=token)
    net.ends["b"].receive(_packet(77, offer, made_ns), "a", net.now_ns)
    net.run(30)
    assert net.received("a") == [bytes(3000)]
    assert [e.cause for e in net.events["b"] if isinstance(e, SessionEnded) and e.session != 77] == causes


def test_flood_leaves_the_server_serving() -> None:
    chance = random.Random(3)
    net = Network("client", "server", config=CentaurusConfig(max_half_open=1024))
    server = net.ends["server"]
    net.ends["client"].send("server", 1, bytes(5000), net.now_ns)
    for i in range(6000):
        spoofed = (f"10.{i % 200}.{i % 250}.1", i)
        flood = (
            chance.randbytes(chance.randrange(200)),  # malformed
            _packet(i, _obj(200_000, stamp_ns=START_NS + i)),  # half-open
            _packet(i, Pk(3, chance.randrange(2**32), bytes(500))),  # of no session
            _packet(i, _obj())[:-1],  # damaged
        )
        server.receive(flood[i % 4], spoofed, net.now_ns)
        if i % 100 == 0:
            net.run(0.005)
    net.run(5)
    assert net.received("server") == [bytes(5000)]
    assert server.half_open <= 1024
    assert len(server.peers) == 1
    counters = server.counters
    assert counters.unknown_session >= 1500
    assert counters.crowded_out >= 400
    assert min(counters.malformed, counters.checksum) > 1000


def test_half_open_sessions_end_by_the_watchdog() -> None:
    server = _server()
    for i in range(50):
        server.receive(_packet(i, _obj()), ("10.0.0.1", i), START_NS)
    assert server.half_open == 50
    assert server.next_timer() == START_NS + 10 * S
    for _ in range(2):
        server.on_timer(START_NS + 10 * S)
    assert (server.half_open, len(server.sessions), server.next_timer()) == (0, 0, None)


def test_peer_that_repeats_itself_is_still_counted_once() -> None:
    server = _server()
    for _ in range(5):
        server.receive(_packet(1, _obj()), ("10.0.0.1", 1), START_NS)
    assert server.half_open == 1
    assert len(_answers(server)) == 1


def _proven_peer(server: UdpWorker, address: tuple[str, int], *, done: bool, kind: int = 1) -> None:
    server.receive(_packet(9, _obj(600, kind=kind)), address, START_NS)
    (proceed,) = _answers(server)
    nonce = wire.read_packet(proceed)["nonce"]
    server.receive(_packet(9, Pk(0, nonce, bytes(512))), address, START_NS)
    if done:
        server.receive(_packet(9, Pk(1, nonce, bytes(88))), address, START_NS)
        server.receive(_packet(9, ObjectDone(nonce, 0)), address, START_NS)
        server.take_events()
    _answers(server)


def test_peers_are_limited_by_host_and_in_total() -> None:
    server = _server(max_peers=100, max_peers_per_host=8)
    for port in range(20):
        _proven_peer(server, ("10.0.0.1", port), done=False)
    assert len(server.peers) == 8
    for host in range(120):
        _proven_peer(server, (f"10.0.1.{host}", 1), done=False)
    assert len(server.peers) == 100
    assert server.counters.refused == 12 + 28
    with pytest.raises(LocalProtocolError, match="there are already"):
        server.send(("10.0.2.1", 1), 1, b"x", START_NS)


def test_peer_whose_objects_are_past_gives_way() -> None:
    server = _server(max_peers=4, cap_ns=30 * S)
    for host in range(4):
        _proven_peer(server, (f"10.0.1.{host}", 1), done=True)
    late_ns = START_NS + 100 * S
    for _ in range(4):
        server.on_timer(late_ns)
    assert not server.sessions
    server.send(("10.0.2.1", 1), 1, b"x", late_ns)
    assert len(server.peers) == 4
    assert ("10.0.2.1", 1) in server.peers


def test_idle_peers_keep_nobody_out_for_the_lifetime_of_their_objects() -> None:
    server = _server(max_peers=4)
    for host in range(4):
        _proven_peer(server, (f"10.0.1.{host}", 1), done=False)
    for after_ns, is_known in ((0, False), (30 * S, False), (70 * S, True)):
        server.on_timer(START_NS + after_ns)
        server.receive(_packet(9, _obj(600), START_NS + after_ns), ("10.0.2.1", 1), START_NS + after_ns)
        nonces = [wire.read_packet(each)["nonce"] for each in _answers(server, START_NS + after_ns)]
        server.receive(_packet(9, Pk(0, nonces[0], bytes(512))), ("10.0.2.1", 1), START_NS + after_ns)
        assert (("10.0.2.1", 1) in server.peers) == is_known
        assert len(server.peers) == 4


def _hold_parts(server: UdpWorker, address: tuple[str, int], kinds: int, octets: int = 400_000) -> None:
    """Send all but the last segment of an object in each of so many classes."""
    for kind in range(kinds):
        server.receive(_packet(kind, _obj(octets, kind=kind, padding=100)), address, START_NS)
        answers = [wire.read_packet(each) for each in _answers(server)]
        nonces = [each["nonce"] for each in answers if each["message"] == "PROCEED"]
        for slot in range(octets // 512) if nonces else ():
            server.receive(_packet(kind, Pk(slot, nonces[-1], bytes(512))), address, START_NS)


def test_parts_are_limited_for_one_peer_and_in_total() -> None:
    server = _server(max_partial_bytes=30_000)
    _hold_parts(server, ("10.0.0.1", 1), 6, 1100)
    assert set(server.peers["10.0.0.1", 1].acceptance.partials) == {2, 3, 4, 5}
    assert server.counters.forgotten_partials == 2
    for host in range(2, 12):
        _hold_parts(server, (f"10.0.0.{host}", 1), 4, 1100)
    assert 25_000 < server._shared.partial_bytes <= 30_000
    assert server.counters.refused == 5 * 4  # there is room for six peers' parts


def test_wrong_key_and_no_key_are_dropped_unseen() -> None:
    net = Network("a", "b", config=CentaurusConfig(key=KEY))
    other = Network("c", config=CentaurusConfig(key=b"another long secret"))
    plain = Network("d")
    net.ends |= {"c": other.ends["c"], "d": plain.ends["d"]}
    for name in "acd":
        net.ends[name].send("b", 1, name.encode(), net.now_ns)
    net.run(5)
    assert net.received("b") == [b"a"]
    assert net.ends["b"].counters.authentication == 2
    assert not [packet for packet in net.wire if packet[1:3] in (("b", "c"), ("b", "d"))]


def test_replayed_session_delivers_nothing_again() -> None:
    config = CentaurusConfig(key=KEY)
    net = Network("a", "b", config=config)
    net.ends["a"].send("b", 1, b"pay 5", net.now_ns)
    net.run(3)
    assert net.received("b") == [b"pay 5"]
    net.ends["b"] = UdpWorker(config, random_bytes=random.Random(99).randbytes)  # it forgot everything
    for _, source, _, octets in list(net.wire):
        if source == "a":
            net.post("a", "b", octets)
    net.run(20)
    assert net.received("b") == [b"pay 5"]
    assert net.ends["b"].counters.authentication == 0


@pytest.mark.parametrize("has_peer", [False, True])
def test_packets_that_come_back_to_their_sender_deliver_nothing(has_peer: bool) -> None:
    net = Network("a", "b", config=CentaurusConfig(key=KEY))
    if not has_peer:
        del net.ends["b"]  # whoever is on the path keeps everything from it
    net.ends["a"].send("b", 1, b"pay 5", net.now_ns)
    reflected = 0
    for _ in range(200):
        net.run(0.05)
        for _, source, target, octets in net.wire[reflected:]:
            net.post(target, source, octets)  # as if the other end had sent it: its tag is valid
        reflected = len(net.wire)
    assert net.received("a") == []
    assert net.received("b") == [b"pay 5"] * has_peer
    assert bool([event for event in net.events["a"] if isinstance(event, ObjectDelivered)]) == has_peer
    assert [end.counters.authentication for end in net.ends.values()] == [0] * len(net.ends)


def test_token_serves_early_segments_once() -> None:
    net = Network("a", "b", config=CentaurusConfig(extensions=Extension.EARLY_START))
    for _ in range(2):
        net.ends["a"].send("b", 1, bytes(600), net.now_ns)
        net.run(3)
    early = next(i for i, (*_, octets) in enumerate(net.wire) if octets[17:19] == b"OB" and octets[43] & 0x80)
    session = [octets for _, source, _, octets in net.wire[early:] if source == "a"]
    assert [wire.read_packet(octets)["message"] for octets in session[:4]] == ["OBJ", "PK", "PK", "DONE"]
    before = len(net.wire)
    for octets in session:
        net.post("a", "b", octets)
    net.run(20)
    answers = [wire.read_packet(octets) for _, source, _, octets in net.wire[before:] if source == "b"]
    assert [(answer["message"], answer["extensions"] >> 7) for answer in answers] == [("PROCEED", 0)]
    assert len(net.received("b")) == 2


def test_worker_steps_stay_short_and_memory_bounded_with_a_thousand_peers() -> None:
    """Measured in CPU time of this thread, so that another program's turn on the CPU does not count."""
    gc.collect()
    tracemalloc.start()
    server = _server(max_peers_per_host=1000)
    for port in range(1000):
        _proven_peer(server, ("127.0.0.1", port), done=port % 2 == 0)
    per_peer = tracemalloc.get_traced_memory()[0] / 1000
    tracemalloc.stop()
    assert len(server.peers) == 1000
    assert per_peer < 10_000

    longest = min(_longest_step_ns(server, run) for run in range(3))

    assert longest < 5 * MS


def test_parts_of_many_peers_that_expire_at_once_make_no_long_step() -> None:
    server = _server(max_peers_per_host=1000, max_message_bytes=400_000)
    for port in range(35):
        _hold_parts(server, ("127.0.0.1", port), 4)
    assert server._shared.partial_bytes > 60 << 20
    steps = []
    for after_ns in (400 * S, 4000 * S):  # the sessions, then the parts
        steps += [_took_ns(lambda: server.on_timer(START_NS + after_ns)) for _ in range(20)]  # noqa: B023
    assert server._shared.partial_bytes == 0
    assert max(steps) < 5 * MS


def _longest_step_ns(server: UdpWorker, run: int) -> int:
    longest = 0
    for port in range(1000):
        now_ns = START_NS + (run * 1000 + port) * MS * 100
        address = ("127.0.0.1", port)
        octets = _packet(1000 + run, _obj(5000, stamp_ns=now_ns), now_ns)
        for step in (
            lambda octets=octets, address=address, now_ns=now_ns: server.receive(octets, address, now_ns),
            lambda address=address, now_ns=now_ns: server.send(address, 2, b"x", now_ns, lifetime_ns=S),
            lambda now_ns=now_ns: server.on_timer(now_ns),
            server.take_events,
        ):
            longest = max(longest, _took_ns(step))
        while True:
            begin = time.thread_time_ns()
            packet = server.outgoing(now_ns)
            if packet is not None:
                server.sent(packet, now_ns)
            longest = max(longest, time.thread_time_ns() - begin)
            if packet is None:
                break
    return longest


def _took_ns(step: Callable[[], object]) -> int:
    begin = time.thread_time_ns()
    step()
    return time.thread_time_ns() - begin


@examples(100)
@given(st.data())
def test_hostile_peer_that_follows_the_format_raises_nothing(data: st.DataObject) -> None:
    server = _server(max_partials=2, max_classes=3, max_message_bytes=5000)
    number = st.integers(0, 3)
    sizes = st.sampled_from([0, 1, 511, 512, 4999, 5001, 2**20])
    nonces = [0, 1]
    now_ns = START_NS
    for _ in range(data.draw(st.integers(1, 25))):
        kind = data.draw(st.sampled_from(["obj", "pk", "done", "send"]))
        now_ns += data.draw(st.sampled_from([0, MS, 5 * S, 30 * S]))
        if kind == "obj":
            stamp_ns = START_NS + data.draw(number)
            message: Message = _obj(data.draw(sizes), stamp_ns=stamp_ns, kind=data.draw(st.integers(0, 5)))
        elif kind == "pk":
            size = data.draw(st.sampled_from([1, 511, 512, 391]))
            message = Pk(data.draw(st.integers(0, 12)), data.draw(st.sampled_from(nonces)), bytes(size))
        else:
            message = ObjectDone(data.draw(st.sampled_from(nonces)), data.draw(number))
        address = ("h", data.draw(st.integers(0, 1)))
        if kind == "send":
            server.send(address, 4, b"back", now_ns, lifetime_ns=S)
        else:
            server.receive(_packet(data.draw(number), message, now_ns), address, now_ns)
        for octets in _answers(server, now_ns):
            answer = wire.read_packet(octets)
            nonces += [answer["nonce"]] if answer["message"] == "PROCEED" else []
        server.on_timer(now_ns)
        assert all(isinstance(event.data, bytes) for event in server.take_events() if isinstance(event, Received))
        parts = [part for peer in server.peers.values() for part in peer.acceptance.partials.values()]
        assert server._shared.partial_bytes == sum(part.memory_bytes for part in parts) >= 0
