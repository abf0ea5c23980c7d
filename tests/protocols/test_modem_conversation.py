"""A conversation with a modem: what belongs to an answer, what came unasked, what follows silence."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import LocalProtocolError
from multitracer.protocols.modem.conversation import MOST_BYTES, CommandAnswer, Conversation, Unsolicited
from multitracer.protocols.modem.decode import decode

CSQ = b"\r\n+CSQ: 15,99\r\n\r\nOK\r\n"


@given(cuts=st.lists(st.integers(1, len(CSQ) - 1), max_size=6))
def test_answer_is_whole_however_it_is_cut_into_reads(cuts: list[int]) -> None:
    conversation = Conversation()
    assert conversation.ask("AT+CSQ", 100) == b"AT+CSQ\r"
    events: list[CommandAnswer | Unsolicited] = []
    bounds = [0, *sorted(set(cuts)), len(CSQ)]
    for now, (begin, end) in enumerate(pairwise(bounds), 101):
        events += conversation.receive(CSQ[begin:end], now)
    (answer,) = (event for event in events if isinstance(event, CommandAnswer))
    assert (answer.command, answer.result, answer.asked_ns) == ("AT+CSQ", "OK", 100)
    assert answer.raw.strip() == CSQ.strip()
    assert len(events) == 1


@pytest.mark.parametrize("final", ["OK", "ERROR", "+CME ERROR: 10", "+CMS ERROR: SIM busy", "COMMAND NOT SUPPORT"])
def test_every_final_result_ends_an_answer(final: str) -> None:
    conversation = Conversation()
    conversation.ask("AT+CSQ", 0)
    (answer,) = conversation.receive(f"\r\n{final}\r\n".encode(), 7)
    assert isinstance(answer, CommandAnswer)
    assert (answer.result, answer.answered_ns) == (final, 7)


def test_what_comes_behind_the_answer_is_unasked_and_a_half_line_waits() -> None:
    conversation = Conversation()
    conversation.ask("AT+CSQ", 0)
    answer, ring = conversation.receive(CSQ + b"\r\nRING\r\n+CR", 5)
    assert isinstance(answer, CommandAnswer)
    assert ring == Unsolicited(b"\n\r\nRING\r\n", 5) or ring == Unsolicited(b"\r\nRING\r\n", 5)
    (rest,) = conversation.receive(b"EG: 1\r\n", 9)
    assert rest == Unsolicited(b"+CREG: 1\r\n", 9)


def test_a_word_that_only_looks_like_an_end_does_not_end_an_answer() -> None:
    conversation = Conversation()
    conversation.ask("ATI", 0)
    assert conversation.receive(b"BOOKLET OK 2\r\nNO CARRIER\r\n", 1) == []
    (answer,) = conversation.receive(b"OK\r\n", 2)
    assert isinstance(answer, CommandAnswer)
    assert b"BOOKLET" in answer.raw


def test_given_up_answer_cannot_be_taken_for_the_next_ones() -> None:
    conversation = Conversation()
    conversation.ask("AT+CSQ", 0)
    conversation.receive(b"\r\n+CS", 1)
    late = conversation.give_up(2)
    assert (late.result, late.raw) == ("", b"\r\n+CS")
    (unasked,) = conversation.receive(b"Q: 9,99\r\n\r\nOK\r\n", 3)
    assert isinstance(unasked, Unsolicited)
    assert not conversation.is_drained(4, for_ns=5)
    assert conversation.is_drained(8, for_ns=5)


def test_one_command_at_a_time_and_one_line_each() -> None:
    conversation = Conversation()
    with pytest.raises(LocalProtocolError):
        conversation.give_up(0)
    for bad in ("AT\rATD112;", "AT+CSQ\n", "ATé"):
        with pytest.raises(LocalProtocolError):
            conversation.ask(bad, 0)
    conversation.ask("AT", 0)
    with pytest.raises(LocalProtocolError):
        conversation.ask("AT", 0)


def test_flood_is_bounded_and_its_end_is_still_found() -> None:
    conversation = Conversation()
    conversation.ask("AT+CSQ", 0)
    for now in range(50):
        assert conversation.receive(b"A" * 10_000, now) == []
    (answer,) = conversation.receive(CSQ, 60)
    assert isinstance(answer, CommandAnswer)
    assert len(answer.raw) <= MOST_BYTES
    assert len(answer.raw) + answer.lost_bytes in (500_000 + len(CSQ), 500_000 + len(CSQ) - 1)
    (reading,) = decode(answer.command, answer.raw).readings
    assert reading["rssi_dbm"] == -83.0


def test_line_without_end_is_handed_on_in_pieces() -> None:
    conversation = Conversation()
    chunks = [event for now in range(20) for event in conversation.receive(b"x" * 10_000, now)]
    assert chunks
    assert all(isinstance(p, Unsolicited) and len(p.raw) <= MOST_BYTES for p in chunks)
