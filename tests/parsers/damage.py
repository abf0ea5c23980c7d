"""Damaged text logs: cut, with bytes and numbers changed, with lines lost, doubled and swapped."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from multitracer.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    from multitracer.capture import CaptureTables
    from multitracer.tables import Table

_WORD = re.compile(rb"[0-9a-fA-F]+|[a-zA-Z_]+|\S")
_STRANGE = [
    b"", b"-1", b"0", b"4294967296", b"18446744073709551616", b"9" * 30, b"9" * 5000, b"1e308", b"nan",
    b"::1", b"256.0.0.1", b"\xff\xfe", b"\0", b"null", b"[" * 2000, b"{}", b'"', b"65536", b"1_0",
    b" ", b"\t", b"\n",
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, sample: bytes) -> bytes:
    """Draw a damaged copy of `sample`."""
    lines = sample.splitlines(keepends=True)
    for _ in range(draw(st.integers(0, 3))):
        line = draw(st.integers(0, len(lines) - 1))
        words = list(_WORD.finditer(lines[line]))
        if words:
            word = words[draw(st.integers(0, len(words) - 1))]
            flagged = draw(st.sampled_from(_STRANGE) | st.binary(max_size=8))
            lines[line] = lines[line][: word.start()] + flagged + lines[line][word.end() :]
    if draw(st.booleans()):
        lines = draw(st.lists(st.sampled_from(lines), max_size=2 * len(lines)))
    data = b"".join(lines)
    return data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data


def survives(parse: Callable[..., CaptureTables | dict[str, Table]], data: bytes) -> dict[str, Table]:
    """Parse damaged data: the outcome is tables, whose schemas check themselves, or a FormatError."""
    try:
        tables = parse(io.BytesIO(data), path="damaged.log")
    except FormatError:
        return {}
    assert isinstance(tables, dict)
    for table in tables.values():
        assert len(list(table.rows())) == len(table)
    return tables


class OneByteAtATime(io.RawIOBase):
    """A stream that gives one byte per read and cannot seek, as a slow pipe does."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        if self._at >= len(self._data):
            return 0
        memoryview(buffer)[0] = self._data[self._at]
        self._at += 1
        return 1


def rows_of(tables: dict[str, Table]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of all tables as plain values, to compare two readings of a log."""
    return {name: list(table.rows()) for name, table in tables.items()}
