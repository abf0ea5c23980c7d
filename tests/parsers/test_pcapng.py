"""The pcapng file: blocks of every kind, sections, interfaces, clocks, comments, damage."""

from __future__ import annotations

import io
import random
import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.capture import CaptureTables
from multitracer.errors import FormatError
from multitracer.tables import NOT_A_TIME
from parsers import pcapng
from parsers._pcapng import walk as blocks_of
from tests.examples import seeds
from tests.native.both import read_by_both
from tests.parsers.frames import (
    EPOCH_S,
    block,
    enhanced,
    frame,
    interface,
    ipv4,
    obsolete,
    option,
    padded,
    read,
    section,
    simple,
    tcp,
)

if TYPE_CHECKING:
    from parsers._capture.window import StreamWindow
    from parsers._pcapng.blocks import Sections
    from parsers._pcapng.walk import WalkedBlocks

ONE = frame(payload=b"hello")
START = section() + interface()
TICKS = EPOCH_S * 10**6


@pytest.mark.parametrize("order", "<>")
def test_all_three_packet_blocks_are_packets(order: str) -> None:
    data = section(order) + interface(order=order)
    data += enhanced(ONE, TICKS, order=order) + obsolete(ONE, TICKS + 1, order=order) + simple(ONE, order=order)
    capture = read(data)
    assert capture.segments["payload_bytes"].tolist() == [5, 5, 5]
    assert capture.segments["time_ns"].tolist() == [TICKS * 1000, (TICKS + 1) * 1000, NOT_A_TIME]
    assert capture.files[0].without_time == 1
    assert capture.files[0].first_ns == TICKS * 1000
    assert capture.files[0].damaged is None


def test_a_simple_packet_is_cut_at_the_snap_length_of_the_first_interface() -> None:
    data = section() + interface(snap_length=60) + simple(frame(payload=b"x" * 90)[:60], original=144)
    capture = read(data)
    assert capture.segments["payload_bytes"].tolist() == [90]


def test_sections_may_change_byte_order_and_have_their_own_interfaces() -> None:
    data = section("<") + interface(1) + interface(101) + enhanced(ONE) + enhanced(ONE[14:], number=1)
    data += section(">") + interface(101, order=">") + enhanced(ONE[14:], order=">")
    data += section("<") + interface(1) + enhanced(ONE)
    capture = read(data)
    assert len(capture.segments) == 4
    assert capture.files[0].link_types == {1: 2, 101: 2}
    assert [i.link_type for i in capture.files[0].interfaces] == [1, 101, 101]


def test_an_interface_described_again_in_a_later_section_is_the_same() -> None:
    capture = read((START + enhanced(ONE)) * 5)
    assert len(capture.files[0].interfaces) == 1
    assert capture.files[0].packets == 5


