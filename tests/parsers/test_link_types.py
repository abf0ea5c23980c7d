"""Every link type and header on the way to IP: a TCP segment behind each is found, cut ones are counted."""

from __future__ import annotations

import struct

import pytest
from scapy.layers.dot11 import Dot11, Dot11QoS, RadioTap
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import GRE, LLC, SNAP, CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Dot3, Ether
from scapy.layers.ppp import HDLC, PPP, PPPoE

from multitracer.captured import CaptureMark
from parsers._packets.layers import UNTAGGED
from tests.parsers.frames import ethernet, ipv4, ipv6, pcap_file, read, tcp

SEGMENT = tcp(payload=b"payload")
V4, V6 = ipv4(SEGMENT), ipv6(SEGMENT)
MAC = "02:00:00:00:00:01"
LLC_V4 = bytes.fromhex("aaaa030000000800") + V4
IP_PACKET = IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=1000, dport=80) / b"payload"

FRAMES: dict[str, tuple[int, bytes]] = {
    "null, little-endian": (0, b"\x02\0\0\0" + V4),
    "null, big-endian": (0, b"\0\0\0\x02" + V4),
    **{f"null, family {family}": (0, bytes([family, 0, 0, 0]) + V6) for family in (10, 23, 24, 28, 30)},
    "loop": (108, b"\0\0\0\x02" + V4),
    "loop, ipv6": (108, b"\0\0\0\x18" + V6),
    "ethernet, ipv4": (1, bytes(Ether(dst=MAC, src=MAC) / IP_PACKET)),
    "ethernet, ipv6": (1, ethernet(V6)),
    "ethernet, llc and snap": (1, bytes(Dot3(dst=MAC, src=MAC) / LLC() / SNAP() / IP_PACKET)),
    "ethernet, llc with the sap of ip": (1, b"\x02" * 12 + b"\0\x50" + b"\x06\x06\x03" + V4),
    "ethernet, priority tag": (1, bytes(Ether(dst=MAC, src=MAC) / Dot1Q(vlan=0) / IP_PACKET)),
    "ethernet, pppoe": (1, bytes(Ether(dst=MAC, src=MAC) / PPPoE() / PPP() / IP_PACKET)),
    "ethernet, pppoe, ipv6": (1, ethernet(b"\x11\0\0\x01\0\x50\0\x57" + V6, 0x8864)),
    "ethernet, mpls": (1, ethernet(b"\0\x01\0\x40" + b"\0\x02\x01\x40" + V4, 0x8847)),
    "ethernet, mpls, ipv6": (1, ethernet(b"\0\x02\x01\x40" + V6, 0x8848)),
    "ethernet in mpls, control word": (1, ethernet(b"\0\x02\x01\x40" + bytes(4) + ethernet(V4), 0x8847)),
    "ethernet in mpls": (1, ethernet(b"\0\x02\x01\x40" + b"\x80" + ethernet(V4)[1:], 0x8847)),
    "ethernet, transparent bridging": (1, ethernet(ethernet(V4), 0x6558)),
    "ethernet, cisco metadata": (1, ethernet(b"\1\1\0\1\0\5\x08\0" + V4, 0x8909)),
    "ethernet, 802.1BR": (1, ethernet(b"\0\0\0\1\0\0\x08\0" + V4, 0x893F)),
    "token ring": (6, b"\x10\x40" + b"\x02" * 12 + LLC_V4),
    "token ring, source routed": (6, b"\x10\x40" + b"\x82" * 12 + b"\x06\0abcd" + LLC_V4),
    "slip": (8, bytes(16) + V4),
    "ppp": (9, bytes(HDLC() / PPP() / IP_PACKET)),
    "ppp without address and control": (9, b"\0\x21" + V4),
    "ppp, compressed protocol": (9, b"\x21" + V4),
    "ppp, ipv6": (9, b"\xff\x03\0\x57" + V6),
    "ppp, mpls": (9, b"\xff\x03\x02\x81" + b"\0\x02\x01\x40" + V4),
    "ppp, cisco hdlc in it": (9, b"\x0f\0\x08\0" + V4),
    "fddi": (10, b"\x50" + b"\x02" * 12 + LLC_V4),
    "rfc 2684": (11, LLC_V4),
    "rfc 2684, bridged": (11, bytes.fromhex("aaaa030080c200070000") + ethernet(V4)),
    **{f"raw ip ({number})": (number, V4) for number in (12, 14, 101, 228)},
    **{f"raw ipv6 ({number})": (number, V6) for number in (12, 14, 101, 229)},
    "atm clip": (106, LLC_V4),
    "atm clip, bare": (19, V4),
    "ppp in hdlc": (50, b"\xff\x03\0\x21" + V4),
    "ppp over ethernet": (51, b"\x11\0\0\x01\0\x50\0\x21" + V4),
    "cisco hdlc": (104, b"\x0f\0\x08\0" + V4),
    "802.11": (105, bytes(Dot11(type=2, subtype=0, FCfield="to_DS") / LLC() / SNAP() / IP_PACKET)),
    "802.11, four addresses": (
        105,
        bytes(Dot11(type=2, FCfield="to_DS+from_DS", addr4=MAC) / LLC() / SNAP() / IP_PACKET),
    ),
    "802.11, quality of service": (
        105,
        bytes(Dot11(type=2, subtype=8, FCfield="from_DS") / Dot11QoS() / LLC() / SNAP() / IP_PACKET),
    ),
    "802.11, high throughput control": (105, b"\x88\x82" + bytes(22) + b"\0\0" + bytes(4) + LLC_V4),
    "radiotap": (127, bytes(RadioTap() / Dot11(type=2) / LLC() / SNAP() / IP_PACKET)),
    "radiotap, two present words": (
        127,
        bytes.fromhex("00000e000000008000000000") + b"\0\0" + b"\x08\0" + bytes(22) + LLC_V4,
    ),
    "radiotap, padded header": (127, bytes.fromhex("000009000200000020") + b"\x88\0" + bytes(26) + LLC_V4),
    "radiotap, time and padded header": (
        127,
        bytes.fromhex("0000110003000000") + bytes(8) + b"\x20" + b"\x88\0" + bytes(26) + LLC_V4,
    ),
    "prism, little-endian": (119, struct.pack("<II", 0x44, 144) + bytes(136) + b"\x08\0" + bytes(22) + LLC_V4),
    "prism, big-endian": (119, struct.pack(">II", 0x44, 144) + bytes(136) + b"\x08\0" + bytes(22) + LLC_V4),
    "avs": (163, struct.pack(">II", 0x80211001, 64) + bytes(56) + b"\x08\0" + bytes(22) + LLC_V4),
    "ppi with 802.11": (192, b"\0\0\x08\0\x69\0\0\0" + b"\x08\0" + bytes(22) + LLC_V4),
    "ppi with ethernet": (192, b"\0\0\x08\0\x01\0\0\0" + ethernet(V4)),
    "frame relay, nlpid": (107, b"\x18\x41\x03\xcc" + V4),
    "frame relay, padded nlpid": (107, b"\x18\x41\x03\0\xcc" + V4),
    "frame relay, ipv6": (107, b"\x18\x41\x03\x8e" + V6),
    "frame relay, snap": (107, b"\x18\x41\x03\0\x80\0\0\0\x08\0" + V4),
    "frame relay of cisco": (107, b"\x18\x41\x08\0" + V4),
    "openbsd enc": (109, b"\x02\0\0\0" + bytes(8) + V4),
    "linux cooked": (113, bytes(CookedLinux(proto=0x800) / IP_PACKET)),
    "linux cooked, ipv6": (113, b"\0\0\0\1\0\6" + bytes(8) + b"\x86\xdd" + V6),
    "linux cooked, 802.2": (113, b"\0\0\0\1\0\6" + bytes(8) + b"\0\4" + LLC_V4),
    "pf log": (117, b"\x3d\x02\0\0" + bytes(60) + V4),
    "ip over fibre channel": (122, bytes(16) + LLC_V4),
    "sunatm": (123, b"\x02\0\0\x20" + LLC_V4),
    "pppd": (166, b"\0\x03\0\x21" + V4),
    "pppd, compressed": (166, b"\1\0\x21" + V4),
    "ppp with direction": (204, b"\0\xff\x03\0\x21" + V4),
    "cisco hdlc with direction": (205, b"\0\x0f\0\x08\0" + V4),
    "frame relay with direction": (206, b"\0\x18\x41\x03\xcc" + V4),
    "mpls": (219, b"\0\x02\x01\x40" + V4),
    "solaris ipnet": (226, b"\1\2" + bytes(22) + V4),
    "nflog": (239, b"\2\0\0\0" + b"\x05\0\x0a\0a\0\0\0" + struct.pack("<HH", 4 + len(V4), 9) + V4),
    "nflog, ipv6": (239, b"\x0a\0\0\0" + struct.pack("<HH", 4 + len(V6), 9) + V6),
    "netanalyzer": (240, bytes(4) + ethernet(V4)),
    "netanalyzer, transparent": (241, bytes(12) + ethernet(V4)),
    "ip over infiniband": (242, bytes(40) + b"\x08\0\0\0" + V4),
    "apple pktap": (258, struct.pack("<III", 20, 1, 1) + bytes(8) + ethernet(V4)),
    "apple pktap, user 2": (149, struct.pack("<III", 20, 1, 0) + bytes(8) + b"\x02\0\0\0" + V4),
    "ethernet with preamble": (274, b"\x55" * 7 + b"\xd5" + ethernet(V4)),
    "linux cooked 2": (276, bytes(CookedLinuxV2(proto=0x800) / IP_PACKET)),
    "qmap in linux cooked": (113, b"\0\0\0\1\0\6" + bytes(8) + b"\0\xf9" + b"\0\1\0\x2f" + V4),
    "qmap in linux cooked 2": (276, b"\0\xf9" + bytes(18) + b"\1\1\0\x30" + V4 + b"\0"),
    "qmap, next header": (101, b"\x40\1\0\x2f" + b"\2\x80\0\0" + V4),
    "broadcom tag": (281, b"\x02" * 12 + b"\0\0\0\1" + b"\x08\0" + V4),
    "broadcom tag in front": (282, b"\0\0\0\1" + ethernet(V4)),
    "marvell dsa": (284, b"\x02" * 12 + b"\xc0\0\0\1" + b"\x08\0" + V4),
    "marvell edsa": (285, b"\x02" * 12 + b"\xda\xda\0\0" + b"\xc0\0\0\1" + b"\x08\0" + V4),
}


