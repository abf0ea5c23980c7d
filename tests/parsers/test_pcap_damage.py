"""Damage in the middle of a pcap file: which packets are read all the same, and what is said of the rest."""

from __future__ import annotations

import random
import re
import struct
from typing import Any, NamedTuple

import pytest

from multitracer.analysis.tcp import analyse
from parsers._capture.window import WINDOW_BYTES
from tests.examples import seeds
from tests.parsers.frames import EPOCH_S, Packet, frame, pcap_file, read

MAGICS = {"us": (0xA1B2C3D4, 10**6), "ns": (0xA1B23C4D, 10**9)}
HEADERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "Nokia": {"record_extra": b"\xff\xff\xff\xff"},
    "ss990417": {"record_extra": b"\x01\0\0\0\x08\x00\x04\0"},
    "Kuznetzov": {"magic": 0xA1B2CD34, "record_extra": b"\x01\0\0\0\x08\x00\x04\0"},
}


class Made(NamedTuple):
    """A capture file, the numbers that its packets carry, and where its records begin."""

    data: bytes
    times: list[int]
    starts: list[int]


def made(rng: random.Random, count: int, order: str, unit: str = "us", snap: int = 0, **layout: Any) -> Made:
    """Return a random transfer: random sizes, zeros or noise as payload, perhaps cut by a snap length."""
    magic, per_second = MAGICS[unit]
    magic = layout.pop("magic", magic)
    extra = len(layout.get("record_extra", b""))
    ticks, snap = EPOCH_S * per_second + rng.randrange(per_second), snap or rng.choice((96, 262144))
    packets, times, starts, at = [], [], [], 24
    for n in range(count):
        size = rng.choice((0, 1, 100, 536, 1448))
        payload = bytes(size) if rng.random() < 0.3 else rng.randbytes(size)
        data = frame(seq=n, payload=payload)
        ticks += rng.randrange(1, per_second)
        packets.append(Packet(data[:snap], ticks, len(data)))
        times.append(ticks * (10**9 // per_second))
        starts.append(at)
        at += 16 + extra + len(data[:snap])
    file = pcap_file(packets, order=order, magic=magic, **layout)
    return Made(file, times, starts)


def flipped(data: bytes, at: int, bit: int) -> bytes:
    """Return data with one bit of the byte at `at` the other way."""
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("unit", MAGICS)
def test_a_flipped_bit_in_a_captured_length_costs_no_more_than_its_place(order: str, unit: str) -> None:
    for seed in seeds(150):
        rng = random.Random(seed)
        capture = made(rng, 60, order, unit)
        number = rng.randrange(1, 58)
        damaged = flipped(capture.data, capture.starts[number] + 8 + rng.randrange(4), rng.randrange(8))
        found = read(damaged)
        facts = found.files[0]
        assert facts.variant == f"{'little' if order == '<' else 'big'}-endian, {'ns' if unit == 'ns' else 'µs'}"
        assert facts.packets >= 58, seed
        assert set(found.segments["time_ns"].tolist()) <= set(capture.times), "no packet was made up"
        assert facts.damaged, seed
        ((begin, end),) = facts.lost_ranges
        assert begin <= capture.starts[number] < end
        assert f"bytes {begin} to {end - 1} are lost" in facts.damaged


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("header", HEADERS)
def test_the_second_record_does_not_decide_how_a_file_is_laid_out(order: str, header: str) -> None:
    for seed in seeds(60):
        rng = random.Random(seed)
        capture = made(rng, 20, order, **HEADERS[header])
        complete = read(capture.data).files[0]
        assert (complete.packets, complete.damaged) == (20, None)
        assert (header in (complete.variant or "")) == (header != "plain")
        broken = read(flipped(capture.data, capture.starts[1] + 8 + rng.randrange(4), rng.randrange(8)))
        assert broken.files[0].variant == complete.variant
        assert broken.files[0].packets >= 18
        assert set(broken.segments["time_ns"].tolist()) <= set(capture.times)


@pytest.mark.parametrize("ending", [b"", b"\1\2\3\4"])
def test_the_last_bytes_of_a_packet_cut_short_are_no_packet(ending: bytes) -> None:
    packet = frame(seq=1, payload=b"\x11" * 40 + bytes(16 - len(ending)) + ending)
    data = pcap_file([packet] * 20)
    at = 24 + 7 * (16 + len(packet))
    shorter = data[: at + 8] + struct.pack("<I", len(packet) - 16) + data[at + 12 :]
    facts = read(shorter).files[0]
    assert facts.packets == 19
    assert facts.without_time == 0
    assert facts.lost_ranges == [(at, at + 16 + len(packet))]


@pytest.mark.parametrize("number", [0, 5])
def test_a_record_that_leads_to_a_later_one_swallows_no_packets(number: int) -> None:
    packet = frame(seq=1, payload=bytes(30))
    data = pcap_file([packet] * 50)
    at = 24 + number * (16 + len(packet))
    longer = data[: at + 8] + struct.pack("<I", 11 * (16 + len(packet)) - 16) + data[at + 12 :]
    facts = read(longer).files[0]
    assert facts.packets == 49
    assert facts.lost_ranges == [(at, at + 16 + len(packet))]


@pytest.mark.parametrize("order", "<>")
def test_bytes_that_are_missing_inserted_or_overwritten_are_stepped_over(order: str) -> None:
    for seed in seeds(80):
        rng = random.Random(seed)
        capture = made(rng, 100, order)
        at, count = rng.randrange(capture.starts[5], capture.starts[60]), rng.choice((1, 7, 512, 4096))
        kind = rng.randrange(3)
        middle = (b"", rng.randbytes(count), bytes(count))[kind]
        rest = capture.data[at + (0 if kind == 1 else count) :]
        found = read(capture.data[:at] + middle + rest)
        hurt = sum(at - 3000 < start < at + count + 3000 for start in capture.starts)
        assert found.files[0].packets >= 100 - hurt
        assert len(set(found.segments["time_ns"].tolist()) - set(capture.times)) <= 1


@pytest.mark.parametrize("zeros", [32, 4096, 100_003, WINDOW_BYTES + 5])
def test_zeros_behind_the_last_record_are_no_packets(zeros: int) -> None:
    """A disk leaves them where a machine lost its power while it captured."""
    for seed in range(5):
        capture = made(random.Random(seed), 40, "<>"[seed % 2], snap=262144)
        found = read(capture.data + bytes(zeros))
        facts = found.files[0]
        assert (facts.packets, facts.without_time) == (40, 0)
        assert found.segments["time_ns"].tolist() == capture.times
        assert facts.damaged == f"the file contains only zeros from byte {len(capture.data)}"
        if zeros > 100:
            assert read(capture.data[: capture.starts[39] + 7] + bytes(zeros)).files[0].packets == 39


def test_zeros_in_the_middle_are_no_packets_even_where_nothing_is_found_behind() -> None:
    for seed in seeds(40):
        capture = made(random.Random(seed), 30, "<", snap=262144)
        begin = capture.starts[27]
        found = read(capture.data[:begin] + bytes(3001) + capture.data[begin + 3001 :][:40])
        assert found.files[0].packets <= 29, seed
        assert found.files[0].damaged


def test_several_damaged_places_are_counted_and_trust_says_so() -> None:
    rng = random.Random(7)
    capture = made(rng, 400, "<")
    data = capture.data
    for number in (50, 51, 120, 300):
        data = flipped(data, capture.starts[number] + 9, 1)
    found = read(data)
    facts = found.files[0]
    assert facts.packets >= 395
    assert len(facts.lost_ranges) == 3
    assert re.search(r"with 2 more such places \d+ bytes are lost", facts.damaged or "")
    trust = analyse(found).trust
    assert trust.verdict != "good"
    (note,) = [note for note in trust.notes if note.code == "damaged-file"]
    assert note.count == 3
    assert "before the damage" not in note.sentence


@pytest.mark.parametrize("garbage", [b"\xff", b"\0", b"\x01\0\0\0"])
def test_damage_longer_than_the_window_is_stepped_over(garbage: bytes) -> None:
    capture = made(random.Random(1), 40, "<")
    at = capture.starts[20]
    middle = b"\xff" * 16 + garbage * ((WINDOW_BYTES + 5_000_000) // len(garbage))
    found = read(capture.data[:at] + middle + capture.data[at:])
    assert found.segments["time_ns"].tolist() == capture.times
    assert found.files[0].lost_ranges == [(at, at + len(middle))]


@pytest.mark.parametrize("order", "<>")
def test_damage_near_the_end_of_a_window_is_judged_by_what_follows_it(order: str) -> None:
    rng = random.Random(3)
    capture = made(rng, 12_000, order, snap=262144)
    last = max(n for n, start in enumerate(capture.starts) if start < WINDOW_BYTES)
    for number in range(last - 6, last + 2):
        found = read(flipped(capture.data, capture.starts[number] + 8 + (3 if order == ">" else 0), 6))
        assert found.files[0].packets >= 11_998
        assert set(found.segments["time_ns"].tolist()) <= set(capture.times)


def test_a_file_whose_lengths_are_all_odd_is_no_damaged_file() -> None:
    packets = [Packet(frame(seq=n, payload=b"x" * n), original=10 + n % 3) for n in range(300)]
    facts = read(pcap_file(packets)).files[0]
    assert (facts.packets, facts.damaged) == (300, None)
    some = [Packet(p.data, original=10 if n % 40 < 4 else None) for n, p in enumerate(packets)]
    facts = read(pcap_file(some)).files[0]
    assert (facts.packets, facts.damaged) == (300, None)


def test_a_cut_file_ends_where_it_is_cut_even_if_the_last_packet_holds_records() -> None:
    inside = pcap_file([b"tiny"])[24:]
    good = pcap_file([frame(payload=b"a" * 9), frame(payload=inside * 40)])
    facts = read(good[:-701]).files[0]
    assert facts.packets == 1
    assert "is truncated" in (facts.damaged or "")


def test_too_many_damaged_places_end_the_reading() -> None:
    one = struct.pack("<IIII", EPOCH_S, 0, 60, 60) + bytes(60)
    facts = read(pcap_file([]) + (one * 4 + b"\xff" * 30) * 1500).files[0]
    assert 3000 < facts.packets <= 4004
    assert "byte" in (facts.damaged or "")
