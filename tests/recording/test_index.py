"""The index of a large capture: only what a window needs is read, and a wrong index says nothing wrong."""

from __future__ import annotations

import json
import os
import resource
import struct
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from multitracer.analysis.streaming import StreamLimits
from multitracer.recording import index as index_module
from multitracer.recording.inputs import find_inputs
from multitracer.recording.read import read
from multitracer.recording.window import Window, WindowEdge
from parsers import PacketBlock
from tests.benchmarks.endless import BLOCK_BYTES, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from multitracer.recording.recording import Recording

SIZE = 13 * BLOCK_BYTES
MS = 1_000_000


@pytest.fixture
def capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a capture of five blocks, 260 ms long, for which indexes are kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(index_module, "MIN_BYTES", 0)
    path = tmp_path / "large.pcap"
    with path.open("wb") as stream:
        write(stream, SIZE)
    return path


class _Counter:
    """Progress that notes how far a file was read."""

    phase = "reading"

    def __init__(self) -> None:
        self.most_bytes = 0

    def __call__(self, stored_bytes: int) -> None:
        self.most_bytes = max(self.most_bytes, stored_bytes)


def window(begin_ms: int | None, end_ms: int | None) -> Window:
    """Return a window in ms since the first packet."""
    return Window(*(None if ms is None else WindowEdge(ms * MS, relative=True) for ms in (begin_ms, end_ms)))


def summary(recording: Recording) -> Any:
    """Return all that is said of a recording."""
    capture = recording.captures[0]
    directions = [
        {name: value for name, value in row.items() if value == value}  # noqa: PLR0124  # not a number
        for row in capture.analysis.directions.rows()
    ]
    ends = capture.analysis.endpoints()
    return capture.tables.files, capture.analysis.trust, ends, directions, recording.warnings


def streamed(path: Path, of: Window) -> tuple[Any, int]:
    """Return what a stream says of a window, and how many bytes it read."""
    counter = _Counter()
    recording = read(find_inputs(path), window=of, progress=counter, limits=StreamLimits())
    return summary(recording), counter.most_bytes


def kept(path: Path) -> Path:
    """Return the one index that there is."""
    (file,) = (path.parent / "cache" / "multitracer" / "index").iterdir()
    return file


@pytest.mark.parametrize("of", [(100, 110), (None, 60), (200, None), (0, 5), (250, 400), (400, 500)])
def test_a_window_is_read_in_part_and_says_the_same(capture: Path, of: tuple[int | None, int | None]) -> None:
    complete = summary(read(find_inputs(capture), window=window(*of)))
    first, read_first = streamed(capture, window(*of))
    again, read_then = streamed(capture, window(*of))
    assert first == again == complete
    assert read_first == capture.stat().st_size
    assert read_then < read_first


def test_the_folder_of_indexes_is_the_users_alone(capture: Path) -> None:
    streamed(capture, window(0, 5))
    assert kept(capture).parent.stat().st_mode & 0o777 == 0o700
    assert kept(capture).stat().st_mode & 0o077 == 0


def test_a_disk_without_room_keeps_no_part_of_an_index(capture: Path) -> None:
    streamed(capture, window(0, 5))
    folder, files = kept(capture).parent, read(find_inputs(capture)).captures[0].tables.files
    kept(capture).unlink()
    (first_ns, last_ns), packets = (files[0].first_ns, files[0].last_ns), files[0].packets
    assert first_ns is not None
    assert last_ns is not None
    blocks = [PacketBlock(24, packets, first_ns, last_ns)]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))  # the next byte is refused as on a full disk
    try:
        index_module.keep_index(str(capture), index_module.state_of(str(capture)), blocks, files)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(folder.iterdir()) == []
    index_module.keep_index(str(capture), index_module.state_of(str(capture)), blocks, files)
    assert kept(capture).exists()


