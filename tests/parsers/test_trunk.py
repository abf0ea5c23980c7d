"""Packets captured twice on two VLANs of a trunk, and equal addresses in two VLANs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from multitracer.analysis.tcp import analyse
from parsers import read_capture
from tests.parsers.frames import EPOCH_S, Packet, ethernet, ipv4, ipv6, pcap_file, read, tcp

if TYPE_CHECKING:
    from pathlib import Path

RTT_US = 30_000


def transfer(rng: random.Random, count: int, vlan: int, version: int = 4) -> list[tuple[int, bytes, bytes]]:
    """Return time in µs, the packet and its tagged frame: a handshake, then data with an ACK each."""
    ours, theirs = rng.getrandbits(32), rng.getrandbits(32)
    steps = [(0, False, 0x02, ours, 0, b""), (RTT_US // 2, True, 0x12, theirs, ours + 1, b"")]
    steps.append((RTT_US, False, 0x10, ours + 1, theirs + 1, b""))
    for n in range(count):
        at = RTT_US * (n + 2)
        steps.append((at, False, 0x18, ours + 1 + 100 * n, theirs + 1, b"x" * 100))
        steps.append((at + RTT_US // 2, True, 0x10, theirs + 1, ours + 101 + 100 * n, b""))
    made = []
    for number, (at, back, flags, seq, ack, payload) in enumerate(steps):
        sport, dport = (80, 1000) if back else (1000, 80)
        segment = tcp(sport=sport, dport=dport, seq=seq % 2**32, ack=ack % 2**32, flags=flags, payload=payload)
        hosts = (2, 1) if back else (1, 2)
        if version == 6:
            packet = ipv6(segment, source=hosts[0], destination=hosts[1])
        else:
            source, destination = (f"10.0.0.{host}" for host in hosts)
            packet = ipv4(segment, source=source, destination=destination, identification=(number * 7 + ours) % 65536)
        made.append((at, packet, tagged(packet, vlan)))
    return made


def tagged(packet: bytes, vlan: int) -> bytes:
    """Return an Ethernet frame of a VLAN."""
    kind = b"\x08\0" if packet[0] >> 4 == 4 else b"\x86\xdd"
    return ethernet(vlan.to_bytes(2, "big") + kind + packet, 0x8100)


def file_of(packets: list[tuple[int, bytes]]) -> bytes:
    """Return a pcap of frames in the order of their times."""
    ordered = sorted(packets, key=lambda each: each[0])
    return pcap_file([Packet(frame, EPOCH_S * 10**6 + at) for at, frame in ordered])


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("missed", [0.0, 0.05])
def test_packets_that_recur_within_a_round_trip_are_one_connection(version: int, missed: float) -> None:
    rng = random.Random(version)
    packets = []
    for at, packet, frame in transfer(rng, 100, 5, version):
        packets.append((at, frame))
        if rng.random() >= missed:
            packets.append((at + 150, tagged(packet, 6)))
    found = read(file_of(packets))
    analysis = analyse(found)
    assert len(analysis.connections) == 1
    assert analysis.vlan(1) == "5"
    assert analysis.directions["unique_bytes"].tolist() == [100 * 100, 0]
    assert analysis.directions["packets"].tolist() == [102, 101]
    copies = found.files[0].duplicates
    assert copies is not None
    assert (copies.times, copies.where) == (2, "VLANs 5 and 6")
    assert {note.code: note.count for note in analysis.trust.notes}["duplicates-left-out"] == len(packets) - 203


def test_the_file_of_a_capture_that_shows_a_trunk_is_the_one_that_says_so(tmp_path: Path) -> None:
    packets = transfer(random.Random(7), 20, 5)
    twice = [(at, frame) for at, _, frame in packets] + [(at + 150, tagged(ip, 6)) for at, ip, _ in packets]
    (tmp_path / "1.pcap").write_bytes(file_of(twice))
    (tmp_path / "2.pcap").write_bytes(file_of([(10**7, tagged(ipv4(tcp()), 9))]))
    first, second = read_capture([tmp_path / "1.pcap", tmp_path / "2.pcap"]).files
    assert first.duplicates is not None
    assert second.duplicates is None


def test_other_hosts_with_equal_addresses_stay_apart() -> None:
    rng = random.Random(3)
    packets = [(at, frame) for vlan in (5, 6) for at, _, frame in transfer(rng, 50, vlan)]
    found = read(file_of(packets))
    assert len(analyse(found).connections) == 2
    assert found.files[0].duplicates is None


def test_packets_that_recur_later_or_seldom_stay_apart() -> None:
    rng = random.Random(4)
    once = transfer(rng, 50, 5)
    late = [(at + 3 * RTT_US, tagged(packet, 6)) for at, packet, _ in once]
    assert len(analyse(read(file_of([(at, frame) for at, _, frame in once] + late))).connections) == 2
    half = transfer(rng, 50, 6)
    seldom = [(at + 9, tagged(packet, 6)) for at, packet, _ in once[: len(once) // 2]]
    mixed = [(at, frame) for at, _, frame in once] + seldom + [(at, f) for at, _, f in half[len(half) // 2 :]]
    assert len(analyse(read(file_of(mixed))).connections) == 2