@pytest.mark.parametrize("name", FRAMES)
def test_tcp_is_found_behind(name: str) -> None:
    link_type, data = FRAMES[name]
    capture = read(pcap_file([data], link_type=link_type))
    facts = capture.files[0]
    assert facts.protocols == {"tcp": 1}, facts.not_decoded
    assert facts.not_decoded == {}
    assert facts.link_types == {link_type: 1}
    assert capture.segments["payload_bytes"].tolist() == [7]
    assert capture.segments["seq"].tolist() in ([1], [0])
    assert (capture.flows["port_a"].tolist(), capture.flows["port_b"].tolist()) == ([1000], [80])
    assert capture.flows["vlan"].tolist() == [UNTAGGED]


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_cut_anywhere_is_counted_once(name: str) -> None:
    link_type, data = FRAMES[name]
    cuts = [data[:length] for length in range(len(data))]
    facts = read(pcap_file(cuts, link_type=link_type)).files[0]
    assert sum(facts.protocols.values()) + sum(facts.not_decoded.values()) == len(cuts)
    assert facts.not_decoded


def test_what_is_not_decoded_is_counted_by_reason() -> None:
    facts = read(pcap_file([b"x" * 60] * 40, link_type=182)).files[0]
    assert facts.not_decoded == {"link type 182 not decoded": 40}
    assert facts.packets == 40


