"""A silence after all was acknowledged, seen by the receiver alone: what comes next tells whose it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from multitracer.diagnosis.limits.gaps import UNEXPLAINED
from multitracer.diagnosis.limits.names import Confidence, Limit, LimitSubtype
from tests.analysis.traffic import SYN
from tests.diagnosis.exchange import FULL, Exchange, of

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.diagnosis.diagnosis import Diagnosis

_WAY_MS = 25
_SILENCE_S = 5.0


class _Phone:
    """What arrives of a sender, flights of four a round trip apart, and what the phone answers."""

    def __init__(self, *, stamped: bool = True) -> None:
        self._talk, self._stamped = Exchange(), stamped
        self._at_ms, self._seq, self._ip_id = 0.0, 1000, 1
        self._answered, self._heard = 0, 0
        self._data(0, flags=SYN, options={"mss": FULL, "scale": 0})
        self._seq += 1
        self._answer(seq=5000, flags=0x12)
        self.wait(2 * _WAY_MS)
        self._data(0)

    def flights(self, count: int) -> None:
        for _ in range(count):
            for _ in range(4):
                self._at_ms += 1
                self._data(FULL)
                self._answer()
            self.wait(2 * _WAY_MS)

    def repaired(self) -> None:
        """A segment is lost, three arrive, and it is sent again."""
        hole = self._seq
        self._seq, self._ip_id = self._seq + FULL, self._ip_id + 1
        for _ in range(3):
            self._at_ms += 1
            self._data(FULL)
            self._answer(ack=hole)
        self.wait(2 * _WAY_MS)
        self._data(FULL, seq=hole)
        self._answer()
        self.wait(2 * _WAY_MS)

    def copy(self) -> None:
        """What arrived last comes again."""
        self._data(FULL, seq=self._seq - FULL)
        self._answer()
        self.wait(2 * _WAY_MS)

    def late(self, *, ms: int) -> None:
        """Segments sent at once stand in a queue that grows to so many ms."""
        sent_ms, last_ms = self._at_ms, self._at_ms + ms
        while self._at_ms < last_ms:
            self._at_ms += 20
            self._data(FULL, stamp=(1000 + int(sent_ms - _WAY_MS), self._heard))
            self._answer()
        self.wait(2 * _WAY_MS)

    def idle_gap(self, *, lost_data: int = 0, lost_answer: bool = False) -> None:
        self._at_ms += 1000 * _SILENCE_S
        self._ip_id += lost_data
        if lost_answer:
            self._heard -= 50  # the sender knows the one before

    def wait(self, ms: float) -> None:
        self._at_ms += ms
        self._heard = self._answered

    def diagnosed(self, folder: Path) -> Diagnosis:
        return self._talk.diagnosed(folder, reverse=False)

    def _data(self, payload: int, *, seq: int | None = None, **what: Any) -> None:
        at = self._seq if seq is None else seq
        stamp = (1000 + int(self._at_ms - _WAY_MS), self._heard) if self._stamped else None
        what = {"ack": 5001, "payload": payload, "ip_id": self._ip_id, "stamp": stamp} | what
        self._talk.note(self._at_ms, 0, seq=at, **what)
        self._ip_id += 1
        self._seq = max(self._seq, at + payload)

    def _answer(self, **what: Any) -> None:
        self._answered = 9000 + int(self._at_ms)
        stamp = (self._answered, 1000 + int(self._at_ms - _WAY_MS)) if self._stamped else None
        self._talk.note(self._at_ms + 0.1, 1, **{"seq": 5001, "ack": self._seq, "stamp": stamp} | what)


def _held(found: Diagnosis) -> dict[tuple[Limit, LimitSubtype], float]:
    return {(share.limit, share.part): share.seconds for share in found.limited.shares}


def _window_s(found: Diagnosis) -> float:
    held = _held(found)
    return sum(held.get((limit, LimitSubtype.NONE), 0.0) for limit in (Limit.SLOW_START, Limit.CONGESTION_WINDOW))


@pytest.mark.parametrize("stamped", [True, False])
def test_who_heard_all_and_sends_nothing_has_nothing_to_send(tmp_path: Path, stamped: bool) -> None:
    phone = _Phone(stamped=stamped)
    phone.flights(30)
    phone.repaired()
    phone.idle_gap()
    phone.flights(30)
    found = phone.diagnosed(tmp_path)
    assert _held(found)[Limit.APPLICATION, LimitSubtype.WRITES] == pytest.approx(_SILENCE_S, abs=0.2)
    (share,) = (each for each in found.limited.shares if each.limit is Limit.APPLICATION)
    assert share.confidence == (Confidence.INFERRED if stamped else Confidence.WEAK)


def test_what_is_lost_behind_a_pause_does_not_make_it_a_repair(tmp_path: Path) -> None:
    phone = _Phone()
    phone.flights(30)
    phone.idle_gap()
    phone.repaired()
    phone.flights(30)
    held = _held(phone.diagnosed(tmp_path))
    assert held[Limit.APPLICATION, LimitSubtype.WRITES] == pytest.approx(_SILENCE_S, abs=0.2)
    assert (Limit.RECOVERY, LimitSubtype.TIMER) not in held


def test_who_had_not_heard_all_may_have_waited_for_it(tmp_path: Path) -> None:
    phone = _Phone()
    phone.flights(30)
    phone.repaired()
    phone.idle_gap(lost_answer=True)
    phone.flights(30)
    found = phone.diagnosed(tmp_path)
    assert _held(found)[Limit.UNKNOWN, LimitSubtype.NONE] == pytest.approx(_SILENCE_S, abs=0.2)
    assert found.limited.reason == UNEXPLAINED
    assert _window_s(found) < 4, "nothing was outstanding, so no window limited"


def test_what_had_arrived_and_comes_again_waited_for_the_timer(tmp_path: Path) -> None:
    phone = _Phone()
    phone.flights(30)
    phone.idle_gap(lost_answer=True)
    phone.copy()
    phone.flights(30)
    held = _held(phone.diagnosed(tmp_path))
    assert held[Limit.RECOVERY, LimitSubtype.TIMER] == pytest.approx(_SILENCE_S, abs=0.2)
    assert (Limit.APPLICATION, LimitSubtype.WRITES) not in held


def test_a_silence_that_swallowed_packets_is_no_pause_of_the_program(tmp_path: Path) -> None:
    phone = _Phone()
    phone.flights(30)
    phone.idle_gap(lost_data=5)
    phone.flights(30)
    found = phone.diagnosed(tmp_path)
    held = _held(found)
    assert held[Limit.OUTAGE, LimitSubtype.NONE] == pytest.approx(_SILENCE_S, abs=0.01)
    assert (Limit.APPLICATION, LimitSubtype.WRITES) not in held
    outage = of(found, "outage")
    assert "No data arrived for 5.1 s" in outage.sentence, "it is a round trip longer than the outage"
    assert "retransmitted by a timer after 5.0 s" in outage.sentence
    assert outage.cost_s == outage.numbers["outage_s"] == pytest.approx(_SILENCE_S, abs=0.01)


def test_an_outage_begins_when_the_queue_before_it_was_empty(tmp_path: Path) -> None:
    phone = _Phone()
    phone.flights(30)
    phone.late(ms=400)
    phone.idle_gap(lost_data=5)
    phone.flights(30)
    assert of(phone.diagnosed(tmp_path), "outage").cost_s == pytest.approx(_SILENCE_S, abs=0.01)
