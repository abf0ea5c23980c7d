"""No protocol falls silent: after its timer was called no deadline has passed, and who has work has one."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from hypothesis import example, given
from hypothesis import strategies as st

from multitracer.lab.rlp.entity import RlpEntity
from multitracer.lab.rlp.xid import Parameters, RlpConfig, RlpState
from multitracer.lab.tcp.profile import BSD, MODERN, as_linux
from multitracer.lab.tcp.state import ConnectionState
from multitracer.protocols.rlp import FrameKind, decode
from tests.examples import examples
from tests.lab.stack.rlp_talk import SLOT_NS, Radio
from tests.lab.stack.tcp_pair import Pair
from tests.narrowed import known
from tests.protocols.centaurus_net import MS, Copy, Network

if TYPE_CHECKING:
    from multitracer.lab.tcp.connection import Connection
    from multitracer.lab.tcp.packet import TcpPacket
    from multitracer.lab.tcp.profile import TcpProfile

_QUIET = {ConnectionState.CLOSED, ConnectionState.LISTEN, ConnectionState.TIME_WAIT}


def _never_silent(connection: Connection, now_ns: int) -> None:
    due_ns = connection.next_timer_ns()
    assert due_ns is None or due_ns > now_ns, "a deadline has passed, and stays"
    sender = connection.sender
    waits = sender.flight_bytes > 0 or (connection.state not in _QUIET and sender.stream.end > sender.snd_max)
    assert not waits or connection.state in _QUIET or due_ns is not None, "has work, and waits for nothing"


@given(
    profile=st.sampled_from([BSD, MODERN, as_linux(MODERN)]),
    loss=st.sampled_from([0.0, 0.02, 0.2, 0.6]),
    seed=st.integers(0, 1 << 20),
    drops_own=st.booleans(),
)
@examples(60)
@example(profile=as_linux(MODERN), loss=0.2, seed=344, drops_own=True)  # refused a pure ACK in TIME-WAIT
def test_a_tcp_with_data_always_waits_for_something(
    profile: TcpProfile, loss: float, seed: int, drops_own: bool
) -> None:
    luck = Random(seed)

    def fate(_: int, packet: TcpPacket) -> list[int]:
        if drops_own and luck.random() < 0.05 and packet.segment.source_port == 1025:
            pair.a.sender.on_local_drop(pair.now_ns)
            return []
        return [] if luck.random() < loss else [luck.randrange(300 * MS)]

    def step() -> None:
        pair.reads = luck.random() < 0.9 if pair.reads else luck.random() < 0.05  # windows close for a while
        for connection in (pair.a, pair.b):
            _never_silent(connection, pair.now_ns)

    pair = Pair(client=profile, fate=fate, on_step=step)
    pair.transfer(luck.randbytes(luck.randrange(1, 60_000)), seconds=4000)


@given(seed=st.integers(0, 1 << 20), loss=st.sampled_from([0.0, 0.1, 0.5]))
@examples(40)
def test_centaurus_always_waits_for_something(seed: int, loss: float) -> None:
    luck = Random(seed)

    def fate(octets: bytes) -> list[Copy]:
        return [] if luck.random() < loss else [Copy(luck.randrange(1, 2000) * MS, octets)]

    net = Network("a", "b", fate=fate, seed=seed)
    for _ in range(30):
        name, peer = luck.choice([("a", "b"), ("b", "a")])
        net.ends[name].send(peer, luck.randrange(3), luck.randbytes(luck.randrange(3000)), net.now_ns)
        net.run(luck.uniform(0, 10))
        for end in net.ends.values():
            for _ in range(100):
                end.on_timer(net.now_ns)
            due_ns = end.next_timer()
            assert due_ns is None or due_ns > net.now_ns, "a deadline has passed, and stays"
            waits = any(len(each.outgoing) for each in end.peers.values())
            assert not waits or due_ns is not None, "objects wait for nothing"


@given(seed=st.integers(0, 1 << 20), t1_ms=st.integers(10, 60).map(lambda tens: 10 * tens), n2=st.integers(1, 6))
@examples(30)
def test_an_rlp_that_is_not_answered_asks_each_t1_until_it_resets(seed: int, t1_ms: int, n2: int) -> None:
    luck, parameters = Random(seed), Parameters(t1_ms=t1_ms, n2=n2)
    near, far = (RlpEntity(RlpConfig(role=role, parameters=parameters)) for role in ("mobile", "fixed"))
    radio = Radio(near, far, loses=lambda *_: False)
    near.connect()

    def is_up() -> bool:
        return near.state is RlpState.ESTABLISHED

    for _ in radio.run(200):
        if is_up():
            break
    assert is_up()
    for _ in range(luck.randrange(1, 6)):
        near.write(b"x")
    t1_slots = -(-t1_ms * MS // SLOT_NS)
    silent_since, asked = 0, 0
    for slot in range((n2 + 3) * (t1_slots + 2) + 8):
        octets = near.outgoing(slot * SLOT_NS)
        near.receive(None, slot * SLOT_NS)
        if not is_up():
            break
        frame = decode(known(octets))
        if frame.kind is not FrameKind.U and frame.poll_final:
            silent_since, asked = slot, asked + 1
        assert slot - silent_since <= t1_slots + 8, "T1 has passed, and nothing was asked"
    assert not is_up()
    assert asked == n2