@pytest.mark.parametrize(
    ("tags", "vlan"),
    [
        ([(0x8100, 5)], 1 << 12 | 5),
        ([(0x88A8, 7), (0x8100, 5)], 1 << 24 | 7 << 12 | 5),
        ([(0x9100, 4095), (0x8100, 1)], 1 << 24 | 4095 << 12 | 1),
        ([(0x8100, 0)], UNTAGGED),
        ([(0x88A8, 9), (0x8100, 0)], 1 << 12 | 9),
        ([(0x8100, n) for n in (1, 2, 3, 4, 5)], 1 << 60 | 1 << 48 | 2 << 36 | 3 << 24 | 4 << 12 | 5),
    ],
)
def test_vlan_tags_make_the_vlan_of_the_flow(tags: list[tuple[int, int]], vlan: int) -> None:
    data = V4
    following = 0x0800
    for ethertype, number in reversed(tags):
        data = struct.pack(">HH", 3 << 13 | number, following) + data
        following = ethertype
    capture = read(pcap_file([ethernet(data, following)]))
    assert capture.flows["vlan"].tolist() == [vlan]


def test_scapy_builds_the_same_tags() -> None:
    data = bytes(Ether(dst=MAC, src=MAC) / Dot1AD(vlan=7) / Dot1Q(vlan=5) / IP_PACKET)
    assert read(pcap_file([data])).flows["vlan"].tolist() == [1 << 24 | 7 << 12 | 5]


