"""Devices on the path that change, or make, segments: each is named, and what it spoils is not used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from multitracer.diagnosis.diagnose import explain
from multitracer.diagnosis.limits.names import Limit, by_limit
from multitracer.recording.read import read
from tests.diagnosis.exchange import kinds, of
from tests.diagnosis.talk import Talk

if TYPE_CHECKING:
    from pathlib import Path

SEEDS = range(4)


def _lossy(talk: Talk, shift: int, *, rounds: int = 6) -> None:
    """Note flights as the sender sees them, each without its second segment; ACKs report the others, `shift` beside.

    The sender ignores blocks of bytes that it never sent, and waits for its timer.
    """
    at_ms, begin = 2 * talk.rtt_ms + 5, 0
    base = talk.first[1] + 1
    for _ in range(rounds):
        count = talk.chance.randrange(9, 25)
        for number in range(count):
            talk.data(at_ms + 0.1 * number, begin + number * talk.full)
        back_ms = at_ms + talk.rtt_ms
        talk.ack(back_ms, begin + talk.full)
        for number in range(2, count):
            edges = (base + begin + edge * talk.full + shift for edge in (2, number + 1))
            talk.ack(back_ms + 0.1 * number, begin + talk.full, sack=(tuple(edges),))
        at_ms = back_ms + 0.1 * count + (2 * talk.rtt_ms if not shift else talk.rtt_ms + talk.chance.uniform(210, 400))
        talk.data(at_ms, begin + talk.full)
        at_ms += talk.rtt_ms
        begin += count * talk.full
        talk.ack(at_ms, begin)
        at_ms += 0.2


@pytest.mark.parametrize("seed", SEEDS)
def test_sack_blocks_that_were_not_translated(tmp_path: Path, seed: int) -> None:
    talk = Talk(seed).opened()
    _lossy(talk, talk.chance.choice((1, -1)) * talk.chance.randrange(1_000_000, 1 << 31))
    found = talk.diagnosed(tmp_path)
    box = of(found, "sack-not-translated")
    assert box.numbers["duplicate_acks"] > 20
    assert box.cost_s == pytest.approx(found.limited_s(Limit.RECOVERY), rel=0.05)
    assert "ack-loss" not in kinds(found)
    assert not len(found.transfer.sacks)


@pytest.mark.parametrize("seed", SEEDS)
def test_sack_blocks_as_they_should_be(tmp_path: Path, seed: int) -> None:
    talk = Talk(seed).opened()
    _lossy(talk, 0)
    found = talk.diagnosed(tmp_path)
    assert "sack-not-translated" not in kinds(found)
    assert len(found.transfer.sacks) > 20


@pytest.mark.fixtures
@pytest.mark.parametrize("name", ["asa_sack", "asa_sack_sender_neg"])
def test_reported_captures_of_untranslated_sack_blocks(fixture_folder: Path, name: str) -> None:
    recording = read(fixture_folder / "reports" / f"{name}.pcap.gz")
    found = explain(recording)
    assert of(found, "sack-not-translated").numbers["acks"] == 240
    assert "ack-loss" not in kinds(found)
    assert by_limit(found.limited.shares)[Limit.RECOVERY] > 0.8
    directions = found.transfer.at_sender.capture.analysis.directions
    assert directions["dsack_segments"].tolist() == [0, 0]
    assert directions["sack_segments"].tolist() == [240, 0]
