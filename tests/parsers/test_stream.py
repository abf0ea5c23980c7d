"""Inputs of every kind: compressed, cut, from pipes, in pieces, sets of files, and bombs."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

import parsers
from multitracer.errors import FormatError, InputError, UnknownFormatError
from parsers._expand import Members
from parsers._stream import InputStream, open_stream
from tests.parsers.frames import EPOCH_S, Packet, frame, pcap_file, read, same

if TYPE_CHECKING:
    from collections.abc import Callable

PACKETS = [frame(seq=i, payload=bytes(i % 50)) for i in range(500)]
DATA = pcap_file(PACKETS)
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": zstandard.compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
}


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


class Dribble(io.RawIOBase):
    """A stream that gives a few bytes at a time, in a pattern, and cannot seek."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data = memoryview(data)
        self._sizes = sizes
        self._reads = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        n = min(self._sizes[self._reads % len(self._sizes)], len(buffer), len(self._data))
        self._reads += 1
        buffer[:n] = self._data[:n]
        self._data = self._data[n:]
        return n


@pytest.mark.parametrize("name", COMPRESSORS)
def test_compressed_files_are_recognised_by_content(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / "capture.txt", COMPRESSORS[name](DATA))
    facts = parsers.read_capture([path]).files[0]
    assert (facts.compression, facts.packets, facts.bytes) == (name, 500, len(DATA))
    assert facts.expansion_ratio == pytest.approx(len(DATA) / path.stat().st_size)
    assert facts.damaged is None
    assert parsers.detect(path).name == "pcap"


@pytest.mark.parametrize("name", COMPRESSORS)
def test_members_one_after_the_other_are_one_file(name: str, tmp_path: Path) -> None:
    compress = COMPRESSORS[name]
    chunks = [compress(DATA[:100]), compress(b""), compress(DATA[100:20_000]), compress(DATA[20_000:])]
    data = b"".join(chunks) + (bytes(512) if name in ("gzip", "xz") else b"")
    facts = parsers.read_capture([write(tmp_path / "many", data)]).files[0]
    assert (facts.packets, facts.damaged) == (500, None)


@given(
    data=st.binary(max_size=300) | st.integers(1, 2**22).map(bytes) | st.just(DATA),
    threads=st.booleans(),
    checksum=st.booleans(),
    size=st.booleans(),
    skipped=st.none() | st.binary(max_size=9),
    level=st.integers(-3, 12),
    stored=st.integers(1, 100) | st.just(1 << 20),
)
def test_zstandard_is_unpacked_block_by_block(  # what a frame may be like
    *, data: bytes, threads: bool, checksum: bool, size: bool, skipped: bytes | None, level: int, stored: int
) -> None:
    packer = zstandard.ZstdCompressor(
        level=level, write_checksum=checksum, write_content_size=size, threads=2 if threads else 0
    )
    frames = 2 * packer.compress(data)
    if skipped is not None:
        frames = b"\x57\x2a\x4d\x18" + len(skipped).to_bytes(4, "little") + skipped + frames
    packed, out, view = io.BytesIO(frames), b"", memoryview(bytearray(1 << 24))

    class Source:
        def readinto(self, view: memoryview) -> int:
            return packed.readinto(view[:stored])

    members = Members(Source(), "zstd", path="packed")
    while count := members.readinto(view):
        assert count <= 128 * 1024, "of a small frame's piece the memory must not grow"
        out += view[:count]
    assert out == data + data


def test_skippable_frames_of_zstandard_are_stepped_over(tmp_path: Path) -> None:
    skippable = struct.pack("<II", 0x184D2A53, 5) + b"hello"
    data = skippable + zstandard.compress(DATA)
    assert parsers.read_capture([write(tmp_path / "x", data)]).files[0].packets == 500


