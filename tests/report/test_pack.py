"""What Python packs, the page's JavaScript unpacks, number by number."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.figures.series import Series
from multitracer.report import page
from multitracer.report.packed_columns import columns_of, common_tick_ns, fitted, pack_columns

if TYPE_CHECKING:
    from pathlib import Path

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
    assert unpacked_columns(pack_columns({"value": np.array(numbers, np.int64)})) == {"value": numbers}


@given(st.lists(_INT64, max_size=20))
def test_any_numbers_stay_within_ten_bytes_each(numbers: list[int]) -> None:
    packed = pack_columns({"value": np.array(numbers, np.int64)})
    assert len(base64.b64decode(packed["data"])) <= 10 * len(numbers)


def test_a_steady_transfer_costs_few_bytes() -> None:
    rows = np.arange(20_000)
    random = np.random.default_rng(5)
    times = 1_700_000_000_000_000_000 + np.sort(random.integers(0, 8 * 10**9, len(rows)))
    steady = Series("d", "data", times, 1448 * rows, frame=2 * rows)
    assert fitted([steady], 10**9, origin_ns=int(times[0]), packets=[True]).size <= 6 * len(rows)


@pytest.mark.parametrize(("step_ns", "tick_ns"), [(1, 1), (70, 10), (1_000, 1_000), (10**9, 1_000)])
def test_the_tick_is_as_coarse_as_all_times_allow(step_ns: int, tick_ns: int) -> None:
    series = Series("d", "data", 1_700_000_000_000_000_000 + np.arange(9) * step_ns, np.arange(9))
    assert common_tick_ns([series], 1_700_000_000_000_000_000) == tick_ns


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
    origin = int(series.time_ns[0]) - 1_000
    packed = pack_columns(columns_of(series, origin, 1)) | {"tick_s": 1e-9, "scale": 1}
    points = fitted([series], 10**9, origin_ns=origin, packets=[True])
    stored = points.entries[0] | {"tick_s": points.tick_ns / 1e9, "scale": 1}
    code = "".join(page.own_file(f"points/{name}.js") for name in ("decoder", "table"))
    facts = json.dumps([packed, stored, points.lines])
    (tmp_path / "p.html").write_text(f"<script>{code}</script><script>facts = {facts}</script>")
    browser.open(tmp_path / "p.html")
    numbers = "(table) => Object.fromEntries(Object.entries(table).map(([k, v]) => [k, [...v]]))"
    for expression in (
        "Promise.resolve(Columns.table(facts[0]))",
        "Decoder.table(facts[1], facts[1].lines.map((n) => facts[2][n]), () => undefined)",
    ):
        read = browser.evaluate(f"{expression}.then({numbers})")
        np.testing.assert_allclose(read["time"], (series.time_ns - origin) / 1e9, rtol=0, atol=1e-10)
        for name in ("value", "until", "frame", "file"):
            np.testing.assert_array_equal(read[name], getattr(series, name), err_msg=name)
