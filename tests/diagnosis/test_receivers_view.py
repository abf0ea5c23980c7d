"""What a capture at the receiver shows: data that came late, and questions to a closed window."""

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

    from multitracer.diagnosis.diagnosis import Diagnosis

SEEDS = range(4)


def _share(found: Diagnosis, limit: Limit) -> float:
    return by_limit(found.limited.shares).get(limit, 0.0)


def _download(talk: Talk, *, late: set[int], count: int, is_lost: bool = False) -> None:
    """Note a steady download whose packets in `late` come some packets later, or only when they are sent again."""
    gap_ms = talk.chance.uniform(0.3, 1.5)
    begin_ms, packets = 2 * talk.rtt_ms + 5, []
    for number in range(count):
        at_ms = begin_ms + number * gap_ms
        behind_ms = talk.chance.uniform(1.2, 4) * gap_ms if number in late else 0
        left_ms = at_ms - talk.rtt_ms / 2
        talk.ids[1] = talk.ids[1] % 0xFFFF + 1
        ip_id = talk.ids[1] if talk.has_ids else 0
        if number in late and is_lost:
            behind_ms = 1.5 * talk.rtt_ms + 4 * gap_ms
            left_ms, ip_id = at_ms + behind_ms - talk.rtt_ms / 2, ip_id + int(behind_ms / gap_ms) if ip_id else 0
        packets.append((at_ms + behind_ms, number, left_ms, ip_id))
    got: set[int] = set()
    for at_ms, number, left_ms, ip_id in sorted(packets):
        talk.data(at_ms, number * talk.full, left_ms=left_ms, ip_id=ip_id)
        got.add(number)
        talk.ack(at_ms + 0.02, next(i for i in range(count + 1) if i not in got) * talk.full)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("has_stamps", "has_ids"), [(True, True), (True, False), (False, True), (False, False)])
def test_packets_that_were_overtaken_are_no_repair(tmp_path: Path, seed: int, has_stamps: bool, has_ids: bool) -> None:
    talk = Talk(seed, has_stamps=has_stamps, has_ids=has_ids).opened()
    late = set(talk.chance.sample(range(20, 580), 15))
    _download(talk, late=late, count=600)
    found = talk.diagnosed(tmp_path)
    assert _share(found, Limit.RECOVERY) < 0.02
    late_ones = of(found, "reordering")
    assert late_ones.numbers["reordered_packets"] == pytest.approx(15, abs=3)  # two in a row overtake no one
    assert "TCP sent nothing again because of it" in late_ones.sentence


@pytest.mark.parametrize("seed", SEEDS)
def test_packets_that_were_sent_again_are_a_repair(tmp_path: Path, seed: int) -> None:
    talk = Talk(seed).opened()
    _download(talk, late={100, 300, 500}, count=600, is_lost=True)
    found = talk.diagnosed(tmp_path)
    assert "reordering" not in kinds(found)
    assert _share(found, Limit.RECOVERY) > 0.1


@pytest.mark.fixtures
def test_a_reported_capture_with_overtaken_packets(fixture_folder: Path) -> None:
    found = explain(read(fixture_folder / "reports" / "reorder_only.pcap.gz"))
    assert of(found, "reordering").numbers["reordered_packets"] == 37
    assert Limit.RECOVERY not in by_limit(found.limited.shares)


def _stalls(talk: Talk, ask: str) -> float:
    """Note a download that stops twice before a closed window; return for how long, in ms."""
    at_ms, begin, closed_ms = 2 * talk.rtt_ms + 5, 0, 0.0
    window = 32 * talk.full
    for _ in range(2):
        for number in range(32):
            at_ms += 0.3
            talk.data(at_ms, begin + number * talk.full)
            talk.ack(at_ms + 0.05, begin + (number + 1) * talk.full, window=(window - (number + 1) * talk.full) // 128)
        begin += window
        shut_ms, wait_ms = at_ms, talk.chance.uniform(200, 300)
        taken = 0
        for _ in range(4):
            at_ms += wait_ms
            wait_ms *= 2
            if ask == "each":  # the receiver takes every one
                talk.data(at_ms, begin, size=1)
                begin += 1
            elif ask == "below":
                talk.data(at_ms, begin - 1, size=talk.chance.randrange(2))
            else:
                talk.data(at_ms, begin, size=1)
            talk.ack(at_ms + 0.1, begin, window=0)
        if ask == "taken":  # the last probe finds room
            taken, at_ms = 1, at_ms + wait_ms
            talk.data(at_ms, begin, size=1)
            talk.ack(at_ms + 0.1, begin + 1, window=window // 128)
        else:
            at_ms += 0.4 * wait_ms
            talk.ack(at_ms, begin, window=window // 128)
        closed_ms += at_ms - shut_ms
        begin += taken
        at_ms += talk.rtt_ms
    talk.data(at_ms, begin)
    talk.ack(at_ms + 0.05, begin + talk.full, window=window // 128)
    return closed_ms


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("ask", ["below", "at", "taken", "each"])
@pytest.mark.parametrize("has_stamps", [True, False])
def test_questions_to_a_closed_window_are_no_repair(tmp_path: Path, seed: int, ask: str, has_stamps: bool) -> None:
    talk = Talk(seed, has_stamps=has_stamps).opened()
    closed_ms = _stalls(talk, ask)
    found = talk.diagnosed(tmp_path)
    assert _share(found, Limit.RECEIVER_WINDOW) > 0.9
    assert of(found, "zero-window").cost_s == pytest.approx(closed_ms / 1000, rel=0.05)
    assert _share(found, Limit.RECOVERY) == 0


@pytest.mark.fixtures
@pytest.mark.parametrize("name", ["zerowin_bsd", "zerowin_linux"])
def test_reported_captures_of_closed_windows(fixture_folder: Path, name: str) -> None:
    found = explain(read(fixture_folder / "reports" / f"{name}.pcap.gz"))
    assert 7 <= of(found, "zero-window").cost_s <= 9
    assert _share(found, Limit.RECEIVER_WINDOW) > 0.9