@pytest.mark.parametrize("name", COMPRESSORS)
def test_a_cut_compressed_file_gives_what_is_there_and_says_so(name: str, tmp_path: Path) -> None:
    complete = b"".join(COMPRESSORS[name](DATA[i : i + 5000]) for i in range(0, len(DATA), 5000))
    facts = parsers.read_capture([write(tmp_path / "cut", complete[: len(complete) * 2 // 3])]).files[0]
    assert 100 < facts.packets < 500
    assert f"damaged {name} data" in (facts.damaged or "")


@pytest.mark.parametrize("name", COMPRESSORS)
def test_bytes_changed_in_a_compressed_file_raise_nothing_else(name: str, tmp_path: Path) -> None:
    data = COMPRESSORS[name](DATA)
    for position in range(12, len(data), max(len(data) // 40, 1)):
        damaged = bytearray(data)
        damaged[position] ^= 0x55
        with contextlib.suppress(FormatError, UnknownFormatError):
            assert parsers.read_capture([write(tmp_path / "x", bytes(damaged))]).files[0].packets <= 500


def test_what_follows_the_last_member_and_is_no_member_is_damage(tmp_path: Path) -> None:
    facts = parsers.read_capture([write(tmp_path / "x", gzip.compress(DATA) + b"rubbish")]).files[0]
    assert facts.packets == 500
    assert "damaged gzip data" in (facts.damaged or "")


def test_an_enormous_dictionary_is_refused(tmp_path: Path) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 512 << 20}]
    path = write(tmp_path / "x.xz", lzma.compress(DATA, lzma.FORMAT_XZ, filters=filters))
    with pytest.raises((FormatError, UnknownFormatError)):
        parsers.read_capture([path])


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=5))
def test_the_pieces_in_which_a_stream_comes_change_nothing(sizes: list[int]) -> None:
    stream = InputStream(Dribble(DATA, sizes), path="test")
    stream.peek_head()
    assert same(parsers.pcap.parse(io.BufferedReader(stream), path="test"), read(DATA))


@pytest.mark.parametrize("name", COMPRESSORS)
def test_one_byte_per_read_is_enough(name: str) -> None:
    stream = InputStream(Dribble(COMPRESSORS[name](DATA), [1]), path="test")
    assert io.BufferedReader(stream).read() == DATA


def test_a_named_pipe_and_standard_input_are_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(gzip.compress(DATA),))
    writer.start()
    assert parsers.read_capture([pipe]).files[0].packets == 500
    writer.join()
    program = "import parsers; print(parsers.read_capture(['-']).files[0].packets)"
    done = subprocess.run([sys.executable, "-c", program], input=DATA, capture_output=True, check=True)
    assert done.stdout.split() == [b"500"]


def test_files_that_cannot_be_opened_are_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(InputError, match=path.name):
            parsers.read_capture([path])


@pytest.mark.parametrize(
    "data",
    [b"hello, this is text\n", b"\x7fELF" + bytes(99), gzip.compress(b"text", mtime=0)],
    ids=["text", "program", "text in gzip"],
)
def test_foreign_files_are_refused_with_the_formats_that_are_known(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(UnknownFormatError, match="pcapng"):
        parsers.read_capture([write(tmp_path / "x", data)])


def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormatError, match=r"x: the file is empty$"):
        parsers.read_capture([write(tmp_path / "x", b"")])


def test_progress_counts_stored_bytes_over_all_files(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, gzip.compress(DATA)) for name in ("a", "b")]
    seen: list[int] = []
    parsers.read_capture(paths, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == sum(path.stat().st_size for path in paths)


def test_the_share_of_some_bytes_does_not_depend_on_how_far_reading_is(tmp_path: Path) -> None:
    with open_stream(write(tmp_path / "x", DATA)) as stream:
        for count in (len(DATA) // 3, len(DATA)):
            while stream.bytes_read < count and stream.readinto(bytearray(count - stream.bytes_read)):
                pass
            assert stream.share_of(len(DATA) // 4) == pytest.approx(0.25, abs=0.01)


def test_share_of_a_pipe_is_unknown(tmp_path: Path) -> None:
    with open_stream(write(tmp_path / "x", DATA)) as stream:
        assert stream.share_of(1) is not None
    assert InputStream(Dribble(DATA, [10]), path="x").share_of(1) is None


@pytest.mark.parametrize("most", [1, 7, 500, 501, 1500, 9999])
def test_max_packets_counts_over_the_whole_set(most: int, tmp_path: Path) -> None:
    paths = [write(tmp_path / str(i), DATA) for i in range(3)]
    capture = parsers.read_capture(paths, max_packets=most)
    assert len(capture.segments) == min(most, 1500)
    assert sum(f.packets for f in capture.files) == min(most, 1500)


def test_a_ring_buffer_is_one_trace_in_the_order_of_its_first_packets(tmp_path: Path) -> None:
    paths = []
    for number in (2, 0, 1):
        packets = [Packet(p, (EPOCH_S + number) * 10**6 + i) for i, p in enumerate(PACKETS[:20])]
        paths.append(write(tmp_path / f"trace.pcap{number or ''}", pcap_file(packets)))
    capture = parsers.read_capture(paths)
    assert [Path(f.path).name for f in capture.files] == ["trace.pcap", "trace.pcap1", "trace.pcap2"]
    times = capture.segments["time_ns"]
    assert (times[1:] >= times[:-1]).all()
    assert capture.segments["file"].tolist() == [0] * 20 + [1] * 20 + [2] * 20
    assert capture.segments["frame"].tolist() == list(range(1, 21)) * 3
    assert len(capture.flows) == 1


def test_an_empty_file_of_a_set_keeps_its_place(tmp_path: Path) -> None:
    late = write(tmp_path / "late", pcap_file([Packet(PACKETS[0], (EPOCH_S + 9) * 10**6)]))
    empty = write(tmp_path / "empty", pcap_file([]))
    early = write(tmp_path / "early", pcap_file([Packet(PACKETS[0], EPOCH_S * 10**6)]))
    capture = parsers.read_capture([late, empty, early])
    assert [Path(f.path).name for f in capture.files] == ["early", "empty", "late"]


BOMB_PACKETS = 1_000_000
BOMB = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
BOMB += struct.pack("<IIII", EPOCH_S, 0, 0, 0) * BOMB_PACKETS
MEASURE = """
import re, sys, parsers
capture = parsers.read_capture([sys.argv[1]], max_packets=int(sys.argv[2]) or None)
facts = capture.files[0]
peak_kib = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
print(facts.packets, len(facts.warnings), int(peak_kib) * 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPRESSORS)
def test_a_compression_bomb_warns_and_stays_in_bounds(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / "bomb", COMPRESSORS[name](BOMB))
    for most in (0, 1000):
        arguments = [sys.executable, "-c", MEASURE, str(path), str(most)]
        done = subprocess.run(arguments, capture_output=True, check=True, timeout=60)
        packets, warnings, peak_bytes = map(int, done.stdout.split())
        assert packets == (most or BOMB_PACKETS)
        assert peak_bytes < 300 * packets + 100e6
        assert most or warnings == 1


@pytest.mark.parametrize("length", [4, 10, 12])
def test_compressed_data_cut_before_the_first_byte_are_damaged_not_empty(length: int, tmp_path: Path) -> None:
    path = write(tmp_path / "x.gz", gzip.compress(DATA, mtime=0)[:length])
    with pytest.raises(FormatError, match=f"x.gz at byte {length}: damaged gzip data"):
        parsers.read_capture([path])