def _edited(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def edit(file: Path) -> None:
        document = json.loads(file.read_text().partition("\n")[2])
        change(document)
        file.write_bytes(index_module.sealed(json.dumps(document).encode()))

    return edit


def _shifted(document: dict[str, Any]) -> None:
    for block in document["blocks"][1:]:
        block[0] += 100


def _moved(document: dict[str, Any]) -> None:
    first, second = document["blocks"][:2]
    first[1], second[1] = first[1] + 1, second[1] - 1


def _flipped(name: str) -> Callable[[Path], None]:
    """Return what flips a bit of the first digit of a number."""

    def flip(file: Path) -> None:
        content = bytearray(file.read_bytes())
        content[content.index(f'"{name}": '.encode()) + len(name) + 4] ^= 4  # "1" becomes "5"
        file.write_bytes(content)

    return flip


def _link(file: Path) -> None:
    file.rename(file.parent.parent / "elsewhere.json")
    file.symlink_to(file.parent.parent / "elsewhere.json")


def _fold(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


WRONG: dict[str, Callable[[Path], object]] = {
    "cut": lambda file: file.write_text(file.read_text()[:-20]),
    "empty": lambda file: file.write_text(""),
    "no text": lambda file: file.write_bytes(bytes(range(256))),
    "nested": lambda file: file.write_text("[" * 100_000),
    "a list": lambda file: file.write_text("[]"),
    "no blocks": _edited(lambda d: d.update(blocks=[])),
    "no facts": _edited(lambda d: d.pop("facts")),
    "offsets within packets": _edited(_shifted),
    "an offset outside": _edited(lambda d: d["blocks"][-1].__setitem__(0, 1 << 40)),
    "an offset below": _edited(lambda d: d["blocks"][0].__setitem__(0, -5)),
    "an offset too large for 64 bits": _edited(lambda d: d["blocks"][-1].__setitem__(0, 1 << 70)),
    "offsets in disorder": _edited(lambda d: d["blocks"].reverse()),
    "other counts": _edited(lambda d: [d["blocks"][1].__setitem__(1, 5), d["facts"].update(packets=5)]),
    "a count that moved": _edited(_moved),
    "a block that is missing": _edited(lambda d: d["blocks"].pop(2)),
    "a path in the facts": _edited(lambda d: d["facts"].update(path="/etc/passwd")),
    "numbers as text": _edited(lambda d: d["facts"].update(packets="5")),
    "not a number": _edited(lambda d: d["facts"].update(first_ns=float("nan"))),
    "another size": _edited(lambda d: d["state"].update(size=5)),
    "another version": _edited(lambda d: d["state"].update(version="0.0.1")),
    "a flipped bit in a time": _flipped("last_ns"),
    "a flipped bit in a count": _flipped("tcp"),
    "a link": _link,
    "a pipe": _pipe,
    "a folder": _fold,
    "others may write": lambda file: file.chmod(0o666),
    "others may enter": lambda file: file.parent.chmod(0o755),
    "too large": lambda file: os.truncate(file, 1 << 30),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_index_is_not_believed(capture: Path, what: str) -> None:
    complete, _ = streamed(capture, window(100, 110))
    WRONG[what](kept(capture))
    assert streamed(capture, window(100, 110))[0] == complete


def test_a_link_instead_of_the_folder_of_indexes_is_not_followed(capture: Path) -> None:
    streamed(capture, window(100, 110))
    folder = kept(capture).parent
    folder.rename(folder.with_name("of-somebody-else"))
    folder.symlink_to(folder.with_name("of-somebody-else"))
    assert index_module.index_of(str(capture)) is None
    before = sorted(path.stat().st_mtime_ns for path in folder.iterdir())
    streamed(capture, window(100, 110))
    assert sorted(path.stat().st_mtime_ns for path in folder.iterdir()) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
@pytest.mark.parametrize("place", [lambda file: file, lambda file: file.parent])
def test_an_index_of_somebody_else_is_not_believed(capture: Path, place: Callable[[Path], Path]) -> None:
    streamed(capture, window(100, 110))
    os.chown(place(kept(capture)), 12_345, 12_345)
    assert index_module.index_of(str(capture)) is None


def _with_other_time(path: Path) -> None:
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))


def _with_other_bytes(path: Path) -> None:
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    with path.open("r+b") as file:
        file.seek(5000)
        file.write(b"other")
    os.utime(path, ns=times)


def _longer(path: Path) -> None:
    with path.open("ab") as file:
        file.write(bytes(5))


@pytest.mark.parametrize("change", [_with_other_time, _with_other_bytes, _longer])
def test_a_capture_that_changed_has_no_index(capture: Path, change: Callable[[Path], None]) -> None:
    streamed(capture, window(100, 110))
    assert index_module.index_of(str(capture)) is not None
    change(capture)
    assert index_module.index_of(str(capture)) is None


def test_a_pipe_at_the_place_of_a_capture_is_opened_by_its_reader_alone(capture: Path) -> None:
    complete, _ = streamed(capture, window(100, 110))
    content = capture.read_bytes()
    capture.unlink()
    os.mkfifo(capture)
    with ThreadPoolExecutor(1) as writer:
        written = writer.submit(capture.write_bytes, content)
        assert streamed(capture, window(100, 110))[0] == complete
        assert written.result() == len(content)


def _block(kind: int, body: bytes) -> bytes:
    length = 12 + len(body)
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


SECTION = _block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
INTERFACE = _block(1, struct.pack("<HHI", 1, 0, 0))


def _pcapng(path: Path, middle: bytes, interface: int = 0) -> Path:
    """Write a capture of two windows and more, with other blocks in its middle."""
    frame = bytes(60_000)

    def packets(begin: int, interface: int) -> bytes:
        return b"".join(
            _block(6, struct.pack("<5I", interface, 0, (begin + i) * 1000, len(frame), len(frame)) + frame)
            for i in range(90)
        )

    path.write_bytes(SECTION + INTERFACE + packets(0, 0) + middle + packets(90, interface))
    return path


@pytest.mark.parametrize(
    ("middle", "interface", "has_index"), [(b"", 0, True), (INTERFACE, 1, False), (SECTION + INTERFACE, 0, False)]
)
def test_only_a_pcapng_of_which_each_part_can_be_read_has_an_index(
    capture: Path, middle: bytes, interface: int, has_index: bool
) -> None:
    path = _pcapng(capture.with_suffix(".pcapng"), middle, interface)
    complete = summary(read(find_inputs(path), window=window(150, 160)))
    assert streamed(path, window(150, 160))[0] == streamed(path, window(150, 160))[0] == complete
    assert (index_module.index_of(str(path)) is not None) == has_index
