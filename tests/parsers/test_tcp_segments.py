"""TCP headers and options, in the common layouts and in all others."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP

from multitracer.captured import CaptureMark, Flag
from tests.parsers.frames import Packet, ethernet, frame, ipv4, pcap_file, read, tcp

if TYPE_CHECKING:
    from multitracer.capture import CaptureTables

NOP = b"\x01"


def timestamps(tsval: int, tsecr: int) -> bytes:
    return struct.pack(">BBII", 8, 10, tsval, tsecr)


def sack(*edges: int) -> bytes:
    return struct.pack(f">BB{len(edges)}I", 5, 2 + 4 * len(edges), *edges)


def of_options(*options: bytes, flags: int = 0x10) -> CaptureTables:
    return read(pcap_file([frame(options=o, flags=flags, payload=b"z") for o in options]))


def blocks_of(capture: CaptureTables) -> list[tuple[int, int, int]]:
    table = capture.sack_blocks
    return list(zip(*(table[n].tolist() for n in ("row", "left", "right")), strict=True))


LAYOUTS = [
    NOP + NOP + timestamps(11, 22),
    timestamps(11, 22) + NOP + NOP,
    NOP + timestamps(11, 22) + NOP,
    timestamps(11, 22),
    NOP + NOP + timestamps(11, 22) + NOP + NOP + sack(100, 200),
    NOP + NOP + timestamps(11, 22) + NOP + NOP + sack(100, 200, 300, 400),
    NOP + NOP + timestamps(11, 22) + NOP + NOP + sack(100, 200, 300, 400, 500, 600),
    sack(100, 200) + timestamps(11, 22),
    NOP + NOP + sack(100, 200) + NOP + NOP + timestamps(11, 22),
    NOP + NOP + timestamps(11, 22) + b"\x1e\x08" + bytes(6) + sack(100, 200),
]


@pytest.mark.parametrize("options", LAYOUTS)
def test_timestamps_and_sack_are_read_in_every_layout(options: bytes) -> None:
    capture = of_options(options)
    assert capture.segments["tsval"].tolist() == [11]
    assert capture.segments["tsecr"].tolist() == [22]
    assert capture.segments["marks"][0] & CaptureMark.HAS_TIMESTAMPS
    count = (options.find(b"\x05") >= 0) * (options[options.find(b"\x05") + 1] - 2) // 8
    assert capture.segments["sack_blocks"].tolist() == [count]
    assert blocks_of(capture) == [(0, 200 * i + 100, 200 * i + 200) for i in range(count)]
    assert capture.segments["payload_bytes"].tolist() == [1]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_sack_without_timestamps(count: int) -> None:
    edges = list(range(10, 10 + 2 * count))
    capture = of_options(NOP + NOP + sack(*edges))
    assert blocks_of(capture) == [(0, edges[2 * i], edges[2 * i + 1]) for i in range(count)]


def test_a_duplicate_sack_block_stays_the_first_of_its_row() -> None:
    options = NOP + NOP + timestamps(1, 1) + NOP + NOP + sack(5, 9, 1000, 2000)
    capture = of_options(b"", options, options)
    assert blocks_of(capture) == [(1, 5, 9), (1, 1000, 2000), (2, 5, 9), (2, 1000, 2000)]


def test_syn_options_of_scapy() -> None:
    options = [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (5, 0)), ("NOP", None), ("WScale", 7)]
    syn = bytes(IP() / TCP(flags="S", seq=9, options=options))
    capture = read(pcap_file([syn], link_type=101))
    (row,) = capture.syn_options.rows()
    assert row == {
        "row": 0, "mss_bytes": 1460, "window_scale": 7, "sack_permitted": True, "mptcp": False,
        "fast_open": False,
    }  # fmt: skip
    assert capture.segments["tsval"].tolist() == [5]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (b"", {}),
        (b"\x02\x04\x05\xb4", {"mss_bytes": 1460}),
        (b"\x03\x03\x0e", {"window_scale": 14}),
        (b"\x03\x03\xff", {"window_scale": 255}),
        (b"\x1e\x0c\x01\x81" + bytes(8), {"mptcp": True}),
        (b"\x22\x02", {"fast_open": True}),
        (b"\x22\x0a12345678", {"fast_open": True}),
        (b"\xfe\x04\xf9\x89", {"fast_open": True}),
        (b"\xfe\x04\xe2\xd4", {}),
        (b"\x02\x03\x05\x03\x03\x02", {"window_scale": 2}),
        (b"\x02\x04\x05\xb4\x00\x03\x03\x02", {"mss_bytes": 1460}),
        (b"\x02\x00\x05\xb4", {}),
        (b"\x02\xff\x05\xb4", {}),
        (b"\x01\x01\x01\x02", {}),
    ],
)
def test_each_syn_option(options: bytes, expected: dict[str, object]) -> None:
    capture = of_options(options, flags=0x02)
    (row,) = capture.syn_options.rows()
    plain = {"row": 0, "mss_bytes": None, "window_scale": None}
    plain |= {"sack_permitted": False, "mptcp": False, "fast_open": False}
    assert row == plain | expected


def test_every_syn_has_a_row_and_nothing_else_has() -> None:
    packets = [frame(flags=f) for f in (0x02, 0x12, 0x10, 0x04, 0x02)]
    assert read(pcap_file(packets)).syn_options["row"].tolist() == [0, 1, 4]


def test_mptcp_is_marked_on_any_segment() -> None:
    capture = of_options(b"\x1e\x08" + bytes(6), NOP + NOP + timestamps(1, 2))
    assert [bool(m & CaptureMark.MPTCP) for m in capture.segments["marks"].tolist()] == [True, False]


def test_flags_window_and_urgent_pointer() -> None:
    segment = bytearray(tcp(flags=0x1FF, window=65_535))
    segment[18:20] = b"\0\x05"
    capture = read(pcap_file([ethernet(ipv4(bytes(segment)))]))
    assert capture.segments["flags"].tolist() == [0x1FF]
    assert Flag(0x1FF) == sum(Flag)
    assert capture.segments["window"].tolist() == [65_535]
    assert capture.segments["marks"][0] & CaptureMark.URGENT


def test_options_cut_by_the_snap_length_are_marked() -> None:
    complete = ethernet(ipv4(tcp(options=b"\x02\x04\x05\xb4\x04\x02" + timestamps(1, 2), flags=0x02)))
    capture = read(
        pcap_file([Packet(complete[:60], original=len(complete)), Packet(complete[:50], original=len(complete))])
    )
    marks = capture.segments["marks"].tolist()
    assert all(mark & CaptureMark.HEADER_CUT for mark in marks)
    assert not any(mark & CaptureMark.HAS_TIMESTAMPS for mark in marks)
    assert capture.syn_options["mss_bytes"].tolist() == [1460, -1]
    assert capture.segments["payload_bytes"].tolist() == [0, 0]


def test_a_header_longer_than_the_packet_has_no_payload() -> None:
    segment = bytearray(tcp(payload=b"12345678"))
    segment[12] = 0xF0
    capture = read(pcap_file([ethernet(ipv4(bytes(segment)))]))
    assert capture.segments["payload_bytes"].tolist() == [0]
    assert capture.segments["marks"][0] & CaptureMark.BAD_LENGTH


def known(options: bytes) -> dict[str, object]:
    """Read options one by one, as RFC 9293, section 3.2 has it."""
    found: dict[str, object] = {}
    i = 0
    while i < len(options) and options[i] != 0:
        if options[i] == 1:
            i += 1
            continue
        if i + 2 > len(options) or options[i + 1] < 2 or i + options[i + 1] > len(options):
            break
        kind, value = options[i], options[i + 2 : i + options[i + 1]]
        if kind == 8 and len(value) == 8:
            found["timestamps"] = struct.unpack(">II", value)
        elif kind == 5 and len(value) >= 8 and len(value) % 8 == 0:
            found["sack"] = struct.unpack(f">{len(value) // 4}I", value)
        elif kind == 2 and len(value) == 2:
            found["mss"] = struct.unpack(">H", value)[0]
        i += options[i + 1]
    return found


ANY_OPTION = st.one_of(
    st.just(NOP),
    st.builds(timestamps, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)),
    st.integers(1, 4).flatmap(
        lambda n: st.lists(st.integers(0, 2**32 - 1), min_size=2 * n, max_size=2 * n).map(lambda e: sack(*e))
    ),
    st.builds(lambda n: b"\x02\x04" + struct.pack(">H", n), st.integers(0, 65_535)),
    st.binary(min_size=1, max_size=6),
)


@given(st.lists(ANY_OPTION, max_size=6), st.sampled_from([0x02, 0x10]))
def test_any_list_of_options_is_read_as_one_by_one(options: list[bytes], flags: int) -> None:
    data = b"".join(options)[:40]
    data += bytes(-len(data) % 4)
    capture = read(pcap_file([frame(options=data, flags=flags, payload=b"q")]))
    expected = known(data)
    assert bool(capture.segments["marks"][0] & CaptureMark.HAS_TIMESTAMPS) == ("timestamps" in expected)
    if "timestamps" in expected:
        assert (capture.segments["tsval"][0], capture.segments["tsecr"][0]) == expected["timestamps"]
    edges = [edge for _, left, right in blocks_of(capture) for edge in (left, right)]
    assert tuple(edges) == expected.get("sack", ())
    if flags == 0x02:
        assert capture.syn_options["mss_bytes"].tolist() == [expected.get("mss", -1)]
