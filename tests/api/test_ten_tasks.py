"""Ten tasks of an analyst, each in at most five lines: the programs of docs/python.md, and what they find."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import multitracer as mt
from tests.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

_SECTION = (ROOT / "docs" / "python.md").read_text("utf-8").partition("## Ten tasks")[2]
TASKS = {
    int(number): program
    for fence in re.findall(r"^```python[ run]*\n(.*?)^```$", _SECTION, re.MULTILINE | re.DOTALL)
    for number, program in re.findall(r"^# (\d+)\. .*\n((?:(?!# ).+\n)+)", fence, re.MULTILINE)
}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the names that the tasks without polars bind, and `folder`, where they write."""
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "sample_traces").symlink_to(ROOT / "sample_traces")
    names: dict[str, Any] = {"mt": mt, "folder": folder}
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        for number in range(1, 10):
            exec(compile(TASKS[number], f"task {number}", "exec"), names)
    return names


def test_there_are_ten_of_at_most_five_lines() -> None:
    assert sorted(TASKS) == list(range(1, 11))
    assert all(program.count("\n") <= 5 for program in TASKS.values())


def test_rtt_percentiles_are_of_the_cells_of_the_drive(done: dict[str, Any]) -> None:
    rtt, seconds = done["rtt"], done["seconds"]
    assert len(rtt) > 2_000
    assert set(rtt["cell_id"].dropna()) == set(seconds["cell_id"].dropna())
    assert 0.4e9 < rtt["rtt_ns"].median() < 0.7e9
    of_second = dict(zip(seconds["time_ns"], seconds["cell_id"].fillna(0), strict=True))
    assert [of_second[time.floor("s")] for time in rtt["time_ns"]] == rtt["cell_id"].fillna(0).tolist()


def test_a_weaker_signal_carries_less(done: dict[str, Any]) -> None:
    rates = done["rates"]
    by_level = rates.groupby(rates["rsrp_dbm"].round(-1))["throughput_bps"].median()
    assert by_level.is_monotonic_increasing


def test_the_limits_cover_the_time(done: dict[str, Any]) -> None:
    limits = done["limits"]
    shares = limits.groupby("limit")["seconds"].sum() / limits.attrs["total_s"]
    assert shares.sum() == pytest.approx(1)
    assert shares.idxmax() == mt.Limit.LINK.label


def test_the_worst_seconds_have_their_cause(done: dict[str, Any]) -> None:
    worst = done["worst"]
    assert len(worst) == 10
    assert set(worst["limited_by"]) == {"outage"}
    assert set(worst["cause"]) == {"coverage"}


def test_two_sessions_are_too_few_for_a_difference(done: dict[str, Any]) -> None:
    assert "it needs 6 sessions per side" in done["both"].headline
    assert done["both"].sides == {"rehearsed-drive": 1, "measured-drive": 1}


def test_loss_is_that_of_the_direction_with_data(done: dict[str, Any]) -> None:
    loss = (done["lost"].reindex(done["sent"].index, fill_value=0) / done["sent"]).dropna()
    assert loss.index.tolist() == [(2, True)]
    assert loss.iloc[0] == pytest.approx(done["seconds"]["lost"].sum() / done["seconds"]["sent"].sum(), rel=0.1)


def test_the_plot_was_written(done: dict[str, Any]) -> None:
    folder: Path = done["folder"]
    assert "rsrp_dbm" in (folder / "rates.html").read_text("utf-8")


def test_polars_takes_the_frame(done: dict[str, Any]) -> None:
    exec(TASKS[10], done)
    seconds = done["seconds"]
    assert done["frame"].columns == seconds.columns.tolist()
    assert done["frame"]["cell_id"].null_count() == seconds["cell_id"].isna().sum()
    assert pd.Timestamp(done["frame"]["time_ns"][0]) == seconds["time_ns"].iloc[0]
