"""What the kernel unpacks by itself is what Python's reading of a Zstandard file gives."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import pytest
import zstandard

from multitracer import native
from multitracer.recording.inputs import UNREADABLE
from multitracer.recording.read import Need, read
from parsers._complete import complete_file
from tests.examples import seeds
from tests.native.both import python_only
from tests.native.test_whole import told
from tests.native.traffic import some_connections
from tests.parsers.frames import pcap_file

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.native import Kernel

pytestmark = pytest.mark.skipif(native.kernel() is None, reason=f"captures are read by {native.state()}")


def kernel() -> Kernel:
    """Return the kernel, which these tests need."""
    found = native.kernel()
    assert found is not None
    return found


def is_read_by_kernel(path: Path) -> bool:
    """Return whether the kernel reads the whole file by itself."""
    return complete_file(kernel(), str(path), limits=None, look=lambda _: None) is not None


def skippable(rng: random.Random) -> bytes:
    """Return a frame that is stepped over (RFC 8878, section 3.1.2)."""
    payload = rng.randbytes(rng.choice((0, 1, 5, 200_000)))
    return struct.pack("<2I", 0x184D2A50 + rng.randrange(16), len(payload)) + payload


def frame(data: bytes, rng: random.Random) -> bytes:
    """Return data as one frame: with or without its size and a checksum, in one block or in several."""
    packer = zstandard.ZstdCompressor(
        level=rng.choice((-5, 1, 3, 9)), write_checksum=rng.random() < 0.5, write_content_size=rng.random() < 0.5
    )
    if rng.random() < 0.5:
        return packer.compress(data)
    stream, chunks = packer.compressobj(), []
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(3))
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        chunks += [stream.compress(data[begin:end]), stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)]
    return b"".join([*chunks, stream.flush()])


def frames(data: bytes, rng: random.Random) -> bytes:
    """Return data as some frames, empty ones and others to skip among them."""
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(6)))
    made = [frame(data[begin:end], rng) for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    return b"".join(each + (skippable(rng) if rng.random() < 0.3 else b"") for each in made)


def capture(rng: random.Random, min_bytes: int = 0) -> bytes:
    """Return a pcap file with connections of random payload, which cannot be packed."""
    data = pcap_file(some_connections(rng))
    while len(data) < min_bytes:
        data += pcap_file(some_connections(rng))[24:]
    return data


@pytest.mark.parametrize("seed", seeds(30))
def test_any_frames(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    path = tmp_path / "some.pcap.zst"
    path.write_bytes(frames(capture(rng, rng.choice((0, 400_000))), rng))
    assert is_read_by_kernel(path)
    told(path)


def test_a_frame_may_begin_at_any_place(tmp_path: Path) -> None:
    rng = random.Random(5)
    data, path = capture(rng, 10_000), tmp_path / "some.pcap.zst"
    head = frame(data[:5_000], rng)
    for left in range(6):  # of the 128 KiB that are read at a time
        filler = bytes.fromhex("502a4d18") + (131_072 - len(head) - 8 - left).to_bytes(4, "little")
        path.write_bytes(head + filler.ljust(131_072 - len(head) - left, b"\0") + frame(data[5_000:], rng))
        assert is_read_by_kernel(path), left
        told(path)


@pytest.mark.parametrize("seed", seeds(30))
def test_damage_is_left_to_python(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    path = tmp_path / "some.pcap.zst"
    packer = zstandard.ZstdCompressor(write_checksum=True)
    complete = packer.compress(capture(rng, 400_000))
    unexpected = bytearray(complete)
    if seed % 3 == 0:
        unexpected = unexpected[: rng.randrange(len(unexpected) // 2, len(unexpected))]
    elif seed % 3 == 1:
        unexpected[rng.randrange(len(unexpected) // 2, len(unexpected))] ^= 1 << rng.randrange(8)
    else:
        unexpected += rng.randbytes(rng.randrange(1, 9))
    path.write_bytes(unexpected)
    assert not is_read_by_kernel(path)
    told(path)


def test_a_window_is_no_larger_than_python_takes(tmp_path: Path) -> None:
    data, path = capture(random.Random(1)), tmp_path / "some.pcap.zst"
    for log in (26, 27):
        settings = zstandard.ZstdCompressionParameters(window_log=log)
        stream = zstandard.ZstdCompressor(compression_params=settings).compressobj()
        path.write_bytes(stream.compress(data) + stream.flush())
        assert is_read_by_kernel(path) == (log == 26)
    with pytest.raises(UNREADABLE, match="requires too much memory"), python_only():
        read(path, need=Need.NUMBERS)


def test_how_much_it_expands_is_told(tmp_path: Path) -> None:
    data, path = capture(random.Random(1)), tmp_path / "some.pcap.zst"
    path.write_bytes(zstandard.compress(data))
    complete = complete_file(kernel(), str(path), limits=None, look=lambda _: None)
    assert complete is not None
    assert complete.source.bytes == len(data)
    assert complete.source.expansion_ratio == len(data) / path.stat().st_size
