"""The classic capture file: every dialect, damage in every place."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import FormatError
from parsers import pcap
from tests.parsers.frames import EPOCH_S, Packet, frame, pcap_file, read

THREE = [frame(seq=1, payload=b"a"), frame(seq=2, payload=b"bc"), frame(seq=4, payload=b"def")]
MAGICS = {"us": (0xA1B2C3D4, 1000), "ns": (0xA1B23C4D, 1)}


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("unit", MAGICS)
def test_byte_order_and_resolution_give_exact_times(order: str, unit: str) -> None:
    magic, tick_ns = MAGICS[unit]
    ticks = [(EPOCH_S * 10**9 + n) // tick_ns for n in (1, 123_456_789, 987_654_321)]
    packets = [Packet(data, tick) for data, tick in zip(THREE, ticks, strict=True)]
    capture = read(pcap_file(packets, magic=magic, order=order))
    assert capture.segments["time_ns"].tolist() == [tick * tick_ns for tick in ticks]
    assert capture.segments["payload_bytes"].tolist() == [1, 2, 3]
    assert capture.segments["seq"].tolist() == [1, 2, 4]
    facts = capture.files[0]
    assert facts.packets == 3
    assert (facts.first_ns, facts.last_ns) == (ticks[0] * tick_ns, ticks[2] * tick_ns)
    assert facts.variant == f"{'little' if order == '<' else 'big'}-endian, {'ns' if tick_ns == 1 else 'µs'}"


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(
    ("magic", "extra", "record_extra", "name"),
    [
        (0xA1B2CD34, b"", b"\x01\0\0\0\x08\x00\x04\0", "modified (Kuznetzov)"),
        (0xA1B2CD34, b"", b"\x01\0\0\0\x08\x00\x04\x01\x02\0\0\0", "modified (ss990915)"),
        (0xA1B2C3D4, b"", b"\x01\0\0\0\x08\x00\x04\0", "modified (ss990417)"),
        (0xA1B2C3D4, b"", b"\xff\xff\xff\xff", "Nokia"),
        (0x1C0001AB, b"\0\0\0\x99", b"", "IXIA lcap"),
        (0x1C0001AC, b"\0\0\0\x99", b"", "IXIA lcap"),
    ],
)
def test_modified_variants_are_told_apart_by_their_records(
    order: str, magic: int, extra: bytes, record_extra: bytes, name: str
) -> None:
    data = pcap_file(THREE * 4, magic=magic, extra=extra, record_extra=record_extra, order=order)
    capture = read(data)
    assert capture.segments["payload_bytes"].tolist() == [1, 2, 3] * 4
    assert capture.files[0].damaged is None
    assert name in (capture.files[0].variant or "")


@pytest.mark.parametrize(("version", "swapped"), [((2, 2), True), ((2, 3), True), ((2, 3), False), ((543, 0), True)])
def test_old_versions_have_their_lengths_the_wrong_way_round(version: tuple[int, int], swapped: bool) -> None:
    packets = [Packet(frame(payload=b"x" * 100)[:80], original=154), Packet(frame(payload=b"y"))]
    capture = read(pcap_file(packets, version=version, swapped=swapped))
    assert capture.segments["payload_bytes"].tolist() == [100, 1]
    assert capture.files[0].packets == 2


def test_a_link_type_with_frame_check_bits_is_read() -> None:
    capture = read(pcap_file(THREE, link_type=1 | 0x2400_0000))
    assert capture.files[0].link_types == {1: 3}


def test_an_empty_file_is_a_capture_without_packets() -> None:
    capture = read(pcap_file([]))
    assert len(capture.segments) == 0
    assert capture.files[0].packets == 0
    assert capture.files[0].damaged is None
    assert capture.files[0].first_ns is None


@pytest.mark.parametrize("length", [0, 3, 23])
def test_less_than_a_file_header_is_an_error_with_its_place(length: int) -> None:
    with pytest.raises(FormatError) as caught:
        read(pcap_file([])[:length])
    assert caught.value.path == "test"
    assert caught.value.offset is not None


@given(st.integers(24, len(pcap_file(THREE)) - 1))
def test_a_cut_file_gives_its_whole_records_and_says_where_it_is_cut(length: int) -> None:
    data = pcap_file(THREE)
    ends = np.cumsum([24] + [16 + len(p) for p in THREE])
    complete = int(np.count_nonzero(ends[1:] <= length))
    facts = read(data[:length]).files[0]
    assert facts.packets == complete
    assert (facts.damaged is None) == (length in ends)
    if facts.damaged:
        assert f"byte {ends[complete]}" in facts.damaged


@pytest.mark.parametrize("lie", [262_145, 4_325_376, 0xFFFF_FFFF])
def test_a_record_longer_than_any_packet_ends_the_reading_there(lie: int) -> None:
    good = pcap_file(THREE)
    bad = struct.pack("<IIII", EPOCH_S, 0, lie, lie) + b"x" * 300_000
    facts = read(good + bad + b"y" * 5_000_000).files[0]
    assert facts.packets == 3
    assert f"byte {len(good)} has an invalid length of {lie} bytes" in (facts.damaged or "")


def test_usb_records_larger_than_the_window_are_counted_and_stepped_over() -> None:
    giant = Packet(bytes(5_000_000), EPOCH_S * 10**6)
    capture = read(pcap_file([giant, giant, b"x"], link_type=189))
    facts = capture.files[0]
    assert facts.packets == 3
    assert facts.damaged is None
    assert facts.not_decoded == {"link type 189 not decoded": 3}


def test_times_that_go_back_are_counted() -> None:
    ticks = [EPOCH_S * 10**6 + t for t in (0, 100, 50, 60, 10, 200)]
    facts = read(pcap_file([Packet(frame(), t) for t in ticks])).files[0]
    assert facts.time_steps_back == 2
    assert facts.largest_step_back_ns == 50_000
    assert facts.first_ns == ticks[0] * 1000
    assert facts.last_ns == ticks[5] * 1000


def test_sniff_knows_the_magic_numbers_in_both_byte_orders() -> None:
    for magic in (0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34, 0x1C0001AB, 0x1C0001AC):
        assert pcap.sniff(magic.to_bytes(4, "little")) == "yes"
        assert pcap.sniff(magic.to_bytes(4, "big")) == "yes"
    for head in (b"", b"\xa1", b"\xa1\xb2\xc3", b"\n\r\r\n", b"time,value\n"):
        assert pcap.sniff(head) == "no"
