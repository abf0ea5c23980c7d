"""A timer that expires though nothing was lost: the ACK echoes what was sent first (Eifel, RFC 3522)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.analysis.verdicts import Necessity, VerdictEvidence
from multitracer.diagnosis.limits.names import Limit, by_limit
from tests.diagnosis.exchange import kinds
from tests.diagnosis.talk import CLIENT, SERVER, Talk

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.diagnosis.diagnosis import Diagnosis


class _Sender:
    """Notes flights where the server is; in one of them all packets wait on the way."""

    def __init__(self, seed: int, flight: int) -> None:
        self.talk = Talk(seed).opened_at_server()
        self.flight, self.begin, self.now_ms = flight, 0, 2 * self.talk.rtt_ms + 5
        self.heard_ms, self.late_ms = self.talk.rtt_ms / 2, 0.0

    def turns(self, count: int) -> None:
        for _ in range(count):
            self._sent(self.now_ms, range(self.flight))
            self.answered(0)

    def _sent(self, at_ms: float, numbers: range) -> None:
        for number in numbers:
            stamp = self.talk.stamp(SERVER, at_ms, self.heard_ms)
            self.talk.data(at_ms + 0.1 * number, self.begin + number * self.talk.full, stamp=stamp)

    def answered(self, late_ms: float) -> None:
        """Note the ACKs, each of which echoes the first transmission."""
        self.late_ms = left_ms = self.now_ms
        for number in range(self.flight):
            came_ms = left_ms + 0.1 * number + late_ms + self.talk.rtt_ms / 2
            stamp = self.talk.stamp(CLIENT, came_ms, left_ms)
            self.talk.ack(came_ms + self.talk.rtt_ms / 2, self.begin + (number + 1) * self.talk.full, stamp=stamp)
            self.heard_ms = came_ms
        self.begin += self.flight * self.talk.full
        self.now_ms = self.heard_ms + self.talk.rtt_ms / 2 + 0.05

    def held_up(self, tries: int, *, is_lost: bool) -> None:
        """Note a flight that is late by so many timeouts, or lost but for the last try."""
        self._sent(self.now_ms, range(self.flight))
        wait_ms = self.talk.rtt_ms + 200
        at_ms = self.now_ms
        for _ in range(tries):
            at_ms += wait_ms
            wait_ms *= 2
            self._sent(at_ms, range(1))
        if is_lost:
            self.now_ms = at_ms
            came_ms = at_ms + self.talk.rtt_ms / 2
            self.talk.ack(
                came_ms + self.talk.rtt_ms / 2,
                self.begin + self.talk.full,
                stamp=self.talk.stamp(CLIENT, came_ms, at_ms),
            )
            self.begin += self.talk.full
            self.heard_ms, self.now_ms = came_ms, came_ms + self.talk.rtt_ms / 2 + 0.05
            return
        self.answered(at_ms - self.now_ms + self.talk.chance.uniform(0.1, 0.8) * wait_ms)
        for number in range(tries):  # the copies arrive as well, and each is acknowledged at once
            came_ms = self.heard_ms + 0.2 * (number + 1)
            stamp = self.talk.stamp(CLIENT, came_ms, self.late_ms)
            self.talk.ack(came_ms + self.talk.rtt_ms / 2, self.begin, stamp=stamp)
        self.now_ms += tries


def _diagnosed(folder: Path, seed: int, flight: int, tries: int, *, is_lost: bool) -> Diagnosis:
    sender = _Sender(seed, flight)
    sender.turns(30)
    sender.held_up(tries, is_lost=is_lost)
    sender.turns(10)
    return sender.talk.diagnosed(folder)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("flight", [1, 5])
@pytest.mark.parametrize("tries", [1, 3])
def test_an_ack_that_echoes_the_first_copy_shows_no_outage(tmp_path: Path, seed: int, flight: int, tries: int) -> None:
    found = _diagnosed(tmp_path, seed, flight, tries, is_lost=False)
    verdicts = found.transfer.verdicts
    assert (verdicts["necessity"] == Necessity.SPURIOUS).all()
    assert (verdicts["evidence"] & np.uint32(VerdictEvidence.EIFEL)).all()
    assert "spurious-timeout" in kinds(found)
    assert not {"outage", "ack-loss", "random-loss", "congestion-loss"} & kinds(found)
    shares = by_limit(found.limited.shares)
    assert not {Limit.OUTAGE, Limit.RECOVERY} & set(shares)
    assert shares[Limit.LINK] * found.limited.total_s > 0.15 * (2**tries - 1)  # the path had the data


@pytest.mark.parametrize("seed", range(4))
def test_an_ack_that_echoes_the_last_copy_shows_an_outage(tmp_path: Path, seed: int) -> None:
    found = _diagnosed(tmp_path, seed, 1, 3, is_lost=True)
    assert "spurious-timeout" not in kinds(found)
    assert by_limit(found.limited.shares)[Limit.OUTAGE] > 0.1
