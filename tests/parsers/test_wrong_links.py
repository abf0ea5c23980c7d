"""Frames that are not what their file or their header says: raw IP as Ethernet, QMAP, a VLAN tag at a wrong place."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import pytest

import parsers
from multitracer.recording.read import Need
from multitracer.recording.read import read as read_all
from parsers._packets.layers import UNTAGGED
from tests.cli.program import call
from tests.parsers.frames import Packet, enhanced, ethernet, interface, ipv4, ipv6, pcap_file, read, section, tcp

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["native", "python"], autouse=True)
def by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setenv("MULTITRACER_NATIVE", "0")
    return str(request.param)


def segments(seed: int, count: int = 40, *, six: bool = False) -> list[bytes]:
    """Return IP packets of one connection, both ways, of random lengths."""
    rng, packets = random.Random(seed), []
    for n in range(count):
        size = rng.randint(0, 1400)
        there = tcp(seq=n * 1400, payload=rng.randbytes(size))
        back = tcp(sport=80, dport=1000, ack=n * 1400 + size)
        ends = {"source": 2, "destination": 1}
        packets += [ipv6(there), ipv6(back, **ends)] if six else [
            ipv4(there), ipv4(back, source="10.0.0.2", destination="10.0.0.1")
        ]  # fmt: skip
    return packets


# --- the link type of the file ---


@pytest.mark.parametrize("six", [False, True])
@pytest.mark.parametrize("link_type", [1, 113, 0, 147, 105])
def test_raw_ip_under_another_link_type(tmp_path: Path, link_type: int, six: bool) -> None:
    packets = segments(link_type, six=six)
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap_file([Packet(each[:200], None, len(each)) for each in packets], link_type=link_type))
    (capture,) = read_all(str(path), need=Need.NUMBERS).captures
    (facts,) = capture.tables.files
    assert (facts.protocols, facts.link_types) == ({"tcp": len(packets)}, {101: len(packets)})
    assert facts.guessed_link.startswith("the frames are read as raw IP, although the file names link type")
    assert len(capture.analysis.connections) == 1


@pytest.mark.parametrize("link_type", [12, 101, 150])
def test_ethernet_under_the_link_type_of_raw_ip(link_type: int) -> None:
    frames = [ethernet(each).ljust(60, b"\0") for each in segments(3)]
    facts = read(pcap_file(frames, link_type=link_type)).files[0]
    assert (facts.protocols, facts.link_types) == ({"tcp": len(frames)}, {1: len(frames)})
    said = f"the frames are read as Ethernet, although the file names link type {link_type}"
    assert facts.guessed_link.startswith(said)


def test_each_interface_of_pcapng_is_told_apart() -> None:
    packets = segments(4)
    blocks = [section(), interface(1), interface(1)]
    blocks += [enhanced(each, number=0) for each in packets]
    blocks += [enhanced(ethernet(each), number=1) for each in packets]
    facts = read(b"".join(blocks)).files[0]
    assert (facts.protocols, facts.link_types) == ({"tcp": 2 * len(packets)}, {1: len(packets), 101: len(packets)})


def test_most_frames_decide() -> None:
    raw, tagged = segments(5, 10), [ethernet(each) for each in segments(6, 11)]
    facts = read(pcap_file([*raw, *tagged])).files[0]
    assert (facts.link_types, facts.guessed_link) == ({1: 42}, "")
    facts = read(pcap_file([*raw, *tagged[:15]])).files[0]
    assert facts.link_types == {101: 35}


def test_one_frame_needs_the_right_checksum() -> None:
    packet = bytearray(segments(7)[0])
    packet[10:12] = bytes(2)
    total = sum(struct.unpack(">10H", packet[:20]))
    packet[10:12] = struct.pack(">H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF)
    assert read(pcap_file([bytes(packet)])).files[0].link_types == {101: 1}
    packet[10] ^= 1
    assert read(pcap_file([bytes(packet)])).files[0].link_types == {1: 1}


def test_frames_of_ethernet_are_never_taken_for_raw_ip() -> None:
    """Their addresses may begin as IP does; a length that is the frame's does not follow."""
    rng = random.Random(8)
    for _ in range(300):
        frames = [
            bytes([rng.choice((0x45, 0x60, 0x46))]) + rng.randbytes(11) + b"\x08\x06" + bytes(rng.randint(28, 46))
            for _ in range(rng.randint(1, 5))
        ]
        assert read(pcap_file(frames)).files[0].link_types == {1: len(frames)}


# --- QMAP ---


def qmap(packet: bytes, *, mux: int = 1, five: bool = False, pad: int | None = None) -> bytes:
    pad = -len(packet) % 4 if pad is None else pad
    head = struct.pack(">BBH", (0x40 if five else 0) | pad, mux, len(packet) + pad)
    return head + (b"\x02\x80\0\0" if five else b"") + packet + bytes(pad)


def sll(payload: bytes, number: int = 0x00F9) -> bytes:
    return struct.pack(">HHH8xH", 4, 519, 0, number) + payload


def sll2(payload: bytes, number: int = 0x00F9) -> bytes:
    return struct.pack(">HHIHBB8x", number, 0, 3, 519, 4, 0) + payload


