"""How a connection was opened and how it ended: what the packets of its two ends prove, and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.analysis.traffic import ACK, FIN, MS
from tests.diagnosis.exchange import Exchange, kinds, of

if TYPE_CHECKING:
    from pathlib import Path

ENDS = {"syn-retransmitted", "syn-unanswered", "connection-refused", "reset-by-peer", "idle-timeout"}


def test_a_syn_sent_again_costs_the_timers_wait(tmp_path: Path) -> None:
    exchange = Exchange()
    for at_ms in (0, 1000, 3000):
        exchange.syn(at_ms)
    exchange.syn_ack(3050)
    exchange.note(3050.1, 0, seq=1001, ack=5001)
    exchange.round_trips(3060, 0, count=3)
    again = of(exchange.diagnosed(tmp_path), "syn-retransmitted")
    assert again.cost_s == pytest.approx(3.0)
    assert again.numbers["syn_sent"] == 3


def test_a_syn_ack_sent_again_is_told_as_such(tmp_path: Path) -> None:
    exchange = Exchange()
    exchange.syn(0)
    exchange.syn_ack(50)
    exchange.syn_ack(1050)
    exchange.note(1051, 0, seq=1001, ack=5001)
    exchange.round_trips(1060, 0, count=3)
    assert "The SYN-ACK" in of(exchange.diagnosed(tmp_path), "syn-retransmitted").sentence


def test_an_answer_to_each_syn_is_lost_if_its_ack_would_have_come_before(tmp_path: Path) -> None:
    """A client sends its SYN again until it is answered: the server sees each SYN and answers each."""
    exchange = Exchange()
    for at_ms in (0, 1000):
        exchange.syn(at_ms)
        exchange.syn_ack(at_ms + 0.1)
    exchange.note(1050, 0, seq=1001, ack=5001)
    exchange.data(1051, 0)
    exchange.ack(1051.1, 1)
    exchange.data(1060, 0, side=1, count=3)
    exchange.note(1110, 0, seq=1001 + 1000, ack=5001 + 3000)
    found = exchange.diagnosed(tmp_path, reverse=True)
    (again,) = [each for each in found.findings if each.kind == "syn-retransmitted"]
    assert "The SYN-ACK" in again.sentence
    assert again.cost_s == pytest.approx(1.0)
    assert "because the SYN-ACK was sent 2 times" in found.headline.sentence
    assert "answers sooner" not in found.headline.help
    assert "a path and a server (its backlog) that lose no SYN" in found.headline.help


def test_a_second_syn_while_the_answer_was_on_its_way_was_no_loss(tmp_path: Path) -> None:
    """Its timestamp tells which SYN the answer is for."""
    exchange = Exchange(rtt_ms=1200).opened()
    first, answer, *rest = exchange.segments
    later = replace(first, time_ns=(first.time_ns or 0) + 1000 * MS, stamp=(2, 0))
    exchange.segments = [replace(first, stamp=(1, 0)), later, replace(answer, stamp=(7, 1)), *rest]
    exchange.round_trips(1300, 0, count=2)
    assert "syn-retransmitted" not in kinds(exchange.diagnosed(tmp_path))


def test_nobody_answered(tmp_path: Path) -> None:
    exchange = Exchange()
    for at_ms in (0, 1000, 3000, 7000):
        exchange.syn(at_ms)
    silent = of(exchange.diagnosed(tmp_path, reverse=False), "syn-unanswered")
    assert silent.cost_s == pytest.approx(7.0)
    assert "4 SYNs" in silent.sentence


def test_one_syn_at_the_end_of_a_recording_proves_nothing(tmp_path: Path) -> None:
    exchange = Exchange()
    exchange.syn(0)
    assert not ENDS & kinds(exchange.diagnosed(tmp_path, reverse=False))


def test_a_port_where_nobody_listens(tmp_path: Path) -> None:
    exchange = Exchange()
    exchange.syn(0)
    exchange.reset(80, seq=0)
    found = exchange.diagnosed(tmp_path, reverse=False)
    assert of(found, "connection-refused").numbers["answered_after_s"] == pytest.approx(0.08)
    assert kinds(found) & ENDS == {"connection-refused"}


def test_a_reset_in_the_middle_of_a_transfer(tmp_path: Path) -> None:
    exchange = Exchange().opened()
    now = exchange.round_trips(100, 0, count=3)
    exchange.data(now, 12, count=4)
    exchange.reset(now + 20, ack=12_001)
    reset = of(exchange.diagnosed(tmp_path), "reset-by-peer")
    assert reset.cost_bytes == 4000
    assert "The receiver of the data" in reset.sentence


def test_a_reset_after_a_fin_is_how_programs_close(tmp_path: Path) -> None:
    exchange = Exchange().opened()
    now = exchange.round_trips(100, 0, count=3)
    exchange.note(now, 0, seq=1001 + 12_000, ack=5001, flags=FIN | ACK)
    exchange.reset(now + 50, ack=12_002)
    assert not ENDS & kinds(exchange.diagnosed(tmp_path))


@pytest.mark.parametrize("asks", [False, True])
def test_a_reset_after_a_long_pause_is_an_idle_timeout(tmp_path: Path, asks: bool) -> None:
    exchange = Exchange().opened()
    now = exchange.round_trips(100, 0, count=3) + 30_000
    if asks:
        exchange.data(now, 12)
    exchange.reset(now + 50, ack=12_001)
    found = exchange.diagnosed(tmp_path)
    idle = of(found, "idle-timeout")
    assert idle.numbers["idle_s"] == pytest.approx(30, abs=0.2)
    assert ("in answer to the first data" in idle.sentence) == asks
    assert kinds(found) & ENDS == {"idle-timeout"}


def test_a_pause_in_which_data_were_outstanding_was_no_idle_one(tmp_path: Path) -> None:
    exchange = Exchange().opened()
    now = exchange.round_trips(100, 0, count=3)
    exchange.data(now, 12)
    exchange.reset(now + 30_000, ack=12_001)
    assert kinds(exchange.diagnosed(tmp_path)) & ENDS == {"reset-by-peer"}


@pytest.mark.parametrize(("pause_ms", "kind"), [(4_000, "idle-timeout"), (1_500, "outage")])
def test_a_short_pause_that_ends_in_silence_is_an_outage(tmp_path: Path, pause_ms: int, kind: str) -> None:
    """No device is known that forgets a connection within 3 s: a path that failed meanwhile is more likely."""
    exchange = Exchange().opened()
    now = exchange.round_trips(100, 0, count=6) + pause_ms
    for wait_ms in (0, 250, 750, 1_750, 3_750):
        exchange.data(now + wait_ms, 24)
    assert kinds(exchange.diagnosed(tmp_path)) & {"idle-timeout", "outage"} == {kind}