def test_more_tags_than_the_column_holds_are_not_decoded() -> None:
    data = ethernet((b"\0\1\x81\0" * 5 + b"\0\1\x08\0") + V4, 0x8100)
    assert read(pcap_file([data])).files[0].not_decoded == {"more than 5 VLAN tags": 1}


def test_an_endless_chain_of_headers_ends() -> None:
    data = ethernet(b"\0\0\x81\0" * 300 + V4, 0x8100)
    assert read(pcap_file([data])).files[0].not_decoded == {"more than 16 headers before IP": 1}


TUNNELS = {
    "ip in ip": ipv4(V4, protocol=4),
    "6in4": ipv4(V6, protocol=41),
    "ipv6 in ipv6": ipv6(V6, next_header=41),
    "4in6": ipv6(V4, next_header=4),
    "gre": bytes(IP() / GRE() / IP_PACKET),
    "gre with checksum, key and sequence": bytes(
        IP() / GRE(chksum_present=1, key_present=1, seqnum_present=1) / IP_PACKET
    ),
    "gre, ipv6 in it": ipv4(b"\0\0\x86\xdd" + V6, protocol=47),
    "gre, ethernet in it": ipv4(b"\0\0\x65\x58" + ethernet(V4), protocol=47),
    "gre of pptp": ipv4(b"\x30\x81\x88\x0b" + bytes(12) + b"\xff\x03\0\x21" + V4, protocol=47),
    "gre, wccp": ipv4(b"\0\0\x88\x3e" + b"\1\2\3\4" + V4, protocol=47),
    "gre, mpls in it": ipv4(b"\0\0\x88\x47" + b"\0\x02\x01\x40" + V4, protocol=47),
    "erspan type I": ipv4(b"\0\0\x88\xbe" + ethernet(V4), protocol=47),
    "erspan type II": ipv4(b"\x10\0\x88\xbe" + bytes(4) + bytes(8) + ethernet(V4), protocol=47),
    "etherip": ipv4(b"\x30\0" + ethernet(V4), protocol=97),
    "mpls in ip": ipv4(b"\0\x02\x01\x40" + V4, protocol=137),
    "two levels": ipv4(ipv4(b"\0\0\x08\0" + V4, protocol=47), protocol=4),
}


@pytest.mark.parametrize("name", TUNNELS)
def test_tcp_is_found_inside(name: str) -> None:
    capture = read(pcap_file([TUNNELS[name]], link_type=101))
    facts = capture.files[0]
    assert facts.protocols == {"tcp": 1}, facts.not_decoded
    assert capture.segments["payload_bytes"].tolist() == [7]
    assert capture.segments["marks"].tolist() == [CaptureMark.TUNNELLED]


def test_tunnels_in_tunnels_without_end_are_not_followed() -> None:
    data = V4
    for _ in range(40):
        data = ipv4(data, protocol=4)
    facts = read(pcap_file([data], link_type=101)).files[0]
    assert sum(facts.protocols.values()) + sum(facts.not_decoded.values()) == 1
    assert "tcp" not in facts.protocols


def test_encrypted_empty_and_aggregated_wireless_frames_have_their_own_reason() -> None:
    body = LLC_V4
    frames = [
        b"\x08\x40" + bytes(22) + body,
        b"\x48\0" + bytes(22),
        b"\x88\0" + bytes(22) + b"\x80\0" + body,
        b"\x08\0" + bytes(20) + b"\x01\0" + body,
        b"\x80\0" + bytes(30),
        b"\xd4\0" + bytes(8),
    ]
    facts = read(pcap_file(frames, link_type=105)).files[0]
    assert facts.not_decoded == {
        "802.11 data is encrypted": 1,
        "802.11 A-MSDU not decoded": 1,
        "802.11 fragment not reassembled": 1,
    }
    assert facts.protocols == {"802.11 null data": 1, "802.11 management": 1, "802.11 control": 1}


def test_other_protocols_are_named() -> None:
    frames = [
        ethernet(bytes(28), 0x0806),
        ethernet(bytes(40), 0x88CC),
        ethernet(bytes(40), 0x1234),
        ethernet(ipv4(bytes(20), protocol=17)),
        ethernet(ipv4(bytes(20), protocol=200)),
        ethernet(ipv6(bytes(20), next_header=58)),
    ]
    facts = read(pcap_file(frames)).files[0]
    assert facts.protocols == {
        "arp": 1, "lldp": 1, "ethertype 0x1234": 1, "udp": 1, "ip protocol 200": 1, "icmpv6": 1,
    }  # fmt: skip
    assert facts.not_decoded == {}