@pytest.mark.parametrize("five", [False, True])
@pytest.mark.parametrize("link_type", [113, 276, 12, 101])
def test_packets_in_qmap_are_read(link_type: int, five: bool) -> None:
    packets = segments(9) + segments(10, six=True)
    wrapped = [qmap(each, mux=1 + n % 2, five=five) for n, each in enumerate(packets)]
    frames = [{113: sll, 276: sll2}.get(link_type, bytes)(each) for each in wrapped]
    capture = read(pcap_file(frames, link_type=link_type))
    facts = capture.files[0]
    assert (facts.protocols, facts.not_decoded) == ({"tcp": len(packets)}, {})
    assert (facts.tunnels["QMAP"].packets, facts.tunnels["QMAP"].identifiers) == (len(packets), {1, 2})
    assert int(capture.segments["payload_bytes"].sum()) > 1000
    assert not (capture.segments["marks"] & 0x80).any(), "a length contradicts"


@pytest.mark.parametrize("trailer", [0, 8])
def test_further_packets_of_a_frame_are_counted(tmp_path: Path, trailer: int) -> None:
    packets = segments(11)
    frames = [
        sll(b"".join(qmap(each) + bytes(trailer) for each in packets[at : at + 5])) for at in range(0, len(packets), 5)
    ]
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap_file(frames, link_type=113))
    said = call("inspect", path).stdout
    assert "QMAP: 16 packets, 16 with TCP, 1 mux id" in said
    assert "64 further packets that shared a frame with another one (QMAP) were not read" in said
    assert "Trust: poor" in said


def test_commands_and_other_frames_of_qmap_are_counted() -> None:
    command = struct.pack(">BBH", 0x80, 1, 8) + bytes(8)
    facts = read(pcap_file([sll(command), sll(bytes(40)), sll2(b"x")[:22]], link_type=113)).files[0]
    assert facts.protocols == {"qmap command": 1, "llc": 1}
    assert facts.not_decoded == {"QMAP without an IP packet that fits": 1}


# --- a tag that was inserted at a wrong place ---


def misplaced(packet: bytes, *, vlan: int, version: int, with_type: bool) -> tuple[int, bytes]:
    """Return link type and frame: the tag where that of Ethernet would be, in a cooked header."""
    number = struct.pack(">H", 0x0800 if packet[0] >> 4 == 4 else 0x86DD)
    tag = struct.pack(">HH", 0x8100 if with_type else 0, vlan)
    if version == 1:
        header = struct.pack(">HHH", 0, 1, 6) + b"\0\x09\x0f\xf8\x73\x11\0\0" + number
        return 113, header[:12] + tag + header[12:] + packet
    header = number + struct.pack(">HIHBB", 0, 2, 1, 0, 6) + b"\0\x09\x0f\xf8\x73\x11\0\0"
    return 276, header[:14] + tag + header[14:] + packet


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("version", [1, 2])
def test_ip_behind_a_misplaced_tag_is_found(seed: int, version: int) -> None:
    rng = random.Random(seed)
    vlan, with_type = rng.randint(1, 4094), version == 2 or rng.random() < 0.5
    packets = segments(seed, six=rng.random() < 0.5)
    made = [misplaced(each, vlan=vlan, version=version, with_type=with_type) for each in packets]
    capture = read(pcap_file([frame for _, frame in made], link_type=made[0][0]))
    assert capture.files[0].protocols == {"tcp": len(packets)}, capture.files[0].not_decoded
    assert capture.flows["vlan"].tolist() == [1 << 12 | vlan]


def test_a_misplaced_tag_with_the_number_of_qmap_is_none() -> None:
    frames = [misplaced(each, vlan=0x00F9, version=1, with_type=False)[1] for each in segments(32)]
    capture = read(pcap_file(frames, link_type=113))
    assert (capture.files[0].protocols, capture.files[0].tunnels) == ({"tcp": len(frames)}, {})
    assert capture.flows["vlan"].tolist() == [1 << 12 | 0xF9]


def test_a_tag_in_one_direction_alone_leaves_one_connection() -> None:
    packets = segments(30)
    frames = [
        misplaced(each, vlan=200, version=1, with_type=False)[1] if n % 2 else sll(each, 0x0800)
        for n, each in enumerate(packets)
    ]
    capture = read(pcap_file(frames, link_type=113))
    assert (capture.files[0].protocols, len(capture.flows)) == ({"tcp": len(packets)}, 1)


def test_tags_at_their_place_are_read_as_before() -> None:
    tagged = struct.pack(">HH", 77, 0x0800) + segments(31)[0]
    capture = read(pcap_file([sll(tagged, 0x8100)], link_type=113))
    assert capture.flows["vlan"].tolist() == [1 << 12 | 77]
    assert read(pcap_file([sll(segments(31)[0], 0x0800)], link_type=113)).flows["vlan"].tolist() == [UNTAGGED]


# --- the reports ---


@pytest.mark.fixtures
@pytest.mark.parametrize(
    ("name", "packets", "bytes_", "said"),
    [
        ("rvi_dlt1_rawip.pcap", 158, 140_100, "the frames are read as raw IP, although the file names link type 1"),
        ("qmap_rmnet_ipa0.pcap.gz", 607, 571_600, "QMAP: 607 packets, 607 with TCP, 1 mux id"),
        ("sll_vlan_misaligned.pcap", 158, 140_200, ""),
    ],
)
def test_what_people_reported(fixture_folder: Path, name: str, packets: int, bytes_: int, said: str) -> None:
    path = fixture_folder / "reports" / name
    if not path.exists():
        pytest.skip("no reports of people there")
    capture = parsers.read_capture([path])
    assert capture.files[0].protocols == {"tcp": packets}
    assert abs(int(capture.segments["payload_bytes"].sum()) - bytes_) <= 200
    shown = call("inspect", path).stdout
    assert "1 TCP connection\n" in shown
    assert said in shown
    assert "--no-decap" not in shown
    call("analyze", path)
    call("diagnose", path)
