"""What the kernel says of a capture file by itself is what the analysis of its segments says."""

from __future__ import annotations

import gzip
import os
import random
import re
import struct
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
import zstandard

from multitracer import native
from multitracer.analysis import analyse
from multitracer.capture import CaptureTables
from multitracer.protocols.pcap_file import interface_block, packet_block, section_header, statistics_block
from multitracer.recording.inputs import UNREADABLE
from multitracer.recording.read import Need, read
from parsers import _complete
from parsers._capture.window import StreamWindow
from parsers._chunks import complete_capture, read_capture
from parsers._complete import complete_file
from parsers._packets.decode import RestDecoder
from parsers._stream import open_stream
from tests.analysis.traffic import ACK
from tests.conftest import SAMPLES
from tests.examples import seeds
from tests.native.both import assert_equal, assert_same, is_counted, python_only, read_by_both
from tests.native.traffic import any_datagram, frame, some_connections
from tests.parsers.frames import Packet, block, ethernet, ipv4, pcap_file, tcp

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.recording.recording import Recording

pytestmark = pytest.mark.skipif(native.kernel() is None, reason=f"captures are read by {native.state()}")

CAPTURES = sorted(path for path in SAMPLES.rglob("tcp-0.pcap*") if "damaged" not in path.parts)


def plain(path: Path, folder: Path) -> Path:
    """Return an unpacked copy of a capture."""
    copy = folder / "plain.pcap"
    with open_stream(path) as stream:
        copy.write_bytes(b"".join(iter(partial(stream.read, 1 << 20), b"")))
    return copy


