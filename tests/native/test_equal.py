"""The native kernel and Python read the same from the same bytes: tables, facts, counts and refusals."""

from __future__ import annotations

import io
import random
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer import native
from multitracer.capture import CaptureTables
from multitracer.captured import SourceFile
from parsers import pcap
from parsers._capture.window import StreamWindow
from parsers._chunks import read_capture
from parsers._packets import decode
from tests.examples import examples
from tests.fuzz.captures import any_block, broken, link_frame, parser_of
from tests.native.both import assert_equal, python_only, read_by_both
from tests.parsers.frames import (
    EPOCH_S,
    Packet,
    enhanced,
    ethernet,
    frame,
    interface,
    ipv4,
    ipv6,
    option,
    pcap_file,
    section,
    tcp,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(native.kernel() is None, reason=f"captures are read by {native.state()}")


def read(data: bytes) -> CaptureTables | str:
    return read_by_both(lambda: parser_of(data)(io.BytesIO(data), path="both"))


def plain(data: bytes) -> CaptureTables:
    capture = read(data)
    assert isinstance(capture, CaptureTables)
    return capture


@given(st.integers(0, 2**32), st.integers(1, 400), st.sampled_from([1, 12, 50, 101, 113, 276, 0, 9, 51, 127]))
def test_frames_of_any_link(seed: int, count: int, link_type: int) -> None:
    rng = random.Random(seed)
    packets = [Packet(link_frame(rng, link_type), None, None) for _ in range(count)]
    plain(pcap_file(packets, link_type=link_type, order=rng.choice("<>")))


@given(st.binary(min_size=0, max_size=40), st.integers(0, 60), st.sampled_from([0x10, 0x02, 0x12, 0x18]))
def test_tcp_options_whole_and_cut(options: bytes, cut: int, flags: int) -> None:
    data = ethernet(ipv4(tcp(flags=flags, options=options, payload=b"abc")))
    plain(pcap_file([Packet(data[: len(data) - cut], None, len(data))] * 3))


def many(count: int, seed: int) -> list[bytes]:
    """Return frames of many connections, now and then one that stays for Python."""
    rng = random.Random(seed)
    out = []
    for number in range(count):
        made = tcp(sport=rng.randrange(2000), dport=80, seq=number, flags=rng.choice((2, 16, 17, 18)))
        if rng.random() < 0.5:
            made = tcp(sport=80, dport=rng.randrange(2000), seq=number)
        kind = rng.random()
        if kind < 0.1:
            out.append(ethernet(ipv4(ipv4(made), protocol=4)))
        elif kind < 0.3:
            out.append(ethernet(ipv6(made), ethertype=0x86DD))
        elif kind < 0.4:
            out.append(ethernet(ipv4(made, fragment=rng.choice((0x2000, 2)))))
        else:
            out.append(ethernet(ipv4(made)))
    return out


def test_what_stays_for_python_takes_its_place_in_the_order() -> None:
    capture = plain(pcap_file(many(3_000, 1)))
    assert len(capture.flows) > 1_000
    assert capture.files[0].protocols["ip fragment"]
    assert (capture.segments["marks"] & 0x20).any(), "no tunnel"
    assert (np.diff(capture.segments["frame"].astype(np.int64)) > 0).all()


def test_many_records_are_decoded_by_several_threads() -> None:
    capture = plain(pcap_file(many(20_000, 2)))
    assert len(capture.segments) > 15_000


@examples(40)
@given(st.integers(0, 2**32), st.sampled_from("<>"), st.integers(0, 3))
def test_long_pcapng(seed: int, order: str, faults: int) -> None:
    rng = random.Random(seed)
    blocks = [section(order), interface(order=order), interface(101, 96, option(9, b"\x09", order), order)]
    for data in many(200, seed):
        comment = option(1, b"look", order) if rng.random() < 0.002 else b""
        number = rng.randrange(2) if rng.random() < 0.1 else 0
        blocks.append(enhanced(data[14 * number :], number=number, options=comment, order=order))
    for _ in range(faults):
        blocks.insert(rng.randrange(3, len(blocks)), any_block(rng, order))
    complete = b"".join(blocks)
    read(complete)
    read(broken(rng, complete))


def test_windows_of_a_file_join(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = StreamWindow.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "size", 3_000)
    frames = many(500, 3)
    assert len(plain(pcap_file(frames)).segments) > 350
    blocks = [section(), interface(), *(enhanced(data) for data in frames)]
    assert len(plain(b"".join(blocks)).segments) > 350


@pytest.mark.parametrize("record", [1, 18, 19])
@pytest.mark.parametrize("bit", [0, 6])
def test_a_flipped_bit_is_met_at_the_same_byte(record: int, bit: int) -> None:
    frames = [frame(seq=n, payload=bytes(n)) for n in range(20)]
    begin = len(pcap_file(frames[:record]))
    for at in range(begin, begin + 40):  # the record's header, and Ethernet's
        data = bytearray(pcap_file(frames))
        data[at] ^= 1 << bit
        read(bytes(data))


@pytest.mark.parametrize("length", range(0, 400, 7))
def test_a_file_that_is_cut_off_ends_in_the_same_words(length: int) -> None:
    read(pcap_file([frame(payload=b"x" * 30)] * 5)[:length])


@pytest.mark.parametrize(("magic", "per_second"), [(0xA1B2C3D4, 10**6), (0xA1B23C4D, 10**9)])
def test_stamps_are_equal_to_the_tick(magic: int, per_second: int) -> None:
    stamps = [EPOCH_S * per_second + n for n in (0, 1, per_second - 1, per_second, 100 * per_second - 1)]
    packets = [Packet(frame(seq=n), stamp) for n, stamp in enumerate(stamps)]
    times = plain(pcap_file(packets, magic=magic)).segments["time_ns"]
    assert times.tolist() == [stamp * (10**9 // per_second) for stamp in stamps]


def test_max_packets_ends_at_the_same_packet(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap_file(many(900, 4)))
    for count in (1, 10, 899):
        assert not isinstance(read_by_both(partial(read_capture, [path], max_packets=count)), str)


def test_the_kernel_reads_what_it_says_it_reads() -> None:
    data = pcap_file([frame(seq=n) for n in range(50)])
    records = next(iter(pcap.blocks(io.BytesIO(data), SourceFile("", "pcap"))))
    answer = decode.decoded(records)
    assert answer is not None
    assert (len(answer.rest), answer.segments) == (0, {4: 50, 6: 0})
    with python_only():
        assert decode.decoded(records) is None


def test_a_difference_is_seen() -> None:
    one, two = (pcap.parse(io.BytesIO(pcap_file([frame(seq=1)])), path="x") for _ in range(2))
    assert_equal(one, two)
    two.segments["window"][0] += 1
    with pytest.raises(AssertionError, match="segments"):
        assert_equal(one, two)
