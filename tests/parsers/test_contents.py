"""What a capture without TCP holds is named by what its datagrams are, with packets and bytes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from parsers import contents_of
from tests.cli.program import call
from tests.parsers.frames import ethernet, ipv4, ipv6, pcap_file

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
