"""A file that a thread reads ahead is read as without it: the same windows, the same end."""

from __future__ import annotations

import io
import random
from typing import TYPE_CHECKING

import pytest

from multitracer.errors import FormatError
from parsers._capture.ahead import AheadStream
from parsers._capture.window import StreamWindow

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIZE = 200_000
DATA = random.Random(1).randbytes(3_000_000)


class Broken(io.BytesIO):
    """A stream whose end is damaged."""

    def readinto1(self, buffer: memoryview) -> int:  # type: ignore[override]
        if n := super().readinto1(buffer):
            return n
        raise FormatError("here", "worn out", offset=7)


def windows(stream: io.BytesIO | AheadStream, left: list[int]) -> Iterator[tuple[int, bytes, bool, str | None]]:
    """Yield offset, content, facts of each window; of the first ones `left` bytes are kept for the next."""
    window, each = StreamWindow(stream, size=_SIZE), iter(left)
    while window.refill():
        yield window.offset, bytes(window.view[window.begin : window.end]), window.is_full, window.damage
        window.begin = max(window.begin, window.end - next(each, 100))


@pytest.mark.parametrize("kind", [io.BytesIO, Broken])
@pytest.mark.parametrize(
    "left", [[], [0] * 9, [64 * 1024] * 9, [64 * 1024 + 1] * 5, [100] * 4 + [199_999] * 3, [0, 9] + [150_000] * 9]
)
def test_windows_are_those_of_the_stream_alone(kind: type[io.BytesIO], left: list[int]) -> None:
    alone = list(windows(kind(DATA), left))
    with AheadStream(kind(DATA)) as stream:
        assert list(windows(stream, left)) == alone
    assert alone[-1][0] + len(alone[-1][1]) == len(DATA)


def test_the_file_may_be_closed_behind_it() -> None:
    file = io.BytesIO(DATA)
    with AheadStream(file) as stream:
        window = StreamWindow(stream, size=_SIZE)
        for _ in range(5):
            window.refill()
            window.begin = window.end
    place = file.tell()
    file.close()
    assert place == 6 * _SIZE - 64 * 1024  # a thread had begun with the next window