@pytest.mark.parametrize(
    ("code", "ticks", "expected_ns"),
    [
        (0, EPOCH_S, EPOCH_S * 10**9),
        (3, EPOCH_S * 10**3 + 1, EPOCH_S * 10**9 + 10**6),
        (6, TICKS + 1, TICKS * 1000 + 1000),
        (9, EPOCH_S * 10**9 + 123, EPOCH_S * 10**9 + 123),
        (10, EPOCH_S * 10**10 + 19, EPOCH_S * 10**9 + 1),
        (0x80, EPOCH_S, EPOCH_S * 10**9),
        (0x80 | 20, (EPOCH_S << 20) + 1, EPOCH_S * 10**9 + 10**9 // 2**20),
        (0x80 | 33, (EPOCH_S << 33) + (1 << 33) - 1, EPOCH_S * 10**9 + 10**9 - 1),
        (19, 10**19 + 5 * 10**18, 1_500_000_000),
    ],
)
def test_resolutions_are_exact(code: int, ticks: int, expected_ns: int) -> None:
    data = section() + interface(options=option(9, bytes([code]))) + enhanced(ONE, ticks)
    assert read(data).segments["time_ns"].tolist() == [expected_ns]


@pytest.mark.parametrize("offset_s", [-3600, 0, 1_600_000_000])
def test_offsets_are_added(offset_s: int) -> None:
    options = option(9, b"\x09") + option(14, struct.pack("<q", offset_s))
    data = section() + interface(options=options) + enhanced(ONE, 100_000_000 * 10**9 + 7)
    assert read(data).segments["time_ns"].tolist() == [(100_000_000 + offset_s) * 10**9 + 7]


@pytest.mark.parametrize("ticks", [(1 << 64) - 1, 1 << 63])
def test_a_time_beyond_the_year_2262_is_missing(ticks: int) -> None:
    capture = read(section() + interface(options=option(9, b"\0")) + enhanced(ONE, ticks))
    assert capture.segments["time_ns"].tolist() == [NOT_A_TIME]


def test_interfaces_keep_their_own_clocks() -> None:
    data = section() + interface(options=option(9, b"\x09")) + interface(options=option(9, b"\x03"))
    data += enhanced(ONE, 5 * 10**9 + 1) + enhanced(ONE, 7 * 10**3 + 1, number=1)
    assert read(data).segments["time_ns"].tolist() == [5 * 10**9 + 1, 7 * 10**9 + 10**6]


def test_what_a_file_says_of_itself_is_kept() -> None:
    words = option(2, b"a phone") + option(3, b"Linux 6.1") + option(4, b"dump \xff") + option(1, b"ride 7")
    of_interface = option(2, b"wlan0") + option(3, b"the radio") + option(11, b"\0tcp") + option(9, b"\x09")
    statistics = struct.pack("<III", 0, 0, 0) + option(4, struct.pack("<Q", 9))
    data = section(options=words) + interface(127, 256, of_interface)
    data += block(5, statistics + option(5, struct.pack("<Q", 3)) + option(7, struct.pack("<Q", 4)))
    facts = read(data).files[0]
    assert (facts.hardware, facts.operating_system, facts.application) == ("a phone", "Linux 6.1", "dump �")
    assert facts.comments == [(None, "ride 7")]
    (found,) = facts.interfaces
    assert (found.name, found.description, found.filter) == ("wlan0", "the radio", "tcp")
    assert (found.link_type, found.snap_length, found.dropped_packets) == (127, 256, 7)
    assert found.resolution_ns == 1.0


def test_drop_counters_are_the_last_of_each_section_and_add_up() -> None:
    def counted(drops: int) -> bytes:
        return block(5, struct.pack("<III", 0, 0, 0) + option(5, struct.pack("<Q", drops)))

    data = START + counted(1) + enhanced(ONE) + counted(5) + START + enhanced(ONE) + counted(2) + START
    (found,) = read(data).files[0].interfaces
    assert found.dropped_packets == 7


@pytest.mark.parametrize("order", "<>")
def test_comments_of_packets_carry_their_number(order: str) -> None:
    flags, comment, end = option(2, b"\1\0\0\0", order), option(1, b"lost here", order), option(0, b"")
    data = section(order) + interface(order=order) + enhanced(ONE, order=order)
    data += enhanced(ONE, options=flags + comment + option(1, b"and here", order) + end, order=order)
    data += enhanced(ONE, options=comment, order=order)
    facts = read(data).files[0]
    assert facts.comments == [(2, "lost here"), (2, "and here"), (3, "lost here")]


def test_comments_are_bounded() -> None:
    many = enhanced(ONE, options=option(1, b"x")) * 10_100
    facts = read(START + many).files[0]
    assert facts.packets == 10_100
    assert len(facts.comments) == 10_001
    assert "only the first" in facts.comments[-1][1]


def test_blocks_that_are_no_packets_are_stepped_over() -> None:
    others = [
        block(4, struct.pack("<HH", 1, 5) + b"\x0a\0\0\1h\0\0\0" + bytes(4)),  # names
        block(9, b"MESSAGE=no packet"),  # systemd journal
        block(10, struct.pack("<II", 0x544C534B, 8) + b"CLIENT_R"),  # TLS secrets
        block(0x0BAD, struct.pack("<I", 32473) + ONE),  # custom, may be copied
        block(0x40000BAD, struct.pack("<I", 32473) + ONE),  # custom, may not
        block(0x8000_0001, ONE),  # unknown
        block(7, b""),
    ]
    capture = read(START + b"".join(other + enhanced(ONE) for other in others))
    assert capture.files[0].packets == len(others)
    assert capture.files[0].damaged is None


def test_a_block_larger_than_the_window_is_stepped_over() -> None:
    capture = read(START + enhanced(ONE) + block(0x0BAD, bytes(9_000_000)) + enhanced(ONE) + enhanced(ONE))
    assert capture.files[0].packets == 3
    assert capture.files[0].damaged is None


@pytest.mark.parametrize("length", [0, 1, 8, 11, 12, 31, 0xFFFF_FFFC, 0xFFFF_FFFF, 5_000_000])
def test_an_enhanced_packet_block_with_an_impossible_length_ends_the_reading(length: int) -> None:
    good = START + enhanced(ONE)
    bad = struct.pack("<II", 6, length) + bytes(6_000_000)
    facts = read(good + bad).files[0]
    assert facts.packets == 1
    assert f"byte {len(good)}" in (facts.damaged or "")


def test_a_block_of_4_gib_that_is_not_there_is_damage() -> None:
    good = START + enhanced(ONE)
    facts = read(good + struct.pack("<II", 0x0BAD, 0xFFFF_FFFC) + bytes(100)).files[0]
    assert facts.packets == 1
    assert f"byte {len(good)}" in (facts.damaged or "")


def test_reading_goes_on_behind_a_packet_whose_closing_length_is_wrong() -> None:
    bad = bytearray(enhanced(ONE))
    bad[-4] ^= 4
    facts = read(START + enhanced(ONE) + bytes(bad) + enhanced(ONE)).files[0]
    assert facts.packets == 3
    end = len(START) + 2 * len(bad)
    assert facts.lost_ranges == [(end - 5, end)]
    assert "two length fields" in (facts.damaged or "")


def test_a_packet_longer_than_its_block_is_not_delivered() -> None:
    bad = bytearray(enhanced(ONE))
    bad[20:24] = struct.pack("<I", len(ONE) + 8)
    facts = read(START + enhanced(ONE) + bytes(bad)).files[0]
    assert facts.packets == 1
    assert "an invalid packet length" in (facts.damaged or "")


def test_a_packet_of_an_interface_described_later_is_not_delivered() -> None:
    before = START + enhanced(ONE)
    facts = read(before + enhanced(ONE, number=1) + interface() + enhanced(ONE, number=1)).files[0]
    assert facts.packets == 2
    assert "without a preceding description" in (facts.damaged or "")
    assert facts.lost_ranges[0][0] == len(before)


@pytest.mark.parametrize("order", "<>")
def test_a_flipped_bit_in_a_length_costs_no_more_than_its_place(order: str) -> None:
    for seed in seeds(120):
        rng = random.Random(seed)
        blocks = [
            enhanced(frame(seq=n, payload=rng.randbytes(rng.choice((0, 9, 1400)))), order=order) for n in range(60)
        ]
        head = section(order) + interface(order=order)
        number = rng.randrange(60)
        at = len(head) + sum(map(len, blocks[:number])) + rng.choice((4, 20)) + rng.randrange(4)
        data = bytearray(head + b"".join(blocks))
        data[at] ^= 1 << rng.randrange(8)
        found = read(bytes(data))
        assert found.files[0].packets >= 59, seed
        assert len(set(range(60)) - {number} - set(found.segments["seq"].tolist())) == 0
        assert found.files[0].damaged or found.files[0].packets == 60


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("options", [b"", b"a comment"])
def test_a_flipped_bit_in_the_type_of_a_packet_block_is_named(order: str, options: bytes) -> None:
    comment = option(1, options, order) + bytes(4) if options else b""
    for bit in range(32):
        unexpected = bytearray(enhanced(ONE, options=comment, order=order))
        unexpected[bit // 8] ^= 1 << bit % 8
        head = section(order) + interface(order=order) + enhanced(ONE, order=order)
        facts = read(head + bytes(unexpected) + enhanced(ONE, order=order)).files[0]
        obsolete = struct.unpack_from(order + "I", unexpected)[0] == 2  # is laid out alike, so its packet is read
        assert facts.packets == 2 + obsolete
        assert facts.lost_ranges == ([] if obsolete else [(len(head), len(head) + len(unexpected))])
        assert obsolete or f"byte {len(head)} of type" in (facts.damaged or "")


def test_many_blocks_that_are_laid_out_as_packets_are_counted_up_to_a_bound() -> None:
    unexpected = block(0x8000_0006, enhanced(ONE)[8:-4])
    facts = read(START + (unexpected + enhanced(ONE)) * 1100).files[0]
    assert facts.packets == 1100
    assert len(facts.lost_ranges) == 1000
    assert "at least 999 more such places" in (facts.damaged or "")


def test_windows_without_packets_do_not_look_at_each_interface_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    def largest(link_type: int) -> int:
        looked_at.append(link_type)
        return 65_535

    monkeypatch.setattr("parsers._pcapng.packets.largest_packet", largest)
    monkeypatch.setattr("parsers._pcapng.blocks._MOST_INTERFACES", 500)
    described = b"".join(interface(snap_length=n) for n in range(1, 601))
    facts = read(section() + described + enhanced(ONE, number=7) * 3).files[0]
    assert (facts.packets, len(facts.lost_ranges)) == (3, 1)
    assert len(looked_at) <= 500  # with 100 windows of one damaged block each


def test_a_file_ends_where_it_has_too_many_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parsers._pcapng.blocks._MOST_SECTIONS", 5000)
    data = START + enhanced(ONE) + section() * 6000 + interface() + enhanced(ONE)
    both = read_by_both(lambda: read(data))
    assert isinstance(both, CaptureTables)
    (facts,) = both.files
    assert facts.packets == 1
    where = len(START + enhanced(ONE)) + 4999 * len(section())
    assert facts.damaged == f"the block at byte {where} of type 168627466: more than 5000 sections; split the file"


def test_packets_that_no_interface_describes_are_one_place() -> None:
    described = section() + interface()
    undescribed = enhanced(ONE, number=3) * 2000
    data = described + enhanced(ONE) + undescribed + interface() + undescribed + described + enhanced(ONE) * 2
    both = read_by_both(lambda: read(data))
    assert isinstance(both, CaptureTables)
    (facts,) = both.files
    assert facts.packets == 3
    assert len(facts.lost_ranges) == 2


def test_damage_in_each_other_block_costs_no_walk_to_the_end_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[int] = []
    walk = blocks_of.walk

    def counted(window: StreamWindow, sections: Sections, *reach: int | None) -> WalkedBlocks:
        begin = window.begin
        found = walk(window, sections, *reach)
        walked.append(window.begin - begin)
        return found

    monkeypatch.setattr(pcapng, "walk", counted)
    data = START + (enhanced(ONE) + enhanced(ONE, number=3)) * 400 + enhanced(ONE) * 10_000
    (facts,) = read(data).files
    assert (facts.packets, len(facts.lost_ranges)) == (10_400, 400)
    assert sum(walked) < 60 * len(data)


@pytest.mark.parametrize("order", "<>")
def test_bytes_that_are_gone_cost_only_the_packets_that_had_them(order: str) -> None:
    for seed in seeds(200):
        rng = random.Random(seed)
        blocks = [
            enhanced(frame(seq=n, payload=rng.randbytes(rng.choice((0, 0, 0, 1400)))), order=order) for n in range(40)
        ]
        data = section(order) + interface(order=order) + b"".join(blocks)
        ends = np.cumsum([len(data) - len(b"".join(blocks)), *map(len, blocks)])
        begin = rng.randrange(int(ends[0]), len(data))
        end = min(begin + rng.choice((1, 4, 50, 500, 1300, 3000)), len(data))
        hurt = [n for n in range(40) if ends[n] < end and begin < ends[n + 1]]
        found = read(data[:begin] + data[end:])
        assert set(range(40)) - set(hurt) <= set(found.segments["seq"].tolist()), seed
        assert found.files[0].damaged or end == len(data), seed


def test_a_transferred_capture_is_not_read_in_place_of_its_transfer() -> None:
    carrier = bytearray(enhanced(frame(payload=START + enhanced(ONE) * 3)))
    carrier[-4] ^= 4  # its closing length
    facts = read(START + bytes(carrier) + enhanced(ONE) * 2).files[0]
    assert facts.packets == 3
    assert "two length fields" in (facts.damaged or "")


@pytest.mark.parametrize("order", "<>")
def test_a_section_behind_damage_says_nothing_of_what_is_before_it(order: str) -> None:
    bad = bytearray(enhanced(ONE))
    bad[-4] ^= 4
    later = section(order) + interface(101, order=order) + enhanced(ipv4(tcp()), order=order) * 2
    facts = read(START + bytes(bad) + enhanced(ONE) * 3 + later).files[0]
    assert facts.link_types == {1: 4, 101: 2}
    assert facts.lost_ranges == [(len(START) + len(bad) - 5, len(START) + len(bad))]


def test_an_interface_behind_a_damaged_packet_is_described() -> None:
    bad = bytearray(enhanced(ONE))
    bad[-4] ^= 4
    facts = read(START + bytes(bad) + interface(101) + enhanced(ipv4(tcp()), number=1)).files[0]
    assert facts.link_types == {1: 1, 101: 1}


def test_damage_longer_than_the_window_is_stepped_over() -> None:
    garbage = b"\xff" * 9_000_000
    data = START + enhanced(ONE) * 5
    facts = read(data + garbage + enhanced(ONE) * 7).files[0]
    assert facts.packets == 12
    assert facts.lost_ranges == [(len(data), len(data) + len(garbage))]


def test_behind_a_section_of_an_unknown_version_the_next_known_one_counts() -> None:
    unexpected = section(version=(3, 0)) + interface() + enhanced(ONE) * 3
    facts = read(START + enhanced(ONE) + unexpected + START + enhanced(ONE) * 2).files[0]
    assert facts.packets == 3
    assert "version 3.0" in (facts.damaged or "")


@given(st.integers(28, len(START + enhanced(ONE) * 3) - 1))
def test_a_cut_file_gives_its_whole_packets(length: int) -> None:
    data = START + enhanced(ONE) * 3
    ends = np.cumsum([28, len(interface()), *[len(enhanced(ONE))] * 3])
    facts = read(data[:length]).files[0]
    assert facts.packets == max(int(np.count_nonzero(ends <= length)) - 2, 0)
    assert (facts.damaged is None) == (length in ends)


@pytest.mark.parametrize("head", [b"", b"\n\r\r\n", section()[:27], b"\n\r\r\n" + bytes(40)])
def test_without_a_whole_section_header_there_is_nothing_to_read(head: bytes) -> None:
    with pytest.raises(FormatError):
        pcapng.parse(io.BytesIO(head), path="test")


def test_an_unknown_version_is_refused() -> None:
    facts = read(section(version=(9, 0)) + interface() + enhanced(ONE)).files[0]
    assert facts.packets == 0
    assert "version 9.0" in (facts.damaged or "")


@pytest.mark.parametrize("orders", ["<<", "<>", "><"])
def test_what_precedes_a_section_of_an_unknown_version_is_delivered(orders: str) -> None:
    first, second = orders[0], orders[1]
    good = section(first) + interface(order=first) + enhanced(ONE, order=first) * 7
    unexpected = section(second, version=(3, 0)) + interface(101, order=second) + enhanced(ONE, order=second) * 2
    facts = read(good + unexpected).files[0]
    assert facts.packets == 7
    assert facts.link_types == {1: 7}
    assert "version 3.0 of pcapng is not supported" in (facts.damaged or "")
    assert f"byte {len(good)} " in (facts.damaged or "")
    assert "interface" not in (facts.damaged or "")


@pytest.mark.parametrize("size", [1_500_000, 5_000_000])
def test_an_interface_with_a_huge_description_still_counts(size: int) -> None:
    huge = interface(101, options=b"".join(option(3, b"x" * 60_000) for _ in range(size // 60_000)))
    facts = read(section() + huge + interface(1) + enhanced(ONE, number=1)).files[0]
    assert facts.damaged is None
    assert facts.link_types == {1: 1}


def test_a_section_header_with_huge_options_begins_a_section() -> None:
    huge = section(options=b"".join(option(4, b"x" * 60_000) for _ in range(25)))
    facts = read(section() + interface(101) + huge + interface(1) + enhanced(ONE)).files[0]
    assert (facts.damaged, facts.link_types) == (None, {1: 1})


def test_sniff_leaves_room_for_other_logs_in_the_same_container() -> None:
    assert pcapng.sniff(section("<")) == "maybe"
    assert pcapng.sniff(b"\n\r\r") == "no"
    assert pcapng.sniff(b"") == "no"


def test_padding_of_a_block_is_not_part_of_the_packet() -> None:
    packet = ipv4(tcp(payload=b"abc"))
    assert len(padded(packet)) > len(packet)
    capture = read(section() + interface(101) + enhanced(packet))
    assert capture.segments["payload_bytes"].tolist() == [3]
