"""IPv4 and IPv6 headers: options, extension headers, fragments, jumbograms, lengths that lie."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.captured import CaptureMark
from parsers import read_capture
from parsers._packets import decode as fragments_module
from tests.parsers.frames import EPOCH_S, Packet, ethernet, ipv4, ipv6, pcap_file, read, tcp

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.capture import CaptureTables

PAYLOAD = bytes(range(200))
SEGMENT = tcp(payload=PAYLOAD)
MORE = 0x2000


def of_ip(*packets: bytes | Packet) -> CaptureTables:
    return read(pcap_file(packets, link_type=101))


def only(capture: CaptureTables, column: str) -> int:
    (value,) = capture.segments[column].tolist()
    return int(value)


@pytest.mark.parametrize("options", [0, 4, 12, 40])
def test_ipv4_options_are_stepped_over(options: int) -> None:
    capture = of_ip(ipv4(SEGMENT, options=b"\x01" * options))
    assert only(capture, "payload_bytes") == 200
    assert only(capture, "ip_id") == 7


def test_ethernet_padding_is_no_payload() -> None:
    capture = read(pcap_file([ethernet(ipv4(tcp(payload=b"abc"))) + bytes(13)]))
    assert only(capture, "payload_bytes") == 3
    assert only(capture, "marks") == 0


@pytest.mark.parametrize("packet", [ipv4(SEGMENT, total=0), ipv6(SEGMENT, length=0)])
def test_an_ip_length_of_zero_is_taken_from_the_record(packet: bytes) -> None:
    capture = of_ip(Packet(packet[:100], original=len(packet)))
    assert only(capture, "payload_bytes") == 200
    assert only(capture, "marks") == CaptureMark.LENGTH_FROM_CAPTURE | CaptureMark.PAYLOAD_CUT


def test_a_snapped_packet_has_the_payload_of_its_ip_length() -> None:
    packet = ipv4(SEGMENT)
    capture = of_ip(Packet(packet[:60], original=len(packet)))
    assert only(capture, "payload_bytes") == 200
    assert only(capture, "marks") == CaptureMark.PAYLOAD_CUT


def test_an_ip_length_beyond_the_packet_counts_only_what_was_there() -> None:
    capture = of_ip(ipv4(SEGMENT, total=1000))
    assert only(capture, "payload_bytes") == 200
    assert only(capture, "marks") == CaptureMark.BAD_LENGTH


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (b"\x45" + bytes(10), "IPv4 header cut short"),
        (ipv4(SEGMENT)[:24].replace(b"\x45", b"\x4f", 1), "IPv4 header cut short"),
        (b"\x44" + ipv4(SEGMENT)[1:], "IPv4 header not valid"),
        (ipv4(SEGMENT, total=19), "IPv4 header not valid"),
        (ipv6(SEGMENT)[:39], "IPv6 header cut short"),
        (ipv6(SEGMENT, next_header=0)[:44], "IP extension header cut short"),
        (ipv6(b"\x06\xff" + bytes(30), next_header=60), "IP extension header cut short"),
        (b"\x35" + bytes(40), "neither IP version 4 nor 6"),
        (ipv4(SEGMENT[:12]), "TCP header cut short"),
        (ipv4(SEGMENT[:12] + b"\x40" + SEGMENT[13:]), "TCP header not valid"),
        (ipv4(SEGMENT[:8], fragment=MORE), "TCP header split over IP fragments"),
    ],
)
def test_headers_that_cannot_be_read_are_counted_by_reason(packet: bytes, reason: str) -> None:
    capture = of_ip(packet, ipv4(SEGMENT))
    assert capture.files[0].not_decoded == {reason: 1}
    assert capture.segments["frame"].tolist() == [2]


EXTENSIONS = {
    "hop-by-hop": (0, b"\x06\0" + b"\x01\x04" + bytes(4)),
    "destination options, 24 bytes": (60, b"\x06\x02" + b"\x01\x14" + bytes(20)),
    "routing": (43, b"\x06\0" + bytes(6)),
    "authentication": (51, b"\x06\x04" + bytes(22)),
    "mobility": (135, b"\x06\0" + bytes(6)),
    "hip": (139, b"\x06\0" + bytes(6)),
    "shim6": (140, b"\x06\0" + bytes(6)),
    "atomic fragment": (44, b"\x06\0\0\0" + b"\0\0\x30\x39"),
    "three in a row": (0, b"\x2b\0" + bytes(6) + b"\x3c\0" + bytes(6) + b"\x06\0" + bytes(6)),
}


@pytest.mark.parametrize("name", EXTENSIONS)
def test_extension_headers_are_stepped_over(name: str) -> None:
    first, headers = EXTENSIONS[name]
    capture = of_ip(ipv6(headers + SEGMENT, next_header=first))
    assert only(capture, "payload_bytes") == 200
    assert only(capture, "ip_id") == 0


def test_authentication_headers_are_stepped_over_in_ipv4_too() -> None:
    assert only(of_ip(ipv4(b"\x06\x04" + bytes(22) + SEGMENT, protocol=51)), "payload_bytes") == 200


def test_an_endless_chain_of_extension_headers_ends() -> None:
    capture = of_ip(ipv6((b"\x3c\0" + bytes(6)) * 100 + SEGMENT, next_header=60))
    assert capture.files[0].not_decoded == {"more than 16 IP extension headers": 1}


def test_a_jumbogram_has_its_length_in_an_option() -> None:
    payload = bytes(100_000)
    segment = tcp(payload=payload)
    jumbo = b"\x06\0" + b"\xc2\x04" + struct.pack(">I", 8 + len(segment))
    packet = ipv6(jumbo + segment, next_header=0, length=0)
    capture = of_ip(Packet(packet + b"trailer"), Packet(packet[:96], original=len(packet)))
    assert capture.segments["payload_bytes"].tolist() == [100_000, 100_000]
    assert capture.segments["marks"].tolist() == [0, CaptureMark.PAYLOAD_CUT]


@pytest.mark.parametrize("original", [1 << 25, (1 << 31) + 100, (1 << 32) - 1])
@pytest.mark.parametrize("version", [4, 6])
def test_a_length_on_the_wire_that_no_packet_has_is_not_believed(original: int, version: int) -> None:
    jumbo = b"\x06\0" + b"\xc2\x04" + struct.pack(">I", (1 << 32) - 1)
    packet = ipv4(SEGMENT, total=0) if version == 4 else ipv6(jumbo + SEGMENT, next_header=0, length=0)
    capture = of_ip(Packet(packet, original=original), packet)
    assert capture.segments["payload_bytes"].tolist() == [200, 200]
    assert int(capture.segments["marks"][0]) & CaptureMark.BAD_LENGTH


def fragments4(*, identification: int = 9, size: int = 80) -> list[bytes]:
    """Return SEGMENT as IPv4 fragments."""
    chunks = [SEGMENT[i : i + size] for i in range(0, len(SEGMENT), size)]
    return [
        ipv4(chunk, identification=identification, fragment=i * size // 8 | MORE * (i < len(chunks) - 1))
        for i, chunk in enumerate(chunks)
    ]


def fragments6() -> list[bytes]:
    """Return SEGMENT as two IPv6 fragments."""
    head = b"\x06\0" + struct.pack(">HI", 1, 77), b"\x06\0" + struct.pack(">HI", 120, 77)
    return [ipv6(h + p, next_header=44) for h, p in zip(head, (SEGMENT[:120], SEGMENT[120:]), strict=True)]


@pytest.mark.parametrize("chunks", [fragments4(), fragments6()])
@pytest.mark.parametrize("turn", [1, -1])
def test_the_payload_of_a_datagram_is_credited_to_its_first_fragment(chunks: list[bytes], turn: int) -> None:
    capture = of_ip(*chunks[::turn])
    assert only(capture, "payload_bytes") == 200
    assert only(capture, "frame") == (1 if turn == 1 else len(chunks))
    assert only(capture, "marks") == CaptureMark.FRAGMENT
    facts = capture.files[0]
    assert facts.protocols == {"tcp": 1, "ip fragment": len(chunks) - 1}
    assert facts.not_decoded == {}


def test_fragments_behind_a_hole_are_not_credited() -> None:
    first, _, third = fragments4()
    assert only(of_ip(first, third), "payload_bytes") == 60


def test_duplicate_and_overlapping_fragments_count_once() -> None:
    first, second, third = fragments4()
    assert only(of_ip(first, second, second, second, third), "payload_bytes") == 200


def test_fragments_without_their_first_are_counted_as_not_decoded() -> None:
    facts = of_ip(*fragments4()[1:], ipv4(SEGMENT)).files[0]
    assert facts.protocols == {"tcp": 1}
    assert facts.not_decoded == {"IP fragment without its first": 2}


def test_fragments_of_a_capture_in_many_files_count_in_the_file_that_has_them(tmp_path: Path) -> None:
    complete, headless = fragments4(identification=1), fragments4(identification=2)[1:]
    parts = complete[:1], [*complete[1:], headless[0]], headless[1:], [ipv4(SEGMENT)]
    paths = [tmp_path / f"{number}.pcap" for number in range(len(parts))]
    for number, path in enumerate(paths):
        packets = [Packet(data, (EPOCH_S + number) * 10**6) for data in parts[number]]
        path.write_bytes(pcap_file(packets, link_type=101))
    capture = read_capture(paths)
    assert capture.segments["payload_bytes"].tolist() == [200, 200]
    assert [facts.protocols for facts in capture.files] == [{"tcp": 1}, {"ip fragment": 2}, {}, {"tcp": 1}]
    headless_in = [facts.not_decoded.get("IP fragment without its first") for facts in capture.files]
    assert headless_in == [None, 1, 1, None]


def test_an_identification_used_again_begins_a_new_datagram() -> None:
    capture = of_ip(*fragments4()[:2], *fragments4())
    assert capture.segments["payload_bytes"].tolist() == [140, 200]


def test_interleaved_datagrams_are_kept_apart() -> None:
    one, two = fragments4(identification=1), fragments4(identification=2, size=160)
    capture = of_ip(one[0], two[0], two[1], one[2], one[1])
    assert capture.segments["payload_bytes"].tolist() == [200, 200]


def test_the_number_of_open_datagrams_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragments_module, "_MOST_OPEN", 10)
    firsts = [fragments4(identification=n)[0] for n in range(100)]
    lasts = [chunk for n in reversed(range(100)) for chunk in fragments4(identification=n)[1:]]
    capture = of_ip(*firsts, *lasts)
    assert capture.segments["payload_bytes"].tolist() == [60] * 90 + [200] * 10
    assert capture.files[0].not_decoded == {"IP fragment without its first": 180}


def test_a_fragmented_tunnel_is_credited_to_the_segment_inside() -> None:
    outer = ipv4(SEGMENT, identification=3)
    chunks = [
        ipv4(outer[:96], protocol=4, identification=5, fragment=MORE),
        ipv4(outer[96:], protocol=4, identification=5, fragment=12),
    ]
    capture = of_ip(*chunks)
    assert only(capture, "payload_bytes") == 200
    assert only(capture, "marks") == CaptureMark.FRAGMENT | CaptureMark.TUNNELLED


def test_rows_stay_in_the_order_of_the_capture_when_kinds_mix() -> None:
    kinds = [ipv4(SEGMENT), ipv6(SEGMENT), ipv4(ipv4(SEGMENT), protocol=4), b"\x00", ipv4(b"", protocol=17)]
    rng = np.random.default_rng(5)
    chosen = rng.integers(0, len(kinds), 500).tolist()
    capture = of_ip(*(kinds[i] for i in chosen))
    assert capture.segments["frame"].tolist() == [n for n, i in enumerate(chosen, 1) if i < 3]
