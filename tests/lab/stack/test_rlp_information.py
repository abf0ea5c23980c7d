"""How information is numbered, asked for again and held back; conversations by hand.

Each is fed whole, byte by byte and with trailing octets. A line is one slot: what the entity must send,
then what comes. T1 is 5 slots and N2 is 2, so that nothing takes long.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from multitracer.lab.rlp.xid import Parameters
from multitracer.protocols.link_events import FrameReceived, FrameSent
from tests.lab.stack.rlp_talk import FEEDS, SHORT, connected, read, write

if TYPE_CHECKING:
    from tests.lab.stack.rlp_talk import Feed


@pytest.fixture(params=FEEDS)
def feed(request: pytest.FixtureRequest) -> Feed:
    return FEEDS[request.param]()


# -- information ---------------------------------------------------------------------------------------


def test_information_is_numbered_and_acknowledged(feed: Feed) -> None:
    exchange = connected(feed)
    write(exchange, "one", "two")
    exchange("""
        IS 0 RR 0 one | IS 0 RR 0 uno
        IS 1 RR 1 two | IS 1 RR 1 due
        RR 2 | RR 2
        RR 2 | x9
    """)
    assert read(exchange) == ["uno", "due"]
    assert exchange.entity.unacked_bytes == 0
    assert exchange.happened() == []


def test_numbers_run_modulo_62(feed: Feed) -> None:
    exchange = connected(feed)
    for n in range(130):
        write(exchange, f"w{n}")
        exchange(f"IS {n % 62} RR {n % 62} w{n} | IS {n % 62} RR {(n + 1) % 62} r{n}")
        assert read(exchange) == [f"r{n}"]


def test_the_window_holds_61_frames_and_opens_with_acknowledgment() -> None:
    exchange = connected(parameters=Parameters(t1_ms=2000))
    for n in range(61):
        assert exchange.entity.ready
        write(exchange, "x")
        exchange(f"IS {n} RR 0 x |")
    assert not exchange.entity.ready
    write(exchange, "y")
    exchange("""
        RR 0 | RR 1
        IS 61 RR 0 y | RR 3
    """)


def test_an_agreed_window_holds_too() -> None:
    exchange = connected(parameters=replace(SHORT, window_ms_to_iwf=2, t1_ms=1000))
    write(exchange, "a", "b")
    exchange("""
        IS 0 RR 0 a |
        IS 1 RR 0 b |
    """)
    assert not exchange.entity.ready


def test_an_acknowledgment_of_what_was_not_sent_is_ignored(feed: Feed) -> None:
    exchange = connected(feed)
    write(exchange, "one")
    exchange("""
        IS 0 RR 0 one | IS 0 RR 7 bad
        RR 0 | RR 1
        RR 0 |
    """)
    assert read(exchange) == []
    assert [event.fate for event in exchange.events if isinstance(event, FrameReceived)] == ["ignored"]


# -- SREJ and REJ --------------------------------------------------------------------------------------


def test_srej_asks_for_the_missing_frames_one_by_one(feed: Feed) -> None:
    exchange = connected(feed)
    exchange("""
        RR 0   | IS 0 RR 0 a
        RR 1   | -
        RR 1   | -
        RR 1   | IS 3 RR 0 d
        SREJ 1 | IS 4 RR 0 e
        SREJ 2 | IS 1 RR 0 b
        RR 2   | IS 2 RR 0 c
        RR 5   |
    """)
    assert read(exchange) == ["a", "b", "c", "d", "e"]


def test_srej_travels_with_information(feed: Feed) -> None:
    exchange = connected(feed)
    exchange("RR 0 | IS 1 RR 0 b")
    write(exchange, "out")
    exchange("""
        IS 0 SREJ 0 out | IS 0 RR 1 a
        RR 2 |
    """)
    assert read(exchange) == ["a", "b"]


def test_srej_is_repeated_after_t1(feed: Feed) -> None:
    exchange = connected(feed)
    exchange("""
        RR 0   | IS 1 RR 0 b
        SREJ 0 |
        RR 0 | x4
        SREJ 0 | IS 0 RR 0 a
        RR 2 | x6
    """)
    assert read(exchange) == ["a", "b"]


def test_srej_brings_one_frame_again_and_acknowledges_nothing(feed: Feed) -> None:
    exchange = connected(feed)
    write(exchange, "a", "b", "c")
    exchange("""
        IS 0 RR 0 a |
        IS 1 RR 0 b |
        IS 2 RR 0 c | SREJ 1
        IS 1 RR 0 b | SREJ 1
    """)
    assert exchange.entity.unacked_bytes == 3
    assert [(e.attempt, e.cause) for e in exchange.events if isinstance(e, FrameSent)][-1] == (2, "srej")


def test_srej_that_crossed_the_copy_is_not_obeyed_twice(feed: Feed) -> None:
    exchange = connected(feed)
    write(exchange, "a", "b", "c")
    exchange("""
        IS 0 RR 0 a |
        IS 1 RR 0 b |
        IS 2 RR 0 c | RR 1
        RR 0        |
        RR 0        | SREJ 1
        IS 1 RR 0 b | SREJ 1
        RR 0        | RR 3
        RR 0 |
    """)


def test_a_frame_that_was_taken_already_is_not_taken_again(feed: Feed) -> None:
    exchange = connected(feed)
    exchange("""
        RR 0 | IS 0 RR 0 a
        RR 1 | IS 0 RR 0 a
        RR 1 | IS 2 RR 0 c
        SREJ 1 | IS 2 RR 0 c
        RR 1 | IS 1 RR 0 b
    """)
    assert read(exchange) == ["a", "b", "c"]
    fates = [event.fate for event in exchange.events if isinstance(event, FrameReceived)]
    assert fates == ["delivered", "duplicate", "stored", "duplicate", "delivered"]


def test_rej_brings_everything_again_from_there(feed: Feed) -> None:
    exchange = connected(feed)
    write(exchange, "a", "b", "c")
    exchange("""
        IS 0 RR 0 a |
        IS 1 RR 0 b |
        IS 2 RR 0 c | REJ 1
        IS 1 RR 0 b |
        IS 2 RR 0 c | RR 3
        RR 0 |
    """)
    assert exchange.entity.unacked_bytes == 0


def test_rej_that_crossed_the_copy_is_not_obeyed_twice(feed: Feed) -> None:
    exchange = connected(feed)
    write(exchange, "a", "b", "c")
    exchange("""
        IS 0 RR 0 a |
        IS 1 RR 0 b |
        IS 2 RR 0 c | RR 1
        RR 0        |
        RR 0        | REJ 1
        IS 1 RR 0 b | REJ 1
        IS 2 RR 0 c | REJ 1
        RR 0        | RR 3
    """)
    assert exchange.entity.unacked_bytes == 0


def test_an_entity_that_recovers_by_rej_stores_nothing(feed: Feed) -> None:
    exchange = connected(feed, recovery="rej")
    exchange("""
        RR 0  | IS 1 RR 0 b
        REJ 0 | IS 2 RR 0 c
        RR 0  | IS 0 RR 0 a
        RR 1  | IS 1 RR 0 b
        RR 2  |
    """)
    assert read(exchange) == ["a", "b"]


# -- RNR and RR ----------------------------------------------------------------------------------------


def test_rnr_stops_new_frames_and_rr_lets_them_go(feed: Feed) -> None:
    exchange = connected(feed)
    exchange("RR 0 | RNR 0")
    assert not exchange.entity.ready
    write(exchange, "a")
    exchange("""
        RR 0 | RNR 0
        RR 0 | RR 0
        IS 0 RR 0 a | RR 1
    """)
    assert exchange.happened() == ["PeerBusy", "PeerReady"]


def test_rnr_acknowledges_and_a_busy_peer_gets_what_it_asks_for(feed: Feed) -> None:
    exchange = connected(feed)
    write(exchange, "a", "b", "c")
    exchange("""
        IS 0 RR 0 a |
        IS 1 RR 0 b | RNR 1
        RR 0        | SREJ 1
        IS 1 RR 0 b | RNR 2
        RR 0        | RR 2
        IS 2 RR 0 c |
    """)


def test_after_a_poll_a_busy_peer_gets_nothing_until_ready(feed: Feed) -> None:
    exchange = connected(feed)
    write(exchange, "a")
    exchange("""
        IS 0 RR 0 a |
        RR 0 | x4
        RR 0 P | RNR 0 F
        RR 0 | x9
        RR 0 | RR 0
        IS 0 RR 0 a | RR 1
    """)


def test_a_busy_entity_says_rnr_and_still_takes_what_is_on_its_way(feed: Feed) -> None:
    exchange = connected(feed)
    exchange.entity.local_busy = True
    exchange("""
        RNR 0 | IS 0 RR 0 a
        RNR 1 |
    """)
    exchange.entity.local_busy = False
    exchange("RR 1 |")
    assert read(exchange) == ["a"]


def test_a_reader_that_never_reads_bounds_what_is_kept() -> None:
    exchange = connected(backlog_frames=3)
    for n in range(5):
        exchange(f". | IS {n} RR 0 w{n}")
    assert read(exchange) == ["w0", "w1", "w2"]
    assert [e.fate for e in exchange.events if isinstance(e, FrameReceived)][-2:] == ["refused", "refused"]


def test_576_bit_frames_carry_67_octets(feed: Feed) -> None:
    exchange = connected(feed, frame_octets=72, slot_ns=40_000_000, parameters=Parameters())
    write(exchange, "x" * 67)
    exchange(f"IS 0 RR 0 {'x' * 67} | IS 0 RR 1 {'y' * 67}")
    assert read(exchange) == ["y" * 67]
