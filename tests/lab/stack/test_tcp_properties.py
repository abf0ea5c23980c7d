"""TCP delivers exactly what was written, whatever the path does; nothing that arrives breaks it."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import RemoteProtocolError
from multitracer.lab.tcp.packet import TcpPacket, build_packet, parse_packet
from multitracer.lab.tcp.profile import BSD, MODERN, TcpProfile, as_linux
from multitracer.lab.tcp.state import ConnectionState
from multitracer.units import NS_PER_MS
from tests.examples import examples
from tests.lab.stack.tcp_pair import Fate, Pair

algorithms = st.sampled_from(["tahoe", "reno", "newreno", "linux-reno", "cubic", "linux-cubic", "vegas"])
switches = st.booleans()


@st.composite
def profiles(draw: st.DrawFn) -> TcpProfile:
    profile = replace(
        draw(st.sampled_from([BSD, MODERN])),
        congestion=draw(algorithms),
        timestamps=draw(switches),
        sack=draw(switches),
        window_scaling=draw(switches),
        ecn=draw(switches),
        mtu_bytes=draw(st.sampled_from([68, 296, 512, 1500])),
        receive_buffer_bytes=draw(st.sampled_from([600, 4096, 65_535, 200_000])),
        max_retransmissions=1_000,
    )
    return as_linux(profile) if draw(switches) else profile


# Per packet: how many copies arrive (0 is a loss) and by how much each is late.
fates = st.lists(st.lists(st.integers(0, 700 * NS_PER_MS), max_size=3).map(lambda late: late or []), max_size=60)


@examples(150)
@given(a=profiles(), b=profiles(), fates=fates, size=st.integers(0, 12_000), isn=st.integers(0, 2**32 - 1))
def test_any_loss_reordering_and_duplication_delivers_exactly(
    a: TcpProfile, b: TcpProfile, fates: list[Fate], size: int, isn: int
) -> None:
    def fate(n: int, _: TcpPacket) -> Fate:
        return fates[n] if n < len(fates) else [0]

    data = bytes(i * 7 % 251 for i in range(size))
    pair = Pair(client=a, server=b, fate=fate, isn=isn)
    pair.transfer(data)

    assert bytes(pair.received["b"]) == data
    assert pair.a.error is None
    assert pair.b.error is None
    ends = {pair.a.state, pair.b.state}
    assert ConnectionState.CLOSED in ends
    assert ends <= {
        ConnectionState.CLOSED,
        ConnectionState.LAST_ACK,
    }  # its FIN may be lost until nobody is there to answer


@examples(60)
@given(rate=st.floats(0.02, 0.4), seed=st.integers(0, 99), both=switches, profile=profiles())
def test_random_loss_all_the_way_delivers_exactly(rate: float, seed: int, both: bool, profile: TcpProfile) -> None:
    luck = random.Random(seed)

    def fate(_: int, packet: TcpPacket) -> Fate:
        return [] if luck.random() < rate and (both or packet.segment.payload) else [0]

    data = bytes(i * 3 % 256 for i in range(9_000))
    pair = Pair(client=profile, fate=fate)
    pair.transfer(data, seconds=1e6)

    assert bytes(pair.received["b"]) == data
    assert pair.a.error is None


@given(data=st.binary(max_size=120))
def test_random_bytes_raise_only_the_documented_error(data: bytes) -> None:
    try:
        parse_packet(data)
    except RemoteProtocolError:
        return


@examples(100)
@given(position=st.integers(0, 20), byte=st.integers(20, 70), value=st.integers(1, 255), profile=profiles())
def test_forged_segments_never_break_the_stream_that_is_read(
    position: int, byte: int, value: int, profile: TcpProfile
) -> None:
    """A changed header may end the connection, but raises nothing and starts no storm of ACKs."""
    pair = Pair(client=profile)

    def fate(n: int, packet: TcpPacket) -> Fate:
        if n == position:
            changed = bytearray(build_packet(packet))
            changed[byte % len(changed)] ^= value
            forged = _parsed(changed)
            if forged is not None:
                for connection in (pair.a, pair.b):
                    connection.receive(forged, now_ns=pair.now_ns)
        return [0]

    pair.fate = fate
    pair.transfer(bytes(5_000), seconds=600)

    assert len(pair.sent["a"]) + len(pair.sent["b"]) < 6_000


def _parsed(data: bytearray) -> TcpPacket | None:
    try:
        return parse_packet(bytes(data))
    except RemoteProtocolError:
        return None