def packed(data: bytes, how: str) -> bytes:
    """Return bytes as a file of this kind: compressed, or as they are."""
    if how == "gz":
        return gzip.compress(data, 1)
    if how == "zst":
        return zstandard.compress(data[: len(data) // 2]) + zstandard.compress(data[len(data) // 2 :])
    return data


def as_pcapng(data: bytes, rng: random.Random) -> bytes:
    """Return a pcap file with nanoseconds or microseconds as pcapng, with some blocks that are no packets."""
    order, tick_ns = ("<", 1000) if data[:4] == b"\xd4\xc3\xb2\xa1" else ("<", 1)
    (link_type,) = struct.unpack_from("<I", data, 20)
    blocks = [section_header(application="tests"), interface_block(link_type=link_type, name="any")]
    at = 24
    while at + 16 <= len(data):
        seconds, rest, captured, original = struct.unpack_from(order + "4I", data, at)
        time_ns = seconds * 1_000_000_000 + rest * tick_ns
        packet = data[at + 16 : at + 16 + captured]
        blocks.append(packet_block(packet, time_ns=time_ns, original_bytes=original))
        at += 16 + captured
        if rng.random() < 0.02:
            drops = rng.randrange(9)
            blocks.append(statistics_block(time_ns=time_ns, received=len(blocks), dropped=drops))
        if rng.random() < 0.02:
            blocks.append(block(0x0BAD, rng.randbytes(4 * rng.randrange(20))))
    return b"".join(blocks)


def told(path: Path) -> Recording:
    """Return what is told of a file with the kernel, after comparing it with what Python alone tells."""
    fast = read(path, need=Need.NUMBERS)
    with python_only():
        complete = read(path)
        complete.captures[0].analysis.trust  # noqa: B018  # by Python
    assert_same(fast.captures[0].analysis, complete.captures[0].analysis)
    assert repr(fast.captures[0].tables.files) == repr(complete.captures[0].tables.files)
    assert fast.warnings == complete.warnings
    return fast


@pytest.fixture(params=[4_000, 60_000, None], ids=lambda size: f"blocks of {size or 'the usual size'}")
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int | None:
    """Read so many bytes at a time, and let other threads read on; return how many if it is not as usual."""
    defaults = StreamWindow.__init__.__kwdefaults__
    assert defaults
    if request.param:
        monkeypatch.setitem(defaults, "size", request.param)
        monkeypatch.setattr("parsers._complete._BLOCK_BYTES", request.param)
        monkeypatch.setattr("parsers._complete._BLOCKS", 5)
    size: int | None = request.param
    return size


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: "-".join(path.parts[-3:-1]))
def test_recordings(path: Path, tmp_path: Path) -> None:
    told(plain(path, tmp_path))


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: "-".join(path.parts[-3:-1]))
def test_tables_of_recordings(path: Path, tmp_path: Path) -> None:
    kernel, copy = native.kernel(), plain(path, tmp_path)
    assert kernel is not None
    how = ("", "gz", "zst", "pcapng")[CAPTURES.index(path) % 4]
    if how:
        data, copy = copy.read_bytes(), tmp_path / "other"
        copy.write_bytes(as_pcapng(data, random.Random(1)) if how == "pcapng" else packed(data, how))
    fast = read(copy, need=Need.NUMBERS)
    complete = read_by_both(lambda: read_capture([copy]))
    assert is_counted(fast)
    assert isinstance(complete, CaptureTables)
    assert complete_capture(kernel, str(copy), None) is not None
    assert repr(fast.captures[0].tables.files) == repr(complete.files)
    assert_same(fast.captures[0].analysis, analyse(complete))


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("seed", seeds(40))
def test_any_connections(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    path = tmp_path / "some.pcap"
    data = pcap_file(some_connections(rng, others=rng.choice((0.0, 0.1))))
    data = as_pcapng(data, rng) if rng.random() < 0.5 else data
    path.write_bytes(packed(data, rng.choice(("", "", "gz", "zst"))))
    read_by_both(lambda: read_capture([path]))
    assert is_counted(told(path))


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("seed", seeds(20))
def test_any_datagrams(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    path, frames = tmp_path / "some.pcap", some_connections(rng)
    for _ in range(100):
        frames.insert(rng.randrange(len(frames)), any_datagram(rng))
    path.write_bytes(pcap_file(frames))
    complete = read_by_both(lambda: read_capture([path]))
    assert isinstance(complete, CaptureTables)
    assert complete.files[0].protocols["udp"] > 1
    told(path)


def test_packets_that_are_no_segments_need_no_second_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "some.pcap"
    path.write_bytes(pcap_file(some_connections(random.Random(4), others=0.2)))
    monkeypatch.setattr("multitracer.recording.read._kept", None)
    fast = read(path, need=Need.NUMBERS)
    assert {"udp", "arp"} <= fast.captures[0].tables.files[0].protocols.keys()


@pytest.mark.parametrize("left", [1, 15, 16, 30, 68])
@pytest.mark.parametrize("original", [54, 60])
def test_a_last_record_that_is_cut_off_is_read_once(original: int, left: int, tmp_path: Path) -> None:
    path, kernel, frames = tmp_path / "cut.pcap", native.kernel(), some_connections(random.Random(3))
    last = frame(tcp(sport=1, dport=2, seq=1, flags=ACK), 4, 0, 1)
    complete = pcap_file([*frames, Packet(last, None, original)])
    begin = len(complete) - 16 - len(last)
    path.write_bytes(complete[: begin + left])
    assert kernel is not None
    alone = complete_file(kernel, str(path), limits=None, look=lambda _: None)
    if left < 16 or original == len(last):
        assert alone is not None
        words = f"the record at byte {begin} is truncated: only {left} byte"
        assert str(alone.source.damaged).startswith(words)
    else:
        assert alone is None  # its length may be wrong: Python looks at what is before it, too
    read_by_both(lambda: read_capture([path]))
    told(path)


def test_a_header_that_is_cut_off_is_left_to_python(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    header = bytes.fromhex("ab01001c02000400" + "00" * 8 + "ff000000010000001234")  # IXIA's has 28 bytes
    for size in range(20, 27):
        path.write_bytes(header[:size])
        read_by_both(lambda: read_capture([path]))


def test_datagrams_of_udp_do_not_come_to_python(tmp_path: Path) -> None:
    path, kernel = tmp_path / "quic.pcap", native.kernel()
    udp = ethernet(ipv4(struct.pack(">4H", 5000, 443, 1208, 0) + bytes(1200), protocol=17))
    path.write_bytes(pcap_file([frame(tcp(sport=1, dport=2, seq=1, flags=ACK), 4, 0, 1), *[udp] * 60]))
    assert kernel is not None
    with patch.object(RestDecoder, "count", None):
        complete = complete_file(kernel, str(path), limits=None, look=lambda _: None)
    assert complete is not None
    assert complete.source.protocols == {"tcp": 1, "udp": 60}


@pytest.mark.parametrize(("others", "is_read"), [(30, True), (60, False)], ids=["some", "most"])
def test_packets_that_wait_for_python_are_few(others: int, is_read: bool, tmp_path: Path) -> None:
    path, kernel, rng, large = tmp_path / "others.pcap", native.kernel(), random.Random(1), bytes(60_000)
    unknown, seqs = ethernet(large, ethertype=0x0806), range(1, 9 * (100 - others) * len(large), len(large))
    frames = [ethernet(ipv4(tcp(sport=1, dport=2, seq=seq, flags=ACK, payload=large))) for seq in seqs]
    frames += [unknown] * 9 * others
    rng.shuffle(frames)
    path.write_bytes(pcap_file(frames))
    assert kernel is not None
    looks: list[int] = []
    complete = complete_file(kernel, str(path), limits=None, look=lambda one: looks.append(one.stored_bytes))
    assert (complete is not None) == is_read
    assert len(looks) >= 3 * is_read  # in 54 MB, of which 16 wait; the usual ones are at 16 and 144
    read_by_both(lambda: read_capture([path]))


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_what_a_look_raises_is_raised(
    error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parsers._complete._BLOCK_BYTES", 4_000)
    path, kernel = tmp_path / "some.pcap", native.kernel()
    path.write_bytes(pcap_file([packet for seed in range(9) for packet in some_connections(random.Random(seed))]))
    assert kernel is not None

    def look(read_bytes: int) -> None:
        assert read_bytes % 4_000 == 0
        raise error("it is enough")

    with pytest.raises(error, match="it is enough"):
        read(path, need=Need.NUMBERS, progress=look)  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_what_ends_the_unpacking_ends_the_reading(
    error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "some.pcap.gz"
    path.write_bytes(gzip.compress(pcap_file(some_connections(random.Random(1)))))

    def fail(*_: object) -> memoryview:
        raise error("it is enough")

    monkeypatch.setattr(_complete.Whole, "_unpacked", fail)
    if error is KeyboardInterrupt:
        with pytest.raises(error, match="it is enough"):
            read(path, need=Need.NUMBERS)
    else:
        assert len(told(path)) > 1  # Python reads it


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.pcap")
    path.write_bytes(pcap_file(some_connections(random.Random(1))))
    assert is_counted(told(path))


def test_of_a_folder_with_logs_as_much_is_said_as_without_the_kernel() -> None:
    program, said = [sys.executable, "-m", "multitracer", "analyze", str(SAMPLES / "load")], []
    for setting in ("0", "1"):
        environment = os.environ | {native.VARIABLE: setting}
        done = subprocess.run(program, capture_output=True, text=True, check=True, env=environment)
        said.append(done.stdout)
    assert "streams of a traffic generator" in said[0]
    assert said[0] == said[1]


@pytest.mark.parametrize("seed", seeds(60))
def test_what_python_has_to_read_is_read_by_it(seed: int, blocks: int | None, tmp_path: Path) -> None:
    rng = random.Random(seed)
    complete, how = pcap_file(some_connections(rng, others=0.05)), rng.choice(("", "", "gz", "zst"))
    is_pcapng = seed % 2 and not blocks  # in small blocks Python's search behind its damage never ends
    data = bytearray(as_pcapng(complete, rng) if is_pcapng else complete)
    for _ in range(rng.randrange(3)):
        data[rng.randrange(24, len(data))] ^= 1 << rng.randrange(8)
    cut = data[: rng.choice((len(data), rng.randrange(24, len(data))))]
    stored = bytearray(packed(bytes(cut), how))
    if how and rng.random() < 0.5:
        stored[rng.randrange(len(stored) // 2, len(stored))] ^= 1 << rng.randrange(8)
    path = tmp_path / "damaged.pcap"
    path.write_bytes(stored[: rng.choice((len(stored), rng.randrange(len(stored) // 2, len(stored))))])
    read_by_both(lambda: read_capture([path]))
    with python_only():
        try:
            read(path)
        except UNREADABLE as refusal:
            words = str(refusal)
        else:
            words = ""
    if words:
        with pytest.raises(UNREADABLE, match=re.escape(words)):
            read(path, need=Need.NUMBERS)
    else:
        told(path)


def test_a_leap_of_the_times_between_two_blocks_is_left_to_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = bytearray(pcap_file(some_connections(random.Random(2))))
    records, at = [], 24
    while at < len(data):
        records.append(at)
        at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
    leap = records[len(records) // 2]
    for record in records[len(records) // 2 :]:
        seconds = int.from_bytes(data[record : record + 4], "little") + 40 * 86_400
        data[record : record + 4] = seconds.to_bytes(4, "little")
    path, kernel = tmp_path / "leaps.pcap", native.kernel()
    path.write_bytes(data)
    monkeypatch.setattr("parsers._complete._BLOCK_BYTES", leap)  # the first block ends before it
    assert kernel is not None
    assert complete_file(kernel, str(path), limits=native.LIMITS, look=lambda _: None) is None
    told(path)


def test_flows_of_both_versions_are_numbered_in_order(tmp_path: Path) -> None:
    frames = []
    for number, version in enumerate((6, 4, 6, 4)):
        segment = tcp(sport=1000 + number, dport=80, seq=5 + number, flags=ACK, payload=b"x")
        frames.append(frame(segment, version, 0, number))
    path = tmp_path / "begun.pcap"
    path.write_bytes(pcap_file(frames))
    fast, complete = read(path, need=Need.NUMBERS), read_capture([path])
    assert is_counted(fast)
    capture = fast.captures[0]
    capture.tables.segments, capture.tables.sack_blocks = complete.segments, complete.sack_blocks
    capture.tables.syn_options = complete.syn_options
    assert_equal(capture.tables, complete)
    assert_same(capture.analysis, analyse(complete))
