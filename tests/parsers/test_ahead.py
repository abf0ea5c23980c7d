"""Reading ahead gives what reading alone gives, with the same errors, and leaves no thread behind."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.errors import FormatError
from parsers._capture.ahead import ahead
from parsers._capture.window import StreamWindow
from parsers._chunks import read_capture
from tests.native.both import assert_equal
from tests.parsers.frames import enhanced, frame, interface, pcap_file, section

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from parsers._packets.layers import PacketRecords

FRAMES = [frame(seq=2000 * n, payload=bytes(1000 + n % 50)) for n in range(1500)]


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("reads ahead")]


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make windows of 300 kB, so that a capture has several."""
    defaults = StreamWindow.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "size", 300_000)


def damaged(data: bytes) -> bytes:
    return data[:700_000] + b"\xff" * 9_000 + data[709_000:]


CAPTURES = {
    "pcap": pcap_file(FRAMES),
    "pcapng": b"".join([section(), interface(), *map(enhanced, FRAMES)]),
    "damaged pcap": damaged(pcap_file(FRAMES)),
    "damaged pcapng": damaged(b"".join([section(), interface(), *map(enhanced, FRAMES)])),
    "cut pcap": pcap_file(FRAMES)[:-7],
}


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("what", CAPTURES)
def test_a_file_read_ahead_is_read_as_without(what: str, tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(CAPTURES[what])
    read = partial(read_capture, [path])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("parsers._chunks.ahead", lambda blocks: blocks)
        alone = read()
    ahead_of_it = read()
    assert len(alone.segments) > 1_400
    assert_equal(ahead_of_it, alone)
    assert not threads()


def block(number: int) -> PacketRecords:
    """Return what takes a block's place here; only its order matters."""
    return np.full(1, number)  # type: ignore[return-value]


def test_one_block_is_read_while_the_one_before_is_used() -> None:
    read = []
    is_read = [threading.Event() for _ in range(6)]

    def blocks() -> Iterator[PacketRecords]:
        for number in range(6):
            read.append(threading.current_thread().name)
            is_read[number].set()
            yield block(number)

    for number, each in enumerate(ahead(blocks())):
        assert np.array_equal(np.asarray(each), [number])
        if 2 <= number < 5:
            assert is_read[number + 1].wait(timeout=60)
            assert len(read) == number + 2
    assert all(name.startswith("reads ahead") for name in read[3:])
    assert not threads()


def test_a_failure_comes_after_the_blocks_before_it() -> None:
    def blocks() -> Iterator[PacketRecords]:
        yield from map(block, range(4))
        raise FormatError("x", "is broken", offset=7)

    each = ahead(blocks())
    for _ in range(4):
        next(each)
    with pytest.raises(FormatError, match="is broken"):
        next(each)
    assert not threads()


def test_who_stops_early_leaves_no_thread() -> None:
    each = ahead(map(block, range(100)))
    for _ in range(5):
        next(each)
    each.close()
    assert not threads()
