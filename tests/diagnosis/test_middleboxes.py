"""Devices on the path that change, or make, segments: each is named, and what it spoils is not used."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from multitracer.analysis.verdicts import VerdictEvidence
from multitracer.diagnosis.diagnose import explain
from multitracer.diagnosis.limits.names import Limit, by_limit
from multitracer.recording.read import read
from tests.analysis.traffic import ACK, RST, SYN
from tests.diagnosis.exchange import kinds, of
from tests.diagnosis.talk import CLIENT, SERVER, Talk

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


def _steady(talk: Talk, *, count: int, begin: int = 0, at_ms: float = 0, acks: bool = True) -> float:
    """Note data of the server and their ACKs; return when the last ones came."""
    at_ms = at_ms or 2 * talk.rtt_ms + 5
    for number in range(count):
        at_ms += talk.chance.uniform(0.5, 2)
        talk.data(at_ms, begin + number * talk.full)
        if acks:
            talk.ack(at_ms + 0.05, begin + (number + 1) * talk.full)
    return at_ms


def _reset(talk: Talk, at_ms: float, upto: int, *, ttl: int | None = None, side: int = SERVER) -> None:
    own, other = (talk.first[1] + 1 + upto, talk.first[0] + 101)[:: 1 if side == SERVER else -1]
    talk.note(at_ms, side, seq=own, ack=other, flags=RST | ACK, ip_id=0, ttl=talk.ttls[side] if ttl is None else ttl)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("side", [CLIENT, SERVER])
@pytest.mark.parametrize("other_way", [True, False])
def test_a_reset_that_both_ends_ignore(tmp_path: Path, seed: int, side: int, other_way: bool) -> None:
    talk = Talk(seed).opened()
    now, sent = _steady(talk, count=30), 30 * talk.full
    _reset(talk, now + 0.3, sent, side=side, ttl=talk.chance.randrange(100, 250) if other_way else None)
    _steady(talk, count=30, begin=sent, at_ms=now + 0.5)
    found = talk.diagnosed(tmp_path)
    reset = of(found, "rst-injected")
    assert ("hop_limit" in reset.numbers) == other_way
    assert reset.numbers["later_segments"] >= 29
    assert "reset-by-peer" not in kinds(found)
    assert "nothing more" not in "".join(each.sentence for each in found.findings)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_reset_that_ended_it_is_told_not_one_that_no_end_sent(tmp_path: Path, seed: int) -> None:
    talk = Talk(seed).opened()
    now, sent = _steady(talk, count=30), 30 * talk.full
    _reset(talk, now + 0.3, sent, side=CLIENT, ttl=talk.ttls[CLIENT] + 40)
    later = _steady(talk, count=600, begin=sent, at_ms=now + 0.5)
    _reset(talk, later + 0.3, 630 * talk.full)
    found = talk.diagnosed(tmp_path)
    at_s = (of(found, "reset-by-peer").begin_ns - found.limited.begin_ns) / 1e9
    assert f"The server ended the connection by a reset at {at_s:.1f} s." in found.headline.sentence


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("other_way", [True, False])
def test_a_reset_that_ends_the_connection(tmp_path: Path, seed: int, other_way: bool) -> None:
    """Only its TTL may tell that no end sent it."""
    talk = Talk(seed).opened()
    now = _steady(talk, count=30)
    _reset(talk, now + 0.3, 30 * talk.full, ttl=talk.ttls[SERVER] + 40 if other_way else None)
    found = talk.diagnosed(tmp_path)
    assert kinds(found) & {"rst-injected", "reset-by-peer"} == {"rst-injected" if other_way else "reset-by-peer"}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("asks_again", [True, False])
def test_a_reset_before_the_answer_to_the_syn(tmp_path: Path, seed: int, asks_again: bool) -> None:
    """A server that refused may accept the next SYN, but none accepts what it has refused."""
    talk = Talk(seed).opened()
    reset: dict[str, Any] = {"seq": 0, "ack": talk.first[0] + 1, "flags": RST | ACK, "ip_id": 0}
    talk.note(0.4 * talk.rtt_ms, SERVER, **reset)
    if asks_again:
        talk.note(0.5 * talk.rtt_ms, CLIENT, seq=talk.first[0], flags=SYN, ack=0, options=talk.options)
    _steady(talk, count=30)
    assert ("rst-injected" in kinds(talk.diagnosed(tmp_path))) == (not asks_again)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_reset_behind_data_that_the_path_mixed(tmp_path: Path, seed: int) -> None:
    """What left before the reset, but arrives behind it, shows nothing."""
    talk = Talk(seed).opened()
    now = _steady(talk, count=30)
    _reset(talk, now + 0.3, 32 * talk.full)
    _steady(talk, count=2, begin=30 * talk.full, at_ms=now + 0.3, acks=False)
    assert "rst-injected" not in kinds(talk.diagnosed(tmp_path))


@pytest.mark.fixtures
def test_a_reported_capture_of_an_injected_reset(fixture_folder: Path) -> None:
    found = explain(read(fixture_folder / "reports" / "rst_injected.pcap"))
    reset = of(found, "rst-injected")
    assert reset.numbers == {"later_segments": 5, "hop_limit": 120, "other_hop_limit": 55}
    assert "reset-by-peer" not in kinds(found)


@pytest.mark.parametrize("seed", SEEDS)
def test_window_scaling_that_one_syn_lacks(tmp_path: Path, seed: int) -> None:
    talk = Talk(seed)
    talk.window = 65_535
    talk.options = {"mss": 1460, "scale": 7}
    talk.note(0, CLIENT, seq=talk.first[0], flags=SYN, ack=0, options=talk.options)
    answer: dict[str, Any] = {
        "seq": talk.first[1],
        "flags": SYN | ACK,
        "ack": talk.first[0] + 1,
        "options": {"mss": 1460},
    }
    talk.note(talk.rtt_ms, SERVER, **answer)
    talk.ack(talk.rtt_ms + 0.1, 0, asked=0)
    talk.note(talk.rtt_ms + 0.2, CLIENT, seq=talk.first[0] + 1, ack=talk.first[1] + 1, payload=100)
    at_ms, begin, flight = 2 * talk.rtt_ms + 5, 0, 65_535 // talk.full
    for _ in range(20):
        for number in range(flight):
            talk.data(at_ms + 0.1 * number, begin + number * talk.full)
            talk.ack(at_ms + 0.1 * number + 0.02, begin + (number + 1) * talk.full)
        begin += flight * talk.full
        at_ms += talk.rtt_ms + 0.1
    found = talk.diagnosed(tmp_path)
    stripped = of(found, "options-stripped")
    assert "window scaling" in stripped.sentence
    assert "65,535" in of(found, "receiver-limited").help


@pytest.mark.parametrize("seed", SEEDS)
def test_both_syns_without_scaling_lack_nothing(tmp_path: Path, seed: int) -> None:
    talk = Talk(seed, options={"mss": 1460}).opened()
    _steady(talk, count=200)
    assert "options-stripped" not in kinds(talk.diagnosed(tmp_path))


@pytest.mark.fixtures
def test_a_reported_capture_without_scaling(fixture_folder: Path) -> None:
    found = explain(read(fixture_folder / "reports" / "nowscale_synack.pcap.gz"))
    assert "window scaling" in of(found, "options-stripped").sentence


def _cut(path: Path, length: int) -> Path:
    """Cut each packet of a pcap file, as a snap length does."""
    data, at = path.read_bytes(), 24
    records = [data[:24]]
    while at < len(data):
        head = struct.unpack_from("<IIII", data, at)
        kept = min(head[2], length)
        records.append(struct.pack("<IIII", *head[:2], kept, head[3]) + data[at + 16 : at + 16 + kept])
        at += 16 + head[2]
    path.write_bytes(b"".join(records))
    return path


@pytest.mark.parametrize("seed", SEEDS)
def test_a_scale_that_the_capture_cut_limits_nothing(tmp_path: Path, seed: int) -> None:
    talk = Talk(seed).opened()
    talk.window = 512  # 65,536 bytes by the scale that is cut off
    at_ms, begin = 2 * talk.rtt_ms + 5, 0
    for _ in range(20):
        for number in range(30):
            talk.data(at_ms + 0.1 * number, begin + number * talk.full)
            talk.ack(at_ms + 0.1 * number + 0.02, begin + (number + 1) * talk.full)
        begin += 30 * talk.full
        at_ms += talk.rtt_ms + 0.1
    found = explain(read(_cut(talk.written(tmp_path), 40)))
    assert of(found, "options-cut").numbers["cut_packets"] > 1000
    assert Limit.RECEIVER_WINDOW not in by_limit(found.limited.shares)


@pytest.mark.fixtures
def test_a_reported_capture_with_cut_options(fixture_folder: Path) -> None:
    found = explain(read(fixture_folder / "reports" / "snap60.pcap"))
    assert of(found, "options-cut").numbers["cut_packets"] == 1807
    assert Limit.RECEIVER_WINDOW not in by_limit(found.limited.shares)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("is_taken", [True, False])
def test_data_of_a_syn_that_were_refused(tmp_path: Path, seed: int, is_taken: bool) -> None:
    talk = Talk(seed)
    size = talk.chance.randrange(50, 500)
    cookie = bytes([34, 10, *talk.chance.randbytes(8), 1, 1])
    syn: dict[str, Any] = {
        "seq": talk.first[0],
        "flags": SYN,
        "ack": 0,
        "options": talk.options,
        "more": cookie,
        "payload": size,
    }
    talk.note(0, CLIENT, **syn)
    acked = talk.first[0] + 1 + size * is_taken
    talk.note(talk.rtt_ms, SERVER, seq=talk.first[1], flags=SYN | ACK, ack=acked, options=talk.options)
    again: dict[str, Any] = {"seq": acked, "ack": talk.first[1] + 1, "payload": 0 if is_taken else size}
    talk.note(talk.rtt_ms + 0.1, CLIENT, **again)
    at_ms = 2 * talk.rtt_ms + 5
    for number in range(20):
        talk.note(
            at_ms, SERVER, seq=talk.first[1] + 1 + number * talk.full, ack=talk.first[0] + 1 + size, payload=talk.full
        )
        talk.ack(at_ms + 0.05, (number + 1) * talk.full, asked=size)
        at_ms += 1
    found = talk.diagnosed(tmp_path)
    if is_taken:
        assert "fast-open-refused" not in kinds(found)
        return
    refused = of(found, "fast-open-refused")
    assert refused.cost_s == pytest.approx(talk.rtt_ms / 1000, rel=0.02)
    assert refused.cost_bytes == size


@pytest.mark.fixtures
def test_a_reported_capture_of_a_refused_fast_open(fixture_folder: Path) -> None:
    found = explain(read(fixture_folder / "reports" / "tfo_refused.pcap"))
    assert of(found, "fast-open-refused").cost_s == pytest.approx(0.05, abs=0.001)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("is_lost", [True, False])
def test_ends_that_open_at_once_send_no_syn_again(tmp_path: Path, seed: int, is_lost: bool) -> None:
    talk = Talk(seed)
    half, begin_ms = talk.rtt_ms / 2, 1000.0 if is_lost else 0.0
    for at_ms in (0.0, 1000.0)[: 1 + is_lost]:
        talk.note(at_ms, CLIENT, seq=talk.first[0], flags=SYN, ack=0, options=talk.options)
    for side, at_ms in ((CLIENT, half + 0.1), (SERVER, talk.rtt_ms)):
        if side == CLIENT:
            talk.note(begin_ms + half, SERVER, seq=talk.first[1], flags=SYN, ack=0, options=talk.options)
        acks: dict[str, Any] = {"seq": talk.first[side], "ack": talk.first[1 - side] + 1, "options": talk.options}
        talk.note(begin_ms + at_ms, side, flags=SYN | ACK, **acks)
    talk.note(begin_ms + talk.rtt_ms + 0.2, CLIENT, seq=talk.first[0] + 1, ack=talk.first[1] + 1, payload=100)
    _steady(talk, count=30, at_ms=begin_ms + 2 * talk.rtt_ms)
    found = talk.diagnosed(tmp_path)
    assert ("syn-retransmitted" in kinds(found)) == is_lost
    directions = found.transfer.at_sender.capture.analysis.directions
    assert directions["retransmitted_segments"].tolist() == [int(is_lost), 0]


@pytest.mark.fixtures
def test_a_reported_capture_of_a_simultaneous_open(fixture_folder: Path) -> None:
    found = explain(read(fixture_folder / "reports" / "simopen.pcap"))
    assert "syn-retransmitted" not in kinds(found)
    assert found.transfer.at_sender.capture.analysis.directions["retransmitted_segments"].tolist() == [0, 0]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("other_clock", [True, False])
def test_the_stamp_of_a_syn_cookie_proves_nothing_early(tmp_path: Path, seed: int, other_clock: bool) -> None:
    """Linux writes options into its lowest six bits, so it is up to 63 ticks too low; a proxy has its own clock."""
    talk = Talk(seed)
    first_ms = 1000 + talk.rtt_ms
    cookie = talk.clocks[1] + int(first_ms - talk.rtt_ms / 2)
    cookie = cookie - talk.chance.randrange(1 << 29) if other_clock else cookie - talk.chance.randrange(32, 64)
    for at_ms in (0.0, 1000.0):  # the first one was lost
        talk.note(at_ms, CLIENT, seq=talk.first[0], flags=SYN, ack=0, options=talk.options)
    answer: dict[str, Any] = {
        "seq": talk.first[1],
        "flags": SYN | ACK,
        "ack": talk.first[0] + 1,
        "options": talk.options,
    }
    talk.note(first_ms, SERVER, stamp=(cookie, talk.clocks[0] + 1000), **answer)
    at_ms, sent = first_ms + 1, 0
    for _ in range(40):
        talk.note(at_ms, CLIENT, seq=talk.first[0] + 1 + sent, ack=talk.first[1] + 1, payload=talk.full)
        sent, at_ms = sent + talk.full, at_ms + talk.rtt_ms
        back: dict[str, Any] = {
            "seq": talk.first[1] + 1,
            "ack": talk.first[0] + 1 + sent,
            "left_ms": at_ms - talk.rtt_ms / 2,
        }
        talk.note(at_ms, SERVER, **back)
    found = explain(read(talk.written(tmp_path)), 1, reverse=False)
    verdicts = found.transfer.verdicts
    assert not (verdicts["evidence"] & np.uint32(VerdictEvidence.EARLY_STAMP)).any()
    assert of(found, "syn-retransmitted").numbers["syn_sent"] == 2
