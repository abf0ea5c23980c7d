"""What a capture without TCP holds is named by what its datagrams are, with packets and bytes."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

import pytest

from multitracer.words import rate, size
from parsers import contents_of
from tests.cli.program import call
from tests.parsers.frames import EPOCH_S, Packet, ethernet, frame, ipv4, ipv6, pcap_file

if TYPE_CHECKING:
    from pathlib import Path


def udp(payload: bytes, sport: int, dport: int) -> bytes:
    return struct.pack(">HHHH", sport, dport, 8 + len(payload), 0) + payload


def frames(payloads: list[bytes], port: int, *, six: bool = False, link_type: int = 1) -> bytes:
    """Return a pcap of datagrams, every second one as an answer."""
    packets = []
    for n, payload in enumerate(payloads):
        ports = (port, 40000) if n % 2 else (40000, port)
        datagram = udp(payload, *ports)
        if six:
            ends = {"source": 2, "destination": 1} if n % 2 else {}
            packets.append(ethernet(ipv6(datagram, next_header=17, **ends)))
        else:
            source, destination = ("10.0.0.2", "10.0.0.1") if n % 2 else ("10.0.0.1", "10.0.0.2")
            packets.append(ethernet(ipv4(datagram, protocol=17, source=source, destination=destination)))
    return pcap_file(packets, link_type=link_type)


def initial(version: int = 1) -> bytes:
    return b"\xc3" + struct.pack(">I", version) + b"\x08" + bytes(8) + b"\x00" + bytes(1180)


SHORT = b"\x4d" + bytes(range(100))
WIREGUARD = [
    struct.pack("<I", 1) + bytes(144),
    struct.pack("<I", 2) + bytes(88),
    *([struct.pack("<I", 4) + bytes(1436 - 4 + 16 - 1436 % 16)] * 8),
]
DTLS = b"\x16\xfe\xfd\0\0" + bytes(6) + struct.pack(">H", 80) + bytes(80)
DTLS_DATA = b"\x17\xfe\xfd\0\1" + bytes(6) + struct.pack(">H", 200) + bytes(200)
RESET = b"\x38" + bytes(range(1, 9)) + bytes(5)
RESET_SIGNED = b"\x38" + bytes(range(1, 9)) + bytes(range(100, 120)) + struct.pack(">IIB", 1, 9, 0) + bytes(4)
IKE = bytes(range(1, 17)) + b"\x21\x20\x22\x08" + bytes(300)


@pytest.mark.parametrize("six", [False, True])
@pytest.mark.parametrize(
    ("payloads", "port", "name"),
    [
        ([initial(), initial(), *([SHORT] * 20)], 443, "QUIC (UDP port 443)"),
        ([initial(0x6B3343CF), *([SHORT] * 9)], 4433, "QUIC (UDP port 4433)"),
        ([SHORT] * 20, 443, "UDP port 443, as QUIC uses it (no handshake was captured)"),
        (WIREGUARD, 12345, "WireGuard"),
        (WIREGUARD[2:], 51820, "WireGuard"),
        ([b"\x30\xff" + struct.pack(">HI", 40, 7) + bytes(40)] * 9, 2152, "GTP-U"),
        ([b"\x08\0\0\0\0\0\x07\0" + bytes(60)] * 9, 4789, "VXLAN"),
        ([b"\0\0\x65\x58\0\0\x07\0" + bytes(60)] * 9, 6081, "Geneve"),
        ([b"\x38" + bytes(50), b"\x40" + bytes(50), *([b"\x48" + bytes(900)] * 8)], 1194, "OpenVPN"),
        ([RESET, b"\x40" + bytes(25), *([b"\x48" + bytes(900)] * 8)], 443, "OpenVPN"),
        ([RESET_SIGNED, b"\x40" + bytes(25), *([b"\x48" + bytes(900)] * 8)], 9999, "OpenVPN"),
        ([b"\x48" + bytes(900)] * 9, 9999, "UDP port 9999"),
        ([DTLS, DTLS, *([DTLS_DATA] * 8)], 10443, "DTLS"),
        ([bytes(4) + IKE, *([b"\x11\x22\x33\x44" + bytes(80)] * 9)], 4500, "ESP in UDP (IPsec)"),
        ([IKE] * 4, 500, "IKE (IPsec)"),
        ([b"\xff" * 40] * 9, 443, "UDP port 443"),
        ([b"\xff" * 40] * 9, 2152, "UDP port 2152"),
        ([bytes(40)] * 9, 51820, "UDP port 40000"),
        ([b"\x12\x34\x01\0" + bytes(20)] * 2, 53, "DNS"),
    ],
)
def test_udp_is_named_by_its_datagrams(tmp_path: Path, payloads: list[bytes], port: int, name: str, six: bool) -> None:
    path = tmp_path / "made.pcap"
    path.write_bytes(frames(payloads, port, six=six))
    (found,) = contents_of(str(path))
    assert (found.name, found.packets) == (name, len(payloads))
    assert found.bytes == sum(len(each) + (62 if six else 42) for each in payloads)


def test_a_port_alone_proves_nothing_and_several_kinds_are_listed_by_bytes(tmp_path: Path) -> None:
    esp = [ethernet(ipv4(bytes(500), protocol=50))] * 3
    arp = [ethernet(bytes(28), 0x0806)] * 2
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap_file([*esp, *arp]))
    assert [(each.name, each.packets, each.bytes) for each in contents_of(str(path))] == [
        ("ESP (IPsec)", 3, 3 * 534), ("arp", 2, 2 * 42),
    ]  # fmt: skip
    said = call("inspect", path).stdout
    assert "Trust: caution" in said
    assert "Found: ESP (IPsec), 3 packets, 1.6 kB (95 % of the bytes); arp, 2 packets" in said
    assert "a capture inside the tunnel" in said


SIZES = [(n * 37) % 1300 + 100 for n in range(400)]
"""Bytes behind UDP of datagrams that are 10 ms apart; every fifth one goes back."""


def wireguard(n: int) -> bytes:
    return struct.pack("<I", 4) + bytes(12 + 16 * (SIZES[n] // 16))


def capture_of(kind: str) -> list[Packet]:
    """Return a tunnel of 4 s as its packets are on the wire: WireGuard, or ESP."""
    packets = []
    for n in range(len(SIZES)):
        ends = ("10.0.0.2", "10.0.0.1") if n % 5 == 4 else ("10.0.0.1", "10.0.0.2")
        payload, protocol = (udp(wireguard(n), 51820, 51820), 17) if kind == "WireGuard" else (bytes(SIZES[n]), 50)
        made = ethernet(ipv4(payload, protocol=protocol, source=ends[0], destination=ends[1]))
        packets.append(Packet(made[:70], EPOCH_S * 10**6 + n * 10_000, len(made)))
    return packets


@pytest.mark.parametrize(("kind", "name"), [("WireGuard", "WireGuard"), ("ESP", "ESP (IPsec)")])
def test_the_rate_of_a_tunnel_is_told_in_each_direction(tmp_path: Path, kind: str, name: str) -> None:
    packets = capture_of(kind)
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap_file(packets))
    (found,) = contents_of(str(path))
    there, back = found.ways
    assert (found.name, there.source, back.source) == (name, "10.0.0.1", "10.0.0.2")
    for way, here in ((there, [n for n in range(400) if n % 5 != 4]), (back, [n for n in range(400) if n % 5 == 4])):
        by_second = [sum(packets[n].original or 0 for n in here if n // 100 == second) for second in range(4)]
        assert (way.packets, way.bytes, list(way.bytes_by_step)) == (len(here), sum(by_second), by_second)
        assert (way.step_s, way.peak_bytes) == (1, max(by_second))
        assert way.duration_ns == (here[-1] - here[0]) * 10_000_000
    said = call("diagnose", path, status=1).stderr
    assert f"10.0.0.1 -> 10.0.0.2 320 packets, {size(there.bytes)} in 3.98 s, mean" in said
    assert f"at most {rate(8 * there.peak_bytes)} in a second" in said  # type: ignore[operator]
    assert "encrypts whole packets" in said
    (file,) = json.loads(call("analyze", "--json", path).stdout)["files"]
    (content,) = file["contents"]
    assert [each["bytes_by_step"] for each in content["directions"]] == [list(w.bytes_by_step) for w in found.ways]
    assert content["directions"][0]["peak_bytes_per_s"] == there.peak_bytes


def test_a_tunnel_beside_a_little_tcp_is_told(tmp_path: Path) -> None:
    packets = capture_of("WireGuard")
    shell = [Packet(frame(seq=n), (packets[n].ticks or 0) + 5) for n in range(40)]
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap_file([each for pair in zip(packets, shell, strict=False) for each in pair] + packets[40:]))
    said = call("analyze", path).stdout
    assert "Only 40 of 440 packets are TCP" in said
    assert "Found beside it: WireGuard, 400 packets" in said
    assert "10.0.0.1 -> 10.0.0.2 320 packets" in said
    (file,) = json.loads(call("analyze", "--json", path).stdout)["files"]
    assert [each["name"] for each in file["contents"]] == ["WireGuard"]
    path.write_bytes(pcap_file([*shell, *packets[:300]]))
    (file,) = json.loads(call("analyze", "--json", path).stdout)["files"]
    assert file["contents"] == [], "one in nine is TCP"


def test_long_captures_have_longer_steps(tmp_path: Path) -> None:
    esp = ethernet(ipv4(bytes(100), protocol=50))
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap_file([Packet(esp, (EPOCH_S + n * 60) * 10**6) for n in range(300)]))
    ((way,),) = (each.ways for each in contents_of(str(path)))
    assert (way.step_s, len(way.bytes_by_step), sum(way.bytes_by_step)) == (5, 299 * 12 + 1, way.bytes)


def test_what_is_inside_a_tunnel_is_told_with_it(tmp_path: Path) -> None:
    inner = ipv4(udp(b"\x12\x34\x01\0" + bytes(20), 40000, 53), protocol=17)
    gtpu = b"\x30\xff" + struct.pack(">HI", len(inner), 7) + inner
    path = tmp_path / "made.pcap"
    path.write_bytes(frames([gtpu] * 4, 2152))
    assert [each.name for each in contents_of(str(path))] == ["DNS in GTP-U"]
    assert "DNS in GTP-U, 4 packets" in call("inspect", path).stdout


def test_few_packets_are_looked_at_of_many_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "made.pcap"
    path.write_bytes(frames([SHORT] * 50, 443))
    (found,) = contents_of(str(path), most_packets=20)
    assert found.packets == 20


def test_cut_and_damaged_datagrams_raise_nothing(tmp_path: Path) -> None:
    complete = frames([initial(), *WIREGUARD, IKE], 443)
    for length in range(24, len(complete), 97):
        (tmp_path / "made.pcap").write_bytes(complete[:length])
        contents_of(str(tmp_path / "made.pcap"))
