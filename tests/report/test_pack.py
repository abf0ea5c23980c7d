"""What Python packs, the page's JavaScript unpacks, number by number."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.figures.downsample import levels
from multitracer.figures.series import Series
from multitracer.report import embed, page
from multitracer.report.pack import pack, tick_for, varints

if TYPE_CHECKING:
    from tests.report.chromium import Browser

_INT64 = st.integers(-(2**63), 2**63 - 1)


def unpacked(data: bytes, count: int) -> tuple[list[int], bytes]:
    """Return numbers by the definition in pack.py, and the bytes after them."""
    numbers, number = [], 0
    for _ in range(count):
        zigzag = shift = 0
        while True:
            byte, data = data[0], data[1:]
            zigzag |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        number += zigzag // 2 if zigzag % 2 == 0 else -(zigzag + 1) // 2
        numbers.append(number)
    return numbers, data


def unpacked_columns(packed: dict[str, Any]) -> dict[str, list[int]]:
    """Return the columns of `pack_columns` again."""
    data, columns = base64.b64decode(packed["data"]), {}
    for name in packed["columns"]:
        columns[name], data = unpacked(data, packed["points"])
    assert data == b""
    return columns


@given(st.lists(st.integers(-(2**61), 2**61), max_size=40))
def test_varints_are_the_numbers_again(numbers: list[int]) -> None:
    assert unpacked(varints(np.array(numbers, np.int64)), len(numbers)) == (numbers, b"")


@given(st.lists(_INT64, max_size=20))
def test_any_numbers_stay_within_ten_bytes_each(numbers: list[int]) -> None:
    assert len(varints(np.array(numbers, np.int64))) <= 10 * len(numbers)


def test_a_steady_transfer_costs_few_bytes() -> None:
    rows = np.arange(20_000)
    steady = Series("d", "data", 1_700_000_000_000_000_000 + rows * 412_345, 1448 * rows, frame=2 * rows)
    packed = pack(
        steady, np.zeros(len(rows), np.uint8), of=len(rows), origin_ns=int(steady.time_ns[0]), tick_ns=1
    )
    assert len(base64.b64decode(packed["data"])) <= 8 * len(rows)


@pytest.mark.parametrize(
    ("span_ns", "tick_ns"), [(0, 1), (10**10, 1), (10**10 + 10, 10), (3600 * 10**9, 1000)]
)
def test_the_tick_cuts_the_span_into_ten_billion_parts(span_ns: int, tick_ns: int) -> None:
    assert tick_for(span_ns) == tick_ns
    assert span_ns // tick_ns <= 10**10


def sample(points: int) -> Series:
    random = np.random.default_rng(7)
    times = 1_700_000_000_000_000_000 + np.sort(random.integers(0, 9 * 10**9, points))
    return Series(
        "TcpSnd_sack",
        "sack",
        times,
        random.integers(-(2**40), 2**40, points),
        until=random.integers(-(2**40), 2**40, points),
        frame=random.integers(1, 2**32, points),
        file=random.integers(0, 3, points),
    )


@pytest.mark.browser
def test_the_page_reads_what_python_wrote(browser: Browser, tmp_path: Path) -> None:
    series = sample(5_000)
    kept, level = levels(series, bins=8192)
    origin = int(series.time_ns[0]) - 1_000
    packed = pack(kept, level, of=len(series), origin_ns=origin, tick_ns=1)
    script = (Path(embed.__file__).parent / "figure.js").read_text()
    (tmp_path / "p.html").write_text(f"<script>{script}</script><script>pack = {json.dumps(packed)}</script>")
    browser.open(tmp_path / "p.html")
    read = browser.evaluate(
        "Object.fromEntries(Object.entries(Figures.unpack(pack)).map(([k, v]) => [k, [...v]]))"
    )
    np.testing.assert_allclose(read["time"], (kept.time_ns - origin) / 1e9, rtol=0, atol=1e-10)
    assert kept.until is not None
    for name, column in (
        ("value", kept.value),
        ("until", kept.until - kept.value),
        ("frame", kept.frame),
        ("file", kept.file),
        ("level", level),
    ):
        np.testing.assert_array_equal(read[name], column, err_msg=name)


def test_plotly_is_never_imported_for_its_javascript() -> None:
    assert page.plotly_js().count("</script") == 0
    assert len(page.plotly_js()) > 1_000_000
