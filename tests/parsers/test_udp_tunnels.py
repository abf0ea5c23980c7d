"""TCP inside tunnels in UDP is found, by whichever options their headers have; what only looks so stays UDP."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scapy.contrib.geneve import GENEVE
from scapy.contrib.gtp import GTP_U_Header, GTPPDUSessionContainer
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN

import parsers
from multitracer.captured import CaptureMark
from tests.cli.program import call
from tests.parsers.frames import ethernet, ipv4, ipv6, pcap_file, read, tcp

if TYPE_CHECKING:
    from pathlib import Path

V4, V6 = ipv4(tcp(payload=b"payload")), ipv6(tcp(payload=b"payload"))
TO_TEREDO = V6[:8] + b"\x20\x01\0\0" + V6[12:]
FROM_TEREDO = V6[:24] + b"\x20\x01\0\0" + V6[28:]
TAGGED = ethernet(struct.pack(">HH", 7, 0x0800) + V4, 0x8100)
IP_PACKET = IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=1000, dport=80) / b"payload"


def udp(payload: bytes, port: int, *, sport: int = 40_000, length: int | None = None) -> bytes:
    return struct.pack(">HHHH", sport, port, 8 + len(payload) if length is None else length, 0) + payload


def in_udp(payload: bytes, port: int, *, sport: int = 40_000) -> bytes:
    return ethernet(ipv4(udp(payload, port, sport=sport), protocol=17, source="192.0.2.1", destination="192.0.2.2"))


def gtpu(
    inner: bytes,
    *,
    message: int = 255,
    teid: int = 0x1234,
    extensions: tuple[tuple[int, bytes], ...] = (),
    sequence: int | None = None,
    pdu: int | None = None,
    wrong: int = 0,
) -> bytes:
    """Return a message of GTP-U; extension headers are type and content, of 4 n - 2 bytes each."""
    flags = 0x30 | (0x04 if extensions else 0) | (0x02 if sequence is not None else 0) | (pdu is not None)
    optional = b""
    if flags & 0x07:
        first = extensions[0][0] if extensions else 0
        optional = struct.pack(">HBB", sequence or 0, pdu or 0, first)
        for number, (_, content) in enumerate(extensions):
            following = extensions[number + 1][0] if number + 1 < len(extensions) else 0
            optional += bytes([(len(content) + 2) // 4]) + content + bytes([following])
    length = len(optional) + len(inner) + wrong
    return struct.pack(">BBHI", flags, message, length, teid) + optional + inner


SESSION = (0x85, b"\x10\x09")
LONG = (0xC0, bytes(6))
TUNNELS = {
    "gtp-u": in_udp(gtpu(V4), 2152),
    "gtp-u, ipv6 inside": in_udp(gtpu(V6), 2152),
    "gtp-u, to another port": in_udp(gtpu(V4), 50_000, sport=2152),
    "gtp-u in ipv6": ethernet(ipv6(udp(gtpu(V6), 2152), next_header=17)),
    "gtp-u, sequence": in_udp(gtpu(V4, sequence=9), 2152),
    "gtp-u, n-pdu": in_udp(gtpu(V4, pdu=3), 2152),
    "gtp-u, session container": in_udp(gtpu(V4, extensions=(SESSION,)), 2152),
    "gtp-u, chain of extensions": in_udp(gtpu(V4, sequence=1, pdu=2, extensions=(LONG, SESSION, LONG)), 2152),
    "gtp-u, of scapy": bytes(
        Ether() / IP() / UDP() / GTP_U_Header(teid=7) / GTPPDUSessionContainer(type=1, QFI=9) / IP_PACKET
    ),
    "vxlan": in_udp(struct.pack(">II", 0x08 << 24, 77 << 8) + ethernet(V4), 4789),
    "vxlan, tagged inside": in_udp(struct.pack(">II", 0x08 << 24, 77 << 8) + TAGGED, 4789),
    "vxlan, port of linux": in_udp(struct.pack(">II", 0x08 << 24, 77 << 8) + ethernet(V6), 8472),
    "vxlan, group policy": in_udp(struct.pack(">BBHI", 0x88, 0x08, 5, 77 << 8) + ethernet(V4), 4789),
    "vxlan-gpe, ipv4": in_udp(struct.pack(">BHBI", 0x0C, 0, 1, 77 << 8) + V4, 4790),
    "vxlan-gpe, ipv6": in_udp(struct.pack(">BHBI", 0x0C, 0, 2, 77 << 8) + V6, 4790),
    "vxlan-gpe, ethernet": in_udp(struct.pack(">BHBI", 0x0C, 0, 3, 77 << 8) + ethernet(V4), 4790),
    "vxlan-gpe, nsh": in_udp(
        struct.pack(">BHBI", 0x0C, 0, 4, 77 << 8) + struct.pack(">HBBI", 0x0FC2, 2, 1, 0x0100) + V4, 4790
    ),
    "vxlan, of scapy": bytes(Ether() / IP() / UDP() / VXLAN(vni=9) / Ether() / IP_PACKET),
    "geneve, ethernet": in_udp(struct.pack(">BBHI", 0, 0, 0x6558, 77 << 8) + ethernet(V4), 6081),
    "geneve, ipv4": in_udp(struct.pack(">BBHI", 0, 0, 0x0800, 77 << 8) + V4, 6081),
    "geneve, options": in_udp(
        struct.pack(">BBHI", 5, 0x40, 0x86DD, 77 << 8) + struct.pack(">HBB", 0x0102, 1, 1) + bytes(4)
        + struct.pack(">HBB", 0x0102, 2, 2) + bytes(8) + V6, 6081,
    ),
    "geneve, of scapy": bytes(Ether() / IP() / UDP() / GENEVE(vni=9) / Ether() / IP_PACKET),
    "l2tp, ppp": in_udp(struct.pack(">HHH", 0x0002, 4, 5) + b"\xff\x03\0\x21" + V4, 1701),
    "l2tp, length and numbers": in_udp(
        struct.pack(">HHHHHH", 0x4802, 12 + 2 + len(V6), 4, 5, 1, 2) + b"\0\x57" + V6, 1701
    ),
    "l2tp, offset": in_udp(struct.pack(">HHHH", 0x0202, 4, 5, 3) + b"abc" + b"\x21" + V4, 1701),
    "l2tp 3 in udp": in_udp(struct.pack(">HHI", 0x0003, 0, 99) + b"cook" + ethernet(V4), 1701),
    "l2tp 3": ethernet(ipv4(struct.pack(">I", 99) + ethernet(V4), protocol=115)),
    "l2tp 3, cookie and sublayer": ethernet(ipv4(struct.pack(">I", 99) + b"cookie12" + bytes(4) + V6, protocol=115)),
    "teredo": in_udp(TO_TEREDO, 3544),
    "teredo, origin": in_udp(b"\0\0" + bytes(6) + TO_TEREDO, 3544),
    "teredo, key and origin": in_udp(
        b"\0\x01\x02\x03" + b"id" + b"key" + bytes(9) + b"\0\0" + bytes(6)
        + FROM_TEREDO, 3544,
    ),
    "gre in udp": in_udp(b"\x20\0\x08\0" + struct.pack(">I", 5) + V4, 4754),
    "gre in udp, ethernet": in_udp(b"\0\0\x65\x58" + ethernet(V6), 4754),
    "vxlan in gtp-u": in_udp(
        gtpu(in_udp(struct.pack(">II", 0x08 << 24, 77 << 8) + ethernet(V4), 4789)[14:]), 2152
    ),
    "erspan III": ethernet(ipv4(b"\x10\0\x22\xeb" + bytes(4) + bytes(12) + ethernet(V4), protocol=47)),
    "erspan III, subheader": ethernet(
        ipv4(b"\x10\0\x22\xeb" + bytes(4) + bytes(11) + b"\x01" + bytes(8) + ethernet(V4), protocol=47)
    ),
    "eoip": ethernet(ipv4(b"\x20\x01\x64\0" + struct.pack("<HH", 61, 7)[:4] + ethernet(V4), protocol=47)),
}  # fmt: skip


@pytest.fixture(params=["native", "python"])
def by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setenv("MULTITRACER_NATIVE", "0")
    return str(request.param)


@pytest.mark.usefixtures("by")
@pytest.mark.parametrize("name", TUNNELS)
def test_tcp_is_found_inside(name: str) -> None:
    capture = read(pcap_file([TUNNELS[name]]))
    facts = capture.files[0]
    assert facts.protocols == {"tcp": 1}, facts.not_decoded
    assert (facts.not_decoded, capture.segments["payload_bytes"].tolist()) == ({}, [7])
    assert (capture.flows["port_a"].tolist(), capture.flows["port_b"].tolist()) == ([1000], [80])
    assert capture.segments["marks"].tolist() == [CaptureMark.TUNNELLED]
    outer = next(iter(facts.tunnels.values()))
    assert (outer.packets, outer.tcp_packets, outer.unread_packets, len(outer.ends)) == (1, 1, 0, 1)


@pytest.mark.usefixtures("by")
@pytest.mark.parametrize("name", TUNNELS)
def test_a_frame_cut_anywhere_is_counted_once(name: str) -> None:
    frame = TUNNELS[name]
    facts = read(pcap_file([frame[:length] for length in range(1, len(frame))])).files[0]
    assert sum(facts.protocols.values()) + sum(facts.not_decoded.values()) == len(frame) - 1


NO_TUNNELS = {
    "another length": gtpu(V4, wrong=1),
    "another version": b"\x50" + gtpu(V4)[1:],
    "gtp prime": b"\x20" + gtpu(V4)[1:],
    "no ip inside": gtpu(b"\x20" + V4[1:]),
    "an ip length beyond": gtpu(V4[:2] + b"\xff\xff" + V4[4:]),
    "an extension without an end": gtpu(V4, extensions=((0x85, b"\x10\x09"),))[:12] + b"\0" + bytes(3) + V4,
    "an extension beyond": gtpu(V4, extensions=((0x85, b"\x10\x09"),))[:12] + b"\xff" + bytes(3) + V4,
}


@pytest.mark.usefixtures("by")
@pytest.mark.parametrize("name", NO_TUNNELS)
def test_what_only_looks_like_gtpu_stays_udp(name: str) -> None:
    facts = read(pcap_file([in_udp(NO_TUNNELS[name], 2152)])).files[0]
    assert (facts.protocols, facts.not_decoded, facts.tunnels) == ({"udp": 1}, {}, {})


@pytest.mark.usefixtures("by")
def test_random_datagrams_to_these_ports_stay_udp() -> None:
    rng = random.Random(7)
    ports = (1701, 2152, 3544, 4754, 4789, 4790, 6081, 8472)
    frames = [in_udp(rng.randbytes(rng.randint(0, 300)), rng.choice(ports)) for _ in range(20_000)]
    facts = read(pcap_file(frames)).files[0]
    assert (facts.protocols, facts.not_decoded) == ({"udp": len(frames)}, {})


@pytest.mark.usefixtures("by")
def test_messages_of_the_ends_are_signalling() -> None:
    frames = [in_udp(gtpu(b"\x0e\0", message=message, sequence=4), 2152) for message in (1, 2, 26, 31, 253, 254)]
    frames += [in_udp(struct.pack(">HHHHHH", 0xC802, 12, 4, 5, 1, 2), 1701)]
    facts = read(pcap_file(frames)).files[0]
    assert facts.protocols == {"gtp-u signalling": 6, "l2tp signalling": 1}


@pytest.mark.usefixtures("by")
def test_both_ways_of_a_bearer_are_one_connection() -> None:
    up = [gtpu(ipv4(tcp(seq=n)), teid=0xA) for n in range(5)]
    back = ipv4(tcp(sport=80, dport=1000), source="10.0.0.2", destination="10.0.0.1")
    down = [gtpu(back, teid=0xB, extensions=(SESSION,))] * 5
    frames = [in_udp(each, 2152) for pair in zip(up, down, strict=True) for each in pair]
    capture = read(pcap_file(frames))
    assert len(capture.flows) == 1
    assert np.bincount(capture.segments["flow"]).tolist() == [5, 5]
    assert capture.files[0].tunnels["GTP-U"].identifiers == {0xA, 0xB}


@pytest.mark.usefixtures("by")
def test_a_fragmented_tunnel_is_credited_to_the_segment_inside() -> None:
    inner = ipv4(tcp(payload=bytes(1000)))
    complete = udp(gtpu(inner), 2152)
    first, last = complete[:600], complete[600:]
    frames = [
        ethernet(ipv4(first, protocol=17, fragment=0x2000, identification=9)),
        ethernet(ipv4(last, protocol=17, fragment=75, identification=9)),
    ]
    capture = read(pcap_file(frames))
    assert capture.files[0].protocols == {"tcp": 1, "ip fragment": 1}
    assert capture.segments["marks"].tolist() == [CaptureMark.TUNNELLED | CaptureMark.FRAGMENT]
    assert capture.segments["payload_bytes"].tolist() == [1000]


@pytest.mark.usefixtures("by")
def test_tunnels_in_tunnels_without_end_are_not_followed() -> None:
    data = V4
    for _ in range(12):
        data = ipv4(udp(gtpu(data), 2152), protocol=17)
    facts = read(pcap_file([ethernet(data)])).files[0]
    assert facts.protocols == {"udp": 1}


@pytest.mark.usefixtures("by")
def test_kept_tunnels_are_counted_as_they_are() -> None:
    frames = [TUNNELS["gtp-u"], TUNNELS["vxlan"], TUNNELS["l2tp 3"], TUNNELS["eoip"], ethernet(ipv4(V4, protocol=4))]
    with parsers.force_reading(decap=False):
        capture = read(pcap_file(frames))
    facts = capture.files[0]
    assert facts.protocols == {"udp": 2, "ip protocol 115": 1, "gre": 1, "ip protocol 4": 1}
    assert (facts.tunnels, len(capture.segments)) == ({}, 0)


@pytest.mark.fixtures
@pytest.mark.usefixtures("by")
@pytest.mark.parametrize("name", ["gtpu.pcap.gz", "gtpu_ext.pcap.gz"])
def test_a_capture_of_a_core_network_shows_the_transfer(fixture_folder: Path, name: str) -> None:
    path = fixture_folder / "reports" / name
    if not path.exists():
        pytest.skip("no reports of people there")
    said = call("inspect", path).stdout
    assert "1 TCP connection\n" in said
    assert "GTP-U: 158 packets, 158 with TCP, between 10.9.0.1 and 10.9.0.2, 2 TEIDs" in said
    assert "10.0.0.2:40000  192.0.2.80:443     100 B    140 kB      0    50 ms  302 ms" in said
    assert int(parsers.read_capture([path]).segments["payload_bytes"].sum()) == 140_100
    call("diagnose", path)
