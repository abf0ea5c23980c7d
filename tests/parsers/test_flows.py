"""Flows: numbered in order of first sight, told apart exactly, at any number and in any mixture."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers._packets import flows
from parsers._packets.flows import KeyIndex
from tests.parsers.frames import ethernet, ipv4, ipv6, pcap_file, read, tcp

if TYPE_CHECKING:
    from collections.abc import Sequence


def key_numbers(index: KeyIndex, tuples: Sequence[tuple[int, ...]]) -> list[int]:
    words = [np.array(column, np.uint64) for column in zip(*tuples, strict=True)]
    return index.numbers(words)[0].tolist()


@given(st.lists(st.lists(st.tuples(*[st.integers(0, 5)] * 3), min_size=1), max_size=5))
def test_numbers_are_those_of_a_dict(batches: list[list[tuple[int, ...]]]) -> None:
    index = KeyIndex(3)
    known: dict[tuple[int, ...], int] = {}
    for batch in batches:
        expected = [known.setdefault(key, len(known)) for key in batch]
        assert key_numbers(index, batch) == expected


@pytest.mark.parametrize("slots", [4096, 16])
def test_keys_that_all_collide_are_told_apart(slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "_FIRST_SLOTS", slots)
    monkeypatch.setattr(KeyIndex, "_slots", lambda self, words: np.zeros(len(words[0]), np.int64))
    index = KeyIndex(2)
    tuples = [(i % 50, i % 7) for i in range(500)]
    known: dict[tuple[int, int], int] = {}
    expected = [known.setdefault(key, len(known)) for key in tuples]
    assert key_numbers(index, tuples) == expected
    assert key_numbers(index, tuples) == expected


def test_a_million_keys_cost_no_more_each_than_ten_thousand() -> None:
    def seconds_per_key(count: int) -> float:
        random = np.random.default_rng(1).integers(0, 1 << 60, count).astype(np.uint64)
        index = KeyIndex(3)
        start = time.process_time()
        for first in range(0, count, 10_000):
            words = random[first : first + 10_000]
            index.numbers([words, words, words])
        assert len(index) == count
        return (time.process_time() - start) / count

    assert min(seconds_per_key(500_000) for _ in range(2)) < 8 * min(seconds_per_key(20_000) for _ in range(5))


def test_both_directions_are_one_flow_and_the_first_sender_is_a() -> None:
    one = tcp(sport=5000, dport=80)
    two = tcp(sport=80, dport=5000)
    there = ethernet(ipv4(one, source="10.9.9.9", destination="10.0.0.1"))
    back = ethernet(ipv4(two, source="10.0.0.1", destination="10.9.9.9"))
    capture = read(pcap_file([back, there, back]))
    assert capture.segments["flow"].tolist() == [0, 1, 0]
    assert capture.flows["port_a"].tolist() == [80]
    assert capture.flows["address_a"][0].tobytes() == bytes([10, 0, 0, 1]) + bytes(12)
    assert capture.flows["address_b"][0].tobytes() == bytes([10, 9, 9, 9]) + bytes(12)


def test_equal_ports_and_equal_addresses_are_flows_too() -> None:
    same_ports = [ethernet(ipv4(tcp(sport=7, dport=7), source=s, destination=d)) for s, d in
                  (("1.1.1.1", "2.2.2.2"), ("2.2.2.2", "1.1.1.1"))]  # fmt: skip
    self_connect = ethernet(ipv6(tcp(sport=7, dport=7), source=3, destination=3))
    same_host = [ethernet(ipv6(tcp(sport=a, dport=b), source=3, destination=3)) for a, b in ((9, 8), (8, 9))]
    capture = read(pcap_file([*same_ports, self_connect, *same_host]))
    assert capture.segments["flow"].tolist() == [0, 1, 2, 4, 5]


def test_addresses_that_differ_in_one_bit_are_different_flows() -> None:
    frames = [ethernet(ipv6(tcp(), source=1 << bit)) for bit in range(8, 16)]
    frames += [ethernet(ipv4(tcp(), source=f"10.0.{n}.1")) for n in range(8)]
    assert read(pcap_file(frames)).segments["flow"].tolist() == list(range(0, 32, 2))


def test_equal_addresses_in_different_vlans_are_different_flows() -> None:
    tagged = [ethernet(vlan.to_bytes(2, "big") + b"\x08\0" + ipv4(tcp()), 0x8100) for vlan in (5, 6, 5)]
    capture = read(pcap_file([*tagged, ethernet(ipv4(tcp()))]))
    assert capture.segments["flow"].tolist() == [0, 2, 0, 4]
    assert capture.flows["vlan"].tolist() == [1 << 12 | 5, 1 << 12 | 6, -1]


def tagged(vlan: int | None, *, back: bool = False, port: int = 1000) -> bytes:
    """Return a segment in a VLAN, or the answer to one."""
    there, home = ("10.0.0.1", port), ("10.0.0.2", 80)
    (source, sport), (destination, dport) = (home, there) if back else (there, home)
    packet = ipv4(tcp(sport=sport, dport=dport), source=source, destination=destination)
    return ethernet(packet) if vlan is None else ethernet(vlan.to_bytes(2, "big") + b"\x08\0" + packet, 0x8100)


@pytest.mark.parametrize(("there", "back"), [(5, None), (None, 5), (5, 6), (6, 5)])
def test_two_directions_in_different_vlans_are_one_flow(there: int | None, back: int | None) -> None:
    frames = [tagged(there, port=9), tagged(there), tagged(back, back=True), tagged(there), tagged(None, port=7)]
    capture = read(pcap_file(frames))
    assert capture.segments["flow"].tolist() == [0, 2, 3, 2, 4]
    assert capture.flows["vlan"].tolist() == [-1 if there is None else 1 << 12 | there] * 2 + [-1]


@pytest.mark.parametrize(
    ("frames", "count"),
    [
        ([tagged(5), tagged(6)], 2),
        ([tagged(5), tagged(5, back=True), tagged(6, back=True)], 2),
        ([tagged(5), tagged(6, back=True), tagged(7)], 3),
        ([tagged(5), tagged(6, back=True, port=9)], 2),
    ],
)
def test_flows_that_need_not_belong_together_stay_apart(frames: list[bytes], count: int) -> None:
    assert len(read(pcap_file(frames)).flows) == count


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6), st.booleans()), min_size=1, max_size=60))
def test_flows_are_in_order_of_first_sight(picks: list[tuple[bool, int, bool]]) -> None:
    frames, expected = [], []
    known: dict[tuple[bool, int], tuple[int, bool]] = {}
    for is_ipv6, port, reverse in picks:
        ports = (port, 900) if not reverse else (900, port)
        source, destination = (1, 2) if not reverse else (2, 1)
        segment = tcp(sport=ports[0], dport=ports[1])
        if is_ipv6:
            packet = ipv6(segment, source=source, destination=destination)
        else:
            packet = ipv4(segment, source=f"10.0.0.{source}", destination=f"10.0.0.{destination}")
        frames.append(ethernet(packet))
        number, first = known.setdefault((is_ipv6, port), (len(known), reverse))
        expected.append(2 * number + (reverse != first))
    assert read(pcap_file(frames)).segments["flow"].tolist() == expected
