"""SACK blocks that a middlebox did not translate are no D-SACKs, and nothing else uses them."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from multitracer import native
from multitracer.analysis import analyse
from multitracer.analysis.segments import in_chunks
from tests.analysis.test_engine_equals_oracle import judged
from tests.analysis.traffic import Segment, capture, handshake
from tests.native.both import python_only

SEEDS = range(6)
FULL = 1000


def _transfer(chance: random.Random, shift: int, *, first: int, rounds: int = 4) -> list[Segment]:
    """Return a transfer of which each round loses its first segment; blocks lie `shift` bytes beside the truth."""
    segments, una, other = handshake(7000, first), first + 1, 7001
    for _ in range(rounds):
        count = chance.randrange(5, 12)
        lost = {0} | ({chance.randrange(2, count - 3)} if count > 8 else set())
        segments += [Segment(1, una + i * FULL, FULL, ack=other) for i in range(count)]
        got: list[list[int]] = []
        for i in range(count):
            if i in lost:
                continue
            begin, end = una + i * FULL, una + (i + 1) * FULL
            if got and got[0][1] == begin:
                got[0][1] = end
            else:
                got.insert(0, [begin, end])
            blocks = tuple((left + shift, right + shift) for left, right in got)
            segments.append(Segment(0, other, ack=una, sack=blocks))
        for i in sorted(lost):
            segments.append(Segment(1, una + i * FULL, FULL, ack=other))
        una += count * FULL
        segments.append(Segment(0, other, ack=una))
    wrapped = [replace(s, seq=s.seq % 2**32, ack=s.ack % 2**32) for s in segments]
    return [replace(s, sack=tuple((a % 2**32, b % 2**32) for a, b in s.sack)) for s in wrapped]


def _random(seed: int) -> tuple[random.Random, int]:
    chance = random.Random(seed)
    return chance, chance.choice((1, -1)) * chance.randrange(200_000, 1 << 31)


@pytest.mark.parametrize("by_native", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_that_name_other_bytes_are_not_used(seed: int, by_native: bool) -> None:
    chance, shift = _random(seed)
    segments = _transfer(chance, shift, first=chance.randrange(1 << 32))
    if by_native and native.kernel() is not None:
        analysis = analyse(capture(segments))
    else:
        with python_only():
            analysis = analyse(capture(segments))
    said, expected = judged(analysis, 1, segments)
    assert said == expected
    assert analysis.directions["dsack_segments"].tolist() == [0, 0]
    assert analysis.directions["sack_segments"][0] > 12
    assert not len(analysis.sack_blocks(1))
    assert len(analysis.untranslated(1)) == analysis.directions["sack_segments"][0]
    table = analysis.tcp_segments(1)
    assert (table["flight_sack_bytes"] == table["flight_bytes"]).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_a_little_below_their_ack_are_no_d_sacks_either(seed: int) -> None:
    """The middlebox added little: the blocks name bytes that were sent long ago."""
    chance, _ = _random(seed)
    segments = _transfer(chance, -chance.randrange(15_000, 30_000), first=chance.randrange(1 << 32))
    analysis = analyse(capture(segments))
    said, expected = judged(analysis, 1, segments)
    assert said == expected
    assert analysis.directions["dsack_segments"].tolist() == [0, 0]
    assert not len(analysis.sack_blocks(1))


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_of_a_plain_receiver_are_used(seed: int) -> None:
    """Also D-SACKs one after the other, and those that an ACK behind a hole carries."""
    chance, _ = _random(seed)
    first = chance.randrange(1 << 32)
    segments = _transfer(chance, 0, first=first)
    end = segments[-1].ack
    for i in range(5):  # sent again in vain, one after the other
        begin = end - (5 - i) * FULL
        segments.append(Segment(1, begin % 2**32, FULL, ack=7001))
        segments.append(Segment(0, 7001, ack=end, sack=((begin % 2**32, (begin + FULL) % 2**32),)))
    analysis = analyse(capture(segments))
    said, expected = judged(analysis, 1, segments)
    assert said == expected
    assert not len(analysis.untranslated(1))
    assert analysis.directions["dsack_segments"].tolist() == [5, 0]
    assert len(analysis.sack_blocks(1)) >= analysis.directions["sack_segments"][0]


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_a_long_connection_is_walked_over_alike(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_chunks, "LONG", 10)
    chance, shift = _random(seed)
    for by in (shift, 0):
        segments = _transfer(chance, by, first=chance.randrange(1 << 32), rounds=9)
        analysis = analyse(capture(segments))
        whole, columns = analysis.tcp_segments(1), ("flight_sack_bytes", "kind")
        (parts,) = [table for _, table in analysis.segments_in_chunks(analysis.partition.first_row[:1] * 0, 10_000)]
        for name in columns:
            assert parts[name].tolist() == whole[name].tolist(), name


def test_a_capture_that_lacks_what_was_sent_proves_nothing() -> None:
    chance = random.Random(5)
    segments = _transfer(chance, 0, first=4_000)
    sent = [i for i, s in enumerate(segments) if s.side == 1 and s.payload]
    without = [s for i, s in enumerate(segments) if i not in sent[len(sent) // 4 :]]
    assert not len(analyse(capture(without)).untranslated(1))
