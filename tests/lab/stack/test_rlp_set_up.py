"""How a link is set up, negotiated and released; conversations by hand.

Each is fed whole, byte by byte and with trailing octets. A line is one slot: what the entity must send,
then what comes. T1 is 5 slots and N2 is 2, so that nothing takes long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from multitracer.errors import LocalProtocolError
from multitracer.lab.rlp.entity import RlpEntity
from multitracer.lab.rlp.xid import Parameters, RlpConfig, RlpState
from multitracer.protocols.link_events import Connected, Disconnected, Flushed, FrameReceived
from tests.lab.stack.rlp_talk import FEEDS, SHORT, Exchange, connected, read, small_entity, write
from tests.narrowed import of_kind

if TYPE_CHECKING:
    from tests.lab.stack.rlp_talk import Feed


@pytest.fixture(params=FEEDS)
def feed(request: pytest.FixtureRequest) -> Feed:
    return FEEDS[request.param]()


# -- set-up and release --------------------------------------------------------------------------------


def test_set_up_is_sabm_and_ua(feed: Feed) -> None:
    exchange = Exchange(small_entity(), feed)
    exchange("NULL")
    exchange.entity.connect()
    exchange("""
        SABM P |
        NULL   | UA F
        RR 0   |
    """)
    assert exchange.entity.state is RlpState.ESTABLISHED
    assert exchange.happened() == ["Connected"]


def test_sabm_is_repeated_each_t1_and_n2_times(feed: Feed) -> None:
    exchange = Exchange(small_entity(), feed)
    exchange.entity.connect()
    exchange("""
        SABM P |
        NULL | x4
        SABM P |
        NULL | x4
        SABM P |
        NULL | x4
        NULL |
    """)
    assert exchange.entity.state is RlpState.ATTACHED
    assert exchange.happened() == ["Disconnected"]


def test_set_up_by_the_peer_is_answered_ua(feed: Feed) -> None:
    exchange = Exchange(small_entity(role="fixed"), feed)
    exchange("""
        NULL | SABM P
        UA F |
        RR 0 |
    """)
    assert exchange.happened() == ["Connected"]


def test_a_repeated_sabm_after_a_lost_ua_is_the_same_set_up(feed: Feed) -> None:
    exchange = Exchange(small_entity(), feed)
    exchange("""
        NULL | SABM P
        UA F |
    """)
    write(exchange, "one")
    exchange("""
        RR 0 | SABM P
        UA F | RR 0
        IS 0 RR 0 one | RR 1
    """)
    assert exchange.happened() == ["Connected"]


def test_who_answered_a_sabm_sends_no_information_until_the_peer_is_heard(feed: Feed) -> None:
    exchange = Exchange(small_entity(), feed)
    exchange("""
        NULL | SABM P
        UA F |
    """)
    assert not exchange.entity.ready
    write(exchange, "one")
    exchange("""
        RR 0 | x3
        RR 0 P |
        RR 0 | RR 0 F
        IS 0 RR 0 one |
    """)
    assert exchange.happened() == ["Connected", "T1Expired"]


def test_a_detached_entity_answers_dm(feed: Feed) -> None:
    exchange = Exchange(RlpEntity(RlpConfig(), attached=False), feed)
    exchange("""
        NULL | SABM P
        DM F | DISC P
        DM F |
    """)
    exchange.entity.attach()
    exchange("""
        NULL | SABM P
        UA F |
    """)


def test_dm_refuses_a_set_up(feed: Feed) -> None:
    exchange = Exchange(small_entity(), feed)
    exchange.entity.connect()
    exchange("SABM P | DM F")
    assert exchange.entity.state is RlpState.ATTACHED
    assert [event.cause for event in of_kind(Disconnected, exchange.events)] == ["refused"]


def test_disc_and_ua_release_the_link(feed: Feed) -> None:
    exchange = connected(feed)
    exchange.entity.disconnect(now_ns=0)
    exchange("""
        DISC P | UA F
        NULL |
    """)
    assert exchange.happened() == ["Flushed", "Disconnected"]


def test_release_by_the_peer_is_answered_ua(feed: Feed) -> None:
    exchange = connected(feed)
    write(exchange, "lost")
    exchange("""
        IS 0 RR 0 lost | DISC P
        UA F |
    """)
    assert exchange.entity.state is RlpState.ATTACHED
    assert [event.unacked_bytes for event in exchange.events if isinstance(event, Flushed)] == [4]


def test_set_up_crossing_set_up_connects_both(feed: Feed) -> None:
    exchange = Exchange(small_entity(), feed)
    exchange.entity.connect()
    exchange("""
        SABM P | SABM P
        UA F   | UA F
        RR 0   |
    """)
    assert exchange.happened() == ["Connected"]


# -- XID and TEST --------------------------------------------------------------------------------------

WISHED = "1100213d313d410a51026108"
"""Version 0, windows 61, T1 100 ms, N2 2, T2 80 ms."""


def test_xid_comes_before_sabm_and_the_answer_counts(feed: Feed) -> None:
    exchange = Exchange(small_entity(negotiate=True), feed)
    exchange.entity.connect()
    exchange(f"""
        XID {WISHED} P | XID 1100213d311441145109 F
        SABM P | UA F
    """)
    agreed = Parameters(window_ms_to_iwf=20, t1_ms=200, n2=9)
    assert exchange.entity.parameters == agreed
    assert Connected(20_000_000, 2, 0, 20, 200, 9) in exchange.events


def test_xid_of_the_peer_is_answered_with_what_both_can(feed: Feed) -> None:
    exchange = Exchange(small_entity(role="fixed"), feed)
    exchange("""
        NULL | XID 1101211e410a5106 P
        XID 1100211e313d410a51066108 F |
    """)
    assert exchange.entity.parameters == Parameters(window_iwf_to_ms=30, t1_ms=100, n2=6)


def test_a_peer_that_does_not_negotiate_is_connected_as_wished(feed: Feed) -> None:
    exchange = Exchange(small_entity(negotiate=True), feed)
    exchange.entity.connect()
    exchange(f"""
        XID {WISHED} P |
        NULL | x4
        XID {WISHED} P |
        NULL | x4
        XID {WISHED} P |
        NULL | x4
        SABM P | UA F
        RR 0 |
    """)
    assert exchange.entity.parameters == SHORT


def test_xid_without_sense_is_ignored(feed: Feed) -> None:
    exchange = Exchange(small_entity(), feed)
    exchange("""
        NULL | XID 2100 P
        NULL |
    """)
    assert [event.fate for event in of_kind(FrameReceived, exchange.events)] == ["ignored"]


def test_test_is_echoed(feed: Feed) -> None:
    exchange = connected(feed)
    exchange("""
        RR 0 | TEST 0102aa P
        TEST 0102aa F |
        RR 0 |
    """)


# -- misuse and noise ---


def test_frames_of_the_wrong_size_or_fcs_count_as_lost() -> None:
    exchange = connected()
    for octets in (b"", bytes(29), bytes(30), bytes(100)):
        exchange.entity.receive(octets, 0)
    assert [type(event).__name__ for event in exchange.entity.events()] == ["FrameLost"] * 4


def test_information_before_the_link_is_ignored() -> None:
    exchange = Exchange(small_entity())
    exchange("NULL | IS 0 RR 0 a")
    assert [event.fate for event in of_kind(FrameReceived, exchange.events)] == ["ignored"]
    assert read(exchange) == []


def test_misuse_is_a_local_error() -> None:
    entity = small_entity()
    with pytest.raises(LocalProtocolError, match='the operation "write" is not possible in the state attached'):
        entity.write(b"x")
    with pytest.raises(LocalProtocolError, match="reset"):
        entity.reset(now_ns=0)
    exchange = connected()
    with pytest.raises(LocalProtocolError, match="connect"):
        exchange.entity.connect()
    with pytest.raises(LocalProtocolError, match="a unit holds 25 octets"):
        exchange.entity.write(bytes(26))
    with pytest.raises(LocalProtocolError, match="N2 are out of range"):
        Parameters(n2=0)
    wrong: list[dict[str, Any]] = [{"frame_octets": 31}, {"slot_ns": 0}, {"slot_ns": 10**9}, {"backlog_frames": 0}]
    for options in wrong:
        with pytest.raises(LocalProtocolError, match="must be"):
            RlpConfig(**options)
