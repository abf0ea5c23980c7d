"""Values at equal intervals without times: `formats --propose FILE --start TIME --step SECONDS`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import multitracer as mt
from tests.cli.program import call

if TYPE_CHECKING:
    from pathlib import Path

S = 1_000_000_000


def read(tmp_path: Path, text: str, *options: str) -> list[tuple[int, float]]:
    path = tmp_path / "values.csv"
    path.write_text(text)
    proposal = call("formats", "--propose", path, "--start", "2026-02-03T10:00:00Z", *options).stdout
    (tmp_path / "values.csv.toml").write_text(proposal)
    radio = mt.open(path).radio
    times = (radio["time_ns"].astype("int64") // S).tolist()
    return list(zip(times, radio["downlink_bps"].tolist(), strict=True))


def test_a_unit_beside_each_value_is_used(tmp_path: Path) -> None:
    rows = read(tmp_path, "3.97,Mbits/sec\n512,Kbits/sec\n0.00,bits/sec\n4.1,Mbits/sec\n5,Mbits/sec\n")
    assert [at for at, _ in rows] == list(range(1_770_112_800, 1_770_112_805))
    assert [value for _, value in rows] == pytest.approx([3.97e6, 512e3, 0.0, 4.1e6, 5e6])


def test_a_header_and_another_step(tmp_path: Path) -> None:
    rows = read(tmp_path, "rate (kbit/s)\n100\n200\n300\n", "--step", "10")
    assert [at - rows[0][0] for at, _ in rows] == [0, 10, 20]
    assert [value for _, value in rows] == [1e5, 2e5, 3e5]


def test_the_error_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("3.97,Mbits/sec\n" * 20)
    assert "--start TIME --step SECONDS" in call("inspect", tmp_path / "v.csv", status=1).stderr
    (tmp_path / "v.csv.toml").write_text('header = false\n[time]\nstart = "soon"\n[radio]\ndownlink_bps = "1"\n')
    assert '"start" of [time]' in call("inspect", tmp_path / "v.csv", status=1).stderr


@pytest.mark.fixtures
def test_the_rates_of_a_bus_are_mapped(fixture_folder: Path, tmp_path: Path) -> None:
    source = fixture_folder / "reports" / "public" / "nyu_bus57.csv"
    if not source.exists():
        pytest.skip("no reports")
    rows = read(tmp_path, source.read_text())
    assert len(rows) == 2403
    assert rows[0][1] == pytest.approx(3.97e6)
    assert rows[-1][0] - rows[0][0] == 2402
