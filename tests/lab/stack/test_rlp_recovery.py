"""How a link recovers when nothing else helps: T1, checkpoint, N2, reset; conversations by hand.

Each is fed whole, byte by byte and with trailing octets. A line is one slot: what the entity must send,
then what comes. T1 is 5 slots and N2 is 2, so that nothing takes long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from multitracer.lab.rlp.xid import RlpState
from multitracer.protocols.link_events import Flushed, ResetStarted
from tests.lab.stack.rlp_talk import FEEDS, connected, read, write

if TYPE_CHECKING:
    from tests.lab.stack.rlp_talk import Feed


@pytest.fixture(params=FEEDS)
def feed(request: pytest.FixtureRequest) -> Feed:
    return FEEDS[request.param]()


# -- T1, checkpoint and N2 -----------------------------------------------------------------------------


def test_t1_polls_and_the_answer_brings_back_all_that_is_missing(feed: Feed) -> None:
    exchange = connected(feed)
    write(exchange, "a", "b")
    exchange("""
        IS 0 RR 0 a |
        IS 1 RR 0 b |
        RR 0 | x3
        RR 0 P |
    """)
    write(exchange, "c")
    exchange("""
        RR 0 | RR 1 F
        IS 1 RR 0 b |
        IS 2 RR 0 c | RR 3
    """)
    assert exchange.happened() == ["T1Expired"]
    assert exchange.events == []


def test_nothing_new_and_no_srej_counts_while_a_poll_is_open(feed: Feed) -> None:
    exchange = connected(feed)
    write(exchange, "a")
    exchange("""
        IS 0 RR 0 a |
        RR 0 | x4
        RR 0 P | SREJ 0
    """)
    write(exchange, "b")
    exchange("""
        RR 0 | RR 0
        RR 0 | RR 0 F
        IS 0 RR 0 a |
        IS 1 RR 0 b | RR 2
    """)


def test_a_poll_is_answered_at_once_and_makes_forget_what_is_out_of_order(feed: Feed) -> None:
    exchange = connected(feed)
    exchange("""
        RR 0   | IS 1 RR 0 b
        SREJ 0 | RR 0 P
        RR 0 F | IS 0 RR 0 a
        RR 1   | IS 1 RR 0 b
        RR 2   |
    """)
    assert read(exchange) == ["a", "b"]


def test_the_answer_to_a_poll_travels_with_information(feed: Feed) -> None:
    exchange = connected(feed)
    write(exchange, "out")
    exchange("IS 0 RR 0 out | RR 0 P")
    write(exchange, "more")
    exchange("IS 1 RR 0 more F | RR 2")


def test_n2_polls_in_vain_reset_the_link_and_flush(feed: Feed) -> None:
    exchange = connected(feed)
    exchange("RR 0 | IS 3 RR 0 early")
    write(exchange, "a", "bb")
    exchange("""
        IS 0 SREJ 0 a |
        IS 1 SREJ 1 bb |
        . | x3
        RR 0 P |
        . | x4
        RR 0 P |
    """)
    write(exchange, "ccc")
    exchange("""
        . | x4
        SABM P |
        NULL   | UA F
        RR 0   |
    """)
    starts = [event for event in exchange.events if isinstance(event, ResetStarted)]
    flushes = [event for event in exchange.events if isinstance(event, Flushed)]
    assert [(event.cause, event.n_s, event.attempts) for event in starts] == [("n2", 0, 2)]
    assert [event[2:] for event in flushes] == [(3, 3, 1)]
    assert exchange.happened()[-1] == "ResetDone"
    write(exchange, "new")
    exchange("IS 0 RR 0 new | RR 1")


def test_a_frame_repeated_more_than_n2_times_resets_the_link(feed: Feed) -> None:
    exchange = connected(feed)
    write(exchange, "a")
    exchange("""
        IS 0 RR 0 a | SREJ 0
        IS 0 RR 0 a | SREJ 0
        IS 0 RR 0 a | SREJ 0
        SABM P | UA F
    """)
    assert exchange.happened() == ["ResetStarted", "Flushed", "ResetDone"]


def test_a_sabm_during_the_link_resets_this_side_too(feed: Feed) -> None:
    exchange = connected(feed)
    write(exchange, "a")
    exchange("""
        IS 0 RR 0 a | IS 0 RR 0 x
        RR 1        | SABM P
        UA F |
        RR 0 | IS 0 RR 0 y
    """)
    assert read(exchange) == ["x", "y"]
    assert [event.cause for event in exchange.events if isinstance(event, ResetStarted)] == ["peer"]


def test_resets_that_cross_end_in_one_link(feed: Feed) -> None:
    exchange = connected(feed)
    exchange.entity.reset(now_ns=0)
    exchange("""
        SABM P | SABM P
        UA F   | UA F
        RR 0   | IS 0 RR 0 x
    """)
    assert read(exchange) == ["x"]
    assert exchange.happened() == ["ResetStarted", "Flushed", "ResetDone"]


def test_the_ua_of_a_crossed_reset_does_not_answer_a_later_one(feed: Feed) -> None:
    """Else numbers of two epochs mix, and what is lost is in no flush."""
    exchange = connected(feed)
    exchange.entity.reset(now_ns=0)
    exchange("""
        SABM P | SABM P
        UA F   |
        NULL   |
    """)
    assert exchange.entity.state is RlpState.RESETTING, "our own SABM is not answered yet"
    exchange("""
        NULL | UA F
        RR 0 | IS 0 RR 0 x
    """)
    assert read(exchange) == ["x"]
    assert exchange.happened() == ["ResetStarted", "Flushed", "ResetDone"]


def test_a_reset_that_nobody_answers_goes_on(feed: Feed) -> None:
    exchange = connected(feed)
    exchange.entity.reset(now_ns=0)
    for _ in range(10):
        exchange("""
            SABM P |
            NULL | x4
        """)
    exchange("SABM P | UA F")
    assert exchange.entity.state is RlpState.ESTABLISHED


def test_a_network_may_drop_the_call_instead(feed: Feed) -> None:
    exchange = connected(feed, when_exhausted="drop-call")
    write(exchange, "a")
    exchange("""
        IS 0 RR 0 a | SREJ 0
        IS 0 RR 0 a | SREJ 0
        IS 0 RR 0 a | SREJ 0
        - |
        - | SABM P
        - |
    """)
    assert exchange.entity.state is RlpState.DROPPED
    assert exchange.happened() == ["Flushed", "CallDropped"]


def test_the_layer_below_may_end_the_call(feed: Feed) -> None:
    exchange = connected(feed)
    exchange.entity.channel_lost(now_ns=7)
    exchange("- |")
    assert exchange.happened() == ["Flushed", "CallDropped"]
